"""Attacks on what crosses in a run on secret shares: words that should look random to a receiver.

Each person has a place in a common order, and every matrix of words has a row for each place. The
attacker is given more than any party has: they know whose place is whose, and some people's rows.
If masks are missing or used twice, rows follow from words; otherwise nothing does.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int, UInt64

from cofill.attack import Leak, infer_attribute, share_leak
from cofill.audit._auditors import CERTAIN, describe_entries
from cofill.audit._codes import code_leaks, linear_decoders, with_words
from cofill.audit._evidence import FEWEST, Evidence
from cofill.audit._release import AuditedRelease
from cofill.privacy import BlindedPoints, LedgerEntry
from cofill.shares import multiply_points, points_of, split_points

_MOST_GUESSES = 2_000  # ids, of which none is confirmed or all are
_ASKED = "asked"

_ATTACKED: WeakKeyDictionary[Evidence, dict[bytes, tuple[Leak, ...]]] = WeakKeyDictionary()

TRUSTED = (
    "the dealer together with a computing site, and the two computing sites together, can read "
    "everything: choose parties of which no two work together against the others"
)


def words_by_place(
    matrices: Mapping[str, np.ndarray], view: str, everyone: int, stage: str
) -> UInt64[np.ndarray, "places width"]:
    """Return the words about a view's columns that have a row for everybody, side by side.

    A label is the name of the view, or of the site's part of it (``view@site``), and what the words
    are; while sites learn it has the number of a fold, whose people have every k-th place.

    Examples
    --------
    >>> fold = np.arange(2, dtype=np.uint64).reshape(-1, 1)
    >>> parts = {"a/target/0": fold, "a/target/1": fold + np.uint64(5)}
    >>> words_by_place(parts, "a", 4, "learn").ravel().tolist()
    [0, 5, 1, 6]
    """
    whole: list[np.ndarray] = []
    together: list[np.ndarray] = []
    folds: dict[tuple[str, ...], dict[int, np.ndarray]] = {}
    for label, words in matrices.items():
        head, _, rest = label.partition("/")
        if words.ndim != 2 or head not in (view, view.partition("@")[0]):
            continue
        parts = rest.split("/")
        numbers = [k for k, part in enumerate(parts) if part.isdecimal()]
        if parts[-1] == _ASKED or len(parts) == 1:
            whole.append(words)
        elif numbers:
            table = (*parts[: numbers[-1]], *parts[numbers[-1] + 1 :])
            folds.setdefault(table, {})[int(parts[numbers[-1]])] = words
    for parts in folds.values() if stage == "learn" else ():
        sizes = [len(range(fold, everyone, len(parts))) for fold in range(len(parts))]
        if [len(parts.get(fold, ())) for fold in range(len(parts))] == sizes:
            joined = np.empty((everyone, parts[0].shape[1]), np.uint64)
            for fold, words in parts.items():
                joined[fold :: len(parts)] = words
            together.append(joined)
    if stage == "ask":
        together += [words for words in whole if len(words) == everyone]
    return np.concatenate([np.empty((everyone, 0), np.uint64), *together], axis=1)


def attack_words(
    rounds: Sequence[Mapping[str, np.ndarray]], view: str, evidence: Evidence
) -> tuple[Leak, ...]:
    """Return what decoders make of words about a view's people, those of all rounds together.

    There is none where nobody's place is known, or too few people are there.
    """
    leaks: tuple[Leak, ...] = ()
    for stage in evidence.stages(view):  # as "learn", or "learn, round 2"
        placed = evidence.places(view, stage)
        if placed is None:
            continue
        everyone, places = placed
        kind = stage.partition(",")[0]
        parts = [words_by_place(matrices, view, everyone, kind) for matrices in rounds]
        words = np.concatenate([np.empty((everyone, 0), np.uint64), *parts], axis=1)
        if words.shape[1]:
            of_stage = _attack_rows(_numbers(words), places, view, evidence)
            leaks += _named(of_stage, view, stage)
    return leaks


def _numbers(words: UInt64[np.ndarray, "places width"]) -> Float[np.ndarray, "places width"]:
    """Return words as an attacker's numbers, each column in its own standard deviations."""
    numbers = words.view(np.int64).astype(np.float64)
    numbers -= numbers.mean(axis=0)
    return numbers / np.maximum(numbers.std(axis=0), 1e-300)


