"""Complete the records that organisations may not show each other, and measure what leaks.

Names are imported when they are used, so that ``import cofill`` costs nothing: JAX and
scikit-learn are loaded by the first fit.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cofill.attack import (
        NNPU,
        UPU,
        Discriminant,
        GrowPU,
        Likelihood,
        Noise,
        SelfTraining,
    )
    from cofill.baselines import (
        CentralCompleter,
        IterativeCompleter,
        MeanCompleter,
        NeighboursCompleter,
    )
    from cofill.completion import Completed, evaluate, make, methods
    from cofill.cooperate import CooperativeReconstruction
    from cofill.metrics import ResultRecord
    from cofill.views import (
        Dataset,
        Feature,
        Kind,
        MultiView,
        View,
        drop_rows,
        load,
        read_views,
    )

__version__ = "0.1.0"

__all__ = [
    "NNPU",
    "UPU",
    "CentralCompleter",
    "Completed",
    "CooperativeReconstruction",
    "Dataset",
    "Discriminant",
    "Feature",
    "GrowPU",
    "IterativeCompleter",
    "Kind",
    "Likelihood",
    "MeanCompleter",
    "MultiView",
    "NeighboursCompleter",
    "Noise",
    "ResultRecord",
    "SelfTraining",
    "View",
    "drop_rows",
    "evaluate",
    "load",
    "make",
    "methods",
    "read_views",
]

_PLACES = {
    "cofill.attack": (
        "NNPU",
        "UPU",
        "Discriminant",
        "GrowPU",
        "Likelihood",
        "Noise",
        "SelfTraining",
    ),
    "cofill.baselines": (
        "CentralCompleter",
        "IterativeCompleter",
        "MeanCompleter",
        "NeighboursCompleter",
    ),
    "cofill.completion": ("Completed", "evaluate", "make", "methods"),
    "cofill.cooperate": ("CooperativeReconstruction",),
    "cofill.metrics": ("ResultRecord",),
    "cofill.views": (
        "Dataset",
        "Feature",
        "Kind",
        "MultiView",
        "View",
        "drop_rows",
        "load",
        "read_views",
    ),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'cofill' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
