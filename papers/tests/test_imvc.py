"""Incomplete multi-view clustering: who lacks what, and figures for every method."""

import numpy as np
import pytest

from cofill.views import load
from cofill_papers import _imvc, run_experiment
from cofill_papers._imvc import hide_one_view


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5])
def test_a_share_of_individuals_has_exactly_one_view(rate):
    views = load("wdbc").views.select(["mean", "worst"])
    holes = hide_one_view(views, rate, seed=3)
    counts = holes.presence.sum(axis=1)
    assert (counts == 1).sum() == round(rate * views.n_individuals)
    assert counts.min() >= 1
    lacking = (~holes.presence).sum(axis=0)
    assert abs(int(lacking[0]) - int(lacking[1])) <= 1
    assert holes.same_as(hide_one_view(views, rate, seed=3))


def test_every_method_is_scored_and_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(_imvc, "_DATA", {"wdbc": ("wdbc", ("mean", "worst"))})
    methods = ["multiview", "mean-kmeans", "ridge-spectral"]
    record = run_experiment("imvc", quick=True, seeds=1, methods=methods, out=tmp_path)
    for method in methods:
        accuracy = record.values[f"{method}/acc/wdbc_0.5"][0]
        assert accuracy is not None
        assert accuracy > 0.85
    assert {f"{m}/{s}/wdbc_0.5" for m in methods for s in ("acc", "nmi", "ari")} == set(
        record.values
    )
    assert np.isfinite([v for values in record.values.values() for v in values]).all()
    assert (tmp_path / "imvc_wdbc.svg").exists()
