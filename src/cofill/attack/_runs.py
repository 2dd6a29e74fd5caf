"""Train the classifiers of all runs together, in the engine of `cofill.nets`.

A *run* is one seed with one released mean. Runs are a batch axis: every step moves all classifiers
at once, as one compiled program. Runs with the same key and the same set of records see the same
batches, with the same units switched off, so they are trained as one *group*: a batch is drawn and
read once for all of them, which is most of the work of a small classifier. What differs between
attacks is an `AbstractTraining`: the memory of a run between steps, and the risk of a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree
from scipy.special import expit

from cofill.attack._base import AbstractMeanAttack
from cofill.attack._classifiers import ASIDE, AbstractTraining, RunInputs, Step, logits
from cofill.attack._inputs import Records, ReleasedMean, check_prior
from cofill.errors import DataError
from cofill.nets import (
    MLP,
    Batch,
    State,
    Trainer,
    advance,
    forward,
    make_optimizer,
    repeat_passes,
    shuffle_rows,
    start_training,
)

BLOCK_STEPS = 500  # steps between two moments at which the host can stop or report
BLOCK_ROWS = 2_000  # records scored at a time

Progress = Callable[[int, int], None]
Settings = TypeVar("Settings", bound=AbstractTraining)


@dataclass(frozen=True, eq=False)
class Runs:
    """The classifiers, scores and curves of all runs.

    Attributes
    ----------
    networks, memory
        The classifiers, and what each run remembered at the end: every array has the axis of
        runs first.
    scores
        Probability of the positive class for every record of a run's set.
    outcomes
        A word or two on each run: ``"degenerate"`` if all records are in one class, else what its
        settings say, ``"ok"`` if nothing went wrong.
    steps
        After how many steps the points of the curves were taken.
    share, accuracy, phase
        Curves: the share of the records classified positive, the share classified rightly (None
        without labels), and the number of the phase.
    """

    networks: MLP
    scores: Float[np.ndarray, "runs n"]
    outcomes: tuple[str, ...]
    memory: PyTree
    steps: Int[np.ndarray, " points"]
    share: Float[np.ndarray, "runs points"]
    accuracy: Float[np.ndarray, "runs points"] | None
    phase: Int[np.ndarray, "runs points"]

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def labels(self) -> Bool[np.ndarray, "runs n"]:
        """Whether each record is classified positive."""
        return self.scores > 0.5

    def network(self, run: int) -> MLP:
        """Return the classifier of one run."""
        return jax.tree.map(lambda leaf: leaf[run], self.networks)


@dataclass(kw_only=True, eq=False, repr=False)
class AbstractNetworkAttack(AbstractMeanAttack, Generic[Settings]):
    """An attack whose result is a classifier of this module.

    Columns should be of similar size; the paper's lie between −1 and 1. Bring counts there too:
    where zero is 0, growth from a noisy mean can get stuck.

    Parameters
    ----------
    settings
        Classifier and training.
    seed
        Of everything random.
    """

    settings: Settings
    seed: int = 0

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        self._train(self.settings, records, released)

    def _train(self, settings: Settings, records: Records, released: ReleasedMean) -> Runs:
        runs = train_classifiers(
            settings,
            records[None],
            [0],
            jax.random.key(self.seed)[None],
            positives=released.mean[None, None],
            prior=released.prior,
        )
        self.network_, self.outcome_ = runs.network(0), runs.outcomes[0]
        return runs

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(forward(self.network_, records)[:, 0].astype(np.float64))


def train_classifiers(
    settings: AbstractTraining,
    records: Float[np.ndarray | Array, "sets n d"],
    which: Any,
    keys: Any,
    *,
    positives: Float[np.ndarray | Array, "runs p d"] | None = None,
    prior: Any = 0.5,
    targets: Float[np.ndarray, "runs n"] | None = None,
    labels: Bool[np.ndarray, "sets n"] | None = None,
    progress: Progress | None = None,
) -> Runs:
    """Train the classifiers of all runs at once, each in its own phase.

    Parameters
    ----------
    settings
        How to train, which also says by what attack.
    records, which
        Sets of records without labels, and each run's set.
    keys
        Each run's random key.
    positives, prior
        Each run's known positives (a released mean is one row) and share of positives, or one share
        for all runs.
    targets
        Where runs learn from labels: +1, −1, and 0 for a record that a run does not learn from.
    labels
        Who is positive, for the curve of accuracy only.
    progress
        Called with the steps done and those of the longest run, between blocks of steps.

    Examples
    --------
    >>> from cofill.attack import PUSettings
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> settings = PUSettings(epochs=50, batch=100, learning_rate=0.1)
    >>> some = x[:20][None]
    >>> runs = train_classifiers(settings, x[None], [0], jax.random.key(0)[None], positives=some)
    >>> bool((runs.labels[0] == positive).mean() > 0.95)
    True
    """
    if positives is None:
        # Runs that learn from labels read none; an array all the same keeps one shape of inputs.
        positives = np.zeros((len(which), 1, records.shape[2]))
    inputs = _check_runs(which, positives, prior, keys, sets=len(records))
    if targets is not None:
        inputs = inputs._replace(targets=np.asarray(targets, np.float32))
    count, features = records.shape[1:]
    rows = jax.device_put(np.asarray(records, np.float32))
    inputs = jax.device_put(inputs)
    groups = _groups(inputs)
    batch = min(settings.batch, count)
    steps = count // batch
    passes = -(-settings.most_steps(steps) // steps)
    every = -(-(settings.curve_every or BLOCK_STEPS) // steps)
    state = _start(settings, features, inputs)
    points: list[tuple[int, np.ndarray, np.ndarray]] = []
    done = 0
    while done < passes and bool((_phases(settings, state) < len(settings.phases)).any()):
        span = np.array([done, min(done + every, passes)], np.int32)
        state = jax.block_until_ready(_advance(settings, batch, rows, inputs, state, groups, span))
        done = int(span[1])
        if settings.curve_every:
            positive = score_runs(state.weights, rows, inputs.which) > 0
            points.append((done * steps, positive, np.asarray(_phases(settings, state))))
        if progress is not None:
            progress(done * steps, passes * steps)
    return _collect(settings, state, rows, np.asarray(inputs.which), labels, points)


def _check_runs(
    which: Any, positives: np.ndarray | Array, prior: Any, keys: Any, *, sets: int
) -> RunInputs:
    """Return the checked inputs of all runs; one prior may serve all of them."""
    chosen = np.asarray(which, np.int32)
    shares = np.broadcast_to(np.asarray(prior, np.float32), chosen.shape)
    for share in np.unique(shares):
        check_prior(float(share))
    if not (len(chosen) == len(positives) == len(keys) >= 1):
        raise DataError(
            "which, positives and keys must each have one entry a run, got "
            f"{len(chosen)}, {len(positives)} and {len(keys)}"
        )
    if chosen.min() < 0 or chosen.max() >= sets:
        raise DataError(
            f"which must name sets from 0 to {sets - 1}, got {chosen.min()} to {chosen.max()}"
        )
    return RunInputs(keys, chosen, np.asarray(positives, np.float32), shares)


def score_runs(
    networks: MLP, records: Float[np.ndarray | Array, "sets n d"], which: Any
) -> Float[np.ndarray, "runs n"]:
    """Return every run's logits for the records of its set, which may be new ones."""
    parts = [
        np.asarray(_score_block(networks, records[:, start : start + BLOCK_ROWS], which))
        for start in range(0, records.shape[1], BLOCK_ROWS)
    ]
    return np.concatenate(parts, axis=1)


