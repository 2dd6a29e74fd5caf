"""What attacks claim of themselves, and that they keep beating the floor whatever the share."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cofill.attack import (
    Discriminant,
    KMeansFloor,
    Likelihood,
    Noise,
    SelfTraining,
    kmeans_accuracy,
)
from cofill.attack._mixture import BEYOND, accuracy_from_scores, believed_position

LINES = (Discriminant, Likelihood)


def blobs(share, *, apart, count=2000, features=20, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(count) < round(share * count)
    x = rng.normal(size=(count, features))
    # What varies most has nothing to do with the class.
    x += 2 * np.outer(rng.normal(size=count), np.resize([1.0, -1.0], features))
    return x + apart * np.outer(truth, np.ones(features) / features**0.5), truth


def plain(attack):
    return np.maximum(attack.scores_, 1 - attack.scores_).mean()


@pytest.mark.parametrize("make", [*LINES, SelfTraining])
@pytest.mark.parametrize(
    "share",
    [0.01, 0.5, 0.9, *(pytest.param(s, marks=pytest.mark.full) for s in (0.03, 0.1, 0.3, 0.7))],
)
def test_attacks_beat_the_floor_at_every_share(make, share):
    x, truth = blobs(share, apart=4.0)
    attack = make(**({"landmarks": 300} if make is SelfTraining else {}))
    attack.fit(x, mean=x[truth].mean(axis=0), prior=share)
    right = (attack.labels_ == truth).mean()
    floor = max(share, 1 - share)
    assert right > max(floor, kmeans_accuracy(x, truth))
    assert 1 - right < 0.6 * (1 - floor)  # of those in the smaller class most are found
    assert attack.expected_accuracy_ == pytest.approx(
        right, abs=0.04 if make is SelfTraining else 0.02
    )
    two = KMeansFloor().fit(x, mean=x[truth].mean(axis=0), prior=share)
    assert right > (two.labels_ == truth).mean()


@pytest.mark.parametrize("make", LINES)
@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("apart", [1.8, 3.0])
def test_claims_from_an_exact_mean_are_kept(make, share, apart):
    x, truth = blobs(share, apart=apart)
    attack = make().fit(x, mean=x[truth].mean(axis=0), prior=share)
    assert attack.claimed_ is None
    assert attack.expected_accuracy_ == plain(attack)
    assert attack.expected_accuracy_ == pytest.approx((attack.labels_ == truth).mean(), abs=0.02)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_noise_moves_the_claim_less_than_the_scores(share):
    x, truth = blobs(share, apart=2.5)
    noise = Noise("gaussian", 0.15)
    before, after = [], []
    for seed in range(8):
        mean = x[truth].mean(axis=0) + noise.draw(20, np.random.default_rng(seed))
        attack = Discriminant().fit(x, mean=mean, prior=share, noise=noise)
        right = (attack.labels_ == truth).mean()
        before.append(plain(attack) - right)
        after.append(attack.expected_accuracy_ - right)
    assert np.mean(np.abs(after)) < 0.7 * np.mean(np.abs(before))
    assert max(after) < 0.08


@pytest.mark.parametrize("make", LINES)
def test_a_mean_of_other_people_is_not_believed_of_certainty(make):
    x, y = load_digits(return_X_y=True)
    x = x / 8 - 1
    mine = np.flatnonzero(np.isin(y, [4, 9]))[::2]
    others = np.setdiff1d(np.flatnonzero(y == 4), mine)[:15]
    truth = y[mine] == 4
    attack = make().fit(x[mine], mean=x[others].mean(axis=0), prior=truth.mean())
    right = (attack.labels_ == truth).mean()
    assert plain(attack) > right + 0.04
    assert abs(attack.expected_accuracy_ - right) < plain(attack) - right
    assert attack.expected_accuracy_ < right + 0.03
    assert BEYOND in attack.notes_
    # A later fit to an exact mean claims what its scores do.
    attack.fit(x[mine], mean=x[mine][truth].mean(axis=0), prior=truth.mean())
    assert attack.claimed_ is None
    assert attack.notes_ == []


def test_a_place_is_believed_as_far_as_its_noise_allows():
    rng = np.random.default_rng(0)
    positions = rng.normal(size=3000) + 4 * (np.arange(3000) < 1500)
    positions -= positions.mean()  # the positives' mean is at 2
    assert believed_position(positions, 0.5, 1.5, 0.0) == (1.5, False)
    near, _ = believed_position(positions, 0.5, 1.5, 0.01)
    far, _ = believed_position(positions, 0.5, 1.5, 1.0)
    assert 1.4 < near < 1.6 < 1.9 < far < 2.1


def test_scores_unlike_any_mixture_claim_nothing():
    assert accuracy_from_scores(np.repeat([0.0, 0.5, 1.0], 500), 0.5) is None
    assert accuracy_from_scores(np.zeros(10), 0.5) is None
