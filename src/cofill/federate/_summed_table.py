"""The common model of tables split by row, from nothing but sums over all sites' people.

What `cofill.impute` learns of one table is learned here without the table. Stage by stage the
coordinator hands out what is known so far, every site adds numbers that are sums over its people,
and the total is all that anybody sees:

1. *shares*: how often categories occur, to scale them;
2. *gaussians*: EM steps of the joint Gaussian, for several priors at once. Sites add up expected
   first and second moments, so that the Gaussian is that of all rows in one place;
3. *strengths*: squared errors of known cells, each told as without its row, by which one prior is
   chosen; then further EM steps;
4. *features*: products for the ridge regression on random features that corrects the Gaussian
   (`_summed_features`);
5. *weights*: each site fits trees, neighbours and a Gaussian on its own people beside the common
   model (`cofill.impute.fit_correction`) and adds up how well they tell people left out.

Nothing is held out for good and no sum is over a part of the people: rows judge a model as fitted
without them by their leverage. A site weighs its own candidates by its own errors, drawn towards
those of all sites; a site of few people takes the common model as it is. Sums carry no guarantee:
they are moments of all people together, and whoever knows a person well can ask whether the
person fits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError
from cofill.federate._abstract_table import AbstractTable
from cofill.federate._aggregation import LocalUpdate
from cofill.federate._common_model import Vectors
from cofill.federate._rows import Rows
from cofill.federate._summed_features import PEOPLE_PER_COLUMN, FeatureRegression, Features
from cofill.federate._table_state import (
    DONE,
    FEATURES,
    GAUSSIANS,
    SHARES,
    STRENGTH,
    WEIGHTS,
    TableState,
)
from cofill.impute import (
    CORRECTIONS,
    STRENGTHS,
    TELLING,
    Correction,
    FilledPractice,
    Moments,
    Seen,
    fit_correction,
    inflation,
    practise_on_learned,
)
from cofill.protocol import FEWEST_ROWS

_NAMES = ("shares", "gaussians", "strengths", "features", "weights", "done")
_CHOOSING_STEPS = 10  # of EM before a prior is chosen
_STILL = 1e-3  # change of a covariance at which EM ends
_ADDING = 0xADD  # purpose of a site's random stream
_MANY_ROUNDS = 1000  # still to come, so that a stage ends by itself
_AFTER = 3  # rounds that follow EM: strengths, features, weights
_FEWEST_ROUNDS = 12  # with fewer all of them are EM's: the Gaussian matters most
_MOST_ROWS = 20_000  # of a site, that features and candidates learn from
_BLOCK = 4_000  # rows whose inputs for every column are held at once
WIDEST = 100
"""Encoded columns beyond which every row with a pattern of its own would cost too much."""


@dataclass(frozen=True)
class SummedTable(AbstractTable):
    """The common model of tables of a shape.

    Parameters
    ----------
    shape
        Of the rows.
    seed
        Of the random features, which all parties draw alike.

    Examples
    --------
    >>> from cofill.federate import Rows, Shape
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(90, 1)).astype(np.float32)
    >>> cells = np.hstack([x, -x])
    >>> rows = Rows(cells, np.ones(cells.shape, bool), np.ones((90, 1), bool))
    >>> model = SummedTable(Shape(("t",), (2,), widths=(1, 1), people=90))
    >>> state = model.start()
    >>> while not model.is_done(state):
    ...     total, _ = model.summands(state, rows, seed=[0])
    ...     state = model.advance(state, total, left=20)
    >>> model.fill(state, np.array([[2.0, np.nan]])).round(1)
    array([[ 2., -2.]])
    """

    name: ClassVar[str] = "sums"
    seed: int = 0

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Encoded columns of each feature."""
        return self.shape.widths

    @cached_property
    def _triangle(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.shape.size)

    def features_of(self, state: TableState) -> Features:
        """Return the random features of a state, in which people have been counted."""
        return Features(self.widths, tuple(map(int, state.counts)), self.seed)

    # --- the coordinator ----------------------------------------------------------------------

    def start(self, seed: int = 0) -> Float[np.ndarray, " state"]:
        """Return the state before the first round."""
        return TableState().to_vector()

    def sum_length(self, vector: Float[np.ndarray, " state"]) -> int:
        """Return how many numbers a site adds in a state."""
        state = TableState.of_vector(vector)
        d, size = len(self.widths), self.shape.size
        lengths = {
            SHARES: 3 * size + 1,
            GAUSSIANS: len(state.strengths) * (1 + size + len(self._triangle[0])),
            STRENGTH: len(state.strengths) * d,
            WEIGHTS: d * (CORRECTIONS**2 + CORRECTIONS + 2),
        }
        return self.features_of(state).length if state.stage == FEATURES else lengths[state.stage]

    def describe(self, vector: Float[np.ndarray, " state"]) -> str:
        """Return the name of a state's stage."""
        return _NAMES[TableState.of_vector(vector).stage]

    def is_done(self, vector: Float[np.ndarray, " state"]) -> bool:
        """Return whether nothing more is to be added up."""
        return TableState.of_vector(vector).stage == DONE

    def after_round(
        self, coordinator: Any, mean: Vectors, sites: int
    ) -> tuple[Mapping[str, np.ndarray], Float[np.ndarray, " next_state"]]:
        """Return the strategy's state as it was, and the next state."""
        left = coordinator.design.settings.rounds - coordinator.round
        total = sites * mean["change"]
        return coordinator.state, self.advance(coordinator.weights, total, left=left)

    def advance(
        self, vector: Float[np.ndarray, " state"], total: np.ndarray, *, left: int
    ) -> Float[np.ndarray, " next_state"]:
        """Return the state after a total over sites; ``left`` rounds are still to come."""
        state = TableState.of_vector(vector)
        after = (
            self._after_shares,
            self._after_gaussians,
            self._after_strengths,
            self._after_features,
            self._after_weights,
        )[state.stage]
        return after(state, total, left).to_vector()

    def _after_shares(self, state: TableState, total: np.ndarray, left: int) -> TableState:
        people, (known, sums, squares) = total[-1], np.split(total[:-1], 3)
        counts = np.maximum(known, 1.0)
        centre = sums / counts
        variance = np.maximum(squares / counts - centre**2, 0.0)
        # The columns of a category are scaled as a whole.
        starts = np.cumsum([0, *self.widths[:-1]])
        together = np.repeat(np.add.reduceat(variance, starts), self.widths)
        spread = np.where(together > 1e-12, np.sqrt(together), 1.0)
        if people < PEOPLE_PER_COLUMN * self.shape.size:
            raise DataError(
                f"the sites have {people:.0f} individuals together for {self.shape.size} columns, "
                "and moments of so few would tell of single ones; train a network (model 'network')"
            )
        several = left >= _FEWEST_ROUNDS
        strengths = np.array(STRENGTHS if several else STRENGTHS[3:4])
        count = len(strengths)
        return TableState(
            GAUSSIANS,
            people=float(people),
            counts=known[starts],
            centre=centre,
            spread=spread,
            strengths=strengths,
            means=np.zeros((count, self.shape.size)),
            covariances=np.tile(np.eye(self.shape.size), (count, 1, 1)),
        )

    def _after_gaussians(self, state: TableState, total: np.ndarray, left: int) -> TableState:
        parts = total.reshape(len(state.strengths), -1)
        fitted = []
        for part, strength in zip(parts, state.strengths, strict=True):
            products = np.zeros((self.shape.size, self.shape.size))
            products[self._triangle] = part[1 + self.shape.size :]
            products += np.triu(products, 1).T
            fitted.append(
                Moments(part[0], part[1 : 1 + self.shape.size], products).gaussian(strength)
            )
        covariances = np.stack([g.covariance for g in fitted])
        moved = np.abs(covariances.ravel() - state.covariances).max()
        state = replace(
            state,
            step=state.step + 1,
            means=np.stack([g.mean for g in fitted]),
            covariances=covariances,
        )
        several = len(fitted) > 1
        if several and (moved < _STILL or state.step >= _CHOOSING_STEPS):
            return replace(state, stage=STRENGTH)
        if (not several and moved < _STILL) or left < _AFTER:
            return replace(state, stage=FEATURES if left >= _AFTER - 1 else DONE)
        return state

    def _after_strengths(self, state: TableState, total: np.ndarray, left: int) -> TableState:
        # In units of each column's least error: a column that nothing tells would drown the others.
        errors = total.reshape(len(state.strengths), -1) + TELLING * state.counts
        best = int(np.argmin((errors / errors.min(axis=0)).sum(axis=1)))
        chosen = state.gaussians()[best]
        return replace(
            state,
            stage=GAUSSIANS if left >= _AFTER else FEATURES,
            strengths=state.strengths[[best]],
            means=chosen.mean,
            covariances=chosen.covariance,
        )

    def _after_features(self, state: TableState, total: np.ndarray, left: int) -> TableState:
        coefficients, inflations = [], np.ones(len(self.widths))
        for k, sums in enumerate(self.features_of(state).split(total)):
            if sums is not None:
                solved, inflations[k] = sums.regress()
                coefficients.append(solved.ravel())
        return replace(
            state,
            stage=WEIGHTS if left else DONE,
            coefficients=np.concatenate([np.zeros(0), *coefficients]),
            inflations=inflations,
        )

    def _after_weights(self, state: TableState, total: np.ndarray, left: int) -> TableState:
        return replace(state, stage=DONE, errors=total)

    # --- a site -------------------------------------------------------------------------------

    def add_up(self, site: Any, model: Any) -> tuple[Any, LocalUpdate | None]:
        """Return a site and what it adds to the sums of a round; None if it has too few people."""
        rows, is_shown = site.rows, not site.design.settings.secure
        if len(rows) < FEWEST_ROWS:
            return site, None
        if is_shown and len(rows) < PEOPLE_PER_COLUMN * self.shape.size:
            return site.with_note(
                f"round {model.round}: site {site.name!r}: it has too few individuals for its "
                "columns, and without secure sums their products would tell of single ones; not "
                "sent"
            ), None
        parts = model.weights, rows
        numbers, correction = self.summands(*parts, seed=site.stream(_ADDING), is_shown=is_shown)
        site = site if correction is None else replace(site, correction=correction)
        return site, LocalUpdate(model.round, numbers, len(rows))

    def summands(
        self,
        vector: Float[np.ndarray, " state"],
        rows: Rows,
        *,
        seed: list[int],
        is_shown: bool = False,
    ) -> tuple[Float[np.ndarray, " length"], Correction | None]:
        """Return what a site adds in a state, and its own candidates once they are fitted.

        Where others are shown a site's own sums, it adds nothing for columns with more features
        than it has people for.
        """
        state = TableState.of_vector(vector)
        if state.stage == SHARES:
            cells = rows.cells.astype(np.float64)
            known = rows.known.astype(np.float64)
            sums = known.sum(axis=0), (cells * known).sum(axis=0), (cells**2 * known).sum(axis=0)
            return np.concatenate([*sums, [float(len(rows))]]), None
        matrix = state.scale(rows.cells, rows.known)
        matrix = matrix[rows.known.any(axis=1)]
        if state.stage == GAUSSIANS:
            moments = [g.expected_sums(matrix) for g in state.gaussians()]
            parts = [[[m.count], m.total, m.products[self._triangle]] for m in moments]
            return np.concatenate([number for part in parts for number in part]), None
        rng = np.random.default_rng(seed)
        if state.stage == STRENGTH:
            return self._errors(state, matrix).ravel(), None
        if len(matrix) > _MOST_ROWS:
            matrix = matrix[np.sort(rng.choice(len(matrix), _MOST_ROWS, replace=False))]
        if state.stage == FEATURES:
            return self._feature_sums(state, matrix, rng, is_shown), None
        correction = fit_correction(self._practice(state, matrix, rng), rng)
        if correction is None:
            return np.zeros(self.sum_length(vector)), None
        return np.concatenate([part.ravel() for part in correction.sums.parts]), correction

    def _errors(self, state: TableState, matrix: np.ndarray) -> np.ndarray:
        """Return each prior's squared errors by column, of cells told as without their rows."""
        errors = np.zeros((len(state.strengths), len(self.widths)))
        for start in range(0, len(matrix), _BLOCK):
            part = matrix[start : start + _BLOCK]
            for s, gaussian in enumerate(state.gaussians()):
                learned = state.people + gaussian.strength
                guesses, distances = gaussian.leave_out_each(part, self.encoding)
                for k, column in enumerate(self.encoding.columns):
                    gaps = (guesses[k] - part)[:, column.place]
                    gaps *= inflation(distances[k], learned)[:, None]
                    errors[s, k] += np.nansum(gaps**2)
        return errors

    def _feature_sums(
        self, state: TableState, matrix: np.ndarray, rng: np.random.Generator, is_shown: bool
    ) -> np.ndarray:
        features = self.features_of(state)
        total = np.zeros(features.length)
        if not features.length:
            return total
        known = self.encoding.known(matrix).sum(axis=0)
        is_left_out = is_shown & (known < PEOPLE_PER_COLUMN * np.array(features.sizes))
        for start in range(0, len(matrix), _BLOCK):
            practice = self._gaussian_practice(state, matrix[start : start + _BLOCK], rng)
            parts = []
            for k, size in enumerate(features.sizes):
                if size:
                    rows = np.flatnonzero(practice.known[:, k] & ~is_left_out[k])
                    seen = practice.seen_of(k, rows)
                    left = practice.targets(k, rows) - seen.base
                    parts.append(features.sums_of(k, seen.inputs, seen.shown, left))
            total += np.concatenate(parts)
        return total

    def _gaussian_practice(
        self, state: TableState, matrix: np.ndarray, rng: np.random.Generator
    ) -> FilledPractice:
        (gaussian,) = state.gaussians()
        learned = state.people + gaussian.strength
        return practise_on_learned(matrix, self.encoding, gaussian, rng, learned=learned)

    def _practice(
        self, state: TableState, matrix: np.ndarray, rng: np.random.Generator
    ) -> FilledPractice:
        """Return a site's rows with each column as the common model tells it without the row."""
        practice = self._gaussian_practice(state, matrix, rng)
        every, corrections, bases = np.arange(len(matrix)), self._corrections(state), []
        for k in range(len(self.widths)):
            seen, cells = practice.seen_of(k, every), practice.targets(k, every)
            block = seen.base + corrections.get(k, _no_correction)(seen)
            held_out = cells - (cells - block) * state.inflations[k]
            bases.append(np.where(practice.known[:, [k]], held_out, block))
        return replace(practice, bases=tuple(bases))

    # --- completion ---------------------------------------------------------------------------

    def _corrections(self, state: TableState) -> Mapping[int, Any]:
        """Return, by column, what adds the regression's correction to what is seen of rows."""
        features, start, corrections = self.features_of(state), 0, {}
        for k, (size, block) in enumerate(zip(features.sizes, self.widths, strict=True)):
            part = state.coefficients[start : start + size * block]
            start += len(part)
            if part.any():
                corrections[k] = FeatureRegression(features, k, part.reshape(size, block))
        return corrections

    def fill(
        self,
        vector: Float[np.ndarray, " state"],
        encoded: Float[np.ndarray, "n size"],
        correction: Correction | None = None,
    ) -> Float[np.ndarray, "n size"]:
        """Return encoded rows with unknown cells (NaN) filled, by a site's own candidates too."""
        state = TableState.of_vector(vector)
        if not len(state.strengths):
            return np.where(np.isnan(encoded), 0.0, encoded)
        matrix = state.scale(encoded, ~np.isnan(encoded))
        known = self.encoding.known(matrix)
        filled = state.gaussians()[0].fill(matrix)
        inputs = filled.astype(np.float32)
        corrections = self._corrections(state)
        own_model = None
        if correction is not None and len(state.errors):
            own_model = correction.weighed(state.site_weights(correction))
        for k, column in enumerate(self.encoding.columns):
            rows = np.flatnonzero(~known[:, k])
            if not len(rows):
                continue
            seen = Seen(inputs[rows], filled[rows, column.place], known[rows])
            block = seen.base + corrections.get(k, _no_correction)(seen)
            if own_model is not None:
                block = own_model.predict(k, replace(seen, base=block))
            filled[rows, column.place] = block
        return np.where(np.isnan(encoded), filled * state.spread + state.centre, encoded)

    # --- audits -------------------------------------------------------------------------------

    def after_update(
        self, weights: Float[np.ndarray, " state"], change: Float[np.ndarray, " length"]
    ) -> Float[np.ndarray, " next_state"]:
        """Return the state if one site's sums were the only ones."""
        return self.advance(weights, change, left=_MANY_ROUNDS)

    def log_losses(
        self, models: Sequence[Float[np.ndarray, " _"]], cells: Float[np.ndarray, "people size"]
    ) -> Float[np.ndarray, "models people"]:
        """Return how far everybody's cells lie from what each model expects."""
        return np.stack([TableState.of_vector(model).surprise(cells) for model in models])


def _no_correction(seen: Seen) -> float:
    return 0.0
