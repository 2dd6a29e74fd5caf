"""How sites agree on the secret that blinds ids, so that nobody but them can know it.

Every site draws 32 bytes, sends them to each other site, and hashes everybody's together: the
secret is random as long as one site's bytes were. They travel in sealed messages, so the
coordinator learns nothing, and with a new secret each run the tokens of two runs cannot be joined.
A site that has the secret can test any id it can think of: keyed hashing is the weaker way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from cofill.cooperate._site import CooperativeSite
from cofill.errors import DataError
from cofill.privacy import BlindingPart, Release
from cofill.protocol import Step

__all__ = ["AGREE", "OFFER", "common_secret"]

Inboxes = Sequence[tuple[Release, ...]]


def _offer(
    sites: Sequence[CooperativeSite], inboxes: Inboxes, report_progress: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Send the bytes that each site begins with to every other site."""
    out = []
    for site in sites:
        sent: list[Release] = [
            BlindingPart(sender=site.name, receiver=other, part=site.secret)
            for other in site.others
        ]
        out.append((site, sent))
    return out


def _agree(
    sites: Sequence[CooperativeSite], inboxes: Inboxes, report_progress: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Make the common secret of everybody's bytes."""
    out: list[tuple[CooperativeSite, list[Release]]] = []
    for site, inbox in zip(sites, inboxes, strict=True):
        parts = {r.sender: r.part for r in inbox if isinstance(r, BlindingPart)}
        found = {site.name: site.secret}
        for name in site.others:
            part = parts.get(name)
            if part is None or len(part) != 32:
                raise DataError(
                    f"site {name!r} must offer 32 bytes to site {site.name!r} for the secret, got "
                    f"{0 if part is None else len(part)}; refused"
                )
            found[name] = part
        out.append((site.with_(secret=common_secret(found)), []))
    return out


def common_secret(parts: dict[str, bytes]) -> bytes:
    """Return the secret that is made of each site's 32 bytes.

    Examples
    --------
    >>> a, b = {"x": bytes(32), "y": b"1" * 32}, {"y": b"1" * 32, "x": bytes(32)}
    >>> common_secret(a) == common_secret(b)
    True
    """
    hashed = hashlib.blake2b(digest_size=32, person=b"cofill blinding")
    for name in sorted(parts):
        hashed.update(len(name.encode()).to_bytes(4, "little") + name.encode() + parts[name])
    return hashed.digest()


OFFER = Step("offer", _offer)
AGREE = Step("agree", _agree)
