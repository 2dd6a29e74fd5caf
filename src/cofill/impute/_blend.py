"""Candidates blended for each column by how well they tell known cells of rows they did not see."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.impute._absent import AbsentView, fit_absent_views
from cofill.impute._factors import Factors, analyse_factors, fit_factors
from cofill.impute._gaussian import Gaussian, expectation_maximisation, fit_gaussian
from cofill.impute._held_out import HeldOut, blend_weights
from cofill.impute._practice import (
    AbstractCandidate,
    AbstractFitted,
    AbstractPractice,
    FilledPractice,
    HolePractice,
    Seen,
    fill_practice,
    inputs_with_holes,
    refine,
    refine_rows,
)
from cofill.impute._table import Encoding

_TEST_ROWS, _WIDE_TEST_ROWS = 2_000, 200  # left out for good where candidates are fitted once
_THREADED = 1_000_000  # cells of a matrix from which columns are filled side by side
_HOLES = 300  # of a column, in which folds are compared
# Rows with patterns of their own cost the cube of the width each: what fitting, filling may cost.
_SYSTEMS, _FILLED = 250_000_000, 5_000_000_000
_NARROW, _WIDE, _LEAST_ROWS, _FACTOR_ROWS = 24, 100, 600, 5_000


def unheard(share: float) -> None:
    """Report progress to nobody."""


@storable
@dataclass(frozen=True)
class Ensemble(AbstractFitted):
    """A candidate as fitted without each part of the rows in turn: its average."""

    parts: tuple[AbstractFitted, ...]

    def predict(self, column: int, seen: Seen) -> Float[np.ndarray, "n block"]:
        guesses = [part.predict(column, seen) for part in self.parts]
        return guesses[0] if len(guesses) == 1 else np.mean(guesses, axis=0)


@storable
@dataclass(frozen=True)
class Stage:
    """Fitted candidates, and what each column's weights on the Gaussian and on them are."""

    fitted: tuple[AbstractFitted, ...]
    weights: Float[np.ndarray, "d candidates"]

    def predict(self, column: int, seen: Seen) -> Float[np.ndarray, "n block"]:
        """Return one column's block from what is seen of rows."""
        plain, *weights = self.weights[column]
        total = plain * seen.base
        for weight, model in zip(weights, self.fitted, strict=True):
            if weight > 0:
                total += weight * model.predict(column, seen)
        return total


@storable
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
    holes: bool = False
    absent: tuple[AbsentView, ...] = ()

    def predict(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the matrix with every unknown cell told by the column's blend."""
        filled = self.gaussian.fill(matrix)
        known = self.encoding.known(matrix)
        inputs = filled.astype(np.float32)
        refined = inputs
        if self.refiner is not None:
            refined = refine_rows(inputs, known, self.encoding, self.refiner.predict, None)

        def tell(k: int) -> None:
            place = self.encoding.columns[k].place
            rows = np.flatnonzero(~known[:, k])
            if not len(rows):
                return
            base = filled[rows, place]
            seen = Seen(self.inputs_of(k, rows, inputs, matrix), base, known[rows])
            block = self.first.predict(k, seen)
            if self.second.fitted:
                finer = refined[rows]
                finer[:, place] = base
                block += self.second.predict(k, replace(seen, inputs=finer))
            filled[rows, place] = block

        columns = range(len(self.encoding.columns))
        if filled.size < _THREADED:
            for k in columns:
                tell(k)
        else:  # compiled trees leave the interpreter's lock
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(tell, columns))
        for view in self.absent:
            rows = np.flatnonzero(np.isnan(matrix[:, view.start : view.stop]).all(axis=1))
            rows = rows[known[rows].any(axis=1)]
            filled[rows, view.start : view.stop] = view.predict(inputs[rows], known[rows])
        return filled

    def inputs_of(
        self,
        column: int,
        rows: np.ndarray,
        filled: Float[np.ndarray, "n width"],
        matrix: Float[np.ndarray, "n width"],
    ) -> Float[np.ndarray, "m inputs"]:
        """Return what candidates see of rows when they are asked for a column.

        None of its cells for a column of a view with a model of its own: how far that is off is
        learned from what is known of a row alone.
        """
        start = self.encoding.columns[column].start
        if any(view.start <= start < view.stop for view in self.absent):
            return filled[rows, :0].astype(np.float32)
        if not self.holes:
            return filled[rows].astype(np.float32)
        base = filled[rows, self.encoding.columns[column].place]
        return inputs_with_holes(self.encoding, matrix[rows], base)


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
    holes
        Whether candidates see holes instead of what the Gaussian filled; nothing is refined then.
    folds
        Parts of the rows that are left out in turn: what is fitted without a part tells its cells,
        by which candidates are weighed, and the average of a candidate's fits is what is used. 1
        leaves a tenth out for good and fits once.
    absent_rows
        Rows from which views that a row lacks are told as a whole; 0 tells columns one by one.
    """

    first: tuple[AbstractCandidate, ...]
    second: tuple[AbstractCandidate, ...] = ()
    refined: bool = True
    holes: bool = False
    folds: int = 5
    absent_rows: int = 0


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and rows left out, and what was fitted on the former."""

    learn: np.ndarray
    test: np.ndarray
    practice: AbstractPractice
    fitted: tuple[AbstractFitted, ...] = ()

    def fit(
        self,
        practice: AbstractPractice,
        candidates: Sequence[AbstractCandidate],
        rng: np.random.Generator,
    ) -> Fold:
        """Return the fold with candidates fitted on a practice."""
        fitted = tuple(candidate.fit(practice, self.learn, rng) for candidate in candidates)
        return Fold(self.learn, self.test, practice, fitted)

    def ask(
        self, column: int, seen: Seen, gaussian: bool
    ) -> Float[np.ndarray, "candidates n block"]:
        """Return what the Gaussian (if it counts) and the candidates say of a column."""
        guesses = [seen.base] if gaussian else []
        return np.stack(guesses + [model.predict(column, seen) for model in self.fitted])


