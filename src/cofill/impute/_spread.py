"""How far a filled cell may be off: intervals whose width fits the case, and draws.

For each numeric column a forest learns the size of the blend's error on rows left out from the
row's filled cells, from what is known of it and from the prediction itself (its out-of-bag values
are honest). Errors in units of that size are collected in fifths of the prediction; their
quantiles are conformal (Vovk et al. 2005; locally weighted as in Lei et al. 2018), so that coverage
holds within each fifth. Draws take such errors at random, tied within a row by the Gaussian; where
a column piles up at a value or leans to one side, they take a held-out cell itself, of the ten
whose predictions are nearest (predictive mean matching; ten as in Morris, White and Royston 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.impute._blend import Blend
from cofill.impute._held_out import HeldOut

_LEAST = 20  # held-out cells below which a column's errors say nothing
_BIN = 40  # cells a fifth has at least, else there are fewer parts
_DONORS = 10  # held-out cells among which a matched draw chooses
_PILE, _LEAN = 0.05, 1.0  # share of one value, skewness beyond which a column's shape matters
_MOST = 2_000  # cells of a column learned from: they are kept with the model until it is asked


@dataclass(frozen=True)
class ColumnSpread:
    """The size of a column's errors, and errors in units of it by parts of the prediction.

    `donors` are held-out cells: predictions in rising order, and the cells themselves.
    """

    forest: Any
    floor: float
    edges: Float[np.ndarray, " parts_less_one"]
    errors: tuple[np.ndarray, ...]
    donors: Float[np.ndarray, "2 n"]

    @classmethod
    def fit(
        cls, held: HeldOut, guess: Float[np.ndarray, " n"], scale: float, seed: int
    ) -> ColumnSpread | None:
        """Learn from a column's held-out cells and the blend's predictions of them.

        ``scale`` is by how much errors are smaller where all folds tell a cell, not one.
        """
        from sklearn.ensemble import RandomForestRegressor

        if len(guess) < _LEAST:
            return None
        gaps = scale * (held.actual[:, 0] - guess)
        forest = RandomForestRegressor(
            60,
            min_samples_leaf=max(5, len(guess) // 100),
            max_features=0.5,
            oob_score=True,
            random_state=seed,
        ).fit(_case(held.inputs, held.shown, guess), np.abs(gaps))
        floor = 0.05 * float(np.abs(gaps).mean()) + 1e-9
        sizes = np.maximum(np.nan_to_num(forest.oob_prediction_, nan=floor), floor)
        parts = int(np.clip(len(guess) // _BIN, 1, 5))
        edges = np.quantile(guess, np.arange(1, parts) / parts)
        part = np.searchsorted(edges, guess)
        scores = gaps / sizes
        pooled = np.sort(scores)
        errors = tuple(
            np.sort(scores[part == p]) if (part == p).sum() >= _LEAST else pooled
            for p in range(parts)
        )
        donors = np.stack([guess, held.actual[:, 0]])[:, np.argsort(guess, kind="stable")]
        return cls(forest, floor, edges, errors, donors)

    @property
    def shaped(self) -> bool:
        """Whether the column's shape matters to draws: one value is frequent, or it is skewed."""
        actual = self.donors[1]
        pile = np.unique(actual, return_counts=True)[1].max() / len(actual)
        lean = np.mean((actual - actual.mean()) ** 3) / (actual.std() ** 3 + 1e-12)
        return bool(pile >= _PILE or abs(lean) > _LEAN)

    def sizes(
        self,
        inputs: Float[np.ndarray, "n inputs"],
        known: Bool[np.ndarray, "n d"],
        guess: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, " n"]:
        """Return the expected size of errors."""
        return np.maximum(self.forest.predict(_case(inputs, known, guess)), self.floor)

    def ends(
        self, guess: Float[np.ndarray, " n"], sizes: Float[np.ndarray, " n"], level: float
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return lower and upper ends; infinite where too few errors are known for the level."""
        low, high = np.empty(len(self.errors)), np.empty(len(self.errors))
        for p, errors in enumerate(self.errors):
            n, tail = len(errors), (1 - level) / 2
            rank = int(np.floor((n + 1) * tail))
            if rank >= 1:
                low[p], high[p] = errors[rank - 1], errors[n - rank]
            else:  # too few for two tails: one radius
                rank = int(np.ceil((n + 1) * level))
                radius = np.sort(np.abs(errors))[rank - 1] if rank <= n else np.inf
                low[p], high[p] = -radius, radius
        part = np.searchsorted(self.edges, guess)
        return guess + low[part] * sizes, guess + high[part] * sizes

    def draw(
        self,
        guess: Float[np.ndarray, " n"],
        sizes: Float[np.ndarray, " n"],
        places: Float[np.ndarray, " n"],
    ) -> Float[np.ndarray, " n"]:
        """Return the prediction plus an error, at the given places (0 to 1) of its distribution."""
        part = np.searchsorted(self.edges, guess)
        gaps = np.empty(len(guess))
        for p, errors in enumerate(self.errors):
            here = part == p
            gaps[here] = np.quantile(errors, places[here])
        return guess + gaps * sizes

    def match(
        self, guess: Float[np.ndarray, " n"], places: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return held-out cells of like predictions, at the given places (0 to 1) among them."""
        among = min(_DONORS, self.donors.shape[1])
        at = np.searchsorted(self.donors[0], guess) - among // 2
        at = np.clip(at, 0, self.donors.shape[1] - among)
        cells = np.sort(self.donors[1][at[:, None] + np.arange(among)], axis=1)
        pick = np.minimum((places * among).astype(int), among - 1)
        return cells[np.arange(len(cells)), pick]


def error_scales(blend: Blend) -> Float[np.ndarray, " d"]:
    """Return by how much the average over folds errs less than one fold does, for each column."""
    scales = np.ones(len(blend.encoding.columns))
    for k, held in enumerate(blend.held_out):
        if held is not None:
            weights = blend.weights[k]
            error = ((np.tensordot(weights, held.guesses, 1) - held.actual) ** 2).sum()
            noise = float(weights @ held.noise() @ weights)
            scales[k] = np.sqrt(np.clip(1 - noise / max(error, 1e-300), 0.5, 1.0))
    return scales


def fit_spreads(
    blend: Blend, scales: Float[np.ndarray, " d"], seed: int
) -> tuple[ColumnSpread | None, ...]:
    """Return the spread of every numeric column; None for codes and where too little is known."""
    spreads: list[ColumnSpread | None] = []
    for k, (column, held) in enumerate(zip(blend.encoding.columns, blend.held_out, strict=True)):
        if held is None or column.levels is not None:
            spreads.append(None)
            continue
        guess = np.einsum("c,cn->n", blend.weights[k], held.guesses[:, :, 0])
        spreads.append(ColumnSpread.fit(held, guess, float(scales[k]), seed + k))
    return tuple(spreads)


def trim(held_out: Sequence[HeldOut | None], rng: np.random.Generator) -> list[HeldOut | None]:
    """Return held-out cells, as many as spreads are learned from."""
    trimmed: list[HeldOut | None] = []
    for held in held_out:
        if held is not None:
            n = len(held.actual)
            held = held.some(rng.choice(n, min(n, _MOST), replace=False))
        trimmed.append(held)
    return trimmed


def _case(inputs: np.ndarray, known: np.ndarray, guess: np.ndarray) -> np.ndarray:
    columns: Sequence[np.ndarray] = (inputs, known, known.sum(axis=1), guess)
    return np.column_stack(columns).astype(np.float32)
