"""Attacks on the sums that a site has sent: summaries of columns, sums of groups, noisy means."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from cofill.attack import membership_leaks, share_leak
from cofill.audit._auditors import CERTAIN, describe_entries, describe_guarantee
from cofill.audit._evidence import FEWEST, NOT_KEPT, Evidence
from cofill.audit._release import AuditedRelease
from cofill.privacy import ColumnSummary, GroupSums, LedgerEntry, NoisyMean


def audit_column_summary(
    entries: Sequence[LedgerEntry], releases: Sequence[ColumnSummary], evidence: Evidence
) -> AuditedRelease:
    """Count the cells that can be read off counts, means and ranges."""
    facts = describe_entries(entries, "count, mean, deviation and range of every column")
    if releases:
        figures = np.hstack(list(releases[-1].columns.values()))
        counts, _, _, low, high = figures
        # Without a range (categories, or very few rows) nothing is read off.
        has_range = (counts > 0) & ((low != 0) | (high != 0))
        # Of three cells the mean gives the third away.
        cells = np.where(has_range, np.minimum(counts, np.where(counts == 3, 3, 2)), 0).sum()
        total, columns = max(int(counts.sum()), 1), len(counts)
        fewest = int(counts.min())
    else:
        columns = int(entries[0].facts.get("columns", 1))
        total = max(facts["individuals"], 1) * columns
        cells, fewest = min(2 * columns, total), int(entries[0].facts.get("smallest_count", 3))
    leak = share_leak(
        int(cells),
        total,
        **CERTAIN,
        name="reading off the range",
        threat="the coordinator reads a column's smallest and largest value: two people's cells",
        figure="share of cells given away",
        sizes={"people": facts["individuals"], "columns": columns},
    )
    notes = (f"a column has {fewest} values only: its mean is nearly a cell",) if fewest < 3 else ()
    return AuditedRelease(**facts, leaks=(leak,), notes=notes)


def audit_group_sums(
    entries: Sequence[LedgerEntry], releases: Sequence[GroupSums], evidence: Evidence
) -> AuditedRelease:
    """Count the groups of one person, whose sum is that person's row."""
    facts = describe_entries(entries, "sums and numbers of groups") | describe_guarantee(entries)
    if not releases:
        return AuditedRelease(**facts, reason=NOT_KEPT)
    plain = [sums for sums in releases if sums.event is None]
    if not plain:
        return AuditedRelease(
            **facts,
            reason="noise covers sums and numbers: no group of one person can be told; the "
            "noise is attacked by its size",
        )
    # Whoever is alone in one round is given away, however large the groups of other rounds are.
    alone, sums = max(((int((s.counts == 1).sum()), s) for s in plain), key=lambda item: item[0])
    people = max(sums.n_individuals, 1)
    leak = share_leak(
        min(alone, people),
        people,
        **CERTAIN,
        name="groups of one person",
        threat="the coordinator takes the sum of a group of one person, which is that person's row",
        figure="share of rows given away",
        sizes={"people": people, "groups": len(sums.counts)},
    )
    return AuditedRelease(
        **facts,
        leaks=(leak,),
        notes=(f"sums of {len(plain)} rounds were kept; round {sums.round} gives most away",),
    )


def audit_noisy_mean(
    entries: Sequence[LedgerEntry], releases: Sequence[NoisyMean], evidence: Evidence
) -> AuditedRelease:
    """Tell the people whose rows are in a mean from other sites' people by the mean."""
    facts = describe_entries(entries, "a mean with noise") | describe_guarantee(entries)
    sender = entries[0].sender
    if not releases:
        return AuditedRelease(**facts, reason=NOT_KEPT)
    people = _members_and_strangers(sender, len(releases[-1].mean), evidence)
    if people is None:
        return AuditedRelease(
            **facts,
            reason=f"rows of {sender!r} and of other people with the same columns are needed to "
            "tell them apart; the noise is attacked by its size",
        )
    members, strangers = people
    rows = np.concatenate([members, strangers])
    is_member = np.arange(len(rows)) < len(members)
    leaks = membership_leaks(
        _trace(releases[-1], rows, strangers)[None],
        is_member[None],
        name="membership, by the mean",
        threat="somebody who has a person's record, and rows of other people, says by the mean "
        "whether the record is in it",
        rates=(0.01,),
    )
    return AuditedRelease(**facts, leaks=leaks)


def _members_and_strangers(
    sender: str, width: int, evidence: Evidence
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return whole rows of the sender and of other sites that have the same columns."""
    rows: dict[str, list[np.ndarray]] = {}
    for site, views in evidence.held.items():
        for view in views.values():
            is_whole = ~np.isnan(view.cells).any(axis=1)
            if view.n_features == width and is_whole.any():
                rows.setdefault(site, []).append(view.cells[is_whole].astype(np.float64))
    members = rows.pop(sender, [])
    strangers = [cells for parts in rows.values() for cells in parts]
    if len(members) != 1 or not strangers:
        return None
    pair = members[0], np.concatenate(strangers)
    return pair if min(map(len, pair)) >= FEWEST else None


def _trace(
    release: NoisyMean,
    rows: Float[np.ndarray, "people features"],
    strangers: Float[np.ndarray, "strangers features"],
) -> Float[np.ndarray, " people"]:
    """Return how far the mean lies from the strangers' towards each row, in units of its error.

    The likelihood ratio of a mean with and without the row, to first order (Sankararaman et al.
    2009, "Genomic privacy and limits of individual detection in a pool").
    """
    centre, spread = strangers.mean(axis=0), strangers.var(axis=0)
    noise = release.scale**2 * (2 if release.noise == "laplace" else 1)
    variance = spread / max(release.rows, 1) + noise
    shift = (release.mean - centre) / np.where(variance > 0, variance, 1.0)
    return (rows - centre) @ shift
