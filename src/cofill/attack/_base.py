"""The interface of every attack that re-identifies a class from its released mean.

An attacker holds records whose class is hidden, the mean of one class (the *positive* one), perhaps
with noise, and perhaps the share of the records that are positive. An attack guesses who is
positive.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cofill.errors import CofillError, DataError, SettingError

__all__ = [
    "AbstractCalibratedAttack",
    "AbstractMeanAttack",
    "AttackFailed",
    "Noise",
    "Records",
    "check_mean",
    "check_prior",
    "check_records",
]

Records: TypeAlias = Any
"""One row per individual: a float array, or a `scipy.sparse.csr_array` where the attack takes one.

SciPy does not annotate its matrices, so that a narrower type would hide their shapes.
"""

Fitted = TypeVar("Fitted", bound="AbstractMeanAttack")

KINDS = ("laplace", "gaussian", "unknown")


class AttackFailed(CofillError, RuntimeError):  # noqa: N818  (it is the attack that failed, not the program)
    """The attack put all records into one class, which tells nobody anything."""


@dataclass(frozen=True)
class Noise:
    """What was added to each coordinate of a released mean.

    Parameters
    ----------
    kind
        ``"laplace"`` or ``"gaussian"``, or ``"unknown"`` for a mean that is off in ways of which
        only the size is known, such as one that a generator has made.
    scale
        Scale *b* of the Laplace distribution, the standard deviation of the Gaussian, or the root
        mean square by which coordinates are off.

    Examples
    --------
    >>> Noise.parse("laplace:0.04")
    Noise(kind='laplace', scale=0.04)
    >>> round(Noise("laplace", 0.04).variance, 6)
    0.0032
    """

    kind: str
    scale: float | int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingError(
                f"the kind of noise must be one of {', '.join(KINDS)}, got {self.kind!r}"
            )
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise SettingError(
                f"the scale of noise must be a number above 0, got {self.scale}; leave noise out "
                "if the mean has none"
            )

    @classmethod
    def parse(cls, text: str) -> Noise:
        """Read ``"kind:scale"``."""
        kind, _, scale = text.partition(":")
        try:
            return cls(kind.strip().lower(), float(scale))
        except ValueError as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(
                f"noise must be written as kind:scale, such as laplace:0.04, got {text!r}"
            ) from None

    @property
    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        return float(self.scale**2 * (2 if self.kind == "laplace" else 1))

    def draw(self, size: int | tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return noise of the given shape, Gaussian where its kind is unknown."""
        if self.kind == "laplace":
            return rng.laplace(0.0, self.scale, size)
        return rng.normal(0.0, self.scale, size)

    def __str__(self) -> str:
        return f"{self.kind}:{self.scale:g}"


