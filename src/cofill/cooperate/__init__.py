"""Split by view: codes → links → masks or a fusion (paper CRS), or cells on secret shares.

Names are imported when they are used: a run on shares needs no networks, and every site of it
starts a process of its own.
"""

from typing import TYPE_CHECKING

from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill.cooperate._defence import CodeDefence
    from cofill.cooperate._encode import encode_rows
    from cofill.cooperate._estimator import CooperativeReconstruction, fit_many
    from cofill.cooperate._masks import (
        MaskStatistics,
        equal_masks,
        masks_by_gradient,
        masks_by_iteration,
        masks_for_patterns,
        masks_in_closed_form,
    )
    from cofill.cooperate._private_estimator import PrivateCompletion
    from cofill.cooperate._private_protocol import PrivateProtocol
    from cofill.cooperate._protocol import CooperativeProtocol
    from cofill.cooperate._settings import ARCHITECTURES, Architecture, CooperativeSettings
    from cofill.cooperate._site import CooperativeSite

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "CodeDefence",
    "CooperativeProtocol",
    "CooperativeReconstruction",
    "CooperativeSettings",
    "CooperativeSite",
    "MaskStatistics",
    "PrivateCompletion",
    "PrivateProtocol",
    "encode_rows",
    "equal_masks",
    "fit_many",
    "masks_by_gradient",
    "masks_by_iteration",
    "masks_for_patterns",
    "masks_in_closed_form",
]

__getattr__, __dir__ = lazy_names(__name__)
