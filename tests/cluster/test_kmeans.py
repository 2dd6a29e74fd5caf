"""k-means over sites is k-means; noise is as stated; what leaves is sums and counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from cofill.cluster import FederatedKMeans, GroupNoise, KMeansSettings, _lloyd
from cofill.cluster._kmeans import summarise_locally
from cofill.cluster._lloyd import choose_centers, lloyd, nearest, sum_groups, sum_groups_of_starts
from cofill.errors import DataError, SettingError
from cofill.metrics import ari
from cofill.privacy import GaussianEvent, epsilon

SPLITS = ["even", "by group", "uneven"]


def pooled_lloyd(rows, centers, **options):
    """Scikit-learn's Lloyd from given centres, until nobody moves."""
    model = KMeans(len(centers), init=centers, n_init=1, algorithm="lloyd", tol=0, max_iter=300)
    return model.set_params(**options).fit(rows)


def best_inertia(rows, k, restarts):
    """Scikit-learn's sum of squared distances, on pooled rows."""
    return KMeans(k, n_init=restarts, random_state=0).fit(rows).inertia_


@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize("scale", ["none", "standard", "overall"])
def test_federated_rounds_are_pooled_rounds(blobs, deal, how, scale):
    rows, labels = blobs
    sites, order = deal(rows, labels, how)
    init = rows[labels < 2][:4]  # bad ones: several rounds
    model = FederatedKMeans(4, init=init, scale=scale, tolerance=0, rounds=60).fit(sites)
    scaled = model.scaling_.apply(rows)
    if scale == "standard":
        np.testing.assert_allclose(scaled, StandardScaler().fit_transform(rows), atol=1e-9)
    oracle = pooled_lloyd(scaled, model.scaling_.apply(init))
    np.testing.assert_array_equal(model.labels_, oracle.labels_[order])
    np.testing.assert_allclose(
        model.scaling_.apply(model.centers_), oracle.cluster_centers_, atol=1e-8
    )
    assert model.inertia_ == pytest.approx(oracle.inertia_, rel=1e-10)
    assert model.n_iter_ > 2


@pytest.mark.parametrize("where", ["processor", "accelerator"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_several_starts_at_once_are_each_start_alone(offset, where, monkeypatch):
    if where == "accelerator":  # the same program, compiled for the processor
        monkeypatch.setattr(_lloyd, "_WORTH_MOVING", 0)
        monkeypatch.setattr(_lloyd, "_CELLS_AT_ONCE", 1000)
        monkeypatch.setattr(_lloyd, "_has_accelerator", lambda: True)
        monkeypatch.setattr(_lloyd, "_add_up", None)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 5)) + offset
    starts = rng.normal(size=(3, 4, 5)) + offset
    starts[1, 2] += 50  # a group without rows
    sums, counts, squares = sum_groups_of_starts(rows, starts)
    assert counts[1, 2] == 0
    for start, *model in zip(starts, sums, counts, squares, strict=True):
        labels, apart = nearest(rows, start)
        alone, members = sum_groups(rows, labels, 4)
        np.testing.assert_allclose(model[0], alone, rtol=1e-12, atol=1e-9)
        np.testing.assert_array_equal(model[1], members)
        np.testing.assert_allclose(model[2], np.bincount(labels, apart, 4), rtol=1e-8, atol=1e-9)


@given(
    seed=st.integers(0, 10_000), n=st.integers(6, 40), sites=st.integers(1, 4), k=st.integers(2, 5)
)
@settings(max_examples=10)
def test_who_holds_which_row_changes_nothing(seed, n, sites, k):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    where = rng.integers(sites, size=n)
    held = {f"s{s}": rows[where == s] for s in rng.permutation(sites) if (where == s).any()}
    init = rows[:k]
    options = {"init": init, "tolerance": 0, "scale": "standard", "rounds": 25}
    one, many = FederatedKMeans(k, **options).fit(rows), FederatedKMeans(k, **options).fit(held)
    np.testing.assert_allclose(many.centers_, one.centers_, atol=1e-9)
    np.testing.assert_array_equal(many.predict(rows), one.labels_)
    assert many.inertia_ == pytest.approx(one.inertia_)


def test_order_of_sites_and_of_rows_changes_nothing(blobs, deal):
    rows, labels = blobs
    sites, _ = deal(rows, labels, "even")
    first = FederatedKMeans(4, rounds=10).fit(sites)
    turned = FederatedKMeans(4, rounds=10).fit(dict(reversed(sites.items())))
    np.testing.assert_array_equal(first.centers_, turned.centers_)
    mixed = {name: site[::-1] for name, site in sites.items()}
    again = FederatedKMeans(4, init=first.centers_, rounds=10).fit(mixed)
    for name in sites:
        np.testing.assert_array_equal(
            again.labels_by_site_[name][::-1], first.labels_by_site_[name]
        )


