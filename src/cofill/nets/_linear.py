"""Ridge regression for every pattern of available inputs, from one set of covariances.

Inputs come in groups (views, or codes of views), any of which may be missing. The covariance of two
groups is estimated from the rows that have both, the covariance of a group with a target from the
rows that have the group and know the target. For a row with some of the groups the coefficients
solve ``(C_PP + λ I) b = c_P`` over the groups P it has; where all rows have all groups this is
ordinary ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable
from cofill.views import patterns_of

Groups = tuple[tuple[int, int], ...]


@storable
@dataclass(frozen=True)
class Moments:
    """Means and covariances of grouped inputs and targets, over the rows that know both.

    ``covariance`` is of inputs with inputs, projected to be positive semi-definite, ``cross`` of
    inputs with targets. Means are over the rows that have the group, or know the target. ``groups``
    are the columns ``(start, stop)`` of each.
    """

    covariance: Float[np.ndarray, "width width"]
    cross: Float[np.ndarray, "width outputs"]
    input_mean: Float[np.ndarray, " width"]
    target_mean: Float[np.ndarray, " outputs"]
    groups: Groups

    @classmethod
    def of(
        cls,
        inputs: Float[np.ndarray, "rows width"],
        present: Bool[np.ndarray, "rows groups"],
        targets: Float[np.ndarray, "rows outputs"],
        groups: Groups,
    ) -> Moments:
        """Return the estimate from rows; missing inputs are zero, unknown targets NaN."""
        x = inputs.astype(np.float64)
        known = ~np.isnan(targets)
        y = np.where(known, targets, 0.0).astype(np.float64)
        widths = [b - a for a, b in groups]
        known_inputs = np.repeat(present, widths, axis=1)
        input_mean = (x * known_inputs).sum(axis=0) / np.maximum(known_inputs.sum(axis=0), 1)
        target_mean = y.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        x = np.where(known_inputs, x - input_mean, 0.0)
        y = np.where(known, y - target_mean, 0.0)
        pairs = present.astype(np.float64)
        both = np.repeat(np.repeat(pairs.T @ pairs, widths, axis=0), widths, axis=1)
        covariance = (x.T @ x) / np.maximum(both, 1)
        alone, known_targets = both < 2, known.astype(np.float64)
        together = np.repeat(pairs.T @ known_targets, widths, axis=0)
        cross = (x.T @ y) / np.maximum(together, 1)
        if alone.any():
            # Groups that no row has together meet only through what both say of the targets.
            spread = np.maximum(known_targets.T @ known_targets, 1)
            through = cross @ np.linalg.pinv((y.T @ y) / spread, hermitian=True) @ cross.T
            covariance = np.where(alone, through, covariance)
        if not present.all():  # else it is a covariance already
            covariance = _nearest_semidefinite(covariance)
        return cls(covariance, cross, input_mean, target_mean, groups)


def ridge_predict(
    moments: Moments,
    inputs: Float[np.ndarray, "rows width"],
    present: Bool[np.ndarray, "rows groups"],
    penalties: Float[np.ndarray, " grid"],
    chosen: np.ndarray | None = None,
) -> Float[np.ndarray, "grid rows outputs"] | Float[np.ndarray, "rows outputs"]:
    """Return targets predicted with each penalty, or with each output's `chosen` penalty only.

    A penalty is relative: it is multiplied by the mean variance of the inputs. A row without any
    group gets the targets' mean.
    """
    outputs = moments.cross.shape[1]
    size = len(penalties) if chosen is None else 1
    predicted = np.broadcast_to(moments.target_mean, (size, len(inputs), outputs)).copy()
    for pattern, rows in patterns_of(present):
        if not pattern.any():
            continue
        chosen_groups = (g for g, has in zip(moments.groups, pattern, strict=True) if has)
        columns = np.concatenate([np.arange(*group) for group in chosen_groups])
        values, vectors, unit = spectrum(moments.covariance[np.ix_(columns, columns)])
        turned = vectors.T @ moments.cross[columns]
        x = (inputs[np.ix_(rows, columns)] - moments.input_mean[columns]) @ vectors
        tried = penalties if chosen is None else [penalties[chosen]]
        for k, penalty in enumerate(tried):
            predicted[k, rows] += x @ (turned / (values[:, None] + unit * penalty))
    return predicted if chosen is None else predicted[0]


def spectrum(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return eigenvalues and eigenvectors, and the mean variance that penalties are relative to."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    return values, vectors, values.mean() if values.mean() > 0 else 1.0


def _nearest_semidefinite(matrix: np.ndarray) -> np.ndarray:
    """Return the matrix without negative directions: pairwise estimates need not fit together."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
