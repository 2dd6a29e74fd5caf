"""The attack on the released means of several classes: who is in which.

The multinomial likelihood's guesses, then self-training as for one mean: kernel regressions, one
for each class, judge every record without its own guess, and the next guess keeps the number of
guesses of each class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cofill.attack._direction import bisect_slope, fit_direction, quantile_cut, weigh_signals
from cofill.attack._inputs import Noise, Records, check_columns, check_enough, check_records
from cofill.attack._kernel import choose_smoother, repeat_guesses, sample_records
from cofill.attack._multinomial import Classes, complete_classes, fit_multinomial
from cofill.attack._selftraining import CERTAIN
from cofill.attack._spread import Spread, measure_spread
from cofill.completion import kept_on_failure
from cofill.nets import require_at_least

Fitted = TypeVar("Fitted", bound="MultiClass")

_SWEEPS = 20  # over all classes; where ties keep numbers from fitting there is no end
_WORSE = 1.5  # how much farther from the released means than the first guesses


@dataclass(kw_only=True, eq=False, repr=False)
class MultiClass(BaseEstimator):
    """Guess every record's class from the means of several classes.

    Parameters
    ----------
    rounds
        At most so many rounds of self-training; 0 leaves the likelihood's guesses.
    landmarks, most, seed
        As in `SelfTraining`.

    Attributes
    ----------
    classes_
        Names of the classes; ``"rest"`` is the last where the shares leave something of 1.
    priors_
        Their shares, as passed or as they follow from the means.
    scores_, labels_
        Probability of each class for each record of `fit`, and the name of the likeliest.
    expected_accuracy_
        Accuracy that the attack expects of its labels.
    changed_
        Share of guesses that changed in each round.
    notes_
        Sentences about how the attack went.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> kind = np.arange(600) % 3
    >>> records = rng.normal(size=(600, 4)) + 4 * np.eye(3, 4)[kind]
    >>> means = {name: records[kind == k].mean(axis=0) for k, name in enumerate("abc")}
    >>> attack = MultiClass().fit(records, means=means)
    >>> bool((attack.labels_ == np.array(list("abc"))[kind]).mean() > 0.97)
    True
    """

    name: ClassVar[str] = "several classes"

    rounds: int = 50
    landmarks: int = 2000
    most: int = 20_000
    seed: int = 0

    def fit(
        self: Fitted,
        records: Any,
        *,
        means: Mapping[str, Any],
        priors: Mapping[str, float | int] | None = None,
        noise: Noise | None = None,
    ) -> Fitted:
        """Learn to tell who is in which class.

        Parameters
        ----------
        records
            One row per individual, dense or sparse.
        means
            Released mean of each class, by its name.
        priors
            Share of the records in each of these classes; what they leave of 1 is one more class.
            None if the means are those of all classes, whose shares then follow.
        noise
            What was added to each mean, if the attacker knows.
        """
        require_at_least(self, rounds=0, landmarks=2, most=2)
        rows = check_records(records, sparse_allowed=True)
        check_enough(rows)
        spread = measure_spread(rows, 0.0 if noise is None else noise.variance)
        classes = complete_classes(spread, means, priors)
        model = fit_multinomial(rows, spread, classes)
        likely = softmax(model.logits(rows), axis=1)
        with kept_on_failure(self):
            self.n_features_in_ = rows.shape[1]
            self.model_, self.kernel_ = model, None
            self.notes_: list[str] = []
            self.changed_: list[float] = []
            self.classes_: Shaped[np.ndarray, " classes"] = np.array(classes.names)
            self.priors_ = dict(zip(classes.names, classes.shares.tolist(), strict=True))
            scores = self._self_train(rows, spread, classes, likely) if self.rounds else None
            self.scores_: Float[np.ndarray, "records classes"] = (
                likely if scores is None else scores
            )
            self.labels_ = self.classes_[self.scores_.argmax(axis=1)]
        return self

    @property
    def expected_accuracy_(self) -> float:
        """Accuracy that the attack expects of its labels, without having seen a label."""
        return float(self.scores_.max(axis=1).mean())

    def predict(self, records: Any) -> Shaped[np.ndarray, " records"]:
        """Return each record's likeliest class."""
        likeliest = self.predict_proba(records).argmax(axis=1)  # checks first that it is fitted
        return self.classes_[likeliest]

    def predict_proba(self, records: Any) -> Float[np.ndarray, "records classes"]:
        """Return the probability of each class for each record."""
        check_is_fitted(self, "scores_")
        rows = check_records(records, sparse_allowed=True)
        check_columns(rows, self.n_features_in_)
        return self._score(rows)

    def _score(self, records: Records) -> Float[np.ndarray, "records classes"]:
        if self.kernel_ is None:
            return softmax(self.model_.logits(records), axis=1)
        judged = (self.kernel_.features(records) @ self.weights_).astype(np.float64)
        return softmax(self.slope_ * (judged - self.offsets_), axis=1)

    def _self_train(
        self,
        records: Records,
        spread: Spread,
        classes: Classes,
        likely: Float[np.ndarray, "records classes"],
    ) -> Float[np.ndarray, "records classes"] | None:
        """Let a kernel learn from the likelihood's guesses; None where those should stand."""
        pairs = zip(classes.means, (1 - classes.shares) / classes.shares, strict=True)
        lines = [
            fit_direction(spread, weigh_signals(spread.along(mean), spread.noise, largest)[0])
            for mean, largest in pairs
        ]
        kinds, count = len(classes.names), records.shape[0]
        sure, start = float(likely.max(axis=1).mean()), likely.argmax(axis=1)
        certain = sure > CERTAIN and not spread.noise.any()
        if certain or len(np.unique(start)) < kinds:
            return None  # nothing to learn, or nothing to learn a class from
        some = sample_records(count, self.most, self.seed)
        rows, first = records[some], start[some]
        kernel, smoother = choose_smoother(rows, _signs(first, kinds), self.landmarks, self.seed)
        wanted = np.bincount(first, minlength=kinds)
        judged, ended, offsets, self.changed_ = repeat_guesses(
            lambda guess: np.column_stack([smoother.left_out(s) for s in _signs(guess, kinds)]),
            lambda judged: balance_classes(judged, wanted),
            first,
            self.rounds,
        )
        before, after = (
            np.mean([gap(spread, m, rows, guesses == k) for k, m in enumerate(classes.means)])
            for guesses in (first, ended)
        )
        # Even the truth may show this much: the mean of squares that chance makes of size 1.
        of_truth = 1 + 3 * np.sqrt(2 / spread.basis.shape[1])
        if after > max(_WORSE * before, of_truth):
            self.notes_.append(
                "self-training led away from the released means; the likelihood's guesses stand"
            )
            return None
        judged = judged - offsets
        positions = np.column_stack([line.positions(rows) for line in lines])
        pairs = zip(classes.shares, lines, strict=True)
        released = float(sum(share * line.cautious for share, line in pairs))
        self.kernel_, self.offsets_ = kernel, offsets
        self.slope_ = _fit_slope(judged, positions, released, sure)
        self.weights_ = np.column_stack([smoother.weights(s) for s in _signs(ended, kinds)])
        scores = softmax(self.slope_ * judged, axis=1)
        if len(some) == count:
            return scores
        every = self._score(records)
        every[some] = scores
        return every