def _attack_rows(
    seen: Float[np.ndarray, "places width"],
    places: Int[np.ndarray, " rows"],
    view: str,
    evidence: Evidence,
) -> tuple[Leak, ...]:
    """Decode a view's rows from what is seen at their places, and guess who has a row at all."""
    is_placed = places >= 0  # of very many people not all are learned from
    rows, places = evidence.rows(view)[is_placed], places[is_placed]
    if len(rows) < FEWEST:
        return ()
    is_whole = np.asarray(~np.isnan(rows).any(axis=1))
    if is_whole.sum() < FEWEST:
        is_whole = np.ones(len(rows), bool)
    # One attack a matrix, the best informed one: of many, some would succeed by chance.
    settings = replace(evidence.codes, pairs=("all",), decoders=linear_decoders(evidence.codes))
    decoded, _ = code_leaks(seen[places[is_whole]], np.nan_to_num(rows[is_whole]), settings)
    leaks = tuple(leak for leak in decoded if leak.figure == "R²")
    has_row = np.zeros(len(seen), bool)
    has_row[places] = True
    if min(has_row.sum(), (~has_row).sum()) < FEWEST:
        return leaks
    decoders = settings.decoders
    return leaks + infer_attribute(seen, has_row, name="has a row", settings=decoders)


def _named(leaks: Sequence[Leak], view: str, stage: str) -> tuple[Leak, ...]:
    renamed = [replace(leak, name=leak.name.replace("code inversion", "rows")) for leak in leaks]
    return with_words(
        renamed,
        f"{view}, while sites {stage}",
        "the attacker is told whose words are whose, which no party knows",
    )


def _auditor(
    words: str, received: Callable[[Sequence[Any], Evidence], list[Mapping[str, np.ndarray]]]
) -> Callable[[Sequence[LedgerEntry], Sequence[Any], Evidence], AuditedRelease]:
    """Return an auditor that attacks what a receiver has of the words by label."""

    def audit(
        entries: Sequence[LedgerEntry], releases: Sequence[Any], evidence: Evidence
    ) -> AuditedRelease:
        facts = describe_entries(entries, words)
        rounds = received(releases, evidence)
        # Both computing sites see the same sums, which are attacked once.
        known = _ATTACKED.setdefault(evidence, {})
        key = sha256(b"".join(r[label].tobytes() for r in rounds for label in sorted(r))).digest()
        if key not in known:
            attacked = (attack_words(rounds, view, evidence) for view in evidence.views)
            known[key] = tuple(leak for leaks in attacked for leak in leaks)
        leaks = known[key]
        if not leaks:
            return AuditedRelease(**facts, reason=evidence.why_not(entries[0].sender))
        return AuditedRelease(**facts, leaks=leaks, notes=(TRUSTED,))

    return audit


def _rows(releases: Sequence[Any], evidence: Evidence) -> list[Mapping[str, np.ndarray]]:
    """Return one receiver's masked rows: all receivers get the same."""
    receiver = releases[0].receiver if releases else ""
    return [r.words for r in releases if r.receiver == receiver]


def _sums(releases: Sequence[Any], evidence: Evidence) -> list[Mapping[str, np.ndarray]]:
    """Return what the shares of both computing sites add up to, which both of them see."""
    sums = []
    earlier: Counter[Any] = Counter()
    for release in releases:
        shapes = {k: w.shape for k, w in release.words.items()}
        others = [
            other.words
            for other in evidence.releases(release.kind)
            if other.sender != release.sender
            and other.round == release.round
            and {k: w.shape for k, w in other.words.items()} == shapes
        ]
        # Steps come back in later rounds and parts: the third of a kind belongs to the third.
        same = (release.sender, release.round, tuple(sorted(shapes.items())))
        others, earlier[same] = others[earlier[same] :], earlier[same] + 1
        # Where the other's log is not at hand, its shares alone: uniform words too.
        total = {k: w + others[0][k] for k, w in release.words.items()} if others else release.words
        sums.append(total)
    return sums


def audit_blinded_points(
    entries: Sequence[LedgerEntry], releases: Sequence[BlindedPoints], evidence: Evidence
) -> AuditedRelease:
    """Test all ids that the audit knows of against the points that a site sent out."""
    facts = describe_entries(entries, "ids as points times secret numbers")
    sender = entries[0].sender
    sent = {point for r in releases if r.origin == sender for point in split_points(r.points)}
    if sender not in evidence.views or not sent:
        return AuditedRelease(**facts, reason=evidence.why_not(sender))
    candidates = evidence.candidates(sender)[:_MOST_GUESSES]
    plain = points_of(candidates)
    guesses = {*split_points(plain), *split_points(multiply_points(plain, b"the attacker's own"))}
    leak = share_leak(
        len(sent & guesses),
        len(sent),
        name="dictionary of ids",
        threat="a site or the coordinator tests the ids that it can think of, with its own secret",
        **CERTAIN,
        figure="share of people confirmed to be there",
        sizes={"people": len(sent), "candidates": len(candidates)},
    )
    return AuditedRelease(**facts, leaks=(leak,), notes=("breaking the curve was not tried",))


audit_masked_rows = _auditor("rows under masks", _rows)
audit_opened_shares = _auditor("shares under fresh masks, and rotated covariances", _sums)
audit_padded_cells = _auditor("predicted cells under pads", _sums)
