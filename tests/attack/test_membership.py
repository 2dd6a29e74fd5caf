"""Membership, at both ends, and the rates it is judged by."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from cofill.attack import (
    attack_shadows,
    likelihood_ratios,
    membership_leaks,
    train_shadows,
)
from cofill.attack._membership import auc_with_interval
from cofill.errors import DataError, SettingError
from cofill.nets import Autoencoder, TrainSettings, recipe

NOISE = np.random.default_rng(0).normal(size=(120, 30))
NETWORK = recipe(Autoencoder, (30, 64, 24), activation="tanh")
LONG = TrainSettings(epochs=250, learning_rate=5e-3, batch_size=None)
SHORT = TrainSettings(epochs=1, learning_rate=1e-6, batch_size=None)


@pytest.fixture(scope="module")
def overfit():
    return train_shadows(NOISE, NETWORK, LONG, count=16, key=jax.random.key(0))


@pytest.mark.parametrize("method", ["small loss", "ratio"])
def test_an_overfit_network_gives_its_members_away(overfit, method):
    losses, shadows, inside = overfit.losses[0], overfit.losses[1:], overfit.inside[1:]
    scores = -losses if method == "small loss" else likelihood_ratios(losses, shadows, inside)
    control = -np.where(inside, 0.0, np.log(shadows)).sum(axis=0) / (~inside).sum(axis=0)
    leaks = membership_leaks(scores[None], overfit.inside[:1], control=control[None])
    assert [leak.figure for leak in leaks] == ["TPR at 0.1 % FPR", "TPR at 1 % FPR", "AUC"]
    for leak in leaks:
        assert leak.excludes_floor()
        assert leak.attack > 0.9
        assert leak.control < 0.7
        assert leak.scope == "individual"
    assert "60 strangers are too few" in leaks[0].notes[0]


def test_an_untrained_network_gives_nobody_away():
    shadows = train_shadows(NOISE, NETWORK, SHORT, count=8, key=jax.random.key(1))
    leaks = attack_shadows(shadows, attacked=4)
    for leak in leaks:
        assert not leak.excludes_floor()
    assert leaks[-1].interval[0] <= 0.5 <= leaks[-1].interval[1]
    assert leaks[0].sizes == {"members": 120, "strangers": 120, "networks": 4}


def test_a_worthless_score_is_rarely_taken_for_a_leak():
    rng = np.random.default_rng(0)
    wrong = np.zeros(3)
    for _ in range(300):
        leaks = membership_leaks(rng.normal(size=(1, 400)), np.arange(400)[None] % 2 == 0)
        wrong += [leak.excludes_floor() for leak in leaks]
    assert (wrong <= 300 * 0.05).all(), wrong


def test_networks_with_the_same_people_are_no_more_people():
    rng = np.random.default_rng(1)
    member = np.arange(200)[None] % 2 == 0
    scores = rng.normal(size=(1, 200)) + member
    single = membership_leaks(scores, member)
    many = membership_leaks(np.tile(scores, (5, 1)), np.tile(member, (5, 1)))
    for a, b in zip(single, many, strict=True):
        assert a.interval == pytest.approx(b.interval)


def test_rates_are_counted_by_hand():
    scores = np.array([[9.0, 8.0, 5.0, 1.0, 7.0, 3.0, 2.0, 0.0]])
    member = np.array([[True] * 4 + [False] * 4])
    leak = membership_leaks(scores, member, rates=(0.25,))[0]
    assert leak.attack == 0.75  # one stranger (7) may be accused; the next is 3
    assert leak.floor == pytest.approx(2 / 5)
    assert leak.figure == "TPR at 25 % FPR"
    leak = membership_leaks(scores, member, rates=(0.01,))[0]
    assert leak.attack == 0.5


def test_the_area_agrees_with_scikit_learn_and_its_interval_covers():
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(100):
        member = rng.random(150) < 0.4
        scores = rng.normal(size=150) + member
        value, (low, high) = auc_with_interval(scores[None], member[None])
        assert value == pytest.approx(roc_auc_score(member, scores))
        covered += low <= norm.cdf(1 / np.sqrt(2)) <= high
    assert covered >= 88


def test_ratios_are_those_of_two_normal_distributions():
    rng = np.random.default_rng(3)
    inside = np.arange(100)[:, None] % 2 == np.zeros(3, int)
    shadows = np.exp(rng.normal(size=(100, 3)) * 0.5 - inside)
    losses = np.array([0.2, 1.0, 3.0])
    logs = np.log(shadows)
    online = likelihood_ratios(losses, shadows, inside)
    for k in range(3):
        a, b = logs[::2, k], logs[1::2, k]
        wide = np.sqrt(1 + 1 / 50)
        leak = norm.logpdf(np.log(losses[k]), b.mean(), b.std(ddof=1) * wide)
        other = norm.logpdf(np.log(losses[k]), a.mean(), a.std(ddof=1) * wide)
        assert online[k] == pytest.approx(other - leak)


def test_everybody_is_in_half_of_the_shadow_networks(overfit):
    assert (overfit.inside.sum(axis=0) == 8).all()
    assert (overfit.inside.sum(axis=1) == 60).all()
    assert overfit.losses[overfit.inside].mean() < 0.5 * overfit.losses[~overfit.inside].mean()


@pytest.mark.parametrize(
    ("member", "rates", "what"),
    [(np.zeros(8, bool), (0.01,), "members and strangers"), (np.arange(8) < 4, (0.0,), "rates")],
)
def test_bad_scores_are_named(member, rates, what):
    with pytest.raises((DataError, SettingError), match=what):
        membership_leaks(np.ones((1, 8)), member[None], rates=rates)


def test_shadows_count_the_steps_of_networks_that_started_again():
    steep = replace(SHORT, epochs=2, learning_rate=1e21, optimizer="sgd", gradient_clip=1.0)
    shadows = train_shadows(NOISE, NETWORK, steep, count=2, key=jax.random.key(0))
    assert shadows.steps > 2
    assert train_shadows(NOISE, NETWORK, SHORT, count=2, key=jax.random.key(0)).steps == 1


def test_bad_shadows_are_named():
    key = jax.random.key(0)
    with pytest.raises(SettingError, match="even"):
        train_shadows(NOISE, NETWORK, SHORT, count=3, key=key)
    with pytest.raises(DataError, match="rows must differ"):
        train_shadows(np.ones((10, 30)), NETWORK, SHORT, count=2, key=key)
    with pytest.raises(SettingError, match="attacked"):
        attack_shadows(train_shadows(NOISE, NETWORK, SHORT, count=4, key=key), attacked=5)
    with pytest.raises(DataError, match="train more shadow networks"):
        likelihood_ratios(np.ones(8), np.ones((4, 8)), np.ones((4, 8), bool))
