"""The protocol: what methods may see, what errors mean, and what is computed from all repeats."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cofill.cooperate import MaskStatistics
from cofill.errors import DataError, SettingError
from cofill.metrics import Recorder, ResultRecord
from cofill.views import Dataset, Feature, Kind, MultiView, View, load
from cofill_papers import experiments, find_experiment, run_experiment
from cofill_papers._crs import Notebook, Outcome, hidden_rows, run_repeats, split_individuals
from cofill_papers._methods import Fitted, _masks, chosen, families
from cofill_papers._observations import (
    collect_masks,
    cube_masks,
    digit_pictures,
    informative_features,
    mean_masks,
    noise_is_flagged,
    printed_iteration,
    relative_differences,
    subtypes,
)


def people(n=200, *, seed=0, coded=False):
    """Two classes in three related views; with `coded`, one view has a category."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    trait = 5 * labels[:, None] + rng.normal(size=(n, 2))
    lab = trait @ rng.normal(size=(2, 2))
    features = ["lab_0", "lab_1"]
    if coded:
        lab[:, 1] = labels
        features[1] = Feature("group", Kind.BINARY, ("a", "b"))
    ids = np.arange(n) * 3
    views = MultiView(
        [
            View("left", ids, trait),
            View("right", ids, 10 + trait @ rng.normal(size=(2, 3))),
            View("lab", ids, lab, features),
        ]
    )
    return Dataset("people", views, labels, ("even", "odd"), "made here")


def run(data, answers, *, prepare=split_individuals, seeds=(0, 1), observe=(), masks=None):
    """Run fake methods: ``{name: (train, seed) → reconstruct}``."""
    recorder = Recorder("fake", seeds=seeds)
    notebook = Notebook(recorder)
    chunks = []

    def family(trains, chunk, progress):
        chunks.append(list(chunk))
        return [
            {name: Fitted(made(t, s), masks) for name, made in answers.items()}
            for t, s in zip(trains, chunk, strict=True)
        ]

    run_repeats(
        notebook,
        lambda seed: prepare(data, seed),
        [family],
        chunk=2,
        observe=observe,
        progress=lambda what, share: None,
    )
    return recorder.finish(), notebook, chunks


def oracle(data):
    return lambda train, seed: (
        lambda views, name: data.views.take(np.isin(data.views.ids, views.ids))[name].cells
    )


def typical(train, seed):
    return lambda views, name: np.tile(train[name].cells.mean(axis=0), (views.n_individuals, 1))


def test_the_truth_has_no_error_and_costs_no_accuracy():
    data = people()
    record, _, _ = run(data, {"oracle": oracle(data)})
    for view in data.views:
        for metric in ("mse", "mrd", "class_diff"):
            assert (record.per_seed("oracle", metric, f"view_{view}") == 0).all()
        original = record.per_seed("original", "rf", f"view_{view}")
        assert (record.per_seed("oracle", "rf", f"view_{view}") == original).all()
        told = record.per_seed("others", "rf", f"view_{view}")
        changed = record.per_seed("others", "class_diff", f"view_{view}")
        np.testing.assert_allclose(changed, told - original, atol=1e-9)
    assert (record.per_seed("original", "rf") > 0.9).all()


def test_the_mean_has_an_error_of_one_in_standardised_units():
    record, _, _ = run(people(2_000), {"mean": typical})
    for view in ("left", "right", "lab"):
        assert record.summary[f"mean/mse/view_{view}"]["mean"] == pytest.approx(1, abs=0.15)
    assert record.per_seed("mean", "mrd") == pytest.approx(1)
    assert (record.per_seed("mean", "class_diff") < -0.3).all()


def test_methods_are_fitted_without_test_individuals_and_asked_without_the_view():
    data = people()
    asked = []

    def memory(train, seed):
        seen = set(train.ids.tolist())
        assert train.is_complete

        def reconstruct(views, name):
            assert not seen & set(views.ids.tolist())
            assert len(views[name]) == 0
            assert len(seen) + views.n_individuals == data.views.n_individuals
            asked.append((seed, name, tuple(views.ids)))
            return np.zeros((views.n_individuals, views[name].n_features))

        return reconstruct

    run(data, {"memory": memory}, seeds=(0, 1, 2))
    assert len(asked) == 9
    assert len({ids for _, _, ids in asked}) == 3  # every repeat has its own test individuals


