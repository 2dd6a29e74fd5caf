"""The experiments by name: data, repeats, protocol, and what the paper printed.

Those on released means are in `_mean_experiments`. Figures here are those of Maurel, Lefebvre and
Sublime, "Deep Cooperative Reconstruction with Security Constraints in multi-view environments"
(ICDMW 2020): Tables II and III and section VI. Its Figures 6 and 9 survive as pictures only, so
errors and differences stand beside the statements of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar

from cofill.errors import SettingError
from cofill.metrics import ResultRecord
from cofill.views import Dataset, load
from cofill_papers._crs import Observe, Repeat, hidden_rows, split_individuals
from cofill_papers._fed_experiments import FED_EXPERIMENTS, FedExperiment
from cofill_papers._leak_experiments import LEAK_EXPERIMENTS, LeakExperiment
from cofill_papers._mean_experiments import MEAN_EXPERIMENTS, MeanExperiment
from cofill_papers._observations import cube_masks, digit_pictures, noise_is_flagged, subtypes
from cofill_papers._pictures import pictures

__all__ = ["AnyExperiment", "Experiment", "experiments", "find_experiment"]


_TABLES = {
    "Reconstruction (standardised units; MSE 1 is as good as the mean)": ("mse", "mrd"),
    "Binary and categorical cells": ("accuracy",),
    "Classification by the paper's random forest (fractions)": ("rf", "class_diff"),
    "Individuals without a protein row, classified": ("rf_missing", "rf_missing_joint"),
    "Masks": ("mask_shared", "mask_nonshared"),
    "Noise": ("informative_auc", "probes_flagged", "informative_flagged"),
    "Cells left open (scored as the training mean)": ("left_open",),
}
"""Titles of the tables of a record, with the metrics of each."""


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Parameters
    ----------
    name, description
        What it is called and what it shows.
    repeats
        How often the paper ran it; ours for the data sets the paper does not have.
    load
        ``seed → data set``; called once with the first seed unless `fresh`.
    architecture
        Column of Table I for the paper's networks.
    published
        The paper's figures by ``"<method>/<metric>/<where>"``.
    largest_published
        The paper's largest absolute Classification Difference with masks, a fraction.
    prepare, protocol
        ``(data set, seed) → Repeat``, and the same in words.
    chunk
        Repeats that are trained as one batch, bounded by memory.
    masks
        How the paper's system finds its masks here.
    fresh
        Whether the data are drawn anew in every repeat.
    observe
        What else is looked at.
    """

    name: str
    description: str
    repeats: int
    load: Callable[[int], Dataset]
    architecture: str
    published: Mapping[str, Any] = field(default_factory=dict)
    largest_published: float | None = None
    prepare: Callable[[Dataset, int], Repeat] = split_individuals
    protocol: str = "90/10 split of the individuals; everything is fitted on the 90"
    chunk: int = 10
    masks: str = "closed"
    fresh: bool = False
    observe: Sequence[Observe] = ()
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _TABLES

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        """Return the pictures of a record by name."""
        return pictures(record)

    def draw_data(self) -> dict[str, str]:
        """Return no pictures: the data are shown elsewhere."""
        return {}


AnyExperiment = Experiment | MeanExperiment | FedExperiment | LeakExperiment


def experiments() -> tuple[AnyExperiment, ...]:
    """Return every experiment: on reconstruction, released means, rows at many sites, codes.

    Examples
    --------
    >>> [e.name for e in experiments()][:6]
    ['cube', 'wdbc', 'mfdd', 'madelon', 'tcga', 'credit']
    >>> [e.name for e in experiments()][6:11]
    ['growpu-mnist', 'growpu-behaviour', 'growpu-classifiers', 'growpu-subset', 'nnpu-table1']
    >>> [e.name for e in experiments()][11:]
    ['fed-vigan', 'fed-vigan-clusters', 'fed-noniid', 'leak-codes', 'leak-bound']
    """
    return tuple(_EXPERIMENTS.values())


def find_experiment(name: str) -> AnyExperiment:
    """Return an experiment, or raise a `SettingError` with the nearest name."""
    if name not in _EXPERIMENTS:
        close = get_close_matches(name, _EXPERIMENTS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(_EXPERIMENTS)}"
        raise SettingError(f"there is no experiment {name!r}; {hint}")
    return _EXPERIMENTS[name]


def _any_seed(name: str, seed: int) -> Dataset:
    return load(name)


def _cube(seed: int) -> Dataset:
    return load("cube", key=seed)


_EXPERIMENTS: dict[str, AnyExperiment] = {
    e.name: e
    for e in (
        Experiment(
            "cube",
            "four clusters seen along each axis: the masks find the shared coordinates (Table III)",
            50,
            _cube,
            "cube",
            {
                "original/rf/all": 0.733,
                "mwm/mask_shared/all": (0.920, 0.026),
                "mwm/mask_nonshared/all": (0.143, 0.034),
            },
            largest_published=0.075,
            chunk=25,
            masks="gradient",
            fresh=True,
            observe=(cube_masks,),
        ),
        Experiment(
            "wdbc",
            "breast masses in three views: reconstruction and classification",
            50,
            partial(_any_seed, "wdbc"),
            "wdbc",
            {"original/rf/all": 0.909},
            largest_published=0.075,
        ),
        Experiment(
            "mfdd",
            "handwritten digits by six feature sets: reconstruction, pictures, classification",
            20,
            partial(_any_seed, "mfdd"),
            "mfdd",
            {"original/rf/all": 0.884},
            largest_published=0.075,
            chunk=20,
            observe=(digit_pictures,),
        ),
        Experiment(
            "madelon",
            "twenty informative features among 480 probes: noise is not reconstructed but flagged",
            10,
            partial(_any_seed, "madelon"),
            "madelon",
            {"original/rf/all": 0.606, "mwm/mse/all": "≈ 1", "mwm/mrd/all": "≈ 1"},
            chunk=10,
            observe=(noise_is_flagged,),
        ),
        Experiment(
            "tcga",
            "breast cancers whose protein row is really missing for 70 of 220 (not in the paper)",
            10,
            partial(_any_seed, "tcga_brca"),
            "mfdd",
            prepare=partial(hidden_rows, names=["protein"], classify=True),
            protocol="10 % of the known protein rows hidden; everything is fitted on the rest",
            chunk=5,
            observe=(subtypes,),
        ),
        Experiment(
            "credit",
            "30,000 credit card clients with numbers and categories (not in the paper)",
            5,
            partial(_any_seed, "credit"),
            "wdbc",
            prepare=hidden_rows,
            protocol="10 % of the rows of each view hidden; everything is fitted on the rest",
            chunk=1,
        ),
        *MEAN_EXPERIMENTS,
        *FED_EXPERIMENTS,
        *LEAK_EXPERIMENTS,
    )
}
