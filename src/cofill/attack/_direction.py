"""What a released mean says of the classes: how much of it is true, and Fisher's direction.

The released mean m of the positives, the mean μ and covariance Σ of all records and the share π of
positives give the rest: the negatives' mean is (μ − πm) / (1 − π), so the classes lie Δ = (m − μ) /
(1 − π) apart, and because Σ is the covariance within classes plus π(1 − π)ΔΔᵀ, Σ⁻¹Δ points where
Fisher's direction does. No label is needed. In the units of `Spread` it is the mean itself.

Noise on the mean is noise on Δ. Beforehand Δ may have any size, up to the largest that a share of
records can have, and may be larger along directions with less noise: a grid of such hypotheses is
weighed by how likely each makes the released mean, and what is believed of the true mean is the
average over them (`Belief`). Nothing is tuned on anybody's label.

A mean may also be off in ways nobody stated: of other people, or made by a generator. It is where
no choice of these records can have such a mean; then noise of the most likely variance stands in
for what is not known.

Probabilities are calibrated by what was released: their sum must be the number of positives, and
the positives' expected mean on the discriminant's line the released one. These two equations set
the cut and the slope.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.special import expit, logsumexp

from cofill.attack._inputs import Noise, Records
from cofill.attack._mixture import group_means, is_beyond
from cofill.attack._spread import Spread, measure_spread

FLATTEST, STEEPEST = 1e-2, 1e3  # slopes between which probabilities are calibrated
_DIGITS = 6  # to which a mean may have been rounded
_TILTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)  # powers of 1 / noise that the signal may follow
_SIZES = np.geomspace(1e-4, 1.0, 13)  # of the signal, relative to the largest possible one
_ROUNDING = 1e-9  # of the range of positions, within which they count as equal
_ENOUGH = 20_000  # groups of records by which probabilities are calibrated


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of the true mean of the positives, in the units of a spread."""

    observed: Float[np.ndarray, " kept"]
    noise: Float[np.ndarray, " kept"]  # variance along each direction
    weights: Float[np.ndarray, " hypotheses"]
    signals: Float[np.ndarray, "hypotheses kept"]  # variance of the true mean beforehand

    @property
    def is_noisy(self) -> bool:
        """Whether the released mean may differ from the true one."""
        return bool(self.noise.any())

    @property
    def factors(self) -> Float[np.ndarray, " kept"]:
        """Part of each coordinate that is expected to be true."""
        return self.weights @ (self.signals / (self.signals + self.noise))

    @property
    def expected(self) -> Float[np.ndarray, " kept"]:
        """The true mean as far as it is known."""
        return self.factors * self.observed

    def draw_pair(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return two means that may be the true one, as far on either side of what is expected."""
        signal = self.signals[rng.choice(len(self.weights), p=self.weights)]
        factors = signal / (signal + self.noise)
        expected = factors * self.observed
        away = np.sqrt(factors * self.noise) * rng.normal(size=len(factors))
        return expected + away, expected - away


def weigh_signals(
    observed: Float[np.ndarray, " kept"], noise: Float[np.ndarray, " kept"], largest: float
) -> tuple[Belief, float]:
    """Return what is believed of a mean and the log-likelihood of what was released.

    ``largest`` is the squared length that no mean of the class can exceed.
    """
    if not noise.any():
        return Belief(observed, noise, np.ones(1), np.ones((1, len(noise)))), 0.0
    level = -np.log(np.maximum(noise, 1e-12 * noise.max()))
    shapes = np.exp(np.outer(_TILTS, level - level.max()))
    shapes /= shapes.sum(axis=1, keepdims=True)
    signals = (largest * _SIZES[:, None, None] * shapes).reshape(-1, len(noise))
    total = signals + noise
    likely = -0.5 * (np.log(total) + observed**2 / total).sum(axis=1)
    weight = logsumexp(likely)
    return Belief(observed, noise, np.exp(likely - weight), signals), float(weight)


def read_release(
    records: Records, mean: Float[np.ndarray, " features"], noise: Noise | None, prior: float | None
) -> tuple[Spread, Belief, bool]:
    """Return the records' units, what is believed of the true mean, whether it is off.

    Without a `prior` the share may be anything, and a mean without stated noise is believed.
    """
    stated = noise or rounding_noise(mean, None if prior is None else _count_step(records, prior))
    spread = measure_spread(records, 0.0 if stated is None else stated.variance)
    observed = spread.along(mean)
    length = float(observed @ observed)
    largest = length if prior is None else (1 - prior) / prior
    belief, _ = weigh_signals(observed, spread.noise, largest)
    if noise is not None or prior is None:
        return spread, belief, noise is not None and noise.kind == "unknown"
    line = fit_direction(spread, belief)
    if not (spread.is_off(mean) or is_beyond(line.positions(records), prior, line.cautious)):
        return spread, belief, False
    spread = measure_spread(records, 1.0)
    observed = spread.along(mean)
    usual = float(np.median(observed**2 / spread.noise))
    tried = [weigh_signals(observed, usual * size * spread.noise, largest)
             for size in np.geomspace(1e-4, 1e2, 25)]  # fmt: skip
    return spread, max(tried, key=lambda pair: pair[1])[0], True


def rounding_noise(mean: Float[np.ndarray, " features"], step: float | None = None) -> Noise | None:
    """Return the noise of a mean that was written with few digits, which anybody can see.

    A mean of whole numbers is a multiple of a `step`, one over the number of positives. It may have
    few digits and be exact, where all its coordinates are such multiples and digits are finer.

    Examples
    --------
    >>> rounding_noise(np.array([0.25, 0.125]))
    Noise(kind='gaussian', scale=0.0002886751345948129)
    >>> rounding_noise(np.array([0.25, 0.125]), 1 / 8) is None
    True
    """
    for digits in range(_DIGITS + 1):
        if np.allclose(mean, np.round(mean, digits), rtol=0, atol=1e-9 * 10.0**-digits):
            if step is not None and 10.0**-digits < step * (1 + 1e-9):
                counts = mean / step
                if np.allclose(counts, np.round(counts), rtol=0, atol=1e-6):
                    return None
            return Noise("gaussian", 10.0**-digits / 12**0.5)
    return None


def _count_step(records: Records, prior: float) -> float | None:
    """Return the step of means of whole numbers, None where records are not whole numbers."""
    cells = records.data if sparse.issparse(records) else records
    if (cells != np.round(cells)).any():
        return None
    return 1 / max(round(prior * records.shape[0]), 1)


@dataclass(frozen=True, eq=False)
class Direction:
    """A line to project records on, and where on it the released mean lies."""

    weights: Float[np.ndarray, " features"]
    offset: float  # a position is record · weights − offset; that of all records' mean is 0
    expected: float  # position of the positives' mean as far as the noise lets it be known
    error: float  # its standard error

    @property
    def cautious(self) -> float:
        """Position of the positives' mean, less twice its error: a bound for calibration."""
        return self.expected - 2 * self.error

    def positions(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return where records lie on the line."""
        return np.asarray(records @ self.weights, dtype=np.float64).ravel() - self.offset


def fit_direction(spread: Spread, belief: Belief) -> Direction:
    """Return the discriminant's direction; it hardly depends on the share of positives."""
    turned = belief.expected
    weights = spread.basis @ turned
    error = float(np.sqrt(belief.factors * belief.noise @ turned**2))
    return Direction(weights, float(spread.mean @ weights), float(turned @ turned), error)


def quantile_cut(
    positions: Float[np.ndarray, " records"], prior: float
) -> tuple[Bool[np.ndarray, " records"], float]:
    """Return the share of records with the highest positions, and a cut between them and the rest.

    Ties at the cut, up to rounding, are all on one side, so that equal records are guessed alike:
    on the one that leaves the share nearer to what it should be.

    Examples
    --------
    >>> quantile_cut(np.array([3.0, 1.0, 2.0, 0.0]), 0.5)
    (array([ True, False,  True, False]), 1.5)
    >>> quantile_cut(np.array([3.0, 1.0, 1.0, 0.0]), 0.5)
    (array([ True, False, False, False]), 2.0)
    """
    count = len(positions)
    chosen = int(np.clip(round(prior * count), 1, count - 1))
    around = [count - chosen - 1, count - chosen]
    below, above = np.partition(positions, around)[around]
    near = _ROUNDING * float(np.ptp(positions))
    if above - below <= near:
        under, over = positions[positions < below - near], positions[positions > above + near]
        with_ties = count - len(under)
        if len(under) and (not len(over) or with_ties - chosen < chosen - len(over)):
            below = under.max()
        elif len(over):
            above = over.min()
    cut = float((below + above) / 2)
    return positions > cut, cut


def calibrate(
    judged: Float[np.ndarray, " records"],
    positions: Float[np.ndarray, " records"],
    expected: float,
    *,
    prior: float | None = None,
    cut: float = 0.0,
) -> tuple[float, float]:
    """Return the slope and the cut at which judgements, as probabilities, agree with the release.

    With probabilities ``expit(slope · (judged − cut))`` the expected mean of the positives'
    positions must be the released one: too steep, and it lies beyond; too flat, and it falls short.
    With a `prior` the probabilities must also have that mean, which sets the cut; else it stays.
    """
    # Sums over groups of records judged alike are those over records; a sample's would not be.
    order = np.argsort(judged, kind="stable") if len(judged) > _ENOUGH else np.arange(len(judged))
    (judged, positions), count = group_means([judged[order], positions[order]], _ENOUGH)
    scale = float(np.abs(judged - np.median(judged)).mean()) or 1.0

    def cut_at(slope: float) -> float:
        return cut if prior is None else _cut_for_prior(judged, count, slope / scale, prior)

    def mean_at(slope: float) -> float:
        chances = count * expit(slope / scale * (judged - cut_at(slope)))
        return float(chances @ positions / max(chances.sum(), 1e-12))

    if mean_at(STEEPEST) <= expected:
        slope = STEEPEST
    elif mean_at(FLATTEST) >= expected:
        slope = FLATTEST
    else:
        slope = bisect_slope(mean_at, expected)
    return slope / scale, cut_at(slope)


def bisect_slope(
    rising: Callable[[float], float],
    wanted: float,
    low: float = FLATTEST,
    high: float = STEEPEST,
    *,
    rounds: int = 30,
) -> float:
    """Return the slope at which a rising function has the wanted value.

    Examples
    --------
    >>> round(bisect_slope(lambda slope: slope**2, 9.0), 6)
    3.0
    """
    # By the geometric mean: slopes span orders of magnitude.
    for _ in range(rounds):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return float(np.sqrt(low * high))


def _cut_for_prior(judged: np.ndarray, count: np.ndarray, slope: float, prior: float) -> float:
    """Return the cut at which probabilities of this slope have the prior as their mean."""
    wanted = prior * count.sum()
    low, high = judged.min() - 20 / slope, judged.max() + 20 / slope
    for _ in range(50):
        middle = (low + high) / 2
        too_many = count @ expit(slope * (judged - middle)) > wanted
        low, high = (middle, high) if too_many else (low, middle)
    return float((low + high) / 2)
