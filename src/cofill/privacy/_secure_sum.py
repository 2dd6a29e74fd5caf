"""A sum over sites of which the coordinator sees nothing but the sum (Bonawitz et al. 2017).

Every two sites agree on a mask that one adds and the other subtracts, so that in the sum they
cancel. Each site adds one more mask of its own. Both masks' seeds are shared out (Shamir) under
encryption before anything is sent, so that a threshold of sites can remove what does not cancel:
the own masks of sites that stayed, the pair masks of sites that dropped out. All functions are
pure: a `Member` (a site's state) goes in, the next one comes out with what to send. Old states must
not be used again (two vectors under the same masks give away their difference): a site that fails
within a round begins the next one. Keys are fresh in every round, so that opening a dropped site's
key says nothing about other rounds. ::

    site         advertise ──PublicKeys──▶                    coordinator
                 ◀──Roster── call_roll                        (all keys, the threshold)
                 share ──SealedShares──▶
                 ◀──SealedShares── deliver                    (each site gets its boxes)
                 mask ──MaskedVector──▶
                 ◀──Survivors── tell_survivors                (whose vectors arrived)
                 reveal ──RevealedShares──▶ unmask            (the sum)

What it protects against:

- A coordinator that follows the steps and looks at everything it gets, together with up to
  threshold − 1 sites: it learns the sum over the sites that stayed, and so, of the honest ones
  among them, their sum. (A sum of one honest site is that site's vector: noise is another defence.)
- A late vector of a site that was declared dropped: its pair masks are known by then, its own mask
  is not, and no honest site gives shares of both.
- A coordinator that tells sites different stories about who stayed: it needs a threshold of shares
  for either story, and each honest site tells one. With c sites on its side it fails while
  c < 2 · threshold − n; the threshold must be above n / 2 and is 2n / 3 by default.
- Replays: keys, shares and vectors are bound to their round; a site does not go back to a round,
  masks one vector a round and reveals once.

What it does not protect against:

- A coordinator that makes up keys in other sites' names, unless sites have identities: with
  ``identity`` and ``known`` (Ed25519) keys are signed and strangers' refused. Without, the
  network's own authentication must vouch for who is who.
- A site that sends a false vector: nobody can look. Shares or masks that do not fit are found (by
  the commitment and the public key) and end the round with an error; the wrong-doer is not named
  beyond doubt.
- What the sum itself tells, round after round; and whoever has a threshold of sites has all.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError, SettingError
from cofill.privacy._checks import require_whole
from cofill.privacy._events import Event
from cofill.privacy._fixed_point import FixedPoint
from cofill.privacy._sealing import (
    check_signature,
    commitment_of,
    expand,
    open_box,
    pair_mask,
    public_of,
    seal,
    sign,
)
from cofill.privacy._secure_releases import (
    MaskedVector,
    PublicKeys,
    RevealedShares,
    Roster,
    SealedShares,
    Survivors,
)
from cofill.privacy._shamir import Entropy, open_shares, share_secret

__all__ = [
    "Member",
    "advertise",
    "call_roll",
    "deliver",
    "mask",
    "reveal",
    "share",
    "tell_survivors",
    "unmask",
]

_LEAST_SITES = 3
_SHARE = 33  # bytes
Stage = Literal["idle", "advertised", "shared", "masked", "revealed"]


@dataclass(frozen=True)
class Member:
    """A site in secure sums: its name, its last round, and the secrets of that round.

    Parameters
    ----------
    name
        The site.
    coordinator
        Whom its messages go to.
    identity
        A 32-byte Ed25519 private key that signs its keys, or None.
    known
        The other sites' public identities, as `identity_of` gives them; then keys that are not
        signed by them are refused.
    entropy
        Where secrets come from: the operating system. Tests give others.
    """

    name: str
    coordinator: str = "coordinator"
    identity: bytes | None = field(default=None, repr=False)
    known: Mapping[str, bytes] | None = field(default=None, repr=False)
    entropy: Entropy = field(default=secrets.token_bytes, repr=False)
    round: int = -1
    stage: Stage = "idle"
    seal_secret: bytes = field(default=b"", repr=False)
    mask_secret: bytes = field(default=b"", repr=False)
    own_mask: bytes = field(default=b"", repr=False)
    roster: Roster | None = field(default=None, repr=False)
    own_shares: tuple[int, int] = field(default=(0, 0), repr=False)
    received: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    def _at(self, stage: Stage, number: int, doing: str) -> None:
        if number != self.round:
            raise SettingError(
                f"site {self.name!r}: to {doing}, a message must be of round {self.round}, got one "
                f"of round {number}; refused"
            )
        if self.stage != stage:
            raise SettingError(
                f"site {self.name!r} can {doing} once in round {self.round}, after it has "
                f"{stage}; it has {self.stage}"
            )


# --- the sites' steps ---------------------------------------------------------------------------


def advertise(member: Member, number: int) -> tuple[Member, PublicKeys]:
    """Begin the round of a number: draw two fresh key pairs and send the public keys.

    Raises
    ------
    SettingError
        If the number is not above that of the last round.

    Examples
    --------
    >>> _, keys = advertise(Member("clinic"), 0)
    >>> keys.n_bytes
    64
    """
    require_whole("number", number, 0)
    if number <= member.round:
        raise SettingError(
            f"site {member.name!r}: a round's number must be above {member.round}, that of its "
            f"last one, got {number}; refused"
        )
    seal, masking = member.entropy(32), member.entropy(32)
    public = (public_of(seal), public_of(masking))
    signature = b""
    if member.identity is not None:
        signature = sign(member.identity, member.name, number, public)
    begun = replace(
        member,
        round=number,
        stage="advertised",
        seal_secret=seal,
        mask_secret=masking,
        own_mask=member.entropy(32),
        roster=None,
        received={},
    )
    return begun, PublicKeys(
        sender=member.name,
        receiver=member.coordinator,
        round=number,
        seal_key=public[0],
        mask_key=public[1],
        signature=signature,
    )


def share(member: Member, roster: Roster) -> tuple[Member, SealedShares]:
    """Check who takes part, and send each other site its shares of this site's two secrets."""
    member._at("advertised", roster.round, "share")
    _check_roster(roster)
    names = [keys.sender for keys in roster.keys]
    mine = [keys for keys in roster.keys if keys.sender == member.name]
    own = (public_of(member.seal_secret), public_of(member.mask_secret))
    if [(keys.seal_key, keys.mask_key) for keys in mine] != [own]:
        raise DataError(f"site {member.name!r} is not on the roster with its own keys; refused")
    if member.known is not None:
        for keys in roster.keys:
            if keys.sender == member.name:
                continue
            check_signature(
                member.known.get(keys.sender),
                keys.signature,
                keys.sender,
                keys.round,
                (keys.seal_key, keys.mask_key),
            )
    secrets_of = (member.own_mask, member.mask_secret)
    shares = [share_secret(s, len(names), roster.threshold, member.entropy) for s in secrets_of]
    by_name = dict(zip(names, zip(*shares, strict=True), strict=True))
    boxes = {}
    for keys in roster.keys:
        if keys.sender != member.name:
            content = b"".join(part.to_bytes(_SHARE, "big") for part in by_name[keys.sender])
            boxes[keys.sender] = seal(
                member.seal_secret,
                keys.seal_key,
                content,
                (member.name, keys.sender, member.round),
                member.entropy(12),
            )
    shared = replace(member, stage="shared", roster=roster, own_shares=by_name[member.name])
    return shared, SealedShares(
        sender=member.name,
        receiver=member.coordinator,
        round=roster.round,
        boxes=boxes,
        commitment=commitment_of(member.own_mask),
    )