@jax.jit
def _score_block(networks: MLP, records: Array, which: Array) -> Array:
    return jax.vmap(lambda network, number: logits(network, records[number]))(networks, which)


@partial(jax.jit, static_argnums=(0, 1))
def _start(settings: AbstractTraining, features: int, inputs: RunInputs) -> State:
    def start_run(key: Array) -> State:
        network: Any = settings.network(features, jax.random.fold_in(key, ASIDE))
        return start_training(_optimizer(settings), network, settings.first())

    return jax.vmap(start_run)(inputs.key)


def _optimizer(settings: AbstractTraining) -> optax.GradientTransformation:
    return make_optimizer(settings.optimizer, decay=settings.weight_decay)


def _groups(inputs: RunInputs) -> Int[np.ndarray, "groups members"]:
    """Return the numbers of the runs of each group; every run is its own unless sizes are equal."""
    words = np.asarray(jax.random.key_data(inputs.key)).reshape(len(inputs.which), -1)
    same = np.concatenate([np.asarray(inputs.which)[:, None], words], axis=1)
    _, group, sizes = np.unique(same, axis=0, return_inverse=True, return_counts=True)
    size = sizes[0] if (sizes == sizes[0]).all() else 1
    order = np.argsort(group.ravel(), kind="stable") if size > 1 else np.arange(len(same))
    return order.reshape(-1, size)


