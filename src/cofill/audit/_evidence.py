"""What an auditor has beside the ledger: what was sent, and the owner's rows behind it.

Nothing is trained for an audit of a run: the releases are the bytes that left (`SentLog`). Codes
are sent under tokens; the secret that the run kept beside them turns the ids of the owner's rows
into the same tokens, which tells whose code is whose. Of masked rows it kept the places.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cofill.audit._codes import CodeAuditSettings, CodeRelease
from cofill.federate import FederatedProtocol, RowSite
from cofill.privacy import Codes, Release, SentLog, blind, rows_of
from cofill.protocol import Federation, LocalData, run_protocol
from cofill.views import MultiView, Scaler, View

FEWEST = 20  # people, below which a leak cannot be told from chance
NOT_KEPT = (
    "the run kept no values of what it sent, only the ledger; run it again to have them attacked"
)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What there is to attack releases with.

    Parameters
    ----------
    sent, keys
        The releases that left, oldest first (empty where the run kept none), and by name what finds
        the owners' people in them.
    views, held
        Rows of views that one site holds, by view; and of sites that hold the same views of
        different people, by site and view.
    row_sites
        Such sites with their rows as the common model sees them, and that model's network.
    strangers
        Rows of people like theirs whom no site has trained on, to tell from them who was trained
        on.
    missing
        By view or site, why its rows could not be read.
    codes
        How to attack codes.
    attribute
        A view and a column of it, to be inferred from other views' codes.
    """

    sent: tuple[Release, ...] = ()
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    views: Mapping[str, View] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, View]] = field(default_factory=dict)
    row_sites: Mapping[str, RowSite] = field(default_factory=dict)
    strangers: MultiView | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    codes: CodeAuditSettings = field(default_factory=CodeAuditSettings)
    attribute: tuple[str, str] | None = None

    def releases(self, kind: str, sender: str | None = None) -> list[Any]:
        """Return the releases of a type, by one sender or by all."""
        return [r for r in self.sent if r.kind == kind and sender in (None, r.sender)]

    def rows(self, view: str) -> Float[np.ndarray, "people width"]:
        """Return a view's rows as networks see them, NaN where a cell is not known."""
        return Scaler.fit(self.views[view]).encode_view(self.views[view])[0]

    def candidates(self, view: str) -> np.ndarray:
        """Return the ids that somebody can think of: those of all views with ids of this type."""
        kind = self.views[view].ids.dtype.kind
        same_type = [v.ids for v in self.views.values() if v.ids.dtype.kind == kind]
        return np.unique(np.concatenate(same_type))

    def stages(self, view: str) -> list[str]:
        """Return the stages of a run on shares in which a view's rows had places, in any round."""
        names = [key.removeprefix(f"{view}/") for key in self.keys if key.startswith(f"{view}/")]
        return sorted(names, key=lambda name: (not name.startswith("learn"), name))

    def places(self, view: str, stage: str) -> tuple[int, Int[np.ndarray, " rows"]] | None:
        """Return how many places a stage has and those of a view's rows, None where not kept."""
        key = self.keys.get(f"{view}/{stage}")
        if key is None or view not in self.views:
            return None
        everyone, *places = np.frombuffer(key, "<i8").tolist()
        return (everyone, np.array(places)) if len(places) == len(self.views[view]) else None

    def code_release(self, view: str) -> CodeRelease | None:
        """Return the codes that the best-informed receiver has of a view, with rows and ids.

        Of several encoders those of the last one; people in the order of the view's rows. None
        where codes, rows or the secret are missing.
        """
        sent: list[Codes] = self.releases("codes", view)
        if not sent or view not in self.views or view not in self.keys:
            return None
        by_receiver: dict[str, list[Codes]] = {}
        for codes in sent:
            if codes.spec.version == sent[-1].spec.version:
                by_receiver.setdefault(codes.receiver, []).append(codes)
        parts = max(by_receiver.values(), key=lambda parts: sum(len(c.tokens) for c in parts))
        tokens, first = np.unique(np.concatenate([c.tokens for c in parts]), return_index=True)
        codes_by_token = np.concatenate([c.codes for c in parts])[first]
        positions = rows_of(tokens, blind(self.views[view].ids, self.keys[view]))
        is_sent = positions >= 0
        return CodeRelease(
            codes_by_token[positions[is_sent]],
            self.rows(view)[is_sent],
            self.views[view].ids[is_sent],
        )

    def why_not(self, sender: str) -> str:
        """Return why a sender's releases cannot be attacked."""
        if sender in self.missing:
            return self.missing[sender]
        if sender not in self.views and sender not in self.held:
            return f"the rows of {sender!r} were not given"
        if not any(release.sender == sender for release in self.sent):
            return NOT_KEPT
        return f"the run did not keep what it takes to find the rows of {sender!r} behind it"


def read_evidence(
    logs: Iterable[SentLog], *, received: Iterable[SentLog] = (), **rest: Any
) -> Evidence:
    """Return evidence from what was sent.

    Parameters
    ----------
    logs
        What each party, or all of them, have sent.
    received
        What the coordinator sent the parties, where its own log is not at hand.
    rest
        Further fields of `Evidence`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> log = SentLog(Path(tempfile.mkdtemp()) / "sent")
    >>> read_evidence([log]).sent
    ()
    """
    logs = list(logs)
    keys = {name: key for log in logs for name, key in log.keys().items()}
    sent = [r for log in [*logs, *received] for step in log for r in step.releases]
    return Evidence(sent=tuple(sent), keys=keys, **rest)


def start_row_sites(
    protocol: FederatedProtocol, held: Mapping[str, Mapping[str, View]]
) -> dict[str, RowSite]:
    """Return sites that hold the same views with their rows encoded, before any training."""
    sites: dict[str, Any] = {}
    for site, views in held.items():
        sites |= protocol.start_site(LocalData(site, views))
    federation: Federation[Any] = Federation(sites, coordinator=protocol.start_coordinator())
    run_protocol(protocol, [federation], until=protocol.first_round)
    return federation.sites
