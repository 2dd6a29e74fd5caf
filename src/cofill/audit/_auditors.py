"""One auditor for each type of release: an attack, or a stated reason why there is none.

A new type of release needs one class (`cofill.privacy.Release`) and one auditor under its kind,
here or at the entry point ``cofill.auditors`` of an installed package. An audit fails at a type
without one, because it would leave out something that has left.
"""

from collections.abc import Callable, Sequence
from typing import Any

from cofill.audit._bound import bound_of_event
from cofill.audit._evidence import Evidence
from cofill.audit._release import AuditedRelease, Claim
from cofill.privacy import LedgerEntry, compose, epsilon, resolve_relation
from cofill.registry import Registry

Auditor = Callable[[Sequence[LedgerEntry], Sequence[Any], Evidence], AuditedRelease]
"""Audits what one sender has sent of one type.

It gets the ledger's entries (at least one), the releases themselves as they left (none where the
run kept none), and the owner's evidence. It returns leaks, or the reason why nothing was attacked.
"""

AUDITORS = Registry("cofill.auditors", "auditor")
"""Auditors by the kind of release; those that attack come first."""

_DELTA = 1e-5  # of releases that state none

CERTAIN: dict[str, Any] = {"scope": "individual", "floor": 0.0, "ceiling": 1.0}
"""Of leaks that are read off: who guesses reads nothing, and nothing is left to chance."""


def describe_entries(entries: Sequence[LedgerEntry], words: str) -> dict[str, Any]:
    """Return the fields that every `AuditedRelease` takes from ledger entries."""
    first = entries[0]
    return {
        "kind": first.kind,
        "sender": first.sender,
        "receiver": ", ".join(dict.fromkeys(entry.receiver for entry in entries)),
        "what": f"{words}, sent {len(entries)} times" if len(entries) > 1 else words,
        "individuals": max(entry.individuals for entry in entries),
        "bytes": sum(entry.bytes for entry in entries),
    }


def describe_guarantee(entries: Sequence[LedgerEntry]) -> dict[str, Any]:
    """Return the accountant's ε of releases with noise, and the ε that a test of it proves."""
    # The same noisy values, sent again, cost nothing more: one event a digest.
    events = {e.digest or str(k): e.event for k, e in enumerate(entries) if e.event is not None}
    if not events:
        return {}
    is_partial = any(e.event is not None and e.epsilon is None for e in entries)
    composed = compose(events.values())
    delta = next((e.delta for e in entries if e.delta is not None), _DELTA)
    neighbours, unit = resolve_relation((composed,), None, None)
    return {
        "claim": Claim(
            epsilon=epsilon(composed, delta, neighbours=neighbours, unit=unit),
            delta=delta,
            neighbours=neighbours,
            unit=unit,
            by="the accountant" + (", for what the noise covers" if is_partial else ""),
        ),
        "proof": bound_of_event(composed, delta=delta),
    }


def not_attacked(words: str, reason: str, *, personal: bool = True) -> Auditor:
    """Return an auditor of a type that is not attacked, with the reason."""

    def audit(
        entries: Sequence[LedgerEntry], releases: Sequence[Any], evidence: Evidence
    ) -> AuditedRelease:
        return AuditedRelease(
            **describe_entries(entries, words),
            **describe_guarantee(entries),
            reason=reason,
            personal=personal,
        )

    return audit


for _kind, _function in {
    "codes": "_sent_codes:audit_sent_codes",
    "blinded-ids": "_sent_codes:audit_blinded_ids",
    "column-summary": "_sent_sums:audit_column_summary",
    "update": "_sent_updates:audit_sent_updates",
    "model": "_sent_updates:audit_sent_models",
    "noisy-mean": "_sent_sums:audit_noisy_mean",
    "group-sums": "_sent_sums:audit_group_sums",
    "masked-rows": "_sent_shares:audit_masked_rows",
    "opened-shares": "_sent_shares:audit_opened_shares",
    "padded-cells": "_sent_shares:audit_padded_cells",
    "blinded-points": "_sent_shares:audit_blinded_points",
}.items():
    AUDITORS.add(_kind, f"cofill.audit.{_function}")

for _kind, _words, _reason in (
    (
        "masked-vector",
        "a vector under masks",
        "alone it looks random to fewer sites than the threshold; the sum, which is opened, is in "
        "the common model, which is attacked, or in figures of columns, which are rounded",
    ),
    (
        "encrypted-ids",
        "ids under keys that stay with their makers",
        "private set intersection: a receiver learns who is in both and how many the other has; "
        "breaking the cipher was not tried",
    ),
    (
        "figures",
        "counts and scores of a run",
        "figures over all of a site's people, not noised: one person moves them by about one over "
        "their number; not attacked",
    ),
    (
        "column-scales",
        "how columns are scaled",
        "made from the sites' summaries, or from sums over all sites' rows, of which one person "
        "moves each by about one over their number",
    ),
    (
        "common-features",
        "how the sites of one view make features of their rows",
        "made from rounded sums over all of the view's people; the rows in it were drawn and are "
        "nobody's",
    ),
    (
        "group-centres",
        "centres of groups",
        "made from the sites' sums and from nothing else: what they tell of people, the sums tell",
    ),
    (
        "needs",
        "directions of others' codes that a site uses",
        "weights learned from a pilot's codes and the site's own rows, not noised; not attacked",
    ),
    (
        "columns",
        "names, kinds and categories of columns",
        "categories are values that somebody has, and say of nobody who",
    ),
    (
        "score-shares",
        "shares of errors in cross-validation",
        "their receiver adds them up to errors over all shared people, for each of its columns",
    ),
    (
        "row-flags",
        "who has a row and who is asked, in a shuffled order",
        "the coordinator learns how many people which views share, and cannot tell who they are",
    ),
    (
        "slot-plan",
        "a site's places in the common order, and counts of people",
        "places were drawn at random; counts by set of views are what all sites agreed to tell",
    ),
    (
        "chosen-penalties",
        "penalties chosen by cross-validation",
        "a few bits a column, chosen by errors over all shared people; not attacked",
    ),
    (
        "selected-cells",
        "the completed cells that a site asked for, in shares",
        "these are the cells themselves, the price of completion: their owner's policy limits "
        "whose and how many",
    ),
):
    AUDITORS.add(_kind, not_attacked(_words, _reason), _reason)

_RANDOM = "drawn at random and made from nobody's record"
for _kind, _words, _reason in (
    ("dealt-words", "random words of the dealer", _RANDOM),
    ("pad-key", "a key for pads", _RANDOM),
    ("blinding-part", "a part of the secret of hashes", _RANDOM),
    ("public-keys", "public keys of a round", _RANDOM),
    ("roster", "everybody's public keys", _RANDOM),
    ("sealed-shares", "encrypted shares of random secrets", _RANDOM),
    ("revealed-shares", "shares of random secrets, opened", _RANDOM),
    ("survivors", "names of the sites that are left", "names of sites, not of people"),
):
    AUDITORS.add(_kind, not_attacked(_words, _reason, personal=False), _reason)
