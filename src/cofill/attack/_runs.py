"""Train the classifiers of all runs together, in the engine of `cofill.nets`.

A *run* is one seed with one released mean. Runs are a batch axis: every step moves all classifiers
at once, as one compiled program. Runs with the same key and the same set of records see the same
batches, with the same units switched off, so they are trained as one *group*: a batch is drawn and
read once for all of them, which is most of the work of a small classifier. What differs between
attacks is an `AbstractRule`: the memory of a run between steps, and the loss of a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree
from scipy.special import expit

from cofill.attack._base import AbstractMeanAttack
from cofill.attack._classifiers import Settings, logits
from cofill.attack._inputs import Records, check_prior
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
ASIDE = 1 << 30  # far from the numbers of passes and steps, which other keys are made with

Progress = Callable[[int, int], None]


class RunInputs(NamedTuple):
    """Key, records and positives of runs; arrays have the axis of runs first, or none in a step."""

    key: Any
    which: Any  # set of records
    positives: Any  # rows known to be positive; a released mean is one row
    prior: Any
    targets: Any = None  # of a supervised run only: +1, −1, and 0 for a record held out


class Step(NamedTuple):
    """Records of one step, their numbers in the set, and the step's key."""

    rows: Float[Array, "batch d"]
    numbers: Int[Array, " batch"]
    key: Array


class AbstractRule(Generic[Settings]):
    """Loss and memory of one run.

    Concrete rules are frozen dataclasses, because compiled programs are found again by them.
    """

    training: Settings
    phases: ClassVar[tuple[str, ...]] = ("train",)

    def most_steps(self, steps: int) -> int:
        """Return after how many steps every run is over, when a pass takes `steps` of them."""
        return self.training.epochs * steps  # pyright: ignore[reportAttributeAccessIssue]

    def first(self) -> PyTree:
        """Return what a run remembers before its first step."""
        return ()

    def observe(
        self, network: MLP, inputs: RunInputs, memory: PyTree, rows: Float[Array, "batch d"]
    ) -> tuple[PyTree, PyTree]:
        """Return the memory after seeing a batch, and what the loss wants to know of it."""
        return memory, ()

    def loss(self, network: MLP, inputs: RunInputs, observed: PyTree, step: Step) -> Array:
        """Return the loss that the step reduces."""
        raise NotImplementedError

    def phase(self, memory: PyTree) -> Int[Array, ""]:
        """Return the number of the phase a run is in; the number of phases when it is over."""
        return jnp.array(0)


