"""Experiments on rows at many sites: who holds what, what is measured, what is drawn."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.federate import FederatedCompletion, PairScores, Shape
from cofill.metrics import ResultRecord, unpacked_images
from cofill.views import Scaler
from cofill_papers import _fed_experiments as experiments
from cofill_papers import find_experiment, run_experiment
from cofill_papers._fed_clusters import _labels, _true_rows
from cofill_papers._fed_pictures import draw_rows
from cofill_papers._fed_setup import data_of, held_by


@pytest.fixture(scope="module")
def digits():
    return data_of(True)


def test_no_test_image_is_among_the_training_images(digits):
    assert not set(digits.train.ids) & set(digits.test.ids)
    assert digits.train.n_individuals == 2 * digits.singles + digits.pairs == len(digits.labels)


def test_the_three_trainings_hold_the_same_individuals_with_the_same_gaps(digits):
    fed, central, local = (held_by(m, digits, 3) for m in ("fed-best", "central-best", "local-x"))
    assert [own.n_individuals for own in fed.values()] == [150] * 10
    both = (True, True)
    assert all(own.patterns()[both] == 75 for own in fed.values())
    (pooled,) = central.values()
    assert pooled.patterns() == {both: 750, (True, False): 375, (False, True): 375}
    for own in fed.values():
        at = np.searchsorted(pooled.ids, own.ids)
        np.testing.assert_array_equal(pooled.presence[at], own.presence)
    ((name, only),) = local.items()
    assert name == "site_05"
    assert only.same_as(fed["site_05"])


def test_other_seeds_deal_otherwise(digits):
    one, two = (held_by("fed-best", digits, seed)["site_01"] for seed in (0, 1))
    assert not np.array_equal(one.ids, two.ids)


def pretend(complete, test):
    """An estimator whose model is a function of rows."""
    names = tuple(test)
    shape = Shape(names, (64, 64), (8, 8), bounded=True)
    scalers = {
        name: Scaler(test[name].features, "standard", (0.0,) * 64, (16.0,) * 64, (0.0,) * 64,
                     (16.0,) * 64)
        for name in names
    }  # fmt: skip
    estimator = FederatedCompletion()
    estimator.learner_ = SimpleNamespace(shape=shape, complete=complete)
    estimator.scalers_, estimator.weights_ = scalers, np.zeros(1)
    return estimator


def test_errors_are_those_of_the_modality_that_was_hidden(digits):
    asked = []

    def half_grey(weights, rows, part="fill"):
        asked.append(rows.present.copy())
        assert not rows.cells[:, np.repeat(~rows.present[0], 64)].any()  # hidden means hidden
        return np.full_like(rows.cells, 0.5)

    errors = PairScores(digits.test).errors(pretend(half_grey, digits.test))
    cells = {n: digits.test[n].cells / 16 for n in ("image", "edge")}
    wanted = {n: 255**2 * float(((0.5 - c) ** 2).mean()) for n, c in cells.items()}
    assert errors["x2y"] == pytest.approx(wanted["edge"], rel=1e-6)
    assert errors["y2x"] == pytest.approx(wanted["image"], rel=1e-6)
    assert errors["all"] == pytest.approx((wanted["edge"] + wanted["image"]) / 2, rel=1e-6)
    assert [a[0].tolist() for a in asked] == [[True, False], [False, True]]


def test_pictures_show_truth_beside_what_was_made(digits):
    grey = PairScores(digits.test).pictures(
        pretend(lambda w, rows, part="fill": np.ones_like(rows.cells), digits.test)
    )
    assert list(grey) == ["image", "edge from image", "edge", "image from edge"]
    assert set(np.ravel(unpacked_images(grey["edge from image"]))) == {255}
    first = np.rint(255 * digits.test["image"].cells[0] / 16).reshape(8, 8)
    np.testing.assert_array_equal(unpacked_images(grey["image"])[0], first)


def test_true_rows_and_labels_are_those_of_the_sites_individuals(digits):
    held = held_by("fed-best", digits, 0)
    real = _true_rows(digits, held)
    assert all(own.is_complete for own in real.values())
    ids = np.concatenate([own.ids for own in held.values()])
    np.testing.assert_array_equal(np.concatenate([own.ids for own in real.values()]), ids)
    where = {i: k for k, i in enumerate(digits.train.ids)}
    assert _labels(digits, real).tolist() == [digits.labels[where[i]] for i in ids]


@pytest.fixture
def tiny(monkeypatch, digits):
    """Experiments on two hundred digits and two rounds."""
    kept = np.arange(200)
    given = replace(
        digits,
        train=digits.train.take(kept),
        test=digits.test.take(np.arange(20)),
        labels=digits.labels[kept],
        pairs=100,
        singles=50,
        rounds=2,
    )
    monkeypatch.setattr(experiments, "data_of", lambda quick: given)


@pytest.mark.parametrize(
    ("method", "rounds"),
    [
        ("fed-best", [1, 2]),
        pytest.param("fed-faithful", [0, 1, 2], marks=pytest.mark.full),  # much to compile
    ],
)
def test_a_run_measures_every_seed_and_keeps_curves_and_images(tiny, tmp_path, method, rounds):
    record = run_experiment("fed-vigan", quick=True, seeds=2, methods=[method], out=tmp_path)
    error, ratio = (record.per_seed(method, metric) for metric in ("mse255", "psnr"))
    np.testing.assert_allclose(ratio, 10 * np.log10(255**2 / error))
    assert error[0] != error[1]
    curve = record.extra["curves"][method]
    assert [entry["round"] for entry in curve] == rounds
    assert ({"generators_all", "autoencoder"} <= set(curve[0])) == (method == "fed-faithful")
    assert curve[-1]["all"] == pytest.approx(error[0])
    grouped = {key.split("/")[1] for key in record.values if key.endswith("/kmeans")}
    assert grouped == ({"purity", "ari", "acc", "mi", "nmi"} if method == "fed-faithful" else set())
    drawn = {path.stem for path in tmp_path.glob("*.svg")}
    assert {"fed-vigan_psnr", "fed-vigan_rounds", f"fed-vigan_images_{method}"} <= drawn
    assert ("1773" in (tmp_path / "fed-vigan.md").read_text()) == (method == "fed-faithful")


@pytest.mark.full
@pytest.mark.parametrize("where", ["local", "fed"])
def test_pretraining_is_measured_after_each_printed_epoch(tiny, where):
    method, whole = f"{where}-pretraining", f"{where}-faithful"
    record = run_experiment("fed-vigan", quick=True, seeds=2, methods=[method, whole])
    points = record.extra["curves"][method]
    epochs = [(entry["phase"], entry["epoch"]) for entry in points]
    assert epochs == [("autoencoder", 1), ("autoencoder", 5), ("cycle", 1), ("cycle", 2)]
    assert points[1]["autoencoder"] < points[0]["autoencoder"]
    # The longest epochs end where the pre-training of the whole run did.
    first = record.extra["curves"][whole][0]
    for point, figure in ((points[1], "autoencoder"), (points[3], "generators_all")):
        assert point[figure] == pytest.approx(first[figure], rel=1e-3)
        values = record.per_seed(method, "mse255", figure.partition("_")[0])
        assert values[0] == pytest.approx(point[figure])
        assert values[0] != values[1]


@pytest.mark.full
def test_strategies_are_compared_on_skewed_sites(tiny):
    record = run_experiment("fed-noniid", quick=True, seeds=1, methods=["fedavg", "scaffold"])
    assert {key.split("/")[0] for key in record.values} == {"fedavg", "scaffold"}
    assert all(np.isfinite(record.per_seed(m, "psnr")).all() for m in ("fedavg", "scaffold"))


def test_an_unknown_method_is_named():
    with pytest.raises(SettingError, match="no method 'mwm' in fed-vigan; there is 'fed-faithful'"):
        run_experiment("fed-vigan", quick=True, methods=["mwm"])


def test_clusters_record_has_the_published_figures_beside_it():
    assert find_experiment("fed-vigan-clusters").published["real/purity/kmeans"] == 0.496
    assert find_experiment("fed-vigan").published["fed-faithful/nmi/kmeans"] == 0.329


@pytest.mark.full
def test_completed_individuals_group_as_the_real_ones_do():
    record = run_experiment("fed-vigan-clusters", quick=True, seeds=1, methods=["real", "fed-best"])
    found = {key: value["mean"] for key, value in record.summary.items()}
    for key in ("real/purity/kmeans", "fed-best/purity/kmeans", "fed-best/acc/deep"):
        assert 0.5 < found[key] < 1
    assert found["fed-best/nmi/kmeans"] > 0.7
    assert "real/nmi/kmeans" not in found


def test_pictures_without_curves_are_bars_only():
    values = {"fed-best/psnr/x2y": [30.0, 31.0], "fed-best/psnr/all": [29.0, 30.0]}
    drawn = draw_rows(ResultRecord("fed-vigan", seeds=[0, 1], values=values))
    assert list(drawn) == ["psnr"]
    assert draw_rows(ResultRecord("x", seeds=[0], values={"a/mse255/all": [1.0]})) == {}


def test_views_of_an_experiment_are_images(digits):
    assert {digits.train[n].image_shape for n in digits.train} == {(8, 8)}
