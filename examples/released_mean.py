"""Attack the mean record of a hospital's ill patients, then protect it with noise."""

import numpy as np

import cofill
from cofill.attack import AttackFailed
from cofill.privacy import Box, MeanDefence

data = cofill.load("wdbc")
records = np.concatenate([data.views.aligned(name) for name in data.views], axis=1)
# Bounds of a record must be public: these limits stand in for such bounds.
low, high = records.min(axis=0), records.max(axis=0)
records = (records - low) / (high - low)
ill = data.labels == data.class_names.index("malignant")
contributes = np.random.default_rng(0).random(len(ill)) < 0.5  # may go into the mean
rows = records[ill & contributes]


def attack_mean(mean: np.ndarray, noise: cofill.Noise | None = None) -> tuple[float, float]:
    """Return the share of right guesses about contributors, and about everybody else.

    The attacker has all records without the diagnosis, the mean, and the share of ill patients.
    """
    try:
        attack = cofill.Likelihood().fit(records, mean=mean, prior=float(ill.mean()), noise=noise)
        right = attack.labels_ == ill
    except AttackFailed:  # the mean is useless: guess the larger class
        right = ~ill
    return float(right[contributes].mean()), float(right[~contributes].mean())


def print_line(label: str, contributors: float, others: float) -> None:
    """Print one line of the table."""
    print(f"{label:<32}{contributors:>14.1%}{others:>10.1%}")


print(f"{'diagnoses guessed right, of':<32}{'contributors':>14}{'others':>10}")
healthy = ~ill
print_line("nothing is released", healthy[contributes].mean(), healthy[~contributes].mean())
print_line("the mean of the ill", *attack_mean(rows.mean(axis=0)))
for epsilon in (10.0, 1.0, 0.1):
    defence = MeanDefence(Box(0.0, 1.0), epsilon)
    shares = []
    for seed in range(5):
        noisy = defence.release(rows, sender="hospital", receiver="public", rng=seed)
        shares.append(attack_mean(noisy.mean, cofill.Noise("gaussian", float(noisy.scale.mean()))))
    print_line(f"with noise, ε = {epsilon:g}", *np.mean(shares, axis=0))
print("\nOthers are guessed as well as contributors: the mean describes a population. Noise hides")
print("who contributed to the mean, and states its guarantee:")
print(noisy.guarantee)
