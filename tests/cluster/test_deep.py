"""Deep clustering: its parts against oracles, sites that differ, groups without labels."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from sklearn.cluster import KMeans

from cofill.cluster import (
    DeepClustering,
    DeepSettings,
    NetworkSettings,
    ObjectiveSettings,
    WarpSettings,
)
from cofill.cluster._augment import _read, neighbours, towards, warp
from cofill.cluster._deep import _average, _gather, _homes, _start, _train_apart
from cofill.cluster._deep_settings import DeepState, plan_of
from cofill.cluster._network import apply_network, first_weights
from cofill.cluster._objective import Terms, entropy, head_terms, objective
from cofill.cluster._parties import ClusterCoordinator, ClusterSite
from cofill.cluster._rounds import new_weights, start_memory, train_round
from cofill.cluster._rows import ColumnKinds
from cofill.errors import DataError, SettingError, TrainingError
from cofill.metrics import clustering_accuracy
from cofill.privacy import Update
from cofill.views import by_row, load


@pytest.fixture(scope="module")
def digits():
    data = load("digits")
    return data.views.select(["image"]), data.labels


# --- parts ------------------------------------------------------------------------------------


def test_reading_between_pixels_is_bilinear():
    rng = np.random.default_rng(0)
    image = rng.normal(size=(2, 1, 5, 7)).astype(np.float32)
    row, column = rng.uniform(0, 4, size=(2, 5, 7)), rng.uniform(0, 6, size=(2, 5, 7))
    result = _read(jnp.asarray(image), jnp.asarray(row), jnp.asarray(column))
    for at in range(2):
        oracle = map_coordinates(image[at, 0], [row[at], column[at]], order=1)
        np.testing.assert_allclose(result[at, 0], oracle, atol=1e-5)


def test_warps_are_small_and_differ_from_image_to_image():
    image = np.zeros((1, 1, 16, 16), np.float32)
    image[:, :, 5:11, 5:11] = 1.0
    many = jnp.asarray(np.repeat(image, 20, axis=0))
    result = np.asarray(warp(jax.random.key(0), many, WarpSettings(elastic=0.02)))
    assert np.unique(result.reshape(20, -1), axis=0).shape[0] == 20
    assert 0.7 * image.sum() < result.sum() / 20 < 1.3 * image.sum()
    turned = WarpSettings(rotation=0, shift=0.2, zoom=0, shear=0)
    down = np.asarray(warp(jax.random.key(1), many, turned)).sum(axis=(1, 3))
    middle = (down * np.arange(16)).sum(axis=1) / down.sum(axis=1)
    assert abs(middle - 7.5).max() <= 0.2 * 16 + 1e-4
    assert abs(middle - 7.5).max() > 1


def test_neighbours_are_the_nearest_others():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    near = neighbours(rows, 4, np.random.default_rng(1))
    distance = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    np.testing.assert_array_equal(np.sort(near), np.sort(distance.argsort(axis=1)[:, :4]))
    same = neighbours(np.zeros((5, 2)), 3, np.random.default_rng(1))
    assert same.shape == (5, 3)
    assert neighbours(np.zeros((1, 2)), 3, np.random.default_rng(1)).tolist() == [[0]]
    line = jnp.arange(3.0)[:, None]
    near = jnp.tile(jnp.array([[1, 2]]), (50, 1))
    moved = np.asarray(towards(jax.random.key(0), jnp.zeros((50, 1)), line, near, 0.5))
    assert 0 < moved.min() < 0.5 < moved.max() <= 1.0  # half the way to 1 or to 2


def test_patches_and_products_are_a_convolution():
    # One stage: 2×2 pixels folded and 3×3 neighbours are a 6×6 kernel with stride 2.
    rng = np.random.default_rng(0)
    settings = NetworkSettings((3,), (4,))
    weights = first_weights(jax.random.key(0), 64, (1, 8, 8), (2,), settings)
    image = jnp.asarray(rng.normal(size=(2, 1, 8, 8)), jnp.float32)
    kernel = weights["layer0"].reshape(3, 3, 2, 2, 1, 3)  # place i, j; pixel a, b; channel in, out
    kernel = kernel.transpose(0, 2, 1, 3, 4, 5).reshape(6, 6, 1, 3)
    result = jax.lax.conv_general_dilated(
        jnp.moveaxis(image, 1, 3), kernel, (2, 2), [(2, 2), (2, 2)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    result = result - result.mean(axis=-1, keepdims=True)
    result = jax.nn.relu(result / jnp.sqrt((result**2).mean(axis=-1, keepdims=True) + 1e-5))
    hidden = result.reshape(2, -1) @ weights["layer1"]
    hidden = hidden - hidden.mean(axis=-1, keepdims=True)
    hidden = jax.nn.relu(hidden / jnp.sqrt((hidden**2).mean(axis=-1, keepdims=True) + 1e-5))
    logits, code = apply_network(weights, image, 1, settings)
    np.testing.assert_allclose(code, hidden, atol=1e-4)
    np.testing.assert_allclose(logits[0], hidden @ weights["head0"], atol=1e-4)


def test_the_objective_by_hand():
    logits = jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]]))
    partner = jnp.log(jnp.array([[0.9, 0.1], [0.5, 0.5]]))
    terms = head_terms(logits, partner)
    assert float(terms.inconsistency) == pytest.approx(
        (0.2 * np.log(0.2 / 0.5) + 0.8 * np.log(0.8 / 0.5)) / 2, abs=1e-6
    )
    doubt = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1) + 0.2 * np.log(0.2) + 0.8 * np.log(0.8)) / 2
    assert float(terms.doubt) == pytest.approx(doubt, abs=1e-6)
    np.testing.assert_allclose(terms.shares, [0.55, 0.45], atol=1e-6)
    spread = float(entropy(jnp.array([0.55, 0.45])))
    alike = objective(terms, terms.shares, terms.shares, ObjectiveSettings(0.2, 3))
    expected = float(terms.inconsistency) - 0.2 * (3 * spread - doubt)
    assert float(alike) == pytest.approx(expected, abs=1e-6)


def test_partners_follow_rows_and_not_the_other_way():
    logits, partner = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]])

    def apart(logits, partner):
        return head_terms(logits, partner).inconsistency

    rows, partners = jax.grad(apart, (0, 1))(logits, partner)
    assert not rows.any()
    assert abs(partners).max() > 0.1


def test_a_site_with_one_group_is_not_pushed_to_make_up_others():
    # All rows of the site are in group 0, as a third of all rows are; evenness must not mind.
    common, site_shares = jnp.array([0.34, 0.33, 0.33]), jnp.array([0.999, 0.0005, 0.0005])

    def push(common, site_shares):
        def loss(logits):
            return objective(
                head_terms(logits, logits), common, site_shares, ObjectiveSettings(1, 1000)
            )

        logits = jnp.array([[8.0, 0.0, 0.0]] * 4)
        return float(abs(jax.grad(loss)(logits)).sum())

    assert push(common, site_shares) < 0.1 * push(site_shares, site_shares)


# --- rounds -----------------------------------------------------------------------------------


def tiny_plan(shape=(1, 4, 4), **changed):
    settings = DeepSettings(
        k=3, rounds=4, local_steps=3, batch=8, network=NetworkSettings((4,), (8,)), **changed
    )
    columns = 16
    kinds = ColumnKinds(tuple(map(str, range(columns))), (True,) * columns, shape)
    return plan_of(settings, kinds)


def held_by(plan, rows, restarts, size):
    near = None
    if plan.shape is None:
        near = jnp.asarray(neighbours(rows, 3, np.random.default_rng(0)))
    return start_memory(plan, rows, near, restarts, size)


@pytest.mark.parametrize("shape", [(1, 4, 4), None])
def test_a_site_trains_alone_as_it_does_beside_others(shape):
    rng = np.random.default_rng(0)
    plan = tiny_plan(shape, start="random")
    weights = new_weights(plan, jax.random.split(jax.random.key(0), 2))
    held = [held_by(plan, rng.normal(size=(n, 16)), 2, weights.shape[1]) for n in (5, 30)]
    keys = jax.random.split(jax.random.key(1), 2)
    shares = jnp.full((2, 2, 3), 1 / 3)
    stack = jnp.stack([weights] * 2)
    both = train_round(plan, tuple(held), stack, shares, None, keys, jnp.array(1))
    for at, site in [(0, held[0])]:  # the smallest: what pads its rows is never drawn
        one = slice(at, at + 1)
        alone = train_round(plan, (site,), stack[one], shares[one], None, keys[one], jnp.array(1))
        np.testing.assert_allclose(alone.weights[0], both.weights[at], atol=1e-5)
        np.testing.assert_allclose(alone.shares[0], both.shares[at], atol=1e-5)
    assert abs(both.weights - stack).max() > 1e-4


def test_sites_judge_the_common_model_and_not_what_they_make_of_it():
    plan = tiny_plan(None, start="random")
    weights = new_weights(plan, jax.random.split(jax.random.key(0), 2))
    rows = np.random.default_rng(0).normal(size=(30, 16))
    held = (held_by(plan, rows, 2, weights.shape[1]),)
    keys, shares = jax.random.split(jax.random.key(1), 1), jnp.full((1, 2, 3), 1 / 3)
    calm, wild = (
        train_round(p, held, weights[None], shares, None, keys, jnp.array(1))
        for p in (plan, replace(plan, settings=replace(plan.settings, learning_rate=5.0)))
    )
    assert abs(calm.shares - wild.shares).max() > 0.05
    for one, other in zip(calm.judged, wild.judged, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_averaging_is_weighted_by_rows_and_keeps_the_best():
    settings = DeepSettings(k=2, restarts=3, finalists=1, rounds=10, trial=0.1)
    kinds = ColumnKinds(("x",), (True,))
    shares = np.full((3, 2), 0.5, np.float32)
    state = DeepState(np.zeros((3, 4), np.float32), shares, np.arange(3), np.full(3, np.nan))
    coordinator = ClusterCoordinator(("a", "b"), kinds, settings, "none", 0, None, state)

    def update(name, rows, value, doubt):
        return Update(
            sender=name,
            receiver="coordinator",
            round=0,
            change=np.full(12, value, np.float32),
            rows=rows,
            extras={
                "shares": np.eye(2)[[0, 0, 0]].ravel(),  # only the judged ones count
                "judged_shares": shares.ravel(),
                "judged_inconsistency": np.zeros(3),
                "judged_doubt": doubt,
            },
        )

    doubt = np.array([0.5, 0.1, 0.4])
    inbox = (update("b", 30, 4.0, doubt), update("a", 10, 0.0, doubt))
    after = _average(coordinator, inbox)[0].state
    np.testing.assert_allclose(after.weights, np.full((1, 4), 3.0))
    assert after.restarts.tolist() == [1]
    assert after.objective[0] == pytest.approx(-0.5 * (4 * np.log(2) - 0.1))
    with pytest.raises(DataError, match="site 'b' has sent no update"):
        _average(coordinator, inbox[1:])
    with pytest.raises(DataError, match="refused"):
        _average(coordinator, (replace(inbox[0], change=np.zeros(5)), inbox[1]))
    with pytest.raises(
        DataError, match="the update from 'b' must have 3 numbers of 'judged_doubt'"
    ):
        _average(coordinator, (update("b", 30, 4.0, doubt[:2]), inbox[1]))
    with pytest.raises(TrainingError, match="diverged"):
        _average(coordinator, (update("b", 30, np.nan, doubt), inbox[1]))


def test_each_restart_starts_at_one_site_and_comes_to_all():
    settings = DeepSettings(
        k=3, restarts=3, rounds=5, local_steps=3, batch=8, network=NetworkSettings((4,), (8,))
    )
    kinds = ColumnKinds(tuple(map(str, range(16))), (True,) * 16, (1, 4, 4))
    rng, names = np.random.default_rng(0), ("a", "b")
    sites = [ClusterSite(n, rng.normal(size=(20, 16)), kinds, settings, "none", 0) for n in names]
    begun = ClusterCoordinator(names, kinds, settings, "none", 0)
    homes = _homes(begun)
    assert sorted(len(home) for home in homes.values()) == [1, 2]
    assert sorted(np.concatenate(list(homes.values()))) == [0, 1, 2]
    coordinator, sent = _start(begun, ())
    first = coordinator.state.weights
    inboxes = [tuple(r for r in sent if r.receiver == n) for n in names]
    result = _train_apart(sites, inboxes, None)
    updates = tuple(release for _, outbox in result for release in outbox)
    gathered, models = _gather(coordinator, updates)
    for name, home in homes.items():
        [update] = [u for u in updates if u.sender == name]
        moved = update.change.reshape(len(home), -1)
        np.testing.assert_allclose(gathered.state.weights[home] - first[home], moved, atol=1e-6)
        assert (abs(moved).max(axis=1) > 1e-3).all()
    assert [len(m.extras["restarts"]) for m in models] == [3, 3]
    assert all(site.memory is None for site, _ in result)
    with pytest.raises(DataError, match="has sent no update"):
        _gather(coordinator, updates[:1])
    with pytest.raises(DataError, match="refused"):
        _gather(coordinator, (replace(updates[0], change=np.zeros(5)), updates[1]))


def test_fewer_restarts_than_sites_and_tables_that_start_from_k_means():
    kinds, names = ColumnKinds(("x",), (True,), (1, 1, 1)), tuple("abcdef")
    few = ClusterCoordinator(names, kinds, DeepSettings(restarts=2), "none", 3)
    assert {len(home) for home in _homes(few).values()} == {1}
    assert len(_homes(few)) == 2
    assert plan_of(DeepSettings(rounds=10, local_steps=4), kinds).apart == 16
    assert plan_of(DeepSettings(), ColumnKinds(("x",), (True,))).apart == 0


# --- whole ------------------------------------------------------------------------------------


@pytest.mark.full
def test_groups_of_digits_are_better_than_k_means_and_no_label_is_used(digits):
    views, labels = digits
    sites = by_row(views, 2, key=0)
    model = DeepClustering(
        10, restarts=2, rounds=12, local_steps=20, batch=64, learning_rate=2e-3, start="kmeans",
        network=NetworkSettings((12, 24), (48,)), warp=WarpSettings(10, 0.08, 0.1, 0.1),
    ).fit(sites)  # fmt: skip
    truth = np.concatenate([labels[views_of_site.ids] for views_of_site in sites.values()])
    accuracy = clustering_accuracy(truth, model.labels_)
    pooled = KMeans(10, n_init=3, random_state=0).fit_predict(views["image"].cells.astype(float))
    assert accuracy > clustering_accuracy(labels, pooled) + 0.02
    np.testing.assert_array_equal(model.predict(sites)["site_1"], model.labels_by_site_["site_1"])
    assert model.restart_ == int(np.nanargmin(model.history_[-1]))
    sent = {"group-sums", "column-scales", "model", "update"}
    assert {e.kind for e in model.ledger_} == sent
    cells = np.concatenate([views_of_site["image"].cells for views_of_site in sites.values()])
    largest = np.bincount(model.labels_).argmax()
    np.testing.assert_allclose(
        model.centers_[largest], cells[model.labels_ == largest].mean(axis=0), atol=1e-9
    )


def test_planted_groups_at_sites_that_lack_some(blobs, deal, quick):
    rows, labels = blobs
    sites, order = deal(rows, labels, "by group")
    model = quick(4, rounds=20).fit(sites)
    assert clustering_accuracy(labels[order], model.labels_) > 0.95
    probability = model.predict_proba(rows)
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(
        model.centers_[model.labels_[0]],
        rows[order][model.labels_ == model.labels_[0]].mean(axis=0),
        rtol=1e-6,
    )


def test_same_seed_same_groups_and_order_of_sites_does_not_matter(digits, quick):
    views, _ = digits
    sites = by_row(views.take(np.arange(60)), 3, key=0)
    first = quick(3).fit(sites)
    again = quick(3).fit(dict(reversed(sites.items())))
    np.testing.assert_allclose(first.state_.weights, again.state_.weights, atol=1e-5)
    other = quick(3, seed=1).fit(sites)
    assert abs(first.state_.weights - other.state_.weights).max() > 0.01


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (DeepSettings, {"k": 1}),
        (DeepSettings, {"over": (1,)}),
        (DeepSettings, {"rounds": 0}),
        (DeepSettings, {"trial": 0.0}),
        (DeepSettings, {"apart": -0.1}),
        (DeepSettings, {"learning_rate": 0}),
        (DeepSettings, {"reach": 2.0}),
        (DeepSettings, {"adversary": -1}),
        (DeepSettings, {"start": "warm"}),
        (DeepSettings, {"warm": 1.0}),
        (NetworkSettings, {"hidden": ()}),
        (NetworkSettings, {"channels": (0,)}),
        (ObjectiveSettings, {"information": 0}),
        (WarpSettings, {"zoom": -0.1}),
    ],
)
def test_settings_are_checked_when_made(kind, changed):
    with pytest.raises(SettingError):
        kind(**changed)


def test_terms_are_named():
    assert Terms._fields == ("inconsistency", "doubt", "shares")