@partial(jax.jit, static_argnums=(0, 1))
def _advance(
    settings: AbstractTraining,
    batch: int,
    records: Float[Array, "sets n d"],
    inputs: RunInputs,
    state: State,
    groups: Int[Array, "groups members"],
    span: Array,
) -> State:
    """Return the state after a span of passes, or once all runs are over.

    A pass shuffles the records and deals them out in batches; those left over wait for the next.
    """
    count = records.shape[1]
    all_records = records.reshape(-1, records.shape[2])
    grouped = jax.tree.map(lambda leaf: leaf[groups], inputs)
    key, which = grouped.key[:, 0], grouped.which[:, 0]
    members = grouped._replace(key=None, which=None)

    def train_group(number: Array, key: Array, which: Array, members: Any, state: State) -> State:
        key = jax.random.fold_in(key, number)
        order = shuffle_rows(jax.random.fold_in(key, ASIDE), count, count)

        def draw(step: Array) -> Batch:
            index = lax.dynamic_slice_in_dim(order, step * batch, batch)
            rows = all_records.at[which * count + index].get(mode="promise_in_bounds")
            # Without the barrier XLA gathers the rows anew for each product they take part in.
            rows = lax.optimization_barrier(rows)
            step_key = jax.random.fold_in(key, step)
            return Batch((rows, index), step_key, settings.learning_rate)

        def train_run(inputs: RunInputs, state: State) -> State:
            trainer = Trainer(
                partial(_loss, settings, inputs),
                _optimizer(settings),
                draw,
                active=lambda _, memory: settings.phase(memory) < len(settings.phases),
            )
            return advance(trainer, state, count // batch)[0]

        return jax.vmap(train_run)(members, state)

    def one_pass(number: Array, state: State) -> State:
        return jax.vmap(partial(train_group, number))(key, which, members, state)

    def unfinished(state: State) -> Array:
        return jax.vmap(partial(_phases, settings))(state) < len(settings.phases)

    begun = jax.tree.map(lambda leaf: leaf[groups], state)
    ended = repeat_passes(one_pass, begun, unfinished, span[0], span[1])
    back = jnp.argsort(groups.ravel())
    return jax.tree.map(lambda leaf: leaf.reshape(groups.size, *leaf.shape[2:])[back], ended)


def _loss(
    settings: AbstractTraining,
    inputs: RunInputs,
    network: MLP,
    memory: PyTree,
    batch: Any,
    key: Array,
) -> tuple[Array, tuple[PyTree, None]]:
    step = Step(batch[0], batch[1], key)
    memory, observed = settings.observe(lax.stop_gradient(network), inputs, memory, step.rows)
    return settings.risk(network, inputs, observed, step), (memory, None)


def _phases(settings: AbstractTraining, state: State) -> Int[Array, " runs"]:
    return jax.vmap(settings.phase, axis_size=len(state.weights.biases[0]))(state.memory)


def _collect(
    settings: AbstractTraining,
    state: State,
    records: Array,
    which: np.ndarray,
    labels: np.ndarray | None,
    points: list[tuple[int, np.ndarray, np.ndarray]],
) -> Runs:
    def curve(values: list[np.ndarray], kind: type) -> np.ndarray:
        return np.array(values, dtype=kind).reshape(len(points), len(which)).T

    scores = expit(score_runs(state.weights, records, which).astype(np.float64))
    memory = jax.device_get(state.memory)
    ends = [settings.outcome(jax.tree.map(lambda m, k=k: m[k], memory)) for k in range(len(which))]
    share = (scores > 0.5).mean(axis=1)
    accuracy = None
    if labels is not None:
        right = [(positive == labels[which]).mean(axis=1) for _, positive, _ in points]
        accuracy = curve(right, float)
    return Runs(
        networks=state.weights,
        scores=scores,
        outcomes=tuple(
            end if 0 < part < 1 else "degenerate" for end, part in zip(ends, share, strict=True)
        ),
        memory=memory,
        steps=np.array([step for step, _, _ in points], dtype=np.int64),
        share=curve([positive.mean(axis=1) for _, positive, _ in points], float),
        accuracy=accuracy,
        phase=curve([phase for _, _, phase in points], np.int64),
    )
