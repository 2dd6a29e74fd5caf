"""A result as a record: settings, seeds, versions, machine and one value per seed, in JSON.

Tables and pictures are made from records, so a record holds what is needed to check a figure and to
make it again. The file is JSON with the fields of `ResultRecord`, the `summary`, and ``"format":
"cofill-result", "version": 1``.
"""

import json
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import SettingError, StoreError
from cofill.files import write_atomically
from cofill.metrics._json import plain

FORMAT = "cofill-result"
VERSION = 1
ALL = "all"


@dataclass(frozen=True)
class ResultRecord:
    """One experiment's result, checked when made and safe to write as JSON.

    Attributes
    ----------
    name, settings
        What was run, and everything needed to run it again.
    seeds
        The repeats, one whole number each.
    values
        ``"<method>/<metric>/<where>"`` → one value per seed; None (or NaN) where not computed.
        Accuracies, purities and differences are fractions; `<where>` is a view or part.
    versions, machine
        What it ran with and on: see `versions` and `machine`.
    started, duration_s
        Start in UTC, ISO 8601, and the seconds it took.
    extra
        Anything else: curves, masks.

    Examples
    --------
    >>> record = ResultRecord("demo", seeds=[0, 1], values={
    ...     "mwm/mse/left": [1.0, 3.0], "mwm/mse/right": [2.0, None]})
    >>> record.summary["mwm/mse/left"]
    {'mean': 2.0, 'std': 1.4142135623730951, 'n': 2}
    >>> record.summary["mwm/mse/all"]
    {'mean': 1.5, 'std': 0.0, 'n': 1}
    >>> ResultRecord.from_json(record.to_json()) == record
    True
    """

    name: str
    seeds: list[int]
    values: dict[str, list[int | float | None]]
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    started: str = ""
    duration_s: int | float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise SettingError("name must say what was run, got an empty string.")
        if not 0 <= self.duration_s < math.inf:
            raise SettingError(f"duration_s must be zero or more seconds, got {self.duration_s}.")
        seeds = checked_seeds(self.seeds)
        values = {k: checked_series(k, v, len(seeds)) for k, v in self.values.items()}
        checked = {"seeds": seeds, "values": values, "duration_s": float(self.duration_s)}
        for name in ("settings", "versions", "machine", "extra"):
            checked[name] = plain(getattr(self, name), name)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @cached_property
    def summary(self) -> dict[str, dict[str, Any]]:
        """``mean``, sample standard deviation ``std`` (0 for one seed) and ``n`` of every figure.

        For each method and metric there is also ``all``: per seed the mean over the parts, and from
        these the mean over the seeds. A seed that lacks a part has no ``all``, since a mean over
        fewer parts is another figure. An ``all`` among the values is kept.
        """
        return {key: _summarise(series) for key, series in _with_all(self.values).items()}

    def per_seed(self, method: str, metric: str, where: str = ALL) -> Float[np.ndarray, " seeds"]:
        """Values of one figure in the order of the seeds, NaN where not computed."""
        key = checked_key(f"{method}/{metric}/{where}")
        known = _with_all(self.values)
        if key not in known:
            raise SettingError(f"the record {self.name!r} has no value for {key!r}.")
        return np.array([math.nan if v is None else v for v in known[key]], dtype=np.float64)

    def to_json(self) -> str:
        """Return the record as JSON text, with its summary."""
        body: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        body |= {f.name: getattr(self, f.name) for f in fields(self)}
        body["values"] = plain(self.values, "values")
        body["summary"] = plain(self.summary, "summary")
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "the text") -> "ResultRecord":
        """Return the record in a JSON text; StoreError when it is damaged, foreign or too new."""
        body = _checked_body(text, source)
        content = {f.name: body[f.name] for f in fields(cls)}
        damaged = f"the record {source} is damaged"
        try:
            content["seeds"] = checked_seeds(body["seeds"])
            content["values"] = {
                key: checked_series(key, map(_number, series), len(content["seeds"]))
                for key, series in body["values"].items()
            }
            record = cls(**content)
        except SettingError as error:
            raise StoreError(f"{damaged}: {str(error).rstrip('.')}; make it again.") from error
        written = body["summary"]
        if written.keys() != record.summary.keys() or not all(
            _agrees(summary, written[key]) for key, summary in record.summary.items()
        ):
            raise StoreError(
                f"{damaged}: its summary does not follow from its values; make it again."
            )
        return record

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the record to a file, whole or not at all; an older file is replaced."""
        write_atomically(Path(path), self.to_json().encode())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "ResultRecord":
        """Return the record in a file; StoreError when missing, damaged, foreign or too new."""
        name = repr(os.fspath(path))
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise StoreError(f"the record {name} could not be read ({error.strerror}).") from error
        except UnicodeDecodeError as error:
            raise StoreError(
                f"{name} is not a result record: it is not text but bytes of another kind."
            ) from error
        return cls.from_json(text, name)


def checked_key(key: str) -> str:
    """Return a figure's name, or raise a `SettingError` unless it has its three parts."""
    parts = key.split("/")
    if len(parts) != 3 or any(part != part.strip() or not part for part in parts):
        raise SettingError(
            f"a figure's name must be '<method>/<metric>/<where>', three parts that are not empty, "
            f"got {key!r}."
        )
    return key


