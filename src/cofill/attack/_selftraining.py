"""The strongest attack: what the mean allows, and what records that resemble each other add.

growPU's idea, to let a classifier grow from its own guesses under a known share of positives, from
a far better start and without its instability. Every record is judged by a kernel regression that
left its own guess out, and the records judged highest, as many as there were guesses, are the next
guess. The smoother is fixed, so that rounds are nearly free and go on until guesses repeat.

What was grown is then weighed by the released mean, without a label:

- It is grown again from parts of the mean, each time without some of its directions, and from means
  that the noise makes possible. How well it foretells the directions it did not see, in units of
  chance, says which slope turns its judgements into probabilities, and whether to believe it at
  all beside the regression: directions are whitened, so that a line foretells nothing of them.
- Its probabilities are tilted until their sums are the released ones, as far as noise lets these be
  known: the posterior of independent labels of which sums are known. A record's own part in the
  mean so counts as much as it does in the likelihood. With a flat slope it is the likelihood.
- Both log-odds are averaged by how much better one foretells than the other. With noise, the
  regression's are first averaged with the discriminant's: neither is the better guess then.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, logit, logsumexp

from cofill.attack._base import AbstractCalibratedAttack
from cofill.attack._direction import calibrate, quantile_cut
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._kernel import Kernel, Smoother, choose_smoother, sample_records
from cofill.attack._likelihood import (
    RIDGE,
    STEEP,
    UNSURE,
    Line,
    Logistic,
    fit_line,
    maximise_likelihood,
    withheld_reason,
)
from cofill.attack._spread import Turned
from cofill.nets import require_at_least

CERTAIN = 0.995
_FOLDS = 5  # parts of the mean's directions, each left out in turn
# All numbers below were chosen by hand, with labels in view, on the development sets of
# `bench.labelled`: figures on those sets are no evidence for them.
# Judgements are regressions on ±1, so that slopes of a few are to be expected: beforehand they
# count as log-normal about 3.
_SLOPES = np.array([0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0])
_SLOPE_BEFORE = -0.5 * (np.log(_SLOPES / 3) / 0.8) ** 2
_MISFITS = 1.6 ** np.arange(14)  # of label variance: how much worse than chance sums may agree
_MISFIT_BEFORE = -0.5 * (np.log(_MISFITS) / 2) ** 2
# An exact mean makes the regression's odds agree with it, so that self-training must foretell much
# better to outweigh it. Where noise hides the mean, self-training is the better guess to begin
# with, unless the line has nothing to start it from. Directions are not quite independent, which
# tempers evidence.
_BURDEN, _START, _TEMPER = 12.0, 4.0, 3.0
_UNSURE = 0.02  # standard deviation of the expected accuracy over what may be true


@dataclass(kw_only=True, eq=False, repr=False)
class SelfTraining(AbstractCalibratedAttack):
    """Maximum likelihood from the mean, and cross-fitted self-training weighed by the mean.

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
        Of landmarks, chosen records, parts of the mean and possible means.

    Attributes
    ----------
    parts_
        Scores by the line and by self-training alone, by name; the latter is left out where the
        line left no doubt and nothing was learned.
    weight_
        How far self-training is believed beside the regression, between 0 and 1.
    changed_
        Share of guesses that changed in each round.

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
        line = fit_line(records, released)
        if line.belief.is_noisy:
            line = line.with_discriminant(released.prior)
        self.line_ = Logistic.of(line.spread, line.weights)
        self.grown_: Grown | None = None
        self.changed_: list[float] = []
        self.weight_ = 0.0
        self._withhold(withheld_reason(line.belief, line.is_off))
        logits = line.turned.times(line.weights)
        likely = expit(logits)
        self.parts_ = {"line": likely}
        first = likely > 0.5
        share = float(first.mean()) if 0 < first.mean() < 1 else released.prior
        sure = float(np.maximum(likely, 1 - likely).mean())
        if (sure > CERTAIN and not line.belief.is_noisy) or records.shape[0] < 8:
            return likely  # guesses that the mean leaves no doubt about have nothing to learn
        some = sample_records(records.shape[0], self.most, self.seed)
        starts, seen = self._starts(line, logits, some, share)
        kernel, smoother = choose_smoother(
            records[some], [_signs(starts[:, 0])], self.landmarks, self.seed
        )
        judged, ended, self.changed_ = _grow(smoother, starts, share, self.rounds)
        weighed = _weigh(line, some, judged, seen, released.prior)
        kept = weighed.columns > 1e-3
        self.grown_ = Grown(
            kernel,
            smoother.weights(_signs(ended[:, kept])),
            judged.cuts[kept],
            weighed.slope,
            weighed.intercepts[kept],
            weighed.columns[kept] / weighed.columns[kept].sum(),
        )
        offset = self.grown_.odds(judged.values[:, kept])
        if len(some) < records.shape[0]:
            every = self.grown_.odds(self.grown_.judge(records))
            every[some] = offset
            offset = every
        return self._tilt(line, offset, logits, weighed, released.prior)

    def _starts(
        self, line: Line, logits: np.ndarray, some: np.ndarray, share: float
    ) -> tuple[Bool[np.ndarray, "some columns"], Bool[np.ndarray, "columns kept"]]:
        """Return first guesses, and which directions of the mean each of them has seen.

        The first column is the regression's guess. The others are discriminants' of means that
        noise makes possible, each without a part of the directions.
        """
        rng = np.random.default_rng([self.seed, 2])
        belief = line.belief
        kept = len(belief.observed)
        folds = min(_FOLDS, kept)
        part = rng.permutation(kept) % folds
        columns, seen = [quantile_cut(logits[some], share)[0]], [np.ones(kept, dtype=bool)]
        for k in range(folds):
            # Two draws on either side of what is expected, or noise would outvote it.
            for mean in belief.draw_pair(rng) if belief.is_noisy else (belief.observed,):
                seen.append(part != k)
                weights = np.append(mean * seen[-1], 0.0)
                columns.append(quantile_cut(line.turned.times(weights)[some], share)[0])
        return np.column_stack(columns), np.stack(seen)

    def _tilt(
        self, line: Line, offset: np.ndarray, logits: np.ndarray, weighed: "Weighed", prior: float
    ) -> Float[np.ndarray, " records"]:
        """Tilt what was grown until its sums are the released ones, and average with the line."""
        count, belief = len(offset), line.belief
        tilt = np.zeros(len(belief.observed) + 1)
        if not line.is_off:  # sums of other people say nothing of these
            noise = (prior * count) ** 2 * belief.noise + RIDGE * count
            sums = prior * count * np.append(belief.observed, 1.0)
            tilt = maximise_likelihood(line.turned, sums, np.append(noise, 0.0), offset)
        grown = offset + line.turned.times(tilt)
        self.tilt_ = Logistic.of(line.spread, tilt)
        self.parts_["self-training"] = expit(grown)
        self.weight_ = weighed.weight
        self.sizes_ = float(np.abs(grown).mean()), float(np.abs(logits).mean())
        odds = _average(grown, logits, self.weight_, self.sizes_)
        self.slope_, self.cut_ = 1.0, quantile_cut(odds, prior)[1] if line.is_off else 0.0
        if belief.is_noisy and withheld_reason(belief, line.is_off) is None:
            # Averages and ridges hold odds back: they must agree with what is believed.
            expected = belief.expected
            positions = line.turned.times(np.append(expected, 0.0))
            slope, cut = calibrate(odds, positions, float(expected @ expected), prior=prior)
            if slope < STEEP:
                self.slope_, self.cut_ = slope, cut
        odds = self.slope_ * (odds - self.cut_)
        labels = odds > 0
        if belief.is_noisy and withheld_reason(belief, line.is_off) is None:
            chances = [*weighed.chances.T, self.parts_["line"][weighed.some]]
            right = np.array([np.where(labels[weighed.some], p, 1 - p).mean() for p in chances])
            spread = np.sqrt(weighed.slopes @ (right - weighed.slopes @ right) ** 2)
            self._withhold(UNSURE if spread > _UNSURE else None)
        return expit(odds)

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        logits = self.line_.logits(records)
        if self.grown_ is None:
            return expit(logits)
        grown = self.grown_.odds(self.grown_.judge(records)) + self.tilt_.logits(records)
        odds = _average(grown, logits, self.weight_, self.sizes_)
        return expit(self.slope_ * (odds - self.cut_))