def balance_classes(
    judged: Float[np.ndarray, "records classes"], wanted: Int[np.ndarray, " classes"]
) -> tuple[Int[np.ndarray, " records"], Float[np.ndarray, " classes"]]:
    """Return for each record the class judged highest above offsets that give each its number.

    Each class's offset in turn is set so that it wins as often as wanted; that is descent on the
    dual of an assignment problem, and ends where all classes have their number or ties prevent it.

    Examples
    --------
    >>> balance_classes(np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), np.array([1, 2]))[0]
    array([0, 1, 1])
    """
    offsets = np.zeros(judged.shape[1])
    for _ in range(_SWEEPS):
        guess = (judged - offsets).argmax(axis=1)
        if (np.bincount(guess, minlength=len(offsets)) == wanted).all():
            break
        for k in range(len(offsets)):
            others = np.delete(judged - offsets, k, axis=1).max(axis=1)
            _, offsets[k] = quantile_cut(judged[:, k] - others, wanted[k] / len(judged))
        offsets -= offsets.mean()
    return (judged - offsets).argmax(axis=1), offsets


def gap(spread: Spread, mean: np.ndarray, records: Records, guess: np.ndarray) -> float:
    """Return how far guessed members' mean is from the released one, in units of chance.

    Along each direction the difference is measured by what noise and the choice of other
    records of that number would make of it.
    """
    if not guess.any():
        return np.inf
    chosen = records[np.flatnonzero(guess)]
    guessed = np.asarray(chosen.mean(axis=0), dtype=np.float64).ravel()
    off = spread.along(guessed) - spread.along(mean)
    return float(np.mean(off**2 / (spread.noise + 1 / spread.count)))


def _signs(guess: np.ndarray, kinds: int) -> list[np.ndarray]:
    return [np.where(guess == k, np.float32(1), np.float32(-1)) for k in range(kinds)]


def _fit_slope(judged: np.ndarray, positions: np.ndarray, released: float, sure: float) -> float:
    """Return the slope at which probabilities agree with the released means, as for one mean.

    The sum over classes of the expected mean position on the class's line, weighted by the shares,
    must be what was released. Probabilities that are certain even so claim `sure`.
    """

    def accuracy(slope: float) -> float:
        return float(softmax(slope * judged, axis=1).max(axis=1).mean())

    def mean_position(slope: float) -> float:
        return float((softmax(slope * judged, axis=1) * positions).sum() / len(positions))

    slope = bisect_slope(mean_position, released)
    return slope if accuracy(slope) <= CERTAIN else bisect_slope(accuracy, sure)
