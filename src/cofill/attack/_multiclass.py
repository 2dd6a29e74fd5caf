"""The attack on the released means of several classes: who is in which.

The multinomial likelihood's guesses, then self-training as for one mean: kernel regressions, one
for each class, judge every record without its own guess, and the next guess keeps the number of
guesses of each class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cofill.attack._base import Noise, Records, check_enough, check_records
from cofill.attack._discriminant import direction_of, quantile_cut
from cofill.attack._kernel import Kernel, Smoother, kernel_of
from cofill.attack._multinomial import Classes, classes_of, fit_multinomial
from cofill.attack._selftraining import CERTAIN, RIDGES, TRIAL, WORSE, Gap, scales
from cofill.attack._spread import Spread, spread_of
from cofill.errors import DataError, SettingError

__all__ = ["MultiClass", "balanced"]

Fitted = TypeVar("Fitted", bound="MultiClass")

_SWEEPS = 20
_FLATTEST, _STEEPEST = 1e-2, 1e3


@dataclass(frozen=True, eq=False)
class _Judge:
    """What self-training learned, for strangers."""

    kernel: Kernel
    weights: Float[np.ndarray, "landmarks classes"]
    offsets: Float[np.ndarray, " classes"]
    slope: float

    def scores(self, records: Records) -> Float[np.ndarray, "records classes"]:
        judged = (self.kernel.features(records) @ self.weights).astype(np.float64)
        return softmax(self.slope * (judged - self.offsets), axis=1)


@dataclass(frozen=True, eq=False)
class _Grown:
    """What came of self-training; without scores the likelihood's stand."""

    scores: Float[np.ndarray, "records classes"] | None = None
    judge: _Judge | None = None
    changed: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class MultiClass(BaseEstimator):
    """Guess every record's class from the means of several classes.

    Parameters
    ----------
    rounds
        At most so many rounds of self-training; 0 leaves the likelihood's guesses.
    landmarks
        Of the kernel; more are slower and finer.
    most
        Self-training looks at so many of the records (chosen at random); the others are judged by
        what was learned.
    seed
        Of landmarks and of the chosen records.

    Attributes
    ----------
    classes_
        Names of the classes; ``"rest"`` is the last where the shares leave something of 1.
    priors_
        Their shares, given or found.
    scores_, labels_
        Probability of each class for each record of `fit`, and the name of the likeliest.
    sureness_
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

    def __init__(
        self, *, rounds: int = 50, landmarks: int = 2000, most: int = 20_000, seed: int = 0
    ) -> None:
        self.rounds = rounds
        self.landmarks = landmarks
        self.most = most
        self.seed = seed

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
        for setting, least in (("rounds", 0), ("landmarks", 2), ("most", 2)):
            if getattr(self, setting) < least:
                got = getattr(self, setting)
                raise SettingError(f"{setting} must be at least {least}, got {got}")
        rows = check_records(records, sparse_allowed=True)
        check_enough(rows)
        spread = spread_of(rows)
        classes = classes_of(spread, means, priors, noise)
        model = fit_multinomial(rows, spread, classes, noise)
        likely = softmax(model.logits(rows), axis=1)
        grown = self._grown(rows, spread, classes, likely, noise) if self.rounds else _Grown()
        # Nothing is set before all of it went well.
        self.n_features_in_ = rows.shape[1]
        self.model_, self.judge_ = model, grown.judge
        self.notes_, self.changed_ = grown.notes, grown.changed
        self.classes_: Shaped[np.ndarray, " classes"] = np.array(classes.names)
        self.priors_ = dict(zip(classes.names, classes.shares.tolist(), strict=True))
        self.scores_: Float[np.ndarray, "records classes"] = (
            likely if grown.scores is None else grown.scores
        )
        self.labels_ = self.classes_[self.scores_.argmax(axis=1)]
        return self

    @property
    def sureness_(self) -> float:
        """Accuracy that the attack expects of its labels, without having seen a label."""
        return float(self.scores_.max(axis=1).mean())

    def predict(self, records: Any) -> Shaped[np.ndarray, " records"]:
        """Return each record's likeliest class."""
        likeliest = self.predict_proba(records).argmax(axis=1)
        return self.classes_[likeliest]

    def predict_proba(self, records: Any) -> Float[np.ndarray, "records classes"]:
        """Return the probability of each class for each record."""
        check_is_fitted(self, "scores_")
        rows = check_records(records, sparse_allowed=True)
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"records must have the {self.n_features_in_} columns they had at fit, got "
                f"{rows.shape[1]}; give the same columns in the same order"
            )
        if self.judge_ is None:
            return softmax(self.model_.logits(rows), axis=1)
        return self.judge_.scores(rows)

    def _grown(
        self,
        records: Records,
        spread: Spread,
        classes: Classes,
        likely: Float[np.ndarray, "records classes"],
        noise: Noise | None,
    ) -> _Grown:
        """Let a kernel learn from the likelihood's guesses."""
        lines = [direction_of(spread, mean, noise) for mean in classes.means]
        kinds, count = len(classes.names), records.shape[0]
        sure, start = float(likely.max(axis=1).mean()), likely.argmax(axis=1)
        certain = sure > CERTAIN and not any(line.variance for line in lines)
        if certain or len(np.unique(start)) < kinds:
            return _Grown()  # nothing to learn, or nothing to learn a class from
        some = np.arange(count)
        if count > self.most:
            some = np.sort(np.random.default_rng([self.seed, 1]).permutation(count)[: self.most])
        rows, first = records[some], start[some]
        kernel, smoother = self._learner(rows, spread, first, kinds)
        wanted = np.bincount(first, minlength=kinds)
        guess = before = first
        changed: list[float] = []
        while True:
            judged = np.column_stack([smoother.left_out(s) for s in _signs(guess, kinds)])
            judged = judged.astype(np.float64)
            after, offsets = balanced(judged, wanted)
            changed.append(float((after != guess).mean()))
            # A few records between classes may change places for ever.
            if (after == before).all() or not changed[-1] or len(changed) == self.rounds:
                break
            before, guess = guess, after
        gaps = [
            Gap(spread, mean, line.variance)
            for mean, line in zip(classes.means, lines, strict=True)
        ]
        far = [
            float(np.mean([gap(rows, guesses == k) for k, gap in enumerate(gaps)]))
            for guesses in (first, after)
        ]
        if far[1] > max(WORSE * far[0], gaps[0].of_truth):
            note = "self-training led away from the released means; the likelihood's guesses stand"
            return _Grown(changed=changed, notes=[note])
        judged = judged - offsets
        places = np.column_stack([line.places(rows) for line in lines])
        wanted_place = float(
            sum(p * line.cautious for p, line in zip(classes.shares, lines, strict=True))
        )
        slope = _slope(judged, places, wanted_place, sure)
        weights = np.column_stack([smoother.weights(s) for s in _signs(after, kinds)])
        judge = _Judge(kernel, weights, offsets, slope)
        scores = softmax(slope * judged, axis=1)
        if len(some) < count:
            whole = judge.scores(records)
            whole[some] = scores
            scores = whole
        return _Grown(scores, judge, changed)

    def _learner(
        self, records: Records, spread: Spread, start: Int[np.ndarray, " some"], kinds: int
    ) -> tuple[Kernel, Smoother]:
        """Return the kernel and ridge that predict the first guesses best out of sample."""
        found, count = [], records.shape[0]
        for scale in scales(spread):
            features = kernel_of(records, scale, min(TRIAL, count), self.seed).features(records)
            for ridge in RIDGES:
                smoother = Smoother.of(features, ridge)
                missed = [np.mean((smoother.left_out(s) - s) ** 2) for s in _signs(start, kinds)]
                found.append((float(np.sum(missed)), len(found), scale, ridge))
        _, _, scale, ridge = min(found)
        kernel = kernel_of(records, scale, min(self.landmarks, count), self.seed)
        return kernel, Smoother.of(kernel.features(records), ridge)


