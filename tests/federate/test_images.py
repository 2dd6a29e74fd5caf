"""Images at sites: what suits them, rows that judge, and rounds that end by these rows' errors."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.federate import (
    Batch,
    CompletionNet,
    FedAvg,
    FederatedCompletion,
    FederatedProtocol,
    Rows,
    Shape,
    initial_weights,
)
from cofill.federate._effort import ROUNDS
from cofill.federate._parties import make_coordinator
from cofill.federate._rounds import _judged, final_weights
from cofill.protocol import Membership
from cofill.views import MultiView, by_row

IMAGES = Shape(("a", "b"), (64, 64), image=(8, 8), bounded=True)
TABLE = Shape(("a", "b"), (2, 2))
SMALL = {"width": 2, "blocks": 0}


def pictures(count, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape)).astype(float)


def test_colour_and_grey_of_one_size_go_through_one_network():
    colour = pictures(40, 6, 5, 3)
    views = MultiView.from_arrays({"colour": colour, "grey": colour.mean(axis=3)})
    holes = views.hide({"grey": np.arange(40) < 4, "colour": np.arange(40) > 36})
    model = FederatedCompletion(rounds=1, network=SMALL, effort="quick").fit(holes)
    shape = model.learner_.shape
    assert (shape.image, shape.channels) == ((6, 5), (3, 1))
    completed = model.complete(holes)
    assert completed.views.is_complete
    assert completed.views["colour"].image_shape == (6, 5, 3)


def test_pixels_stay_where_they_are():
    shape = Shape(("colour", "grey"), (60, 20), image=(4, 5), bounded=True)
    net = CompletionNet(shape, **SMALL)
    params = jax.tree.map(jnp.zeros_like, net.init(jax.random.key(0)))
    # The head copies the input's channels: the network is the identity on what is present.
    head = np.zeros((9, 2 + 6, 4), np.float32)
    head[4, 2:6] = np.eye(4)
    params["head"]["w"] = jnp.asarray(head.reshape(-1, 4))
    cells = jnp.asarray(pictures(3, 80) / 255, jnp.float32)
    np.testing.assert_allclose(net.fill(params, cells, jnp.ones((3, 2))), cells, atol=1e-6)


def test_moved_images_stay_in_register_and_teach_nothing_at_the_sides():
    shape = Shape(("colour", "grey"), (3 * 42, 42), image=(6, 7), bounded=True)
    net = CompletionNet(shape, shift=2, **SMALL)
    grey = np.arange(1, 43, dtype=np.float32).reshape(1, 6, 7)
    cells = np.concatenate(
        [np.repeat(grey[..., None], 3, -1).reshape(1, -1), grey.reshape(1, -1)], 1
    )
    batch = Batch(*map(jnp.asarray, (cells, np.ones_like(cells), np.ones((1, 2)), np.ones(1))))
    moves = set()
    for seed in range(40):
        moved = net._moved(batch, jax.random.key(seed))
        colour = np.asarray(moved.cells[0, :126]).reshape(6, 7, 3)
        other, known = (np.asarray(t[0, 126:]).reshape(6, 7) for t in (moved.cells, moved.known))
        np.testing.assert_array_equal(colour, np.repeat(other[..., None], 3, -1))
        down, right = np.argwhere((other == grey[0, 3, 3]) & (known > 0))[0] - 3
        moves.add((down, right))
        inside = np.zeros((6, 7), bool)
        inside[max(down, 0) : 6 + min(down, 0), max(right, 0) : 7 + min(right, 0)] = True
        np.testing.assert_array_equal(known > 0, inside)
    assert {abs(step) for move in moves for step in move} == {0, 1, 2}
    assert CompletionNet(shape, shift=0, **SMALL)._moved(batch, jax.random.key(0)) is batch


def work_of(net):
    """Return the operations that a compiler counts in one prediction."""
    shapes = jax.eval_shape(net.init, jax.random.key(0))
    cells, flags = jnp.zeros((1, net.shape.size)), jnp.zeros((1, net.shape.count))
    return jax.jit(net.fill).lower(shapes, cells, flags).cost_analysis()["flops"]


@pytest.mark.parametrize("side", [28, 96])
def test_efforts_differ_in_work(side):
    shape = Shape(("a", "b"), (side**2, side**2), image=(side, side), bounded=True)
    work = [work_of(CompletionNet(shape, effort=e)) for e in ("quick", "normal", "thorough")]
    assert work[0] < work[1] / 3 < work[2] / 5


def test_the_device_chooses_the_effort(monkeypatch):
    members = Membership({"s": ("a", "b")}, ("a", "b"))
    for device, effort in (("cpu", "quick"), ("gpu", "normal")):
        monkeypatch.setattr(jax, "default_backend", lambda device=device: device)
        design = FederatedCompletion().protocol(members).design
        assert design.network["effort"] == effort
        assert design.settings.rounds == ROUNDS[effort]
    named = FederatedCompletion(effort="thorough").protocol(members).design
    assert (named.network["effort"], named.settings.rounds) == ("thorough", ROUNDS["thorough"])
    # Over a network nobody knows the others' devices: all must be able to follow.
    assert FederatedProtocol.from_settings({"secure": False}, members).design.network == {
        "effort": "quick"
    }


def test_an_unknown_effort_is_named():
    for fails in (
        lambda: CompletionNet(IMAGES, effort="much"),
        lambda: FederatedCompletion(effort="much").protocol(Membership({"s": ("a",)}, ("a",))),
    ):
        with pytest.raises(SettingError, match="effort must be one of quick, normal, thorough"):
            fails()


def test_ten_sites_take_as_many_steps_in_a_pass_as_one_place():
    batches = {n: CompletionNet.image_training(n)["batch"] for n in (1, 4, 10, 1000)}
    assert batches == {1: 40, 4: 10, 10: 4, 1000: 2}
    _, design = design_of(10)
    table, images = (CompletionNet(shape, **SMALL) for shape in (TABLE, IMAGES))
    assert design.local_for(table).batch == CompletionNet.training["batch"]
    assert design.local_for(images).batch == 4


def design_of(sites, **settings):
    names = tuple(f"s{k}" for k in range(sites))
    members = Membership(dict.fromkeys(names, ("a", "b")), ("a", "b"))
    settings = {"rounds": 8, "secure": sites > 2, **settings}
    return names, FederatedProtocol.from_settings(settings, members).design


def test_what_a_user_sets_comes_before_what_suits_images():
    _, design = design_of(10, batch=7, local={"moments": "reset"})
    local = design.local_for(CompletionNet(IMAGES))
    assert (local.batch, local.moments, local.weight_decay) == (7, "reset", 0.1)
    _, plain = design_of(10, strategy="scaffold")
    local = plain.local_for(CompletionNet(IMAGES))
    assert (local.optimizer, local.moments, local.momentum) == ("sgd", "reset", 0.0)


def test_the_mean_of_images_has_a_momentum_at_several_sites():
    for sites, net, momentum in (
        (10, CompletionNet(IMAGES, **SMALL), 0.8),
        (1, CompletionNet(IMAGES, **SMALL), 0.0),
        (10, CompletionNet(TABLE, **SMALL), 0.0),
    ):
        names, design = design_of(sites)
        assert make_coordinator(names, net, design).strategy == FedAvg(momentum=momentum)
    names, design = design_of(10, strategy={"name": "fedavg", "momentum": 0.3})
    assert make_coordinator(names, CompletionNet(IMAGES, **SMALL), design).strategy.momentum == 0.3


def test_momentum_by_hand():
    change, strategy = {"change": np.array([1.0])}, FedAvg(momentum=0.5)
    state, weights = strategy.apply({}, np.zeros(1), change, 1.0)
    assert weights.tolist() == [1.5]  # the change, and half of a speed of 1
    _, weights = strategy.apply(state, weights, change, 1.0)
    assert weights.tolist() == [1.5 + 1 + 0.5 * 1.5]
    with pytest.raises(SettingError, match=r"momentum must be in \[0, 1\), got 1"):
        FedAvg(momentum=1)


def test_rows_that_judge_train_nothing_and_their_error_crosses_as_a_mean():
    image = pictures(120, 4, 4)
    views = MultiView.from_arrays({"image": image, "negative": 255 - image})
    holes = views.hide({"negative": np.arange(120) < 20})
    held = by_row(holes, 2, key=0)
    model = FederatedCompletion(rounds=2, network=SMALL, secure=False).fit_sites(held)
    sites = model.federation_.sites
    for name, site in sites.items():
        pairs = int(held[name].present("negative").sum())
        assert len(site.held_out) == int(0.05 * pairs)
        assert len(site.rows) + len(site.held_out) == held[name].n_individuals
        assert site.held_out.present.all()
    # By hand: what the first weights make of the rows, weighted by the rows that train.
    net, start = model.learner_, initial_weights(model.learner_, jax.random.key(0))
    errors = [net.error(start, site.held_out) for site in sites.values()]
    weights = [len(site.rows.positions("several")) for site in sites.values()]
    expected = np.average(errors, weights=weights)
    assert model.curve_[0]["held_out"] == pytest.approx(expected, rel=1e-5)


def test_the_error_of_rows_by_hand():
    @dataclass(frozen=True)
    class Copies(CompletionNet):
        def fill(self, params, cells, present):
            return cells + 1.0

    net = Copies(Shape(("a", "b"), (1, 1)), width=1, blocks=0)
    cells = np.array([[3.0, 5.0], [0.0, 2.0]], np.float32)
    known = np.array([[True, True], [False, True]])
    rows = Rows(cells, known, np.ones((2, 2), bool))
    # a is hidden and predicted as 1 where it is 3; b as 1 where it is 5 and 2.
    weights = initial_weights(net, jax.random.key(0))
    assert net.error(weights, rows) == pytest.approx((4 + (16 + 1) / 2) / 2)


def judged(errors, rounds=8):
    """Return the coordinator after sites judged the weights 0, 1, 2, … with these errors."""
    names, design = design_of(2, rounds=rounds)
    coordinator = make_coordinator(names, CompletionNet(IMAGES, **SMALL), design)
    for number, error in enumerate(errors, start=1):
        coordinator = replace(coordinator, weights=np.array([float(number - 1)]), round=number)
        entry = {"round": number, "held_out": error}
        coordinator = replace(_judged(coordinator, float(error)), curve=(*coordinator.curve, entry))
        coordinator = replace(coordinator, weights=np.array([float(number)]))
    return coordinator


def test_rounds_end_when_held_out_rows_find_no_better_model():
    falling = judged([5, 4, 3, 2.5, 2.4, 2.3, 2.2, 2.1])
    assert not falling.finished
    assert final_weights(falling).tolist() == [8.0]
    stuck = judged([5, 4, 3, 3.1, 3.2, 3.3, 3.4, 3.5])
    assert stuck.finished
    assert final_weights(stuck).tolist() == [2.0]
    assert not judged([5, 4, 3, 3.1, 3.2, 3.3, 3.4]).finished  # not for five rounds yet
    rising = judged([5, 4, 3, 3.1, 3.2, 3.4])  # the end came first, and later models were worse
    assert final_weights(rising).tolist() == [2.0]
    unjudged = judged([np.nan] * 8)
    assert not unjudged.finished
    assert final_weights(unjudged).tolist() == [8.0]


@pytest.mark.parametrize("secure", [False, True])
def test_nobody_trains_after_the_end(secure, monkeypatch):
    image = pictures(120, 4, 4)
    views = MultiView.from_arrays({"image": image, "negative": 255 - image})
    errors = iter(range(1, 1000))
    monkeypatch.setattr(CompletionNet, "error", lambda *_: float(next(errors)))
    members = Membership(dict.fromkeys("abc", ("image", "negative")), ("image", "negative"))
    settings = {"rounds": 9, "network": SMALL, "secure": secure}
    design = FederatedProtocol.from_settings(settings, members).design
    model = FederatedCompletion(network=design.network, settings=design.settings)
    model.fit_sites(by_row(views, 3, key=0))
    assert [entry["round"] for entry in model.curve_] == [1, 2, 3, 4, 5, 6]
    assert model.federation_.coordinator.best_round == 0
    assert model.complete(views.hide({"negative": np.arange(120) < 3})).views.is_complete


@pytest.mark.parametrize(("size", "patch"), [((6, 5), 1), ((7, 9), 2)])
def test_a_copy_of_an_image_is_learnt_to_the_pixel(size, patch):
    image = pictures(200, *size)
    views = MultiView.from_arrays({"image": image, "copy": image})
    model = FederatedCompletion(
        rounds=30, batch=8, network={"width": 4, "blocks": 0, "patch": patch, "shift": 0}
    ).fit(views)
    new = pictures(50, *size, seed=1)
    both = MultiView.from_arrays({"image": new, "copy": new})
    completed = model.complete(both.hide({"copy": np.ones(50, bool)}))
    error = np.mean((completed.cells["copy"] - new.reshape(50, -1)) ** 2)
    # Pixels are independent: a network that pooled them away would have their variance.
    assert error < 0.03 * new.var()


def test_skewed_sites_and_one_with_a_single_modality_get_images():
    image = pictures(90, 5, 7)
    views = MultiView.from_arrays({"image": image, "negative": 255 - image})
    labels = np.arange(90) % 3
    held = by_row(views, 4, key=0, labels=labels, alpha=0.3, min_rows=6)
    (first, alone), *others = held.items()
    held = {first: MultiView([alone["image"]]), **dict(others)}
    model = FederatedCompletion(rounds=2, network=SMALL).fit_sites(held)
    assert any(f"site {first!r} has no individual that this model" in n for n in model.notes_)
    completed = model.complete_sites(held)[first].views["negative"]
    assert completed.image_shape == (5, 7)
    assert len(completed) == alone.n_individuals
    assert not np.isnan(completed.cells).any()


def test_images_are_moved_by_a_share_of_their_side():
    for side, most in ((8, 0), (16, 1), (28, 2), (64, 4)):
        shape = Shape(("a", "b"), (side**2, side**2), image=(side, side), bounded=True)
        ones = jnp.ones((1, 2 * side**2))
        batch = Batch(ones, ones, jnp.ones((1, 2)), jnp.ones(1))
        lost = [
            int(side - CompletionNet(shape)._moved(batch, jax.random.key(k)).known[0, :side].sum())
            for k in range(12)
        ]
        # A row is lost as a whole where the image moved down; else as many as it moved sideways.
        assert max(n for n in lost if n < side) == most


def test_a_site_is_asked_for_what_both_kinds_of_rows_would_take():
    members = Membership(dict.fromkeys("abcd", ("a", "b")), ("a", "b"))
    demands = FederatedProtocol.from_settings({}, members).demands
    of_sums = "of tables too small or wide for sums"  # which get a network
    assert demands.groups == {f"batch {of_sums}": 10}
    assert demands.image_groups == {"batch of images": 10}
    assert set(demands.learning_rates) == {f"learning_rate {of_sums}", "learning_rate of images"}
    assert set(demands.learning_rates.values()) == {3e-3, 4e-3}
    many = Membership(dict.fromkeys("abcdefghij", ("a", "b")), ("a", "b"))
    assert FederatedProtocol.from_settings({}, many).demands.image_groups == {"batch of images": 4}
    chosen = FederatedProtocol.from_settings({"batch": 16}, many).demands
    assert (chosen.groups, chosen.image_groups) == ({"batch": 16}, {"batch of images": 16})
