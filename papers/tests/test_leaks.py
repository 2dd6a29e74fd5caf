"""The experiment on defences of codes: its record, its verdict, its bound, its pictures."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.audit import least_leaks
from cofill.errors import SettingError
from cofill.metrics import ResultRecord
from cofill.views import MultiView
from cofill_papers import _leak_experiments as leaks
from cofill_papers import run_experiment
from cofill_papers._leak_pictures import draw_leaks


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> ResultRecord:
    """A run on a few rows of WDBC with linear attackers and two defences."""
    small = {
        "none": leaks.CodeDefence(),
        "noise-30": leaks.CodeDefence(epsilon=30.0),
        "needs-1": leaks.CodeDefence(pilot=60, price=1.0),
    }
    wdbc = replace(leaks._SOURCES["wdbc"], pilot=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaks, "_SOURCES", {**leaks._SOURCES, "wdbc": wdbc})
        patch.setattr(leaks, "_grid", lambda source: small)
        trial = leaks._QUICK_TRIAL
        linear = replace(trial.attack, fusion=replace(trial.attack.fusion, hidden=()))
        quick = replace(trial, encoders=replace(trial.encoders, epochs=20), attack=linear)
        patch.setattr(leaks, "_QUICK_TRIAL", quick)
        out = tmp_path_factory.mktemp("leak")
        return run_experiment("leak-codes", quick=True, seeds=1, methods=["wdbc"], out=out)


def test_the_record_has_leak_and_utility(record):
    names = {key.split("/")[0] for key in record.values}
    assert names == {"paper", "none", "noise-30", "needs-1"}
    for name in ("none", "noise-30", "needs-1"):
        for metric in ("inversion_r2", "mse", "mse_growth", "reidentified", "unique"):
            assert record.values[f"{name}/{metric}/wdbc"][0] is not None
    assert record.values["none/mse_growth/wdbc"] == [0.0]


def test_a_defence_leaks_less_and_costs_something(record):
    leak = {n: record.values[f"{n}/inversion_r2/wdbc"][0] for n in ("paper", "none", "noise-30")}
    assert leak["paper"] > 0.7
    assert leak["none"] > 0.7
    assert leak["noise-30"] < leak["none"] - 0.2
    assert record.values["noise-30/mse_growth/wdbc"][0] > 0.2
    # The pilot's people are as exposed as without a defence.
    outside, everyone = (
        record.values[f"needs-1/{m}/wdbc"][0] for m in ("inversion_r2", "inversion_r2_everyone")
    )
    assert outside < everyone < leak["none"]


def test_the_verdict_names_a_trade_off(record):
    verdict = record.extra["verdict"]["wdbc"]
    assert verdict["best"] in ("none", "noise-30", "needs-1")
    assert verdict["reached"] == (verdict["inversion_r2"] < 0.2 and verdict["mse_growth"] < 0.25)
    assert set(verdict["frontier"]) >= {"none"}
    assert verdict["bound"] == {}  # 180 rows are too few for twenty columns


def test_what_completes_a_row_gives_it_away(record):
    without = record.values["none/inferred_r2/wdbc"][0]
    assert 0.3 < without < 1
    for name in ("noise-30", "needs-1"):
        grown, told = (record.values[f"{name}/{m}/wdbc"][0] for m in ("mse_growth", "inferred_r2"))
        assert told == pytest.approx(1 - (1 + grown) * (1 - without))
    at_goal = record.extra["verdict"]["wdbc"]["inferred_at_goal"]
    assert at_goal == pytest.approx(1 - 1.25 * (1 - without))


def test_pictures_join_the_strengths_of_a_defence(record):
    svg = draw_leaks(record)["wdbc"]
    assert "needs" in svg
    assert "noise" in svg
    assert "noise-30" not in svg


def test_any_code_leaks_less_the_more_the_error_may_grow(tmp_path):
    found = run_experiment("leak-bound", quick=True, seeds=1, methods=["wdbc"], out=tmp_path)
    least = [found.values[f"any-{growth}/least_leak/wdbc"][0] for growth in (25, 50, 100)]
    assert 0.9 > least[0] > least[1] > least[2] > 0.0


def test_another_data_set_is_refused():
    with pytest.raises(SettingError, match="there is no method 'cube' in leak-codes"):
        run_experiment("leak-codes", methods=["cube"])


def test_the_bound_is_what_the_receiver_needs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 4))
    noise = rng.normal(size=(2000, 2))
    alone = MultiView.from_arrays({"x": x, "y": noise})
    assert least_leaks(alone, [0.25])[0]["y"] < 0.01  # nothing shared, nothing to tell
    copy = MultiView.from_arrays({"x": x, "y": x[:, :2] + 0.1 * noise})
    assert least_leaks(copy, [0.25])[0]["y"] == pytest.approx(0.5, abs=0.03)  # two columns of four
    assert least_leaks(copy, [5.0])[0]["y"] < least_leaks(copy, [0.25])[0]["y"]


def test_no_code_beats_the_bound():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 4)) @ rng.normal(size=(4, 4))
    y = x @ rng.normal(size=(4, 3)) + 3 * rng.normal(size=(3000, 3))
    x, y = ((v - v.mean(axis=0)) / v.std(axis=0) for v in (x, y))
    whole = ((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).mean()
    views = MultiView.from_arrays({"x": x, "y": y})
    for trial in range(60):
        draw = np.random.default_rng(trial)
        codes = x @ draw.normal(size=(4, 1 + trial % 4))
        codes = codes + draw.uniform(0, 1) * draw.normal(size=codes.shape) * codes.std(axis=0)
        wrong = ((y - codes @ np.linalg.lstsq(codes, y, rcond=None)[0]) ** 2).mean()
        told = 1 - ((x - codes @ np.linalg.lstsq(codes, x, rcond=None)[0]) ** 2).mean()
        assert told > least_leaks(views, [float(wrong / whole - 1)])[0]["y"] - 0.03


def test_no_bound_is_given_where_rows_are_too_few_for_one():
    rng = np.random.default_rng(0)
    views = MultiView.from_arrays({"a": rng.normal(size=(60, 30)), "b": rng.normal(size=(60, 2))})
    assert set(least_leaks(views, [0.25])[0]) == {
        "a",
        "all",
    }  # a's peers have two columns, b's thirty
    assert least_leaks(views.take(np.arange(60) < 19), [0.25])[0] == {}
