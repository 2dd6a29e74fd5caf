"""Settings of fusions, with defaults by the number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.nets._settings import TrainSettings


class _Chosen(NamedTuple):
    """Settings of a fusion of so many rows, none of them None."""

    hidden: tuple[int, ...]
    weight_decays: tuple[float, ...]
    members: int
    fold_members: int
    dropout: float
    learning_rate: float
    steps: int


_FEW = _Chosen(
    hidden=(64,),
    weight_decays=(0.03, 0.3),
    members=4,
    fold_members=2,
    dropout=0.1,
    learning_rate=2e-3,
    steps=2500,
)
_SOME = _FEW._replace(hidden=(128, 128), weight_decays=(1.0, 3.0), dropout=0.0, learning_rate=5e-3)
_MANY = _SOME._replace(weight_decays=(0.1, 1.0), members=2, fold_members=1, steps=10_000)


@storable
@dataclass(frozen=True)
class FusionSettings:
    """Settings of a fusion; those that are None depend on the number of rows.

    With a thousand rows or more, networks are deeper and learn faster without dropout; with many
    thousands they take more steps and are fewer, because chance matters less.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; empty for ridge regression alone.
    weight_decays
        Candidates among which cross-validation chooses.
    members, fold_members
        Networks in the ensemble, and in the ensembles of the cross-validation.
    folds
        Parts of the cross-validation.
    dropout
        Share of hidden units dropped in training.
    learning_rate
        Largest step; it falls to zero by a cosine.
    steps
        Steps of the optimiser (but at least five passes over the rows).

    Examples
    --------
    >>> FusionSettings().chosen(500).hidden, FusionSettings().chosen(5000).hidden
    ((64,), (128, 128))
    >>> FusionSettings(hidden=(8,)).chosen(5000).hidden
    (8,)
    """

    hidden: tuple[int, ...] | None = None
    weight_decays: tuple[float, ...] | None = None
    members: int | None = None
    fold_members: int | None = None
    folds: int = 3
    dropout: float | None = None
    learning_rate: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("members", "fold_members", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"{name} must be at least 1, got {value}")
        if any(width < 1 for width in self.hidden or ()):
            raise SettingError(f"hidden must be widths of 1 or more, got {self.hidden}")
        if any(decay < 0 for decay in self.weight_decays or ()):
            raise SettingError(f"weight_decays must be 0 or more, got {self.weight_decays}")
        if self.folds < 2:
            raise SettingError(f"folds must be at least 2, got {self.folds}")
        if self.hidden != () and self.weight_decays == ():
            raise SettingError("weight_decays must hold at least one value, got none")

    def chosen(self, rows: int) -> _Chosen:
        """Return the settings for so many rows, none of them None."""
        usual = _FEW if rows < 1024 else _SOME if rows < 8192 else _MANY
        stated = {name: getattr(self, name, None) for name in usual._fields}
        return usual._replace(**{n: value for n, value in stated.items() if value is not None})

    def training(self, rows: int, of: int) -> TrainSettings:
        """Return the settings of the training loop for so many rows of a problem of `of` rows."""
        chosen = self.chosen(of)
        # Rounded, so that problems of nearly one size share a compiled program.
        rows = 2 ** int(np.ceil(np.log2(max(rows, 16))))
        batch = int(np.clip(rows // 16, 16, max(128, min(rows // 256, 512))))
        epochs = max(5, chosen.steps * batch // rows)
        return TrainSettings(
            epochs=epochs,
            batch_size=batch,
            learning_rate=chosen.learning_rate,
            optimizer="adamw",
            schedule="cosine",
            gradient_clip=5.0,
        )