def mask(
    member: Member,
    delivered: SealedShares,
    vector: np.ndarray,
    code: FixedPoint,
    *,
    rows: int = 0,
    event: Event | None = None,
) -> tuple[Member, MaskedVector]:
    """Open the boxes from the others and send the vector under all masks.

    Parameters
    ----------
    member, delivered
        The site, and the boxes of every site whose shares the coordinator has.
    vector, code
        What to add up, and its encoding.
    rows, event
        How many individuals it was made from, and its cost where it has noise.
    """
    member._at("shared", delivered.round, "mask")
    keys_of = _keys_of(member)
    strangers = set(delivered.boxes) - (set(keys_of) - {member.name})
    if strangers:
        raise DataError(
            f"site {member.name!r}: {len(strangers)} boxes are of no site on the roster"
        )
    present = {*delivered.boxes, member.name}
    _check_enough(len(present), _roster(member), "have shared")
    received = {member.name: member.own_shares}
    for name, box in delivered.boxes.items():
        route = (name, member.name, member.round)
        content = open_box(member.seal_secret, keys_of[name].seal_key, box, route)
        halves = (content[:_SHARE], content[_SHARE:])
        received[name] = (int.from_bytes(halves[0], "big"), int.from_bytes(halves[1], "big"))
    words = code.encode(vector)
    words = words + expand(member.own_mask, "own mask", member.round, len(words))
    for name in delivered.boxes:
        words = words + pair_mask(
            member.mask_secret,
            keys_of[name].mask_key,
            (member.name, name, member.round),
            len(words),
        )
    return replace(member, stage="masked", received=received), MaskedVector(
        sender=member.name,
        receiver=member.coordinator,
        round=member.round,
        words=words,
        rows=rows,
        event=event,
    )