def balanced(
    judged: Float[np.ndarray, "records classes"], wanted: Int[np.ndarray, " classes"]
) -> tuple[Int[np.ndarray, " records"], Float[np.ndarray, " classes"]]:
    """Return for each record the class judged highest above offsets that give each its number.

    Each class's offset in turn is set so that it wins as often as wanted; that is descent on the
    dual of an assignment problem, and ends where all classes have their number or ties prevent it.

    Examples
    --------
    >>> balanced(np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), np.array([1, 2]))[0]
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


def _signs(guess: np.ndarray, kinds: int) -> list[np.ndarray]:
    return [np.where(guess == k, np.float32(1), np.float32(-1)) for k in range(kinds)]


def _slope(judged: np.ndarray, places: np.ndarray, wanted: float, sure: float) -> float:
    """Return the slope at which probabilities agree with the released means, as for one mean.

    The sum over classes of the expected mean place on the class's line, weighted by the shares,
    must be what was released. Probabilities that are certain even so claim `sure`.
    """

    def sureness(slope: float) -> float:
        return float(softmax(slope * judged, axis=1).max(axis=1).mean())

    def place(slope: float) -> float:
        return float((softmax(slope * judged, axis=1) * places).sum() / len(places))

    found = _bisected(place, wanted)
    return found if sureness(found) <= CERTAIN else _bisected(sureness, sure)


def _bisected(rising: Callable[[float], float], wanted: float) -> float:
    low, high = _FLATTEST, _STEEPEST
    for _ in range(30):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return float(np.sqrt(low * high))
