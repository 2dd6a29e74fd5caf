"""What `cofill doctor` finds: lines with a state, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, its state, the detail, and what to do.

    A ``"problem"`` stops cofill from working; a ``"note"`` stops a part that not everybody needs.
    """

    what: str
    state: State
    detail: str
    todo: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the line as it is printed by ``--json``."""
        return {"what": self.what, "state": self.state, "found": self.detail, "todo": self.todo}
