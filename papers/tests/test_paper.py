"""A paper in one command: parts are run once, and what is missing is taken up."""

import numpy as np
import pytest

from cofill.cli._app import run
from cofill.errors import SettingError
from cofill.metrics import ResultRecord
from cofill_papers import PAPERS, _paper, experiments, reproduce_paper


def test_papers_name_experiments_that_there_are():
    known = {experiment.name for experiment in experiments()}
    assert {name for names in PAPERS.values() for name in names} <= known
    with pytest.raises(SettingError, match="no paper 'growpv'; did you mean 'growpu'"):
        reproduce_paper("growpv", out=".")


@pytest.fixture
def digits_only(monkeypatch):
    """The paper on means is one experiment, without data from files, of two cheap methods."""
    experiment = _paper.find_experiment("growpu-behaviour")
    monkeypatch.setitem(_paper.PAPERS, "growpu", ("growpu-behaviour",))
    parts = [("kmeans", 2), ("nnpu-linear", 2)]
    monkeypatch.setattr(type(experiment), "parts", lambda self, *, quick: parts)
    monkeypatch.setattr(type(experiment), "draw_data", lambda self: {})
    monkeypatch.setattr(
        "cofill_papers._released._generated", lambda rows, *_: rows.mean(axis=1) + 0.125
    )
    return parts


def test_a_second_call_runs_what_is_missing_alone(digits_only, tmp_path, capsys):
    assert len(reproduce_paper("growpu", out=tmp_path, quick=True)) == 2
    first = ResultRecord.read(tmp_path / "growpu-behaviour.json")
    assert reproduce_paper("growpu", out=tmp_path, quick=True) == []
    digits_only[:] = [("kmeans", 3), ("nnpu-linear", 2)]
    assert run(["reproduce", "growpu", "--all", "--quick", "--out", str(tmp_path)]) == 0
    assert "growpu-behaviour: kmeans, 1 repeats" in capsys.readouterr().out
    second = ResultRecord.read(tmp_path / "growpu-behaviour.json")
    assert (first.seeds, second.seeds) == ([0, 1], [0, 1, 2])
    guessed = second.per_seed("kmeans", "accuracy", "noisy")
    np.testing.assert_array_equal(guessed[:2], first.per_seed("kmeans", "accuracy", "noisy"))
    assert np.isfinite(guessed).all()
    assert np.isnan(second.per_seed("nnpu-linear", "accuracy", "noisy")[2])
    assert [run["seeds"] for run in second.extra["runs"]] == [[0, 1], [0, 1], [2]]
