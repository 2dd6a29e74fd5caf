"""One scaling for all sites: sums cross the border, every site scales its rows.

A column's mean and spread over all individuals follow exactly from the sites' sums. Medians do not
add up; ``"robust"`` takes the mean of the sites' medians and interquartile ranges, weighted by
rows, which is the pooled median only where sites are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cofill.cluster._kmeans_settings import GroupNoise
from cofill.cluster._rows import ColumnKinds
from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy import GroupSums
from cofill.protocol import pool_moments, usable_scale

_METHODS = ("auto", "standard", "robust", "overall", "none")


@storable
@dataclass(frozen=True, eq=False)
class Scaling:
    """How numeric columns are scaled: ``(x − center) / scale``, then arcsinh where robust.

    Methods are ``"standard"`` (each column by its mean and standard deviation), ``"robust"``
    (median and interquartile range, then arcsinh, for heavy tails), ``"overall"`` (all columns by
    one mean and one standard deviation, which keeps the shape of images) and ``"none"``. Columns
    that are no numbers have center 0 and scale 1.
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


def require_scale(method: str, noise: GroupNoise | None) -> None:
    """Raise a `SettingError` unless rows can be scaled so, with or without noise."""
    if method not in _METHODS:
        raise SettingError(f"scale must be one of {', '.join(_METHODS)}, got {method!r}")
    if noise is not None and method != "none":
        raise SettingError(
            "scale must be 'none' with noise, because exact means and spreads would leave "
            f"otherwise, got {method!r}; scale by bounds known beforehand"
        )


def choose_scale(method: str, kinds: ColumnKinds, noise: GroupNoise | None = None) -> str:
    """Return the method that is meant: ``"auto"`` is overall for images, else standard."""
    require_scale(method, noise)
    if method != "auto":
        return method
    return "standard" if kinds.shape is None else "overall"


def sum_columns(
    rows: Float[np.ndarray, "n columns"], method: str
) -> tuple[Float[np.ndarray, "1 twice"], Float[np.ndarray, " 1"]]:
    """Return a site's sums of columns, then their squares about the site's mean, and its count."""
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
    """Return the scaling that follows from all sites' sums."""
    counts = np.array([release.counts for release in releases])
    sums, squares = np.split(np.array([release.sums[0] for release in releases]), 2, axis=1)
    center, variance = pool_moments(counts, sums, squares)
    if method == "robust":
        scale = squares.sum(axis=0) / counts.sum()
    else:
        if method == "overall" and numeric.any():
            middle = center[numeric].mean()
            variance = (variance + (center - middle) ** 2)[numeric].mean() * np.ones_like(center)
            center = np.full_like(center, middle)
        scale = np.sqrt(variance)
    center = np.where(numeric, center, 0.0)
    return Scaling(method, numeric, center, np.where(numeric, usable_scale(center, scale), 1.0))
