"""Complete the records that organisations may not show each other, and measure what leaks.

Names are imported when they are used, so that ``import cofill`` costs nothing: JAX and
scikit-learn are loaded by the first fit.
"""

from typing import TYPE_CHECKING

from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill.attack import (
        NNPU,
        UPU,
        Discriminant,
        GrowPU,
        Likelihood,
        MultiClass,
        Noise,
        SelfTraining,
        estimate_share,
    )
    from cofill.audit import Audit, audit_codes, audit_mean, audit_run, audit_update
    from cofill.cluster import DeepClustering, FederatedKMeans, MultiViewClustering
    from cofill.completion import Completed, evaluate, load_model, make, methods, rubin
    from cofill.cooperate import CooperativeReconstruction, PrivateCompletion
    from cofill.federate import FederatedCompletion
    from cofill.impute import (
        CentralCompleter,
        Imputer,
        IterativeCompleter,
        MeanCompleter,
        NeighboursCompleter,
        PooledCompleter,
    )
    from cofill.metrics import ResultRecord
    from cofill.views import (
        Dataset,
        Feature,
        Kind,
        MultiView,
        View,
        by_row,
        drop_rows,
        load,
        read_views,
    )

__version__ = "0.1.0"

__all__ = [
    "NNPU",
    "UPU",
    "Audit",
    "CentralCompleter",
    "Completed",
    "CooperativeReconstruction",
    "Dataset",
    "DeepClustering",
    "Discriminant",
    "Feature",
    "FederatedCompletion",
    "FederatedKMeans",
    "GrowPU",
    "Imputer",
    "IterativeCompleter",
    "Kind",
    "Likelihood",
    "MeanCompleter",
    "MultiClass",
    "MultiView",
    "MultiViewClustering",
    "NeighboursCompleter",
    "Noise",
    "PooledCompleter",
    "PrivateCompletion",
    "ResultRecord",
    "SelfTraining",
    "View",
    "audit_codes",
    "audit_mean",
    "audit_run",
    "audit_update",
    "by_row",
    "drop_rows",
    "estimate_share",
    "evaluate",
    "load",
    "load_model",
    "make",
    "methods",
    "read_views",
    "rubin",
]

__getattr__, __dir__ = lazy_names(__name__)
