"""Dates and times in frames given to `cofill.Imputer`: filled in the column's own type."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cofill

N = 80
DAYS = np.arange(N) * 3


def pandas_frame():
    moments = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(DAYS, unit="D"))
    return pd.DataFrame(
        {
            "day": moments,
            "zoned": (moments + pd.Timedelta(hours=9)).dt.tz_localize("Europe/Berlin"),
            "stay": pd.to_timedelta(DAYS, unit="h"),
            "number": DAYS.astype(float),
        }
    )


@pytest.mark.parametrize("column", ["day", "zoned", "stay"])
def test_a_pandas_column_of_moments_is_filled_in_its_type(column):
    whole = pandas_frame()
    frame = whole.copy()
    frame.loc[[11, 40], column] = pd.NaT
    done = cofill.Imputer(effort="quick").fit_transform(frame)
    assert done[column].dtype == whole[column].dtype
    assert done[column].notna().all()
    known = frame[column].notna()
    pd.testing.assert_frame_equal(done[known], whole[known])
    unit = pd.Timedelta(days=1) if column != "stay" else pd.Timedelta(hours=1)
    assert (abs(done[column] - whole[column]) <= 9 * unit).all()
    if column == "day":  # all known ones are at midnight
        assert (done[column].dt.normalize() == done[column]).all()


def test_polars_dates_come_back_as_dates():
    whole = pl.DataFrame({"day": pandas_frame()["day"].dt.date.tolist(), "number": DAYS})
    frame = whole.with_columns(
        pl.when(pl.col("number") == 60).then(None).otherwise(pl.col("day")).alias("day")
    )
    done = cofill.Imputer(effort="quick").fit_transform(frame)
    assert done.schema == whole.schema
    assert abs(done["day"][20] - whole["day"][20]) <= timedelta(days=9)


def test_times_of_day_are_refused_in_a_sentence():
    frame = pl.DataFrame({"at": [pl.time(8, 30)] * 3}).select(pl.time(8, 30).alias("at"))
    with pytest.raises(cofill.errors.DataError, match="convert it to numbers"):
        cofill.Imputer().fit(frame)