def reveal(member: Member, survivors: Survivors) -> tuple[Member, RevealedShares]:
    """Give the coordinator, of each site, the share of one secret: once, and never of both.

    Raises
    ------
    SettingError
        If fewer sites stayed than the threshold, or the site itself is said to have dropped out.
    """
    member._at("masked", survivors.round, "reveal")
    stayed = set(survivors.names)
    if len(stayed) != len(survivors.names) or not stayed <= set(member.received):
        raise DataError(
            f"site {member.name!r}: survivors must be sites whose shares it holds, each once; "
            "refused"
        )
    if member.name not in stayed:
        raise SettingError(
            f"site {member.name!r} is said to have dropped out and reveals nothing in round "
            f"{member.round}"
        )
    _check_enough(len(stayed), _roster(member), "have stayed")
    revealed = RevealedShares(
        sender=member.name,
        receiver=member.coordinator,
        round=member.round,
        own_masks={n: own for n, (own, _) in member.received.items() if n in stayed},
        mask_keys={n: key for n, (_, key) in member.received.items() if n not in stayed},
    )
    return replace(member, stage="revealed"), revealed


# --- the coordinator's steps --------------------------------------------------------------------


def call_roll(
    keys: Sequence[PublicKeys], *, threshold: int | None = None, sender: str = "coordinator"
) -> tuple[Roster, ...]:
    """Return the roster for each site that has sent keys.

    Parameters
    ----------
    keys
        What `advertise` sent, of three sites or more.
    threshold
        How many sites must stay to the end: above half of them; None for two thirds.
    sender
        The coordinator.
    """
    ordered = tuple(sorted(keys, key=lambda k: k.sender))
    if not ordered:
        raise DataError("a secure sum must have keys of 3 sites or more, got none")
    least = 2 * len(ordered) // 3 + 1 if threshold is None else threshold
    rosters = tuple(
        Roster(
            sender=sender,
            receiver=k.sender,
            round=ordered[0].round,
            keys=ordered,
            threshold=min(least, len(ordered)) if threshold is None else least,
        )
        for k in ordered
    )
    _check_roster(rosters[0])
    return rosters


def deliver(sealed: Sequence[SealedShares], roster: Roster) -> tuple[SealedShares, ...]:
    """Return, for each site that has shared, the boxes that the others made for it."""
    _check_messages(sealed, roster, "have shared")
    names = [message.sender for message in sealed]
    for message in sealed:
        missing = set(names) - set(message.boxes) - {message.sender}
        if missing:
            raise DataError(
                f"site {message.sender!r} must have sealed a box for every other site, "
                f"{len(missing)} are missing"
            )
    return tuple(
        SealedShares(
            sender=roster.sender,
            receiver=name,
            round=roster.round,
            boxes={m.sender: m.boxes[name] for m in sealed if m.sender != name},
        )
        for name in names
    )


def tell_survivors(masked: Sequence[MaskedVector], roster: Roster) -> tuple[Survivors, ...]:
    """Return, for each site whose vector arrived, who they are.

    Raises
    ------
    DataError
        If they are fewer than the threshold.
    """
    _check_messages(masked, roster, "have sent a masked vector")
    names = tuple(sorted(message.sender for message in masked))
    return tuple(
        Survivors(sender=roster.sender, receiver=name, round=roster.round, names=names)
        for name in names
    )