def fit_blend(
    matrix: Float[np.ndarray, "n width"],
    encoding: Encoding,
    plan: Plan,
    *,
    views: Sequence[tuple[int, int]] = (),
    rng: np.random.Generator,
    progress: Callable[[float], None] = unheard,
) -> Blend:
    """Return the blend: candidates fitted without each part of the rows, weighed on that part.

    `views` are the columns of each view, for a plan that tells absent views as a whole.
    """
    if plan.absent_rows:
        return _fit_by_views(matrix, encoding, plan, views, rng, progress)
    names = ("gaussian", *(c.name for c in (*plan.first, *plan.second)))
    parts = split_rows(len(matrix), plan, rng)
    known = encoding.known(matrix)
    holes = sample_holes(known if len(parts) > 1 else known[:0], rng)
    # Of many rows those that trees learn from say enough: the Gaussian is fitted once.
    learned = matrix[parts[0][0]] if plan.holes else matrix
    gaussian = _fit_filler(learned, encoding, rng, few=plan.holes)
    progress(0.1)
    folds: list[Fold] = []
    for f, (learn, test) in enumerate(parts):
        if plan.holes:
            practice = HolePractice(encoding, matrix, known, gaussian, int(rng.integers(2**31)))
        else:
            part = _fit_filler(matrix[learn], encoding, rng, strength=gaussian.strength)
            rows = matrix
            if not plan.first:  # wide: inputs of rows that nothing learns from would fill memory
                rows, test = matrix[test], np.arange(len(test))
            practice = fill_practice(rows, encoding, part, rng)
        folds.append(Fold(learn, test, practice).fit(practice, plan.first, rng))
        progress(0.1 + 0.4 * (f + 1) / len(parts))
    held_out: list[HeldOut | None] = [None] * len(holes)
    if folds:
        held_out = ask_folds(folds, holes, gaussian=True)
    first = ensembles(folds)
    refiner, later = None, ()
    if plan.second and folds:
        weights = None
        if plan.refined and plan.first:  # by the Gaussian and the first candidate alone
            weights = blend_weights([held and held.first(2) for held in held_out], 2)
        for f, fold in enumerate(folds):
            practice = fold.practice
            if weights is not None and isinstance(practice, FilledPractice):
                practice = refine(practice, Stage(fold.fitted[:1], weights).predict)
            folds[f] = fold.fit(practice, plan.second, rng)
            progress(0.5 + 0.5 * (f + 1) / len(folds))
        finer = ask_folds(folds, holes)
        held_out = [a and b and a.beside(b) for a, b in zip(held_out, finer, strict=True)]
        later = ensembles(folds)
        if weights is not None:
            refiner = Stage(first[:1], weights)
    weights = blend_weights(held_out, len(names) if folds else 1)
    ahead = 1 + len(first)
    useful = weights.max(axis=0) > 0
    kept = [c for c in range(1, ahead) if useful[c]]
    kept_later = [c for c in range(ahead, weights.shape[1]) if useful[c]]
    silent = np.zeros((len(weights), 1))
    progress(1.0)
    return Blend(
        encoding,
        gaussian,
        names,
        weights,
        Stage(tuple(first[c - 1] for c in kept), weights[:, [0, *kept]]),
        Stage(
            tuple(later[c - ahead] for c in kept_later),
            np.hstack([silent, weights[:, kept_later]]),
        ),
        refiner if kept_later else None,
        tuple(held_out),
        plan.holes,
    )


