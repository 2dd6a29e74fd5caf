"""The experiments on released means: what attackers may see, figures, records, pages, pictures."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from cofill.attack import GrowSettings, Noise, train_classifiers
from cofill.errors import SettingError
from cofill.metrics import Recorder, ResultRecord
from cofill.views import load
from cofill_papers import _mean_experiments, _released, find_experiment, run_experiment
from cofill_papers._attacks import (
    ATTACKS,
    Case,
    OracleSettings,
    ReleasedMean,
    _between_ones,
    run_attack,
)
from cofill_papers._gan import GANSettings
from cofill_papers._mean_experiments import (
    _CHOSEN,
    MEAN_EXPERIMENTS,
    MeanExperiment,
    run_mean_experiment,
)
from cofill_papers._mean_pictures import draw_attacked_records, draw_means
from cofill_papers._released import cases_of

RESULTS = Path(__file__).parents[2] / "results"
FAST = {
    "growpu": {"t_pre": 200, "t_grow": 200, "t_tune": 200, "learning_rate": 0.05},
    "upu": {"epochs": 30, "learning_rate": 0.05},
    "nnpu": {"epochs": 30, "learning_rate": 0.05},
    "oracle": {"epochs": 30, "learning_rate": 0.01},
}


def case(seed=0, seen=None):
    rng = np.random.default_rng(seed)
    truth = np.arange(400) % 2 == 0
    records = (rng.normal(size=(400, 4)) + np.where(truth, 1.5, -1.5)[:, None]).astype(np.float32)
    mean = records[truth].mean(axis=0, dtype=np.float64)
    means = {
        "noiseless": ReleasedMean(mean),
        "noisy": ReleasedMean(mean + 0.05, Noise("laplace", 0.05)),
    }
    return Case(seed, records, truth, means, seen)


def test_supervised_runs_do_not_learn_from_what_is_held_out():
    x, positive = case().records, case().truth
    wrong = positive.copy()
    flipped = np.arange(400) % 4 < 2  # half of each class
    wrong[flipped] = ~wrong[flipped]
    held = np.zeros((2, 400), bool)
    held[1, flipped] = True
    settings = OracleSettings(batch=100, epochs=20, learning_rate=0.1)
    targets = np.where(held, 0.0, np.where(wrong, 1.0, -1.0))
    keys = jax.random.split(jax.random.key(0), 2)
    runs = train_classifiers(settings, x[None], [0, 0], keys, targets=targets)
    right = (runs.labels == positive).mean(axis=1)
    assert right[0] < 0.9
    assert right[1] > 0.95


def test_an_oracle_without_epochs_is_refused():
    with pytest.raises(SettingError, match="epochs must be at least 1, got 0"):
        OracleSettings(epochs=0)


@pytest.mark.parametrize("seen", [None, np.arange(100)], ids=["all", "some"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_guesses_every_record_of_every_case(attack, seen):
    told = []
    made = run_attack(
        attack,
        "linear",
        [case(0, seen), case(1, seen)],
        prior=0.5,
        batch=50,
        settings=FAST.get(attack),
        report_progress=told.append,
    )
    assert set(made.accuracy) == {"noiseless", "noisy"}
    for values in made.accuracy.values():
        assert len(values) == 2
        assert min(values) > 0.9
    assert set(made.sureness) == (
        {"noiseless", "noisy"} if attack in ("discriminant", "likelihood", "best") else set()
    )


def test_an_unknown_attack_is_named():
    with pytest.raises(SettingError, match="no attack 'magic'; there is kmeans"):
        run_attack("magic", "", [case()], prior=0.5, batch=50, report_progress=lambda _: None)
    with pytest.raises(SettingError, match="no method 'mwm' in growpu-behaviour"):
        run_experiment("growpu-behaviour", seeds=1, quick=True, methods=["mwm"])


def test_the_means_are_the_papers():
    fast = GANSettings(steps=20)
    cases = cases_of("behaviour", [3, 4], ("noiseless", "distribution", "noisy"),
                     of_each=200, generator=fast)  # fmt: skip
    for found in cases:
        mean = found.records[found.truth].mean(axis=0)
        np.testing.assert_allclose(found.means["noiseless"].mean, mean, atol=1e-6)
        noise = found.means["noisy"].noise
        extent = found.records.max() - found.records.min()
        assert noise == Noise("laplace", float(extent) / (200 * 0.01))
        assert 0.3 < np.abs(found.means["noisy"].mean - mean).mean() / noise.scale < 3
        simulated = found.means["distribution"].mean
        assert simulated.shape == mean.shape
        assert not np.allclose(simulated, mean, atol=1e-3)
        off = np.sqrt(((simulated - mean) ** 2).mean())
        told = found.means["distribution"].noise
        assert told.kind == "unknown"
        assert 0.2 < told.scale / off < 5  # found by simulating others, without the real mean
    assert not np.array_equal(cases[0].records, cases[1].records)
    again = cases_of("behaviour", [3], ("noisy",), of_each=200)[0]
    np.testing.assert_array_equal(again.means["noisy"].mean, cases[0].means["noisy"].mean)


def test_attacks_added_to_a_record_are_given_its_simulated_means(tmp_path, monkeypatch):
    settings = {"seeds": 1, "quick": True, "out": tmp_path}
    monkeypatch.setattr(_released, "_generated", lambda rows, *_: rows.mean(axis=1) + 0.125)
    monkeypatch.setattr(_mean_experiments, "draw_attacked_records", lambda _: {})  # takes seconds
    first = run_experiment("growpu-behaviour", methods=["discriminant"], **settings)
    noted = first.extra["simulated"]["behaviour"]

    def untold(*_):
        raise AssertionError("a generator was trained again")

    monkeypatch.setattr(_released, "_generated", untold)
    second = run_experiment("growpu-behaviour", methods=["kmeans"], add=True, **settings)
    assert second.extra["simulated"]["behaviour"] == noted
    given = cases_of("behaviour", [0], ("distribution",), of_each=500, simulated=noted)[0]
    np.testing.assert_array_equal(given.means["distribution"].mean, noted["0"]["mean"])
    assert given.means["distribution"].noise == Noise("unknown", noted["0"]["off"])


def test_a_tenth_is_seen_and_no_mean_of_it():
    found = cases_of("behaviour", [0], ("noiseless",), of_each=200, share_seen=0.1)[0]
    assert len(found.seen) == 40
    assert found.known.shape == (40, 168)
    np.testing.assert_allclose(
        found.means["noiseless"].mean, found.records[found.truth].mean(axis=0), atol=1e-6
    )


def test_a_record_has_figures_outcomes_curves_and_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(_released, "_generated", lambda rows, *_: rows.mean(axis=1) + 0.125)
    methods = ["discriminant", "kmeans"]
    record = run_experiment("growpu-behaviour", seeds=1, quick=True, methods=methods, out=tmp_path)
    keys = {f"{m}/accuracy/{k}" for m in methods
            for k in ("noiseless", "distribution", "noisy")}  # fmt: skip
    assert keys <= set(record.values)
    assert record.summary["discriminant/accuracy/noiseless"]["mean"] > 0.8
    page = (tmp_path / "growpu-behaviour.md").read_text()
    assert "Records whose class was guessed" in page
    assert "0.6000" in page  # the paper's K-means
    assert (tmp_path / "growpu-behaviour_accuracy.svg").exists()
    assert (tmp_path / "growpu-behaviour_behaviour_components.svg").exists()
    assert ResultRecord.read(tmp_path / "growpu-behaviour.json").values == record.values


def test_figures_are_recorded_and_progress_only_goes_up():
    attacks = {"upu-linear": ("upu", "linear")}
    experiment = MeanExperiment("x", "a test", "a test", "behaviour", attacks, kinds=("noiseless",))
    recorder = Recorder("x", seeds=[0])
    told = []
    run_mean_experiment(
        experiment,
        recorder,
        quick=True,
        methods=["upu-linear"],
        simulated={},
        progress=lambda what, share: told.append(share),
    )
    record = recorder.finish()
    assert 0 <= record.values["upu-linear/accuracy/noiseless"][0] <= 1
    assert told[0] == 0
    assert told[-1] == 1
    assert sorted(told) == told


def test_networks_keep_curves_and_tell_degenerate_guesses():
    given = {"prior": 0.5, "batch": 50, "report_progress": lambda _: None}
    grown = run_attack(
        "growpu", "linear", [case()], settings={**FAST["growpu"], "curve_every": 50}, **given
    )
    curve = grown.curves["noiseless"]
    assert len(curve["steps"]) == len(curve["share"]) == len(curve["accuracy"]) > 3
    assert curve["accuracy"][-1] == pytest.approx(grown.accuracy["noiseless"][0], abs=0.01)
    lost = run_attack(
        "upu",
        "3lp-50",
        [case()],
        settings={"epochs": 1500, "learning_rate": 0.5, "dropout": 0},
        **given,
    )
    assert lost.outcomes["noisy"] == ["degenerate"]
    assert lost.accuracy["noisy"] == [0.5]


def test_networks_of_the_paper_do_not_mind_the_units_of_records():
    own = case()
    other = replace(
        own,
        records=7 * own.records + 3,
        means={k: replace(v, mean=7 * v.mean + 3) for k, v in own.means.items()},
    )
    one, two = (_between_ones([each])[0] for each in (own, other))
    assert (one.records.min(), one.records.max()) == pytest.approx((-1, 1))
    np.testing.assert_allclose(one.records, two.records, atol=1e-5)
    for where, given in one.means.items():
        np.testing.assert_allclose(given.mean, two.means[where].mean, atol=1e-5)
    images = [replace(own, records=own.records / 10)]
    assert _between_ones(images) is images


def test_published_figures_belong_to_figures_that_are_made():
    for experiment in MEAN_EXPERIMENTS:
        kinds = (*experiment.kinds, *map(str, experiment.labelled))
        made = {f"{name}/accuracy/{kind}" for name in experiment.attacks for kind in kinds}
        assert set(experiment.published) <= made
    assert find_experiment("growpu-mnist").published["growpu-linear/accuracy/noisy"] == 0.918


def test_an_attacks_name_stands_for_all_its_classifiers():
    planned = find_experiment("growpu-mnist").plan(["growpu", "nnpu-3lp"], [0], quick=True)
    assert list(planned) == ["growpu-linear", "growpu-3lp", "nnpu-3lp"]


def test_other_releases_are_means_of_some_positives_and_under_other_noise():
    kinds = ("some-1", "some-10", "epsilon-0.1", "noiseless")
    found = cases_of("behaviour", [0], kinds, of_each=200)[0]
    positives = found.records[found.truth]
    one, ten = (found.means[kind].mean for kind in kinds[:2])
    assert (positives == one).all(axis=1).any()
    assert not np.array_equal(one, ten)
    np.testing.assert_array_equal(np.rint(10 * ten), (10 * ten).round(6))
    noise = found.means["epsilon-0.1"].noise
    assert noise.scale == pytest.approx(float(np.ptp(found.records)) / (200 * 0.1))
    off = np.abs(found.means["epsilon-0.1"].mean - found.means["noiseless"].mean)
    assert 0.3 < off.mean() / noise.scale < 3


def test_pre_training_of_a_perceptron_narrows_down_to_few_positives():
    """Exhibits 1 to 3 run as described: fives among threes of 8 × 8 pixels."""
    digits = load("digits")
    chosen = np.isin(digits.labels, [5, 3])
    records = (digits.views["image"].cells[chosen] / 8 - 1).astype(np.float32)
    truth = np.asarray(digits.labels)[chosen] == 5
    # Steps ten times those of the tables, to be fast; a batch of all, so that shares are of all.
    faster = _CHOSEN | {"learning_rate": 0.03, "batch": len(records), "curve_every": 1}
    runs = train_classifiers(
        GrowSettings(classifier="3lp-100", t_tune=50, **faster),
        records[None],
        [0],
        jax.random.key(0)[None],
        positives=records[truth].mean(axis=0)[None, None],
        labels=truth[None],
    )
    assert runs.outcomes == ("ok",)  # each stage ended by its share, none by its limit
    share, phase = runs.share[0], runs.phase[0]
    last = np.flatnonzero(phase == 0)[-1]
    assert share[:last].max() > 0.2 > 0.05 >= share[last] > 0  # overfitted
    # All of the few that are left are positive: nobody else is guessed wrong than the other fives.
    assert runs.accuracy[0][last] == pytest.approx(share[last] + (~truth).mean())
    pre, growth, _ = runs.memory.lengths[0]
    assert 5 * growth < pre < 10_000
    assert abs(share[-1] - 0.5) < 0.1
    assert runs.accuracy[0][-1] > 0.95


@cache
def recorded(name):
    return ResultRecord.read(RESULTS / f"{name}.json").summary


@pytest.mark.parametrize("name", ["growpu-mnist", "growpu-behaviour", "growpu-subset"])
def test_the_best_attack_beats_growpu_in_every_recorded_cell(name):
    found = recorded(name)
    cells = [
        (key, f"best/accuracy/{key.split('/')[2]}")
        for key in found
        if key.startswith("growpu-") and "/accuracy/" in key
    ]
    assert len(cells) >= 3
    assert {best for _, best in cells} <= set(found)
    for grown, best in cells:
        assert found[best]["mean"] >= found[grown]["mean"]


def test_the_page_says_of_each_cell_whether_the_record_has_the_order_of_table_7():
    page = (RESULTS.parent / "docs" / "results.md").read_text(encoding="utf-8")
    block = page.split("<!-- begin behaviour -->")[1].split("<!-- end behaviour -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines()]
    stated = {(r[0], r[1]): r[5] for r in rows if len(r) > 5 and r[5] in ("yes", "no")}
    labels = {"noiseless": "mean", "distribution": "simulated mean", "noisy": "noisy mean"}
    summary = recorded("growpu-behaviour")
    compared = 0
    for kind, label in labels.items():
        for classifier, layers in (("linear", "linear"), ("3lp", "one hidden layer")):
            keys = [
                f"{attack}-{classifier}/accuracy/{kind}" for attack in ("upu", "nnpu", "growpu")
            ]
            if all(key in summary for key in keys):
                upu, nnpu, growpu = (summary[key]["mean"] for key in keys)
                assert stated.pop((label, layers)) == ("yes" if upu < nnpu < growpu else "no")
                compared += 1
    assert compared >= 3
    assert not stated


def test_curves_become_pictures_and_portraits_show_no_single_record():
    curve = {"steps": [1, 2], "share": [0.5, 0.4], "accuracy": [0.6, 0.7]}
    record = ResultRecord(
        "growpu-mnist",
        seeds=[0],
        values={"best/accuracy/noisy": [0.9]},
        extra={"curves": {"growpu-linear": {"noiseless": curve}}},
    )
    assert set(draw_means(record)) == {"accuracy", "training_share", "training_accuracy"}
    assert set(draw_attacked_records("behaviour")) == {
        "components", "nonzero", "fields", "distance_positive", "distance_negative",
    }  # fmt: skip
