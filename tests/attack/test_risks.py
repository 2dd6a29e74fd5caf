import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.attack._risks import (
    LOSSES,
    SYMMETRIC,
    linear_loss,
    non_negative_objective,
    pu_parts,
    pu_risk,
)

SEEDS = st.integers(0, 10_000)
SIZES = st.sampled_from([1, 2, 7, 40])  # few shapes, for each is compiled once


def classes(seed, positives, negatives, features):
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=features)
    x_p = rng.normal(size=(positives, features)) + shift
    x_n = rng.normal(size=(negatives, features)) - shift
    return rng, x_p, x_n


def empirical_risk(positive, negative, prior):
    """The linear risk with all labels known (Eq. 1)."""
    return prior * linear_loss(positive, 1).mean() + (1 - prior) * linear_loss(negative, -1).mean()


def mean_risk(mean, every, prior):
    """The linear risk with the released mean as the only positive."""
    return pu_risk(mean[None], every, prior, linear_loss)


def values(x):
    return jnp.asarray(x, jnp.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_symmetric_losses_add_up_to_one(name):
    z = jnp.linspace(-3, 3, 13)
    total = LOSSES[name](z, 1) + LOSSES[name](z, -1)
    assert bool(jnp.allclose(total, 1.0, atol=1e-6)) == (name in SYMMETRIC)


@settings(max_examples=40)
@given(SEEDS, SIZES, SIZES, st.integers(1, 20))
def test_theorem_4_1_the_mean_is_as_good_as_all_labels(seed, positives, negatives, features):
    rng, x_p, x_n = classes(seed, positives, negatives, features)
    w, b = rng.normal(size=features), rng.normal()
    prior = positives / (positives + negatives)
    full = empirical_risk(values(x_p @ w + b), values(x_n @ w + b), prior)
    mean = values(x_p.mean(axis=0) @ w + b)
    every = values(np.concatenate([x_p, x_n]) @ w + b)
    assert float(mean_risk(mean, every, prior)) == pytest.approx(float(full), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", ["laplace", "normal"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_theorem_4_2_noise_averages_out(kind, seed):
    rng, x_p, x_n = classes(seed, 30, 20, 5)
    w = rng.normal(size=5)
    full = float(empirical_risk(values(x_p @ w), values(x_n @ w), 0.6))
    every = values(np.concatenate([x_p, x_n]) @ w)
    noise = getattr(rng, kind)(0.0, 0.5, (4_000, 5))
    means = values((x_p.mean(axis=0) + noise) @ w)
    risks = np.asarray(jax.vmap(lambda mean: mean_risk(mean, every, 0.6))(means))
    error = risks.std() / np.sqrt(len(risks))
    assert abs(risks.mean() - full) < 4 * error
    assert risks.std() > 10 * error  # a single draw is far off


def bound(seed, positives, negatives, bend):
    """Risks of a linear g and of an f that is worse on every record, by a bent amount."""
    rng, x_p, x_n = classes(seed, positives, negatives, 3)
    centre = x_p.mean(axis=0)
    inside = lambda x: ((x - centre) ** 2).sum(axis=1)  # noqa: E731
    radius = np.median(inside(np.concatenate([x_p, x_n])))
    every = np.concatenate([x_p, x_n])
    near = inside(every) < radius
    x_p, x_n = every[near], every[~near]
    if not (len(x_p) and len(x_n)):
        return None
    w = rng.normal(size=3)

    def f(x):
        # k(f(x), 1) = (1 − f) / 2 is g's loss and a part that is above zero where x is positive.
        return x @ w - 2 * bend * (radius - inside(x))

    prior = len(x_p) / len(every)
    full = empirical_risk(values(x_p @ w), values(x_n @ w), prior)
    mean = values(f(x_p.mean(axis=0)[None])[0])
    return float(full), float(mean_risk(mean, values(f(every)), prior))


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([3, 30]), st.sampled_from([3, 40]), st.floats(0.01, 2.0))
def test_theorem_4_3_a_concave_loss_bounds_the_linear_risk(seed, positives, negatives, bend):
    risks = bound(seed, positives, negatives, bend)
    if risks is not None:
        assert risks[0] <= risks[1] + 1e-4 * (1 + abs(risks[1]))


def test_theorem_4_3_needs_the_loss_to_be_concave():
    full, bent = bound(0, 20, 20, -0.5)
    assert full > bent


@settings(max_examples=20)
@given(SEEDS, SIZES, SIZES, st.floats(0.05, 0.95), st.sampled_from(SYMMETRIC))
def test_the_parts_of_the_pu_risk_are_its_sum(seed, positives, unlabelled, prior, name):
    rng = np.random.default_rng(seed)
    z, u = values(rng.normal(size=positives)), values(rng.normal(size=unlabelled))
    parts = pu_parts(z, u, prior, LOSSES[name])
    assert float(sum(parts)) == pytest.approx(float(pu_risk(z, u, prior, LOSSES[name])), abs=1e-5)


def test_the_non_negative_risk_by_hand():
    z, u = jnp.array([0.5]), jnp.array([-1.0, -0.8])
    # The positives' part is 0.5 · (1 − 0.5) / 2, the negatives' 0.05 − 0.5 · (1 + 0.5) / 2.
    of_positives, of_negatives = 0.125, 0.05 - 0.375
    risk, objective = non_negative_objective(z, u, 0.5, linear_loss, beta=0.1, gamma=0.5)
    assert float(risk) == pytest.approx(of_positives - 0.1)
    assert float(objective) == pytest.approx(-0.5 * of_negatives)
    risk, objective = non_negative_objective(z, u, 0.5, linear_loss, beta=0.4)
    assert float(risk) == pytest.approx(of_positives + of_negatives)
    assert float(objective) == pytest.approx(of_positives + of_negatives)


def test_nnpu_walks_up_the_part_that_is_too_low():
    def slopes(u):
        return jax.grad(lambda u: non_negative_objective(jnp.array([3.0]), u, 0.5)[1])(u)

    assert (slopes(jnp.array([-3.0, -2.0])) < 0).all()  # descent makes these more positive
    assert (slopes(jnp.array([3.0, 2.0])) > 0).all()