def test_scalers_and_forests_know_training_rows_only():
    data = people()
    repeat = split_individuals(data, 0)
    for view in data.views:
        cells = repeat.train[view].cells
        scaled = repeat.standardised(view, cells)
        assert scaled.mean(axis=0) == pytest.approx(0, abs=1e-9)
        assert scaled.std(axis=0) == pytest.approx(1)
        assert repeat.forests[view].predict(cells).shape == (180,)


def test_repeats_run_in_chunks_and_a_repeat_does_not_depend_on_the_others():
    data = people()
    record, _, chunks = run(data, {"mean": typical}, seeds=(0, 1, 5))
    assert chunks == [[0, 1], [5]]
    alone, _, _ = run(data, {"mean": typical}, seeds=(5,))
    assert alone.per_seed("mean", "mse")[0] == record.per_seed("mean", "mse")[2]


def test_cells_left_open_count_as_the_mean_and_are_reported():
    def silent(train, seed):
        return lambda views, name: np.full((views.n_individuals, views[name].n_features), np.nan)

    record, _, _ = run(people(), {"mean": typical, "silent": silent})
    assert record.per_seed("silent", "mse") == pytest.approx(record.per_seed("mean", "mse"))
    assert (record.per_seed("silent", "left_open") == 1).all()
    assert not any(k.startswith("mean/left_open") for k in record.values)


def test_cells_of_the_wrong_shape_are_a_fault_of_the_method():
    def short(train, seed):
        return lambda views, name: np.zeros((1, 1))

    with pytest.raises(DataError, match="'short' must reconstruct view 'left' as"):
        run(people(), {"short": short})


def test_hidden_rows_are_scored_by_kind():
    data = people(coded=True)
    record, _, _ = run(data, {"oracle": oracle(data), "mean": typical}, prepare=hidden_rows)
    assert (record.per_seed("oracle", "accuracy", "view_lab") == 1).all()
    assert "oracle/accuracy/view_left" not in record.values
    assert (record.per_seed("oracle", "mse") == 0).all()
    assert not any("/rf/" in k for k in record.values)
    repeat = hidden_rows(data, 0)
    for view in data.views:
        assert repeat.truth[view].shape[0] == 20
        assert not np.isin(repeat.tests[view].ids, repeat.train[view].ids).any()


def test_individuals_of_data_with_holes_are_not_split():
    data = people()
    holed = data.views.hide({"lab": np.arange(200) < 5})
    with pytest.raises(DataError, match="has holes"):
        split_individuals(Dataset("holed", holed, data.labels, ("a", "b"), "here"), 0)


def test_relative_differences_are_recorded_for_every_bound_near_zero():
    data = people()

    def half(train, seed):
        def reconstruct(asked, name):
            mean = train[name].cells.mean(axis=0)
            return mean + (oracle(data)(train, seed)(asked, name) - mean) / 2

        return reconstruct

    record, _, _ = run(data, {"half": half}, observe=[relative_differences])
    for metric in ("mrd_all", "mrd_0.001", "mrd_0.1", "mrd_median"):
        assert record.per_seed("half", metric) == pytest.approx(0.5)


def test_equation_8_in_the_printed_order_finds_the_masks_of_two_sources():
    truth = np.random.default_rng(0).normal(size=(40, 2))
    noise = np.random.default_rng(1).normal(size=(2, 40, 2))
    model = SimpleNamespace(statistics=MaskStatistics.of(truth + noise, truth))
    estimator = SimpleNamespace(sites_={"left": SimpleNamespace(model=model)})
    notebook = Notebook(Recorder("fake", seeds=[0]))
    repeat = split_individuals(people(), 0)
    printed_iteration(notebook, repeat, Outcome("mwm", Fitted(len, None, estimator), {}))
    assert notebook.recorder.finish().values == {"mwm/eq8_converges/view_left": [1.0]}


