"""The files of an attack: what was released, the records' columns, and the guesses."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cofill.errors import DataError, SettingError
from cofill.views import write_table


@dataclass(frozen=True)
class MeanFile:
    """A file's mean, or means of several classes, with what it says of shares and noise."""

    means: dict[str, dict[str, float | int]]  # by class; that of a single mean is named ""
    priors: dict[str, float | int] = field(default_factory=dict)  # empty where the file has none
    noise: str | None = None  # as "laplace:0.04"

    @property
    def several(self) -> bool:
        """Whether these are means of several classes."""
        return "" not in self.means

    @property
    def columns(self) -> list[str]:
        """Columns that the means are of."""
        return list(next(iter(self.means.values())))


def read_means(path: Path) -> MeanFile:
    """Read and check a JSON file with a mean or with the means of several classes."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        raise DataError(f"{path} is not a readable JSON file; write it again") from None
    if isinstance(content, dict) and isinstance(content.get("means"), dict):
        means, priors = _class_means(path, content)
    else:
        if isinstance(content, dict) and not isinstance(content.get("mean"), dict):
            content = {"mean": content}
        if not isinstance(content, dict) or not content["mean"]:
            raise DataError(f"{path} must hold a mean as {{column: value, …}}")
        for name, value in content["mean"].items():
            _check_number(value, f"{path}: the mean of column {name!r}")
        means, prior = {"": content["mean"]}, content.get("prior")
        priors: dict[str, Any] = {} if prior is None else {"": prior}
        for share in priors.values():
            _check_number(share, f"{path}: the prior")
    noise = content.get("noise")
    if noise is not None and not isinstance(noise, str):
        raise DataError(f"{path}: the noise must be text such as laplace:0.04")
    return MeanFile(means, priors, noise)


def _class_means(
    path: Path, content: dict[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    means, priors = content["means"], content.get("priors") or {}
    if not means or not all(isinstance(mean, dict) and mean for mean in means.values()):
        raise DataError(f"{path} must hold means as {{class: {{column: value, …}}, …}}")
    if "" in means:
        raise DataError(f"{path}: every class must have a name, got an empty one")
    columns = list(next(iter(means.values())))
    for kind, mean in means.items():
        if set(mean) != set(columns):
            raise DataError(
                f"{path}: the means of all classes must have the same columns, got {len(mean)} for "
                f"class {kind!r} where the first class has {len(columns)}, or others"
            )
        for name, value in mean.items():
            _check_number(value, f"{path}: the mean of column {name!r} in class {kind!r}")
    if not isinstance(priors, dict):
        raise DataError(f"{path} must hold priors as {{class: share, …}}")
    for kind, share in priors.items():
        _check_number(share, f"{path}: the share of class {kind!r}")
    return {kind: {name: mean[name] for name in columns} for kind, mean in means.items()}, priors


def _check_number(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise DataError(f"{what} must be a finite number")


def number_column(table: pa.Table, column: str, where: str) -> np.ndarray:
    """Return a column of numbers without gaps."""
    values = _full_column(table, column, where)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
            or pa.types.is_boolean(values.type)):  # fmt: skip
        raise DataError(
            f"{where}: column {column!r} must hold numbers, got {values.type}; encode it first"
        )
    return values.cast(pa.float64()).to_numpy()


def _full_column(table: pa.Table, column: str, where: str) -> Any:
    values = table.column(column)
    if values.null_count:
        raise DataError(
            f"{where}: column {column!r} has {values.null_count} empty cells; complete the records "
            "or leave those rows out"
        )
    return values


def flag_column(table: pa.Table, column: str, positive: str, where: str) -> np.ndarray:
    """Return where a column has the positive value; a truth value counts as 1 or 0."""
    values = _full_column(table, column, where)
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
    values = _full_column(table, column, where)
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values.to_pylist())
    return np.array([str(v) for v in whole])


def write_guesses(guesses: pa.Table, out: Path) -> None:
    """Write the guesses as a table, all of them or none."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{out} cannot be written ({error.strerror}); nothing was written"
        ) from None
    write_table(guesses, out)
