"""Which protocols can be run over the network, by the names that orders have for them."""

from __future__ import annotations

from cofill.network._by_row import Rounds
from cofill.network._by_view import Cooperation
from cofill.network._config import FederationConfig
from cofill.network._experiment import AbstractExperiment
from cofill.network._groups import Grouping
from cofill.network._means import Means
from cofill.network._order import RunOrder

__all__ = ["AbstractExperiment", "experiment_of"]

_EXPERIMENTS: dict[str, type[AbstractExperiment]] = {
    made.name: made for made in (Cooperation, Rounds, Grouping, Means)
}


def experiment_of(order: RunOrder, federation: FederationConfig) -> AbstractExperiment:
    """Return the experiment that an order names, or raise a `SettingError`."""
    return _EXPERIMENTS[order.experiment](order, federation)
