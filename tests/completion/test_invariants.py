"""What must hold for every registered method, whatever it predicts."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofill.completion import AbstractCompleter, Completed, make, methods
from cofill.nets import FusionSettings, TrainSettings
from cofill.views import MultiView

NAMES = [m.name for m in methods()]


def people(seed: int, n: int = 36, sites: int = 3) -> dict[str, pd.DataFrame]:
    """Related tables of numbers, booleans and categories, with missing rows and cells."""
    rng = np.random.default_rng(seed)
    # One pattern of what is missing: each takes seconds to compile for.
    pattern = np.random.default_rng(0)
    person = rng.permutation(1000)[:n]
    trait = rng.normal(size=n)
    frames = {}
    for k in range(sites):
        noise = rng.normal(size=(n, 4)) * 0.3
        frame = pd.DataFrame(
            {
                "person": person,
                "level": trait + noise[:, 0],
                "count": np.rint(5 * trait + noise[:, 1]).astype(int),
                "high": trait + noise[:, 2] > 0,
                "group": np.array(["a", "b", "c"])[np.digitize(trait + noise[:, 3], [-0.5, 0.5])],
            }
        )
        frame.loc[pattern.random(n) < 0.1, "level"] = np.nan
        # The first twelve are everywhere, so that every method has something to learn from; every
        # site knows equally many, so that compiled programs serve for all examples.
        kept = np.arange(n) < 12
        kept[12 + pattern.permutation(n - 12)[: n // 2 - 4]] = True
        frames[f"site{k}"] = frame[kept].reset_index(drop=True)
    return frames


def quick(name: str) -> AbstractCompleter:
    """Make a method, with networks that train in no time: good ones are not needed here."""
    if name == "pooled":
        return make(name, effort="quick")
    if name not in ("central", "cooperative", "federated", "private"):
        return make(name)
    if name == "private":
        return make(name, features=8, min_overlap=5, on_unreconstructable="fill")
    if name == "federated":
        return make(name, rounds=2, batch=64, network={"width": 4, "blocks": 0})
    small = FusionSettings(
        hidden=(4,), weight_decays=(0.1,), members=1, fold_members=1, folds=2, steps=20
    )
    if name == "central":
        return make(name, settings=small)
    return make(
        name,
        fusion=small,
        encoder_training=TrainSettings(epochs=2),
        min_overlap=5,
        on_unreconstructable="fill",
    )


def views_of(frames: dict[str, pd.DataFrame]) -> MultiView:
    return MultiView.from_frames(frames, id="person")


@cache
def completed(name: str) -> tuple[AbstractCompleter, Completed]:
    """Complete one set of tables by a method, once for all tests."""
    fitted = quick(name).fit(views_of(people(2)))
    return fitted, fitted.complete(views_of(people(2)))


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=2, suppress_health_check=list(HealthCheck))
def test_observed_cells_are_never_changed_and_everyone_is_complete(name, seed):
    views = views_of(people(seed))
    done = quick(name).fit_complete(views)
    for view in views:
        before = views.aligned(view)
        observed = ~np.isnan(before)
        np.testing.assert_array_equal(done.cells[view][observed], before[observed])
        assert not np.isnan(done.cells[view]).any()
    assert done.views.is_complete
    assert done.views.n_individuals == views.n_individuals


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=1, suppress_health_check=list(HealthCheck))
def test_row_order_does_not_matter(name, seed):
    frames = people(seed)
    shuffled = {v: f.sample(frac=1, random_state=seed % 2**32) for v, f in frames.items()}
    one = quick(name).fit_complete(views_of(frames))
    other = quick(name).fit_complete(views_of(shuffled))
    assert one.views.same_as(other.views)


@pytest.mark.parametrize("name", ["mean", "knn", "iterative"])
def test_renaming_individuals_does_not_matter(name):
    # These methods draw nothing at random, so other ids mean the same rows in another order. Where
    # only whole numbers are known of somebody, neighbours are equally far and order decides.
    frames = {view: frame.dropna() for view, frame in people(3).items()}
    renamed = {v: f.assign(person=(f["person"] * 7919) % 100_003) for v, f in frames.items()}
    one, other = (quick(name).fit_complete(views_of(f)) for f in (frames, renamed))
    at = np.searchsorted(other.source.ids, (one.source.ids * 7919) % 100_003)
    for view in one.source:
        np.testing.assert_allclose(one.cells[view], other.cells[view][at], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_a_complete_table_comes_back_as_it_was(name):
    frames = {v: f.dropna() for v, f in people(5).items()}
    shared = set.intersection(*(set(f["person"]) for f in frames.values()))
    views = views_of({v: f[f["person"].isin(shared)] for v, f in frames.items()})
    assert views.is_complete
    assert quick(name).fit_complete(views).views.same_as(views)


@pytest.mark.parametrize("name", NAMES)
def test_results_are_valid_values_in_the_users_types(name):
    frames = people(2)
    done = completed(name)[1].to_frames("pandas")
    for view, frame in frames.items():
        assert list(done[view].columns) == list(frame.columns)
        assert done[view].dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
        assert set(done[view]["group"]) <= {"a", "b", "c"}
        assert done[view]["high"].isin([True, False]).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_result(name):
    views = views_of(people(2))
    again = quick(name).fit_complete(views)
    for view in views:
        np.testing.assert_array_equal(completed(name)[1].cells[view], again.cells[view])


@pytest.mark.parametrize("name", NAMES)
def test_individuals_not_seen_at_fit_are_completed(name):
    fitted, _ = completed(name)
    frames = people(4, n=24)
    new = views_of({v: f.assign(person=f["person"] + 1000) for v, f in frames.items()})
    done = fitted.complete(new)
    assert done.views.is_complete
    assert done.views.n_individuals == new.n_individuals


@pytest.mark.parametrize("name", NAMES)
def test_one_person_whom_one_view_knows_is_completed_in_all(name):
    fitted, _ = completed(name)
    one = {"person": [5000], "group": ["unseen"], "high": [True], "level": [0.3]}
    done = fitted.complete(views_of({"site1": pd.DataFrame(one)}))
    assert done.source.names == ("site0", "site1", "site2")
    assert done.views.is_complete
    row = done.table("site1").to_pylist()[0]
    assert {key: [row[key]] for key in one} == one
    assert isinstance(row["count"], int)
