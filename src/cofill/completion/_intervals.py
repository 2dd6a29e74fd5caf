"""Intervals for any method: split conformal prediction on rows that were known and hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from cofill.completion._completed import Completed
from cofill.errors import SettingError
from cofill.views import Kind, drop_rows

if TYPE_CHECKING:
    from cofill.completion._completer import AbstractCompleter


def with_intervals(
    completed: Completed,
    make: Callable[[], AbstractCompleter],
    *,
    level: float = 0.9,
    share: float = 0.2,
    key: int = 0,
) -> Completed:
    """Add intervals that hold a hidden cell's true value with probability `level`.

    A share of the known rows is hidden, the method is fitted without them, and the distance that
    `level` of their numeric cells keep from their prediction becomes the radius of the feature's
    intervals (Vovk et al., split conformal prediction). The guarantee is marginal and needs the
    missing rows to be exchangeable with the known ones. A feature gets no interval where too few
    rows are known to give one at this level.
    """
    if not 0 < level < 1:
        raise SettingError(f"level must be between 0 and 1, got {level}")
    views = completed.source
    holed, hidden = drop_rows(views, share, key=key)
    guess = make().fit_complete(holed)
    lower, upper = {}, {}
    for name, view in views.items():
        actual, predicted = guess.beside(views, name, hidden[name])
        radius = conformal_radius(np.abs(actual - predicted).astype(np.float64), level)
        numeric = np.array([f.kind is Kind.NUMERIC for f in view.features])
        radius = np.where(numeric, radius, np.nan)
        lower[name] = completed.cells[name] - radius
        upper[name] = completed.cells[name] + radius
    return Completed.merge(
        views,
        completed.cells,
        method=completed.method,
        lower=lower,
        upper=upper,
        notes=completed.notes,
    )


def conformal_radius(residuals: Float[np.ndarray, "n d"], level: float) -> Float[np.ndarray, " d"]:
    """Return, per column, the ⌈(n + 1) · level⌉-th smallest absolute residual.

    NaN residuals (cells not known) are left out; NaN is returned where n is too small.

    Examples
    --------
    >>> conformal_radius(np.array([[0.0], [1.0], [2.0], [3.0]]), 0.75)
    array([3.])
    >>> conformal_radius(np.array([[0.0], [1.0]]), 0.9)
    array([nan])
    """
    ordered = np.sort(residuals, axis=0)  # NaN last
    known = (~np.isnan(residuals)).sum(axis=0)
    rank = np.ceil((known + 1) * level).astype(int)
    enough = (rank <= known) & (known > 0)
    at = np.where(enough, rank - 1, 0)
    picked = ordered[at, np.arange(ordered.shape[1])] if len(ordered) else np.nan
    return np.where(enough, picked, np.nan)
