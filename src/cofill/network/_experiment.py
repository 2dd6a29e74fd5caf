"""What a driver needs to know of a protocol beside its steps, so that it can run over the network.

It is made from the run's order at every place alike; a site never runs anything but these steps of
its own package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cofill.errors import SettingError
from cofill.network._config import FederationConfig
from cofill.network._identity import Identity
from cofill.network._order import RunOrder
from cofill.privacy import RunFigures
from cofill.protocol import Step
from cofill.views import View

__all__ = ["AbstractExperiment", "lifted", "settings_as"]


class AbstractExperiment(ABC):
    """A protocol as places run it.

    A place runs ``steps[k].run`` over the parties it holds. `begin` makes a site's parties from its
    views, `keep` and `restore` turn a party into bytes between steps and back, `finish` writes what
    a party has made and says how it went. `coordinator` is None where sites need none; where there
    is one, sites talk to nobody else.
    """

    name: ClassVar[str]

    def __init__(self, order: RunOrder, federation: FederationConfig) -> None:
        self.order, self.federation = order, federation

    def require_by_row(self) -> None:
        """Raise a `SettingError` unless sites hold the same views of other individuals."""
        if not self.federation.by_row:
            raise SettingError(
                f"{self.name} needs sites that hold the same views of other individuals; name "
                "those views in federation.toml (views = [...])"
            )

    @property
    @abstractmethod
    def steps(self) -> tuple[Step[Any], ...]:
        """The steps, all of them, in order."""

    @property
    def coordinator(self) -> Any:
        """The coordinator's own party, if the protocol has one."""
        return None

    @property
    def homes(self) -> Mapping[str, str]:
        """The site of each party, parties in the order of the in-process driver."""
        return self.federation.views

    @property
    def patience(self) -> float | None:
        """Seconds after which a run goes on without a site's answer; None for the step's limit."""
        return None

    def lacking(self, number: int) -> bool:
        """Return whether a run goes on when a site does not answer in a step."""
        return False

    def optional(self, number: int) -> bool:
        """Return whether a site that has missed a step can go on with a later one."""
        return self.lacking(number)

    def follows(self, number: int, party: Any) -> int:
        """Return the step after one of the coordinator's: empty ones are left out."""
        return number + 1

    @abstractmethod
    def begin(
        self, views: Mapping[str, View], people: np.ndarray | None, me: Identity
    ) -> dict[str, Any]:
        """Return the parties of a site, by name; `people` are ids that it may name."""

    @abstractmethod
    def keep(self, party: Any) -> bytes:
        """Return what a party has become, without the rows it can read again."""

    @abstractmethod
    def restore(
        self,
        name: str,
        kept: bytes,
        views: Mapping[str, View],
        people: np.ndarray | None,
        me: Identity,
    ) -> Any:
        """Return the party that `keep` was given, over its views; the coordinator's has none."""

    @abstractmethod
    def finish(
        self, party: Any, people: np.ndarray | None, folder: Path, form: str
    ) -> RunFigures | None:
        """Write what a party has made to a folder and return figures for the coordinator, if any.

        None where every figure would tell more than what the site has paid for.
        """

    def result(self, party: Any) -> dict[str, Any]:
        """Return what the coordinator's party may tell of a run: figures, no row."""
        return {}


def lifted(step: Step[Any]) -> Step[Any]:
    """Return a step over parties that hold what it works on.

    They hold it as ``site``, the coordinator's as ``party``.
    """
    name = "party" if step.at == "coordinator" else "site"

    def run(parties: Sequence[Any], inboxes: Sequence[Any], report_progress: Any) -> list[Any]:
        results = step.run([getattr(party, name) for party in parties], inboxes, report_progress)
        pairs = zip(parties, results, strict=True)
        return [(replace(party, **{name: one}), sent) for party, (one, sent) in pairs]

    return Step(step.name, run, step.at)


def settings_as(value: Any) -> Any:
    """Turn the lists inside a table of settings into tuples, as the settings classes have them."""
    if isinstance(value, Mapping):
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    return value
