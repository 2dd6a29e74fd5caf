"""A sum over sites of which the coordinator sees nothing but the sum (Bonawitz et al. 2017).

Every two sites agree on a mask that one adds and the other subtracts, so that in the sum they
cancel. Each site adds one more mask of its own. Both masks' seeds are shared out (Shamir) under
encryption before anything is sent, so that a threshold of sites can remove what does not cancel:
the own masks of sites that stayed, the pair masks of sites that dropped out. All functions are
pure: a `Member` (a site's state) goes in, the next one comes out with what to send. Old states must
not be used again (two vectors under the same masks give away their difference): a site that fails
within a round begins the next one. Keys are fresh in every round, so that opening a dropped site's
key says nothing about other rounds. ::

    site         advertise_keys ──PublicKeys──▶                coordinator
                 ◀──Roster── make_rosters                      (all keys, the threshold)
                 share_secrets ──SealedShares──▶
                 ◀──SealedShares── deliver_shares              (each site gets its boxes)
                 mask_vector ──MaskedVector──▶
                 ◀──Survivors── name_survivors                 (whose vectors arrived)
                 reveal_shares ──RevealedShares──▶ unmask_sum  (the sum)

What it protects against:

- A coordinator that follows the steps and looks at everything it gets, together with up to
  threshold − 1 sites: it learns the sum over the sites that stayed, and so, of the honest ones
  among them, their sum. (A sum of one honest site is that site's vector: noise is another defence.)
- A late vector of a site that was declared dropped: its pair masks are known by then, its own mask
  is not, and no honest site gives shares of both.
- A coordinator that tells sites different stories about who takes part, by which keys or with which
  threshold: shares are sealed for one roster, and the sites whose rosters differ cannot open each
  other's.
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

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from cofill.errors import DataError, SettingError
from cofill.privacy._checks import require_whole
from cofill.privacy._coordinator_releases import (
    MaskedVector,
    PublicKeys,
    RevealedShares,
    Roster,
    SealedShares,
    Survivors,
)
from cofill.privacy._events import Event
from cofill.privacy._masks import Entropy, SumCode, commit, expand_seed, pair_mask, share_secret
from cofill.privacy._sealing import (
    MessageAddress,
    has_signed,
    open_message,
    seal_message,
    sealing_public_key,
    sign,
)

_LEAST_SITES = 3  # of two, each would read the other's vector from the sum
_SHARE = 33  # bytes of a number of the shares' field, which is just above 256 bits
_BOX = 12 + 2 * _SHARE + 16  # two shares, with the nonce and the tag of a sealed message
Stage = Literal["idle", "advertised", "shared", "masked", "revealed"]
_Message = TypeVar("_Message")


@dataclass(frozen=True)
class Member:
    """A site in secure sums: its name, its last round, and the secrets of that round.

    ``identity`` is a 32-byte Ed25519 private key that signs its keys, or None; with the other
    sites' public identities in ``known`` (see `signing_public_key`), keys that are not signed by
    them are refused. ``run`` is what the keys are signed for, and ``least`` the fewest sites whose
    sum may be opened, whatever the coordinator says. ``entropy`` is where secrets come from: the
    operating system. Tests give others.
    """

    name: str
    coordinator: str = "coordinator"
    identity: bytes | None = field(default=None, repr=False)
    known: Mapping[str, bytes] | None = field(default=None, repr=False)
    entropy: Entropy = field(default=secrets.token_bytes, repr=False)
    run: str = ""
    least: int = 2
    round: int = -1
    stage: Stage = "idle"
    seal_secret: bytes = field(default=b"", repr=False)
    mask_secret: bytes = field(default=b"", repr=False)
    own_mask: bytes = field(default=b"", repr=False)
    roster: Roster | None = field(default=None, repr=False)
    own_shares: tuple[int, int] = field(default=(0, 0), repr=False)
    received: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    def _require_stage(self, stage: Stage, number: int, action: str) -> None:
        if number != self.round:
            raise SettingError(
                f"site {self.name!r}: to {action}, a message must be of round {self.round}, got "
                f"one of round {number}; refused"
            )
        if self.stage != stage:
            raise SettingError(
                f"site {self.name!r} can {action} once in round {self.round}, after it has "
                f"{stage}; it has {self.stage}"
            )

    def _message(self, kind: Callable[..., _Message], **fields: Any) -> _Message:
        """Return a message of this round to the coordinator."""
        return kind(sender=self.name, receiver=self.coordinator, round=self.round, **fields)

    def _address(self, sender: str, receiver: str, roster: Roster) -> MessageAddress:
        # Of the roster too: a box opens only where both were told of the same sites and keys.
        purpose = f"secure sum {self.run} {_digest(roster)}"
        return MessageAddress(purpose, self.round, sender, receiver)

    def signed_part(self, keys: PublicKeys) -> bytes:
        """Return what a site signs of its keys: whose they are, in which run and round."""
        names = b"cofill keys\0" + self.run.encode() + b"\0" + keys.sender.encode()
        return names + b"\0%d\0" % keys.round + keys.seal_key + keys.mask_key

    def forget_round(self) -> Member:
        """Return the site without the secrets of a sum, though not that it was in it."""
        return replace(
            self,
            stage="idle",
            seal_secret=b"",
            mask_secret=b"",
            own_mask=b"",
            roster=None,
            own_shares=(0, 0),
            received={},
        )


def advertise_keys(member: Member, number: int) -> tuple[Member, PublicKeys]:
    """Begin a round, numbered above the last: draw two key pairs and send the public keys.

    Examples
    --------
    >>> _, keys = advertise_keys(Member("clinic"), 0)
    >>> keys.n_bytes
    64
    """
    require_whole("number", number, 0)
    if number <= member.round:
        raise SettingError(
            f"site {member.name!r}: a round's number must be above {member.round}, that of its "
            f"last one, got {number}; refused"
        )
    begun = replace(
        member,
        round=number,
        stage="advertised",
        seal_secret=member.entropy(32),
        mask_secret=member.entropy(32),
        own_mask=member.entropy(32),
        roster=None,
        received={},
    )
    keys = begun._message(
        PublicKeys,
        seal_key=sealing_public_key(begun.seal_secret),
        mask_key=sealing_public_key(begun.mask_secret),
    )
    if member.identity is not None:
        keys = replace(keys, signature=sign(member.identity, begun.signed_part(keys)))
    return begun, keys


def share_secrets(member: Member, roster: Roster) -> tuple[Member, SealedShares]:
    """Check who takes part, and send each other site its shares of this site's two secrets."""
    member._require_stage("advertised", roster.round, "share")
    check_roster(roster)
    if roster.threshold < member.least:
        raise DataError(
            f"site {member.name!r} takes part in sums of {member.least} sites or more, and the "
            f"coordinator's threshold is {roster.threshold}; refused"
        )
    _check_keys(member, roster)
    names = [keys.sender for keys in roster.keys]
    seeds, mask_keys = (
        share_secret(secret, len(names), roster.threshold, member.entropy)
        for secret in (member.own_mask, member.mask_secret)
    )
    shares_of = dict(zip(names, zip(seeds, mask_keys, strict=True), strict=True))
    boxes = {
        # No signature: the key that seals is itself signed, and lives for this round only.
        keys.sender: seal_message(
            b"".join(part.to_bytes(_SHARE, "big") for part in shares_of[keys.sender]),
            member._address(member.name, keys.sender, roster),
            sealing_key=member.seal_secret,
            receiver_key=keys.seal_key,
            limit=_BOX,
        )
        for keys in roster.keys
        if keys.sender != member.name
    }
    shared = replace(member, stage="shared", roster=roster, own_shares=shares_of[member.name])
    return shared, member._message(SealedShares, boxes=boxes, commitment=commit(member.own_mask))


