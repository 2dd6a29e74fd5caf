"""The experiments on a released mean: which there are, what the paper printed, how one is run.

Figures are those of Su, Huynh, Chen, Lu and Lu, "Re-identification Attack to Privacy-Preserving
Data Analysis with Noisy Sample-Mean" (KDD 2020), Tables 1 and 4 to 8. Accuracy is a fraction of all
records, as the paper's is a percentage of them; a classifier that puts everybody into one class
counts with what that is worth, and is told in the record's outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import numpy as np

from cofill.attack import PUSettings, train_classifiers
from cofill.completion import Progress
from cofill.metrics import Recorder, ResultRecord
from cofill_papers._attacks import ATTACKS, Guesses, run_attack
from cofill_papers._base import AbstractExperiment
from cofill_papers._gan import GANSettings
from cofill_papers._mean_pictures import draw_attacked_records, draw_means, draw_released
from cofill_papers._mean_printed import (
    TABLE_1,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    printed,
)
from cofill_papers._methods import chosen
from cofill_papers._released import KINDS, SOURCES, cases_of, simulated_note

__all__ = ["MEAN_EXPERIMENTS", "MeanExperiment", "run_mean_experiment"]

_SIZES = [f"{layers}lp-{width}" for layers in (3, 4, 5) for width in (100, 200, 300)]
_TRAINED = ("upu", "nnpu", "growpu", "oracle")
_CURVES = 250
_REPEATS = 5
_LINEAR_REPEATS = 20
_CHOSEN = {"optimizer": "sgd", "learning_rate": 10**-2.5, "activation": "relu"}
"""What the paper does not state, for all its attacks and tables: see papers/PROTOCOL.md."""


@dataclass(frozen=True)
class MeanExperiment(AbstractExperiment):
    """One experiment on a released mean.

    Parameters
    ----------
    name, description, protocol, published, repeats
        As in every experiment; linear classifiers are cheap and have more repeats.
    source
        ``"mnist"`` or ``"behaviour"``.
    attacks
        Names for the record, each with a name of `ATTACKS` and a classifier.
    kinds
        Of means.
    share_seen
        Of the records at training.
    labelled
        Numbers of positives known by name, for the experiment that has no mean.
    """

    name: str
    description: str
    protocol: str
    source: str
    attacks: Mapping[str, tuple[str, str]]
    published: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = KINDS
    share_seen: float = 1.0
    labelled: tuple[int, ...] = ()
    repeats: int = _REPEATS
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Records whose class was guessed (fractions)": ("accuracy",),
        "Steps of growPU's stages": ("pretrain_steps", "growth_steps"),
        "What the attacks expected of themselves, without labels": ("sureness",),
    }

    def plan(
        self, methods: Sequence[str] | None, seeds: Sequence[int], *, quick: bool
    ) -> Mapping[str, str]:
        wanted = chosen(self._expanded(methods), self.attacks, self.name)
        cases_of(self.source, seeds[:1], (), of_each=1)
        return {
            name: ATTACKS[attack] + (f"; {classifier} classifier" if classifier else "")
            for name, (attack, classifier) in self.attacks.items()
            if name in wanted
        }

    def _expanded(self, methods: Sequence[str] | None) -> list[str] | None:
        """Return the names meant: an attack's stands for those with each of its classifiers."""
        if methods is None:
            return None
        meant = {
            method: [name for name, (attack, _) in self.attacks.items() if attack == method]
            for method in methods
        }
        return [name for method, names in meant.items() for name in names or [method]]

    def parts(self, *, quick: bool) -> list[tuple[str | None, int]]:
        return [
            (name, 2 if quick else _LINEAR_REPEATS if classifier == "linear" else self.repeats)
            for name, (_, classifier) in self.attacks.items()
        ]

    def run(
        self,
        recorder: Recorder,
        methods: Sequence[str],
        *,
        quick: bool,
        earlier: ResultRecord | None,
        progress: Progress,
    ) -> None:
        simulated = {} if earlier is None else earlier.extra.get("simulated", {})
        run_mean_experiment(
            self, recorder, quick=quick, methods=methods, simulated=simulated, progress=progress
        )

    @property
    def details(self) -> Mapping[str, Any]:
        return {"training": _CHOSEN}

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        return {**draw_means(record), **draw_released(record)}

    def draw_data(self) -> dict[str, str]:
        """Return pictures of the records that are attacked."""
        drawn = draw_attacked_records(self.source)
        return {f"{self.source}_{part}": svg for part, svg in drawn.items()}


