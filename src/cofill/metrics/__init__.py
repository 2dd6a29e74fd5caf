"""Scores of completions and groups, and the records results are kept in.

Everything is NumPy; scikit-learn and SciPy are loaded by the functions that need them.
"""

from cofill.metrics._clustering import ari, clustering_accuracy, mutual_information, nmi, purity
from cofill.metrics._images import packed_images, psnr, unpacked_images
from cofill.metrics._json import plain
from cofill.metrics._reconstruction import (
    accuracy,
    mrd,
    mrd_per_feature,
    mse,
    mse_per_feature,
    r2,
    r2_per_feature,
)
from cofill.metrics._record import ResultRecord, checked_key
from cofill.metrics._recorder import Recorder, machine, versions
from cofill.metrics._table import ResultTable

__all__ = [
    "Recorder",
    "ResultRecord",
    "ResultTable",
    "accuracy",
    "ari",
    "checked_key",
    "clustering_accuracy",
    "machine",
    "mrd",
    "mrd_per_feature",
    "mse",
    "mse_per_feature",
    "mutual_information",
    "nmi",
    "packed_images",
    "plain",
    "psnr",
    "purity",
    "r2",
    "r2_per_feature",
    "unpacked_images",
    "versions",
]
