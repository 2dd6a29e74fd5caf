"""Candidates blended for each column by how well they tell known cells of rows they did not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from cofill.impute._factors import Factors, analyse_factors, fit_factors
from cofill.impute._gaussian import Gaussian, expectation_maximisation, fit_gaussian
from cofill.impute._practice import (
    AbstractCandidate,
    AbstractFitted,
    Practice,
    make_practice,
    refine,
    refine_rows,
)
from cofill.impute._table import Encoding

_TEST_ROWS = 2_000
# Rows with patterns of their own cost the cube of the width each: what fitting, filling may cost.
_SYSTEMS, _FILLED = 250_000_000, 5_000_000_000
_WIDE, _LEAST_ROWS, _FACTOR_ROWS = 100, 600, 5_000
_COMMON = 60.0  # cells that the columns' common weights count for, beside a column's own


def unheard(share: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class HeldOut:
    """Predictions of cells of rows that no candidate had seen, beside the cells themselves."""

    rows: np.ndarray
    actual: Float[np.ndarray, "n block"]
    guesses: Float[np.ndarray, "candidates n block"]
    inputs: Float[np.ndarray, "n width"] | None = None
    shown: Bool[np.ndarray, "n d"] | None = None


@dataclass(frozen=True)
class Stage:
    """AbstractFitted candidates and what each column's weights on the Gaussian and on them are."""

    encoding: Encoding
    fitted: tuple[AbstractFitted, ...]
    weights: Float[np.ndarray, "d candidates"]

    def predict(
        self, column: int, inputs: Float[np.ndarray, "n width"], known: Bool[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n block"]:
        """Return one column's block from filled rows."""
        place = self.encoding.columns[column].place
        plain, *weights = self.weights[column]
        total = plain * inputs[:, place].astype(np.float64)
        for weight, model in zip(weights, self.fitted, strict=True):
            if weight > 0:
                total += weight * model.predict(column, inputs, known)
        return total


@dataclass(frozen=True)
class Blend:
    """A Gaussian that fills, candidates on filled rows, candidates on rows that those refined."""

    encoding: Encoding
    gaussian: Gaussian | Factors
    names: tuple[str, ...]
    weights: Float[np.ndarray, "d candidates"]
    first: Stage
    second: Stage
    refiner: Stage | None
    held_out: tuple[HeldOut | None, ...] = ()

    def predict(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the matrix with every unknown cell told by the column's blend."""
        filled = self.gaussian.fill(matrix)
        known = self.encoding.known(matrix)
        inputs = filled.astype(np.float32)
        refined = inputs
        if self.refiner is not None:
            refined = refine_rows(inputs, known, self.encoding, self.refiner.predict, None)
        for k, column in enumerate(self.encoding.columns):
            rows = np.flatnonzero(~known[:, k])
            if not len(rows):
                continue
            finer = refined[rows]
            finer[:, column.place] = inputs[rows, column.place]
            filled[rows, column.place] = self.first.predict(
                k, inputs[rows], known[rows]
            ) + self.second.predict(k, finer, known[rows])
        return filled


@dataclass(frozen=True)
class Plan:
    """Which candidates are tried, in how many folds, and whether inputs are refined for some.

    Parameters
    ----------
    first
        Candidates on inputs that the Gaussian filled. The first of them refines inputs.
    second
        Candidates on refined inputs, or on the same inputs where `refined` is False.
    refined
        Whether to refine.
    folds
        Fifths of the rows that are left out in turn to weigh candidates, which are then fitted on
        all; 0 leaves a tenth out for good and fits once.
    """

    first: tuple[AbstractCandidate, ...]
    second: tuple[AbstractCandidate, ...] = ()
    refined: bool = True
    folds: int = 3


def fit_blend(
    matrix: Float[np.ndarray, "n width"],
    encoding: Encoding,
    plan: Plan,
    *,
    rng: np.random.Generator,
    progress: Callable[[float], None] = unheard,
) -> Blend:
    """Return the blend: weights from rows left out, then every candidate fitted on all rows."""
    if not plan.first and not plan.second:
        return _fit_filler_alone(matrix, encoding, rng)
    gaussian = _fit_filler(matrix, encoding, rng)
    progress(0.1)
    names = ("gaussian", *(c.name for c in (*plan.first, *plan.second)))
    if plan.folds == 0:
        return _fit_once(matrix, encoding, gaussian, plan, names, rng)
    held_out = cross_predict(matrix, encoding, gaussian, plan, rng=rng, progress=progress)
    weights = blend_weights(held_out, len(names))
    practice = make_practice(matrix, encoding, gaussian, rng)
    every = np.arange(len(matrix))
    ahead = 1 + len(plan.first)
    useful = weights.max(axis=0) > 0
    refines = plan.refined and len(plan.first) > 0 and bool(useful[ahead:].any())
    fitted = {
        c: candidate.fit(practice, every, rng)
        for c, candidate in enumerate(plan.first, start=1)
        if useful[c] or (refines and c == 1)
    }
    refiner = None
    if refines:
        refiner = Stage(encoding, (fitted[1],), _refiner_weights(held_out))
        practice = refine(practice, refiner.predict)
    progress(0.85)
    later = {
        c: candidate.fit(practice, every, rng)
        for c, candidate in enumerate(plan.second, start=ahead)
        if useful[c]
    }
    progress(1.0)
    first = Stage(encoding, tuple(fitted.values()), weights[:, [0, *fitted]])
    silent = np.zeros((len(weights), 1))
    second = Stage(encoding, tuple(later.values()), np.hstack([silent, weights[:, [*later]]]))
    return Blend(encoding, gaussian, names, weights, first, second, refiner, tuple(held_out))


def _fit_once(
    matrix: np.ndarray,
    encoding: Encoding,
    gaussian: Gaussian | Factors,
    plan: Plan,
    names: tuple[str, ...],
    rng: np.random.Generator,
) -> Blend:
    """Return the blend of candidates fitted once, on nine tenths of many rows."""
    order = rng.permutation(len(matrix))
    test, learn = np.split(order, [min(_TEST_ROWS, len(order) // 10)])
    practice = make_practice(matrix, encoding, gaussian, rng)
    fitted = tuple(candidate.fit(practice, learn, rng) for candidate in plan.first)
    held_out = _held_out(practice, test, fitted, gaussian=True)
    refiner = None
    if plan.second and plan.refined and plan.first:
        refiner = Stage(encoding, fitted[:1], _refiner_weights(held_out))
        practice = refine(practice, refiner.predict)
    later = tuple(candidate.fit(practice, learn, rng) for candidate in plan.second)
    held_out = _beside(held_out, _held_out(practice, test, later))
    weights = blend_weights(held_out, len(names))
    ahead = 1 + len(fitted)
    first = Stage(encoding, fitted, weights[:, :ahead])
    second = Stage(encoding, later, np.hstack([np.zeros((len(weights), 1)), weights[:, ahead:]]))
    return Blend(encoding, gaussian, names, weights, first, second, refiner, tuple(held_out))


def cross_predict(
    matrix: Float[np.ndarray, "n width"],
    encoding: Encoding,
    gaussian: Gaussian | Factors,
    plan: Plan,
    *,
    rng: np.random.Generator,
    progress: Callable[[float], None] = unheard,
) -> list[HeldOut | None]:
    """Return, for each column, what all candidates say of known cells of rows left out."""
    fold_of = rng.permutation(np.arange(len(matrix)) % max(plan.folds, 5))
    folds = []
    for fold in range(plan.folds):
        learn, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        if not len(learn) or not len(test):
            continue
        part = _fit_filler(matrix[learn], encoding, rng, gaussian.strength)
        practice = make_practice(matrix, encoding, part, rng)
        fitted = [candidate.fit(practice, learn, rng) for candidate in plan.first]
        folds.append((learn, test, practice, fitted))
        progress(0.1 + 0.3 * (fold + 1) / plan.folds)
    if not folds:
        return [None] * len(encoding.columns)
    first = _join([_held_out(p, test, f, gaussian=True) for _, test, p, f in folds])
    if not plan.second:
        return first
    weights = _refiner_weights(first) if plan.refined and plan.first else None
    parts = []
    for f, (learn, test, practice, fitted) in enumerate(folds):
        finer = practice
        if weights is not None:
            finer = refine(practice, Stage(encoding, (fitted[0],), weights).predict)
        later = [candidate.fit(finer, learn, rng) for candidate in plan.second]
        parts.append(_held_out(finer, test, later))
        progress(0.4 + 0.3 * (f + 1) / plan.folds)
    return _beside(first, _join(parts))


def _beside(
    first: Sequence[HeldOut | None], second: Sequence[HeldOut | None]
) -> list[HeldOut | None]:
    """Return both stages' guesses of the same cells."""
    return [
        one and two and replace(one, guesses=np.concatenate([one.guesses, two.guesses]))
        if two is not None and len(two.guesses)
        else one
        for one, two in zip(first, second, strict=True)
    ]


def _fit_filler(
    matrix: np.ndarray, encoding: Encoding, rng: np.random.Generator, strength: float | None = None
) -> Gaussian | Factors:
    """Return the Gaussian of a table, of few factors where it is wide; `strength` if known.

    Factors lose 4 % on 700 rows of the 64 columns of scikit-learn's digits, and cost a tenth.
    """
    n, width = matrix.shape
    most = min(n, max(_LEAST_ROWS, _SYSTEMS // width**3))
    sample = matrix[np.sort(rng.choice(n, most, replace=False))]
    if width > _WIDE or n * width**3 > _FILLED:
        sample = matrix[np.sort(rng.choice(n, min(n, _FACTOR_ROWS), replace=False))]
        if strength is None:
            return fit_factors(sample, encoding, rng)
        return analyse_factors(sample, strength)
    if strength is None:
        return fit_gaussian(sample, encoding, rng)
    return expectation_maximisation(sample, strength)


def _fit_filler_alone(matrix: np.ndarray, encoding: Encoding, rng: np.random.Generator) -> Blend:
    """Return the Gaussian as the only candidate, scored on rows left out and fitted on all."""
    gaussian = _fit_filler(matrix, encoding, rng)
    test, learn = np.split(rng.permutation(len(matrix)), [min(200, len(matrix) // 5)])
    held_out: list[HeldOut | None] = [None] * len(encoding.columns)
    if len(test):
        part = _fit_filler(matrix[learn], encoding, rng, gaussian.strength)
        practice = make_practice(matrix[test], encoding, part, rng)
        held_out = _held_out(practice, np.arange(len(test)), (), gaussian=True)
    weights = blend_weights(held_out, 1)
    first, second = (Stage(encoding, (), w) for w in (weights, np.zeros_like(weights)))
    return Blend(encoding, gaussian, ("gaussian",), weights, first, second, None, tuple(held_out))


def _held_out(
    practice: Practice,
    test: np.ndarray,
    models: Sequence[AbstractFitted],
    *,
    gaussian: bool = False,
) -> list[HeldOut | None]:
    """Return what the Gaussian (if asked for) and models say of the known cells of some rows."""
    results: list[HeldOut | None] = []
    for k, column in enumerate(practice.encoding.columns):
        rows = test[practice.known[test, k]]
        if column.constant or not len(rows):
            results.append(None)
            continue
        inputs, known = practice.inputs[k, rows], practice.shown[k, rows]
        guesses = [inputs[:, column.place].astype(np.float64)] if gaussian else []
        guesses += [model.predict(k, inputs, known) for model in models]
        if not guesses:
            results.append(None)
            continue
        results.append(HeldOut(rows, practice.targets(k, rows), np.stack(guesses), inputs, known))
    return results


def _refiner_weights(held_out: Sequence[HeldOut | None]) -> Float[np.ndarray, "d 2"]:
    """Return weights of the Gaussian and the first candidate alone."""
    return blend_weights([held and replace(held, guesses=held.guesses[:2]) for held in held_out], 2)


def blend_weights(
    held_out: Sequence[HeldOut | None], count: int
) -> Float[np.ndarray, "d candidates"]:
    """Return nonnegative weights of sum one at most, drawn towards those best for all columns.

    The common weights are fitted on all columns' held-out cells, each column in units of its best
    candidate's error, and enter each column's own fit as `_COMMON` further cells.
    """
    grams = np.zeros((len(held_out), count, count))
    sides = np.zeros((len(held_out), count))
    sizes = np.zeros(len(held_out))
    for k, held in enumerate(held_out):
        if held is not None:
            gaps = (held.guesses - held.actual).reshape(count, -1)
            best = max(float((gaps**2).sum(axis=1).min()) / held.actual.size, 1e-9)
            flat, actual = held.guesses.reshape(count, -1), held.actual.ravel()
            width = held.actual.shape[1]
            grams[k] = flat @ flat.T / (best * width)
            sides[k] = flat @ actual / (best * width)
            sizes[k] = len(held.actual)
    total = max(sizes.sum(), 1.0)
    gram, side = grams.sum(axis=0) / total, sides.sum(axis=0) / total
    return np.stack(
        [
            _simplex(g + _COMMON * gram, b + _COMMON * side)
            for g, b in zip(grams, sides, strict=True)
        ]
    )


def _simplex(gram: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Minimise w'Gw − 2b'w over nonnegative w of sum one at most."""
    from scipy.optimize import nnls

    size = float(np.trace(gram)) / len(gram)
    if size <= 0:
        return np.eye(len(gram))[0]
    ridge = gram + 1e-6 * size * np.eye(len(gram))
    root = np.linalg.cholesky(ridge).T
    goal = np.linalg.solve(root.T, side)
    weights, _ = nnls(root, goal)
    if weights.sum() > 1:
        heavy = 1e3 * np.sqrt(size)
        weights, _ = nnls(np.vstack([root, heavy * np.ones(len(gram))]), np.append(goal, heavy))
    return weights


def _join(folds: Sequence[Sequence[HeldOut | None]]) -> list[HeldOut | None]:
    """Put the folds' cells of each column together."""
    joined: list[HeldOut | None] = []
    for column in zip(*folds, strict=True):
        held = [part for part in column if part is not None]
        joined.append(
            HeldOut(
                np.concatenate([h.rows for h in held]),
                np.concatenate([h.actual for h in held]),
                np.concatenate([h.guesses for h in held], axis=1),
                np.concatenate([h.inputs for h in held if h.inputs is not None]),
                np.concatenate([h.shown for h in held if h.shown is not None]),
            )
            if held
            else None
        )
    return joined
