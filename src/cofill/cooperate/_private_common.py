"""Features and targets that several sites of one view have in common, made from sums alone.

Sites that hold the same view of different people must make the same features of equal rows, and no
row of theirs may tell the others how. So the kernel's landmarks are nobody's rows: they are drawn
from a distribution with the marginals and correlations of all sites' rows together (a Gaussian
copula). The coordinator, which has no row to take away from a sum, adds the sites' sums up, draws,
and finds the principal components, once, since two machines would find them with other signs. It
hands out rounded figures: from exact ones a site could take its own away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from cofill.cooperate._private_features import MOST_KNOTS, MOST_LANDMARKS, LocalFeatures
from cofill.cooperate._private_inputs import EVERYBODY, FeatureGroup, LocalModel, factors_of
from cofill.cooperate._private_targets import Targets
from cofill.errors import DataError
from cofill.protocol import FEWEST_ROWS, Pooled
from cofill.views import Feature, Kind, Scaler, View

# Deviations at which it is counted how many cells lie below: nearer to each other in the middle.
_EDGES = np.sinh(np.linspace(-3, 3, 63))
_UNIT = 2.0**20  # of sums of products
_CENTER_STEPS, _SCALE_STEPS = 16, 4  # steps of a deviation, and of a doubling of it
_SHARE_STEPS, _CORRELATION_STEPS = 256, 64
_REACH = 10.0  # deviations at which cells end that sums do not say more of, as in a survey


def rounded_scaler(features: tuple[Feature, ...], pooled: Pooled) -> Scaler:
    """Return how all sites of a view scale it: figures of all rows together, in coarse steps.

    Of the mean that is a sixteenth of a deviation, as much as the means of 250 people differ by
    chance; whoever takes their own people's away learns little of the others'.

    Examples
    --------
    >>> one = rounded_scaler((Feature("age"),), np.array([[100], [49.4], [16.5**2], [0], [90.0]]))
    >>> one.center[0], one.scale[0], one.low[0]
    (49.0, 16.0, 0.0)
    """
    figures = []
    for feature, (_, mean, variance, low, high) in zip(features, pooled.T.tolist(), strict=True):
        if feature.kind is not Kind.NUMERIC:
            figures.append((0.0, 1.0, -np.inf, np.inf))
            continue
        deviation = np.sqrt(variance)
        scale = 1.0
        if deviation > 1e-12 * max(abs(mean), 1e-300):
            scale = 2.0 ** (round(_SCALE_STEPS * np.log2(deviation)) / _SCALE_STEPS)
        step = scale / _CENTER_STEPS
        center = round(mean / step) * step
        least, most = center - _REACH * scale, center + _REACH * scale
        least, most = (
            (max(least, 0.0) if low >= 0 else least),
            (min(most, 0) if high <= 0 else most),
        )
        figures.append((center, scale, least, most))
    center, scale, low, high = zip(*figures, strict=True)
    return Scaler(features, "standard", center, scale, low, high)


@dataclass(frozen=True, eq=False)
class ShapeSums:
    """Sums over people that tell the shape of a view's distribution, as whole numbers.

    Of every numeric column how many cells lie below each edge; of every two encoded columns the sum
    of products and how many people have both; of every encoded column its sum; and the people.
    """

    scaler: Scaler

    @property
    def count(self) -> int:
        """How many numbers there are."""
        width = self.scaler.width
        return 1 + len(self._numeric) * len(_EDGES) + width + width * (width + 1)

    @property
    def _numeric(self) -> list[int]:
        return [block.start for block in self.scaler.blocks if block.kind is Kind.NUMERIC]

    def numbers(self, view: View) -> list[int]:
        """Return a site's sums, all zero where its rows are very few."""
        cells = self.scaler.encode_view(view)[0]
        cells = cells if len(cells) >= FEWEST_ROWS else cells[:0]
        known = (~np.isnan(cells)).astype(float)
        values = np.clip(np.where(known > 0, cells, 0.0), _EDGES[0], _EDGES[-1])
        below = [(cells[:, k : k + 1] <= _EDGES).sum(axis=0) for k in self._numeric]
        upper = np.triu_indices(self.scaler.width)
        sums = np.concatenate([values.sum(axis=0), (values.T @ values)[upper]])
        counts = [np.array([len(cells)]), *below, (known.T @ known)[upper]]
        return [
            *np.concatenate(counts).astype(np.int64).tolist(),
            *np.rint(sums * _UNIT).astype(np.int64).tolist(),
        ]

    def read(self, view: str, numbers: Sequence[int]) -> Shape:
        """Return the rounded shape of all sites' rows, or a `DataError` where they are too few."""
        width, rest = self.scaler.width, iter(numbers)
        upper = np.triu_indices(width)

        def take(count: int) -> np.ndarray:
            return np.array(list(islice(rest, count)), dtype=float)

        people = int(take(1)[0])
        below = take(len(self._numeric) * len(_EDGES)).reshape(-1, len(_EDGES))
        both, products = np.ones((2, width, width))
        both[upper] = take(len(upper[0]))
        totals = take(width) / _UNIT
        products[upper] = take(len(upper[0])) / _UNIT
        if people <= 2 * width:
            raise DataError(
                f"view {view!r} is at several sites, which takes more than twice as many people as "
                f"columns ({width} with one for each category), or sums over people would tell "
                f"rows, got {people} people; leave columns out"
            )
        each = np.maximum(np.diag(both), 1.0)
        means = totals / each
        both, products = (np.triu(m) + np.triu(m, 1).T for m in (both, products))
        covariance = products / np.maximum(both, 1.0) - np.outer(means, means)
        deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
        correlation = covariance / np.outer(deviation, deviation)
        shares = below / each[self._numeric, None]
        return Shape(
            people,
            _rounded(np.clip(shares, 0.0, 1.0), _SHARE_STEPS),
            _rounded(means, _SHARE_STEPS),
            _rounded(np.clip(correlation, -1.0, 1.0), _CORRELATION_STEPS),
        )


