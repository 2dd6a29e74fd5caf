"""Several answers about one class, and a mean for each group."""

import numpy as np
import pytest

from cofill.attack import ByGroup, Noise, SelfTraining, averaged, spread_of
from cofill.attack._likelihood import fit_logistic
from cofill.errors import DataError, SettingError


def wards(groups, *, count=1200, features=20, apart=1.5, seed=0):
    rng = np.random.default_rng(seed)
    truth, ward = rng.random(count) < 0.4, np.arange(count) % groups
    x = rng.normal(size=(count, features))
    return x + apart * np.outer(truth, np.ones(features) / features**0.5), truth, ward


def released(x, truth, ward, noise=None):
    rng = np.random.default_rng(1)
    means, priors = {}, {}
    for w in np.unique(ward).tolist():
        means[w] = x[truth & (ward == w)].mean(axis=0)
        priors[w] = float(truth[ward == w].mean())
        if noise is not None:
            means[w] = means[w] + noise.draw(x.shape[1], rng)
    return {"groups": ward, "means": means, "priors": priors, "noise": noise}


def right(attack, truth):
    return float((attack.labels_ == truth).mean())


def test_one_group_is_the_attack_on_one_mean():
    x, truth, ward = wards(1)
    one = SelfTraining().fit(x, mean=x[truth].mean(axis=0), prior=truth.mean())
    np.testing.assert_allclose(ByGroup().fit(x, **released(x, truth, ward)).scores_, one.scores_)


def test_smaller_groups_give_more_away():
    found = []
    for groups in (1, 6, 20, 80):
        x, truth, ward = wards(groups)
        attack = ByGroup(landmarks=300).fit(x, **released(x, truth, ward))
        found.append(right(attack, truth))
        if groups > 1:
            assert attack.sureness_ == pytest.approx(found[-1], abs=0.04)
    assert found[0] < found[1] < found[2] < found[3] == 1.0


@pytest.mark.full
def test_noisy_means_of_groups_are_as_good_as_their_average():
    x, truth, ward = wards(8, features=20, apart=3.0)
    noise = Noise("laplace", 0.8)
    given = released(x, truth, ward, noise)
    weights = np.array([given["priors"][w] for w in range(8)])
    mean = weights @ np.stack([given["means"][w] for w in range(8)]) / weights.sum()
    pooled_noise = Noise("gaussian", (noise.variance / 8) ** 0.5)
    pooled = SelfTraining(landmarks=300).fit(x, mean=mean, prior=truth.mean(), noise=pooled_noise)
    assert right(ByGroup(landmarks=300).fit(x, **given), truth) > right(pooled, truth) - 0.01
    alone = SelfTraining(landmarks=300).fit(
        x, mean=given["means"][0], prior=truth.mean(), noise=noise
    )
    assert right(ByGroup(landmarks=300).fit(x, **given), truth) > right(alone, truth)


def test_a_regression_beside_another_explains_the_rest():
    x, truth, _ = wards(1, count=300, features=4)
    spread, mean = spread_of(x), x[truth].mean(axis=0)
    beside = x @ np.array([0.3, -0.2, 0.1, 0.0]) - 0.5
    alone = fit_logistic(x, spread, mean, float(truth.mean()), None).logits(x)
    rest = fit_logistic(x, spread, mean, float(truth.mean()), None, beside=beside).logits(x)
    np.testing.assert_allclose(beside + rest, alone, atol=0.01)


def test_noise_is_not_explained_twice():
    x, truth, _ = wards(1, count=300, features=40, apart=3.0)
    spread, mean, noise = spread_of(x), x[truth].mean(axis=0), Noise("gaussian", 0.2)
    given = {"prior": float(truth.mean()), "noise": noise}
    there = fit_logistic(x, spread, mean, **given).logits(x)
    noisy = mean + noise.draw(40, np.random.default_rng(0))
    rest = fit_logistic(x, spread, noisy, **given, beside=there).logits(x)
    assert rest.std() < 0.01 * there.std()


def test_answers_are_weighted_by_how_little_noise_they_have():
    rng = np.random.default_rng(0)
    noises = [Noise("gaussian", 0.1), Noise("laplace", 0.2), Noise("gaussian", 1.0)]
    means = [noise.draw(20_000, rng) for noise in noises]
    mean, noise = averaged(means, noises)
    assert mean.std() == pytest.approx(noise.scale, rel=0.03)
    assert noise.scale < 0.1
    with pytest.raises(SettingError, match="2 means and 1 noises"):
        averaged(means[:2], noises[:1])
    with pytest.raises(DataError, match="mean must have one value"):
        averaged([np.zeros(3), np.zeros(4)], noises[:2])


def test_groups_that_cannot_be_used_are_named():
    x, truth, ward = wards(4, count=100)
    given = released(x, truth, ward)
    for change, words in (
        ({"groups": ward[:9]}, "100 records"),
        ({"means": {0: x[0]}}, "every group must have a mean, got none for 3 of 4"),
        ({"priors": {0: 0.5}}, "every group must have a share"),
        ({"means": {w: np.zeros(3) for w in range(4)}}, "20 features"),
    ):
        with pytest.raises(DataError, match=words):
            ByGroup().fit(x, **(given | change))
