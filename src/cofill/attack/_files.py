"""The files of an attack: what was released, the records' columns, and the guesses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cofill.errors import DataError, SettingError
from cofill.views import write_table

__all__ = [
    "ReleasedMeans",
    "flag_column",
    "number_column",
    "read_release",
    "text_column",
    "write_guesses",
]


@dataclass(frozen=True)
class ReleasedMeans:
    """A file's mean, or means of several classes, with what it says of shares and noise.

    Parameters
    ----------
    means
        Column and value, of each class; the only class of a single mean is named ``""``.
    priors
        Shares, by class; empty where the file has none.
    noise
        As ``"laplace:0.04"``.
    """

    means: dict[str, dict[str, float | int]]
    priors: dict[str, float | int] = field(default_factory=dict)
    noise: str | None = None

    @property
    def several(self) -> bool:
        """Whether these are means of several classes."""
        return "" not in self.means

    @property
    def columns(self) -> list[str]:
        """Columns that the means are of."""
        return list(next(iter(self.means.values())))


def read_release(path: Path) -> ReleasedMeans:
    """Read and check a JSON file with a mean or with the means of several classes."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        raise DataError(f"{path} is not a readable JSON file; write it again") from None
    if isinstance(found, dict) and isinstance(found.get("means"), dict):
        return _several(path, found)
    if isinstance(found, dict) and not isinstance(found.get("mean"), dict):
        found = {"mean": found}
    if not isinstance(found, dict) or not found["mean"]:
        raise DataError(f"{path} must hold a mean as {{column: value, …}}")
    for name, value in found["mean"].items():
        _number(value, f"{path}: the mean of column {name!r}")
    share = found.get("prior")
    priors = {} if share is None else {"": _number(share, f"{path}: the prior")}
    return ReleasedMeans({"": found["mean"]}, priors, _noise(path, found))


def _several(path: Path, found: dict[str, Any]) -> ReleasedMeans:
    means = found["means"]
    if not means or not all(isinstance(mean, dict) and mean for mean in means.values()):
        raise DataError(f"{path} must hold means as {{class: {{column: value, …}}, …}}")
    if "" in means:
        raise DataError(f"{path}: every class must have a name, got an empty one")
    columns = set(next(iter(means.values())))
    for kind, mean in means.items():
        if set(mean) != columns:
            raise DataError(
                f"{path}: the means of all classes must have the same columns, got {len(mean)} for "
                f"class {kind!r} where the first class has {len(columns)}, or others"
            )
        for name, value in mean.items():
            _number(value, f"{path}: the mean of column {name!r} in class {kind!r}")
    priors = found.get("priors") or {}
    if not isinstance(priors, dict):
        raise DataError(f"{path} must hold priors as {{class: share, …}}")
    for kind, share in priors.items():
        _number(share, f"{path}: the share of class {kind!r}")
    order = list(next(iter(means.values())))
    ordered = {kind: {name: mean[name] for name in order} for kind, mean in means.items()}
    return ReleasedMeans(ordered, priors, _noise(path, found))


def _noise(path: Path, found: dict[str, Any]) -> str | None:
    noise = found.get("noise")
    if noise is not None and not isinstance(noise, str):
        raise DataError(f"{path}: the noise must be text such as laplace:0.04")
    return noise


def _number(value: Any, what: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise DataError(f"{what} must be a finite number")
    return value


def number_column(table: pa.Table, column: str, where: str) -> np.ndarray:
    """Return a column of numbers without gaps."""
    values = table.column(column)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
            or pa.types.is_boolean(values.type)):  # fmt: skip
        raise DataError(
            f"{where}: column {column!r} must hold numbers, got {values.type}; encode it first"
        )
    if values.null_count:
        raise DataError(
            f"{where}: column {column!r} has {values.null_count} empty cells; complete the records "
            "or leave those rows out"
        )
    return values.cast(pa.float64()).to_numpy()


def flag_column(table: pa.Table, column: str, positive: str, where: str) -> np.ndarray:
    """Return where a column has the positive value; a truth value counts as 1 or 0."""
    values = table.column(column)
    if values.null_count:
        raise DataError(f"{where}: column {column!r} has {values.null_count} empty cells")
    if pa.types.is_boolean(values.type):
        return values.to_numpy() == (positive.lower() in ("1", "true", "yes"))
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        try:
            return values.to_numpy() == float(positive)
        except ValueError:
            raise SettingError(
                f"column {column!r} holds numbers; the positive value must be one, got {positive!r}"
            ) from None
    return np.array([str(v) == positive for v in values.to_pylist()])


def text_column(table: pa.Table, column: str, where: str) -> np.ndarray:
    """Return a column of classes as text; whole numbers are written without a point."""
    values = table.column(column)
    if values.null_count:
        raise DataError(f"{where}: column {column!r} has {values.null_count} empty cells")
    return np.array(
        [
            str(int(v)) if isinstance(v, float) and v.is_integer() else str(v)
            for v in values.to_pylist()
        ]
    )


def write_guesses(guesses: pa.Table, out: Path) -> None:
    """Write the guesses as a table, all of them or none."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{out} cannot be written ({error.strerror}); nothing was written"
        ) from None
    write_table(guesses, out)
