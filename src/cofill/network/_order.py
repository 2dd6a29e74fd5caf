"""A run's order: what the submitter asks for, the same text at every machine."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cofill.errors import SettingError
from cofill.protocol import PROTOCOLS, AbstractProtocol, Membership

OUTCOME_FORMAT = "cofill.outcome"
"""Format of the file in which the coordinator leaves how a run went."""

TOLERATES_ABSENCE = "cofill_tolerates_absence"
"""Key of a job of FLARE that says whether it goes on without a site."""

_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")


def new_run() -> str:
    """Return a name for a run: when it was ordered, and eight random digits."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class RunOrder:
    """Which protocol, with which settings, under which name."""

    run: str
    experiment: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.run, str) or not _RUN.fullmatch(self.run):
            raise SettingError(f"a run must be named like {new_run()}, got {self.run!r}")
        if self.experiment not in PROTOCOLS.names:
            raise SettingError(
                f"experiment must be one of {', '.join(PROTOCOLS.names)}, got {self.experiment!r}"
            )
        if not isinstance(self.settings, Mapping):
            raise SettingError(f"settings must be a table, got {type(self.settings).__name__}")

    def make_protocol(self, members: Membership) -> AbstractProtocol:
        """Return the protocol object, or raise a `SettingError` for settings that are wrong."""
        return PROTOCOLS.load(self.experiment).from_settings(dict(self.settings), members)

    @property
    def tolerates_absence(self) -> bool:
        """Whether the run goes on without a site that is lost."""
        return PROTOCOLS.load(self.experiment).tolerates_absence

    def to_json(self) -> dict[str, Any]:
        """Return what `RunOrder(**…)` takes."""
        return {"run": self.run, "experiment": self.experiment, "settings": dict(self.settings)}
