"""Tables of records, beside the papers' figures."""

import math

import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.metrics import Recorder, ResultRecord
from cofill_papers import table


def example():
    recorder = Recorder("wdbc", seeds=[0, 1, 2], settings={"width": 15})
    recorder.add("mwm", "mse", "mean", [0.2, 0.3, 0.4])
    recorder.add("mwm", "mse", "worst", [0.4, 0.5, None])
    recorder.add("equal", "mse", "mean", np.array([0.3, 0.3, 0.3]))
    return recorder.finish()


def test_table_beside_the_paper():
    shown = table(
        example(),
        published={"mwm/mse/mean": 0.25, "mwm/mse/all": "lost", "local/mse/all": (2677.4, 12.34)},
    )
    assert str(shown) == (
        "method  where              mse  mse (paper)\n"
        "------  -----  ---------------  -----------\n"
        "mwm     mean       0.30 ± 0.10       0.2500\n"
        "mwm     worst    0.450 ± 0.071            –\n"
        "mwm     all      0.350 ± 0.071         lost\n"
        "equal   mean   0.3000 ± 0.0000            –\n"
        "equal   all    0.3000 ± 0.0000            –\n"
        "local   all                  –    2677 ± 12"
    )
    assert shown.rows[0] == {
        "method": "mwm", "where": "mean", "mse": pytest.approx(0.3), "mse_std": pytest.approx(0.1),
        "mse_n": 3, "mse_published": 0.25,
    }  # fmt: skip
    assert shown.rows[-1]["mse"] is None


def test_table_of_chosen_metrics_in_markdown():
    values = {
        "a|b/mse/x": [1773.1],
        "a|b/psnr/x": [math.inf],
        "a|b/mse/all": [1e-9],
        "c/mrd/x": [None],
    }
    record = ResultRecord("x", seeds=[0], values=values)
    shown = table(record, metrics=["psnr", "mse"])
    assert shown.markdown().splitlines() == [
        "| method | where | psnr |   mse |",
        "| ------ | ----- | ---: | ----: |",
        "| a\\|b   | x     |    ∞ |  1773 |",
        "| a\\|b   | all   |    ∞ | 1e-09 |",
    ]
    assert [row["where"] for row in table(record).rows if row["method"] == "c"] == ["x", "all"]
    with pytest.raises(SettingError, match="metrics must be among mse, psnr, mrd, got nmi"):
        table(record, metrics=["nmi"])
    with pytest.raises(SettingError, match="three parts"):
        table(record, published={"mse": 1.0})
    empty = table(ResultRecord("x", seeds=[0], values={}))
    assert empty.rows == []
    assert str(empty) == "method  where\n------  -----"