@pytest.mark.parametrize("how", SPLITS)
def test_starts_proposed_by_sites_find_planted_groups(blobs, deal, how):
    rows, labels = blobs
    sites, order = deal(rows, labels, how)
    for seed in range(4):
        model = FederatedKMeans(4, seed=seed, rounds=10).fit(sites)
        assert ari(labels[order], model.labels_) == 1.0
    oracle = best_inertia(model.scaling_.apply(rows), 4, 3)
    assert model.inertia_ == pytest.approx(oracle, rel=1e-6)


def test_federated_is_as_good_as_pooled_where_groups_overlap(deal):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 4))
    sites, _ = deal(rows, rng.integers(3, size=500), "even")
    model = FederatedKMeans(6, scale="none", restarts=8, rounds=40).fit(sites)
    assert model.inertia_ <= 1.03 * best_inertia(rows, 6, 5)


def test_golden_round():
    # Centres 0 and 10; rows 1, 2 at a and 9 at b: means 1.5 and 9, squares .25 + .25 + 0.
    model = FederatedKMeans(2, init=[[0.0], [10.0]], scale="none", rounds=1).fit(
        {"a": np.array([[1.0], [2.0]]), "b": np.array([[9.0]])}
    )
    assert model.centers_.tolist() == [[1.5], [9.0]]
    assert (model.inertia_, model.n_iter_) == (0.5, 1)
    assert model.confidence_[0] == pytest.approx(1 - 0.5 / 8)


def test_only_sums_and_counts_leave_a_site(blobs, deal):
    rows, labels = blobs
    sites, _ = deal(rows, labels, "even")
    model = FederatedKMeans(4, rounds=10).fit(sites)
    kinds = {(e.kind, e.sender == "coordinator") for e in model.ledger_}
    assert kinds == {("group-sums", False), ("column-scales", True), ("group-centres", True)}
    # Bytes leaving a site do not grow with its rows.
    groups = {e.facts.get("groups") for e in model.ledger_ if e.kind == "group-sums"}
    assert max(groups) <= 4 * 4


def test_no_proposed_centroid_stands_for_few_people():
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(size=(30, 2)), [[50.0, 50.0]], [[-40.0, 9.0]]])
    sums, counts = summarise_locally(rows, KMeansSettings(k=5, seed_group=5), rng)
    assert counts.min() >= 5
    assert counts.sum() == 32
    np.testing.assert_allclose(sums.sum(axis=0), rows.sum(axis=0))
    tiny = {f"s{i}": rng.normal(size=(3, 2)) for i in range(4)}
    with pytest.raises(DataError, match="fewer than 5 rows"):
        FederatedKMeans(2).fit(tiny)
    assert FederatedKMeans(2, seed_group=1, rounds=5).fit(tiny).k_ == 2


def test_small_groups_are_withheld_when_asked(blobs):
    rows, labels = blobs
    alone = np.concatenate([rows, [[500.0] * 5]])
    sites = {"a": alone[200:], "b": alone[:200]}
    init = np.array([rows[labels == g].mean(axis=0) for g in range(4)] + [[480.0] * 5])
    shown = FederatedKMeans(5, init=init, scale="none", rounds=9).fit(sites)
    hidden = FederatedKMeans(5, init=init, scale="none", min_group=3, rounds=9).fit(sites)
    np.testing.assert_allclose(shown.centers_[4], 500.0)
    np.testing.assert_allclose(hidden.centers_[4], 480.0)  # nobody released where the one is
    np.testing.assert_allclose(hidden.centers_[:4], shown.centers_[:4])


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_noise_has_the_scale_it_states(mechanism):
    noise = GroupNoise(epsilon=2.0, clip=3.0, mechanism=mechanism, rounds=5)
    rng = np.random.default_rng(0)
    sums, counts = noise.add(np.zeros((20_000, 1)), np.zeros(20_000), rng)
    spread = noise.scale * (1 if mechanism == "gaussian" else np.sqrt(2))
    assert counts.std() == pytest.approx(spread, rel=0.03)
    assert sums.std() == pytest.approx(3.0 * spread, rel=0.03)
    order = 2 if mechanism == "gaussian" else 1
    clipped = noise.clip_rows(rng.normal(size=(50, 4)) * 9)
    assert np.linalg.norm(clipped, ord=order, axis=1).max() <= 3.0 + 1e-9


