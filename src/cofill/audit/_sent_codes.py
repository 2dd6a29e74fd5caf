"""Attacks on the codes and blinded ids that a site has sent, as their receivers hold them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cofill.attack import Leak, infer_attribute, share_leak
from cofill.audit._auditors import CERTAIN, describe_entries, describe_guarantee
from cofill.audit._codes import CodeRelease, code_leaks, linear_decoders, linkage_leaks, with_words
from cofill.audit._evidence import FEWEST, Evidence
from cofill.audit._release import AuditedRelease, anonymity
from cofill.privacy import BlindedIds, Codes, LedgerEntry, blind


def audit_sent_codes(
    entries: Sequence[LedgerEntry], releases: Sequence[Codes], evidence: Evidence
) -> AuditedRelease:
    """Attack the codes that the best-informed receiver has: rows, attributes, linkage."""
    view = entries[0].sender
    width = entries[0].facts.get("width", 0)
    facts = describe_entries(entries, f"codes of {width} numbers each")
    facts["individuals"] = _best_informed(entries)
    facts |= describe_guarantee(entries)
    release = evidence.code_release(view)
    if release is None:
        return AuditedRelease(**facts, reason=evidence.why_not(view))
    is_whole = ~np.isnan(release.rows).any(axis=1)
    notes = _notes(releases, release, facts["individuals"])
    if is_whole.sum() < FEWEST:
        is_whole = np.ones(len(release.rows), bool)
        notes.append("rows with empty cells are attacked as if the cells were average")
    elif not is_whole.all():
        notes.append(f"{int((~is_whole).sum())} rows with empty cells are not attacked")
    if is_whole.sum() < FEWEST:
        return AuditedRelease(
            **facts, reason=f"{int(is_whole.sum())} people are too few to tell a leak from chance"
        )
    ids, codes = release.ids[is_whole], release.codes[is_whole].astype(np.float64)
    rows = np.nan_to_num(release.rows[is_whole])
    leaks, untried = code_leaks(codes, rows, evidence.codes)
    leaks += _attack_without_pairs(codes, rows, evidence)
    leaks += _attack_beside_rows(view, ids, codes, rows, evidence)
    leaks += _infer_attribute(ids, codes, evidence)
    leaks += _link(view, ids, codes, evidence)
    notes += [note for note in untried if "without pairs" not in note]
    return AuditedRelease(
        **facts, leaks=leaks, anonymity=anonymity(codes, k=evidence.codes.k), notes=tuple(notes)
    )


def _best_informed(entries: Sequence[LedgerEntry]) -> int:
    """Return of how many people the best-informed receiver has codes: nobody's is sent twice."""
    people: Counter[str] = Counter()
    for entry in entries:
        people[entry.receiver] += entry.individuals
    return max(people.values())


def _notes(releases: Sequence[Codes], release: CodeRelease, individuals: int) -> list[str]:
    notes = []
    versions = {codes.spec.version for codes in releases}
    if len(versions) > 1:
        notes.append(
            f"codes by {len(versions)} encoders were sent; where a pilot sent wider ones first, "
            "its people are as exposed as without a defence, and this attack is on the last ones"
        )
    elif len(release.ids) < individuals:
        notes.append(
            f"of {individuals} people whose codes a receiver has, {individuals - len(release.ids)} "
            "have no row in the tables at hand, or their codes were not kept: not attacked"
        )
    return notes


