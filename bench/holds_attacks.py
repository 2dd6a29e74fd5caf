"""The parts of `bench.holds` for attacks on released means.

`compare`: `best` beside each of its parts, and `likelihood` beside the regression with all labels.
Every set is attacked by its exact mean in its own units, and in the unit cube by means with the
papers' noise, Laplace for each coordinate, at three strengths. Each draw takes other records of a
large set, or nine in ten of a small one, and other noise.

`weaken`: how much of what `best` learns beyond guessing is left as ε of the whole record falls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from bench.comparisons import Comparison, Run
from bench.labelled import DEVELOPMENT, ONCE
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cofill.attack import AttackFailed, Noise, make_mean_attack
from cofill.privacy import Box, MeanDefence

MOST = 1_500  # records of a draw
EPSILONS = (1.0, 0.1, 0.01)  # of each coordinate
ALLOWED = 0.003  # by which `best` may be behind its best part
CLOSE = 0.02  # of the accuracy, within which an expected one is calibrated
ATTACKS = ("best", "likelihood", "discriminant")
CURVE_SETS = ("mnist 5-3", "wdbc", "credit default", "approval")
CURVE_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


def draw_case(records, truth, epsilon, seed):
    """Return records, who is positive, their mean and its noise."""
    x, positive, rng = draw_records(records, truth, seed)
    if epsilon is None:
        return x, positive, x[positive].mean(axis=0), None
    x = in_unit_cube(x)
    noise = Noise("laplace", 1 / (positive.sum() * epsilon))
    return x, positive, x[positive].mean(axis=0) + noise.draw(x.shape[1], rng), noise


def draw_records(records, truth, seed):
    rng = np.random.default_rng([seed, 24])
    rows = rng.permutation(len(records))[: min(MOST, int(0.9 * len(records)))]
    return records[rows], truth[rows], rng


def in_unit_cube(x):
    low, high = x.min(axis=0), x.max(axis=0)
    return (x - low) / np.where(high > low, high - low, 1.0)


def run_attack(name, x, positive, mean, noise):
    """Return accuracy, the accuracy that was expected (None if withheld) and processor seconds."""
    started = time.process_time()
    attack = make_mean_attack(name)
    try:
        attack.fit(x, mean=mean, prior=float(positive.mean()), noise=noise)
    except AttackFailed:
        majority = max(positive.mean(), 1 - positive.mean())
        return float(majority), None, time.process_time() - started
    right = float((attack.labels_ == positive).mean())
    return right, attack.expected_accuracy_, time.process_time() - started


def regress(x, positive):
    """Return the accuracy of logistic regression with every label, on the records it learned."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1e4, max_iter=5_000))
    return float(model.fit(x, positive).score(x, positive))


def chosen_sets(run, names=None):
    sets = {**DEVELOPMENT, **(ONCE if run.once else {})}
    for name, load in sets.items():
        if (names is None or name in names) and (not run.sets or name.startswith(run.sets)):
            yield name, load()


def compare(run: Run) -> Iterator[Comparison]:
    claims: list[float] = []
    for name, (records, truth) in chosen_sets(run):
        for epsilon in (None, *EPSILONS):
            where = f"{name}, {'exact' if epsilon is None else f'ε {epsilon:g}'}"
            figures: dict[str, list] = {attack: [] for attack in ATTACKS}
            regressions = []
            for seed in range(run.draws):
                case = draw_case(records, truth, epsilon, seed)
                for attack in ATTACKS:
                    figures[attack].append(run_attack(attack, *case))
                if epsilon is None:
                    regressions.append(regress(*case[:2]))
            right = {attack: [row[0] for row in rows] for attack, rows in figures.items()}
            seconds = {attack: [row[2] for row in rows] for attack, rows in figures.items()}
            expected = {attack: [row[1] for row in rows] for attack, rows in figures.items()}
            claims += [e - r for r, e, _ in figures["best"] if e is not None]
            best = right.pop("best")
            yield Comparison(
                where, "accuracy", "best", best, right, seconds["best"], ALLOWED, also=expected
            )
            if epsilon is None:
                yield Comparison(
                    where,
                    "regression",
                    "likelihood",
                    right["likelihood"],
                    {"all labels": regressions},
                    seconds["likelihood"],
                    ALLOWED,
                )
    if claims:
        close = np.mean(np.abs(claims) <= CLOSE)
        print(
            f"  best expected its accuracy in {len(claims)} cases, within 2 points in {close:.1%}"
        )


def weaken(run: Run) -> Iterator[Comparison]:
    for name, (records, truth) in chosen_sets(run, CURVE_SETS):
        for epsilon in CURVE_EPSILONS:
            excess, seconds = [], []
            for seed in range(run.draws):
                x, positive, _ = draw_records(records, truth, seed)
                x = in_unit_cube(x)
                plan = MeanDefence(Box(0.0, 1.0), epsilon, 1e-5, "gaussian")
                released = plan.release(x[positive], sender="site", receiver="public", rng=seed)
                noise = Noise("gaussian", float(released.scale[0]))
                right, _, spent = run_attack("best", x, positive, released.mean, noise)
                excess.append(right - float(max(positive.mean(), 1 - positive.mean())))
                seconds.append(spent)
            peers = {"guessing": [0.0] * run.draws}
            yield Comparison(
                f"{name}, ε {epsilon:g}", "excess", "best", excess, peers, seconds, 0.02
            )
