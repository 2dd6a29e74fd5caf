"""The records of the experiments on released means, and the means in the paper's variations.

Section 6.1.2 of the growPU paper: the mean of all positives; the mean that a generator trained on
the positives simulates, for a mean of other people of the same kind; and the mean with Laplace
noise of scale (max − min) / (n ε) on each coordinate, which the paper calls ε-differentially
private. It is so for each coordinate, not for the vector. An attacker who heeds noise is told its
size. That of Laplace noise is its scale. How far off a simulated mean is, anybody can try who has
the records: as many of them, whoever they are, are simulated by the same generator, and the root
mean square by which a coordinate of their mean is missed is what is told. Generators do not end
alike on two machines, so simulated means go into the record, and attacks that are added to it are
given the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from cofill.attack import Noise
from cofill.views import load
from cofill_papers._attacks import Case, ReleasedMean
from cofill_papers._behaviour import behaviour
from cofill_papers._gan import GANSettings, draw_rows, fit_generators

__all__ = ["EPSILON", "KINDS", "SOURCES", "cases_of", "simulated_note"]

EPSILON = 0.01
KINDS = ("noiseless", "distribution", "noisy")
_POSITIVE, _NEGATIVE = 5, 3
# Whole numbers, most of them zero, are learned from blurred rows only, and by longer training.
# Rows are not rounded: that would take small numbers away, which are drawn between 0 and 1.
_OF_COUNTS = GANSettings(
    hidden=(128, 256), steps=8000, batch=512, learning_rate=5e-4, blur=0.3, average=0.999
)

Source = Callable[[int, int], tuple[Float[np.ndarray, "records d"], Bool[np.ndarray, " records"]]]


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    data = load("mnist", part="train")
    chosen = np.isin(data.labels, [_POSITIVE, _NEGATIVE])
    images = data.views["image"].cells[chosen].astype(np.float32)
    top = float(images.max())
    return images / (top / 2) - 1, data.labels[chosen]


def _mnist(seed: int, of_each: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many fives as threes, pixels in [−1, 1]."""
    images, labels = _digits()
    rng = np.random.default_rng([seed, _POSITIVE, _NEGATIVE])
    parts = [rng.permutation(np.flatnonzero(labels == d))[:of_each] for d in (_POSITIVE, _NEGATIVE)]
    rows = rng.permutation(np.concatenate(parts))
    return images[rows], labels[rows] == _POSITIVE


def _behaviour(seed: int, of_each: int) -> tuple[np.ndarray, np.ndarray]:
    records, truth = behaviour(of_each, key=seed)
    return records.astype(np.float32), truth


SOURCES: dict[str, tuple[Source, int, int]] = {
    "mnist": (_mnist, 5_000, 500),
    "behaviour": (_behaviour, 10_000, 1_000),
}
"""Records of a seed, how many of each class, and the paper's batch."""


def cases_of(
    source: str,
    seeds: Sequence[int],
    kinds: Sequence[str],
    *,
    of_each: int | None = None,
    share_seen: float = 1.0,
    generator: GANSettings | None = None,
    simulated: Mapping[str, Any] | None = None,
) -> list[Case]:
    """Return the cases of an experiment.

    Parameters
    ----------
    source
        ``"mnist"`` (fives are positive, threes are not) or ``"behaviour"``.
    seeds
        One case for each.
    kinds
        Of means, among `KINDS`, or ``"some-100"`` (the mean of so many positives) and
        ``"epsilon-0.1"`` (noise for another ε).
    of_each
        Records of each class; the paper's number when left out.
    share_seen
        Share of the records that the attacker trains on.
    generator
        How the generator of the distribution's mean is trained.
    simulated
        What `simulated_note` told of some seeds; for the others a generator is trained.
    """
    draw, usual, _ = SOURCES[source]
    drawn = [draw(seed, of_each or usual) for seed in seeds]
    simulated_means: Sequence[ReleasedMean | None] = [None] * len(drawn)
    if "distribution" in kinds:
        known = _noted(simulated or {})
        new = [k for k, seed in enumerate(seeds) if seed not in known]
        if new:
            fresh = _simulated([drawn[k] for k in new], [seeds[k] for k in new], generator)
            known |= {seeds[k]: mean for k, mean in zip(new, fresh, strict=True)}
        simulated_means = [known[seed] for seed in seeds]
    return [
        Case(
            seed,
            records,
            truth,
            _means(records, truth, seed, kinds, distribution),
            None if share_seen >= 1 else _some(seed, len(records), share_seen),
        )
        for (records, truth), seed, distribution in zip(drawn, seeds, simulated_means, strict=True)
    ]