def _fit_by_views(
    matrix: np.ndarray,
    encoding: Encoding,
    plan: Plan,
    views: Sequence[tuple[int, int]],
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> Blend:
    """Return the Gaussian, and models of the views that rows may lack as a whole."""
    gaussian = _fit_filler(matrix, encoding, rng)
    progress(0.5)
    absent, held_out = fit_absent_views(
        matrix,
        encoding,
        gaussian,
        views,
        most=plan.absent_rows,
        rng=rng,
        progress=lambda share: progress(0.5 + 0.5 * share),
    )
    weights = np.ones((len(encoding.columns), 1))
    none = Stage((), weights)
    held = tuple(held_out)
    return Blend(encoding, gaussian, ("gaussian",), weights, none, none, None, held, absent=absent)


def split_rows(n: int, plan: Plan, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows to learn from and rows left out for each fold; none where rows are too few."""
    if plan.folds > 1:
        fold_of = rng.permutation(np.arange(n) % plan.folds)
        parts = [
            (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold))
            for fold in range(plan.folds)
        ]
    else:
        most = min(_TEST_ROWS, n // 10) if plan.first else min(_WIDE_TEST_ROWS, n // 5)
        test, learn = np.split(rng.permutation(n), [most])
        parts = [(learn, test)]
    return [part for part in parts if len(part[0]) and len(part[1])]


def _fit_filler(
    matrix: np.ndarray,
    encoding: Encoding,
    rng: np.random.Generator,
    *,
    few: bool = False,
    strength: float | None = None,
) -> Gaussian | Factors:
    """Return the Gaussian of a table, of few factors where it is wide; `strength` if known.

    `few` wants few factors also where a narrow table has many rows: each row costs less.
    Factors lose 4 % on 700 rows of the 64 columns of scikit-learn's digits, and cost a tenth.
    """
    n, width = matrix.shape
    most = min(n, max(_LEAST_ROWS, _SYSTEMS // width**3))
    sample = matrix[np.sort(rng.choice(n, most, replace=False))]
    if width > _WIDE or n * width**3 > _FILLED or (few and width > _NARROW):
        sample = matrix[np.sort(rng.choice(n, min(n, _FACTOR_ROWS), replace=False))]
        if strength is None:
            return fit_factors(sample, encoding, rng, few=few)
        return analyse_factors(sample, strength)
    if strength is None:
        return fit_gaussian(sample, encoding, rng)
    return expectation_maximisation(sample, strength)


def ensembles(folds: Sequence[Fold]) -> tuple[Ensemble, ...]:
    """Return each candidate as the average of its fits."""
    return tuple(Ensemble(fits) for fits in zip(*(f.fitted for f in folds), strict=True))


def sample_holes(known: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Return rows in which each column is unknown, as many as show how folds differ."""
    unknown = (np.flatnonzero(gone) for gone in ~known.T)
    return [rows if len(rows) <= _HOLES else rng.choice(rows, _HOLES, False) for rows in unknown]


def ask_folds(
    folds: Sequence[Fold], holes: Sequence[np.ndarray], *, gaussian: bool = False
) -> list[HeldOut | None]:
    """Return what folds say of known cells of the rows they left out, and of holes.

    `gaussian` counts the Gaussian's prediction as the first candidate.
    """
    results: list[HeldOut | None] = []
    for k, gaps in enumerate(holes):
        asked = [f.test[f.practice.known[f.test, k]] for f in folds]
        if not sum(map(len, asked)) or folds[0].practice.encoding.columns[k].constant:
            results.append(None)
            continue
        seen = [f.practice.seen_of(k, at) for f, at in zip(folds, asked, strict=True)]
        guesses = [f.ask(k, part, gaussian) for f, part in zip(folds, seen, strict=True)]
        results.append(
            HeldOut(
                np.concatenate(
                    [f.practice.targets(k, at) for f, at in zip(folds, asked, strict=True)]
                ),
                np.concatenate(guesses, axis=1),
                np.concatenate([part.inputs for part in seen]),
                np.concatenate([part.shown for part in seen]),
                np.stack([f.ask(k, f.practice.seen_of(k, gaps), gaussian) for f in folds]),
            )
        )
    return results