def unmask(
    roster: Roster,
    sealed: Sequence[SealedShares],
    masked: Sequence[MaskedVector],
    revealed: Sequence[RevealedShares],
    code: FixedPoint,
) -> Float[np.ndarray, " size"]:
    """Return the sum of the vectors that arrived, and nothing else that they hold.

    Parameters
    ----------
    roster, sealed
        Who had which keys, and who shared (with commitments).
    masked
        The vectors that arrived, as `tell_survivors` had them.
    revealed
        What at least a threshold of those sites revealed.
    code
        The encoding.

    Raises
    ------
    DataError
        If too few sites revealed, or shares do not fit what was announced.
    """
    _check_messages(masked, roster, "have sent a masked vector")
    _check_messages(revealed, roster, "have revealed shares")
    if len(masked) > code.sites:
        raise DataError(f"sites must be at most {code.sites} by the encoding, got {len(masked)}")
    sizes = {len(message.words) for message in masked}
    if len(sizes) != 1:
        raise DataError(f"masked vectors must be of one size, got {len(sizes)} different ones")
    (size,) = sizes
    stayed = {message.sender for message in masked}
    keys_of = {keys.sender: keys for keys in roster.keys}
    place_of = {keys.sender: at for at, keys in enumerate(roster.keys, start=1)}
    total = np.zeros(size, np.uint64)
    for message in masked:
        total += message.words
    for message in sealed:
        name = message.sender
        by = "own_masks" if name in stayed else "mask_keys"
        shares = {
            place_of[r.sender]: getattr(r, by)[name] for r in revealed if name in getattr(r, by)
        }
        if len(shares) < roster.threshold:
            raise DataError(
                f"the masks of site {name!r} must be opened by {roster.threshold} sites, got the "
                f"shares of {len(shares)}"
            )
        secret = open_shares(shares, roster.threshold)
        fits = (
            commitment_of(secret) == message.commitment
            if name in stayed
            else public_of(secret) == keys_of[name].mask_key
        )
        if not fits:
            raise DataError(
                f"the shares of site {name!r} do not fit what it announced; start again"
            )
        if name in stayed:
            total -= expand(secret, "own mask", roster.round, size)
            continue
        for other in stayed:
            # What the dropped site would have added is what the other's mask lacks.
            total += pair_mask(secret, keys_of[other].mask_key, (name, other, roster.round), size)
    return code.decode(total)


# --- checks -------------------------------------------------------------------------------------


def _roster(member: Member) -> Roster:
    assert member.roster is not None  # noqa: S101  (its stage says that it has shared)
    return member.roster


def _keys_of(member: Member) -> dict[str, PublicKeys]:
    return {keys.sender: keys for keys in _roster(member).keys}


def _check_roster(roster: Roster) -> None:
    names = [keys.sender for keys in roster.keys]
    if len(names) < _LEAST_SITES or len(set(names)) != len(names) or names != sorted(names):
        raise DataError(
            f"a secure sum must have keys of {_LEAST_SITES} sites or more, each once and in order, "
            f"got {len(set(names))} sites in {len(names)} keys"
        )
    if any(keys.round != roster.round for keys in roster.keys):
        raise DataError(f"all keys must be of round {roster.round}; refused")
    if len({keys.mask_key for keys in roster.keys}) != len(names):
        raise DataError("two sites have the same key; refused")
    if not len(names) < 2 * roster.threshold <= 2 * len(names):
        raise SettingError(
            f"threshold must be above half of {len(names)} sites and at most all of them, got "
            f"{roster.threshold}"
        )


def _check_enough(number: int, roster: Roster, what: str) -> None:
    if number < roster.threshold:
        raise DataError(
            f"round {roster.round}: at least {roster.threshold} of {len(roster.keys)} sites must "
            f"{what}, got {number}; start a new round"
        )


def _check_messages(
    messages: Sequence[SealedShares] | Sequence[MaskedVector] | Sequence[RevealedShares],
    roster: Roster,
    what: str,
) -> None:
    names = [message.sender for message in messages]
    if len(set(names)) != len(names) or not set(names) <= {k.sender for k in roster.keys}:
        raise DataError(f"messages must be of sites on the roster, each once, got {len(names)}")
    late = sum(message.round != roster.round for message in messages)
    if late:
        raise DataError(
            f"messages must be of round {roster.round}, got {late} of another round; refused"
        )
    _check_enough(len(names), roster, what)