def _rounded(values: np.ndarray, steps: int) -> np.ndarray:
    return np.rint(values * steps) / steps


@dataclass(frozen=True, eq=False)
class Shape:
    """People in all, shares of cells below each edge, means and correlations of encoded columns."""

    people: int
    below: Float[np.ndarray, "numeric edges"]
    means: Float[np.ndarray, " columns"]
    correlation: Float[np.ndarray, "columns columns"]

    def model(self, scaler: Scaler, width: int, views: int) -> LocalModel:
        """Return features and targets that rest on nobody's row."""
        numeric = [block.start for block in scaler.blocks if block.kind is Kind.NUMERIC]
        levels = np.linspace(0, 1, min(self.people, MOST_KNOTS))
        knots = np.array([_quantiles(shares, levels) for shares in self.below])
        knots = knots if len(numeric) else np.zeros((0, 2))
        center, spread = np.zeros(scaler.width), np.ones(scaler.width)
        for block in scaler.blocks:
            if block.kind is not Kind.NUMERIC:
                part = slice(block.start, block.stop)
                center[part] = means = np.clip(self.means[part], 0.0, 1.0)
                spread[part] = np.where(means * (1 - means) > 0, np.sqrt(means * (1 - means)), 1)
        targets = Targets.of_moments(scaler, center, spread, self.correlation, self.people)
        cells = self._drawn_cells(scaler, knots, center, spread)
        features = LocalFeatures.of_landmarks(scaler, knots, cells, width, factors_of(views))
        return LocalModel((FeatureGroup(features, EVERYBODY),), targets)

    def _drawn_cells(
        self, scaler: Scaler, knots: np.ndarray, center: np.ndarray, spread: np.ndarray
    ) -> np.ndarray:
        """Return encoded rows of people who do not exist, alike for whoever draws them."""
        values, vectors = np.linalg.eigh(self.correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        rng = np.random.default_rng([0xFEA7, scaler.width])
        count = min(self.people, MOST_LANDMARKS)
        normal = rng.normal(size=(count, scaler.width)) @ root.T
        levels = np.linspace(0, 1, knots.shape[1])
        cells = np.zeros((count, scaler.width))
        position = 0
        for block in scaler.blocks:
            scores = normal[:, block.start : block.stop]
            part = slice(block.start, block.stop)
            if block.kind is Kind.NUMERIC:
                cells[:, part] = np.interp(ndtr(scores), levels, knots[position])
                position += 1
            elif block.kind is Kind.BINARY:
                cells[:, part] = ndtr(scores) > 1 - center[part]
            else:
                largest = (scores * spread[part] + center[part]).argmax(axis=1)
                cells[:, part] = largest[:, None] == np.arange(block.stop - block.start)
        return cells


def _quantiles(below: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return a column's quantiles, straight between the edges."""
    rising = np.maximum.accumulate(below)
    first = int(np.searchsorted(rising, 0.0, "right"))  # the last edge below which nothing lies
    start = max(first - 1, 0)
    shares = np.concatenate([[0.0], rising[start + 1 :]])
    edges = _EDGES[start:]
    shares = shares / max(shares[-1], 1e-9)
    strictly = np.append(True, np.diff(shares) > 0)
    return np.interp(levels, shares[strictly], edges[strictly])


# --- a model as arrays ----------------------------------------------------------------------------

_FEATURES = ("knots", "landmarks", "projection", "mean", "spread")


def model_arrays(model: LocalModel) -> dict[str, np.ndarray]:
    """Return what a common model consists of beside its scaler, as matrices by name."""
    (group,) = model.groups
    parts = {name: getattr(group.features, name) for name in _FEATURES}
    parts |= {name: getattr(model.targets, name) for name in ("center", "correlation", "loadings")}
    parts["deviation"] = model.targets.spread
    return {name: np.atleast_2d(values) for name, values in parts.items()}


def model_of_arrays(scaler: Scaler, arrays: dict[str, np.ndarray], view: str) -> LocalModel:
    """Return the common model that arrays describe, or raise a `DataError` if they do not fit."""
    numeric = sum(block.kind is Kind.NUMERIC for block in scaler.blocks)
    wide = scaler.width
    shapes = {name: arrays[name].shape for name in arrays}
    landmarks, features = shapes.get("projection", (0, 0))
    expected = {
        "knots": (numeric, shapes.get("knots", (0, 0))[1]),
        "landmarks": (landmarks, wide + numeric),
        "projection": (landmarks, features),
        "mean": (1, landmarks + 1),
        "spread": (1, shapes.get("spread", (1, 0))[1]),
        "center": (1, wide),
        "deviation": (1, wide),
        "correlation": (wide, wide),
        "loadings": (wide, shapes.get("loadings", (0, 0))[1]),
    }
    if shapes != expected or not all(np.isfinite(a).all() for a in arrays.values()):
        raise DataError(
            f"the coordinator must send features of view {view!r} for its {wide} encoded columns, "
            "and sent something else; refused"
        )
    parts = {name: arrays[name] for name in ("knots", "landmarks", "projection")}
    lines = {name: arrays[name][0] for name in ("mean", "spread")}
    targets = Targets(
        scaler,
        arrays["center"][0],
        arrays["deviation"][0],
        arrays["correlation"],
        arrays["loadings"],
    )
    group = FeatureGroup(LocalFeatures(scaler, **parts, **lines), EVERYBODY)
    return LocalModel((group,), targets)