def simulated_note(cases: Sequence[Case]) -> dict[str, Any]:
    """Return by seed the simulated mean and how far off it is said to be, for a record."""
    released = {case.seed: case.means["distribution"] for case in cases}
    return {
        str(seed): {"mean": mean.mean.tolist(), "off": mean.noise.scale}
        for seed, mean in released.items()
        if mean.noise is not None
    }


def _noted(note: Mapping[str, Any]) -> dict[int, ReleasedMean]:
    return {
        int(seed): ReleasedMean(np.array(mean["mean"]), Noise("unknown", mean["off"]))
        for seed, mean in note.items()
    }


def _means(
    records: np.ndarray,
    truth: np.ndarray,
    seed: int,
    kinds: Sequence[str],
    simulated: ReleasedMean | None,
) -> dict[str, ReleasedMean]:
    mean = records[truth].mean(axis=0, dtype=np.float64)
    means: dict[str, ReleasedMean] = {}
    for kind in kinds:
        if kind == "noiseless":
            means[kind] = ReleasedMean(mean)
        elif kind == "noisy":
            means[kind] = _noisy(records, np.flatnonzero(truth), EPSILON, seed)
        elif kind == "distribution" and simulated is not None:
            means[kind] = simulated
        else:
            means[kind] = _other(kind, records, truth, seed)
    return means


def _other(kind: str, records: np.ndarray, truth: np.ndarray, seed: int) -> ReleasedMean:
    """Return the release that a name says: a mean of some positives, or under other noise."""
    what, _, size = kind.partition("-")
    people = np.random.default_rng([seed, 3, 100]).permutation(np.flatnonzero(truth))
    if what == "epsilon":
        return _noisy(records, people, float(size), seed)
    return ReleasedMean(records[people[: int(size)]].mean(axis=0, dtype=np.float64))


def _noisy(records: np.ndarray, people: np.ndarray, epsilon: float, seed: int) -> ReleasedMean:
    extent = float(records.max() - records.min())
    noise = Noise("laplace", extent / (len(people) * epsilon))
    mean = records[people].mean(axis=0, dtype=np.float64)
    # The words after the seed keep this stream apart from that of the records.
    added = noise.draw(len(mean), np.random.default_rng([seed, 1, 100]))
    return ReleasedMean(mean + added, noise)


def _simulated(
    drawn: Sequence[tuple[np.ndarray, np.ndarray]],
    seeds: Sequence[int],
    settings: GANSettings | None,
) -> list[ReleasedMean]:
    """Return for each seed the mean of as many generated positives as there are real ones."""
    positives = np.stack([records[truth] for records, truth in drawn])
    anybody = np.stack(
        [
            # The words after the seed keep this stream apart from the others.
            records[np.random.default_rng([seed, 2, 100]).permutation(len(records))[: truth.sum()]]
            for (records, truth), seed in zip(drawn, seeds, strict=True)
        ]
    )
    has_counts = bool((positives == np.rint(positives)).all())
    settings = settings or (_OF_COUNTS if has_counts else GANSettings())
    missed = _generated(anybody, seeds, settings) - anybody.mean(axis=1, dtype=np.float64)
    off = np.sqrt(np.mean(missed**2, axis=1))
    # Rounded, so that a record holds what was attacked.
    means = _generated(positives, seeds, settings).round(6)
    return [
        ReleasedMean(mean, Noise("unknown", float(f"{size:.6g}")))
        for mean, size in zip(means, off, strict=True)
    ]


def _generated(
    rows: Float[np.ndarray, "seeds people d"],
    seeds: Sequence[int],
    settings: GANSettings,
) -> Float[np.ndarray, "seeds d"]:
    """Return means of as many generated rows."""
    keys = jax.vmap(jax.random.key)(np.array(seeds))
    generated = draw_rows(fit_generators(rows, keys, settings), rows.shape[1], keys, settings)
    return generated.mean(axis=1, dtype=np.float64)


def _some(seed: int, count: int, share: float) -> np.ndarray:
    chosen = np.random.default_rng([seed, 10]).permutation(count)[: round(share * count)]
    return np.sort(chosen)
