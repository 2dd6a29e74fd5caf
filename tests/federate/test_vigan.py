"""VIGAN's phases train what they should, each player's loss moves that player, and the way back."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from cofill.errors import SettingError
from cofill.federate import (
    VIGAN,
    LocalSettings,
    Phase,
    Pix2Pix,
    RoundSettings,
    Rows,
    Shape,
    _learner,
)
from cofill.federate._learner import Batch, make_unravel
from cofill.federate._local import LocalWork, plan_batches, train_sites
from cofill.federate._vigan_networks import _conv, _kernel, make_networks
from cofill.views import load

SHAPE = Shape(("x", "y"), (3, 3))
MODEL = VIGAN(SHAPE)
PARTS = ("G1", "G2", "D1", "D2", "A")


def some_rows(pairs=8, singles=4, seed=0) -> Rows:
    rng = np.random.default_rng(seed)
    present = np.ones((pairs + 2 * singles, 2), bool)
    present[pairs : pairs + singles, 1] = False
    present[pairs + singles :, 0] = False
    known = np.repeat(present, 3, axis=1)
    cells = np.where(known, rng.normal(size=known.shape), 0).astype(np.float32)
    return Rows(cells, known, present)


def batch(places, rows) -> Batch:
    of = (rows.cells[places], rows.known[places], rows.present[places])
    return Batch(*(jnp.asarray(a, jnp.float32) for a in of), jnp.ones(len(places)))


@pytest.fixture(scope="module")
def params():
    return jax.jit(MODEL.init)(jax.random.key(0))


@pytest.fixture(scope="module")
def batches():
    rows = some_rows()
    return {
        "complete": batch(rows.positions("complete"), rows),
        "only:0": batch(rows.positions("only:0"), rows),
        "only:1": batch(rows.positions("only:1"), rows),
    }


def moved(slope) -> set[str]:
    """The parts that a gradient would move."""
    return {
        name
        for name in slope
        if max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(slope[name])) > 0
    }


@pytest.mark.parametrize(
    ("phase", "parts"),
    [
        ("autoencoder", {"A"}),
        ("cycle", {"G1", "G2", "D1", "D2"}),
        ("rounds", {"G1", "G2", "D1", "D2", "A"}),
    ],
)
def test_a_phase_moves_its_own_parts(params, batches, phase, parts):
    slope = jax.jit(jax.grad(lambda p: MODEL.loss(phase, p, batches, jax.random.key(0))[0]))(params)
    assert moved(slope) == parts


@pytest.mark.full
def test_pre_training_leaves_other_parts_as_they_were(toy):
    held = {"a": some_rows(), "b": some_rows(seed=1)}
    for epochs, same in (
        ({"autoencoder": 1, "cycle": 0}, {"G1", "G2", "D1", "D2"}),
        ({"autoencoder": 0, "cycle": 1}, {"A"}),
    ):
        made = toy.encoded(
            held,
            MODEL,
            local=LocalSettings(batch=8, learning_rate=0.01),
            settings=RoundSettings(rounds=1, pretrain=epochs, secure=False),
        )
        before = make_unravel(MODEL)(jnp.asarray(made.coordinator.weights))
        toy.run_rounds([made], until=0)
        after = make_unravel(MODEL)(jnp.asarray(made.coordinator.weights))
        change = jax.tree.map(lambda a, b: a - b, after, before)
        assert moved(change) == set(PARTS) - same
        assert all(site.moments is None for site in made.sites.values())
        (entry,) = made.coordinator.curve
        trained = "autoencoder" if epochs["autoencoder"] else "cycle"
        assert entry["round"] == 0
        assert {name.partition("_")[0] for name in entry} == {"round", "sites", trained}


@pytest.mark.parametrize("kind", ["printed", "non-saturating", "least-squares"])
def test_each_players_loss_moves_that_player_alone(params, batches, kind):
    model = VIGAN(SHAPE, adversarial=kind)
    pairs = batches["complete"]
    x, y = pairs.cells[:, :3], pairs.cells[:, 3:]
    ones = jnp.ones(len(x))

    def losses(p):
        false = model._generated(p, 1, x)
        return model._game(model._networks[1], p, "D1", (y,), (false,), ones, ones)

    fooled, told = jax.jit(
        lambda p: (jax.grad(lambda q: losses(q)[0])(p), jax.grad(lambda q: losses(q)[1])(p))
    )(params)
    assert moved(fooled) == {"G1"}
    assert moved(told) == {"D1"}


@pytest.mark.parametrize("kind", ["printed", "non-saturating", "least-squares"])
def test_losses_of_the_game_by_hand(kind):
    model = VIGAN(SHAPE, adversarial=kind)

    def judge(held, verdict):
        return verdict * held

    real, false = jnp.array([[2.0], [9.0]]), jnp.array([[-1.0], [9.0]])
    weight = jnp.array([1.0, 0.0])  # the second row is none
    fooled, told = model._game(judge, {"D": jnp.ones(())}, "D", (real,), (false,), weight, weight)
    D = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    if kind == "least-squares":
        expected = ((-1 - 1) ** 2, 0.5 * ((2 - 1) ** 2 + (-1) ** 2))
    else:
        told_by_hand = -np.log(D(2)) - np.log(1 - D(-1))
        by_hand = np.log(1 - D(-1)) if kind == "printed" else -np.log(D(-1))
        expected = (by_hand, told_by_hand)
    assert (float(fooled), float(told)) == pytest.approx(expected, rel=1e-5)


def test_the_joint_gradient_is_the_weighted_sum_of_the_parts(params, batches):
    pairs = batches["complete"]
    x, y = pairs.cells[:, :3], pairs.cells[:, 3:]
    hold = jax.lax.stop_gradient

    def by_hand(p):
        """Eq. 3.11 for the generators and A, Eq. 3.9 for the discriminators, written out."""
        generate, judge = MODEL._networks[0], MODEL._networks[1]
        made_y, made_x = generate(p["G1"], x), generate(p["G2"], y)
        a = MODEL._networks[3]
        (x1, y1), (x2, y2) = a(p["A"], x, made_y), a(p["A"], made_x, y)
        error = sum(((one - two) ** 2).mean() for one, two in ((x1, x), (y1, y), (x2, x), (y2, y)))
        cycle = (
            jnp.abs(generate(p["G2"], made_y) - x).mean()
            + jnp.abs(generate(p["G1"], made_x) - y).mean()
        )
        fool = sum(  # log(1 − D)
            -jax.nn.softplus(judge(hold(p[d]), f)).mean() for d, f in (("D1", y1), ("D2", x2))
        )
        tell = sum(
            jax.nn.softplus(-judge(p[d], r)).mean() + jax.nn.softplus(judge(p[d], hold(f))).mean()
            for d, r, f in (("D1", y, y1), ("D2", x, x2))
        )
        return 100 * error + 10 * cycle + fool + tell

    ours = jax.jit(
        jax.value_and_grad(lambda p: MODEL.loss("rounds", p, batches, jax.random.key(0))[0])
    )(params)
    theirs = jax.jit(jax.value_and_grad(by_hand))(params)
    assert float(ours[0]) == pytest.approx(float(theirs[0]), rel=1e-5)
    for one, two in zip(jax.tree.leaves(ours[1]), jax.tree.leaves(theirs[1]), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


def test_the_way_of_a_completion_is_generator_then_autoencoder(params):
    rng = np.random.default_rng(1)
    x, y = (jnp.asarray(rng.normal(size=(5, 3)), jnp.float32) for _ in range(2))
    generate, _, _, autoencode = MODEL._networks
    nothing = jnp.zeros_like(x)
    filled = jax.jit(MODEL.fill)
    from_x = filled(params, jnp.concatenate([x, nothing], axis=1), jnp.array([[1.0, 0.0]] * 5))
    rebuilt = autoencode(params["A"], x, generate(params["G1"], x))
    np.testing.assert_allclose(from_x, np.concatenate(rebuilt, axis=1), rtol=1e-4, atol=1e-5)
    from_y = filled(params, jnp.concatenate([nothing, y], axis=1), jnp.array([[0.0, 1.0]] * 5))
    rebuilt = autoencode(params["A"], generate(params["G2"], y), y)
    np.testing.assert_allclose(from_y, np.concatenate(rebuilt, axis=1), rtol=1e-4, atol=1e-5)


def test_many_rows_are_completed_a_part_at_a_time_and_wide_ones_fewer(monkeypatch):
    """Convolutions hold hundreds of numbers for each pixel: memory must not grow with the rows."""
    calls = []

    def fill(learner, part, weights, cells, present):
        calls.append(cells.shape)
        return cells + 1

    monkeypatch.setattr(_learner, "_fill", fill)
    for size, most in ((3, 2048), (784, 334)):
        model, cells = (
            VIGAN(Shape(("x", "y"), (size, size))),
            np.zeros((5000, 2 * size), np.float32),
        )
        cells[:, 0] = np.arange(5000)
        rows = Rows(cells, np.ones_like(cells, bool), np.ones((5000, 2), bool))
        calls.clear()
        np.testing.assert_array_equal(model.complete(np.zeros(1, np.float32), rows), cells + 1)
        assert set(calls) == {(most, 2 * size)}


@pytest.mark.parametrize("kind", [VIGAN, pytest.param(Pix2Pix, marks=pytest.mark.full)])
def test_discriminators_move_first_and_generators_answer_the_moved_ones(kind):
    """Section 1.2, written out with two optimisers; Adam counts a step once."""
    model, rows = kind(SHAPE), some_rows()
    phase, settings = model.phases[-1], LocalSettings(batch=8, learning_rate=0.01)
    params = jax.jit(model.init)(jax.random.key(0))
    plan = plan_batches(rows, phase, settings, 1, [0])
    weights = np.asarray(ravel_pytree(params)[0])
    work = LocalWork(weights, None, rows, plan, jax.random.key(1))
    (trained,) = train_sites(model, phase, settings, [work])
    adam = optax.scale_by_adam()
    of_batch = {"complete": batch(plan.positions["complete"][0], rows)}

    @jax.jit
    def slope(params):
        return jax.grad(lambda p: model.loss("rounds", p, of_batch, jax.random.key(0))[0])(params)

    def by_hand(params):
        for moving in (("D1", "D2"), tuple(n for n in params if not n.startswith("D"))):
            move = {n: slope(params)[n] for n in moving}
            move, _ = adam.update(move, adam.init(move))
            step = {n: jax.tree.map(lambda a, b: a - 0.01 * b, params[n], move[n]) for n in moving}
            params = {**params, **step}
        return params

    np.testing.assert_allclose(trained.weights, ravel_pytree(by_hand(params))[0], atol=2e-5)
    (moments,), turn = trained.moments
    assert (int(moments.count), int(turn)) == (plan.steps, 0) == (1, 0)


IMAGES = Shape(("x", "y"), (64, 64), image=(8, 8), bounded=True)


def test_generators_of_images_cannot_become_constant_by_their_offsets():
    """Hidden units that are switched off for every input were how they became blank."""
    generator = make_networks(IMAGES, "small")[0]
    params = jax.jit(generator.init)(jax.random.key(0))
    hidden = {n: p for n, p in params.items() if n != "head"}
    off = jax.tree.map(lambda leaf: leaf - 3.0 if leaf.ndim == 1 else leaf, hidden)
    rows = jnp.asarray(np.random.default_rng(0).uniform(size=(4, 64)), jnp.float32)
    generate = jax.jit(generator.__call__)
    images = generate({**params, **off}, rows)
    np.testing.assert_allclose(images, generate(params, rows), atol=0.02)
    assert float(images.std(axis=0).mean()) > 0.05


def test_a_convolution_is_that_of_xla():
    layer = _kernel(jax.random.key(0), 4, 2, 3)
    images = jax.random.normal(jax.random.key(1), (2, 7, 9, 2))
    for stride in (1, 2):
        theirs = jax.lax.conv_general_dilated(
            images, layer["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        ours = jax.jit(_conv, static_argnums=2)(layer, images, stride)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.full
def test_pre_training_on_digits_rebuilds_pairs_and_generates_unlike_images():
    """Tables 4.3 and 4.4: both errors fall, and generators come below a blank image's."""
    digits = load("digits").views
    cells = np.concatenate([digits[n].cells.reshape(len(digits.ids), -1) for n in digits], axis=1)
    cells = (cells / cells.max()).astype(np.float32)
    present = np.ones((len(cells), 2), bool)
    present[600:1200, 1] = present[1200:, 0] = False
    rows = Rows(cells * np.repeat(present, 64, axis=1), np.repeat(present, 64, axis=1), present)
    whole = Rows(
        cells[1200:], np.ones_like(cells[1200:], bool), np.ones((len(cells) - 1200, 2), bool)
    )
    model, settings = VIGAN(IMAGES), LocalSettings(**VIGAN.training)
    weights = np.asarray(ravel_pytree(jax.jit(model.init)(jax.random.key(0)))[0])
    errors = [np.mean((model.complete(weights, whole, part="rebuilt") - whole.cells) ** 2)]
    for phase, epochs in zip(model.phases[:2], (5, 10), strict=True):
        plan = plan_batches(rows, phase, settings, epochs, [0])
        work = LocalWork(weights, None, rows, plan, jax.random.key(1))
        weights = train_sites(model, phase, settings, [work])[0].weights
    errors.append(np.mean((model.complete(weights, whole, part="rebuilt") - whole.cells) ** 2))
    assert errors[1] < 0.5 * errors[0]
    for shown, columns in ((0, slice(64, None)), (1, slice(0, 64))):
        seen = Rows(whole.cells, whole.known, np.arange(2) == np.full((len(whole), 2), shown))
        images = model.complete(weights, seen, part="generated")[:, columns]
        assert images.std(axis=0).mean() > 0.1
        assert np.mean((images - whole.cells[:, columns]) ** 2) < np.mean(
            whole.cells[:, columns] ** 2
        )


