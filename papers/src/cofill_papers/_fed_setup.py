"""What the experiments on rows at many sites share: the data, who holds what, which model.

60,000 digits and their edges make 30,000 pairs, 15,000 images alone and 15,000 edges alone, dealt
evenly to ten sites (section 4.1 of the thesis). Quick runs take 8 × 8 digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cofill.federate import FederatedCompletion, LocalSettings, RoundSettings
from cofill.views import MultiView, by_row_paired, load, pair_up

__all__ = ["FedData", "data_of", "estimator_of", "held_by"]


@dataclass(frozen=True, eq=False)
class FedData:
    """The data of an experiment: training and test views, labels of the former, how many pairs."""

    train: MultiView
    test: MultiView
    labels: np.ndarray
    pairs: int
    singles: int
    rounds: int
    small: bool


@lru_cache(maxsize=1)
def data_of(quick: bool) -> FedData:
    if not quick:
        train, test = load("mnist", part="train"), load("mnist", part="test")
        labels = np.asarray(train.labels)
        return FedData(train.views, test.views, labels, 30_000, 15_000, 40, small=False)
    digits = load("digits")
    order = np.random.default_rng(0).permutation(digits.views.n_individuals)
    train_rows = np.sort(order[:1500])
    test_rows = np.sort(order[1500:])
    labels = np.asarray(digits.labels)[train_rows]
    return FedData(
        digits.views.take(train_rows),
        digits.views.take(test_rows),
        labels,
        750,
        375,
        12,
        small=True,
    )


def held_by(method: str, data: FedData, seed: int) -> dict[str, MultiView]:
    """Return who holds what: ten sites, everything in one place, or the fifth site alone."""
    counts: dict[str, Any] = {
        "paired": data.pairs,
        "only": {"image": data.singles, "edge": data.singles},
        "key": seed,
    }
    if method.startswith("central"):
        return {"all": pair_up(data.train, **counts)}
    sites = by_row_paired(data.train, 10, **counts)
    return {"site_05": sites["site_05"]} if method.startswith("local") else sites


def estimator_of(method: str, data: FedData, seed: int) -> FederatedCompletion:
    """Return the model of a method with its settings."""
    if method.endswith("best"):
        settings = RoundSettings(rounds=data.rounds, secure=False)
        if not data.small:
            return FederatedCompletion(effort="normal", settings=settings, seed=seed)
        # Twelve rounds of few small images are too short for the default network. One place takes
        # ten sites' pairs an epoch, hence larger batches and moments that stay.
        central = method.startswith("central")
        local = LocalSettings(
            batch=16 if central else 8, learning_rate=3e-3, moments="keep" if central else "reset"
        )
        return FederatedCompletion(
            network={"patch": 2, "width": 64, "blocks": 3, "shift": 0},
            strategy={"name": "fedavg", "momentum": 0.0},
            local=local,
            settings=settings,
            seed=seed,
        )
    pretrain = {"autoencoder": 5, "cycle": 2} if data.small else {"autoencoder": 20, "cycle": 5}
    # One place takes the batches of ten sites at a step: epochs have as many steps as at a site.
    batch = 40 if method.startswith("central") else 4
    return FederatedCompletion(
        model="pix2pix" if "pix2pix" in method else "vigan",
        local=LocalSettings(
            batch=16 if data.small else batch,
            learning_rate=1e-3,
            first_moment=0.5,
            moments="reset",
        ),
        settings=RoundSettings(rounds=data.rounds, pretrain=pretrain, secure=False),
        strategy="fedavg",
        seed=seed,
    )