def run_mean_experiment(
    experiment: MeanExperiment,
    recorder: Recorder,
    *,
    quick: bool,
    methods: Sequence[str],
    simulated: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Run the attacks and write their figures to the recorder.

    `simulated` are the simulated means of an earlier run by source and seed; others are made.
    """
    source, seeds = experiment.source, recorder.seeds
    if experiment.labelled:
        _run_labelled(experiment.labelled, recorder, quick=quick, progress=progress)
        return
    cases = cases_of(
        source,
        seeds,
        experiment.kinds,
        of_each=500 if quick else None,
        share_seen=experiment.share_seen,
        generator=GANSettings(steps=100) if quick else None,
        simulated=simulated.get(source),
    )
    if "distribution" in experiment.kinds:
        recorder.note("simulated", {source: simulated_note(cases)})
    outcomes: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    for done, name in enumerate(methods):
        attack, classifier = experiment.attacks[name]

        def report(share: float, position: int = done, words: str = name) -> None:
            progress(words, (position + share) / len(methods))

        report(0.0)
        guesses = run_attack(
            attack,
            classifier,
            cases,
            prior=0.5,
            batch=SOURCES[source][2],
            # Curves are of the first seed: later ones that are added to a record need none.
            settings=_training(attack, quick, curves=0 in seeds),
            report_progress=report,
        )
        _record(recorder, name, guesses)
        for kind, ends in guesses.outcomes.items():
            outcomes[f"{name}/{kind}"] = dict(zip(map(str, seeds), ends, strict=True))
        if guesses.curves:
            curves[name] = guesses.curves
    for note, values in (("outcomes", outcomes), ("curves", curves)):
        if values:
            recorder.note(note, values)
    progress("done", 1.0)


def _record(recorder: Recorder, name: str, guesses: Guesses) -> None:
    for kind, values in guesses.accuracy.items():
        recorder.add(name, "accuracy", kind, values)
        if kind in guesses.sureness:
            recorder.add(name, "sureness", kind, guesses.sureness[kind])
        if kind in guesses.stages:
            pre, growth, _ = zip(*guesses.stages[kind], strict=True)
            recorder.add(name, "pretrain_steps", kind, list(pre))
            recorder.add(name, "growth_steps", kind, list(growth))


def _training(attack: str, quick: bool, *, curves: bool = False) -> dict[str, Any]:
    """Return the settings of a training: what the protocol chose, and few steps in a quick run."""
    if attack not in _TRAINED:
        return {}
    if not quick:
        every = _CURVES if curves else 0
        return {} if attack == "oracle" else {**_CHOSEN, "curve_every": every}
    if attack == "growpu":
        return {"t_pre": 500, "t_grow": 500, "t_tune": 500, "learning_rate": 0.01}
    if attack == "oracle":
        return {"epochs": 20}
    return {"epochs": 100, "learning_rate": 0.01}


def _run_labelled(
    numbers: Sequence[int], recorder: Recorder, *, quick: bool, progress: Progress
) -> None:
    """Record the accuracy of nnPU that knows some positives by name instead of their mean."""
    seeds = recorder.seeds
    cases = cases_of("mnist", seeds, (), of_each=500 if quick else None)
    records = np.stack([case.records for case in cases])
    truth = np.stack([case.truth for case in cases])
    keys = jax.vmap(jax.random.key)(np.array(seeds))
    settings = PUSettings(classifier="3lp-300", **_training("nnpu", quick))
    for done, labelled in enumerate(numbers):
        progress(f"nnPU with {labelled} labelled positives", done / len(numbers))
        known = [
            np.random.default_rng([case.seed, labelled]).permutation(np.flatnonzero(case.truth))
            for case in cases
        ]
        positives = np.stack(
            [case.records[rows[:labelled]] for case, rows in zip(cases, known, strict=True)]
        )
        which = np.arange(len(cases))
        runs = train_classifiers(settings, records, which, keys, positives=positives)
        right = (runs.labels == truth).mean(axis=1)
        recorder.add("nnpu-3lp", "accuracy", f"{labelled}", right.tolist())
    progress("done", 1.0)


def _usual(width: int) -> dict[str, tuple[str, str]]:
    """Return the attacks of Tables 5 to 8, with the perceptron of one hidden layer."""
    classifiers = {"linear": "linear", "3lp": f"3lp-{width}"}
    both = {
        f"{attack}-{short}": (attack, classifier)
        for attack in ("growpu", "nnpu", "upu")
        for short, classifier in classifiers.items()
    }
    return both | {attack: (attack, "") for attack in ("discriminant", "likelihood", "best")}


def _ends(width: int) -> dict[str, tuple[str, str]]:
    return {
        "kmeans": ("kmeans", ""),
        "oracle-linear": ("oracle", "linear"),
        "oracle-3lp": ("oracle", f"3lp-{width}"),
    }


_SIZED = {f"{a}-{size}": (a, size) for a in ("growpu", "nnpu") for size in _SIZES}
_OTHER_RELEASES = (
    *(f"some-{count}" for count in (1, 10, 100, 1000)),
    *(f"epsilon-{epsilon}" for epsilon in (0.1, 0.003, 0.001)),
)
_ALL = "every record is attacked; a mean of the positives, or one simulated or noised, is known"
_DIGITS = "5,000 fives and 5,000 threes of MNIST"
_USERS = "10,000 made-up users of each segment with the paper's statistics"


def _of_sizes(source: str) -> dict[str, float]:
    return {
        f"{attack}-{size}/accuracy/noiseless": round(value / 100, 4)
        for attack, sources in TABLE_4.items()
        for size, value in zip(_SIZES, sources[source], strict=True)
    }


MEAN_EXPERIMENTS: tuple[MeanExperiment, ...] = (
    MeanExperiment(
        "growpu-mnist",
        "fives among threes, from the mean of the fives (Table 5)",
        f"{_DIGITS}; {_ALL}",
        "mnist",
        {**_usual(300), **_ends(300)},
        printed(TABLE_5, KINDS),
    ),
    MeanExperiment(
        "growpu-subset",
        "a tenth of the digits at training, all of them attacked (Table 6)",
        f"{_DIGITS}, of which attacks are trained on a tenth; {_ALL}",
        "mnist",
        _usual(300),
        printed(TABLE_6, KINDS),
        share_seen=0.1,
    ),
    MeanExperiment(
        "growpu-classifiers",
        "perceptrons of three to five layers as growPU's and nnPU's classifier (Table 4)",
        f"{_DIGITS}, with the noiseless mean",
        "mnist",
        _SIZED,
        _of_sizes("mnist"),
        kinds=("noiseless",),
    ),
    MeanExperiment(
        "nnpu-table1",
        "nnPU as it was meant: some positives known by name, no mean (Table 1)",
        f"{_DIGITS}, of which so many fives are labelled",
        "mnist",
        {"nnpu-3lp": ("nnpu", "3lp-300")},
        {f"nnpu-3lp/accuracy/{n}": round(value / 100, 4) for n, value in TABLE_1.items()},
        kinds=(),
        labelled=tuple(TABLE_1),
    ),
    MeanExperiment(
        "growpu-releases",
        "other releases: one positive, means of some positives, other noise (not printed)",
        f"{_DIGITS}; every record is attacked",
        "mnist",
        {name: attack for name, attack in _usual(300).items() if attack[0] in _TRAINED},
        kinds=_OTHER_RELEASES,
    ),
    MeanExperiment(
        "growpu-behaviour",
        "users of one advertising segment among another's, from their mean (Table 7)",
        f"{_USERS}; {_ALL}",
        "behaviour",
        {**_usual(200), **_ends(200)},
        printed(TABLE_7, KINDS),
    ),
    MeanExperiment(
        "growpu-behaviour-subset",
        "a tenth of the users at training, all of them attacked (Table 8)",
        f"{_USERS}, of whom attacks are trained on a tenth; {_ALL}",
        "behaviour",
        _usual(200),
        printed(TABLE_8, KINDS),
        share_seen=0.1,
    ),
    MeanExperiment(
        "growpu-behaviour-classifiers",
        "perceptrons of three to five layers on users (Table 4)",
        f"{_USERS}, with the noiseless mean",
        "behaviour",
        _SIZED,
        _of_sizes("behaviour"),
        kinds=("noiseless",),
    ),
)
