"""The scale on which a numeric column is modelled, learned from its known cells, and the way back.

A column goes through a monotone curve (none, a logarithm, or its quantiles) and is standardised.
On the way back every value is finite, lies in the range of the known cells and has the column's
own decimals, so that no method fills an income below zero, 2.4 children or ``-0``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.views._feature import Feature, Kind

_SCALES = ("standard", "log", "quantile")
_SAMPLE = 10_000  # cells looked at to choose a scale: their order statistics, evenly spaced
_KNOTS = 200
_FEW = 10  # different values: a curve through fewer says nothing
# Correlation of sorted cells with normal scores (Filliben 1975): 0.99 normal, 0.98 uniform,
# 0.90 exponential, 0.76 lognormal. A curve is taken where it gains clearly, because errors count
# in the user's units: exponential columns and shorter tails stay as they are.
_GAIN, _STRAIGHT = 0.08, 0.8


@storable
@dataclass(frozen=True)
class ColumnTransform:
    """How cells of one numeric column are modelled; made by `ColumnTransform.fit`.

    Parameters
    ----------
    feature
        The column.
    scale
        ``"standard"``: as it is; ``"log"``: ``log(x + shift)``; ``"quantile"``: normal scores of
        the column's ranks, linear between `knots`.
    low, high
        Range of the known cells, which nothing on the way back leaves.
    center, spread
        Mean and standard deviation of the curve's values.
    shift
        What is added before the logarithm: 0 for positive columns.
    knots, scores
        Cells and their normal scores, both ascending; empty but for ``"quantile"``.

    Examples
    --------
    >>> income = np.rint(np.exp(np.linspace(5.0, 12.0, 50)))
    >>> transform = ColumnTransform.fit(Feature("income", decimals=0), income)
    >>> transform.scale
    'log'
    >>> transform.inverse(np.array([-9.0, 0.0, 9.0])).astype(int).tolist()
    [148, 4914, 162755]
    """

    feature: Feature
    scale: str
    low: float
    high: float
    center: float = 0.0
    spread: float = 1.0
    shift: float = 0.0
    knots: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    @classmethod
    def fit(
        cls, feature: Feature, known: Float[np.ndarray, " n"], *, scale: str | None = None
    ) -> ColumnTransform:
        """Learn from a column's known cells (NaN is left out); `scale` overrides the choice."""
        if feature.kind is not Kind.NUMERIC:
            raise SettingError(
                f"column {feature.name!r} is {feature.kind} and has no scale; encode its categories"
            )
        if scale not in (None, *_SCALES):
            raise SettingError(f"scale must be one of {', '.join(_SCALES)}, got {scale!r}")
        cells = np.sort(np.asarray(known, dtype=np.float64))
        cells = cells[: int(np.searchsorted(cells, np.inf))]  # NaN sorts last
        if not len(cells):
            return cls(feature, "standard", -np.inf, np.inf)
        low, high = float(cells[0]), float(cells[-1])
        if low == high:
            return cls(feature, "standard", low, high, center=low)
        chosen = scale or _fitting_scale(feature, cells)
        if chosen == "log" and low < 0:
            raise SettingError(
                f"column {feature.name!r} has cells below 0 and no logarithm; use 'quantile'"
            )
        shift = _shift(feature, cells) if chosen == "log" else 0.0
        knots, scores = _quantiles(cells) if chosen == "quantile" else ((), ())
        curve = cls(feature, chosen, low, high, shift=shift, knots=knots, scores=scores)
        bent = curve._bend(cells)
        unit = float(np.abs(bent).max()) or 1.0  # so that squares of 1e300 do not overflow
        center, spread = float((bent / unit).mean()) * unit, float((bent / unit).std()) * unit
        spread = spread if spread > np.finfo(np.float64).tiny else 1.0
        return cls(feature, chosen, low, high, center, spread, shift, knots, scores)

    def forward(self, cells: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return cells on the modelled scale; NaN stays NaN."""
        with np.errstate(over="ignore"):
            values = (self._bend(np.asarray(cells, dtype=np.float64)) - self.center) / self.spread
        most = np.finfo(np.float64).max
        return np.clip(values, -most, most)

    def inverse(
        self, values: Float[np.ndarray, "*shape"], *, rounding: bool = True
    ) -> Float[np.ndarray, "*shape"]:
        """Return cells in the user's units: in range, finite, with the column's decimals.

        Without `rounding` cells keep all digits, for means and intervals that are rounded later.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            bent = np.asarray(values, dtype=np.float64) * self.spread + self.center
            if self.scale == "log":
                cells = np.exp(bent) - self.shift
            elif self.scale == "quantile":
                cells = np.interp(bent, self.scores, self.knots)
            else:
                cells = bent
        cells = np.clip(cells, self.low, self.high)
        if rounding:
            cells = np.clip(self.feature.rounded(cells), self.low, self.high)
        return cells + 0.0

    def _bend(self, cells: np.ndarray) -> np.ndarray:
        if self.scale == "log":
            return np.log(np.maximum(cells, self.low) + self.shift)
        if self.scale == "quantile":
            return np.where(np.isnan(cells), np.nan, np.interp(cells, self.knots, self.scores))
        return cells


def _fitting_scale(feature: Feature, cells: np.ndarray) -> str:
    """Return the scale on which sorted cells look most like a normal sample, if it gains much."""
    sample = cells[np.linspace(0, len(cells) - 1, min(len(cells), _SAMPLE)).astype(int)]
    if feature.is_temporal or (np.diff(sample) > 0).sum() < _FEW:
        return "standard"
    scores = _normal_scores(np.arange(len(sample)) + 0.5, len(sample))
    straight = {"standard": np.corrcoef(sample / np.abs(sample).max(), scores)[0, 1]}
    if cells[0] >= 0:
        straight["log"] = np.corrcoef(np.log(sample + _shift(feature, cells)), scores)[0, 1]
    if straight.get("log", 0.0) > straight["standard"] + _GAIN and straight["log"] > _STRAIGHT:
        return "log"
    return "quantile" if straight["standard"] < _STRAIGHT else "standard"


def _shift(feature: Feature, cells: np.ndarray) -> float:
    """Return what keeps zeros finite: 1 for counts, else a small cell of the column."""
    if cells[0] > 0:
        return 0.0
    positive = cells[cells > 0]
    return 1.0 if feature.is_integer else float(positive[len(positive) // 20])


def _quantiles(cells: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return different quantiles of sorted cells and the normal scores of their mean ranks."""
    at = np.unique(np.linspace(0, len(cells) - 1, min(len(cells), _KNOTS)).astype(int))
    knots = np.unique(cells[at])
    first, after = (np.searchsorted(cells, knots, side) for side in ("left", "right"))
    scores = _normal_scores((first + after) / 2, len(cells))
    return tuple(map(float, knots)), tuple(map(float, scores))


def _normal_scores(ranks: np.ndarray, n: int) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri(ranks / n)