@dataclass(frozen=True, eq=False)
class Runs:
    """The classifiers, scores and curves of all runs.

    Attributes
    ----------
    networks, memory
        The classifiers, and what each run's rule remembered at the end: every array has the axis of
        runs first.
    scores
        Probability of the positive class for every record of a run's set.
    outcomes
        A word or two on each run: ``"ok"``, or ``"degenerate"`` if all records are in one class.
    steps, share, accuracy, phase
        Curves: after how many steps, the share of the records classified positive, the share
        classified rightly (None without labels), and the number of the phase.
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


class AbstractNetworkAttack(AbstractMeanAttack):
    """An attack whose result is a classifier of this module."""

    seed: int
    network_: MLP

    def _settings(self, kind: type[Settings], **fixed: Any) -> Settings:
        chosen = {name: value for name, value in self.get_params().items() if name != "seed"}
        return kind(**chosen, **fixed)

    def _keys(self) -> Array:
        return jax.random.key(self.seed)[None]

    def _keep(self, runs: Runs) -> None:
        self.network_, self.outcome_ = runs.network(0), runs.outcomes[0]

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(forward(self.network_, records)[:, 0].astype(np.float64))


def gather_inputs(
    which: Any,
    positives: Float[np.ndarray | Array, "runs p d"],
    prior: Any,
    keys: Any,
    *,
    sets: int,
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


def train_runs(
    rule: AbstractRule,
    records: Float[np.ndarray | Array, "sets n d"],
    inputs: RunInputs,
    *,
    labels: Bool[np.ndarray, "sets n"] | None = None,
    progress: Progress | None = None,
) -> Runs:
    """Return the trained classifiers of all runs."""
    count, features = records.shape[1:]
    rows = jnp.asarray(records, jnp.float32)
    inputs = jax.tree.map(jnp.asarray, inputs)
    groups = _groups(inputs)
    batch = min(rule.training.batch, count)
    steps = count // batch
    passes = -(-rule.most_steps(steps) // steps)
    every = -(-(rule.training.curve_every or BLOCK_STEPS) // steps)
    state = _start(rule, features, inputs)
    points: list[tuple[int, np.ndarray, np.ndarray]] = []
    done = 0
    while done < passes and bool((_phases(rule, state) < len(rule.phases)).any()):
        span = np.array([done, min(done + every, passes)], np.int32)
        state = jax.block_until_ready(_advance(rule, batch, rows, inputs, state, groups, span))
        done = int(span[1])
        if rule.training.curve_every:
            positive = score_runs(state.weights, rows, inputs.which) > 0
            points.append((done * steps, positive, np.asarray(_phases(rule, state))))
        if progress is not None:
            progress(done * steps, passes * steps)
    return _collect(state, rows, np.asarray(inputs.which), labels, points)


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
def _start(rule: AbstractRule, features: int, inputs: RunInputs) -> State:
    def start_run(key: Array) -> State:
        network: Any = rule.training.network(features, jax.random.fold_in(key, ASIDE))
        return start_training(_optimizer(rule), network, rule.first())

    return jax.vmap(start_run)(inputs.key)


def _optimizer(rule: AbstractRule) -> optax.GradientTransformation:
    return make_optimizer(rule.training.optimizer, decay=rule.training.weight_decay)


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
    rule: AbstractRule,
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
            return Batch((rows, index), step_key, rule.training.learning_rate)

        def train_run(inputs: RunInputs, state: State) -> State:
            trainer = Trainer(
                partial(_loss, rule, inputs),
                _optimizer(rule),
                draw,
                active=lambda _, memory: rule.phase(memory) < len(rule.phases),
            )
            return advance(trainer, state, count // batch)[0]

        return jax.vmap(train_run)(members, state)

    def one_pass(number: Array, state: State) -> State:
        return jax.vmap(partial(train_group, number))(key, which, members, state)

    def unfinished(state: State) -> Array:
        return jax.vmap(partial(_phases, rule))(state) < len(rule.phases)

    begun = jax.tree.map(lambda leaf: leaf[groups], state)
    ended = repeat_passes(one_pass, begun, unfinished, span[0], span[1])
    back = jnp.argsort(groups.ravel())
    return jax.tree.map(lambda leaf: leaf.reshape(groups.size, *leaf.shape[2:])[back], ended)


def _loss(
    rule: AbstractRule, inputs: RunInputs, network: MLP, memory: PyTree, batch: Any, key: Array
) -> tuple[Array, tuple[PyTree, None]]:
    step = Step(batch[0], batch[1], key)
    memory, observed = rule.observe(lax.stop_gradient(network), inputs, memory, step.rows)
    return rule.loss(network, inputs, observed, step), (memory, None)


def _phases(rule: AbstractRule, state: State) -> Int[Array, " runs"]:
    return jax.vmap(rule.phase, axis_size=len(state.weights.biases[0]))(state.memory)


def _collect(
    state: State,
    records: Array,
    which: np.ndarray,
    labels: np.ndarray | None,
    points: list[tuple[int, np.ndarray, np.ndarray]],
) -> Runs:
    def curve(values: list[np.ndarray], kind: type) -> np.ndarray:
        return np.array(values, dtype=kind).reshape(len(points), len(which)).T

    scores = expit(score_runs(state.weights, records, which).astype(np.float64))
    share = (scores > 0.5).mean(axis=1)
    accuracy = None
    if labels is not None:
        right = [(positive == labels[which]).mean(axis=1) for _, positive, _ in points]
        accuracy = curve(right, float)
    return Runs(
        networks=state.weights,
        scores=scores,
        outcomes=tuple("ok" if 0 < part < 1 else "degenerate" for part in share),
        memory=jax.device_get(state.memory),
        steps=np.array([step for step, _, _ in points], dtype=np.int64),
        share=curve([positive.mean(axis=1) for _, positive, _ in points], float),
        accuracy=accuracy,
        phase=curve([phase for _, _, phase in points], np.int64),
    )