def test_masks_are_averaged_and_split_into_shared_and_other_features():
    data = load("cube")
    masks = {
        "along_x": {"along_y": {"y": -0.1, "z": 0.9}, "along_z": {"y": 1.0, "z": 0.3}},
    }
    record, notebook, _ = run(
        data, {"mean": typical}, observe=[collect_masks, cube_masks], masks=masks
    )
    assert record.per_seed("mean", "mask_shared") == pytest.approx(0.95)
    assert record.per_seed("mean", "mask_nonshared") == pytest.approx(0.2)
    assert mean_masks(notebook) == {"mean": masks}
    frame = pd.DataFrame([("a", "b", "f", 0.5)], columns=["view", "source", "feature", "weight"])
    assert _masks(type("Estimator", (), {"masks_": frame})()) == {"a": {"b": {"f": 0.5}}}
    assert _masks(object()) is None


def test_madelons_informative_features_are_found_and_flagged():
    try:
        data = load("madelon")
    except DataError:
        pytest.skip("madelon is not here")
    repeat = split_individuals(data, 0)
    informative = informative_features(repeat)
    assert len(informative) == 20
    names = [(v, f) for v in data.views for f in data.views[v].feature_names]
    frame = pd.DataFrame(
        [(v, f, s, (f in informative) * 0.5) for v, f in names for s in ("all", "part_1")],
        columns=["view", "feature", "source", "r2"],
    )
    estimator = type("Estimator", (), {"reconstructability_": frame, "threshold": 0.05})()
    notebook = Notebook(Recorder("madelon", seeds=[0]))
    noise_is_flagged(notebook, repeat, Outcome("best", Fitted(len, None, estimator), {}))
    values = notebook.recorder.finish().values
    assert values["best/informative_auc/all"] == [1.0]
    assert values["best/probes_flagged/all"] == [1.0]
    assert values["best/informative_flagged/all"] == [0.0]


def test_the_best_and_worst_digit_of_each_class_are_kept_from_the_first_repeat():
    rng = np.random.default_rng(0)
    pix = View("pix", np.arange(60), rng.uniform(0, 6, size=(60, 4, 3)))
    views = MultiView([pix, View("fou", np.arange(60), rng.normal(size=(60, 2)))])
    data = Dataset("digits", views, np.arange(60) % 3, ("0", "1", "2"), "made here")

    def worse_and_worse(train, seed):
        def reconstruct(asked, name):
            true = oracle(data)(train, seed)(asked, name)
            return true + 0.1 * np.arange(len(true))[:, None]

        return reconstruct

    _, notebook, _ = run(data, {"mwm": worse_and_worse, "knn": typical}, observe=[digit_pictures])
    kept = notebook.notes["digits"]
    assert kept["shape"] == [4, 3]
    assert kept["best"]["names"] == sorted(kept["best"]["names"])
    assert 0 in kept["best"]["rows"]  # the row with the least error
    assert 5 in kept["worst"]["rows"]
    at = kept["best"]["rows"].index(0)
    assert kept["best"]["mwm"][at] == pytest.approx(kept["best"]["original"][at], abs=0.01)
    assert "knn" not in kept["best"]


def test_subtypes_are_told_from_completed_protein():
    data = people()
    renamed = [v.with_rows(v.ids, v.cells) for v in data.views.values()]
    protein = View("protein", data.views.ids[:150], data.views["lab"].cells[:150])
    views = MultiView([*renamed[:2], protein])
    holed = Dataset("tcga", views, data.labels, data.class_names, "made here")
    full = MultiView([*renamed[:2], View("protein", data.views.ids, data.views["lab"].cells)])

    def truth(train, seed):
        return lambda asked, name: full.take(np.isin(full.ids, asked.ids))[name].cells

    record, _, _ = run(
        holed,
        {"oracle": truth, "mean": typical},
        prepare=lambda d, s: hidden_rows(d, s, names=["protein"], classify=True),
        observe=[subtypes],
    )
    assert (record.per_seed("oracle", "rf_missing") > 0.9).all()
    assert (record.per_seed("mean", "rf_missing") < 0.7).all()
    assert (record.per_seed("without", "rf_missing") > 0.9).all()
    assert (record.per_seed("oracle", "class_diff", "view_protein") == 0).all()


