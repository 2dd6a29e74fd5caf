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

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from cofill.attack._base import AbstractCalibratedAttack
from cofill.attack._direction import Direction, bisect_slope, calibrate, fit_direction, quantile_cut
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._kernel import choose_smoother, repeat_guesses, sample_records
from cofill.attack._likelihood import fit_calibrated_logistic
from cofill.attack._spread import Spread, measure_spread
from cofill.nets import require_at_least

CERTAIN = 0.995
_WORSE = 1.5  # how much farther from the released mean than the first guesses


@dataclass(kw_only=True, eq=False, repr=False)
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

    rounds: int = 50
    landmarks: int = 2000
    most: int = 20_000
    seed: int = 0

    def _fit(self, records: Records, released: ReleasedMean) -> Float[np.ndarray, " records"]:
        require_at_least(self, rounds=2, landmarks=2, most=2)
        self.weights_: Any = None
        self.changed_: list[float] = []
        self.gap_: tuple[float, float] | None = None
        spread = measure_spread(records)
        line = fit_direction(spread, released.mean, released.noise)
        self.model_ = fit_calibrated_logistic(records, spread, line, released)
        likely = expit(self.model_.logits(records))
        if line.variance == 0 and np.maximum(likely, 1 - likely).mean() > CERTAIN:
            return likely  # guesses that the mean leaves no doubt about have nothing to learn
        start = likely > 0.5
        if start.all() or not start.any():
            start, _ = quantile_cut(likely, released.prior)
        some = sample_records(records.shape[0], self.most, self.seed)
        judged = self._self_train(records[some], spread, line, start[some], likely, released)
        if judged is None:
            return likely
        scores = expit(self.slope_ * (judged - self.cut_))
        if len(some) == records.shape[0]:
            return scores
        every = self._score(records)
        every[some] = scores
        return every

    def _self_train(
        self,
        records: Records,
        spread: Spread,
        line: Direction,
        first: np.ndarray,
        likely: np.ndarray,
        released: ReleasedMean,
    ) -> Float[np.ndarray, " some"] | None:
        """Learn from the likelihood's guesses; None where its own probabilities should stand."""
        if first.all() or not first.any():
            return None  # nothing to learn a class from
        kernel, smoother = choose_smoother(
            records, spread, [_signs(first)], self.landmarks, self.seed
        )
        judged, ended, cut, self.changed_ = repeat_guesses(
            lambda guess: smoother.left_out(_signs(guess)),
            lambda judged: quantile_cut(judged, float(first.mean())),
            first,
            self.rounds,
        )
        gap = Gap(spread, released.mean, line.variance)
        self.gap_ = gap(records, first), gap(records, ended)
        if gap.grew(*self.gap_):
            self.notes_.append(
                "self-training led away from the released mean; the likelihood's guesses stand"
            )
            return None
        self.kernel_, self.weights_ = kernel, smoother.weights(_signs(ended))
        self.slope_, self.cut_ = calibrate(judged, line.positions(records), line.cautious, cut=cut)
        away = np.abs(judged - cut)
        if expit(self.slope_ * away).mean() > CERTAIN:
            # Even certain guesses agree with the mean, so that it says nothing of certainty: they
            # claim no more than the likelihood's guesses do.
            claimed = float(np.maximum(likely, 1 - likely).mean())
            self.slope_ = bisect_slope(
                lambda slope: float(expit(slope * away).mean()), claimed, 1e-6, 1e6, rounds=60
            )
        return judged

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        if self.weights_ is None:
            return expit(self.model_.logits(records))
        judged = self.kernel_.features(records) @ self.weights_
        return expit(self.slope_ * (judged.astype(np.float64) - self.cut_))


def _signs(guess: np.ndarray) -> np.ndarray:
    return np.where(guess, np.float32(1), np.float32(-1))


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

    def grew(self, before: float, after: float) -> bool:
        """Return whether guesses went away from the released mean by more than chance."""
        return bool(after > max(_WORSE * before, self.of_truth))

    def __call__(self, records: Records, guess: np.ndarray) -> float:
        if not guess.any():
            return np.inf
        chosen = records[np.flatnonzero(guess)]
        mean = np.asarray(chosen.mean(axis=0), dtype=np.float64).ravel()
        along = self.vectors.T @ (mean - self.mean)
        return float(np.mean(along**2 / self.variance))
