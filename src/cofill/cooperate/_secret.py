"""How sites agree on the secret that blinds ids, so that nobody but them can know it.

Every site draws 32 bytes, sends them to each peer, and hashes everybody's together: the secret is
random as long as one site's bytes were. They travel sealed, so the coordinator learns nothing, and
with a new secret each run the tokens of two runs cannot be joined. A site that has the secret can
test any id it can think of: keyed hashing is the weaker way to align (see `_psi.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cofill.cooperate._site import CooperativeSite
from cofill.errors import DataError
from cofill.privacy import BlindingPart
from cofill.protocol import Inbox, Outbox, Step, one_by_one


def _offer(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    return site, [
        BlindingPart(sender=site.name, receiver=peer, part=site.secret) for peer in site.peers
    ]


def _agree(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    received = {r.sender: r.part for r in inbox if isinstance(r, BlindingPart)}
    parts = {site.name: site.secret}
    for peer in site.peers:
        part = received.get(peer, b"")
        if len(part) != 32:
            raise DataError(
                f"site {peer!r} must offer 32 bytes to site {site.name!r} for the secret, got "
                f"{len(part)}; refused"
            )
        parts[peer] = part
    return site.with_(secret=common_secret(parts)), []


def common_secret(parts: Mapping[str, bytes]) -> bytes:
    """Return the secret that each site's 32 bytes make, whatever their order.

    Examples
    --------
    >>> a, b = {"x": bytes(32), "y": b"1" * 32}, {"y": b"1" * 32, "x": bytes(32)}
    >>> common_secret(a) == common_secret(b)
    True
    """
    digest = hashlib.blake2b(digest_size=32, person=b"cofill blinding")
    for name in sorted(parts):
        digest.update(len(name.encode()).to_bytes(4, "little") + name.encode() + parts[name])
    return digest.digest()


OFFER = Step("offer", one_by_one(_offer))
AGREE = Step("agree", one_by_one(_agree))
