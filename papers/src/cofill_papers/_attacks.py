"""The attacks of an experiment on a released mean, all seeds and means of one attack as one batch.

A *case* is one seed: records, who is positive, and the means that were released. The attacks that
train networks take all cases and means together; those of the paper are given cells between −1 and
1, as it has its images. The others go through the cases one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cofill.attack import (
    AbstractCalibratedAttack,
    AbstractTraining,
    AttackFailed,
    Discriminant,
    GrowSettings,
    Likelihood,
    Noise,
    PUSettings,
    RunInputs,
    Runs,
    SelfTraining,
    Step,
    kmeans_accuracy,
    logits,
    score_runs,
    train_classifiers,
)
from cofill.errors import SettingError
from cofill.nets import MLP, require_at_least

__all__ = ["ATTACKS", "Case", "Guesses", "ReleasedMean", "run_attack"]

ATTACKS: Mapping[str, str] = {
    "kmeans": "two clusters, matched to the classes as well as can be: the floor",
    "upu": "positive-unlabelled learning with the mean as the only positive",
    "nnpu": "the same with a risk that is kept from falling below zero",
    "growpu": "the paper's attack: pre-train, grow, fine-tune",
    "discriminant": "closed form: Fisher's direction from the mean and the covariance of all",
    "likelihood": "logistic regression, of whose likelihood the mean is the only label",
    "best": "likelihood, then self-training with a leave-one-out kernel regression",
    "oracle": "supervised learning from every label: the ceiling",
}
FOLDS = 5
_CLOSED: Mapping[str, Callable[..., AbstractCalibratedAttack]] = {
    "discriminant": Discriminant,
    "likelihood": Likelihood,
    "best": SelfTraining,
}


@dataclass(frozen=True, eq=False)
class ReleasedMean:
    """A released mean and what is known of its noise."""

    mean: Float[np.ndarray, " features"]
    noise: Noise | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """One seed's records and released means.

    Parameters
    ----------
    seed
        Of everything in the case.
    records, truth
        All records, and who is positive: for the judge only.
    means
        What was released, by name.
    seen
        The records that the attacker has at training; all of them for None. Every record is
        attacked.
    """

    seed: int
    records: Float[np.ndarray, "records features"]
    truth: Bool[np.ndarray, " records"]
    means: Mapping[str, ReleasedMean]
    seen: np.ndarray | None = None

    @property
    def known(self) -> np.ndarray:
        """Records at training."""
        return self.records if self.seen is None else self.records[self.seen]


@dataclass
class Guesses:
    """What an attack made of all cases.

    Parameters
    ----------
    accuracy
        Per mean and case the share of the records whose class was guessed.
    outcomes
        The same, in a word or two.
    sureness
        Per mean and case the accuracy the attack expected of itself, of attacks that do; None
        where one withheld it.
    stages
        Per mean and case the steps of each stage, of growPU.
    curves
        Training runs with curves, by mean, of the first case.
    """

    accuracy: dict[str, list[float]] = field(default_factory=dict)
    outcomes: dict[str, list[str]] = field(default_factory=dict)
    sureness: dict[str, list[float | None]] = field(default_factory=dict)
    stages: dict[str, list[list[int]]] = field(default_factory=dict)
    curves: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, where: str, right: float, outcome: str) -> None:
        """Note one guess."""
        self.accuracy.setdefault(where, []).append(right)
        self.outcomes.setdefault(where, []).append(outcome)


def run_attack(
    name: str,
    classifier: str,
    cases: Sequence[Case],
    *,
    prior: float,
    batch: int,
    settings: Mapping[str, Any] | None = None,
    report_progress: Callable[[float], None],
) -> Guesses:
    """Run one attack on every mean of every case.

    Parameters
    ----------
    name
        One of `ATTACKS`.
    classifier
        Of the attacks that train networks: ``"linear"``, ``"3lp-300"``, …
    cases
        With the same numbers of records.
    prior
        Share of positives.
    batch
        Records a step.
    settings
        Others than the defaults of the attack's training.
    report_progress
        Called with the share done.
    """
    if name not in ATTACKS:
        raise SettingError(f"there is no attack {name!r}; there is {', '.join(ATTACKS)}")
    if name in _CLOSED:
        return _closed(_CLOSED[name], cases, prior, report_progress)
    if name == "kmeans":
        guesses = Guesses()
        for k, case in enumerate(cases):
            report_progress(k / len(cases))
            right = kmeans_accuracy(case.records, case.truth, seed=case.seed)
            for where in case.means:
                guesses.add(where, right, "ok")
        return guesses
    return _trained(
        name, classifier, cases, prior, {"batch": batch, **(settings or {})}, report_progress
    )


def _closed(
    make: Callable[..., AbstractCalibratedAttack],
    cases: Sequence[Case],
    prior: float,
    report_progress: Callable[[float], None],
) -> Guesses:
    guesses = Guesses()
    for k, case in enumerate(cases):
        report_progress(k / len(cases))
        for where, released in case.means.items():
            try:
                attack = make().fit(
                    case.known, mean=released.mean, prior=prior, noise=released.noise
                )
            except AttackFailed:
                guesses.add(where, _of_one_class(case), "degenerate")
                guesses.sureness.setdefault(where, []).append(None)
                continue
            guess = attack.labels_ if case.seen is None else attack.predict(case.records)
            guesses.add(where, float((guess == case.truth).mean()), attack.outcome_)
            guesses.sureness.setdefault(where, []).append(attack.expected_accuracy_)
    return guesses


def _of_one_class(case: Case) -> float:
    """Return the accuracy of calling everybody negative: what a degenerate guess is worth."""
    return float((~case.truth).mean())


def _trained(
    name: str,
    classifier: str,
    cases: Sequence[Case],
    prior: float,
    settings: Mapping[str, Any],
    report_progress: Callable[[float], None],
) -> Guesses:
    def report(done: int, most: int) -> None:
        report_progress(done / max(most, 1))

    training = {"classifier": classifier, **settings}
    if name == "oracle":
        return _oracle(cases, training, report)
    cases = _between_ones(cases)
    records = np.stack([case.known for case in cases])
    labels = np.stack(
        [case.truth if case.seen is None else case.truth[case.seen] for case in cases]
    )
    targets = [(k, where) for k, case in enumerate(cases) for where in case.means]
    which = np.array([k for k, _ in targets])
    means = np.stack([cases[k].means[where].mean for k, where in targets]).astype(np.float32)
    keys = jax.vmap(jax.random.key)(np.array([cases[k].seed for k, _ in targets]))
    if name == "growpu":
        run_settings = GrowSettings(**training)
    else:
        run_settings = PUSettings(**training, non_negative=name == "nnpu")
    runs = train_classifiers(
        run_settings,
        records,
        which,
        keys,
        positives=means[:, None],
        prior=prior,
        labels=labels,
        progress=report,
    )
    return _judged(runs, cases, targets)


def _between_ones(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases with the known records' cells between −1 and 1.

    With counts as they are, of which most are zero, growPU's growth ends at its limit under noise,
    with little more than the few records that pre-training left: we believe because every field is
    learned by itself, and faster than the bias. A zero that is −1 moves with every step.
    """
    low = min(float(case.known.min()) for case in cases)
    high = max(float(case.known.max()) for case in cases)
    if low >= -1 and high <= 1:
        return cases

    def scaled(cells: np.ndarray) -> np.ndarray:
        return (cells - low) * (2 / (high - low)) - 1

    return [
        replace(
            case,
            records=scaled(case.records),
            means={
                where: replace(released, mean=scaled(released.mean))
                for where, released in case.means.items()
            },
        )
        for case in cases
    ]