def mask_vector(
    member: Member,
    delivered: SealedShares,
    vector: Any,
    code: SumCode,
    *,
    rows: int = 0,
    event: Event | None = None,
) -> tuple[Member, MaskedVector]:
    """Open the boxes from the other sites and send the vector under all masks.

    ``delivered`` has the boxes of every site whose shares the coordinator has; ``vector`` is what
    the code takes, ``rows`` how many individuals it was made from, ``event`` its cost where it has
    noise.
    """
    member._require_stage("shared", delivered.round, "mask")
    roster = member.roster
    assert roster is not None  # noqa: S101  (its stage says that it has shared)
    peers = {keys.sender: keys for keys in roster.keys if keys.sender != member.name}
    strangers = set(delivered.boxes) - set(peers)
    if strangers:
        raise DataError(
            f"site {member.name!r}: {len(strangers)} boxes are of no site on the roster; refused"
        )
    check_enough(len(delivered.boxes) + 1, roster, "have shared")
    received = {member.name: member.own_shares}
    words = code.encode(vector)
    words = words + expand_seed(member.own_mask, member.round, len(words))
    for name, box in delivered.boxes.items():
        content = _open_box(member, name, box, peers[name].seal_key, roster)
        parts = content[:_SHARE], content[_SHARE:]
        received[name] = int.from_bytes(parts[0], "big"), int.from_bytes(parts[1], "big")
        keys = member.mask_secret, peers[name].mask_key
        # The later name subtracts what the earlier one adds, so that both agree without a message.
        words = words + pair_mask(*keys, member.round, len(words), subtract=member.name > name)
    masked = replace(member, stage="masked", received=received)
    return masked, member._message(MaskedVector, words=words, rows=rows, event=event)


