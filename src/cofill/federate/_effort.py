"""How much work a run may be: one word for users, from which sizes and rounds follow.

The word must mean the same to every party, so nothing of it depends on a machine; only a default
does, of runs in one process (`default_effort`).
"""

from __future__ import annotations

import jax

from cofill.errors import SettingError

ROUNDS = {"quick": 40, "normal": 40, "thorough": 100}


def require_effort(effort: str) -> None:
    """Raise a `SettingError` for a word that is none of the efforts."""
    if effort not in ROUNDS:
        raise SettingError(f"effort must be one of {', '.join(ROUNDS)}, got {effort!r}")


def default_effort() -> str:
    """Return ``"normal"`` where there is an accelerator, else ``"quick"``."""
    return "quick" if jax.default_backend() == "cpu" else "normal"