def test_cost_of_noise_adds_up():
    laplace = GroupNoise(epsilon=1.0, clip=1.0, mechanism="laplace", rounds=8)
    assert laplace.scale == 16.0  # eight rounds, each moved by 2 in all
    assert laplace.cost()["delta"] == 0.0
    gaussian = GroupNoise(epsilon=1.0, clip=1.0, delta=1e-5, rounds=8)
    assert gaussian.cost()["epsilon"] == pytest.approx(1.0, rel=2e-3)
    # One round moves sums and counts by √2: eight of them are one with √8 times less noise.
    once = GaussianEvent(gaussian.scale / np.sqrt(2) / np.sqrt(8), neighbours="add or remove one")
    assert epsilon(once, 1e-5) == pytest.approx(1.0, rel=2e-3)


def test_noisy_groups_are_close_with_a_large_budget_and_rounds_are_fixed(blobs, deal):
    rows, labels = blobs
    unit = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    sites, order = deal(unit, labels, "even")
    noise = GroupNoise(epsilon=2000.0, clip=6.0, rounds=7, seed=0)
    scores = [
        ari(labels[order], FederatedKMeans(4, scale="none", noise=noise, seed=s).fit(sites).labels_)
        for s in range(3)
    ]
    assert max(scores) > 0.95
    model = FederatedKMeans(4, scale="none", noise=noise).fit(sites)
    assert model.n_iter_ == 7
    assert np.isnan(model.inertia_)
    assert model.cost_["epsilon"] == pytest.approx(2000.0, rel=0.01)
    assert not model.cost_["guaranteed"]
    sent = [e for e in model.ledger_ if e.kind == "group-sums"]
    assert len(sent) == 7 * 3  # nothing but the noisy rounds


def test_what_noise_costs_is_in_the_ledger(blobs):
    noise = GroupNoise(epsilon=1.0, clip=100.0, mechanism="laplace", rounds=4)
    model = FederatedKMeans(4, scale="none", noise=noise).fit(blobs[0])
    sent = [e for e in model.ledger_ if e.kind == "group-sums"]
    assert [e.epsilon for e in sent] == pytest.approx([0.25] * 4, rel=0.05)
    assert epsilon([e.event for e in sent], 0.0) == pytest.approx(1.0)
    again = FederatedKMeans(4, scale="none", noise=noise).fit(blobs[0])
    assert not np.array_equal(again.centers_, model.centers_)  # nobody can repeat it
    # Seeded noise is no guarantee, and the ledger does not claim one.
    seeded = FederatedKMeans(4, scale="none", noise=replace(noise, seed=1)).fit(blobs[0])
    assert {e.epsilon for e in seeded.ledger_ if e.kind == "group-sums"} == {None}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale": "standard"}, "scale must be 'none'"),
        ({"k": None, "scale": "none"}, "k must be given"),
    ],
)
def test_noise_forbids_what_would_cost_more(blobs, changed, message):
    noise = GroupNoise(epsilon=1.0, clip=1.0)
    with pytest.raises(SettingError, match=message):
        FederatedKMeans(**({"k": 4, "noise": noise} | changed)).fit(blobs[0])


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (KMeansSettings, {"k": 1}),
        (KMeansSettings, {"restarts": 0}),
        (KMeansSettings, {"tolerance": -1}),
        (KMeansSettings, {"local_groups": 0}),
        (GroupNoise, {"epsilon": 0, "clip": 1}),
        (GroupNoise, {"epsilon": 1, "clip": -1}),
        (GroupNoise, {"epsilon": 1, "clip": 1, "mechanism": "uniform"}),
        (GroupNoise, {"epsilon": 1, "clip": 1, "delta": 0.0}),
        (GroupNoise, {"epsilon": 1, "clip": 1, "rounds": 0}),
    ],
)
def test_settings_are_checked_when_made(kind, changed):
    with pytest.raises(SettingError):
        kind(**changed)


def test_lloyd_on_weights_is_lloyd_on_repeated_rows():
    rng = np.random.default_rng(2)
    rows, often = rng.normal(size=(40, 2)), rng.integers(1, 5, size=40)
    start = rows[:3]
    weighted = lloyd(rows, often.astype(float), start)
    repeated = lloyd(np.repeat(rows, often, axis=0), np.ones(often.sum()), start)
    np.testing.assert_allclose(weighted[0], repeated[0])
    assert weighted[2] == pytest.approx(repeated[2])
    assert len(choose_centers(np.zeros((5, 2)), np.ones(5), 3, rng)) == 1


def test_nearest_keeps_its_digits_far_from_zero():
    rows = 1e6 + np.array([[0.0], [0.25]])
    labels, squares = nearest(rows, 1e6 + np.array([[0.0], [1.0]]))
    assert labels.tolist() == [0, 0]
    assert squares.tolist() == [0.0, 0.0625]
    assert sum_groups(rows, labels, 3)[1].tolist() == [2.0, 0.0, 0.0]