def _attack_without_pairs(
    codes: np.ndarray, rows: np.ndarray, evidence: Evidence
) -> tuple[Leak, ...]:
    """Attack without pairs: a fifth of the people are the public, the others are attacked."""
    if 0 not in evidence.codes.pairs or len(rows) < 5 * FEWEST:
        return ()
    order = np.random.default_rng(evidence.codes.decoders.seed).permutation(len(rows))
    public, attacked = order[: len(rows) // 5], order[len(rows) // 5 :]
    settings = replace(evidence.codes, pairs=(0,), decoders=linear_decoders(evidence.codes))
    leaks, _ = code_leaks(codes[attacked], rows[attacked], settings, public=rows[public])
    return tuple(leak for leak in leaks if leak.name == "code inversion, 0 pairs")


def _most_shared(view: str, ids: np.ndarray, evidence: Evidence) -> tuple[str, np.ndarray] | None:
    """Return the view that shares most people with these, and the ids of those; None if few."""
    shared = [
        (name, np.intersect1d(ids, other.ids))
        for name, other in evidence.views.items()
        if name != view and other.ids.dtype.kind == ids.dtype.kind
    ]
    enough = [item for item in shared if len(item[1]) >= 2 * FEWEST]
    return max(enough, key=lambda item: len(item[1]), default=None)


def _positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    order = np.argsort(ids)
    return order[np.searchsorted(ids[order], wanted)]


def _attack_beside_rows(
    view: str, ids: np.ndarray, codes: np.ndarray, rows: np.ndarray, evidence: Evidence
) -> tuple[Leak, ...]:
    """Attack beside the rows of the view that shares most people, and by these alone."""
    shared = _most_shared(view, ids, evidence)
    if shared is None:
        return ()
    other, common = shared
    at = _positions(ids, common)
    known = np.nan_to_num(evidence.rows(other)[evidence.views[other].positions(common)])
    settings = replace(
        evidence.codes,
        pairs=tuple(p for p in evidence.codes.pairs if p != 0) or ("all",),
        decoders=linear_decoders(evidence.codes),
    )
    leaks, _ = code_leaks(codes[at], rows[at], settings, known=known)
    return with_words(leaks, f"beside {other}'s rows", "decoders are ridge regression alone")


def _infer_attribute(ids: np.ndarray, codes: np.ndarray, evidence: Evidence) -> tuple[Leak, ...]:
    """Infer the attribute that was asked for, where some view has it."""
    if evidence.attribute is None or evidence.attribute[0] not in evidence.views:
        return ()
    name, column = evidence.attribute
    view = evidence.views[name]
    if column not in view.feature_names:
        return ()
    at = view.feature_names.index(column)
    common = np.intersect1d(ids, view.ids)
    values = view.cells[view.positions(common), at]
    is_known = ~np.isnan(values)
    if is_known.sum() < 2 * FEWEST:
        return ()
    is_class = bool(view.features[at].categories) or len(np.unique(values[is_known])) == 2
    return infer_attribute(
        codes[_positions(ids, common[is_known])],
        values[is_known].astype(np.int64 if is_class else np.float64),
        pairs=("all",),
        name=f"{name}.{column}",
        settings=evidence.codes.decoders,
    )


def _link(view: str, ids: np.ndarray, codes: np.ndarray, evidence: Evidence) -> tuple[Leak, ...]:
    """Link codes with those of the view that shares most people, each two views once."""
    shared = _most_shared(view, ids, evidence)
    if shared is None:
        return ()
    other = shared[0]
    back = _most_shared(other, evidence.views[other].ids, evidence)
    names = list(evidence.views)
    if back is not None and back[0] == view and names.index(other) < names.index(view):
        return ()  # the audit of the other one's codes has linked them
    release = evidence.code_release(other)
    common = np.intersect1d(ids, [] if release is None else release.ids)
    if release is None or len(common) < 2 * FEWEST:
        return ()
    leaks = linkage_leaks(
        codes[_positions(ids, common)],
        release.codes[_positions(release.ids, common)].astype(np.float64),
        replace(evidence.codes, pairs=(0, 100)),
    )
    return with_words(leaks, f"with codes of {other}")


def audit_blinded_ids(
    entries: Sequence[LedgerEntry], releases: Sequence[BlindedIds], evidence: Evidence
) -> AuditedRelease:
    """Test all ids that the audit knows of against the tokens that were sent."""
    facts = describe_entries(entries, "who is here or asked for, as keyed hashes of ids")
    sender = entries[0].sender
    secret = evidence.keys.get(sender)
    if sender not in evidence.views or secret is None or not releases:
        return AuditedRelease(**facts, reason=evidence.why_not(sender))
    candidates = evidence.candidates(sender)
    tokens = np.unique(np.concatenate([release.tokens for release in releases]))
    if not len(tokens):
        return AuditedRelease(**facts, reason="no id was in it")
    insider = "a site, which has the secret of the hashes, tests the ids that it can think of"
    outsider = "somebody without the secret, such as the coordinator, tests ids they can think of"
    leaks = tuple(
        share_leak(
            int(np.isin(tokens, blind(candidates, key)).sum()),
            len(tokens),
            name=f"dictionary of ids, {name}",
            threat=threat,
            **CERTAIN,
            figure="share of people confirmed to be there",
            sizes={"people": len(tokens), "candidates": len(candidates)},
        )
        for name, threat, key in (
            ("with secret", insider, secret),
            ("without secret", outsider, b"guessed by somebody else"),
        )
    )
    return AuditedRelease(
        **facts,
        leaks=leaks,
        notes=("sites that hold a person anyway learn nothing new by the person being in both",),
    )