def checked_seeds(seeds: Iterable[Any]) -> list[int]:
    """Return seeds as plain whole numbers, at least one and none twice."""
    numbers = list(seeds)
    are_whole = all(isinstance(s, int | np.integer) and not isinstance(s, bool) for s in numbers)
    if not are_whole or not numbers or len(set(numbers)) < len(numbers):
        raise SettingError(
            f"seeds must be one or more whole numbers that differ, got {str(numbers)[:60]}."
        )
    return [int(s) for s in numbers]


def checked_series(key: str, values: Iterable[Any], n_seeds: int) -> list[float | None]:
    """Return a figure's values as floats, one for each seed, None for NaN."""
    checked_key(key)
    series = [checked_value(key, v) for v in values]
    if len(series) != n_seeds:
        raise SettingError(
            f"{key!r} must have one value for each of the {n_seeds} seeds, "
            f"got {len(series)}; put None where there is none."
        )
    return series


def checked_value(key: str, value: Any) -> float | None:
    """Return one seed's value as a float, None for NaN."""
    if value is None:
        return None
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise SettingError(f"{key!r} must have numbers for values, got {type(value).__name__}.")
    try:
        return None if math.isnan(value) else float(value)
    except OverflowError as error:
        raise SettingError(f"{key!r} must have numbers that fit a float for values.") from error


def _with_all(values: Mapping[str, list[Any]]) -> dict[str, list[float | None]]:
    """Return the values, with the mean of the parts for each method and metric without `all`."""
    groups: dict[str, dict[str, list[float | None]]] = {}
    for key, series in values.items():
        figure, _, where = key.rpartition("/")
        groups.setdefault(figure, {})[where] = series
    complete: dict[str, list[float | None]] = {}
    for figure, parts in groups.items():
        if ALL not in parts:
            parts[ALL] = [
                None if None in seed else _mean(seed) for seed in zip(*parts.values(), strict=True)
            ]
        complete |= {f"{figure}/{where}": series for where, series in parts.items()}
    return complete


def _mean(values: Sequence[Any]) -> float | None:
    try:
        return statistics.fmean(values)
    except (ValueError, OverflowError):  # infinities that cancel, a sum past the largest float
        return None


def _summarise(series: list[float | None]) -> dict[str, Any]:
    known = [v for v in series if v is not None]
    if len(known) < 2:
        return {"mean": known[0] if known else None, "std": 0.0 if known else None, "n": len(known)}
    try:
        spread = statistics.stdev(known) if all(map(math.isfinite, known)) else None
    except OverflowError:
        spread = None
    return {"mean": _mean(known), "std": spread, "n": len(known)}


# Of each field the type, and the type of what it holds where it is a dict.
_KINDS: dict[str, tuple[Any, type]] = {
    **dict.fromkeys(("name", "started"), (str, object)),
    **dict.fromkeys(("settings", "machine", "extra"), (dict, object)),
    "seeds": (list, object),
    "values": (dict, list),
    "versions": (dict, str),
    "duration_s": (int | float, object),
    "summary": (dict, dict),
}


def _checked_body(text: str, source: str) -> dict[str, Any]:
    """Return the JSON object of a text, whose format, version and fields are right."""

    def refuse(word: str) -> None:
        # Python would read NaN and Infinity, which are not JSON and which other readers refuse.
        raise ValueError(f"{word} is not JSON")

    try:
        body = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"{source} is not a result record: it is not whole JSON; make it again."
        ) from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise StoreError(f"{source} is not a result record: it is JSON of another kind.")
    version, damaged = body.get("version"), f"the record {source} is damaged"
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StoreError(f"{damaged}: its version is not a number.")
    if version > VERSION:
        raise StoreError(
            f"the record {source} has format version {version}, newer than the {VERSION} this "
            "cofill reads; upgrade cofill."
        )
    for name, (kind, inner) in _KINDS.items():
        if name not in body:
            raise StoreError(f"{damaged}: its field {name!r} is missing; make it again.")
        value = body[name]
        items = value.values() if isinstance(value, dict) else ()
        if not isinstance(value, kind) or not all(isinstance(item, inner) for item in items):
            raise StoreError(f"{damaged}: its field {name!r} has the wrong type; make it again.")
    return body


def _number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf") else value


def _agrees(summary: dict[str, Any], written: dict[str, Any]) -> bool:
    """Return whether a written summary says the same as a computed one, but for rounding."""
    pairs = [(value, _number(written.get(name))) for name, value in summary.items()]
    return all(
        math.isclose(value, other, rel_tol=1e-6, abs_tol=1e-12)
        if isinstance(value, int | float) and isinstance(other, int | float)
        else value is other
        for value, other in pairs
    )
