"""Private set intersection before alignment: a site hears only of people whom it can name.

With keyed hashing a site learns the tokens of everybody at its peers and could test any id it can
think of. Here each site first finds, by openmined-psi (Diffie–Hellman, semi-honest), which of its
individuals a peer can name: those in the peer's view or on its list of people. It learns nothing of
the peer's other people but their number, and announces only the common ones. A token then tells its
receiver nothing that the intersection did not, and codes are only asked for people it can name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cofill.cooperate._encode import ANNOUNCE
from cofill.cooperate._site import CooperativeSite
from cofill.errors import DataError, SettingError
from cofill.network._agreement import AGREE
from cofill.privacy import BlindedIds, EncryptedIds, Release, no_tokens, rows_of
from cofill.protocol import Step
from cofill.views import View

__all__ = ["MetSite", "named", "with_intersection"]

Inboxes = Sequence[tuple[Release, ...]]
_FALSE_POSITIVES = 1e-9


def named(view: View, people: np.ndarray | None) -> np.ndarray:
    """Return the ids that a site can name: its view's and those on its list."""
    return view.ids if people is None or not len(people) else np.union1d(view.ids, people)


@dataclass(frozen=True, eq=False)
class MetSite:
    """A site that knows, per peer, which of its own individuals the peer can name."""

    site: CooperativeSite
    known: np.ndarray
    key: bytes = field(
        default_factory=lambda: _library().client.CreateWithNewKey(True).GetPrivateKeyBytes()
    )
    shared: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The site's name."""
        return self.site.name

    def order(self) -> np.ndarray:
        """Return the order in which its ids are sent: not that of its rows."""
        seed = int.from_bytes(self.key, "little")
        return np.random.default_rng(seed).permutation(len(self.site.view))


def _library() -> Any:
    try:
        import private_set_intersection.python as library
    except ImportError:
        raise SettingError(
            "alignment 'psi' needs openmined-psi at every site; install it with: "
            "pip install 'cofill[psi]'"
        ) from None
    return library


def _texts(ids: np.ndarray) -> list[str]:
    return [f"{type(value).__name__}:{value}" for value in ids.tolist()]


def _request(
    parties: Sequence[MetSite], inboxes: Inboxes, report_progress: Any
) -> list[tuple[MetSite, list[Release]]]:
    """Send every peer this site's ids under its own key."""
    out = []
    for party in parties:
        ids = party.site.view.ids[party.order()]
        client = _library().client.CreateFromKey(party.key, True)
        content = client.CreateRequest(_texts(ids)).SerializeToString()
        sent: list[Release] = [
            EncryptedIds(
                sender=party.name,
                receiver=other,
                purpose="ask",
                content=content,
                individuals=len(ids),
            )
            for other in party.site.others
        ]
        out.append((party, sent))
    return out


def _reply(
    parties: Sequence[MetSite], inboxes: Inboxes, report_progress: Any
) -> list[tuple[MetSite, list[Release]]]:
    """Encrypt what was asked once more, and the ids that this site can name."""
    library = _library()
    out = []
    for party, inbox in zip(parties, inboxes, strict=True):
        sent: list[Release] = []
        for asked in inbox:
            if not isinstance(asked, EncryptedIds):
                continue
            server = library.server.CreateWithNewKey(True)
            known = _texts(party.known)
            own = server.CreateSetupMessage(
                _FALSE_POSITIVES, max(asked.individuals, 1), known, library.DataStructure.RAW
            )
            try:
                request = library.Request()
                request.ParseFromString(asked.content)
                content = server.ProcessRequest(request).SerializeToString()
            except Exception:  # noqa: BLE001  the library raises many kinds
                raise DataError(
                    f"the request of {asked.sender!r} for an intersection is malformed; refused"
                ) from None
            sent.append(
                EncryptedIds(
                    sender=party.name,
                    receiver=asked.sender,
                    purpose="answer",
                    content=content,
                    answering_ids=own.SerializeToString(),
                    individuals=len(known),
                )
            )
        out.append((party, sent))
    return out


def _meet(
    parties: Sequence[MetSite], inboxes: Inboxes, report_progress: Any
) -> list[tuple[MetSite, list[Release]]]:
    """Keep, per peer, the tokens of the individuals that both can name."""
    library = _library()
    out: list[tuple[MetSite, list[Release]]] = []
    for party, inbox in zip(parties, inboxes, strict=True):
        client = library.client.CreateFromKey(party.key, True)
        order, tokens = party.order(), party.site.tokens
        shared = {}
        for answer in inbox:
            if not isinstance(answer, EncryptedIds):
                continue
            try:
                own, content = library.ServerSetup(), library.Response()
                own.ParseFromString(answer.answering_ids)
                content.ParseFromString(answer.content)
                found = np.array(sorted(client.GetIntersection(own, content)), dtype=np.int64)
                rows = np.sort(order[found])
            except Exception:  # noqa: BLE001
                raise DataError(
                    f"the intersection with {answer.sender!r} is malformed; refused"
                ) from None
            shared[answer.sender] = tokens[rows]
        out.append((replace(party, shared=shared), []))
    return out


def with_intersection(steps: Sequence[Step[CooperativeSite]]) -> tuple[Step[MetSite], ...]:
    """Return steps that meet after the secret is agreed, and announce only common individuals."""
    meeting: tuple[Step[MetSite], ...] = (
        Step("ask for common ids", _request),
        Step("answer with common ids", _reply),
        Step("find common ids", _meet),
    )
    out: list[Step[MetSite]] = []
    for step in steps:
        out.append(_lifted(step))
        if step is AGREE:
            out += meeting
    return tuple(out)


def _lifted(step: Step[CooperativeSite]) -> Step[MetSite]:
    def run(
        parties: Sequence[MetSite], inboxes: Inboxes, report_progress: Any
    ) -> list[tuple[MetSite, Sequence[Release]]]:
        results = step.run([party.site for party in parties], inboxes, report_progress)
        return [
            (
                replace(party, site=site),
                [_common(party, r) for r in sent] if step is ANNOUNCE else sent,
            )
            for party, (site, sent) in zip(parties, results, strict=True)
        ]

    return Step(step.name, run, step.at)


def _common(party: MetSite, release: Release) -> Release:
    """Leave the tokens of common individuals in an announcement."""
    if not isinstance(release, BlindedIds):
        return release
    common = party.shared.get(release.receiver, no_tokens())
    return replace(release, tokens=release.tokens[rows_of(common, release.tokens) >= 0])