@dataclass(frozen=True)
class OracleSettings(AbstractTraining):
    """Settings of supervised training, by Adam on the logistic loss: the ceiling of classifiers.

    Parameters
    ----------
    epochs
        Passes over the records.
    """

    optimizer: str = "adam"
    epochs: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, epochs=1)

    def most_steps(self, steps: int) -> int:
        """Return the steps of all epochs."""
        return self.epochs * steps

    def risk(
        self, network: MLP, inputs: RunInputs, observed: tuple[()], step: Step
    ) -> Float[Array, ""]:
        """Return the mean logistic loss of the records that are not held out."""
        targets = inputs.targets[step.numbers]
        taught = jnp.abs(targets)
        losses = jax.nn.softplus(-targets * logits(network, step.rows, step.key))
        return (taught * losses).sum() / jnp.maximum(taught.sum(), 1.0)


def _oracle(
    cases: Sequence[Case],
    training: Mapping[str, Any],
    report: Callable[[int, int], None],
) -> Guesses:
    """Learn from the labels of some folds, judge the other one: nobody's own label is used."""
    records = np.stack([case.records for case in cases])
    labels = np.stack([case.truth for case in cases])
    which = np.repeat(np.arange(len(cases)), FOLDS)
    held = np.concatenate([_folds(case) for case in cases])
    keys = jax.vmap(jax.random.key)(np.repeat([case.seed for case in cases], FOLDS))
    targets = np.where(held, 0.0, np.where(labels[which], 1.0, -1.0))
    runs = train_classifiers(
        OracleSettings(**training), records, which, keys, targets=targets, progress=report
    )
    right = ((runs.labels == labels[which]) & held).reshape(len(cases), -1).sum(axis=1)
    guesses = Guesses()
    for case, count in zip(cases, right, strict=True):
        for where in case.means:
            guesses.add(where, float(count / len(case.truth)), "ok")
    return guesses


def _folds(case: Case) -> Bool[np.ndarray, "folds records"]:
    """Return a partition of the records."""
    number = np.random.default_rng([case.seed, 5]).permutation(len(case.truth)) % FOLDS
    return number == np.arange(FOLDS)[:, None]


def _judged(runs: Runs, cases: Sequence[Case], targets: Sequence[tuple[int, str]]) -> Guesses:
    guesses = Guesses()
    labels = runs.labels
    if cases[0].seen is not None:  # every record is attacked, those unseen in training too
        everyone = np.stack([case.records for case in cases])
        labels = score_runs(runs.networks, everyone, np.array([k for k, _ in targets])) > 0
    for run, (k, where) in enumerate(targets):
        right = float((labels[run] == cases[k].truth).mean())
        guesses.add(where, right, runs.outcomes[run])
        if hasattr(runs.memory, "lengths"):
            guesses.stages.setdefault(where, []).append(runs.memory.lengths[run].tolist())
        if k == 0 and len(runs.steps):
            guesses.curves[where] = {
                "steps": runs.steps.tolist(),
                "share": runs.share[run].round(4).tolist(),
                "accuracy": None if runs.accuracy is None else runs.accuracy[run].round(4).tolist(),
            }
    return guesses
