"""What codes give away, and what each defence costs: leak against utility, over its strength.

Every defence of `cofill.cooperate.CodeDefence` is tried at several strengths on WDBC, MFDD and
MNIST by view. The *leak* is what the attack `invert_codes` makes of the codes that were sent when
the system learned: the mean R² over the features of the row behind a code, for an attacker with 10,
100 or everybody else's pairs, whichever is most. The *utility* is the error of completed test rows
in standardised units, against that without a defence. What is *inferred* is the share of a row that
the codes of the other views tell, without its own (see `cofill.audit.inferred_share`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from cofill.attack import DecoderSettings
from cofill.audit import (
    AttackedCodes,
    CodeRelease,
    TrialSettings,
    attack_codes,
    code_widths,
    complete_held_out,
    completion_error,
    encode_views,
    fit_defended,
    inferred_share,
    least_inferred,
    least_leaks,
    sent_codes,
    weigh_defences,
)
from cofill.completion import Progress
from cofill.cooperate import CodeDefence, CooperativeReconstruction
from cofill.metrics import Recorder, ResultRecord
from cofill.nets import FusionSettings
from cofill.views import Dataset, MultiView, load
from cofill_papers._base import AbstractExperiment
from cofill_papers._crs import Repeat, split_individuals
from cofill_papers._leak_pictures import draw_leaks
from cofill_papers._methods import chosen

__all__ = [
    "DEFENCES",
    "LEAK_EXPERIMENTS",
    "LeakExperiment",
]

MOST_LEAK, MOST_GROWTH = 0.2, 0.25
"""Where a defence counts as found: R² below the one, MSE grown by less than the other."""

DEFENCES: Mapping[str, str] = {
    "paper": "codes of the paper's autoencoders, wider than the row (Table I); no defence",
    "none": "our codes, as wide as the row (at most 128), no defence",
    "narrow": "fewer numbers in a code, as a share of the row's columns",
    "noise": "Gaussian noise on the code, for ε at δ = 1e-5 when a person is replaced",
    "levels": "each number of the code rounded to 2^bits levels",
    "needs": "a pilot tells what receivers need; directions worth a price of leak are sent",
    "needs-few": "the same, and at most one direction for five columns",
    "opposed": "an encoder trained against a decoder at a price, ignorant of the receivers",
    "needs-opposed": "the same as needs-few, by an encoder that is trained against a decoder",
}


@dataclass(frozen=True)
class _Source:
    """A data set: what it is, rows, the pilot's size, Table I's column, strengths of defences."""

    words: str
    rows: int
    pilot: int
    architecture: str | None
    shares: tuple[float, ...]
    epsilons: tuple[float, ...]
    bits: tuple[int, ...]
    opposed: bool


_SOURCES: Mapping[str, _Source] = {
    "wdbc": _Source(
        "breast masses in three views", 569, 100, "wdbc", (0.3, 0.1), (300.0, 30.0), (2, 1), True
    ),
    "mfdd": _Source("digits by six feature sets", 2000, 200, "mfdd", (0.1,), (30.0,), (1,), False),
    "mnist": _Source(
        "digits as images and as edges, 2,000", 2000, 200, None, (0.1,), (30.0,), (1,), False
    ),
}
_PRICES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
_FEW_PRICES = (0.1, 0.2, 0.3)
_GROWTHS = (25, 50, 100)  # of the error, in percent, for which leaks are bounded
_MANY = 12_000  # people, where a bound needs many for each column
_VARIED = 0.1
_QUICK_TRIAL = TrialSettings()
_TRIAL = TrialSettings(
    attack=DecoderSettings(
        folds=3,
        repeats=1,
        most_people=2000,
        draws=100,
        fusion=FusionSettings(
            members=1,
            fold_members=1,
            folds=2,
            steps=1000,
            hidden=(128, 128),
            dropout=0.0,
            learning_rate=5e-3,
            weight_decays=(0.3, 3.0),
        ),
    )
)


@dataclass(frozen=True)
class LeakExperiment(AbstractExperiment):
    """One experiment on defences of codes; what it compares itself by are data sets."""

    name: str
    description: str
    protocol: str
    methods: Mapping[str, str]
    defences: Mapping[str, str]
    published: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 3
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Leak: R² of the row behind a code, by the best attacker": ("inversion_r2",),
        "The same over everybody, those of the pilot included": ("inversion_r2_everyone",),
        "The same of the view that leaks most": ("inversion_r2_worst",),
        "The same with 10 and with 100 pairs": ("inversion_r2_10", "inversion_r2_100"),
        "Share of people re-identified by the guessed row": ("reidentified",),
        "Share of people whose code nobody else has": ("unique",),
        "Utility: error of completed rows, standardised": ("mse", "mse_growth"),
        "Inferred: R² of a row from the other views' codes, without its own": ("inferred_r2",),
        "Least leak of any code, where regressions are linear": ("least_leak",),
    }

    def plan(
        self, methods: Sequence[str] | None, seeds: Sequence[int], *, quick: bool
    ) -> Mapping[str, str]:
        wanted = chosen(methods, self.methods, self.name)
        return {method: self.methods[method] for method in wanted}

    @property
    def details(self) -> Mapping[str, str]:
        """The defences that are compared."""
        return {"defences": "; ".join(f"{name}: {words}" for name, words in self.defences.items())}

    def run(
        self,
        recorder: Recorder,
        methods: Sequence[str],
        *,
        quick: bool,
        earlier: ResultRecord | None,
        progress: Progress,
    ) -> None:
        run = _bound_all if self.name == "leak-bound" else _try_all
        run(recorder, quick, methods, progress)
        progress("done", 1.0)

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        return draw_leaks(record)


def _try_all(recorder: Recorder, quick: bool, sources: Sequence[str], progress: Progress) -> None:
    """Try every defence on every data set."""
    bounds: dict[str, dict[str, float]] = {}
    total = len(sources) * len(recorder.seeds)
    for position, source in enumerate(sources):
        for turn, seed in enumerate(recorder.seeds):
            plan = _SOURCES[source]
            if quick:
                plan = replace(plan, rows=200, pilot=min(plan.pilot, 100))
            repeat = split_individuals(_data(source, seed, plan.rows), seed)
            done = position * len(recorder.seeds) + turn
            results = _tried(
                repeat,
                plan,
                _QUICK_TRIAL if quick else _TRIAL,
                lambda share, words=source, position=done: progress(
                    words, (position + share) / total
                ),
            )
            for name, figures in results.items():
                for metric, value in figures.items():
                    recorder.add(name, metric, source, value, seed=seed)
            bounds.setdefault(source, least_leaks(repeat.train, [MOST_GROWTH])[0])
    record = recorder.finish()
    verdict = {source: _verdict(record, source, bound) for source, bound in bounds.items()}
    recorder.note("verdict", verdict)


def _bound_all(recorder: Recorder, quick: bool, sources: Sequence[str], progress: Progress) -> None:
    """Bound the leak of any code, on as many people as that needs."""
    total = len(sources) * len(recorder.seeds)
    jobs = [(source, seed) for source in sources for seed in recorder.seeds]
    for done, (source, seed) in enumerate(jobs):
        progress(source, done / total)
        views = _data(source, seed, 1_000 if quick else _MANY).views
        bounds = least_leaks(views, [growth / 100 for growth in _GROWTHS])
        for growth, bound in zip(_GROWTHS, bounds, strict=True):
            if bound:
                recorder.add(f"any-{growth}", "least_leak", source, bound["all"], seed=seed)


# --- data and grid ------------------------------------------------------------------------------


def _data(source: str, seed: int, rows: int) -> Dataset:
    """Return a sample of a data set, with the columns in which people differ."""
    data = load(source)
    views = data.views
    rows = min(rows, views.n_individuals)
    chosen = np.zeros(views.n_individuals, bool)
    order = np.random.default_rng([seed, 0x1EA4]).permutation(len(chosen))
    chosen[order[:rows]] = True
    few = views.take(chosen)
    varied = MultiView([view.select(_varied(view)) for view in few.values()])
    return replace(data, views=varied, labels=data.labels[chosen])


def _varied(view: Any) -> list[str]:
    """Name the columns in which at least a tenth of the people differ from the commonest value."""
    names = []
    for name, column in zip(view.feature_names, view.cells.T, strict=True):
        counts = np.unique(column, return_counts=True)[1]
        if counts.max() <= (1 - _VARIED) * len(column):
            names.append(name)
    return names


def _grid(source: _Source) -> dict[str, CodeDefence]:
    """Return the defences to try by name."""
    pilot, few = source.pilot, 0.2
    defences = {"none": CodeDefence()}
    defences |= {f"narrow-{share:g}": CodeDefence(width=share) for share in source.shares}
    defences |= {f"noise-{e:g}": CodeDefence(epsilon=e) for e in source.epsilons}
    defences |= {f"levels-{bits}": CodeDefence(bits=bits) for bits in source.bits}
    defences |= {f"needs-{p:g}": CodeDefence(pilot=pilot, price=p) for p in _PRICES}
    defences |= {
        f"needs-few-{p:g}": CodeDefence(pilot=pilot, price=p, width=few) for p in _FEW_PRICES
    }
    if source.opposed:
        defences |= {
            "opposed-1": CodeDefence(adversary=True, width=source.shares[0], price=1.0),
            "needs-opposed-0.3": CodeDefence(pilot=pilot, price=0.3, width=few, adversary=True),
        }
    return defences


# --- leak and utility ---------------------------------------------------------------------------


def _tried(
    repeat: Repeat, source: _Source, trial: TrialSettings, report_progress: Callable[[float], None]
) -> dict[str, dict[str, float]]:
    """Fit every system on one repeat, attack its codes and judge what it completes."""
    held = repeat.held_out
    grid = _grid(source)
    systems = fit_defended(held, grid, trial, lambda share: report_progress(share / 2))
    codes = {"paper": _paper_codes(repeat, source.architecture, trial)}
    codes |= {name: sent_codes(system) for name, system in systems.items()}
    widths = code_widths(list(codes.values()))
    results: dict[str, dict[str, float]] = {}
    for k, (name, by_view) in enumerate(codes.items()):
        report_progress((1 + k / len(codes)) / 2)
        results[name] = _leak(
            by_view, source.pilot, replace(trial.attack, seed=repeat.seed), widths
        )
        if name in systems:
            completed = complete_held_out(systems[name], held)
            results[name] |= {
                "mse": completion_error(completed),
                "inferred_r2": inferred_share(completed),
            }
    plain = results["none"]
    for name, defence in grid.items():
        figures = results[name]
        figures["mse_growth"] = figures["mse"] / plain["mse"] - 1
        share = min(1.0, defence.pilot / repeat.train.n_individuals)
        figures["inversion_r2_everyone"] = (
            share * plain["inversion_r2"] + (1 - share) * figures["inversion_r2"]
        )
    return results


def _paper_codes(
    repeat: Repeat, architecture: str | None, trial: TrialSettings
) -> dict[str, CodeRelease]:
    """Return the codes of the paper's autoencoders; how well they complete is told elsewhere."""
    system = CooperativeReconstruction(
        method="faithful",
        architecture=architecture,
        encoder_training=trial.encoders,
        seed=repeat.seed,
    )
    return encode_views(system, repeat.train)