@pytest.fixture(scope="module")
def pairs_only():
    return jax.jit(Pix2Pix(SHAPE).init)(jax.random.key(0))


@pytest.mark.parametrize("kind", [VIGAN, Pix2Pix])
def test_bounded_models_stay_in_their_range(params, pairs_only, kind):
    model = kind(Shape(("x", "y"), (3, 3), bounded=True))
    given = params if kind is VIGAN else pairs_only
    cells = jnp.asarray(np.random.default_rng(0).uniform(size=(3, 6)), jnp.float32)

    @jax.jit
    def wild(p):
        p = jax.tree.map(lambda leaf: 30 * leaf, p)
        return model.fill(p, cells * (jnp.arange(6) < 3), jnp.array([[1.0, 0.0]] * 3))

    made = np.asarray(wild(given))
    assert made.min() >= 0
    assert made.max() <= 1
    assert made.std() > 0.1


@pytest.mark.parametrize("kind", [VIGAN, Pix2Pix])
def test_places_that_no_row_took_change_nothing(params, pairs_only, batches, kind):
    model, given = kind(SHAPE), params if kind is VIGAN else pairs_only
    full = [np.asarray(part) for part in batches["complete"]]
    wider = [
        np.concatenate([part, np.full((3, *part.shape[1:]), 7.0, np.float32)]) for part in full
    ]
    wider[3][-3:] = 0

    @jax.jit
    def losses(p):
        return [
            model.loss("rounds", p, {"complete": Batch(*map(jnp.asarray, b))}, jax.random.key(0))[0]
            for b in (full, wider)
        ]

    one, other = map(float, losses(given))
    assert other == pytest.approx(one, rel=1e-5)


