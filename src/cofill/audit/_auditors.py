"""One auditor for each type of release: an attack, or a stated reason why there is none.

An auditor is given all releases of its type by one sender, as the ledger has them, and the owner's
evidence. Every type that a gate lets pass has one here; a type without is no small thing, and the
audit fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.attack import DecoderSettings, Leak, infer_attribute, share_leak
from cofill.audit._anonymity import anonymity
from cofill.audit._bound import bound_of_event
from cofill.audit._codes import code_leaks, linkage_leaks, named
from cofill.audit._evidence import Evidence
from cofill.audit._release import AuditedRelease, Claim, receivers_of
from cofill.audit._rounds import RoundWatch
from cofill.audit._update import inverted
from cofill.nets import FusionSettings
from cofill.privacy import LedgerEntry, blind, compose, epsilon, resolve_relation
from cofill.views import Scaler, View

__all__ = ["AUDITORS", "Auditor"]

Auditor = Callable[[Sequence[LedgerEntry], Evidence], AuditedRelease]

_DELTA = 1e-5
_ENOUGH = 20  # people, below which no attack is tried
_MOST_ROWS = 32  # of a round whose update is inverted


def _facts(entries: Sequence[LedgerEntry], words: str) -> dict[str, Any]:
    """Return what every audited release says of ledger entries."""
    first = entries[0]
    most: dict[str, int] = {}
    for entry in entries:
        most[entry.receiver] = max(most.get(entry.receiver, 0), entry.individuals)
    return {
        "kind": first.kind,
        "sender": first.sender,
        "receiver": receivers_of([entry.receiver for entry in entries]),
        "what": f"{words}, sent {len(entries)} times" if len(entries) > 1 else words,
        "individuals": max(most.values()),
        "bytes": sum(entry.bytes for entry in entries),
    }


def _promised(entries: Sequence[LedgerEntry]) -> dict[str, Any]:
    """Return the accountant's ε of releases with noise, and the ε that a test of it proves."""
    events = {e.digest or str(k): e.event for k, e in enumerate(entries) if e.event is not None}
    if not events:
        return {}
    bare = any(e.event is not None and e.epsilon is None for e in entries)
    every = compose(events.values())
    delta = next((e.delta for e in entries if e.delta is not None), _DELTA)
    neighbours, unit = resolve_relation((every,), None, None)
    return {
        "claim": Claim(
            epsilon=epsilon(every, delta, neighbours=neighbours, unit=unit),
            delta=delta,
            neighbours=neighbours,
            unit=unit,
            by="the accountant" + (", for what the noise covers" if bare else ""),
        ),
        "proof": bound_of_event(every, delta=delta),
    }


def _without(words: str, reason: str, *, personal: bool = True) -> Auditor:
    """Return an auditor of a type that is not attacked, with the reason."""

    def audit(entries: Sequence[LedgerEntry], evidence: Evidence) -> AuditedRelease:
        return AuditedRelease(
            **_facts(entries, words), **_promised(entries), reason=reason, personal=personal
        )

    return audit


# --- codes ----------------------------------------------------------------------------------------


def _codes(entries: Sequence[LedgerEntry], evidence: Evidence) -> AuditedRelease:
    view = str(entries[0].facts.get("view", entries[0].sender))
    width = entries[0].facts.get("width", 0)
    facts = {**_facts(entries, f"codes of {width} numbers each"), "individuals": _told(entries)}
    if view not in evidence.sites:
        return AuditedRelease(**facts, **_promised(entries), reason=evidence.why_not(view))
    rows, codes = evidence.rows(view), evidence.encoded(view)
    facts["individuals"] = min(_told(entries), len(rows))
    whole = ~np.isnan(rows).any(axis=1)
    notes = []
    if whole.sum() < _ENOUGH:
        whole = np.ones(len(rows), bool)
        notes.append("rows with empty cells are attacked as if the cells were average")
    elif not whole.all():
        notes.append(f"{int((~whole).sum())} rows with empty cells are not attacked")
    if whole.sum() < _ENOUGH:
        return AuditedRelease(
            **facts,
            reason=f"{int(whole.sum())} people are too few to tell a leak from chance",
        )
    version = evidence.version(view)
    told = {str(e.facts.get("version")): e.facts.get("width", 0) for e in entries}
    if len(told) > 1:
        notes.append(
            f"codes by {len(told)} encoders were sent; where a pilot sent wider ones first, its "
            "people are as exposed as without a defence, and this attack is on the last ones"
        )
    if version not in told:
        notes.append(
            "the encoder trained anew is not the very one of the run (other rows, another machine "
            "or version of cofill): the attack is on codes of its kind"
        )
    ids = evidence.views[view].ids[whole]
    rows, codes = np.nan_to_num(rows[whole]), codes[whole]
    leaks, more = code_leaks(codes, rows, evidence.codes)
    leaks += _blind(codes, rows, evidence)
    leaks += _informed(view, ids, codes, rows, evidence)
    leaks += _attribute(view, ids, codes, evidence)
    leaks += _linked(view, ids, codes, evidence)
    tried = [note for note in more if "without pairs" not in note]
    return AuditedRelease(
        **facts,
        **_promised(entries),
        leaks=leaks,
        anonymity=anonymity(codes, k=evidence.codes.k),
        notes=(*notes, *tried),
    )


