"""Networks, losses and the one training loop, batched over networks, sites and seeds."""

from cofill.nets._adversary import OpposedEncoder
from cofill.nets._forward import forward
from cofill.nets._fusion import Fusion, FusionProblem
from cofill.nets._fusion_fit import fit_fusions, refine_fusions
from cofill.nets._fusion_settings import FusionSettings
from cofill.nets._grid import DetailNet, GridNet, Layout, layout_of
from cofill.nets._group_dropout import GroupDropout, Grouped
from cofill.nets._linear import Moments, patterns_of, side_by_side
from cofill.nets._losses import (
    BatchLoss,
    Block,
    CellLoss,
    SquaredError,
    expectations,
    loss_blocks,
)
from cofill.nets._networks import MLP, AbstractNetwork, Autoencoder, Recipe, apply_rows, recipe
from cofill.nets._settings import DPSettings, TrainSettings
from cofill.nets._store import load, load_arrays, read_metadata, save
from cofill.nets._tasks import Task, split_keys
from cofill.nets._train import Trained, train

__all__ = [
    "MLP",
    "AbstractNetwork",
    "Autoencoder",
    "BatchLoss",
    "Block",
    "CellLoss",
    "DPSettings",
    "DetailNet",
    "Fusion",
    "FusionProblem",
    "FusionSettings",
    "GridNet",
    "GroupDropout",
    "Grouped",
    "Layout",
    "Moments",
    "OpposedEncoder",
    "Recipe",
    "SquaredError",
    "Task",
    "TrainSettings",
    "Trained",
    "apply_rows",
    "expectations",
    "fit_fusions",
    "forward",
    "layout_of",
    "load",
    "load_arrays",
    "loss_blocks",
    "patterns_of",
    "read_metadata",
    "recipe",
    "refine_fusions",
    "save",
    "side_by_side",
    "split_keys",
    "train",
]
