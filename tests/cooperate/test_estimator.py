"""The estimator: what it recovers, what it leaves empty, its manners."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cofill.completion import load_model, make
from cofill.cooperate import CooperativeReconstruction, fit_many
from cofill.errors import DataError, SettingError
from cofill.nets import FusionSettings, TrainSettings
from cofill.views import MultiView, View, drop_rows

TINY = FusionSettings(
    hidden=(4,), weight_decays=(0.1,), members=1, fold_members=1, folds=2, steps=40
)


def r2_of(model: CooperativeReconstruction, view: str, source: str = "all") -> pd.Series:
    frame = model.reconstructability_
    frame = frame[(frame["view"] == view) & (frame["source"] == source)]
    return frame.set_index("feature")["r2"]


# --- what is recovered ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["masked", "fused", "auto"])
def test_a_linear_relation_is_recovered_on_hidden_rows(fits, method, holed, truth):
    # Nobody could do better than ridge regression on the pooled rows here.
    best = make("central-ridge").fit(holed).score(holed, truth)
    assert fits[method].score(holed, truth) > best - 0.15
    assert best > 0.85
    assert make("mean").fit(holed).score(holed, truth) < 0.1


@pytest.mark.full
def test_networks_recover_a_linear_relation_too(quick, related):
    both = related(names="ab")
    holes, _ = drop_rows(both, 0.2, key=1)
    model = quick(method="fused", fusion=TINY).fit(holes)
    assert model.score(holes, both) > 0.7


def test_the_papers_method_clearly_beats_the_mean(quick, related):
    both = related(names="ab")
    holes, _ = drop_rows(both, 0.2, key=1)
    training = TrainSettings(epochs=80, learning_rate=5e-3)
    model = quick(method="faithful", encoder_training=training, link_training=training).fit(holes)
    assert model.score(holes, both) > 0.6
    assert model.trained_ == {"encoders": 2, "links": 2}


@pytest.mark.parametrize(
    "masks",
    [
        "closed",
        "equal",
        "gradient",
        "iteration",
    ],
)
def test_every_kind_of_mask_beats_the_mean(masked, holed, truth, masks):
    model = masked.reconstruct(holed, "a", masks=masks)
    hidden = ~holed.present("a") & (holed.present("b") | holed.present("c"))
    left = ((model - truth["a"].cells)[hidden] ** 2).mean()
    assert left < 0.3 * truth["a"].cells[hidden].var()


def test_three_ways_to_masks_give_one_result(quick, truth, holed):
    model = quick(method="masked").fit(truth)
    closed, gradient, iteration, equal = (
        model.reconstruct(holed, "a", masks=m) for m in ("closed", "gradient", "iteration", "equal")
    )
    np.testing.assert_allclose(gradient, closed, atol=1e-2)
    np.testing.assert_allclose(iteration, closed, atol=1e-2)
    assert not np.allclose(equal, closed, atol=1e-2, equal_nan=True)


def test_a_reconstruction_does_not_look_at_the_views_own_rows(masked, truth):
    other = View("a", truth["a"].ids, truth["a"].cells[::-1], truth["a"].features)
    one = masked.reconstruct(truth, "a")
    np.testing.assert_array_equal(one, masked.reconstruct(MultiView({**truth, "a": other}), "a"))
    assert ((one - truth["a"].cells) ** 2).mean() < 0.2 * truth["a"].cells.var()


def test_individuals_not_seen_at_fit_are_completed(masked, related):
    truth = related(240)
    new = truth.take(np.arange(240) >= 200)  # the first 200 are those of the fit
    holes, _ = drop_rows(new, 0.3, key=2)
    assert masked.score(holes, new) > 0.6
    assert masked.complete(holes).views.is_complete


def test_auto_takes_what_is_better_out_of_fold(fits, holed):
    done = {method: model.complete(holed) for method, model in fits.items()}
    for view in holed:
        scores = {m: r2_of(fits[m], view).mean() for m in ("masked", "fused")}
        best = max(scores, key=lambda m: scores[m])
        assert r2_of(fits["auto"], view).mean() == pytest.approx(scores[best], abs=1e-4)
        np.testing.assert_allclose(done["auto"].cells[view], done[best].cells[view], atol=1e-3)


def test_the_masks_of_the_cube_are_ones_and_zeros(quick):
    # Each view lacks one axis; each of its two features is known to one of the other views.
    rng = np.random.default_rng(0)
    cube = rng.choice([-1.0, 1.0], size=(200, 3)) + 0.1 * rng.normal(size=(200, 3))
    axes = {"xy": [0, 1], "xz": [0, 2], "yz": [1, 2]}
    views = MultiView.from_arrays(
        {v: cube[:, at] for v, at in axes.items()}, features={v: list(v) for v in axes}
    )
    frame = quick(method="masked").fit(views).masks_
    assert len(frame) == 3 * 2 * 2
    for row in frame.itertuples():
        assert row.weight == pytest.approx(1.0 if row.feature in row.source else 0.0, abs=0.15)


@pytest.mark.parametrize("method", ["masked", "fused"])
def test_sources_that_never_met_are_not_added_up(quick, related, method):
    # Those whom a lacks are in b and c, but nobody is in all three views.
    truth = related(240)
    row = np.arange(240)
    holes = truth.hide({"a": row >= 160, "b": (row >= 80) & (row < 160), "c": row < 80})
    done = quick(method=method).fit(holes).complete(holes)
    filled, actual = done.cells["a"][160:], truth["a"].cells[160:]
    slope = (filled * actual).sum() / (actual**2).sum()
    assert slope == pytest.approx(1, abs=0.2)


# --- what is not recovered --------------------------------------------------------------------


def test_a_link_with_too_small_an_overlap_is_left_out_and_said_so(quick, related):
    truth = related(300)
    row = np.arange(300)
    holes = truth.hide({"a": row >= 240, "b": row >= 150, "c": row < 145})
    assert holes.overlaps() == {("a", "b"): 150, ("a", "c"): 95, ("b", "c"): 5}
    model = quick(method="masked", on_unreconstructable="leave").fit(holes)
    notes = [n for n in model.notes_ if "fewer than 20" in n]
    assert len(notes) == 2
    assert any("view 'b' shares 5 individuals with view 'c'" in n for n in notes)
    assert any("view 'c' shares 5 individuals with view 'b'" in n for n in notes)
    done = model.complete(holes)
    assert done.notes == model.notes_
    for name, rows in (("b", slice(150, 240)), ("c", slice(0, 145))):  # from a alone
        filled, actual = done.cells[name][rows], truth[name].cells[rows]
        assert ((filled - actual) ** 2).mean() < 0.3 * actual.var()
    # Only c knows the last individuals, and has no link to b.
    assert (done.origin("b")[240:] == 2).all()
    assert (done.origin("a")[240:] == 1).all()


@pytest.mark.parametrize("choice", ["fill", "leave"])
def test_a_view_without_a_usable_link_is_reported_and_left_empty(quick, related, choice):
    unanswered = 1 if choice == "fill" else 2  # filled with typical values, or left empty
    truth = related(340)
    row = np.arange(340)
    holes = truth.hide({"a": (row < 20) | (row >= 200), "b": row >= 180, "c": row < 190})
    assert holes.overlaps() == {("a", "b"): 160, ("a", "c"): 10, ("b", "c"): 0}
    model = quick(method="masked", on_unreconstructable=choice).fit(holes)
    assert any("view 'c' has no usable link" in n for n in model.notes_)
    done = model.complete(holes)
    assert (done.origin("c")[:190] == unanswered).all()
    assert (r2_of(model, "c") <= 0).all()
    # The others go on without it.
    assert (done.origin("a")[:20] == 1).all()
    assert (done.origin("b")[180:200] == 1).all()
    assert (done.origin("b")[200:] == unanswered).all()


def test_one_view_is_not_enough(quick, truth):
    with pytest.raises(DataError, match="one view only"):
        quick().fit(truth.select(["a"]))


def test_views_without_a_common_individual_are_refused(quick, truth):
    row = np.arange(truth.n_individuals)
    with pytest.raises(DataError, match="no individual is in more than one view"):
        quick().fit(truth.hide({"a": row % 3 != 0, "b": row % 3 != 1, "c": row % 3 != 2}))


def test_a_view_that_lacks_nobody_is_returned_as_it_is(quick, truth):
    holes, _ = drop_rows(truth, 0.2, key=1, names=["a"])
    done = quick(method="auto").fit(holes).complete(holes)
    for name in ("b", "c"):
        np.testing.assert_array_equal(done.cells[name], truth[name].cells)
    assert done.views.is_complete


def test_complete_views_come_back_as_they_are(masked, truth):
    crossed = len(masked.ledger_)
    assert masked.complete(truth).views.same_as(truth)
    assert len(masked.ledger_) == crossed  # and nothing was asked


def test_missing_cells_of_observed_rows_are_filled(quick, truth):
    cells = truth["a"].cells.copy()
    holes = np.random.default_rng(0).random(cells.shape) < 0.2
    holes[holes.all(axis=1), 0] = False
    views = MultiView({**truth, "a": View("a", truth["a"].ids, np.where(holes, np.nan, cells))})
    done = quick(method="masked").fit(views).complete(views)
    np.testing.assert_array_equal(done.cells["a"][~holes], cells[~holes])
    assert ((done.cells["a"] - cells)[holes] ** 2).mean() < 0.2 * cells[holes].var()


# --- features that cannot be reconstructed ----------------------------------------------------


@pytest.fixture(scope="module")
def noisy(related):
    """A view with one informative column and two of noise, as in Madelon."""
    truth = related(names="ab")
    cells = truth["b"].cells.copy()
    cells[:, 1:] = np.random.default_rng(9).normal(size=(len(cells), 2))
    truth = MultiView(
        {**truth, "b": View("b", truth["b"].ids, cells, ["signal", "noise1", "noise2"])}
    )
    return truth, drop_rows(truth, 0.2, key=1, names=["b"])[0]


@pytest.mark.parametrize("method", ["masked", "fused"])
def test_noise_is_flagged_and_left_empty(quick, noisy, method):
    _, holes = noisy
    model = quick(method=method, on_unreconstructable="leave").fit(holes)
    hidden = ~holes.present("b")
    done = model.complete(holes)
    assert (done.origin("b")[hidden] == [1, 2, 2]).all()
    assert any("view 'b': 2 of 3 features cannot be told" in n for n in done.notes)
    r2 = r2_of(model, "b")
    assert r2["signal"] > 0.8
    assert r2[["noise1", "noise2"]].max() < 0.05
    if method == "masked":
        alone = r2_of(model, "b", "a")
        assert alone["signal"] > 0.8
        assert alone[["noise1", "noise2"]].max() < 0.05


def test_noise_is_filled_or_left_and_named(quick, noisy):
    _, holes = noisy
    hidden = ~holes.present("b")
    for choice, origin in (("fill", [1, 1, 1]), ("leave", [1, 2, 2])):
        done = quick(method="masked", on_unreconstructable=choice).fit(holes).complete(holes)
        assert (done.origin("b")[hidden] == origin).all()
        assert any("noise1, noise2" in n for n in done.notes)


def test_the_threshold_draws_the_line(quick, noisy):
    _, holes = noisy
    hidden = ~holes.present("b")
    leave = {"method": "masked", "on_unreconstructable": "leave"}
    strict = quick(**leave, threshold=0.9999).fit(holes).complete(holes)
    assert (strict.origin("b")[hidden] == 2).all()
    lenient = quick(**leave, threshold=-10.0).fit(holes).complete(holes)
    assert (lenient.origin("b")[hidden] == 1).all()


# --- intervals --------------------------------------------------------------------------------


def test_intervals_hold_the_truth_as_often_as_they_say(quick, related):
    truth = related(1500, names="ab", noise=0.5)
    holes, hidden = drop_rows(truth, 0.3, key=3)
    done = quick(method="masked", interval=0.9).fit(holes).complete(holes)
    for name in holes:
        rows = hidden[name]
        low, high = done.lower[name][rows], done.upper[name][rows]
        actual = truth[name].cells[rows]
        inside = (low <= actual) & (actual <= high)
        assert 0.85 < inside.mean() < 0.95
        assert np.isnan(done.lower[name][~rows]).all()  # none around what was observed
        assert ((low <= done.cells[name][rows]) & (done.cells[name][rows] <= high)).all()


def test_no_level_no_intervals_and_a_higher_level_wider_ones(quick, holed):
    assert not quick(method="masked").fit(holed).complete(holed).lower
    width = {}
    for level in (0.5, 0.9):
        done = quick(method="masked", interval=level).fit(holed).complete(holed)
        width[level] = np.nanmean(done.upper["a"] - done.lower["a"])
    assert width[0.9] > width[0.5] > 0


def test_intervals_stay_where_another_feature_is_left_empty(quick, noisy):
    truth, holes = noisy
    left = quick(method="masked", interval=0.9, on_unreconstructable="leave")
    done = left.fit(holes).complete(holes)
    hidden = ~holes.present("b")
    low, high = done.lower["b"][hidden, 0], done.upper["b"][hidden, 0]
    assert not np.isnan(low).any()
    actual = truth["b"].cells[hidden, 0]
    assert ((low <= actual) & (actual <= high)).mean() > 0.75
    assert np.isnan(done.lower["b"][hidden, 1:]).all()


# --- kinds of cells ---------------------------------------------------------------------------


def test_coded_cells_come_back_as_valid_values(quick):
    rng = np.random.default_rng(0)
    n = 200
    trait = rng.normal(size=n)
    frames = {}
    for name in ("clinic", "lab"):
        noise = 0.2 * rng.normal(size=(n, 4))
        frames[name] = pd.DataFrame(
            {
                "person": np.arange(n),
                "level": trait + noise[:, 0],
                "count": np.rint(5 * trait + noise[:, 1]).astype(int),
                "high": trait + noise[:, 2] > 0,
                "group": np.array(["x", "y", "z"])[np.digitize(trait + noise[:, 3], [-0.5, 0.5])],
            }
        )
    observed = frames["lab"][np.arange(n) >= 50].reset_index(drop=True)
    views = MultiView.from_frames({"clinic": frames["clinic"], "lab": observed}, id="person")
    model = quick(method="auto").fit(views)
    filled = (
        model.complete(views).to_frames("pandas")["lab"].sort_values("person", ignore_index=True)
    )
    assert filled.dtypes.astype(str).tolist() == observed.dtypes.astype(str).tolist()
    assert filled["high"].isin([True, False]).all()
    assert set(filled["group"]) <= {"x", "y", "z"}
    hidden = frames["lab"].iloc[:50].set_index("person")
    completed = filled.set_index("person").loc[hidden.index]
    assert (completed["high"] == hidden["high"]).mean() > 0.8
    assert (completed["group"] == hidden["group"]).mean() > 0.6
    # One weight per encoded column, one R² per feature.
    columns = set(model.masks_["feature"])
    assert columns == {"level", "count", "high", "group=x", "group=y", "group=z"}
    assert set(model.reconstructability_["feature"]) == {"level", "count", "high", "group"}


# --- orders, batches, seeds -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["masked", "fused"])
def test_the_order_of_views_does_not_matter(quick, fits, holed, method):
    turned = quick(method=method).fit(holed.select(["c", "a", "b"]))
    one, other = fits[method].complete(holed), turned.complete(holed.select(["b", "c", "a"]))
    for name in holed:
        np.testing.assert_allclose(other.cells[name], one.cells[name], atol=0.02)


def test_the_order_of_rows_does_not_matter(quick, holed):
    rng = np.random.default_rng(0)
    shuffled = []
    for view in holed.values():
        order = rng.permutation(len(view))
        shuffled.append(View(view.name, view.ids[order], view.cells[order], view.features))
    one = quick(method="auto").fit_complete(holed)
    other = quick(method="auto").fit_complete(MultiView(shuffled))
    assert other.views.same_as(one.views)


def test_the_same_seed_gives_the_same_result_and_another_seed_another(quick, holed):
    one, again, other = (quick(seed=s).fit_complete(holed) for s in (0, 0, 1))
    assert again.views.same_as(one.views)
    assert not other.views.same_as(one.views)


def test_many_fits_at_once_are_those_one_by_one(quick, holed, truth):
    other = drop_rows(truth, 0.2, key=5)[0]
    models = [quick(seed=0), quick(seed=1), quick(seed=0, method="masked")]
    data = [holed, holed, other]
    fit_many(models, data)
    for model, views in zip(models, data, strict=True):
        alone = clone(model).fit(views)
        one, many = alone.complete(views), model.complete(views)
        for name in views:
            np.testing.assert_allclose(many.cells[name], one.cells[name], atol=1e-4)
        assert model.trained_ == alone.trained_
        assert model.notes_ == alone.notes_
        assert model.ledger_.to_list()[0]["individuals"] == len(views["a"])


def test_many_fits_need_one_set_of_views_each(quick, holed):
    with pytest.raises(SettingError, match="one MultiView per estimator, got 1 for 2"):
        fit_many([quick(), quick()], [holed])


def test_progress_goes_from_nothing_towards_everything(quick, holed):
    reports: list[tuple[str, float]] = []
    quick(method="masked").fit(holed, progress=lambda what, share: reports.append((what, share)))
    shares = [share for _, share in reports]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] <= 1
    assert len({what for what, _ in reports}) >= 4


# --- manners ----------------------------------------------------------------------------------


def test_parameters_and_clones(quick):
    model = quick(method="masked", masks="gradient", threshold=0.2, interval=0.8, seed=3)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.set_params(seed=4).get_params()["seed"] == 4
    assert model.get_params()["seed"] == 3
    assert not hasattr(copy, "features_")


def test_an_unfitted_estimator_says_so(holed):
    fresh = CooperativeReconstruction()
    for use in (
        lambda: fresh.complete(holed),
        lambda: fresh.reconstruct(holed, "a"),
        lambda: fresh.masks_,
        lambda: fresh.reconstructability_,
    ):
        with pytest.raises(NotFittedError):
            use()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"method": "best"}, "method must be one of 'auto', .*'faithful', got 'best'"),
    ({"masks": "none"}, "masks must be one of 'closed', .*'equal', got 'none'"),
    ({"architecture": "iris"}, "architecture must be one of .*got 'iris'"),
    ({"min_overlap": 1}, "min_overlap must be at least 2, got 1"),
    ({"on_unreconstructable": "drop"}, "on_unreconstructable must be one of .*got 'drop'"),
    ({"interval": 0.0}, "interval must be in \\(0, 1\\), got 0"),
    ({"interval": 1.0}, "interval must be in \\(0, 1\\), got 1"),
    ({"scale": "log"}, "must be one of .*got 'log'"),
]


@pytest.mark.parametrize(("settings", "words"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_settings_are_named(quick, holed, settings, words):
    with pytest.raises(SettingError, match=words):
        quick(**settings).fit(holed)


def test_the_frames_have_the_documented_columns(masked, fits, holed):
    masks = masked.masks_
    assert list(masks.columns) == ["view", "source", "feature", "weight"]
    assert len(masks) == 3 * 2 * 3
    assert not (masks["view"] == masks["source"]).any()
    table = masked.reconstructability_
    assert list(table.columns) == ["view", "feature", "source", "r2"]
    assert set(table["source"]) == {"all", "a", "b", "c"}
    assert len(table) == 3 * 3 * (1 + 2)
    assert (table["r2"] <= 1).all()
    # A fusion has no masks and no links to score, but the same columns.
    assert list(fits["fused"].masks_.columns) == list(masks.columns)
    assert len(fits["fused"].masks_) == 0
    assert set(fits["fused"].reconstructability_["source"]) == {"all"}


def test_other_views_than_at_fit_are_refused(masked, holed):
    other = MultiView([holed["a"], replace(holed["b"], name="z")])
    with pytest.raises(DataError, match="fitted on the views"):
        masked.complete(other)
    with pytest.raises(SettingError, match="no view 'z'"):
        masked.reconstruct(holed, "z")


# --- people known in part -------------------------------------------------------------------------


def test_a_known_person_is_told_from_their_own_cells_first(quick):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    cells = np.column_stack([x[:, 0], 2 * x[:, 0], rng.normal(size=300)])
    truth = cells.copy()
    cells[:40, 1] = np.nan  # twice its neighbour, of which the peer knows nothing
    views = MultiView.from_arrays({"own": cells, "peer": x[:, 1:] + rng.normal(size=(300, 3))})
    model = quick(method="masked").fit(views)
    done = model.complete(views).cells["own"]
    assert abs(done[:40, 1] - truth[:40, 1]).mean() < 0.2
    assert r2_of(model, "own").max() < 0.3  # the peer alone could not tell


def test_own_cells_and_codes_together_tell_more_than_either(quick):
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 400))
    cells = np.column_stack([first, first + second, rng.normal(size=400)])
    truth = cells[:, 1].copy()
    cells[:60, 1] = np.nan
    peer = np.column_stack([second, second + 0.01 * rng.normal(size=400)])
    views = MultiView.from_arrays({"own": cells, "peer": peer})
    done = quick(method="masked").fit_complete(views).cells["own"][:60, 1]
    # Either alone explains half of the variance of 2.
    assert ((done - truth[:60]) ** 2).mean() < 0.4


def test_a_saved_model_still_knows_how_cells_go_together(quick, tmp_path):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 1))
    cells = np.hstack([x, 3 * x])
    cells[:30, 1] = np.nan
    views = MultiView.from_arrays({"own": cells, "peer": rng.normal(size=(200, 2))})
    model = quick(method="masked").fit(views)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_allclose(
        loaded.complete(views).cells["own"], model.complete(views).cells["own"]
    )