@dataclass(frozen=True, eq=False)
class Grown:
    """What self-training learned: regressions on a kernel, and the odds by their judgements."""

    kernel: Kernel
    weights: Float[np.ndarray, "landmarks columns"]
    cuts: Float[np.ndarray, " columns"]
    slope: float
    intercepts: Float[np.ndarray, " columns"]
    columns: Float[np.ndarray, " columns"]  # weights of the regressions

    def judge(self, records: Records) -> Float[np.ndarray, "records columns"]:
        """Return how far above the cuts records lie."""
        return (self.kernel.features(records) @ self.weights).astype(np.float64) - self.cuts

    def odds(self, judged: Float[np.ndarray, "records columns"]) -> Float[np.ndarray, " records"]:
        """Return log-odds of the average over regressions."""
        chances = expit(self.slope * judged + self.intercepts) @ self.columns
        return logit(np.clip(chances, 1e-9, 1 - 1e-9))


@dataclass(frozen=True, eq=False)
class Judged:
    """Judgements of records, one column for each start, above the cuts that make guesses."""

    values: Float[np.ndarray, "records columns"]
    cuts: Float[np.ndarray, " columns"]


@dataclass(frozen=True, eq=False)
class Weighed:
    """How what was grown foretells the released mean."""

    slope: float
    intercepts: Float[np.ndarray, " columns"]
    columns: Float[np.ndarray, " columns"]
    weight: float  # beside the regression
    slopes: Float[np.ndarray, " hypotheses"]  # probability of each slope; of the regression last
    chances: Float[np.ndarray, "some slopes"]  # probabilities of records for each slope
    some: np.ndarray


