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
from cofill_papers._attacks import ATTACKS, Case, check_attacks, run_attack
from cofill_papers._base import AbstractExperiment
from cofill_papers._gan import GANSettings
from cofill_papers._mean_pictures import draw_attacked_records, draw_means
from cofill_papers._released import KINDS, SOURCES, cases_of, simulated_note

__all__ = ["MEAN_EXPERIMENTS", "MeanExperiment", "Part", "run_mean_experiment"]

_SIZES = [f"{layers}lp-{width}" for layers in (3, 4, 5) for width in (100, 200, 300)]
_TRAINED = ("upu", "nnpu", "growpu", "oracle")
_CURVES = 250
_CHOSEN = {"optimizer": "sgd", "learning_rate": 10**-2.5, "activation": "relu"}
"""What the paper does not state, for all its attacks and tables: see papers/PROTOCOL.md."""


@dataclass(frozen=True)
class Part:
    """Attacks on one source of records.

    Parameters
    ----------
    source
        ``"mnist"`` or ``"behaviour"``.
    attacks
        Names of `ATTACKS` with a classifier and a name for the record, ``(attack, classifier,
        name)``.
    kinds
        Of means.
    prefix
        Put before the kinds in the record.
    share_seen
        Of the records at training.
    """

    source: str
    attacks: tuple[tuple[str, str, str], ...]
    kinds: tuple[str, ...] = KINDS
    prefix: str = ""
    share_seen: float = 1.0


@dataclass(frozen=True)
class MeanExperiment(AbstractExperiment):
    """One experiment on a released mean.

    Parameters
    ----------
    name, description, protocol, published, repeats
        As in every experiment.
    parts
        Attacks and what they are tried on.
    labelled
        Numbers of positives known by name, for the experiment that has no mean.
    """

    name: str
    description: str
    protocol: str
    parts: tuple[Part, ...]
    published: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 5
    labelled: tuple[int, ...] = ()
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Records whose class was guessed (fractions)": ("accuracy",),
        "What the attacks expected of themselves, without labels": ("sureness",),
    }

    def plan(
        self, methods: Sequence[str] | None, seeds: Sequence[int], *, quick: bool
    ) -> Mapping[str, str]:
        check_attacks(methods)
        for source in self.sources:
            cases_of(source, seeds[:1], (), of_each=1)
        return {
            name: words for name, words in ATTACKS.items() if methods is None or name in methods
        }

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

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        return draw_means(record)

    def draw_data(self) -> dict[str, str]:
        """Return pictures of the records that are attacked."""
        return {
            f"{source}_{part}": svg
            for source in self.sources
            for part, svg in draw_attacked_records(source).items()
        }

    @property
    def sources(self) -> tuple[str, ...]:
        """Where its records come from; labelled positives are digits."""
        named = [part.source for part in self.parts] + ["mnist"] * bool(self.labelled)
        return tuple(dict.fromkeys(named))


