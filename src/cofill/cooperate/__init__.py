"""Split by view: autoencoder codes → links → masks or a fusion (paper CRS)."""

from cofill.cooperate._defence import CodeDefence
from cofill.cooperate._estimator import CooperativeReconstruction, fit_many
from cofill.cooperate._masks import (
    MaskStatistics,
    by_gradient,
    by_iteration,
    closed_form,
    closed_forms,
    equal_weights,
)
from cofill.cooperate._settings import ARCHITECTURES, Architecture, CooperativeSettings

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "CodeDefence",
    "CooperativeReconstruction",
    "CooperativeSettings",
    "MaskStatistics",
    "by_gradient",
    "by_iteration",
    "closed_form",
    "closed_forms",
    "equal_weights",
    "fit_many",
]