def test_a_site_without_single_modalities_skips_the_cycle_phase():
    rows = some_rows(singles=0)
    phase = Phase("cycle", ("only:0", "only:1"))
    assert plan_batches(rows, phase, LocalSettings(), 3, [0]).steps == 0
    assert train_sites(MODEL, phase, LocalSettings(), list[LocalWork]()) == []


def test_other_shapes_are_refused_with_the_way_out():
    for shape in (Shape(("x", "y"), (3, 4)), Shape(("x", "y", "z"), (3, 3, 3))):
        with pytest.raises(SettingError, match=r"two modalities of one size.*use model 'best'"):
            VIGAN(shape)
    with pytest.raises(SettingError, match="'published' is for grey images"):
        make_networks(SHAPE, "published")
    with pytest.raises(SettingError, match="architecture must be 'small' or 'published'"):
        make_networks(SHAPE, "huge")


def test_the_published_layers():
    image = Shape(("x", "y"), (784, 784), image=(28, 28), bounded=True)
    generator, judge, pairs, autoencoder = make_networks(image, "published")
    sizes = jax.eval_shape(autoencoder.init, jax.random.key(0))
    layers = {n: [tuple(layer["w"].shape) for layer in part] for n, part in sizes.items()}
    assert layers == {
        "in0": [(784, 400)],
        "in1": [(784, 400)],
        "joint": [(800, 500), (500, 200), (200, 400)],
        "out0": [(400, 500), (500, 784)],
        "out1": [(400, 500), (500, 784)],
    }
    made = jax.eval_shape(generator.init, jax.random.key(0))
    assert made["stem"]["w"].shape == (7, 7, 1, 64)
    assert sum(name.startswith("block") for name in made) == 9
    rows = jax.ShapeDtypeStruct((2, 784), jnp.float32)
    assert jax.eval_shape(generator, made, rows).shape == (2, 784)
    judges = jax.eval_shape(judge.init, jax.random.key(0))
    assert [layer["w"].shape for layer in judges][:2] == [(4, 4, 1, 64), (4, 4, 64, 128)]
    both = jax.eval_shape(pairs.init, jax.random.key(0))
    assert jax.eval_shape(pairs, both, rows, rows).shape[0] == 2