def run_mean_experiment(
    experiment: MeanExperiment,
    recorder: Recorder,
    *,
    quick: bool,
    methods: Sequence[str],
    simulated: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Run every part and write its figures to the recorder.

    `simulated` are the simulated means of an earlier run by source; others are made and noted.
    """
    jobs = [
        (part, attack)
        for part in experiment.parts
        for attack in part.attacks
        if attack[0] in methods
    ]
    total = len(jobs) + len(experiment.labelled)
    outcomes: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    used: dict[str, Any] = {}
    cases: dict[Part, list[Case]] = {}
    for done, (part, (attack, classifier, name)) in enumerate(jobs):
        progress(f"{name} on {part.source}", done / total)
        if part not in cases:
            part_cases = _cases(part, recorder.seeds, quick, simulated.get(part.source))
            cases = {part: part_cases}  # one part's at a time
            if "distribution" in part.kinds:
                used[part.source] = simulated_note(part_cases)
        guesses = run_attack(
            attack,
            classifier,
            cases[part],
            prior=0.5,
            batch=SOURCES[part.source][2],
            settings=_training(attack, quick),
            report_progress=lambda share, position=done, words=f"{name} on {part.source}": progress(
                words, (position + share) / total
            ),
        )
        for kind, values in guesses.accuracy.items():
            where = f"{part.prefix}{kind}"
            recorder.add(name, "accuracy", where, values)
            odd = [o for o in guesses.outcomes[kind] if o != "ok"]
            if odd:
                outcomes[f"{name}/{where}"] = guesses.outcomes[kind]
            if kind in guesses.sureness:
                recorder.add(name, "sureness", where, guesses.sureness[kind])
        if guesses.curves and not part.prefix:
            curves[name] = guesses.curves
    for number, labelled in enumerate(experiment.labelled):
        progress(f"nnPU with {labelled} labelled positives", (len(jobs) + number) / total)
        recorder.add(
            "nnpu-3lp", "accuracy", f"{labelled}", _labelled(recorder.seeds, labelled, quick)
        )
    for note, values in (("outcomes", outcomes), ("curves", curves), ("simulated", used)):
        if values:
            recorder.note(note, values)
    progress("done", 1.0)


def _cases(
    part: Part, seeds: Sequence[int], quick: bool, simulated: Mapping[str, Any] | None
) -> list[Case]:
    return cases_of(
        part.source,
        seeds,
        part.kinds,
        of_each=500 if quick else None,
        share_seen=part.share_seen,
        generator=GANSettings(steps=100) if quick else None,
        simulated=simulated,
    )


def _training(attack: str, quick: bool) -> dict[str, Any]:
    """Return the settings of a training: what the protocol chose, and few steps in a quick run."""
    if attack not in _TRAINED:
        return {}
    if not quick:
        return {} if attack == "oracle" else {**_CHOSEN, "curve_every": _CURVES}
    if attack == "growpu":
        return {"t_pre": 500, "t_grow": 500, "t_tune": 500, "learning_rate": 0.01}
    if attack == "oracle":
        return {"epochs": 20}
    return {"epochs": 100, "learning_rate": 0.01}


def _labelled(seeds: Sequence[int], labelled: int, quick: bool) -> list[float]:
    """Return the accuracy of nnPU that knows some positives by name instead of their mean."""
    cases = cases_of("mnist", seeds, (), of_each=500 if quick else None)
    records = np.stack([case.records for case in cases])
    chosen = [
        np.random.default_rng([case.seed, labelled]).permutation(np.flatnonzero(case.truth))
        for case in cases
    ]
    positives = np.stack(
        [case.records[rows[:labelled]] for case, rows in zip(cases, chosen, strict=True)]
    )
    keys = jax.vmap(jax.random.key)(np.array(seeds))
    settings = PUSettings(classifier="3lp-300", **_training("nnpu", quick))
    runs = train_classifiers(settings, records, np.arange(len(cases)), keys, positives=positives)
    truth = np.stack([case.truth for case in cases])
    return (runs.labels == truth).mean(axis=1).tolist()


def _usual(width: int) -> tuple[tuple[str, str, str], ...]:
    """Return the attacks of Tables 5 to 8, with the perceptron of one hidden layer."""
    both = tuple(
        (attack, classifier, f"{attack}-{short}")
        for attack in ("upu", "nnpu", "growpu")
        for classifier, short in (("linear", "linear"), (f"3lp-{width}", "3lp"))
    )
    return (*both, *((a, "", a) for a in ("discriminant", "likelihood", "best")))


def _ends(width: int) -> tuple[tuple[str, str, str], ...]:
    ceiling = (("oracle", "linear", "oracle-linear"), ("oracle", f"3lp-{width}", "oracle-3lp"))
    return (("kmeans", "", "kmeans"), *ceiling)


def _table(rows: Mapping[str, Sequence[float]], kinds: Sequence[str]) -> dict[str, float]:
    return {
        f"{name}/accuracy/{kind}": round(value / 100, 4)
        for name, values in rows.items()
        for kind, value in zip(kinds, values, strict=False)
    }


_TABLE_5 = {
    "growpu-linear": (93.6, 84.6, 91.8),
    "nnpu-linear": (79.9, 79.2, 81.0),
    "upu-linear": (79.4, 70.3, 75.8),
    "oracle-linear": (95.0,),
    "growpu-3lp": (92.0, 86.3, 91.9),
    "nnpu-3lp": (85.7, 81.3, 85.8),
    "upu-3lp": (50.5, 50.2, 50.1),
    "oracle-3lp": (98.4,),
    "kmeans": (68.0,),
}
_TABLE_6 = {
    "growpu-linear": (93.3, 84.1, 90.9),
    "nnpu-linear": (79.0, 81.6, 79.8),
    "upu-linear": (72.4, 67.2, 70.4),
    "growpu-3lp": (90.1, 85.7, 90.2),
    "nnpu-3lp": (84.2, 81.6, 82.8),
    "upu-3lp": (51.2, 51.9, 50.5),
}
_TABLE_7 = {
    "growpu-linear": (88.1, 81.0, 84.6),
    "nnpu-linear": (73.0, 68.7, 73.4),
    "upu-linear": (64.9, 62.9, 65.2),
    "oracle-linear": (89.1,),
    "growpu-3lp": (85.4, 80.1, 82.6),
    "nnpu-3lp": (77.5, 76.0, 76.2),
    "upu-3lp": (50.7, 50.6, 50.1),
    "oracle-3lp": (89.2,),
    "kmeans": (60.0,),
}
_TABLE_8 = {
    "growpu-linear": (88.0, 83.5, 83.5),
    "nnpu-linear": (72.7, 71.0, 72.9),
    "upu-linear": (71.1, 62.9, 72.6),
    "growpu-3lp": (83.8, 80.9, 81.4),
    "nnpu-3lp": (77.8, 76.3, 76.0),
    "upu-3lp": (51.8, 50.6, 50.7),
}
_TABLE_4 = {
    "nnpu": {
        "mnist": (83.8, 84.6, 85.7, 81.7, 79.4, 77.9, 78.0, 78.4, 78.7),
        "behaviour": (77.2, 77.5, 77.4, 70.5, 72.6, 70.3, 59.4, 55.1, 54.1),
    },
    "growpu": {
        "mnist": (90.3, 91.3, 92.0, 73.6, 78.1, 84.9, 79.1, 84.8, 90.2),
        "behaviour": (84.6, 85.4, 85.1, 84.4, 84.5, 85.4, 84.9, 85.4, 85.3),
    },
}
_TABLE_1 = {1000: 94.4, 300: 93.3, 100: 87.2, 30: 79.6, 10: 64.3, 3: 59.1, 1: 51.9}
_ALL = "every record is attacked; a mean of the positives, or one simulated or noised, is known"

MEAN_EXPERIMENTS: tuple[MeanExperiment, ...] = (
    MeanExperiment(
        "growpu-mnist",
        "fives among threes, from the mean of the fives (Table 5)",
        f"5,000 fives and 5,000 threes of MNIST; {_ALL}",
        (Part("mnist", (*_usual(300), *_ends(300))),),
        _table(_TABLE_5, KINDS),
    ),
    MeanExperiment(
        "growpu-behaviour",
        "users of one advertising segment among another's, from their mean (Table 7)",
        f"10,000 made-up users of each segment with the paper's statistics; {_ALL}",
        (Part("behaviour", (*_usual(200), *_ends(200))),),
        _table(_TABLE_7, KINDS),
    ),
    MeanExperiment(
        "growpu-classifiers",
        "perceptrons of three to five layers as growPU's and nnPU's classifier (Table 4)",
        "as in the two experiments before, with the noiseless mean",
        tuple(
            Part(
                source,
                tuple((a, size, f"{a}-{size}") for a in ("nnpu", "growpu") for size in _SIZES),
                ("noiseless",),
                f"{source}_",
            )
            for source in SOURCES
        ),
        {
            f"{attack}-{size}/accuracy/{source}_noiseless": round(value / 100, 4)
            for attack, sources in _TABLE_4.items()
            for source, values in sources.items()
            for size, value in zip(_SIZES, values, strict=True)
        },
    ),
    MeanExperiment(
        "growpu-subset",
        "a tenth of the records at training, all of them attacked (Tables 6 and 8)",
        "as in the first two experiments, but attacks are trained on a tenth of the records",
        (
            Part("mnist", _usual(300), share_seen=0.1),
            Part("behaviour", _usual(200), prefix="behaviour_", share_seen=0.1),
        ),
        {
            **_table(_TABLE_6, KINDS),
            **_table(_TABLE_8, [f"behaviour_{kind}" for kind in KINDS]),
        },
    ),
    MeanExperiment(
        "nnpu-table1",
        "nnPU as it was meant: some positives known by name, no mean (Table 1)",
        "5,000 fives and 5,000 threes of MNIST, of which so many fives are labelled",
        (),
        {f"nnpu-3lp/accuracy/{n}": round(value / 100, 4) for n, value in _TABLE_1.items()},
        labelled=tuple(_TABLE_1),
    ),
)