def _told(entries: Sequence[LedgerEntry]) -> int:
    """Return of how many people the best-informed receiver has codes: nobody's is sent twice."""
    by: dict[str, int] = {}
    for entry in entries:
        by[entry.receiver] = by.get(entry.receiver, 0) + entry.individuals
    return max(by.values())


def _linear(evidence: Evidence) -> DecoderSettings:
    """Return decoders by ridge regression alone, which take no time."""
    return replace(evidence.codes.decoders, fusion=FusionSettings(hidden=()))


def _blind(codes: np.ndarray, rows: np.ndarray, evidence: Evidence) -> tuple[Leak, ...]:
    """Attack without pairs: a fifth of the people are the public, the others are attacked."""
    if 0 not in evidence.codes.pairs or len(rows) < 5 * _ENOUGH:
        return ()
    turn = np.random.default_rng(evidence.codes.decoders.seed).permutation(len(rows))
    public, rest = turn[: len(rows) // 5], turn[len(rows) // 5 :]
    settings = replace(evidence.codes, pairs=(0,), decoders=_linear(evidence))
    found, _ = code_leaks(codes[rest], rows[rest], settings, public=rows[public])
    return tuple(leak for leak in found if leak.name == "code inversion, 0 pairs")


def _others(view: str, ids: np.ndarray, evidence: Evidence) -> list[tuple[str, np.ndarray]]:
    """Return the other views by the number of people they share with this one, most first."""
    shared = [
        (name, np.intersect1d(ids, other.ids))
        for name, other in evidence.views.items()
        if name != view and other.ids.dtype.kind == ids.dtype.kind
    ]
    return sorted((s for s in shared if len(s[1]) >= 2 * _ENOUGH), key=lambda s: -len(s[1]))


def _at(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    order = np.argsort(ids)
    return order[np.searchsorted(ids[order], wanted)]


def _informed(
    view: str, ids: np.ndarray, codes: np.ndarray, rows: np.ndarray, evidence: Evidence
) -> tuple[Leak, ...]:
    """Attack beside the rows of the receiver who shares most people, and by these alone."""
    for other, both in _others(view, ids, evidence)[:1]:
        at = _at(ids, both)
        own = np.nan_to_num(evidence.rows(other)[evidence.views[other].positions(both)])
        settings = replace(
            evidence.codes,
            pairs=tuple(p for p in evidence.codes.pairs if p != 0) or ("all",),
            decoders=_linear(evidence),
        )
        found, _ = code_leaks(codes[at], rows[at], settings, known=own)
        return named(found, f"beside {other}'s rows", "decoders are ridge regression alone")
    return ()


def _attribute(
    view: str, ids: np.ndarray, codes: np.ndarray, evidence: Evidence
) -> tuple[Leak, ...]:
    """Infer the attribute that was asked for, where another view or this one has it."""
    if evidence.attribute is None or evidence.attribute[0] not in evidence.views:
        return ()
    where, column = evidence.attribute
    holder = evidence.views[where]
    if column not in holder.feature_names:
        return ()
    at = holder.feature_names.index(column)
    both = np.intersect1d(ids, holder.ids)
    values = holder.cells[holder.positions(both), at]
    there = ~np.isnan(values)
    if there.sum() < 2 * _ENOUGH:
        return ()
    coded = bool(holder.features[at].categories) or len(np.unique(values[there])) == 2
    facts = values[there].astype(np.int64) if coded else values[there].astype(np.float64)
    return infer_attribute(
        codes[_at(ids, both[there])],
        facts,
        pairs=("all",),
        name=f"{where}.{column}",
        settings=evidence.codes.decoders,
    )


def _linked(view: str, ids: np.ndarray, codes: np.ndarray, evidence: Evidence) -> tuple[Leak, ...]:
    """Link codes with those of the view that shares most people, each two views once."""
    names = list(evidence.sites)
    for other, both in _others(view, ids, evidence)[:1]:
        if other not in evidence.sites:
            return ()
        most = _others(other, evidence.views[other].ids, evidence)
        if most and most[0][0] == view and names.index(other) < names.index(view):
            return ()  # the other one has linked them
        theirs = evidence.encoded(other)[evidence.views[other].positions(both)]
        found = linkage_leaks(
            codes[_at(ids, both)], theirs, replace(evidence.codes, pairs=(0, 100))
        )
        return named(found, f"with codes of {other}")
    return ()


# --- ids, summaries, updates ----------------------------------------------------------------------


def _blinded(entries: Sequence[LedgerEntry], evidence: Evidence) -> AuditedRelease:
    facts = _facts(entries, "who is here or asked for, as keyed hashes of ids")
    own = evidence.views.get(entries[0].sender)
    if own is None:
        return AuditedRelease(**facts, reason=evidence.why_not(entries[0].sender))
    known = [v.ids for v in evidence.views.values() if v.ids.dtype.kind == own.ids.dtype.kind]
    candidates = np.unique(np.concatenate(known))
    secret, other = b"agreed between sites", b"guessed by somebody else"
    sent = blind(own.ids, secret)
    leaks = []
    for words, key in (
        ("a site, which has the secret of the hashes, tests the ids that it can think of", secret),
        ("somebody without the secret, such as the coordinator, tests ids he can think of", other),
    ):
        found = candidates[np.isin(blind(candidates, key), sent)]
        leaks.append(
            share_leak(
                int(np.isin(found, own.ids).sum()),
                len(own.ids),
                name="dictionary of ids, " + ("with secret" if key == secret else "without secret"),
                threat=words,
                figure="share of people confirmed to be there",
                scope="individual",
                floor=0.0,
                ceiling=1.0,
                sizes={"people": len(own.ids), "candidates": len(candidates)},
            )
        )
    return AuditedRelease(
        **facts,
        leaks=tuple(leaks),
        notes=("sites that hold a person anyway learn nothing new by his being in both",),
    )


def _summary(entries: Sequence[LedgerEntry], evidence: Evidence) -> AuditedRelease:
    facts = _facts(entries, "count, mean, deviation and range of every column")
    columns, people = int(entries[0].facts.get("columns", 1)), max(facts["individuals"], 1)
    fewest = entries[0].facts.get("smallest_count")
    read = min(2 * columns, people * columns)
    leak = share_leak(
        read,
        people * columns,
        name="reading off the range",
        threat="the coordinator reads a column's smallest and largest value: two people's cells",
        figure="share of cells given away",
        scope="individual",
        floor=0.0,
        ceiling=1.0,
        sizes={"people": people, "columns": columns},
    )
    few = fewest is not None and fewest < 3
    notes = (f"a column has {fewest} values only: its mean is nearly a cell",) if few else ()
    return AuditedRelease(**facts, leaks=(leak,), notes=notes)


def _update(entries: Sequence[LedgerEntry], evidence: Evidence) -> AuditedRelease:
    facts = _facts(entries, "what a site's training changed in the weights")
    sender = entries[0].sender
    if evidence.rounds is not None and evidence.rounds.covers(sender):
        return _watched(entries, facts, evidence.rounds)
    own = [v for n, v in evidence.views.items() if n == sender or n.startswith(f"{sender}/")]
    used = own or list(evidence.views.values())
    if not used:
        return AuditedRelease(**facts, **_promised(entries), reason=evidence.why_not(sender))
    one = max(used, key=len)
    rows = _whole_rows(one)
    if len(rows) < 2 * _ENOUGH:
        return AuditedRelease(
            **facts,
            **_promised(entries),
            reason=f"{len(rows)} whole rows are too few to tell a leak from chance",
        )
    noised = any(entry.event is not None for entry in entries)
    count = min(facts["individuals"], _MOST_ROWS, len(rows) // 2)
    settings = replace(evidence.updates, rows=max(count, 1))
    (chosen,) = inverted(rows, settings, sender, (3 if noised else 1,))
    return AuditedRelease(
        **facts,
        **_promised(entries),
        leaks=chosen.leaks,
        notes=(
            f"the attack is on {chosen.what} of an autoencoder on {chosen.individuals} rows of "
            f"{one.name!r}: a stand-in for the run's network, which is not kept; a round of more "
            "rows or steps hides each row better",
        ),
    )


def _watched(
    entries: Sequence[LedgerEntry], facts: dict[str, Any], rounds: RoundWatch
) -> AuditedRelease:
    """Attack the updates that a site sent in the last rounds, of the run's own network."""
    which = ", ".join(str(one.number) for one in rounds.updates)
    very = (
        "they have the losses that the ledger noted: they are the very ones"
        if rounds.is_of(entries)
        else "they have not the losses that the ledger noted: they are updates of their kind"
    )
    return AuditedRelease(
        **facts,
        **_promised(entries),
        leaks=rounds.leaks(entries[0].sender),
        notes=(
            f"the attack is on the run's own network and loss: the updates of rounds {which} were "
            f"trained anew, and {very}",
            "rows were not searched for: every try would train the whole round again; for small "
            "networks and single steps `cofill audit update` does so",
        ),
    )


def _whole_rows(view: View) -> Float[np.ndarray, "rows width"]:
    """Return a view's rows without gaps, as networks see them."""
    rows = Scaler.fit(view).encode_view(view)[0]
    return rows[~np.isnan(rows).any(axis=1)].astype(np.float64)


_KEYS = "drawn at random and made from nobody's record"
AUDITORS: Mapping[str, Auditor] = {
    "codes": _codes,
    "blinded-ids": _blinded,
    "column-summary": _summary,
    "update": _update,
    "noisy-mean": _without(
        "a mean with noise",
        "the ledger keeps no values: the noise is attacked by its size; attack the mean itself by "
        "cofill audit mean",
    ),
    "group-sums": _without(
        "sums and numbers of groups",
        "the ledger keeps no values; without noise a group of one person is his row",
    ),
    "masked-vector": _without(
        "a vector under masks",
        "alone it looks random to fewer sites than the threshold; the sum, which is opened, is "
        "attacked by cofill audit update",
    ),
    "encrypted-ids": _without(
        "ids under keys that stay with their makers",
        "private set intersection: a receiver learns who is in both and how many the other has; "
        "breaking the cipher was not tried",
    ),
    "figures": _without(
        "counts and scores of a run",
        "figures over all of a site's people, not noised: one person moves them by about one over "
        "their number; not attacked",
    ),
    "model": _without(
        "the common model",
        "made from the sites' updates and from nothing else: what it tells of people, they tell",
    ),
    "column-scales": _without(
        "how columns are scaled",
        "made from the sites' summaries and from nothing else: what it tells of people, they tell",
    ),
    "group-centres": _without(
        "centres of groups",
        "made from the sites' sums and from nothing else: what they tell of people, the sums tell",
    ),
    "needs": _without(
        "directions of others' codes that a site uses",
        "weights learned from a pilot's codes and the site's own rows, not noised; not attacked",
    ),
    "columns": _without(
        "names, kinds and categories of columns",
        "categories are values that somebody has, and say of nobody who",
    ),
    "blinding-part": _without("a part of the secret of hashes", _KEYS, personal=False),
    "public-keys": _without("public keys of a round", _KEYS, personal=False),
    "roster": _without("everybody's public keys", _KEYS, personal=False),
    "sealed-shares": _without("encrypted shares of random secrets", _KEYS, personal=False),
    "revealed-shares": _without("shares of random secrets, opened", _KEYS, personal=False),
    "survivors": _without(
        "names of the sites that are left", "names of sites, not of people", personal=False
    ),
}
"""By the type of a release, who audits it."""
