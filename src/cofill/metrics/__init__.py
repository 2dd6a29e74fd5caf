"""Scores of completions, groups and classifiers, and the records results are kept in.

Everything is NumPy; scikit-learn and SciPy are loaded by the functions that need them.
"""

from cofill.metrics._categorical import accuracy, brier, log_loss
from cofill.metrics._classification import (
    ClassificationDifference,
    classification_difference,
    paper_forest,
)
from cofill.metrics._clustering import ari, clustering_accuracy, mutual_information, nmi, purity
from cofill.metrics._images import mse255, psnr, psnr_per_image, ssim, ssim_per_image
from cofill.metrics._join import joined
from cofill.metrics._json import plain
from cofill.metrics._machine import machine, versions
from cofill.metrics._paired import PairedTest, paired_test
from cofill.metrics._pixels import packed_images, unpacked_images
from cofill.metrics._reconstruction import (
    mae,
    mae_per_feature,
    mrd,
    mrd_excluded,
    mrd_per_feature,
    mse,
    mse_per_feature,
    r2,
    r2_per_feature,
    rmse,
    rmse_per_feature,
)
from cofill.metrics._record import ResultRecord, Summary
from cofill.metrics._recorder import Recorder
from cofill.metrics._table import ResultTable, table

__all__ = [
    "ClassificationDifference",
    "PairedTest",
    "Recorder",
    "ResultRecord",
    "ResultTable",
    "Summary",
    "accuracy",
    "ari",
    "brier",
    "classification_difference",
    "clustering_accuracy",
    "joined",
    "log_loss",
    "machine",
    "mae",
    "mae_per_feature",
    "mrd",
    "mrd_excluded",
    "mrd_per_feature",
    "mse",
    "mse255",
    "mse_per_feature",
    "mutual_information",
    "nmi",
    "packed_images",
    "paired_test",
    "paper_forest",
    "plain",
    "psnr",
    "psnr_per_image",
    "purity",
    "r2",
    "r2_per_feature",
    "rmse",
    "rmse_per_feature",
    "ssim",
    "ssim_per_image",
    "table",
    "unpacked_images",
    "versions",
]