def _grow(
    smoother: Smoother, starts: np.ndarray, share: float, rounds: int
) -> tuple[Judged, np.ndarray, list[float]]:
    """Guess from guesses, all columns at once, until they repeat themselves."""
    previous = current = starts
    changed: list[float] = []
    while True:
        judged = smoother.left_out(_signs(current)).astype(np.float64)
        cuts = np.array([quantile_cut(column, share)[1] for column in judged.T])
        following = judged > cuts
        changed.append(float((following != current).mean()))
        # A few records at the cut may go back and forth for ever.
        if (following == previous).all() or changed[-1] < 1e-4 or len(changed) == rounds:
            return Judged(judged - cuts, cuts), following, changed
        previous, current = current, following


def _weigh(line: Line, some: np.ndarray, judged: Judged, seen: np.ndarray, prior: float) -> Weighed:
    """Weigh slopes, starts and the regression by how well they foretell the released mean."""
    turned = line.turned
    if len(some) < turned.records.shape[0]:
        turned = Turned(turned.records[some], line.spread)
    count = len(some)
    sums = prior * count * line.belief.observed
    # Sums of some of the records differ from their part of all sums by chance.
    noise = (prior * count) ** 2 * line.belief.noise + prior * count * (
        1 - count / line.spread.count
    )
    hidden = ~seen[1:]
    repeats = len(hidden) / min(_FOLDS, len(sums))

    def foretell(chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far sums are from the released ones, and the variance by labels' chance."""
        means, variances = np.zeros((2, len(sums), chances.shape[1]))
        start = 0
        for part in turned:
            piece, along = chances[start : start + len(part)], part[:, :-1]
            means += along.T @ piece
            variances += (along**2).T @ (piece * (1 - piece))
            start += len(part)
        return sums[:, None] - means, np.maximum(variances, 1e-9 * count)

    def hidden_evidence(off: np.ndarray, variance: np.ndarray) -> float:
        rows, columns = np.nonzero(hidden.T)
        at = rows, columns + 1 if off.shape[1] > 1 else np.zeros_like(columns)
        return float(logsumexp(_evidence(off[at], variance[at], noise[rows]) / repeats))

    alone = hidden_evidence(*foretell(np.full((count, 1), prior)))
    evidence: Any = []
    full, chances, intercepts = [], [], []
    for slope in _SLOPES:
        odds = slope * judged.values
        intercepts.append(_intercepts(odds, prior))
        probable = expit(odds + intercepts[-1])
        off, variance = foretell(probable)
        evidence.append(hidden_evidence(off, variance))
        of_column = [
            logsumexp(_evidence(off[:, k], variance[:, k], noise)) for k in range(off.shape[1])
        ]
        # Without noise all columns but the first lack a part of what is known.
        columns = np.exp(of_column - logsumexp(of_column))
        full.append(columns if line.belief.is_noisy else np.eye(len(columns))[0])
        chances.append(probable @ full[-1])
    evidence = np.array(evidence) + _SLOPE_BEFORE - logsumexp(_SLOPE_BEFORE)
    best = int(evidence.argmax())
    known = float(line.belief.factors.mean())
    guesses = turned.times(line.weights) > 0
    start = -_START if guesses.all() or not guesses.any() else _START
    gain = float(logsumexp(evidence)) - alone - _BURDEN * known + start * (1 - known)
    weight = float(expit(gain / _TEMPER))
    return Weighed(
        float(_SLOPES[best]),
        intercepts[best],
        full[best],
        weight,
        np.append(weight * np.exp(evidence - logsumexp(evidence)), 1 - weight),
        np.column_stack(chances),
        some,
    )


def _evidence(off: np.ndarray, variance: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return for each misfit the log-likelihood of sums that are off by so much."""
    total = _MISFITS[:, None] * variance + noise
    return -0.5 * (np.log(total) + off**2 / total).sum(axis=1) + _MISFIT_BEFORE


def _intercepts(odds: np.ndarray, prior: float) -> np.ndarray:
    """Return for each column what makes the probabilities' mean the prior."""
    low, high = np.full(odds.shape[1], -80.0), np.full(odds.shape[1], 80.0)
    for _ in range(40):
        middle = (low + high) / 2
        too_many = expit(odds + middle).mean(axis=0) > prior
        low, high = np.where(too_many, low, middle), np.where(too_many, middle, high)
    return low


def _average(
    grown: np.ndarray, logits: np.ndarray, weight: float, sizes: tuple[float, float]
) -> np.ndarray:
    """Average log-odds, each in units of its mean size, or the more certain would outvote."""
    size = sizes[0] ** weight * sizes[1] ** (1 - weight)
    return size * (weight * grown / sizes[0] + (1 - weight) * logits / sizes[1])


def _signs(guess: Any) -> np.ndarray:
    return np.where(guess, np.float32(1), np.float32(-1))
