"""Noisy means over the network: each site releases the mean of a view's rows within its budget.

A site clips its rows to the bounds that the order states, adds up, adds noise and sends; its gate
charges the cost to its budget and refuses what goes beyond. The run goes on without a site that
refuses, and says so. Noise comes from the operating system; a resumed run sends the same values
again, at no further cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cofill.codec import decode, encode
from cofill.errors import DataError, SettingError
from cofill.network._config import FederationConfig
from cofill.network._experiment import AbstractExperiment
from cofill.network._identity import Identity
from cofill.network._order import RunOrder
from cofill.privacy import Box, MeanDefence, NoisyMean, Release
from cofill.protocol import COORDINATOR, Step
from cofill.views import View

__all__ = ["MeanParty", "Means"]

Outbox = Sequence[Release]
_KNOWN = ("epsilon", "delta", "noise", "neighbours", "low", "high", "view", "min_sites", "seed")


@dataclass(frozen=True, eq=False)
class MeanParty:
    """A site with the view whose mean it releases, and what it has released."""

    name: str
    view: View
    sent: NoisyMean | None = None


@dataclass(frozen=True, eq=False)
class MeanTable:
    """The coordinator: the sites' noisy means."""

    means: tuple[NoisyMean, ...] = ()


class Means(AbstractExperiment):
    """The mean of each site's rows, with noise."""

    name = "mean"

    def __init__(self, order: RunOrder, federation: FederationConfig) -> None:
        super().__init__(order, federation)
        given = dict(order.settings)
        for name in given:
            if name not in _KNOWN:
                raise SettingError(f"mean has no setting {name!r}; it has {', '.join(_KNOWN)}")
        for name in ("epsilon", "low", "high"):
            if name not in given:
                raise SettingError(f"mean needs the setting {name}; give --set {name}=…")
        self.view = given.get("view")
        known = (*federation.shared, *federation.views)
        if self.view is not None and self.view not in known:
            raise SettingError(f"view must be one of {', '.join(known)}, got {self.view!r}")
        if self.view is None and len(federation.shared) == len(known) == 1:
            self.view = known[0]
        if self.view is None and federation.shared:
            raise SettingError(f"mean needs the setting view, one of {', '.join(known)}")
        self.together = self.view in federation.shared
        self.min_sites = given.get("min_sites", 1)
        if not isinstance(self.min_sites, int) or self.min_sites < 1:
            raise SettingError(f"min_sites must be at least 1, got {self.min_sites!r}")
        bounds = [np.asarray(given[end], dtype=float) for end in ("low", "high")]
        try:
            box = Box(*(float(b) if b.ndim == 0 else tuple(b.tolist()) for b in bounds))
            kept = {n: given[n] for n in ("delta", "noise", "neighbours") if n in given}
            self.defence = MeanDefence(box, given["epsilon"], **kept)
        except (TypeError, ValueError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(
                "epsilon, delta, low and high of a mean must be numbers (low and high also one "
                "a column)"
            ) from None
        self._steps = (Step("release", self._release), Step("gather", self._gather, "coordinator"))

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        return self._steps

    @property
    def coordinator(self) -> MeanTable:
        return MeanTable()

    @property
    def homes(self) -> Mapping[str, str]:
        if self.together:
            return {name: name for name in self.federation.names}
        return self.federation.views

    def lacking(self, number: int) -> bool:
        return True

    def begin(
        self, views: Mapping[str, View], people: np.ndarray | None, me: Identity
    ) -> dict[str, Any]:
        if self.together:
            chosen = views.get(str(self.view))
            return {} if chosen is None else {me.name: MeanParty(me.name, chosen)}
        return {
            name: MeanParty(name, view)
            for name, view in views.items()
            if name in self.federation.views and self.view in (None, name)
        }

    def _release(
        self, parties: Sequence[MeanParty], inboxes: Sequence[Any], report_progress: Any
    ) -> list[tuple[MeanParty, Outbox]]:
        made = []
        for party in parties:
            noisy = self.defence.release(
                party.view.cells.astype(float), sender=party.name, receiver=COORDINATOR
            )
            made.append((replace(party, sent=noisy), [noisy]))
        return made

    def _gather(
        self, parties: Sequence[MeanTable], inboxes: Sequence[Any], report_progress: Any
    ) -> list[tuple[MeanTable, Outbox]]:
        made = []
        for inbox in inboxes:
            means = tuple(r for r in inbox if isinstance(r, NoisyMean))
            if len(means) < self.min_sites:
                raise DataError(
                    f"{len(means)} sites released a mean, and min_sites is {self.min_sites}"
                )
            made.append((MeanTable(means), []))
        return made

    def keep(self, party: MeanParty | MeanTable) -> bytes:
        kept = party.means if isinstance(party, MeanTable) else (party.view.name, party.sent)
        return encode(kept, format="cofill.state")

    def restore(
        self,
        name: str,
        kept: bytes,
        views: Mapping[str, View],
        people: np.ndarray | None,
        me: Identity,
    ) -> MeanParty | MeanTable:
        found = decode(kept, format="cofill.state")
        if name == COORDINATOR:
            return MeanTable(found)
        return MeanParty(name, views[found[0]], found[1])

    def finish(self, party: MeanParty, people: np.ndarray | None, folder: Path, form: str) -> None:
        sent = party.sent
        if sent is None:
            raise DataError(f"site {party.name!r} has not released a mean")
        lines = [
            f"{feature.name},{value!r},{scale!r}\n"
            for feature, value, scale in zip(
                party.view.features, sent.mean.tolist(), sent.scale.tolist(), strict=True
            )
        ]
        text = "column,noisy_mean,noise\n" + "".join(lines)
        (folder / f"{party.view.name}_mean.csv").write_text(text, encoding="utf-8")
        (folder / "guarantee.txt").write_text(f"{sent.guarantee}\n", encoding="utf-8")

    def result(self, party: MeanTable) -> dict[str, Any]:
        told: dict[str, Any] = {
            mean.sender: {
                "rows": mean.rows,
                "mean": mean.mean.tolist(),
                "noise": mean.noise,
                "scale": mean.scale.tolist(),
                "guarantee": str(mean.guarantee),
            }
            for mean in party.means
        }
        widths = {len(mean.mean) for mean in party.means}
        rows = [max(mean.rows, 0) for mean in party.means]
        together = None
        if self.together and len(widths) == 1 and sum(rows):
            values = np.stack([mean.mean for mean in party.means])
            together = np.average(values, axis=0, weights=rows).tolist()
        return {"sites": told, "mean": together}