class AbstractMeanAttack(BaseEstimator, ABC):
    """An attack on a released mean, with scikit-learn's manners.

    `fit` takes the records, the mean and the share of positives, and returns self. Subclasses write
    `_fit`, which learns, and `_score`, which returns probabilities of the positive class.

    Attributes
    ----------
    prior_
        Share of positives that the attack went by: the one given, else the one estimated.
    prior_interval_
        95 % interval of an estimated share; None where the share was given.
    scores_
        Probability that each record of `fit` is positive.
    labels_
        Whether each record of `fit` is taken for positive: a score above one half.
    outcome_
        ``"ok"``, or in a few words what was not.
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
        before = dict(vars(self))
        try:
            self.n_features_in_ = rows.shape[1]
            self.outcome_, self.notes_ = "ok", []
            self.prior_interval_ = None
            if share is None:
                share = self._estimated(rows, released, noise)
            self.prior_ = share
            scores = self._fit(rows, released, share, noise)
            self.scores_ = self._score(rows) if scores is None else scores
            self.labels_ = self.scores_ > 0.5
            self._check_outcome()
        except BaseException:
            # A fit that fails or is interrupted leaves the estimator as it was.
            for name in set(vars(self)) - set(before):
                delattr(self, name)
            for name, value in before.items():
                setattr(self, name, value)
            raise
        return self

    def predict(self, records: Any) -> Bool[np.ndarray, " records"]:
        """Return whether each record is taken for positive."""
        return self.predict_proba(records) > 0.5

    def predict_proba(self, records: Any) -> Float[np.ndarray, " records"]:
        """Return the probability that each record is positive."""
        check_is_fitted(self, "scores_")
        rows = check_records(records, sparse_allowed=self.accepts_sparse)
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"records must have the {self.n_features_in_} columns they had at fit, got "
                f"{rows.shape[1]}; give the same columns in the same order"
            )
        return self._score(rows)

    @abstractmethod
    def _fit(
        self,
        records: Records,
        mean: Float[np.ndarray, " features"],
        prior: float,
        noise: Noise | None,
    ) -> Float[np.ndarray, " records"] | None:
        """Learn; set attributes ending in an underscore, among them outcome_ and notes_.

        Returns the scores of the records where they differ from those of strangers, which an
        attack that learns from its own guesses must not make with a record's own guess; None to
        have `_score` make them.
        """

    @abstractmethod
    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return the probability that each record is positive."""

    def _estimated(
        self, records: Records, mean: Float[np.ndarray, " features"], noise: Noise | None
    ) -> float:
        # Here, because the estimate stands on attacks, which stand on this interface.
        from cofill.attack._prior import estimate_share

        found = estimate_share(records, mean, noise)
        self.prior_interval_ = found.low, found.high
        self.notes_.append(
            "the share of positives is estimated as if the mean were of these records; a mean of "
            "other people makes it too small"
        )
        if not found.told:
            self.notes_.append(
                "the mean does not tell the share of positives: anything from "
                f"{found.low:.3f} to {found.high:.3f} agrees with it, and guesses hang on it"
            )
        return found.value

    def _check_outcome(self) -> None:
        if self.labels_.all() or not self.labels_.any():
            what = "positive" if self.labels_.all() else "negative"
            raise AttackFailed(
                f"{self.name} took all {len(self.labels_)} records for {what} and so tells nothing "
                "about anybody; try another seed, classifier or attack"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scores_")


class AbstractCalibratedAttack(AbstractMeanAttack):
    """An attack whose scores are probabilities that it stands by.

    Attributes
    ----------
    claimed_
        Accuracy that the attack claims where its scores would claim too much; None elsewhere.
    """

    claimed_: float | None = None

    @property
    def sureness_(self) -> float:
        """Accuracy that the attack expects of its labels, without having seen a label."""
        if self.claimed_ is not None:
            return self.claimed_
        return float(np.maximum(self.scores_, 1 - self.scores_).mean())


def check_records(records: Any, *, sparse_allowed: bool = False) -> Records:
    """Return records as a float array or CSR matrix with two axes and without gaps."""
    if sparse.issparse(records):
        if not sparse_allowed:
            raise DataError(
                "records must be a dense array for this attack, got a sparse matrix; give "
                "records.toarray()"
            )
        rows: Any = sparse.csr_array(records)
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
        known = np.isfinite(rows.data)
    else:
        rows = _as_floats("records", records)
        known = np.isfinite(rows)
    if rows.ndim != 2 or 0 in rows.shape:
        raise DataError(
            "records must have two axes, individuals and features, and neither may be empty, got "
            f"the shape {rows.shape}"
        )
    if not known.all():
        raise DataError(
            f"records must be finite numbers, got {int((~known).sum())} cells that are NaN or "
            "infinite; complete the records or leave those rows out"
        )
    return rows


def check_enough(records: Records) -> None:
    """Refuse records among which nothing can be told apart."""
    count, features = records.shape
    if count < 2:
        raise DataError(f"an attack needs at least 2 records, got {count}")
    spread = records.max(axis=0) - records.min(axis=0)
    if sparse.issparse(spread):
        spread = spread.toarray()
    if not np.asarray(spread).any():
        raise DataError(
            "records must differ in at least one feature, got the same values in every record for "
            f"all {features}; there is nothing to tell apart"
        )


def check_mean(mean: Any, *, features: int) -> Float[np.ndarray, " features"]:
    """Return a released mean as an array of one finite number per feature."""
    released = _as_floats("mean", mean).astype(np.float64)
    if released.shape != (features,):
        raise DataError(
            f"mean must have one value for each of the {features} features of the records, got the "
            f"shape {released.shape}; give the mean of the same columns in the same order"
        )
    if not np.isfinite(released).all():
        raise DataError(
            f"mean must be finite numbers, got {int((~np.isfinite(released)).sum())} of {features} "
            "that are NaN or infinite; leave those columns out of the mean and of the records"
        )
    return released


def check_prior(prior: float | int | np.floating) -> float:
    """Return the share of positives, above 0 and below 1."""
    if not 0 < prior < 1:
        raise SettingError(
            f"prior must be the share of positive records, above 0 and below 1, got {prior}"
        )
    return float(prior)


def _as_floats(what: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{what} must be numbers, got something that cannot be read as numbers; encode text "
            "and categories first"
        ) from None
