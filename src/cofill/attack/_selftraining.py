"""The strongest attack: the likelihood's guesses, then a kernel learns from them.

growPU's idea, to let a classifier grow from its own guesses under a known share of positives, from
a far better start and without its instability: first guesses are those of the regression that the
released mean allows, every record is judged by a regression that left its own guess out, and the
records judged highest, as many as there were guesses, are the next guess. The smoother is fixed,
so that rounds are nearly free and go on until guesses repeat themselves. Kernel and ridge are those
that predict the first guesses best out of sample, and the result is kept only if it agrees with the
released mean about as well as the first guesses, or as chance lets the truth agree: no label is
used in any choice.

The number of guesses is how many records are more likely positive than not, which is the share of
positives where classes are apart, and is not where many records are alike; where the mean is off in
ways that nobody knows it is the share of positives (see _likelihood).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from cofill.attack._base import AbstractCalibratedAttack, Noise, Records
from cofill.attack._discriminant import Direction, calibrated, direction_of, quantile_cut
from cofill.attack._kernel import Kernel, Smoother, kernel_of
from cofill.attack._likelihood import fit_guesses
from cofill.attack._spread import Spread, spread_of
from cofill.errors import SettingError

__all__ = ["SelfTraining"]

RIDGES = (0.1, 1.0)
TRIAL = 400  # landmarks with which kernels are compared
CERTAIN = 0.995
WORSE = 1.5  # how much farther from the released mean than the first guesses


class SelfTraining(AbstractCalibratedAttack):
    """Maximum likelihood from the mean, then cross-fitted self-training.

    Parameters
    ----------
    rounds
        At most so many rounds.
    landmarks
        Of the kernel; more are slower and finer.
    most
        Self-training looks at so many of the records (chosen at random); the others are judged
        by what was learned.
    seed
        Of landmarks and of the chosen records.

    Attributes
    ----------
    changed_
        Share of guesses that changed in each round.
    gap_
        How far the mean of the guessed positives is from the released mean, before and after; None
        where the likelihood left no doubt and nothing was learned.
    sureness_
        Accuracy that the attack expects of its labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) < 100
    >>> records = rng.normal(size=(400, 5)) + 2 * truth[:, None]
    >>> attack = SelfTraining().fit(records, mean=records[truth].mean(axis=0), prior=0.25)
    >>> bool((attack.labels_ == truth).mean() > 0.95)
    True
    """

    name = "self-training"
    accepts_sparse = True

    def __init__(
        self, *, rounds: int = 50, landmarks: int = 2000, most: int = 20_000, seed: int = 0
    ) -> None:
        self.rounds = rounds
        self.landmarks = landmarks
        self.most = most
        self.seed = seed

    def _fit(
        self,
        records: Records,
        mean: Float[np.ndarray, " features"],
        prior: float,
        noise: Noise | None,
    ) -> Float[np.ndarray, " records"]:
        for name in ("rounds", "landmarks", "most"):
            if getattr(self, name) < 2:
                raise SettingError(f"{name} must be at least 2, got {getattr(self, name)}")
        spread = spread_of(records)
        direction = direction_of(spread, mean, noise)
        self.model_ = fit_guesses(records, spread, direction, mean, prior, noise)
        likely = expit(self.model_.logits(records))
        return self.improved(records, spread, direction, likely, mean, prior)

    def improved(
        self,
        records: Records,
        spread: Spread,
        direction: Direction,
        likely: Float[np.ndarray, " records"],
        mean: Float[np.ndarray, " features"],
        prior: float,
    ) -> Float[np.ndarray, " records"]:
        """Return what self-training makes of first probabilities."""
        self.weights_: Any = None
        self.changed_: list[float] = []
        self.gap_: tuple[float, float] | None = None
        if direction.variance == 0 and np.maximum(likely, 1 - likely).mean() > CERTAIN:
            return likely  # guesses that the mean leaves no doubt about have nothing to learn
        start = likely > 0.5
        if start.all() or not start.any():
            start, _ = quantile_cut(likely, prior)
        count = records.shape[0]
        some = np.arange(count)
        if count > self.most:
            some = np.sort(np.random.default_rng([self.seed, 1]).permutation(count)[: self.most])
        rows, first = (records, start) if len(some) == count else (records[some], start[some])
        kernel, smoother = self._learner(rows, spread, first)
        judged, cut, self.changed_ = self._grow(smoother, first)
        ended = judged > cut
        gap = Gap(spread, mean, direction.variance)
        self.gap_ = gap(rows, first), gap(rows, ended)
        if self.gap_[1] > max(WORSE * self.gap_[0], gap.of_truth):
            self.notes_.append(
                "self-training led away from the released mean; the likelihood's guesses stand"
            )
            return likely
        self.kernel_, self.weights_ = kernel, smoother.weights(_signs(ended))
        places = direction.places(rows)
        self.slope_, self.cut_ = calibrated(judged, places, direction.cautious, cut=cut)
        if expit(self.slope_ * np.abs(judged - cut)).mean() > CERTAIN:
            # Even certain guesses agree with the mean, so that it says nothing of certainty: they
            # claim no more than the likelihood's guesses do.
            claimed = float(np.maximum(likely, 1 - likely).mean())
            self.slope_ = _slope_for(np.abs(judged - cut), claimed)
        if len(some) == count:
            return expit(self.slope_ * (judged - cut))
        scores = self._score(records)
        scores[some] = expit(self.slope_ * (judged - cut))
        return scores

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        if self.weights_ is None:
            return expit(self.model_.logits(records))
        judged = self.kernel_.features(records) @ self.weights_
        return expit(self.slope_ * (judged.astype(np.float64) - self.cut_))

    def _learner(
        self, records: Records, spread: Spread, start: Bool[np.ndarray, " some"]
    ) -> tuple[Kernel, Smoother]:
        """Return the kernel and ridge that predict the first guesses best out of sample."""
        labels, found = _signs(start), []
        count = records.shape[0]
        for scale in scales(spread):
            kernel = kernel_of(records, scale, min(TRIAL, count), self.seed)
            features = kernel.features(records)
            for ridge in RIDGES:
                left = Smoother.of(features, ridge).left_out(labels)
                found.append((float(np.mean((left - labels) ** 2)), len(found), scale, ridge))
        _, _, scale, ridge = min(found)
        kernel = kernel_of(records, scale, min(self.landmarks, count), self.seed)
        return kernel, Smoother.of(kernel.features(records), ridge)

    def _grow(
        self, smoother: Smoother, start: Bool[np.ndarray, " some"]
    ) -> tuple[Float[np.ndarray, " some"], float, list[float]]:
        """Return the last judgements, the cut between guesses, and the changes in each round."""
        share = float(start.mean())
        before = guess = start
        changed: list[float] = []
        while True:
            judged = smoother.left_out(_signs(guess)).astype(np.float64)
            after, cut = quantile_cut(judged, share)
            changed.append(float((after != guess).mean()))
            # A few records at the cut may change places for ever.
            if (after == before).all() or not changed[-1] or len(changed) == self.rounds:
                return judged, cut, changed
            before, guess = guess, after


def _signs(guess: np.ndarray) -> np.ndarray:
    return np.where(guess, np.float32(1), np.float32(-1))


def _slope_for(away: Float[np.ndarray, " some"], sureness: float) -> float:
    """Return the slope at which probabilities so far from the cut have this mean sureness."""
    low, high = 1e-6, 1e6
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if expit(middle * away).mean() < sureness else (low, middle)
    return float(np.sqrt(low * high))


def scales(spread: Spread) -> list[np.ndarray]:
    """Return the records' own units, and those in which every column varies alike."""
    deviation = np.sqrt(np.einsum("fk,k,fk->f", spread.vectors, spread.values, spread.vectors))
    own = np.ones_like(deviation)
    varies = deviation > 1e-6 * deviation.max()
    if not varies.any() or np.ptp(deviation[varies]) <= 0.01 * deviation.max():
        return [own]
    return [own, np.where(varies, deviation, deviation.max())]


class Gap:
    """How far guessed positives' mean is from the released one, in units of chance.

    Along each eigenvector the difference is measured by what noise and the choice of other
    records of that number would make of it; `of_truth` is what even the truth may show.
    """

    def __init__(self, spread: Spread, mean: np.ndarray, variance: float) -> None:
        self.vectors = spread.vectors
        self.mean = mean
        values = spread.values + 1e-6 * spread.values.sum()
        self.variance = variance + values / spread.count
        self.of_truth = 1 + 3 * np.sqrt(2 / len(values))

    def __call__(self, records: Records, guess: np.ndarray) -> float:
        chosen = records[np.flatnonzero(guess)]
        mean = np.asarray(chosen.mean(axis=0), dtype=np.float64).ravel()
        along = self.vectors.T @ (mean - self.mean)
        return float(np.mean(along**2 / self.variance))
