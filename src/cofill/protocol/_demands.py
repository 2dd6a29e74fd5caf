"""What a run would have a site send, in the terms in which a site's policy is written.

A protocol says it of its own settings, before anything is read or computed, so that a site can
refuse a run as a whole and in words. What really leaves is judged once more by the gate, release by
release: a protocol that says too little here gains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cofill.privacy import Event


@dataclass(frozen=True)
class Demands:
    """What a run asks of a site.

    Parameters
    ----------
    plain
        Types of releases that would leave without a guarantee, though made from records; figures
        of the report are left out where a site does not allow them, and are not among these.
    events
        What releases with a guarantee cost together, where that is known beforehand.
    groups
        Settings that say of how few people something may be told, by name.
    image_groups
        Those that matter to a site whose views are images only.
    rounds
        How often a site is asked about the same rows.
    summed_sites
        Fewest sites in a sum that is opened without a guarantee: 1 where each site's own figures
        are seen, None where there is no such sum.
    code_share
        Width of codes as a share of the columns; None without codes.
    shows_keyed_hashes
        Whether sites tell each other whom they have by keyed hashes of ids.
    learning_rates, epochs
        Settings of trainings whose results leave, by name.
    """

    plain: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    image_groups: Mapping[str, int] = field(default_factory=dict)
    rounds: int = 1
    summed_sites: int | None = None
    code_share: float | None = None
    shows_keyed_hashes: bool = False
    learning_rates: Mapping[str, float | int] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
