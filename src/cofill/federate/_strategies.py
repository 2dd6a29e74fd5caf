"""How a coordinator makes one model of many sites' updates.

A strategy is two pure functions over explicit state: ``init(weights)`` and ``apply(state, weights,
mean)``, where ``mean`` holds the weighted means over sites of what they sent. No strategy sees one
site's update alone, so each works with secure aggregation. What a strategy changes at the sites
(the pull of FedProx, the controls of SCAFFOLD) it says in ``proximal`` and ``controls``.

- FedAvg: McMahan et al. 2017; without weights by rows it is Eq. 2.1 of the thesis.
- FedProx: Li et al. 2020. FedAdam, FedYogi: Reddi et al. 2021. SCAFFOLD: Karimireddy et al. 2020.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.nets import require_above_zero, require_at_least, require_in
from cofill.registry import Registry
from cofill.settings import typed_settings

Vector = Float[np.ndarray, " P"]
Means = Mapping[str, Vector]
State = dict[str, np.ndarray]
Applied = tuple[State, Vector]


class AbstractStrategy(ABC):
    """Turns mean updates into new weights. Concrete strategies are frozen dataclasses."""

    name: ClassVar[str]
    by_rows: bool
    proximal: float | int = 0.0
    controls: ClassVar[bool] = False

    def init(self, weights: Vector) -> State:
        """Return the state before the first round."""
        return {}

    @abstractmethod
    def apply(self, state: State, weights: Vector, mean: Means, share: float) -> Applied:
        """Return new state and weights.

        ``mean["change"]`` is the mean change of weights over the sites that answered, by rows where
        `by_rows`; ``share`` is the part of all sites that answered.
        """


@dataclass(frozen=True)
class FedAvg(AbstractStrategy):
    """The mean of the sites' weights; for images with a momentum over rounds (FedAvgM).

    Parameters
    ----------
    by_rows
        Weigh sites by their rows; the thesis's Eq. 2.1 does not.
    momentum
        β of Nesterov's momentum over rounds (Hsu et al. 2019); None for what suits the model,
        which is 0 for most.

    Examples
    --------
    >>> FedAvg().apply({}, np.zeros(2), {"change": np.array([1.0, -2.0])}, 1.0)[1]
    array([ 1., -2.])
    """

    name: ClassVar[str] = "fedavg"
    by_rows: bool = True
    momentum: float | int | None = None

    def __post_init__(self) -> None:
        if self.momentum is not None:
            require_in(self, "[0, 1)", "momentum")

    def apply(self, state: State, weights: Vector, mean: Means, share: float) -> Applied:
        """Add the mean change, and what those before it left of their speed."""
        change, beta = mean["change"], self.momentum
        if not beta:
            return state, weights + change
        speed = beta * state.get("speed", np.zeros_like(weights)) + change
        return {"speed": speed}, (weights + change + beta * speed).astype(weights.dtype)


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose sites are pulled towards the weights that the round began with.

    Parameters
    ----------
    proximal
        μ; 0 is FedAvg. The pull is added to the loss as it is, so that the same μ weighs more where
        losses are small; try less there.
    """

    name: ClassVar[str] = "fedprox"
    proximal: float | int = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, proximal=0)


@dataclass(frozen=True)
class FedAdam(AbstractStrategy):
    """Adam at the coordinator, with the mean change as its gradient (Reddi et al., Alg. 2).

    Parameters
    ----------
    by_rows
        Weigh sites by their rows.
    learning_rate, tau
        The coordinator's step, and what is added to the root of the second moment.
    first, second
        β₁ and β₂.
    """

    name: ClassVar[str] = "fedadam"
    by_rows: bool = True
    learning_rate: float | int = 0.01
    first: float | int = 0.9
    second: float | int = 0.99
    tau: float | int = 1e-3

    def __post_init__(self) -> None:
        require_above_zero(self, "learning_rate", "tau")
        require_in(self, "[0, 1)", "first", "second")

    def init(self, weights: Vector) -> State:
        return {"m": np.zeros_like(weights), "v": np.full_like(weights, self.tau**2)}

    def apply(self, state: State, weights: Vector, mean: Means, share: float) -> Applied:
        """Step by the moments of the mean change."""
        change = mean["change"]
        m = self.first * state["m"] + (1 - self.first) * change
        v = self._second_moment(state["v"], change**2)
        step = self.learning_rate * m / (np.sqrt(v) + self.tau)
        return {"m": m, "v": v}, (weights + step).astype(weights.dtype)

    def _second_moment(self, v: Vector, square: Vector) -> Vector:
        return self.second * v + (1 - self.second) * square


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """Yogi at the coordinator: the second moment grows and shrinks by bounded steps."""

    name: ClassVar[str] = "fedyogi"

    def _second_moment(self, v: Vector, square: Vector) -> Vector:
        return v - (1 - self.second) * square * np.sign(v - square)


@dataclass(frozen=True)
class Scaffold(AbstractStrategy):
    """Control variates against the drift of sites whose data differ; for plain steps ("sgd").

    Every site keeps a control cᵢ, the coordinator their mean c; a site's steps follow its gradient
    − cᵢ + c, and afterwards cᵢ becomes cᵢ − c + (x − yᵢ) / (steps · η) (option II of Alg. 1).

    Parameters
    ----------
    by_rows
        Weigh the change of weights by rows; controls count alike.
    learning_rate
        The coordinator's step along the mean change.
    """

    name: ClassVar[str] = "scaffold"
    controls: ClassVar[bool] = True
    by_rows: bool = True
    learning_rate: float | int = 1.0

    def init(self, weights: Vector) -> State:
        """Return the mean control before the first round."""
        return {"control": np.zeros_like(weights)}

    def apply(self, state: State, weights: Vector, mean: Means, share: float) -> Applied:
        """Step along the mean change and move the mean control."""
        control = state["control"] + share * mean["control"]
        moved = weights + self.learning_rate * mean["change"]
        return {"control": control.astype(weights.dtype)}, moved.astype(weights.dtype)


STRATEGIES = Registry("cofill.strategies", "strategy")
"""Strategies by name: subclasses of `AbstractStrategy`."""

for _strategy in (FedAvg, FedProx, FedAdam, FedYogi, Scaffold):
    STRATEGIES.add(_strategy.name, _strategy, (_strategy.__doc__ or "").partition("\n")[0])


def make_strategy(
    strategy: str | Mapping[str, Any] | AbstractStrategy, **settings: Any
) -> AbstractStrategy:
    """Return a strategy by its name, by a mapping of its name and settings, or itself.

    Examples
    --------
    >>> make_strategy("fedprox", proximal=0.1)
    FedProx(by_rows=True, momentum=None, proximal=0.1)
    >>> make_strategy({"name": "fedavg", "by_rows": False})
    FedAvg(by_rows=False, momentum=None)
    """
    if isinstance(strategy, AbstractStrategy):
        return strategy
    if isinstance(strategy, Mapping):
        settings = {name: value for name, value in strategy.items() if name != "name"}
        strategy = str(strategy.get("name"))
    strategy_class = STRATEGIES.load(strategy)
    return strategy_class(**typed_settings(f"strategy {strategy!r}", strategy_class, settings))
