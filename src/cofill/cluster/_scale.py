"""One scaling for all sites: sums cross the border, every site scales its rows.

A column's mean and spread over all individuals follow exactly from each site's count, sum and sum
of squares about the site's mean (Chan et al. 1979), so it does not matter who holds which rows.
Medians do not add up; ``"robust"`` takes the mean of the sites' medians and interquartile ranges,
weighted by rows, which is the pooled median only where sites are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cofill.cluster._noise import GroupNoise
from cofill.cluster._rows import ColumnKinds
from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy import GroupSums

_METHODS = ("auto", "standard", "robust", "overall", "none")


@storable
@dataclass(frozen=True, eq=False)
class Scaling:
    """How numeric columns are scaled: ``(x − center) / scale``, then arcsinh where robust.

    Parameters
    ----------
    method
        ``"standard"`` (each column by its mean and standard deviation), ``"robust"`` (median and
        interquartile range, then arcsinh, for heavy tails), ``"overall"`` (all columns by one mean
        and one standard deviation, which keeps the shape of images) or ``"none"``.
    numeric
        Which columns are numbers; the others stay as they are.
    center, scale
        One number a column; 0 and 1 for columns that are no numbers.

    Examples
    --------
    >>> Scaling.none(2).apply(np.array([[3.0, 4.0]]))
    array([[3., 4.]])
    """

    method: str
    numeric: Bool[np.ndarray, " columns"]
    center: Float[np.ndarray, " columns"]
    scale: Float[np.ndarray, " columns"]

    @classmethod
    def none(cls, columns: int) -> Scaling:
        """Return the scaling that leaves rows as they are."""
        return cls("none", np.ones(columns, bool), np.zeros(columns), np.ones(columns))

    def apply(self, rows: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, "n columns"]:
        """Return scaled rows."""
        scaled = (rows - self.center) / self.scale
        if self.method == "robust":
            scaled[:, self.numeric] = np.arcsinh(scaled[:, self.numeric])
        return scaled

    def undo(self, rows: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, "n columns"]:
        """Return scaled rows in their original units."""
        rows = rows.copy()
        if self.method == "robust":
            rows[:, self.numeric] = np.sinh(rows[:, self.numeric])
        return rows * self.scale + self.center


def choose_scale(method: str, kinds: ColumnKinds, noise: GroupNoise | None = None) -> str:
    """Return the method that is meant: ``"auto"`` is overall for images, else standard.

    Examples
    --------
    >>> choose_scale("auto", ColumnKinds(("age",), (True,)))
    'standard'
    """
    if method not in _METHODS:
        raise SettingError(f"scale must be one of {', '.join(_METHODS)}, got {method!r}")
    if noise is not None and method != "none":
        raise SettingError(
            "scale must be 'none' with noise, because exact means and spreads would leave "
            f"otherwise, got {method!r}; scale by bounds known beforehand"
        )
    if method != "auto":
        return method
    return "standard" if kinds.shape is None else "overall"


def sum_columns(
    rows: Float[np.ndarray, "n columns"], method: str
) -> tuple[Float[np.ndarray, "1 twice"], Float[np.ndarray, " 1"]]:
    """Return a site's sums of columns, then their squares about the site's mean, and its count.

    Examples
    --------
    >>> sum_columns(np.array([[1.0], [3.0]]), "standard")
    (array([[4., 2.]]), array([2.]))
    """
    n = float(len(rows))
    if method == "robust":
        first, middle, third = np.percentile(rows, [25, 50, 75], axis=0)
        parts = n * middle, n * (third - first)
    else:
        mean = rows.mean(axis=0)
        parts = n * mean, ((rows - mean) ** 2).sum(axis=0)
    return np.concatenate(parts)[None], np.array([n])


def combine_sums(
    releases: Sequence[GroupSums], method: str, numeric: Bool[np.ndarray, " columns"]
) -> Scaling:
    """Return the scaling that follows from all sites' sums.

    Examples
    --------
    >>> rows = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> releases = [GroupSums(sender=name, receiver="coordinator", round=0, sums=s, counts=n)
    ...             for name, (s, n) in {"a": sum_columns(rows[:1], "standard"),
    ...                                  "b": sum_columns(rows[1:], "standard")}.items()]
    >>> scaling = combine_sums(releases, "standard", np.array([True]))
    >>> scaling.center, scaling.scale ** 2
    (array([3.]), array([5.]))
    """
    counts = np.array([float(release.counts[0]) for release in releases])
    sums, squares = np.split(np.array([release.sums[0] for release in releases]), 2, axis=1)
    total = counts.sum()
    center = sums.sum(axis=0) / total
    if method == "robust":
        scale = squares.sum(axis=0) / total
    else:
        between_sites = counts[:, None] * (sums / counts[:, None] - center) ** 2
        variance = (squares.sum(axis=0) + between_sites.sum(axis=0)) / total
        if method == "overall" and numeric.any():
            middle = center[numeric].mean()
            variance = (variance + (center - middle) ** 2)[numeric].mean() * np.ones_like(center)
            center = np.full_like(center, middle)
        scale = np.sqrt(variance)
    center = np.where(numeric, center, 0.0)
    # A constant column stays constant whatever divides it; rounding must not blow it up.
    tiny = np.finfo(float).eps * 8 * np.maximum(np.abs(center), np.finfo(float).tiny)
    return Scaling(method, numeric, center, np.where(numeric & (scale > tiny), scale, 1.0))
