"""The files of an attack: what was released, the records' columns, and the guesses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cofill.errors import DataError, SettingError
from cofill.views import write_table

Mean = dict[str, Any]  # a number for each column, or for each category of a column


@dataclass(frozen=True)
class MeanFile:
    """A file's mean, or means of several classes or groups, with what it says of them."""

    means: dict[str, Mean]  # by class or group; that of a single mean is named ""
    priors: dict[str, float | int] = field(default_factory=dict)  # empty where the file has none
    counts: dict[str, float | int] = field(default_factory=dict)  # people in each mean
    noise: str | None = None  # as "laplace:0.04"
    by: str | None = None  # column of the groups, of which each has its own mean of one class
    is_overlapping: bool = False  # whether people may be in several classes

    @property
    def columns(self) -> list[tuple[str, str | None]]:
        """Columns that the means are of, with the category where it is a share of one."""
        return list(_flat(next(iter(self.means.values()))))

    def values(self, kind: str) -> list[float]:
        """Return a mean as numbers, in the order of `columns`."""
        flat = _flat(self.means[kind])
        return [flat[column] for column in self.columns]

    def shares(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """Return the shares of classes: as stated, else counts over the records of each."""
        return {**{name: n / sizes[name] for name, n in self.counts.items()}, **self.priors}


def read_means(path: Path) -> MeanFile:
    """Read and check a JSON file with a mean, or with the means of several classes or groups."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        raise DataError(f"{path} is not a readable JSON file; write it again") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold a mean as {{column: value, …}}")
    one = not any(isinstance(content.get(key), dict) for key in ("means", "sums"))
    if one and not any(isinstance(content.get(key), dict) for key in ("mean", "sum")):
        content = {"mean": content}
    means, counts = _means(path, content, one)
    priors = _numbers(path, content, "prior" if one else "priors", "the share", one)
    noise, by = content.get("noise"), content.get("by")
    if noise is not None and not isinstance(noise, str):
        raise DataError(f"{path}: the noise must be text such as laplace:0.04")
    if by is not None and (one or not isinstance(by, str)):
        raise DataError(f"{path}: by must name the column of the groups that means are of")
    return MeanFile(means, priors, counts, noise, by, content.get("overlapping") is True)


def _means(
    path: Path, content: dict[str, Any], one: bool
) -> tuple[dict[str, Mean], dict[str, Any]]:
    """Return means and counts; sums are divided by their counts."""
    key, sums = ("mean", "sum") if one else ("means", "sums")
    counts = _numbers(path, content, "count" if one else "counts", "the count", one)
    held = content.get(key, content.get(sums))
    means: Any = {"": held} if one else held
    if not means or not all(isinstance(mean, dict) and mean for mean in means.values()):
        form = "a mean as {column: value, …}" if one else "means as {class: {column: value, …}, …}"
        raise DataError(f"{path} must hold {form}")
    if not one and "" in means:
        raise DataError(f"{path}: every class must have a name, got an empty one")
    first = _flat(next(iter(means.values())))
    for kind, mean in means.items():
        of = f" in class {kind!r}" if kind else ""
        if set(_flat(mean)) != set(first):
            raise DataError(
                f"{path}: the means of all classes must have the same columns, got {len(mean)} for "
                f"class {kind!r} where the first class has {len(first)}, or others"
            )
        for (name, _), value in _flat(mean).items():
            _check_number(value, f"{path}: the mean of column {name!r}{of}")
    if key in content:
        return means, counts
    if set(counts) != set(means) or not all(count > 0 for count in counts.values()):
        raise DataError(f"{path}: each sum needs the count of its people, above 0")
    divided = {kind: _divide(mean, counts[kind]) for kind, mean in means.items()}
    return divided, counts


def _flat(mean: Mean) -> dict[tuple[str, str | None], Any]:
    return {
        (name, category): number
        for name, value in mean.items()
        for category, number in (value if isinstance(value, dict) else {None: value}).items()
    }


def _divide(sums: Mean, count: float) -> Mean:
    return {
        name: _divide(value, count) if isinstance(value, dict) else value / count
        for name, value in sums.items()
    }


def _numbers(
    path: Path, content: dict[str, Any], key: str, what: str, one: bool
) -> dict[str, float | int]:
    held = content.get(key)
    if held is None:
        return {}
    numbers = {"": held} if one else held
    if not isinstance(numbers, dict):
        raise DataError(f"{path} must hold {key} as {{class: {what.split()[-1]}, …}}")
    for kind, number in numbers.items():
        _check_number(number, f"{path}: the {key}" if one else f"{path}: {what} of class {kind!r}")
    return numbers


def _check_number(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise DataError(f"{what} must be a finite number")


def mean_columns(
    table: pa.Table, columns: Sequence[tuple[str, str | None]], where: str
) -> np.ndarray:
    """Return the records' columns that a mean is of: numbers, or who is of a category."""
    return np.column_stack([
        number_column(table, name, where) if category is None
        else (text_column(table, name, where) == category).astype(np.float64)
        for name, category in columns
    ])  # fmt: skip


def number_column(table: pa.Table, column: str, where: str) -> np.ndarray:
    """Return a column of numbers without gaps."""
    values = _full_column(table, column, where)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
            or pa.types.is_boolean(values.type)):  # fmt: skip
        raise DataError(
            f"{where}: column {column!r} must hold numbers, got {values.type}; give the "
            "shares of its categories as its mean"
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