def _open_box(member: Member, name: str, box: bytes, seal_key: bytes, roster: Roster) -> bytes:
    """Return the two shares in a box, or raise a `DataError` that names whose it is."""
    try:
        return open_message(
            box,
            member._address(name, member.name, roster),
            sealing_key=member.seal_secret,
            sender_key=seal_key,
            limit=_BOX,
        )
    except DataError:
        raise DataError(
            f"site {member.name!r} cannot open the shares of site {name!r}: they were changed, or "
            f"site {name!r} was told of other participants, keys or another threshold; refused"
        ) from None


def _digest(roster: Roster) -> str:
    """Return a hash of what a coordinator says of a sum: its sites, their keys, the threshold."""
    content = hashlib.blake2b(b"%d %d" % (roster.round, roster.threshold), digest_size=16)
    for keys in roster.keys:
        parts = keys.sender.encode(), keys.seal_key, keys.mask_key
        content.update(b"".join(len(part).to_bytes(4) + part for part in parts))
    return content.hexdigest()


def reveal_shares(member: Member, survivors: Survivors) -> tuple[Member, RevealedShares]:
    """Give the coordinator, of each site, the share of one secret: once, and never of both.

    Refused if fewer sites stayed than the threshold, or this one is said to have dropped out.
    """
    member._require_stage("masked", survivors.round, "reveal")
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
    assert member.roster is not None  # noqa: S101  (its stage says that it has shared)
    check_enough(len(stayed), member.roster, "have stayed")
    revealed = member._message(
        RevealedShares,
        own_masks={n: seed for n, (seed, _) in member.received.items() if n in stayed},
        mask_keys={n: key for n, (_, key) in member.received.items() if n not in stayed},
    )
    return replace(member, stage="revealed"), revealed


# --- checks that sites and the coordinator both make ----------------------------------------------


def check_roster(roster: Roster) -> None:
    """Raise unless a roster has enough different sites and keys of its round, and its threshold."""
    names = [keys.sender for keys in roster.keys]
    # In order, because a site's position on the roster says which share of a secret it holds.
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


def check_enough(sites: int, roster: Roster, action: str) -> None:
    """Raise a `DataError` if fewer sites than the threshold have done something."""
    if sites < roster.threshold:
        raise DataError(
            f"at least {roster.threshold} of {len(roster.keys)} sites must {action}, got {sites}; "
            "start a new round"
        )


def _check_keys(member: Member, roster: Roster) -> None:
    """Raise unless the site's keys are as it sent them, and the others' signed by who is known."""
    expected = (sealing_public_key(member.seal_secret), sealing_public_key(member.mask_secret))
    listed = [(k.seal_key, k.mask_key) for k in roster.keys if k.sender == member.name]
    if listed != [expected]:
        raise DataError(f"site {member.name!r} is not on the roster with its own keys; refused")
    if member.known is None:
        return
    for keys in roster.keys:
        verify_key = member.known.get(keys.sender, b"")
        if keys.sender != member.name and not has_signed(
            verify_key, keys.signature, member.signed_part(keys)
        ):
            raise DataError(
                f"the keys of site {keys.sender!r} are not signed by an identity that is known of "
                "it; refused"
            )
