"""Networks, losses and the training engine, batched over networks, sites and seeds."""

from cofill.nets._engine import (
    Batch,
    State,
    Trainer,
    advance,
    descend,
    make_optimizer,
    repeat_passes,
    shuffle_rows,
    start_training,
)
from cofill.nets._flat import flatten_network, form_of
from cofill.nets._fusion import Fusion, FusionProblem
from cofill.nets._fusion_fit import FusionSettings, fit_fusions, refine_fusions
from cofill.nets._grid import GridNet, Layout, gather_neighbours, layout_of
from cofill.nets._linear import Moments
from cofill.nets._losses import Block, CellLoss, SquaredError, loss_blocks
from cofill.nets._networks import MLP, Autoencoder, OpposedEncoder, apply_rows, forward, recipe
from cofill.nets._private import sample_capacity
from cofill.nets._settings import DPSettings, TrainSettings
from cofill.nets._tasks import Task, round_up, split_keys
from cofill.nets._train import Trained, train
from cofill.nets._unet import UNet, gather_squares, spread_squares
from cofill.settings import require_above_zero, require_at_least, require_in

__all__ = [
    "MLP",
    "Autoencoder",
    "Batch",
    "Block",
    "CellLoss",
    "DPSettings",
    "Fusion",
    "FusionProblem",
    "FusionSettings",
    "GridNet",
    "Layout",
    "Moments",
    "OpposedEncoder",
    "SquaredError",
    "State",
    "Task",
    "TrainSettings",
    "Trained",
    "Trainer",
    "UNet",
    "advance",
    "apply_rows",
    "descend",
    "fit_fusions",
    "flatten_network",
    "form_of",
    "forward",
    "gather_neighbours",
    "gather_squares",
    "layout_of",
    "loss_blocks",
    "make_optimizer",
    "recipe",
    "refine_fusions",
    "repeat_passes",
    "require_above_zero",
    "require_at_least",
    "require_in",
    "round_up",
    "sample_capacity",
    "shuffle_rows",
    "split_keys",
    "spread_squares",
    "start_training",
    "train",
]
