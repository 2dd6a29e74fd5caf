"""The ceiling that breaks the rules: learn each view from the pooled raw rows of all the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cofill.completion import AbstractCompleter, Progress
from cofill.errors import SettingError
from cofill.impute._pooled import Pool
from cofill.views import MultiView, side_by_side

if TYPE_CHECKING:
    from cofill.nets import Fusion, FusionSettings


@dataclass(kw_only=True, eq=False, repr=False)
class CentralCompleter(AbstractCompleter):
    """A fusion of the other views' raw cells for each view: what pooling the rows would give.

    It needs all rows in one place, which is what organisations may not do; it tells how much a
    method that exchanges less has lost.

    Parameters
    ----------
    model
        ``"mlp"``: networks blended with ridge regression; ``"ridge"``: ridge regression alone.
    settings
        How the fusion is learned; a sensible default when left out.
    seed
        Start of all randomness.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.views import MultiView, side_by_side
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> both = MultiView.from_arrays({"x": x, "y": 3 * x}, presence={"y": np.arange(50) > 0})
    >>> done = CentralCompleter(model="ridge").fit_complete(both)
    >>> bool(abs(done.cells["y"][0] - 3 * x[0]).max() < 0.01)
    True
    """

    name: ClassVar[str] = "central"

    model: str = "mlp"
    settings: FusionSettings | None = None
    seed: int = 0

    @classmethod
    def late_types(cls) -> dict[str, Any]:
        """Return the types in annotations that are imported when needed."""
        from cofill.nets import FusionSettings

        return {"FusionSettings": FusionSettings}

    def _fit(self, views: MultiView, progress: Progress) -> None:
        # JAX takes a second to load, which whoever imports another imputer need not wait for.
        from cofill.nets import FusionProblem, FusionSettings, fit_fusions, loss_blocks

        if self.model not in ("mlp", "ridge"):
            raise SettingError(f"model must be 'mlp' or 'ridge', got {self.model!r}")
        settings = self.settings or FusionSettings()
        if self.model == "ridge":
            settings = FusionSettings(hidden=(), folds=settings.folds)
        self.pool_ = Pool.fit(views)
        matrix = self.pool_.encode(views)
        self.typical_ = np.nanmean(matrix, axis=0)
        problems, names = [], []
        for k, name in enumerate(views):
            inputs, present, groups = self._others(matrix, views, name)
            linked = present.any(axis=1)
            rows = views.present(name) & linked
            if rows.sum() < 2:
                continue
            problems.append(
                FusionProblem(
                    inputs=inputs[rows],
                    present=present[rows],
                    groups=groups,
                    targets=matrix[rows, self.pool_.columns[name]],
                    blocks=loss_blocks(self.pool_.scalers[name].blocks),
                    needed=present[~views.present(name) & linked],
                    seed=self.seed * 1009 + k,
                    name=f"view {name!r}",
                )
            )
            names.append(name)
        fitted = fit_fusions(problems, settings, progress=lambda s: progress(self.name, s))
        self.fusions_: dict[str, Fusion] = dict(zip(names, fitted, strict=True))

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        matrix = self.pool_.encode(views)
        predicted: dict[str, np.ndarray] = {}
        for name, scaler in self.pool_.scalers.items():
            cells = matrix[:, self.pool_.columns[name]]
            filled = np.broadcast_to(self.typical_[self.pool_.columns[name]], cells.shape).copy()
            holes = np.asarray(np.isnan(cells).any(axis=1))
            if name in self.fusions_ and holes.any():
                inputs, present, _ = self._others(matrix[holes], views, name, holes)
                filled[holes] = self.fusions_[name].predict(inputs, present)
            predicted[name] = scaler.decode(filled, clip=True)
        return predicted

    def _others(
        self, matrix: np.ndarray, views: MultiView, name: str, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, tuple[tuple[int, int], ...]]:
        """Return the other views' columns, which of them each row has, and where each lies."""
        others = [other for other in self.pool_.scalers if other != name]
        parts = [matrix[:, self.pool_.columns[other]] for other in others]
        groups = side_by_side([part.shape[1] for part in parts])
        present = np.zeros((views.n_individuals, len(others)), dtype=bool)
        for g, other in enumerate(others):
            present[:, g] = views.present(other)
        inputs = np.nan_to_num(np.hstack(parts)) if parts else np.zeros((len(matrix), 0))
        return inputs, present if rows is None else present[rows], groups
