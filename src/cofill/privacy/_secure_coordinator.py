"""The coordinator's steps of a secure sum: it passes on what it cannot open, and gets the sum.

`_secure_sum.py` has the sites' steps, the order of all of them, and what they protect against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.errors import DataError
from cofill.privacy._coordinator_releases import (
    MaskedVector,
    PublicKeys,
    RevealedShares,
    Roster,
    SealedShares,
    Survivors,
)
from cofill.privacy._masks import SumCode, commit, expand_seed, open_shares, pair_mask
from cofill.privacy._sealing import sealing_public_key
from cofill.privacy._secure_sum import check_enough, check_roster


def make_rosters(
    keys: Sequence[PublicKeys], *, threshold: int | None = None, sender: str = "coordinator"
) -> tuple[Roster, ...]:
    """Return the roster for each site that has sent keys, of which there must be three or more.

    ``threshold`` is how many sites must stay to the end: above half of them; None for two thirds.
    """
    ordered = tuple(sorted(keys, key=lambda k: k.sender))
    if not ordered:
        raise DataError("a secure sum must have keys of 3 sites or more, got none")
    if threshold is None:
        # Two stories of who stayed need so many sites each: a third of all would have to lie.
        threshold = min(2 * len(ordered) // 3 + 1, len(ordered))
    number = ordered[0].round
    roster = Roster(sender=sender, receiver="", round=number, keys=ordered, threshold=threshold)
    check_roster(roster)
    return tuple(replace(roster, receiver=k.sender) for k in ordered)


def deliver_shares(sealed: Sequence[SealedShares], roster: Roster) -> tuple[SealedShares, ...]:
    """Return, for each site that has shared, the boxes that the other sites made for it."""
    _check_messages(sealed, roster, "have shared")
    names = [message.sender for message in sealed]
    for message in sealed:
        missing = set(names) - set(message.boxes) - {message.sender}
        if missing:
            raise DataError(
                f"site {message.sender!r} must have sealed a box for every other site, "
                f"{len(missing)} are missing"
            )
    boxes_of = {n: {m.sender: m.boxes[n] for m in sealed if m.sender != n} for n in names}
    return tuple(
        SealedShares(sender=roster.sender, receiver=name, round=roster.round, boxes=boxes)
        for name, boxes in boxes_of.items()
    )


def name_survivors(masked: Sequence[MaskedVector], roster: Roster) -> tuple[Survivors, ...]:
    """Return, for each site whose vector arrived, the names of all such sites.

    A `DataError` is raised if they are fewer than the threshold.
    """
    _check_messages(masked, roster, "have sent a masked vector")
    names = tuple(sorted(message.sender for message in masked))
    return tuple(
        Survivors(sender=roster.sender, receiver=name, round=roster.round, names=names)
        for name in names
    )


def unmask_sum(
    roster: Roster,
    sealed: Sequence[SealedShares],
    masked: Sequence[MaskedVector],
    revealed: Sequence[RevealedShares],
    code: SumCode,
) -> Any:
    """Return the sum of the vectors that arrived as the code reads it, and nothing else of them.

    ``roster`` and ``sealed`` say who had which keys and who shared (with commitments), ``masked``
    are the vectors as `name_survivors` had them, ``revealed`` what at least a threshold of those
    sites revealed. Too few of these, or shares that do not fit what was announced, are a
    `DataError`.
    """
    _check_messages(masked, roster, "have sent a masked vector")
    _check_messages(revealed, roster, "have revealed shares")
    if len(masked) > code.sites:
        raise DataError(f"sites must be at most {code.sites} by the encoding, got {len(masked)}")
    sizes = {len(message.words) for message in masked}
    if len(sizes) != 1:
        raise DataError(f"masked vectors must be of one size, got {len(sizes)} different ones")
    (size,) = sizes
    total = np.zeros(size, np.uint64)
    for message in masked:
        total += message.words
    stayed = {message.sender for message in masked}
    mask_keys = {keys.sender: keys.mask_key for keys in roster.keys}
    for message in sealed:
        name = message.sender
        # One secret of each site and never both, with which its own vector would be bare.
        if name in stayed:
            seed = _open_secret(name, roster, {r.sender: r.own_masks for r in revealed})
            _require_fit(name, commit(seed), message.commitment)
            total -= expand_seed(seed, roster.round, size)
            continue
        secret = _open_secret(name, roster, {r.sender: r.mask_keys for r in revealed})
        _require_fit(name, sealing_public_key(secret), mask_keys[name])
        for peer in stayed:
            # What the dropped site would have added is what the peer's mask lacks.
            total += pair_mask(secret, mask_keys[peer], roster.round, size, subtract=name > peer)
    return code.decode(total)


def _open_secret(name: str, roster: Roster, shares_of: Mapping[str, Mapping[str, int]]) -> bytes:
    """Return a site's secret from the shares that sites revealed of it, by the sites' names."""
    shares = {
        position: shares_of[keys.sender][name]
        for position, keys in enumerate(roster.keys, start=1)
        if name in shares_of.get(keys.sender, ())
    }
    if len(shares) < roster.threshold:
        raise DataError(
            f"the masks of site {name!r} must be opened by {roster.threshold} sites, got the "
            f"shares of {len(shares)}"
        )
    return open_shares(shares, roster.threshold)


def _require_fit(name: str, opened: bytes, announced: bytes) -> None:
    if opened != announced:
        raise DataError(
            f"the shares of site {name!r} do not fit what it announced; start a new round"
        )


def _check_messages(
    messages: Sequence[SealedShares] | Sequence[MaskedVector] | Sequence[RevealedShares],
    roster: Roster,
    action: str,
) -> None:
    """Raise unless messages are of enough different sites on the roster, and of its round."""
    names = [message.sender for message in messages]
    if len(set(names)) != len(names) or not set(names) <= {k.sender for k in roster.keys}:
        raise DataError(f"messages must be of sites on the roster, each once, got {len(names)}")
    late = sum(message.round != roster.round for message in messages)
    if late:
        raise DataError(
            f"messages must be of round {roster.round}, got {late} of another round; refused"
        )
    check_enough(len(names), roster, action)
