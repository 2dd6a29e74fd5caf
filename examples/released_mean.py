"""A hospital releases the mean record of its ill patients: attack it, then protect it."""

import numpy as np

import cofill
from cofill.attack import AttackFailed
from cofill.privacy import Box, gaussian

data = cofill.load("wdbc")
records = np.concatenate([data.views.aligned(name) for name in data.views], axis=1)
# Bounds of a record must be public: these limits stand for such.
low, high = records.min(axis=0), records.max(axis=0)
records = (records - low) / (high - low)
ill = data.labels == data.class_names.index("malignant")
inside = np.random.default_rng(0).random(len(ill)) < 0.5  # whose record may go into the mean
rows = records[ill & inside]


def guessed(mean: np.ndarray, noise: cofill.Noise | None = None) -> tuple[float, float]:
    """Return the share of right guesses about contributors, and about everybody else.

    The attacker has all records without the diagnosis, the mean, and the share of the ill.
    """
    try:
        attack = cofill.Likelihood().fit(records, mean=mean, prior=float(ill.mean()), noise=noise)
        right = attack.labels_ == ill
    except AttackFailed:  # the mean tells nothing: guess the larger class
        right = ~ill
    return float(right[inside].mean()), float(right[~inside].mean())


def line(what: str, contributors: float, others: float) -> None:
    """Print a line of the table."""
    print(f"{what:<32}{contributors:>14.1%}{others:>10.1%}")


print(f"{'diagnoses guessed right, of':<32}{'contributors':>14}{'others':>10}")
line("nothing is released", float((~ill)[inside].mean()), float((~ill)[~inside].mean()))
line("the mean of the ill", *guessed(rows.mean(axis=0)))
for epsilon in (10.0, 1.0, 0.1):
    defence = gaussian(epsilon, bounds=Box(0.0, 1.0))
    found = []
    for seed in range(5):
        noisy = defence.release(rows, sender="hospital", receiver="public", rng=seed)
        found.append(guessed(noisy.mean, cofill.Noise("gaussian", float(noisy.scale.mean()))))
    line(f"with noise, ε = {epsilon:g}", *np.mean(found, axis=0))
print("\nOthers are guessed as well as contributors: the mean tells about a population, and noise")
print("hides who is in the mean. It says what it promises:")
print(noisy.guarantee)
