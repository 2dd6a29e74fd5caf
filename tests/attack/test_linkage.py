"""Linkage of codes across two sites, at both ends."""

import numpy as np
import pytest

from cofill.attack import LinkageSettings, link_codes
from cofill.attack._matching import align_clouds, assign_partners, learn_scores, pair_scores, whiten
from cofill.errors import DataError, SettingError

QUICK = LinkageSettings(repeats=2, rounds=8)


def lopsided(n=150, d=3, seed=0):
    return np.random.default_rng(seed).exponential(size=(n, d)) * np.arange(d, 0, -1)


def test_the_same_codes_at_both_sites_are_all_linked_with_and_without_pairs():
    x = lopsided()
    other = np.random.default_rng(1).normal(size=(3, 5))
    for leak in link_codes(x, x @ other, pairs=(0, 20), settings=QUICK):
        assert leak.attack > 0.95, leak.name
        assert leak.excludes_floor()
        assert leak.beats_control()


def test_without_pairs_the_very_same_codes_are_found():
    x = lopsided()
    near, matched, _ = link_codes(x, x, pairs=(0,), settings=QUICK)
    assert near.attack > 0.95
    assert matched.attack == 1.0


@pytest.mark.parametrize("pairs", [0, 10, 50])
def test_independent_codes_are_not_linked(pairs):
    # By chance one person is linked each time, and four or more once in fifty times.
    seeds = range(1, 9)
    hits, wrong = np.zeros(3), 0
    once = LinkageSettings(repeats=1, rounds=4)
    for seed in seeds:
        leaks = link_codes(lopsided(90), lopsided(90, seed=seed), pairs=(pairs,), settings=once)
        hits += [leak.attack * leak.sizes["linked"] for leak in leaks]
        wrong += any(leak.excludes_floor() for leak in leaks)
    assert wrong <= 1
    assert (hits < 18).all()  # of a Poisson distribution around 8


def test_floors_and_sizes_are_of_the_people_left():
    leaks = link_codes(lopsided(250), lopsided(250), pairs=(50,), settings=QUICK)
    assert [leak.floor for leak in leaks] == [1 / 200, 1 / 200, 2 / 200]
    assert leaks[0].sizes == {"people": 250, "linked": 200, "pairs": 50, "repeats": 2}


def test_noise_hides_and_pairs_help():
    x = lopsided(200, 6)
    rng = np.random.default_rng(2)
    mixed = x @ rng.normal(size=(6, 6))
    noisy = mixed + 0.7 * rng.normal(size=mixed.shape)
    few, many = (
        link_codes(x, noisy, pairs=(m,), settings=LinkageSettings(repeats=2, rounds=0))[0].attack
        for m in (5, 100)
    )
    assert few < many < 0.98
    hidden = link_codes(x, mixed + 1000 * rng.normal(size=x.shape), pairs=(50,), settings=QUICK)
    assert not any(leak.excludes_floor() for leak in hidden)


def test_the_order_of_people_does_not_help():
    # Equal scores would link everybody with their own position if the sites shared an order.
    halves = np.repeat([0.0, 1.0], 75)[:, None]
    near, matched, _ = link_codes(halves, halves, pairs=(20,), settings=QUICK)
    assert near.attack == 0.0
    assert matched.attack < 0.1


def test_scores_are_log_likelihood_ratios():
    from scipy.stats import multivariate_normal

    rho, u, v = np.array([0.8, 0.3]), np.array([0.5, -1.0]), np.array([1.5, 0.2])
    scores, information = pair_scores(u[None], v[None], np.diag(rho))
    joint = sum(
        multivariate_normal([0, 0], [[1, r], [r, 1]]).logpdf([a, b])
        for r, a, b in zip(rho, u, v, strict=True)
    )
    alone = sum(multivariate_normal(0, 1).logpdf(a) for a in (*u, *v))
    assert scores[0, 0] == pytest.approx(joint - alone)
    assert information == pytest.approx(-0.5 * np.log(1 - rho**2).sum())


def test_known_pairs_teach_a_map():
    x = np.random.default_rng(0).normal(size=(100, 3))
    y = x @ np.random.default_rng(1).normal(size=(3, 4))
    known = np.arange(30)
    scores = learn_scores(x, y, known, known)
    assert (assign_partners(scores)[30:] == np.arange(30, 100)).mean() > 0.9


def test_a_rotation_is_found_up_to_little():
    x = lopsided(300, 2)
    turned = x @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    a, b = whiten(x, 2), whiten(turned[::-1], 2)
    moved = a.points @ align_clouds(a.points, b.points) @ b.back + b.mean
    assert abs(moved - turned).mean() < 0.2


def test_signs_and_angles_are_found():
    x = whiten(lopsided(400, 2), 2).points
    other = np.random.default_rng(3).permutation(x)
    flipped = align_clouds(x * [-1.0, 1.0], other, rounds=0, points=400)
    np.testing.assert_allclose(flipped, np.diag([-1.0, 1.0]))
    turn = np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    np.testing.assert_allclose(align_clouds(x @ turn, other, points=400), turn.T, atol=0.03)


@pytest.mark.parametrize(
    ("first", "second", "more", "what"),
    [
        (np.zeros((0, 2)), lopsided(), {}, "empty"),
        (lopsided(1), lopsided(1), {}, "10 people"),
        (np.ones((150, 2)), lopsided(), {}, "first must differ"),
        (lopsided(), np.ones((150, 2)), {}, "second must differ"),
        (lopsided(149), lopsided(), {}, "149 of first, 150 of second"),
        (lopsided(), np.full((150, 1), np.inf), {}, "150 cells"),
        (lopsided(), lopsided(), {"pairs": (145,)}, "too few"),
        (lopsided(), lopsided(), {"pairs": (1,)}, "0, or 2 and more"),
    ],
)
def test_bad_input_is_named(first, second, more, what):
    with pytest.raises((DataError, SettingError), match=what):
        link_codes(first, second, **{"settings": QUICK, **more})