def test_methods_are_chosen_by_name():
    assert chosen(None)[:4] == ("equal", "mwm", "crossed", "best")
    assert chosen(["mean", "equal"]) == ("equal", "mean")
    with pytest.raises(SettingError, match="did you mean 'knn'"):
        chosen(["kn"])
    with pytest.raises(SettingError, match="at least one"):
        chosen([])
    assert len(families(["equal", "mwm", "mean"], architecture="wdbc")) == 2
    assert len(families(["equal", "crossed"], architecture="wdbc")) == 2


def test_experiments_are_found_by_name():
    assert {e.name for e in experiments()} >= {"cube", "wdbc", "mfdd", "madelon"}
    assert find_experiment("cube").repeats == 50
    with pytest.raises(SettingError, match="did you mean 'madelon'"):
        find_experiment("madellon")


def test_a_run_gives_paired_tests_and_largest_differences(tmp_path):
    from cofill_papers._view_experiments import paired_by_view

    record = run_experiment("wdbc", seeds=[3, 4], methods=["mean", "central-ridge"])
    largest = record.extra["largest_class_diff"]
    assert largest["mean"]["value"] < -0.2
    assert record.settings["methods"].keys() == {"mean", "central-ridge"}
    assert record.seeds == [3, 4]
    tests = paired_by_view(record, "central-ridge", "mean")
    assert set(tests) == {"view_mean", "view_error", "view_worst", "all"}
    assert tests["all"]["mean_difference"] < -0.3
    again = run_experiment("wdbc", seeds=[4], methods=["central-ridge"])
    assert again.values["central-ridge/mse/view_mean"][0] == pytest.approx(
        record.values["central-ridge/mse/view_mean"][1]
    )
    assert ResultRecord.from_json(record.to_json()) == record
    with pytest.raises(SettingError, match="at least 1"):
        run_experiment("wdbc", seeds=0)


@pytest.mark.full
def test_the_papers_masks_find_the_shared_coordinates_of_the_cube():
    record = run_experiment("cube", seeds=1, methods=["equal", "mwm", "crossed", "best"])
    for method in ("mwm", "crossed", "closed", "best"):
        assert record.per_seed(method, "mask_shared")[0] > 0.95
        assert record.per_seed(method, "mask_nonshared")[0] < 0.05
        assert record.per_seed(method, "mse")[0] < 0.1 * record.per_seed("equal", "mse")[0]
    assert record.per_seed("mwm", "mse") == pytest.approx(record.per_seed("closed", "mse"), rel=0.1)
    assert set(record.extra["masks"]["mwm"]["along_x"]) == {"along_y", "along_z"}
    for note, method in (("paired", "mwm"), ("paired_crossed", "crossed")):
        assert record.extra[note]["method"] == method
        assert record.extra[note]["where"]["all"]["mean_difference"] < 0


def test_methods_can_be_added_to_a_record(tmp_path):
    run_experiment("wdbc", seeds=1, methods=["mean"], out=tmp_path)
    with pytest.raises(SettingError, match="add goes with out"):
        run_experiment("wdbc", seeds=1, methods=["knn"], add=True)
    both = run_experiment("wdbc", seeds=1, methods=["knn"], out=tmp_path, add=True)
    assert {key.split("/")[0] for key in both.values} >= {"mean", "knn"}
    assert ResultRecord.read(tmp_path / "wdbc.json") == both
    with pytest.raises(SettingError, match="already"):
        run_experiment("wdbc", seeds=1, methods=["mean"], out=tmp_path, add=True)
    assert ResultRecord.read(tmp_path / "wdbc.json") == both
