"""How sites align their individuals: a secret that blinds ids, and the private set intersection.

Every site draws 32 bytes, sends them to each peer, and hashes everybody's together: the secret is
random as long as one site's bytes were. They travel sealed, so the coordinator learns nothing, and
with a new secret each run the tokens of two runs cannot be joined.

With keyed hashing alone a site learns the tokens of everybody at its peers and could test any id it
can think of. With the intersection each site first finds, by openmined-psi (Diffie–Hellman,
semi-honest), which of its individuals a peer can name: those in the peer's view or on its list of
people. It learns nothing of the peer's other people but their number, and announces only the common
ones. A token then tells its receiver nothing that the intersection did not, and codes are only
asked for people it can name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.cooperate._site import CooperativeSite, PsiState
from cofill.errors import DataError, SettingError
from cofill.privacy import BlindingPart, EncryptedIds
from cofill.protocol import Inbox, Outbox, Step, one_by_one

_FALSE_POSITIVES = 1e-9


def _offer(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    return site, [
        BlindingPart(sender=site.name, receiver=peer, part=site.secret) for peer in site.peers
    ]


def _agree(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    received = {r.sender: r.part for r in inbox if isinstance(r, BlindingPart)}
    parts = {site.name: site.secret} | {peer: received.get(peer, b"") for peer in site.peers}
    for peer, part in parts.items():
        if len(part) != 32:
            raise DataError(
                f"site {peer!r} must offer 32 bytes to site {site.name!r} for the secret, got "
                f"{len(part)}; refused"
            )
    return replace(site, secret=common_secret(parts)), []


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


# --- private set intersection, after the agreement on the secret ----------------------------------


def new_psi_state() -> PsiState:
    """Return the state of a site that has met nobody yet, with a fresh key."""
    return PsiState(_library().client.CreateWithNewKey(True).GetPrivateKeyBytes())


def _library() -> Any:
    try:
        import private_set_intersection.python as library
    except ImportError:
        raise SettingError(
            "alignment 'psi' needs openmined-psi at every site; install it with: "
            "pip install 'cofill[psi]', or let sites test each other's ids (--set alignment=hash)"
        ) from None
    return library


def _key(site: CooperativeSite) -> bytes:
    if site.psi is None:
        raise SettingError(f"site {site.name!r} has no key of an intersection; start a new run")
    return site.psi.key


def _sending_order(site: CooperativeSite) -> np.ndarray:
    """Return the order in which the view's ids are sent: the order of rows stays private."""
    seed = int.from_bytes(_key(site), "little")
    return np.random.default_rng(seed).permutation(len(site.view))


def _texts(ids: np.ndarray) -> list[str]:
    return [f"{type(value).__name__}:{value}" for value in ids.tolist()]


def _request(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Send every peer this site's ids under its own key."""
    ids = site.view.ids[_sending_order(site)]
    client = _library().client.CreateFromKey(_key(site), True)
    content = client.CreateRequest(_texts(ids)).SerializeToString()
    return site, [
        EncryptedIds(
            sender=site.name, receiver=peer, purpose="ask", content=content, individuals=len(ids)
        )
        for peer in site.peers
    ]


def _reply(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Encrypt the requested ids once more, and the ids that this site can name."""
    library, ids = _library(), site.view.ids
    if site.people is not None and len(site.people):
        ids = np.union1d(ids, site.people)
    replies = []
    for request in inbox:
        if not isinstance(request, EncryptedIds):
            continue
        server = library.server.CreateWithNewKey(True)
        setup = server.CreateSetupMessage(
            _FALSE_POSITIVES, max(request.individuals, 1), _texts(ids), library.DataStructure.RAW
        )
        try:
            message = library.Request()
            message.ParseFromString(request.content)
            content = server.ProcessRequest(message).SerializeToString()
        except Exception:  # noqa: BLE001  the library raises many kinds
            raise DataError(
                f"the request of {request.sender!r} for an intersection is malformed; refused"
            ) from None
        replies.append(
            EncryptedIds(
                sender=site.name,
                receiver=request.sender,
                purpose="answer",
                content=content,
                answering_ids=setup.SerializeToString(),
                individuals=len(ids),
            )
        )
    return site, replies


def _intersect(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Keep, per peer, the tokens of the individuals that both can name."""
    library = _library()
    client = library.client.CreateFromKey(_key(site), True)
    order, tokens = _sending_order(site), site.tokens
    common = {}
    for reply in inbox:
        if not isinstance(reply, EncryptedIds):
            continue
        try:
            setup, response = library.ServerSetup(), library.Response()
            setup.ParseFromString(reply.answering_ids)
            response.ParseFromString(reply.content)
            positions = np.array(sorted(client.GetIntersection(setup, response)), dtype=np.int64)
            common[reply.sender] = tokens[np.sort(order[positions])]
        except Exception:  # noqa: BLE001  the library raises many kinds
            raise DataError(
                f"the intersection with {reply.sender!r} is malformed; refused"
            ) from None
    return replace(site, psi=PsiState(_key(site), common)), []


INTERSECT = (
    Step("ask for common ids", one_by_one(_request)),
    Step("answer with common ids", one_by_one(_reply)),
    Step("find common ids", one_by_one(_intersect)),
)
