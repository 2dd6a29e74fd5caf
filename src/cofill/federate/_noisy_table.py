"""The common model of tables split by row where every row has an ε: one noisy sum of products.

A row is written as its known cells beside a mark for every known feature, and brought to length
one, so that no row moves a sum of products further than another. Every site adds up the products of
its rows and puts Gaussian noise on them before they leave, enough for its rows' ε whatever the
other sites and the coordinator do. There is one round, so that nothing is spent twice.

The total tells how often two features are known together, and means and covariances where they are:
a Gaussian, which fills every cell from the known ones of its row. What of its covariance is no
larger than noise is taken for noise. What a site's own people tell besides (`fit_correction`) is
learned and weighed at the site, leaves it for nobody, and so costs nothing.
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
from cofill.impute import (
    Correction,
    Gaussian,
    Seen,
    fit_correction,
    practise_on_learned,
)
from cofill.privacy import GaussianEvent, add_noise, noise_for

_FURTHEST = 4.0  # deviations beyond which a cell counts as no further
_MARK = 0.5  # length of a mark beside a cell of a typical row
_NOISE, _OWN_PEOPLE = 0x2015E, 0x0F17  # purposes of a site's random streams
_REPLACED = np.sqrt(2.0)  # furthest that one row in another's place moves the products


@dataclass(frozen=True)
class NoisyTable(AbstractTable):
    """The common model of tables of a shape, under an ε at a δ for the rows of every site.

    Parameters
    ----------
    shape
        Of the rows.
    epsilon, delta
        What a site's sum may tell of one of its rows in place of another.

    Examples
    --------
    >>> from cofill.federate import Rows, Shape
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1)).astype(np.float32)
    >>> cells = np.hstack([x, -x])
    >>> rows = Rows(cells, np.ones(cells.shape, bool), np.ones((4000, 1), bool))
    >>> model = NoisyTable(Shape(("t",), (2,), widths=(1, 1), people=4000), epsilon=2.0)
    >>> state = model.advance(model.protect(model.products(rows), rng), sites=1)
    >>> model.gaussian(state).fill(np.array([[1.0, np.nan]])).round(1)
    array([[ 1., -1.]])
    """

    name: ClassVar[str] = "noisy sums"
    epsilon: float | int
    delta: float | int = 1e-5

    @cached_property
    def event(self) -> GaussianEvent:
        """What its sum costs a site."""
        return GaussianEvent(noise_for(self.epsilon, self.delta), neighbours="replace one")

    @cached_property
    def _width(self) -> int:
        return len(self.shape.widths) + self.shape.size

    @cached_property
    def _triangle(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self._width)

    @cached_property
    def _stretch(self) -> Float[np.ndarray, " length"]:
        """What makes the triangle of a symmetric matrix as long as the matrix."""
        first, second = self._triangle
        return np.where(first == second, 1.0, np.sqrt(2.0))

    # --- the coordinator ----------------------------------------------------------------------

    def start(self, seed: int = 0) -> Float[np.ndarray, " state"]:
        """Return the state before the only round."""
        return np.zeros(1)

    def sum_length(self, vector: Float[np.ndarray, " state"]) -> int:
        """Return how many numbers a site adds."""
        return len(self._stretch)

    def is_done(self, vector: Float[np.ndarray, " state"]) -> bool:
        """Return whether the round is over."""
        return len(vector) > 1

    def after_round(
        self, coordinator: Any, mean: Vectors, sites: int
    ) -> tuple[Mapping[str, np.ndarray], Float[np.ndarray, " next_state"]]:
        """Return the strategy's state as it was, and the Gaussian."""
        return coordinator.state, self.advance(sites * mean["change"], sites=sites)

    def advance(self, total: np.ndarray, *, sites: int) -> Float[np.ndarray, " next_state"]:
        """Return mean and covariance, one after the other, from a total over so many sites."""
        d, size = len(self.shape.widths), self.shape.size
        products = np.zeros((self._width, self._width))
        products[self._triangle] = total / self._stretch
        products += np.triu(products, 1).T
        noise = self.event.noise_multiplier * _REPLACED * np.sqrt(sites / 2)
        counts = _less_noise(products[:d, :d], 2 * noise * np.sqrt(d)) / _MARK**2
        counts = np.maximum(counts, 3 * noise / _MARK**2)
        owner = np.repeat(np.arange(d), self.shape.widths)
        known, column = counts[np.ix_(owner, owner)], np.arange(size)
        mean = products[owner, d + column] / _MARK / np.diag(known)
        covariance = products[d:, d:] / known - np.outer(mean, mean)
        radius = 2 * noise * np.sqrt((1 / known**2).sum(axis=1).mean())
        covariance = _less_noise(covariance, radius) + radius * np.eye(size)
        return np.concatenate([mean, covariance.ravel()])

    def gaussian(self, vector: Float[np.ndarray, " state"]) -> Gaussian:
        """Return the Gaussian that a state holds."""
        size = self.shape.size
        if len(vector) != size * (1 + size):
            raise DataError("the common model does not have the parts of a Gaussian of its columns")
        return Gaussian(vector[:size], vector[size:].reshape(size, size))

    # --- a site -------------------------------------------------------------------------------

    def add_up(self, site: Any, model: Any) -> tuple[Any, LocalUpdate | None]:
        """Return the site and what it adds to the sum, with its noise; None if it has nobody."""
        if not len(site.rows):
            return site, None
        rng = np.random.default_rng(site.secret_stream(_NOISE, model.round))
        numbers = self.protect(self.products(site.rows), rng)
        return site, LocalUpdate(model.round, numbers, len(site.rows), event=self.event)

    def products(self, rows: Rows) -> Float[np.ndarray, " length"]:
        """Return sums of products of cells and marks over rows, each brought to length one."""
        cells = np.nan_to_num(self._scale(np.where(rows.known, rows.cells, np.nan)))
        marks = _MARK * self.encoding.known(np.where(rows.known, 0.0, np.nan))
        both = np.hstack([marks, cells])
        length = np.linalg.norm(both, axis=1, keepdims=True)
        both = np.divide(both, length, out=np.zeros(both.shape), where=length > 0)
        return (both.T @ both)[self._triangle] * self._stretch

    def protect(
        self, numbers: Float[np.ndarray, " length"], rng: np.random.Generator
    ) -> Float[np.ndarray, " length"]:
        """Return a site's sums with all the noise that its event says."""
        scale = self.event.noise_multiplier * _REPLACED
        return add_noise("gaussian", numbers, scale, _REPLACED, rng)

    def learn_from_own(self, site: Any, weights: Float[np.ndarray, " state"]) -> Any:
        """Return the site with what its own people tell beside the common model."""
        cells = np.where(site.rows.known, site.rows.cells, np.nan)
        matrix = self._scale(cells[site.rows.known.any(axis=1)])
        rng = np.random.default_rng(site.stream(_OWN_PEOPLE))
        practice = practise_on_learned(
            matrix, self.encoding, self.gaussian(weights), rng, learned=np.inf
        )
        return replace(site, correction=fit_correction(practice, rng))

    def _scale(self, encoded: Float[np.ndarray, "n size"]) -> Float[np.ndarray, "n size"]:
        """Return encoded rows, a category's columns less their mean if all values were as many."""
        return np.clip(encoded - self._centre, -_FURTHEST, _FURTHEST).astype(np.float64)

    @cached_property
    def _centre(self) -> Float[np.ndarray, " size"]:
        widths = np.array(self.shape.widths)
        return np.repeat(np.where(widths > 1, 1 / widths, 0.0), widths)

    # --- completion ---------------------------------------------------------------------------

    def fill(
        self,
        vector: Float[np.ndarray, " state"],
        encoded: Float[np.ndarray, "n size"],
        correction: Correction | None = None,
    ) -> Float[np.ndarray, "n size"]:
        """Return encoded rows with unknown cells (NaN) filled, by a site's own candidates too."""
        matrix = self._scale(encoded)
        filled = self.gaussian(vector).fill(matrix)
        known, inputs = self.encoding.known(matrix), filled.astype(np.float32)
        if correction is not None:
            own_model = correction.weighed(correction.sums.drawn_together().weights())
            for k, column in enumerate(self.encoding.columns):
                rows = np.flatnonzero(~known[:, k])
                if len(rows):
                    seen = Seen(inputs[rows], filled[rows, column.place], known[rows])
                    filled[rows, column.place] = own_model.predict(k, seen)
        return np.where(np.isnan(encoded), filled + self._centre, encoded)

    # --- audits -------------------------------------------------------------------------------

    def after_update(
        self, weights: Float[np.ndarray, " state"], change: Float[np.ndarray, " length"]
    ) -> Float[np.ndarray, " next_state"]:
        """Return the state if one site's sums were the only ones."""
        return self.advance(change, sites=1)

    def log_losses(
        self, models: Sequence[Float[np.ndarray, " _"]], cells: Float[np.ndarray, "people size"]
    ) -> Float[np.ndarray, "models people"]:
        """Return how far everybody's cells lie from what each model expects, per cell."""
        matrix = self._scale(cells)
        count = np.maximum((~np.isnan(matrix)).sum(axis=1), 1)
        distances = [
            self.gaussian(model).distances(matrix) if len(model) > 1 else np.zeros(len(matrix))
            for model in models
        ]
        return np.stack(distances) / count


def _less_noise(matrix: np.ndarray, radius: float) -> np.ndarray:
    """Return a symmetric matrix without what noise of a spectral norm can have put there."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values - radius, 0.0)) @ vectors.T
