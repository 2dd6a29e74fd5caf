"""Update inversion: the rows behind a site's weight change.

Threat model: the coordinator (or whoever reads the updates), who knows the model before the round
and how sites train, reconstructs the rows that a site trained on; with secure aggregation only the
mean of several sites' changes is seen.

For one row and one step a dense first layer gives the row away in closed form: with ``y = W x + b``
the gradient of W is δ xᵀ and that of b is δ, so their ratio is x, exactly. For more rows and steps
the rows are searched for, by the squared distance between changes (Zhu, Liu and Han 2019, "Deep
leakage from gradients"). Here the whole local training is differentiated, so that several steps and
a sum over sites are matched in the same way. All starts of all observed changes are optimised as
one batch.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment

from cofill.attack._leak import Leak, share_leak
from cofill.errors import DataError, SettingError
from cofill.nets import (
    Batch,
    SquaredError,
    Trainer,
    advance,
    make_optimizer,
    require_above_zero,
    require_at_least,
    start_training,
)
from cofill.privacy import require_one_of


@dataclass(frozen=True)
class LocalRound:
    """How a site trains in a round, which all parties know.

    Parameters
    ----------
    steps
        Of the optimiser.
    batch
        Rows a step, in the rows' order and from the start again; None for all of them.
    learning_rate
        Of plain or Adam's steps.
    optimizer
        ``"sgd"`` or ``"adam"``.
    loss
        As for `cofill.nets.train`: ``loss(network, inputs, targets, key)``.
    """

    steps: int = 1
    batch: int | None = None
    learning_rate: float | int = 0.1
    optimizer: str = "sgd"
    loss: Any = field(default_factory=SquaredError)

    def __post_init__(self) -> None:
        require_at_least(self, steps=1, batch=1)
        require_above_zero(self, "learning_rate")
        require_one_of("optimizer", self.optimizer, ("sgd", "adam"))

    def change(self, network: Any, rows: Float[Array, "n d"]) -> Float[Array, " size"]:
        """Return the change of all weights, as one vector, by training on rows."""
        arrays, rest = eqx.partition(network, eqx.is_inexact_array)
        start, unravel = ravel_pytree(arrays)
        # The small root keeps Adam's step differentiable where a gradient is zero.
        moves = (
            optax.sgd(self.learning_rate)
            if self.optimizer == "sgd"
            else optax.adam(self.learning_rate, eps_root=1e-12)
        )
        batch = len(rows) if self.batch is None else min(self.batch, len(rows))

        def loss(weights: Array, part: Array) -> Array:
            value = self.loss(eqx.combine(unravel(weights), rest), part, part, None)
            if isinstance(value, tuple):
                return value[0].sum() / jnp.maximum(value[1].sum(), 1)
            return value.mean()

        weights, moments = start, moves.init(start)
        for step in range(self.steps):
            part = rows[(np.arange(batch) + step * batch) % len(rows)]
            move: Any
            move, moments = moves.update(jax.grad(loss)(weights, part), moments)
            weights = weights + move
        return weights - start

    def mean_change(self, network: Any, rows: Float[Array, "sites n d"]) -> Float[Array, " size"]:
        """Return the mean of the changes of several sites."""
        return jax.vmap(lambda site_rows: self.change(network, site_rows))(rows).mean(axis=0)


@dataclass(frozen=True)
class MatchingSettings:
    """Settings of the search.

    Parameters
    ----------
    starts
        Random rows to begin with; those that match best in the end are kept.
    steps, learning_rate
        Of Adam; the rate falls to zero along a cosine.
    seed
        Of the starts.
    """

    starts: int = 8
    steps: int = 1500
    learning_rate: float | int = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, starts=1, steps=1)
        require_above_zero(self, "learning_rate")


_mean_change = eqx.filter_jit(LocalRound.mean_change)


def simulate_update(
    network: Any, rows: Float[np.ndarray, "sites n d"], local: LocalRound
) -> Float[np.ndarray, " size"]:
    """Return the mean change of the sites' weights: what secure aggregation reveals of them.

    Examples
    --------
    >>> from cofill.nets import MLP
    >>> network = MLP((3, 2, 3), key=jax.random.key(0))
    >>> simulate_update(network, np.ones((1, 4, 3)), LocalRound()).shape
    (17,)
    """
    return np.asarray(_mean_change(local, network, jax.device_put(np.asarray(rows, np.float32))))


def first_layer_row(
    weight: Float[np.ndarray, "units d"], bias: Float[np.ndarray, " units"]
) -> Float[np.ndarray, " d"]:
    """Return the row behind the changes of a dense first layer, exact for one row and one step.

    For several rows it is a mean of them, weighted by their errors.

    Examples
    --------
    >>> delta, row = np.array([0.5, -2.0]), np.array([3.0, 1.0, 4.0])
    >>> first_layer_row(np.outer(delta, row), delta)
    array([3., 1., 4.])
    """
    size = float(bias @ bias)
    if not size > 0:
        return np.zeros(weight.shape[1])
    return bias @ weight / size


def invert_updates(
    network: Any,
    changes: Any,
    rows: Any,
    *,
    local: LocalRound,
    public: Any = None,
    close: float | int = 0.1,
    settings: MatchingSettings | None = None,
) -> tuple[Leak, ...]:
    """Reconstruct rows from weight changes.

    The floor is the public mean row as every guess, the control rows drawn from `public`, as many
    as the attack may guess; the ceiling is every row.

    Parameters
    ----------
    network
        Before the round.
    changes
        Trials × weights: each a site's change, or the mean over several sites (`simulate_update`).
    rows
        Trials × sites × rows × features: the truth, for the judge. The attacker knows the numbers.
    local
        How sites train.
    public
        Rows of other people; draws of a standard normal distribution when left out.
    close
        A row is recovered when the root mean squared error of a guess, in units of each feature's
        deviation, is at most this. Each guess counts for one row.
    settings
        How to search.

    Examples
    --------
    >>> from cofill.nets import Autoencoder
    >>> network = Autoencoder((4, 3), key=jax.random.key(0), activation="tanh")
    >>> rows = np.random.default_rng(0).normal(size=(5, 1, 1, 4))
    >>> seen = np.stack([simulate_update(network, r, LocalRound()) for r in rows])
    >>> invert_updates(network, seen, rows, local=LocalRound())[0].attack
    1.0
    """
    settings = settings or MatchingSettings()
    truth, observed = _check_trials(network, changes, rows, close)
    trials, sites, count, features = truth.shape
    rng = np.random.default_rng([settings.seed, 0x6AD5])
    pool = rng.normal(size=(1000, features)) if public is None else np.asarray(public, np.float64)
    if pool.ndim != 2 or pool.shape[1] != features or not np.isfinite(pool).all():
        raise DataError(f"public must be finite rows of {features} features, got {pool.shape}")
    drawn = pool[rng.integers(len(pool), size=(trials, settings.starts, sites, count))]
    guesses = _guess_rows(network, observed, truth.shape, local, drawn, settings)
    deviation = pool.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    flat = (trials, sites * count, features)

    def errors_of(guesses: np.ndarray) -> Float[np.ndarray, "trials n"]:
        return _match_errors(guesses.reshape(flat) / scale, truth.reshape(flat) / scale)

    errors = errors_of(guesses)
    mean_row = np.broadcast_to(pool.mean(axis=0), flat)
    whose = "the rows of a site" if sites == 1 else f"rows from the mean of {sites} sites"
    leak = share_leak(
        int((errors <= close).sum()),
        errors.size,
        name=f"update inversion, {local.steps} steps, {count} rows, {sites} sites summed",
        threat="a coordinator who knows the model before the round and how sites train "
        f"reconstructs {whose}",
        scope="individual",
        sizes={"trials": trials, "sites": sites, "rows": errors.size},
        figure=f"share of rows recovered (RMSE ≤ {close:g})",
        floor=float((errors_of(mean_row) <= close).mean()),
        control=float((errors_of(drawn[:, 0]) <= close).mean()),
        ceiling=1.0,
        details={"median_rmse": float(np.median(errors))},
    )
    return (leak,)


def _check_trials(
    network: Any, changes: Any, rows: Any, close: float | int
) -> tuple[Float[np.ndarray, "trials sites n d"], Float[np.ndarray, "trials size"]]:
    truth, observed = np.asarray(rows, np.float64), np.asarray(changes, np.float64)
    size = ravel_pytree(eqx.filter(network, eqx.is_inexact_array))[0].size
    if truth.ndim != 4 or 0 in truth.shape:
        raise DataError(
            f"rows must be trials × sites × rows × features, none of them 0, got {truth.shape}"
        )
    if observed.shape != (len(truth), size):
        raise DataError(
            f"changes must be a vector of the network's {size} weights for each of the "
            f"{len(truth)} trials, got the shape {observed.shape}"
        )
    if not (np.isfinite(truth).all() and np.isfinite(observed).all()):
        raise DataError("changes and rows must be finite numbers, got some that are not")
    if not close > 0:
        raise SettingError(f"close must be above 0, got {close}")
    return truth, observed


def _guess_rows(
    network: Any,
    observed: np.ndarray,
    shape: tuple[int, ...],
    local: LocalRound,
    starts: Float[np.ndarray, "trials starts sites n d"],
    settings: MatchingSettings,
) -> np.ndarray:
    _, sites, count, _ = shape
    layer = getattr(network, "encoder", network)
    is_dense = hasattr(layer, "weights") and hasattr(layer, "biases")
    if sites * count == 1 and local.steps == 1 and local.optimizer == "sgd" and is_dense:
        arrays = eqx.filter(network, eqx.is_inexact_array)
        unravel = ravel_pytree(arrays)[1]
        guesses = []
        for change in observed:
            parts = unravel(jnp.asarray(change, jnp.float32))
            first = getattr(parts, "encoder", parts)
            layer_change = (np.asarray(a[0], np.float64) for a in (first.weights, first.biases))
            guesses.append(first_layer_row(*layer_change))
        return np.stack(guesses).reshape(shape)
    candidates, costs = _search(
        local,
        network,
        np.asarray(observed, np.float32),
        np.asarray(starts, np.float32),
        settings.steps,
        float(settings.learning_rate),
    )
    best = np.where(np.isfinite(costs), costs, np.inf).argmin(axis=1)
    rows = np.asarray(candidates, np.float64)[np.arange(len(best)), best]
    return np.where(np.isfinite(rows), rows, 0.0)


def _match_errors(
    guesses: Float[np.ndarray, "trials n d"], truth: Float[np.ndarray, "trials n d"]
) -> Float[np.ndarray, "trials n"]:
    """Return each row's root mean squared error under the best matching of a trial's guesses."""
    errors = []
    for guessed, private in zip(guesses, truth, strict=True):
        squares = ((private[:, None] - guessed[None]) ** 2).mean(axis=2)
        rows, partners = linear_sum_assignment(np.minimum(squares, 1e6))
        errors.append(np.sqrt(squares[rows, partners]))
    return np.stack(errors)


@partial(jax.jit, static_argnums=(0, 4, 5))
def _search(
    local: LocalRound, network: Any, changes: Array, starts: Array, steps: int, learning_rate: float
) -> tuple[Array, Array]:
    """Return the rows found from each start of each trial, and their costs."""
    # Every gradient has length one: how steep the cost is says nothing of how far to go.
    optimizer = optax.chain(optax.stateless(_unit_length), make_optimizer("adam"))
    rate = optax.cosine_decay_schedule(learning_rate, steps)

    def search(change: Array, start: Array) -> tuple[Array, Array]:
        def cost(rows: Array) -> Array:
            size = jnp.maximum((change**2).sum(), 1e-30)
            return ((local.mean_change(network, rows) - change) ** 2).sum() / size

        def loss(rows: Array, memory: Any, batch: Any, key: Any) -> tuple[Array, Any]:
            return cost(rows), (memory, None)

        trainer = Trainer(loss, optimizer, lambda number: Batch(None, None, rate(number)))
        rows = advance(trainer, start_training(optimizer, start), steps)[0].weights
        return rows, cost(rows)

    return jax.vmap(jax.vmap(search, in_axes=(None, 0)))(changes, starts)


def _unit_length(gradient: Any, _: Any) -> Any:
    return gradient / jnp.maximum(jnp.sqrt((gradient**2).sum()), 1e-30)
