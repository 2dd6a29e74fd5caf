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
    site: CooperativeSite, cells: Float[np.ndarray, "rows features"], level: float
) -> tuple[Float[np.ndarray, "rows features"], Float[np.ndarray, "rows features"]]:
    """Return the ends of the intervals around numeric cells, from out-of-fold residuals.

    Coded cells, empty cells and features with too few known residuals get none (NaN).
    """
    scaler, residuals = site.fitted_scaler, site.model.residuals
    nothing = np.full(cells.shape, np.nan)
    columns = [(b.feature, b.start) for b in scaler.blocks if b.kind is Kind.NUMERIC]
    if residuals is None or not columns:
        return nothing, nothing.copy()
    features, places = (np.array(c) for c in zip(*columns, strict=True))
    radius = conformal_radius(residuals.absolute()[:, places], level)
    encoded = np.nan_to_num(scaler.encode(cells.astype(np.float64)))
    ends = []
    for sign in (-1, 1):
        moved = encoded.copy()
        moved[:, places] += sign * np.nan_to_num(radius)
        end = nothing.copy()
        end[:, features] = scaler.decode(moved)[:, features]
        end[:, features[np.isnan(radius)]] = np.nan
        end[np.isnan(cells)] = np.nan
        ends.append(end)
    return ends[0], ends[1]


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
