"""A prediction that others made, corrected by what a table's own rows tell.

Where a model was learned on many tables, each table's own rows may know more of it: they differ
from the others', or trees and neighbours among them see what the model does not. Candidates learn
from the table's rows beside the given prediction and are weighed on rows left out, as in
`cofill.impute._blend`. The sums behind the weights add up over tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.impute._blend import (
    Ensemble,
    Fold,
    Plan,
    Stage,
    ask_folds,
    ensembles,
    sample_holes,
    split_rows,
)
from cofill.impute._gaussian import Gaussian, expectation_maximisation
from cofill.impute._held_out import ErrorSums
from cofill.impute._neighbours import Neighbours, Twins
from cofill.impute._practice import (
    AbstractCandidate,
    AbstractFitted,
    AbstractPractice,
    FilledPractice,
    Seen,
)
from cofill.impute._table import Encoding
from cofill.impute._trees import Forest

LEAST_ROWS = 40  # of a table, below which the given prediction stays as it is
_STRENGTH = 10.0  # imaginary rows of a table's own Gaussian: the middle of those tried elsewhere


@storable
@dataclass(frozen=True)
class FittedGaussian(AbstractFitted):
    """A table's own Gaussian, asked for cells given those that are known."""

    encoding: Encoding
    gaussian: Gaussian

    def predict(self, column: int, seen: Seen) -> Float[np.ndarray, "n block"]:
        known = self.encoding.spread_out(seen.shown)
        rows = np.where(known, seen.inputs[:, : self.encoding.width], np.nan)
        return self.gaussian.fill(rows)[:, self.encoding.columns[column].place]


@dataclass(frozen=True)
class OwnGaussian(AbstractCandidate):
    """A Gaussian of the table's own rows: for a table that differs from the others."""

    name: str = "own gaussian"

    def fit(
        self, practice: AbstractPractice, rows: np.ndarray, rng: np.random.Generator
    ) -> FittedGaussian:
        gaussian = expectation_maximisation(practice.matrix[rows], _STRENGTH)
        return FittedGaussian(practice.encoding, gaussian)


_CANDIDATES = (
    OwnGaussian(),
    Forest("forest", trees=12, leaf=3, features=0.5),
    Neighbours(),
    Twins(),
    Forest("trees", residual=True),
    Forest("random forest", leaf=2, features=0.4, extreme=False),
)
CORRECTIONS = 1 + len(_CANDIDATES)
"""Predictions that are weighed: the given one, then those of a table's own candidates."""


@storable
@dataclass(frozen=True)
class Correction:
    """Candidates fitted on a table's own rows, and the sums from which their weights follow."""

    fitted: tuple[Ensemble, ...]
    sums: ErrorSums

    def weighed(self, weights: Float[np.ndarray, "d candidates"]) -> Stage:
        """Return what tells a column's cells from what is seen of rows, under given weights."""
        useful = [c for c in range(len(self.fitted)) if weights[:, c + 1].max() > 0]
        fitted = tuple(self.fitted[c] for c in useful)
        return Stage(fitted, weights[:, [0, *(c + 1 for c in useful)]])


def fit_correction(practice: FilledPractice, rng: np.random.Generator) -> Correction | None:
    """Return candidates beside the prediction that a practice's inputs hold; None for few rows."""
    n = len(practice.matrix)
    if n < LEAST_ROWS:
        return None
    holes = sample_holes(practice.known, rng)
    folds = [
        Fold(learn, test, practice).fit(practice, _CANDIDATES, rng)
        for learn, test in split_rows(n, Plan(_CANDIDATES), rng)
    ]
    held_out = ask_folds(folds, holes, gaussian=True)
    return Correction(ensembles(folds), ErrorSums.of(held_out, CORRECTIONS))
