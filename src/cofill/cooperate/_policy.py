"""What a site does with features that the other views do not tell of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from cofill.errors import SettingError
from cofill.privacy import require_one_of
from cofill.views import Scaler

_NAMED = 10  # features that a note names


@dataclass(frozen=True)
class CompletionPolicy:
    """What is done with features that cannot be reconstructed, and the level of intervals."""

    on_unreconstructable: str = "fill"
    threshold: float = 0.05
    interval: float | None = None

    def __post_init__(self) -> None:
        choices = ("fill", "leave")
        require_one_of("on_unreconstructable", self.on_unreconstructable, choices)
        if self.interval is not None and not 0 < self.interval < 1:
            raise SettingError(f"interval must be in (0, 1), got {self.interval}")


def note_untold(
    view: str, scaler: Scaler, untold: Bool[np.ndarray, " features"], policy: CompletionPolicy
) -> list[str]:
    """Return a sentence that names features that the other views do not tell, if there are any."""
    if not untold.any():
        return []
    named = [scaler.features[k].name for k in np.flatnonzero(untold)[:_NAMED]]
    more = ", …" if untold.sum() > _NAMED else ""
    fate = "are left empty" if policy.on_unreconstructable == "leave" else "are guesses"
    return [
        f"view {view!r}: {int(untold.sum())} of {len(untold)} features cannot be told from the "
        f"other views and {fate} ({', '.join(named)}{more})"
    ]
