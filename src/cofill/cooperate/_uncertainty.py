"""How sure a site is of what it reconstructed: intervals, and draws for multiple imputation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from cofill.completion import conformal_radius
from cofill.cooperate._site import Answer, CooperativeSite
from cofill.views import Kind

__all__ = ["drawn_answer", "interval_ends"]


def interval_ends(
    site: CooperativeSite, expected: Float[np.ndarray, "rows width"], level: float
) -> tuple[Float[np.ndarray, "rows features"], Float[np.ndarray, "rows features"]]:
    """Return the ends of the intervals around what a site expects, from out-of-fold residuals.

    The intervals lie around the expected number itself, not around the rounded or clipped cell
    that is filled in: the residuals are of those. Around whole numbers the ends are the first
    and the last whole number inside. Coded cells, empty cells and features with too few known
    residuals get none (NaN).
    """
    scaler, residuals = site.fitted_scaler, site.model.residuals
    nothing = np.full((len(expected), len(scaler.features)), np.nan)
    columns = [(b.feature, b.start) for b in scaler.blocks if b.kind is Kind.NUMERIC]
    if residuals is None or not columns:
        return nothing, nothing.copy()
    features, places = (np.array(c) for c in zip(*columns, strict=True))
    radius = conformal_radius(residuals.absolute()[:, places], level)
    whole = np.array([scaler.features[k].is_integer for k in features])
    ends = []
    for sign, inwards in ((-1, np.ceil), (1, np.floor)):
        moved = np.array(expected, dtype=np.float64)
        moved[:, places] += sign * radius
        end = nothing.copy()
        end[:, features] = scaler.decode(moved, whole=False)[:, features]
        end[:, features[whole]] = inwards(end[:, features[whole]])
        ends.append(end)
    lower, upper = ends
    none = lower > upper  # no whole number lies inside: the nearest one it is
    nearest = scaler.decode(np.nan_to_num(np.asarray(expected, dtype=np.float64)))
    return np.where(none, nearest, lower), np.where(none, nearest, upper)


def drawn_answer(site: CooperativeSite, answer: Answer, rng: np.random.Generator) -> Answer:
    """Return one draw of what a site's answer could be."""
    residuals = site.model.residuals
    if residuals is None or not len(answer.tokens):
        return answer
    expected = answer.expected.copy()
    noise = residuals.draw(rng, len(expected))
    for block in site.fitted_scaler.blocks:
        part = slice(block.start, block.stop)
        if block.kind is Kind.NUMERIC:
            expected[:, part] += noise[:, part]
        elif block.kind is Kind.BINARY:
            expected[:, part] = rng.random((len(expected), 1)) < expected[:, part]
        else:
            ends = np.cumsum(expected[:, part], axis=1)
            at = (rng.random((len(expected), 1)) * ends[:, -1:] > ends).sum(axis=1)
            expected[:, part] = np.eye(block.stop - block.start)[at]
    return replace(answer, expected=expected)
