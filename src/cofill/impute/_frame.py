"""Data frames of any library as cells, and back: only missing cells of the frame are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import narwhals as nw
import numpy as np

from cofill.errors import DataError, SettingError
from cofill.registry import suggest
from cofill.views import Feature, Kind

_UNITS = [unit * 1_000_000 for unit in (86_400, 3_600, 60, 1)] + [1_000]  # in microseconds


@dataclass(frozen=True)
class FrameReader:
    """The columns of the frames that an imputer reads, learned from the frame of its fit."""

    features: tuple[Feature, ...]

    @classmethod
    def fit(cls, frame: Any, kinds: Mapping[str, str] | None = None) -> FrameReader:
        """Take kinds and categories from the columns' types and values."""
        table = nw.from_native(frame, eager_only=True)
        for column in kinds or {}:
            if column not in table.columns:
                raise SettingError(
                    f"there is no column {column!r}; {suggest(str(column), table.columns)}"
                )
        return cls(tuple(_feature(table[c], (kinds or {}).get(c)) for c in table.columns))

    def cells(self, frame: Any) -> np.ndarray:
        """Return the frame's cells as floats; NaN where missing or of a category never seen."""
        table = nw.from_native(frame, eager_only=True)
        cells = np.empty((len(table), len(self.features)))
        for k, feature in enumerate(self.features):
            series = table[feature.name]
            if feature.kind is Kind.NUMERIC:
                cells[:, k] = _numbers(series)
            else:
                place = {value: float(i) for i, value in enumerate(feature.categories)}
                known = ~_missing(series)
                cells[:, k] = [
                    place.get(value, np.nan) if ok else np.nan
                    for value, ok in zip(series.to_list(), known, strict=True)
                ]
        return cells

    def write(self, frame: Any, filled: np.ndarray) -> Any:
        """Return the frame with its missing cells, and no others, taken from `filled`."""
        table = nw.from_native(frame, eager_only=True)
        changed = []
        for k, feature in enumerate(self.features):
            series = table[feature.name]
            holes = np.flatnonzero(_missing(series))
            if not len(holes):
                continue
            values: list[Any] = filled[holes, k].tolist()
            if series.dtype.is_temporal():
                values = _moments(values, series)
            elif feature.kind is not Kind.NUMERIC:
                values = [feature.categories[int(value)] for value in values]
            elif series.dtype.is_integer():
                values = [round(value) for value in values]
            changed.append(_scatter(series, holes, values))
        return table.with_columns(*changed).to_native() if changed else frame


def _scatter(series: nw.Series, holes: np.ndarray, values: list[Any]) -> nw.Series:
    """Return the series with values in its holes, in its own type."""
    native = series.to_native()
    if series.implementation.is_pandas():
        filled = native.copy()
        filled.iloc[holes] = values
        return nw.from_native(filled, series_only=True)
    filled = nw.new_series(series.name, values, series.dtype, backend=series.implementation)
    return filled if len(holes) == len(series) else series.scatter(holes.tolist(), filled)


def _missing(series: nw.Series) -> np.ndarray:
    missing = series.is_null().to_numpy().astype(bool)
    if series.dtype.is_float():
        missing |= np.isnan(series.to_numpy().astype(np.float64))
    return missing


def _numbers(series: nw.Series) -> np.ndarray:
    """Return a column's numbers, of dates and times the microseconds since 1970."""
    if series.dtype == nw.Duration:
        series = series.dt.total_microseconds()
    elif series.dtype.is_temporal():
        series = series.dt.timestamp("us")
    if series.dtype == nw.Object:
        return np.array([np.nan if v is None else float(v) for v in series.to_list()])
    return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _moments(values: list[float], series: nw.Series) -> list[Any]:
    """Return dates, times or durations, as fine as all the column's known ones are."""
    known = _numbers(series)
    known = known[~np.isnan(known)]
    unit = next((u for u in _UNITS if not (known % u).any()), 1)
    spans = [timedelta(microseconds=unit * round(value / unit)) for value in values]
    if series.dtype == nw.Duration:
        return spans
    if series.dtype == nw.Date:
        return [date(1970, 1, 1) + span for span in spans]
    zone = getattr(series.dtype, "time_zone", None)
    moments = [datetime(1970, 1, 1, tzinfo=UTC) + span for span in spans]
    return [m.astimezone(ZoneInfo(zone)) if zone else m.replace(tzinfo=None) for m in moments]


def _feature(series: nw.Series, kind: str | None) -> Feature:
    if kind not in (None, *Kind):
        raise SettingError(
            f"the kind of column {series.name!r} must be numeric, binary or categorical, "
            f"got {kind!r}"
        )
    dtype = series.dtype
    name = str(series.name)
    if kind == Kind.NUMERIC or (kind is None and dtype.is_numeric()):
        if np.isinf(_numbers(series)).any():
            raise DataError(
                f"column {name!r} holds infinite values; replace them or leave them empty"
            )
        return Feature(name, dtype="int64" if dtype.is_integer() else "double")
    if dtype == nw.Time:
        raise DataError(
            f"column {name!r} holds {dtype} and cannot be imputed as it is; convert it to numbers"
        )
    if dtype.is_temporal() and kind is None:
        return Feature(name)
    known = [v for v, gone in zip(series.to_list(), _missing(series), strict=True) if not gone]
    try:
        values = tuple(sorted(set(known)))
    except TypeError:
        values = tuple(dict.fromkeys(known))
    ordered = isinstance(dtype, nw.Enum)
    if not values:
        raise DataError(f"column {name!r} has no value in any row; leave it out")
    return Feature(name, Kind.CATEGORICAL, values, str(dtype), ordered=ordered)