def _leak(
    codes: Mapping[str, CodeRelease],
    pilot: int,
    settings: DecoderSettings,
    widths: Mapping[str, int],
) -> dict[str, float]:
    """Attack the codes of every view and return means over the views."""
    by_view = [
        _figures(attack_codes(view_codes, settings, skip=pilot, width=widths[view])[0])
        for view, view_codes in codes.items()
    ]
    figures = {metric: float(np.mean([f[metric] for f in by_view])) for metric in by_view[0]}
    figures["inversion_r2_worst"] = max(f["inversion_r2"] for f in by_view)
    return figures


def _figures(attacked: AttackedCodes) -> dict[str, float]:
    """Return one view's figures as the record names them."""
    named = {k.name: k.attack for k in attacked.leaks if k.figure == "R²"}
    few = {p: f"code inversion, {p} pairs" for p in (10, 100)}
    return {
        "inversion_r2": attacked.r2,
        **{f"inversion_r2_{p}": named[name] for p, name in few.items() if name in named},
        "reidentified": max(k.attack for k in attacked.leaks if k.figure != "R²"),
        "unique": attacked.unique,
    }


# --- verdict ------------------------------------------------------------------------------------


def _verdict(record: ResultRecord, source: str, bound: Mapping[str, float]) -> dict[str, Any]:
    """Name the setting that reaches both goals on a data set, or else the best trade-off."""
    points: dict[str, tuple[float, float]] = {}
    for key in record.summary:
        name, metric, where = key.split("/")
        if metric == "mse_growth" and where == source:
            leak, growth = (
                record.summary[f"{name}/{figure}/{source}"]["mean"]
                for figure in ("inversion_r2", "mse_growth")
            )
            if leak is not None and growth is not None:
                points[name] = (leak, growth)
    choice = weigh_defences(points, MOST_LEAK, MOST_GROWTH)
    without = record.summary[f"none/inferred_r2/{source}"]["mean"]
    return {
        "reached": choice.reached,
        "best": choice.best,
        "inversion_r2": points[choice.best][0],
        "mse_growth": points[choice.best][1],
        "within": {
            "name": choice.within,
            "inversion_r2": points[choice.within][0],
            "mse_growth": points[choice.within][1],
        },
        "frontier": {n: points[n] for n in choice.frontier},
        "bound": dict(bound),
        "inferred_at_goal": None if without is None else least_inferred(MOST_GROWTH, without),
    }


LEAK_EXPERIMENTS: tuple[LeakExperiment, ...] = (
    LeakExperiment(
        "leak-codes",
        "what codes give away, and what each defence costs (not in the papers)",
        "90/10 split of a sample of people over the columns in which at least a tenth of them "
        "differ; systems learn from the 90 with ridge regressions as links, the attacker inverts "
        "the codes that they sent (the pilot's people are left out and counted apart), the 10 are "
        "completed",
        {name: source.words for name, source in _SOURCES.items()},
        DEFENCES,
    ),
    LeakExperiment(
        "leak-bound",
        "how little any code can give away at a given error (not in the papers)",
        "a sample of people over the columns in which at least a tenth of them differ; the least "
        "R² of the rows behind all codes that a receiver gets, whatever the codes are, where "
        "regressions are linear and their error may grow by so many percent over that without a "
        "defence; only where there are ten people for each column",
        {"wdbc": _SOURCES["wdbc"].words, "mnist": f"digits as images and as edges, {_MANY:,}"},
        {f"any-{g}": f"any code by which the error grows by {g} %" for g in _GROWTHS},
    ),
)
