"""What attacks are given, checked: records, a mean and its noise; matrices with a row a person."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy import sparse

from cofill.errors import DataError, SettingError

Records: TypeAlias = Any
"""One row per individual: a float array, or a `scipy.sparse.csr_array` where the attack takes one.

SciPy does not annotate its matrices, so that a narrower type would hide their shapes.
"""

KINDS = ("laplace", "gaussian", "unknown")


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
    def parse(cls, text: str) -> "Noise":
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


class ReleasedMean(NamedTuple):
    """The mean of the positive records, their share, and what is known of the mean's noise."""

    mean: Float[np.ndarray, " features"]
    prior: float
    noise: Noise | None = None


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


def check_columns(records: Records, features: int) -> None:
    """Refuse records of other columns than those of the fit."""
    if records.shape[1] != features:
        raise DataError(
            f"records must have the {features} columns they had at fit, got {records.shape[1]}; "
            "give the same columns in the same order"
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


def as_matrix(what: str, values: Any, *, least: int = 2) -> Float[np.ndarray, "people columns"]:
    """Return values as a float matrix of at least so many people, without gaps.

    Examples
    --------
    >>> as_matrix("codes", [[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    array = _as_floats(what, values).astype(np.float64)
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{what} must have a row for each person and at least one column, got the shape "
            f"{array.shape}; an empty release cannot be attacked"
        )
    if len(array) < least:
        raise DataError(f"{what} must be of at least {least} people, got {len(array)}")
    wrong = int((~np.isfinite(array)).sum())
    if wrong:
        raise DataError(
            f"{what} must be finite numbers, got {wrong} cells that are NaN or infinite; leave "
            "those people out"
        )
    return array


def check_same_people(**matrices: np.ndarray | None) -> None:
    """Refuse matrices of different numbers of people.

    Examples
    --------
    >>> check_same_people(codes=np.ones((3, 2)), rows=np.ones((3, 5)), known=None)
    """
    counts = {name: len(m) for name, m in matrices.items() if m is not None}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise DataError(
            f"there must be one row for each person in {' and '.join(counts)}, in the same order, "
            f"got {listed}"
        )


def check_varied(what: str, values: Float[np.ndarray, "people columns"]) -> None:
    """Refuse a matrix in which all people are alike."""
    if not (values != values[:1]).any():
        raise DataError(
            f"{what} must differ between people, got the same values for all {len(values)}; there "
            "is nothing to attack"
        )


def _as_floats(what: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{what} must be numbers, got something that cannot be read as numbers; encode text "
            "and categories first"
        ) from None
