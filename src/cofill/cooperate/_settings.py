"""How sites cooperate: the settings every site of a federation agrees on."""

from __future__ import annotations

from dataclasses import dataclass

from cofill.codec import storable
from cofill.cooperate._defence import CodeDefence
from cofill.errors import SettingError
from cofill.nets import FusionSettings, TrainSettings, require_at_least
from cofill.privacy import require_one_of

METHODS = ("auto", "masked", "fused", "faithful")
MASKS = ("closed", "gradient", "iteration", "equal")
SCALES = ("standard", "robust", "none")


@storable
@dataclass(frozen=True)
class Architecture:
    """Widths of the networks: of the encoder behind its input, and of a link between its ends.

    Examples
    --------
    >>> ARCHITECTURES["wdbc"]
    Architecture(encoder=(15,), link=(15, 10))
    """

    encoder: tuple[int, ...]
    link: tuple[int, ...]


ARCHITECTURES = {
    "cube": Architecture((5,), (20,)),
    "madelon": Architecture((200,), (100,)),
    "mfdd": Architecture((150,), (150,)),
    "wdbc": Architecture((15,), (15, 10)),
}
"""Table I of the paper: "NF 15 NF" is an encoder (15,), "15 15 10 NF" a link (15, 10)."""


@storable
@dataclass(frozen=True)
class CooperativeSettings:
    """What all sites do alike; `CooperativeReconstruction` documents the parameters."""

    method: str = "auto"
    masks: str = "closed"
    mask_folds: int = 0
    architecture: str | Architecture | None = None
    scale: str = "standard"
    min_overlap: int = 20
    encoder_training: TrainSettings = TrainSettings(
        epochs=300, learning_rate=3e-3, schedule="cosine"
    )
    link_training: TrainSettings = TrainSettings(epochs=200, validation_fraction=0.1, patience=15)
    fusion: FusionSettings = FusionSettings()
    defence: CodeDefence = CodeDefence()

    def __post_init__(self) -> None:
        for name, allowed in (("method", METHODS), ("masks", MASKS), ("scale", SCALES)):
            require_one_of(name, getattr(self, name), allowed)
        if isinstance(self.architecture, str) and self.architecture not in ARCHITECTURES:
            raise SettingError(
                f"architecture must be one of {', '.join(ARCHITECTURES)}, an Architecture or None, "
                f"got {self.architecture!r}"
            )
        require_at_least(self, min_overlap=2)
        if not (self.mask_folds == 0 or 2 <= self.mask_folds <= self.min_overlap):
            raise SettingError(
                f"mask_folds must be 0 or between 2 and min_overlap ({self.min_overlap}), "
                f"got {self.mask_folds}"
            )
        if self.mask_folds and not self.is_faithful:
            raise SettingError(
                f"mask_folds is for method 'faithful'; method {self.method!r} makes its masks from "
                "rows its links did not learn from anyway"
            )
        if 0 < self.defence.pilot < self.min_overlap:
            raise SettingError(
                f"pilot must be at least min_overlap ({self.min_overlap}), so that links can be "
                f"learned from it, got {self.defence.pilot}"
            )

    @property
    def is_faithful(self) -> bool:
        """Whether this is the paper's method."""
        return self.method == "faithful"

    def widths(self, features: int) -> Architecture:
        """Return the networks' widths for a view whose encoded rows have so many columns.

        A defence's width is that of the code. A pilot starts from codes of the usual width.
        """
        widths = self.architecture
        if isinstance(widths, str):
            widths = ARCHITECTURES[widths]
        elif widths is None and self.is_faithful:
            wide = min(features + (features + 1) // 2, 200)
            widths = Architecture((wide,), (wide,))
        elif widths is None:
            widths = Architecture((min(max(features, 4), 128),), ())
        code_width = None if self.defence.pilot else self.defence.code_width(features)
        if code_width is None:
            return widths
        return Architecture((*widths.encoder[:-1], code_width), widths.link)
