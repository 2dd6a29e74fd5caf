"""One table learned and filled: encoded, blended within a stated effort, decoded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from cofill.errors import SettingError
from cofill.impute._blend import Blend, Plan, fit_blend, unheard
from cofill.impute._neighbours import Neighbours
from cofill.impute._table import Encoding
from cofill.impute._trees import BoostedTrees, Forest
from cofill.views import Feature

EFFORTS = ("quick", "normal", "thorough")
_INPUT_BYTES = 256 * 2**20  # of the inputs of all columns: bounds the rows learned from
_REFINED = {"quick": 0, "normal": 500_000, "thorough": 5_000_000}  # cells told to refine inputs
_BLOCK = 100_000  # rows filled at once


@dataclass(frozen=True)
class TableModel:
    """A fitted imputer of one table."""

    encoding: Encoding
    blend: Blend
    notes: tuple[str, ...] = ()

    def predict(self, cells: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return the table with every unknown cell filled; rows need not be those of the fit."""
        filled = np.array(cells, dtype=np.float64)
        holes = np.flatnonzero(np.isnan(filled).any(axis=1))
        for start in range(0, len(holes), _BLOCK):
            rows = holes[start : start + _BLOCK]
            matrix = self.blend.predict(self.encoding.encode(filled[rows]))
            for k, column in enumerate(self.encoding.columns):
                gone = np.isnan(filled[rows, k])
                filled[rows[gone], k] = column.decode(matrix[gone, column.place])
        return filled


def fit_table(
    cells: Float[np.ndarray, "n d"],
    features: Sequence[Feature],
    *,
    effort: str = "normal",
    seed: int = 0,
    progress: Callable[[float], None] = unheard,
) -> TableModel:
    """Learn to fill a table of mixed kinds with holes in any pattern."""
    require_effort(effort)
    rng = np.random.default_rng(seed)
    encoding = Encoding.fit(cells, features)
    known = np.flatnonzero(~np.isnan(cells).all(axis=1))
    notes = []
    most = max(1_000, _INPUT_BYTES // (4 * len(features) * encoding.width))
    if len(known) > most:
        notes.append(f"learned from {most:,} of {len(known):,} rows, drawn at random")
        known = np.sort(rng.choice(known, most, replace=False))
    matrix = encoding.encode(cells[known])
    plan, left_out = make_plan(matrix, encoding, effort)
    blend = fit_blend(matrix, encoding, plan, rng=rng, progress=progress)
    return TableModel(encoding, blend, (*notes, *left_out))


def make_plan(matrix: np.ndarray, encoding: Encoding, effort: str) -> tuple[Plan, list[str]]:
    """Return what is tried on a table of this size at this effort, and what is left out."""
    n, d = len(matrix), len(encoding.columns)
    notes = []
    cells = int((~encoding.known(matrix)).sum()) * d
    few = n * d <= 100_000
    first = [Forest("forest", trees=40, leaf=3, features=0.5)]
    second = [
        Forest("trees", trees=60, residual=True),
        Forest("random forest", trees=60, leaf=2, features=0.4, extreme=False),
    ]
    if not few:
        second = []
    if n >= 200:
        second.append(BoostedTrees())
    if n <= 20_000:
        first.append(Neighbours())
    refined = cells <= _REFINED[effort]
    if effort == "quick":
        second = []
    folds = 5 if n * d < 5_000 else 3 if few else 1
    if effort == "quick":
        first, folds = [replace(first[0], trees=20), *first[1:]], min(folds, 2)
    return Plan(tuple(first), tuple(second), refined, folds), notes


def require_effort(effort: str) -> None:
    """Raise a `SettingError` unless there is such an effort."""
    if effort not in EFFORTS:
        raise SettingError(f"effort must be one of {', '.join(EFFORTS)}, got {effort!r}")
