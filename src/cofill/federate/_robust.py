"""Means of updates that one hostile site cannot set: medians, trimmed means, bounds on norms.

A mean follows whoever sends the largest update. Coordinate by coordinate, a median or a mean
without the extremes lies between values that honest sites sent, as long as these are more than half
(Yin et al. 2018, https://arxiv.org/abs/1803.01498). Sites count alike then: rows are what a site
claims. All of it needs every site's own update, which a secure sum hides; there only a bound on
norms remains, which sites keep themselves, and of which the coordinator sees the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.errors import SettingError
from cofill.nets import require_above_zero, require_at_least, require_in
from cofill.privacy import clip_norm, require_one_of

RULES = ("mean", "median", "trimmed")


@dataclass(frozen=True)
class RobustMean:
    """How updates are combined where some sites may be hostile.

    Parameters
    ----------
    rule
        ``"mean"``, ``"median"`` of every number over the sites, or ``"trimmed"``: their mean
        without the lowest and the highest.
    trim
        Share of the sites that is left out at either end by ``"trimmed"``: at least that of
        hostile ones.
    norm
        Largest L2 norm of an update, to which longer ones are shortened; None for no bound.
    most_rows
        Most individuals that a site can have; one that claims more is left out and named. None for
        any number: with ``"mean"`` a site then weighs what it claims.

    Examples
    --------
    >>> updates = np.array([[1.0], [2.0], [3.0], [4.0], [900.0]])
    >>> RobustMean("median").combine(updates), RobustMean("trimmed").combine(updates)
    (array([3.]), array([3.]))
    """

    rule: str = "median"
    trim: float | int = 0.2
    norm: float | int | None = None
    most_rows: int | None = None

    def __post_init__(self) -> None:
        require_one_of("robust.rule", self.rule, RULES)
        require_in(self, "[0, 0.5)", "trim")
        require_above_zero(self, "norm")
        require_at_least(self, most_rows=1)
        if self.rule == "mean" and self.norm is None and self.most_rows is None:
            raise SettingError(
                "robust must have a norm or most_rows where its rule is 'mean': a plain mean "
                "bounds nobody"
            )

    @property
    def needs_updates(self) -> bool:
        """Whether every site's own update must be seen."""
        return self.rule != "mean"

    def bound(self, vector: Float[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
        """Return a vector no longer than the norm; one that is not finite stays, to be named."""
        if self.norm is None or not np.isfinite(vector).all():
            return vector
        return clip_norm(vector, self.norm)

    def combine(self, vectors: Float[np.ndarray, "sites size"]) -> Float[np.ndarray, " size"]:
        """Return the median or trimmed mean of each number over the sites."""
        if self.rule == "median":
            return np.median(vectors, axis=0)
        # Rounded up: of ten sites a trim of 0.25 leaves out three at either end.
        out = min(int(np.ceil(self.trim * len(vectors))), (len(vectors) - 1) // 2)
        return np.sort(vectors, axis=0)[out : len(vectors) - out].mean(axis=0)
