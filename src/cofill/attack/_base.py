"""The interface of every attack that re-identifies a class from its released mean.

An attacker holds records whose class is hidden, the mean of one class (the *positive* one), perhaps
with noise, and perhaps the share of the records that are positive. An attack guesses who is
positive.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Bool, Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cofill.attack._inputs import (
    Noise,
    Records,
    ReleasedMean,
    check_columns,
    check_enough,
    check_mean,
    check_prior,
    check_records,
)
from cofill.attack._prior import estimate_share
from cofill.completion import kept_on_failure
from cofill.errors import CofillError

Fitted = TypeVar("Fitted", bound="AbstractMeanAttack")


class AttackFailed(CofillError, RuntimeError):  # noqa: N818  (it is the attack that failed, not the program)
    """The attack put all records into one class, which tells nobody anything."""


class AbstractMeanAttack(BaseEstimator, ABC):
    """An attack on a released mean, with the conventions of scikit-learn.

    `fit` takes the records, the mean and the share of positives, and returns self. Subclasses write
    `_fit`, which learns, and `_score`, which returns probabilities of the positive class.

    Attributes
    ----------
    prior_
        Share of positives that the attack used: the one passed to `fit`, else an estimate.
    prior_interval_
        95 % interval of an estimated share; None where the share was passed.
    scores_
        Probability that each record of `fit` is positive.
    labels_
        Whether each record of `fit` is guessed positive: a score above one half.
    outcome_
        ``"ok"``, or in a few words what went wrong.
    notes_
        Sentences about how the attack went.
    """

    name: ClassVar[str]
    accepts_sparse: ClassVar[bool] = False

    n_features_in_: int
    outcome_: str
    notes_: list[str]
    prior_: float
    prior_interval_: tuple[float, float] | None
    scores_: Float[np.ndarray, " records"]
    labels_: Bool[np.ndarray, " records"]

    def fit(
        self: Fitted,
        records: Any,
        *,
        mean: Any,
        prior: float | int | np.floating | None = None,
        noise: Noise | None = None,
    ) -> Fitted:
        """Learn to tell who is positive.

        Parameters
        ----------
        records
            One row per individual, two-dimensional; a `scipy.sparse` matrix if the attack takes it.
        mean
            Released mean of the positive class, one value per column of the records.
        prior
            Share of the records that are positive, above 0 and below 1; None to estimate it.
        noise
            What was added to the mean, if the attacker knows.

        Raises
        ------
        AttackFailed
            If all records end up in one class.
        """
        rows = check_records(records, sparse_allowed=self.accepts_sparse)
        check_enough(rows)
        released = check_mean(mean, features=rows.shape[1])
        share = None if prior is None else check_prior(prior)
        with kept_on_failure(self):
            self.n_features_in_ = rows.shape[1]
            self.outcome_, self.notes_ = "ok", []
            self.prior_interval_ = None
            self.prior_ = self._estimate_prior(rows, released, noise) if share is None else share
            scores = self._fit(rows, ReleasedMean(released, self.prior_, noise))
            self.scores_ = self._score(rows) if scores is None else scores
            self.labels_ = self.scores_ > 0.5
            self._check_outcome()
        return self

    def predict(self, records: Any) -> Bool[np.ndarray, " records"]:
        """Return whether each record is guessed positive."""
        return self.predict_proba(records) > 0.5

    def predict_proba(self, records: Any) -> Float[np.ndarray, " records"]:
        """Return the probability that each record is positive."""
        check_is_fitted(self, "scores_")
        rows = check_records(records, sparse_allowed=self.accepts_sparse)
        check_columns(rows, self.n_features_in_)
        return self._score(rows)

    @abstractmethod
    def _fit(
        self, records: Records, released: ReleasedMean
    ) -> Float[np.ndarray, " records"] | None:
        """Learn; set attributes ending in an underscore, among them outcome_ and notes_.

        Returns the scores of the records where they differ from those of new records: an attack
        that learns from its own guesses must not score a record with that record's own guess.
        None to have `_score` compute them.
        """

    @abstractmethod
    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return the probability that each record is positive."""

    def _estimate_prior(
        self, records: Records, mean: Float[np.ndarray, " features"], noise: Noise | None
    ) -> float:
        share = estimate_share(records, mean, noise)
        self.prior_interval_ = share.low, share.high
        self.notes_.append(
            "the share of positives is estimated as if the mean were of these records; a mean of "
            "other people makes it too small"
        )
        if not share.is_narrow:
            self.notes_.append(
                "the mean does not tell the share of positives: anything from "
                f"{share.low:.3f} to {share.high:.3f} agrees with it, and guesses hang on it; "
                "state it if you know it (--prior)"
            )
        return share.value

    def _check_outcome(self) -> None:
        if self.labels_.all() or not self.labels_.any():
            what = "positive" if self.labels_.all() else "negative"
            way = "try another seed, classifier or attack"
            if self.prior_interval_ is not None:
                way = f"state the share of positives, which was estimated (--prior), or {way}"
            raise AttackFailed(
                f"{self.name} took all {len(self.labels_)} records for {what} and so tells nothing "
                f"about anybody; {way}"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scores_")


class AbstractCalibratedAttack(AbstractMeanAttack):
    """An attack whose scores are calibrated probabilities.

    Attributes
    ----------
    expected_accuracy_
        Accuracy that the attack expects of its labels, without having seen a label; None where
        that cannot be known, and then a note says why.
    """

    _is_withheld: bool = False

    @property
    def expected_accuracy_(self) -> float | None:
        """Accuracy that the attack expects of its labels, or None."""
        if self._is_withheld:
            return None
        return float(np.maximum(self.scores_, 1 - self.scores_).mean())

    def _withhold(self, reason: str | None) -> None:
        """Expect no accuracy for a reason, or expect what scores say where there is none."""
        self._is_withheld = reason is not None
        if reason is not None:
            self.notes_.append(reason)
