"""`FederatedCompletion`: any number of modalities and patterns, tables, images, refusals."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from cofill.errors import DataError, SettingError
from cofill.federate import (
    FederatedCompletion,
    FederatedProtocol,
    LocalSettings,
    RoundSettings,
    fit_sites_many,
)
from cofill.federate._rows import encode_rows
from cofill.privacy import Budget
from cofill.protocol import Membership
from cofill.views import MultiView, View, by_row

SMALL = {"width": 6, "blocks": 0}


def quick(**more) -> FederatedCompletion:
    """A model that learns next to nothing, in no time."""
    return FederatedCompletion(
        **{"rounds": 2, "secure": False, "batch": 16, "network": SMALL, **more}
    )


def three(n=60, seed=0) -> tuple[MultiView, MultiView]:
    """Three related modalities, whole and with every pattern of holes."""
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=(n, 2))
    whole = MultiView.from_arrays(
        {k: trait @ rng.normal(size=(2, d)) + 3.0 for k, d in (("a", 2), ("b", 3), ("c", 2))}
    )
    patterns = np.array([[p >> k & 1 for k in range(3)] for p in range(1, 8)], bool)
    present = patterns[np.arange(n) % 7]
    return whole, whole.hide({name: ~present[:, k] for k, name in enumerate("abc")})


def tables(seed=0, n=36) -> MultiView:
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=n)
    frames = {}
    for k in range(2):
        frame = pd.DataFrame(
            {
                "person": np.arange(n),
                "level": trait + 0.1 * rng.normal(size=n),
                "count": np.rint(5 * trait).astype(int),
                "high": trait > 0,
                "group": np.array(["a", "b", "c"])[np.digitize(trait, [-0.5, 0.5])],
            }
        )
        frame.loc[rng.random(n) < 0.2, "level"] = np.nan
        kept = np.arange(n) % 3 != k
        frames[f"view{k}"] = frame[kept]
    return MultiView.from_frames(frames, id="person")


def test_three_modalities_of_any_pattern_are_learned_by_one_model():
    whole, holes = three(240)
    model = FederatedCompletion(
        sites=3, rounds=25, batch=8, learning_rate=0.01, network={"width": 16, "blocks": 1}
    )
    done = model.fit(holes).complete(holes)
    assert done.views.is_complete
    for name in holes:
        hidden = ~holes.present(name)
        true, made = whole.aligned(name)[hidden], done.cells[name][hidden]
        # Two numbers say all: from any other modality most of the variance is to be had.
        assert 1 - ((true - made) ** 2).mean() / true.var(axis=0).mean() > 0.7
        observed = holes.present(name)
        np.testing.assert_array_equal(done.cells[name][observed], whole.aligned(name)[observed])


def test_tables_come_back_in_their_kinds_and_ranges():
    views = tables()
    done = quick(sites=2).fit(views).complete(views)
    assert done.views.is_complete
    for name in views:
        frame = done.to_frames("pandas")[name]
        assert set(frame["group"]) <= {"a", "b", "c"}
        assert frame["high"].dtype == bool
        assert frame["count"].dtype.kind == "i"
        known = views[name].cells[:, 0]
        known = known[~np.isnan(known)]
        assert known.min() <= frame["level"].min()
        assert frame["level"].max() <= known.max()


def test_a_cell_of_which_nothing_else_is_known_is_what_is_usual():
    base = tables()
    alone = View(
        "view0",
        [*base["view0"].ids, 900],
        np.vstack([base["view0"].cells, [np.nan, 5.0, 1.0, np.nan]]),
        base["view0"].features,
    )
    views = MultiView([alone, base["view1"]])
    done = quick().fit(views).complete(views)
    usual = views["view0"].typical()
    row = done.cells["view0"][np.searchsorted(views.ids, 900)]
    np.testing.assert_allclose(row, [usual[0], 5.0, 1.0, usual[3]])


def test_images_keep_their_range_and_shape():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, size=(20, 8, 8)).astype(float)
    views = MultiView.from_arrays({"image": image, "negative": 255 - image})
    holes = views.hide({"negative": np.arange(20) < 3, "image": np.arange(20) > 17})
    model = quick(learning_rate=0.5)  # wild weights, tame outputs
    done = model.fit(holes).complete(holes)
    assert model.learner_.shape.image == (8, 8)
    for name in views:
        assert done.views[name].image_shape == (8, 8)
        assert done.cells[name].min() >= 0
        assert done.cells[name].max() <= 255


def test_views_in_another_order_or_with_other_categories_are_told_apart_by_name():
    views = tables()
    model = quick().fit(views)
    turned = MultiView([views["view1"], views["view0"]])
    one, other = model.complete(views), model.complete(turned)
    for name in views:
        np.testing.assert_array_equal(one.cells[name], other.cells[name])
    rows = encode_rows(views, model.scalers_, model.learner_.shape)
    again = encode_rows(turned, model.scalers_, model.learner_.shape)
    np.testing.assert_array_equal(rows.present, again.present)
    # Somebody's table knows no "a": its codes 0 and 1 are "b" and "c" of the fit.
    frame = pd.DataFrame(
        {"person": [1, 2], "level": 0.0, "count": 0, "high": [True, False], "group": ["b", "c"]}
    )
    few = MultiView.from_frames({"view0": frame, "view1": frame}, id="person")
    coded = encode_rows(few, model.scalers_, model.learner_.shape)
    at = model.scalers_["view0"].blocks[-1]
    np.testing.assert_array_equal(coded.cells[:, at.start : at.stop], [[0, 1, 0], [0, 0, 1]])


def test_a_run_writes_down_all_it_sends():
    _, holes = three()
    model = quick(sites=2).fit(holes)
    assert Counter((e.step, e.kind) for e in model.ledger_) == {
        ("describe columns", "columns"): 2,
        ("agree on columns", "columns"): 2,
        ("summarise", "column-summary"): 2,
        ("agree on scales", "column-scales"): 2,
        ("invite", "model"): 4,
        ("train", "update"): 4,
        ("hand out the model", "model"): 2,
    }
    from_sites = {e.kind for e in model.ledger_ if e.sender != "coordinator"}
    assert from_sites == {"columns", "column-summary", "update"}
    assert [entry["round"] for entry in model.curve_] == [1, 2]
    assert {"loss", "error"} <= set(model.curve_[0])


def test_site_order_does_not_matter():
    _, holes = three()
    held = by_row(holes, 3, key=0)
    turned = {name: held[name] for name in reversed(held)}
    one, other = quick().fit_sites(held), quick().fit_sites(turned)
    np.testing.assert_allclose(one.weights_, other.weights_, rtol=1e-5, atol=1e-6)


def test_sites_without_pairs_or_with_one_modality_learn_from_the_others():
    _, holes = three()
    held = by_row(holes, 2, key=0)
    lonely = MultiView.from_arrays({"a": np.random.default_rng(5).normal(size=(6, 2)) + 3})
    everybody = {**held, "lonely": lonely}
    model = quick().fit_sites(everybody)
    assert model.notes_ == (
        "round 1: site 'lonely' has no individual that this model can learn from; left out",
    )
    done = model.complete_sites(everybody)
    assert set(done) == set(everybody)
    assert done["lonely"].views.is_complete
    assert done["lonely"].cells["b"].shape == (6, 3)


def test_no_pairs_anywhere_is_an_error():
    both = MultiView.from_arrays({"a": np.eye(8, 3), "b": np.eye(8, 2)})
    apart = both.hide({"a": np.arange(8) < 4, "b": np.arange(8) >= 4})
    with pytest.raises(DataError, match="no site has an individual with more than one modality"):
        quick().fit(apart)


def test_other_shapes_and_empty_modalities_are_named():
    _, holes = three()
    other = MultiView.from_arrays({"a": np.ones((4, 5))})
    with pytest.raises(DataError, match="site 'y': 'a' has other columns or another shape"):
        quick().fit_sites({"x": holes, "y": other})
    few = MultiView([*holes.values(), View("d", [0, 1], [[1.0], [2.0]])])
    with pytest.raises(DataError, match="'d' has fewer than 3 rows at every site"):
        quick().fit_sites({"x": few})


def test_images_of_nothing_but_nan_count_as_missing():
    rng = np.random.default_rng(0)
    image = rng.uniform(size=(20, 8, 8))
    broken = image.copy()
    broken[:5] = np.nan
    broken[5, :4] = np.nan  # half an image is still one
    views = MultiView.from_arrays({"image": broken, "negative": 1 - image})
    model = quick(learning_rate=0.5).fit(views)
    done = model.complete(views)
    assert done.views.is_complete
    assert np.isfinite(model.weights_).all()
    np.testing.assert_array_equal(done.cells["image"][6:], views.aligned("image")[6:])
    nothing = {"image": np.full((20, 8, 8), np.nan), "negative": 1 - image}
    with pytest.raises(DataError, match=r"'image' has (no|fewer than 3) rows"):
        quick().fit(MultiView.from_arrays(nothing))


def test_bad_settings_are_named():
    _, holes = three()
    for wrong, words in (
        ({"sites": 0}, "sites must be at least 1, got 0"),
        (
            {"network": {"breadth": 3}},
            "network: CompletionNet has no setting 'breadth'; ",
        ),
        ({"strategy": "mean"}, "there is no strategy 'mean'; there is 'fedavg'"),
        (
            {"model": "vigan", "network": None},
            r"takes two modalities of one size, got a \(2\), b \(3\), c \(2\)",
        ),
        ({"settings": RoundSettings(min_sites=2)}, "min_sites must be at most"),
        ({"network": {"width": 0}}, "width must be at least 1"),
    ):
        with pytest.raises(SettingError, match=words):
            quick(**wrong).fit(holes)


def test_estimators_fitted_together_are_as_each_alone_and_must_be_alike():
    _, holes = three()
    held = by_row(holes, 2, key=0)
    pair = [quick(seed=s) for s in (0, 1)]
    fit_sites_many(pair, [held, held])
    for one in pair:
        alone = quick(seed=one.seed).fit_sites(held)
        np.testing.assert_allclose(one.weights_, alone.weights_, rtol=1e-5, atol=1e-6)
    for other in (quick(batch=4), quick(rounds=3), quick(network={"width": 7})):
        with pytest.raises(SettingError, match="must have the same settings"):
            fit_sites_many([quick(), other], [held, held])


def test_scikit_learns_manners():
    model = quick(local=LocalSettings(epochs=2), budget=Budget(1.0), settings=RoundSettings())
    copy = clone(model)
    assert copy.get_params()["settings"] == RoundSettings()
    assert copy.get_params()["budget"] == Budget(1.0)


def test_a_strategy_with_controls_gets_plain_steps_by_itself():
    _, holes = three()
    model = quick(strategy="scaffold", rounds=1).fit(holes)
    local = next(iter(model.federation_.sites.values())).local
    assert (local.optimizer, local.momentum, local.moments) == ("sgd", 0.0, "reset")


def test_secure_sums_through_the_estimator():
    _, holes = three()
    held = by_row(holes, 3, key=0)
    plain = quick().fit_sites(held)
    secure = FederatedCompletion(rounds=2, batch=16, network=SMALL).fit_sites(held)
    np.testing.assert_allclose(secure.weights_, plain.weights_, rtol=1e-5, atol=1e-6)
    assert not {"update", "column-summary"} & {e.kind for e in secure.ledger_}


def test_secure_sums_are_the_default_and_two_sites_must_do_without_in_words():
    _, holes = three()
    default = FederatedCompletion(rounds=1, network=SMALL)
    with pytest.raises(SettingError, match=r"at least 3 sites, got 2.*set secure to false to show"):
        default.fit_sites(by_row(holes, 2, key=0))
    two = quick(rounds=1, sites=2).fit(holes)
    assert "update" in {e.kind for e in two.ledger_}
    default.fit(holes)  # one site has nobody to hide from
    members = Membership(dict.fromkeys("ab", ("a",)), ("a",))
    with pytest.raises(SettingError, match="at least 3 sites, got 2"):
        FederatedProtocol.from_settings({"rounds": 1}, members)


def test_a_budget_that_wants_guarantees_stops_the_survey():
    _, holes = three()
    with pytest.raises(SettingError, match=r"column-summary from 'site_1'.*no guarantee"):
        quick(budget=Budget(1.0, only_guaranteed=True)).fit(holes)


def test_progress_names_rounds_and_ends_at_one():
    _, holes = three()
    reports = []
    quick().fit(holes, progress=lambda what, share: reports.append((what, share)))
    words = list(dict.fromkeys(what for what, _ in reports))
    assert words == [
        "agreeing on columns and scales",
        "round 1 of 2",
        "round 2 of 2",
        "handing out the model",
        "rounds done",
    ]
    assert [share for _, share in reports] == sorted(share for _, share in reports)
    assert reports[-1][1] == 1.0
