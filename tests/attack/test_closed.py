"""Spread, discriminant, likelihood, kernel and self-training, against oracles with labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from cofill.attack import AttackFailed, Discriminant, Likelihood, Noise, SelfTraining
from cofill.attack._direction import (
    calibrate,
    fit_direction,
    quantile_cut,
    read_release,
    rounding_noise,
    weigh_signals,
)
from cofill.attack._kernel import Smoother, Units, fit_kernel
from cofill.attack._likelihood import Logistic, fit_logistic
from cofill.attack._spread import Turned, measure_spread
from cofill.errors import SettingError

ATTACKS = (Discriminant, Likelihood, SelfTraining)


def blobs(count=600, features=6, apart=1.5, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random(count) < share
    x = rng.normal(size=(count, features)) @ rng.normal(size=(features, features))
    return x + apart * np.outer(truth, rng.normal(size=features)), truth


def digits(positive=5, negative=3):
    x, y = load_digits(return_X_y=True)
    chosen = np.isin(y, [positive, negative])
    return x[chosen] / 8 - 1, y[chosen] == positive


# --- spread -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(50, 7), (9, 30)], ids=["tall", "wide"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_turned_records_have_unit_variance_and_go_back(shape, make):
    x = np.random.default_rng(0).poisson(0.7, size=shape).astype(float) + 1.0
    x[:, 1] *= 1e6  # in other units
    x[:, 2] = x[:, 0] + x[:, 1]  # collinear
    x[:, 3] = 5.0  # constant
    spread = measure_spread(make(x), 0.3)
    turned = np.concatenate(list(Turned(make(x), spread)))[:, :-1]
    kept = np.linalg.matrix_rank(x - x.mean(axis=0))
    assert turned.shape == (len(x), min(kept, len(x) - 1, 28 if shape[1] == 30 else 5))
    np.testing.assert_allclose(turned.mean(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(turned.T @ turned / len(x), np.eye(turned.shape[1]), atol=1e-6)
    np.testing.assert_allclose(spread.mean + turned @ spread.loadings.T, x, rtol=1e-5, atol=1e-3)
    # Noise on coordinates is independent between directions.
    np.testing.assert_allclose(
        0.3 * spread.basis.T @ spread.basis, np.diag(spread.noise), atol=1e-8
    )


def test_a_mean_where_no_record_varies_is_off():
    x, truth = blobs()
    x = np.column_stack([x, np.full(len(x), 3.0), x[:, 0] + x[:, 1]])
    mean = x[truth].mean(axis=0)
    spread = measure_spread(x)
    assert not spread.is_off(mean)
    for column in (6, 7):
        assert spread.is_off(mean + 0.5 * np.eye(8)[column])


# --- directions -------------------------------------------------------------------------------


def test_without_noise_the_direction_is_fishers():
    x, truth = blobs()
    spread, belief, is_off = read_release(x, x[truth].mean(axis=0), None, truth.mean())
    result = fit_direction(spread, belief)
    within = sum(np.cov(x[truth == side].T, bias=True) * (truth == side).mean() for side in (0, 1))
    fisher = np.linalg.solve(within, x[truth].mean(axis=0) - x[~truth].mean(axis=0))
    cosine = result.weights @ fisher / np.linalg.norm(result.weights) / np.linalg.norm(fisher)
    assert cosine > 0.9999
    assert (result.error, belief.is_noisy, is_off) == (0, False, False)


def test_a_mean_is_believed_as_far_as_noise_lets_it():
    rng = np.random.default_rng(0)
    noise = np.geomspace(1e-4, 10, 400)
    true = 0.05 * rng.normal(size=400)
    belief, _ = weigh_signals(true + np.sqrt(noise) * rng.normal(size=400), noise, 2.0)
    factors = belief.factors
    assert (np.diff(factors) <= 1e-12).all()
    assert factors[0] > 0.9 > 0.1 > factors[-1]
    assert np.mean((belief.expected - true) ** 2) < 0.8 * np.mean(true**2)
    nothing, _ = weigh_signals(np.sqrt(noise) * rng.normal(size=400), noise, 2.0)
    assert nothing.factors.mean() < 0.2 * factors.mean()


def test_a_mean_that_no_choice_of_records_has_is_not_believed():
    x, truth = digits()
    _, belief, is_off = read_release(x[::4], x[truth].mean(axis=0), None, truth.mean())
    assert is_off
    assert belief.is_noisy
    assert belief.factors.min() < 0.9


def test_a_cut_leaves_the_share_above_it():
    positions = np.random.default_rng(0).normal(size=1000)
    chosen, cut = quantile_cut(positions, 0.3)
    assert chosen.sum() == 300
    assert positions[chosen].min() > cut > positions[~chosen].max()


@pytest.mark.parametrize(
    ("prior", "cut", "share"), [(0.6, 0.5, 0.8), (0.4, 2.0, 0.2), (0.2, 2.0, 0.2), (0.8, 0.5, 0.8)]
)
def test_equal_places_are_on_the_side_that_leaves_the_share_nearer(prior, cut, share):
    positions = np.array([3.0, 1.0, 1.0 + 1e-12, 1.0, 0.0])  # equal but for rounding
    chosen, result = quantile_cut(positions, prior)
    assert result == pytest.approx(cut)
    assert chosen.mean() == share


def mostly_equal_records(count=2000, seed=5):
    """Records that use one of seven fields, half of them also a few of twenty: many are equal."""
    rng = np.random.default_rng(seed)
    truth = np.arange(count) < count // 2
    uses = np.array([[0.19, 0.13, 0.42, 0.08, 0.07, 0.108, 0.002],
                     [0.26, 0.16, 0.06, 0.14, 0.17, 0.06, 0.15]])  # fmt: skip
    records = np.zeros((count, 27))
    for side in (0, 1):
        rows = np.flatnonzero(truth == side)
        records[rows, rng.choice(7, size=len(rows), p=uses[side])] = 2
    mixed = rng.random(count) < 0.5
    light = rng.uniform(0, 0.1, size=(2, 20))
    records[:, 7:] = (rng.random((count, 20)) < light[truth.astype(int)]) & mixed[:, None]
    return records, truth


def test_of_a_mean_that_is_off_the_share_of_positives_is_still_believed():
    records, truth = mostly_equal_records()
    mean = records[truth].mean(axis=0)
    mean[6] -= 0.1  # of a field that 15 % of the positives use, and hardly any negative
    some = np.random.default_rng(0).permutation(len(truth))[:1000]
    spread, belief, _ = read_release(records[some], mean, Noise("unknown", 1e-6), 0.5)
    plain = Logistic.of(spread, fit_logistic(Turned(records[some], spread), belief, 0.5))
    assert (plain.logits(records[some]) > 0).mean() > 0.6  # groups of equal records went together
    # So it is where only the size of the error is known.
    for noise in (None, Noise("unknown", 0.01)):
        attack = Likelihood().fit(records[some], mean=mean, prior=0.5, noise=noise)
        assert abs(attack.labels_.mean() - 0.5) < 0.05


def test_a_mean_that_is_only_rounded_is_believed_as_it_is():
    images, digits = load_digits(return_X_y=True)
    images, five = images[digits >= 5], digits[digits >= 5] == 5
    exact = images[five].mean(axis=0)
    unrounded, rounded = (
        Likelihood().fit(images, mean=mean, prior=five.mean()) for mean in (exact, exact.round(4))
    )
    assert (unrounded.labels_ == rounded.labels_).mean() > 0.99


def test_means_of_counts_are_exact_however_few_digits_they_have():
    rng = np.random.default_rng(0)
    x = rng.poisson(1.0, size=(500, 12)).astype(float)
    truth = np.arange(500) < 200  # means are multiples of 1/200: at most three digits
    mean = x[truth].mean(axis=0)
    assert rounding_noise(mean) is not None
    for records in (x, sparse.csr_array(x)):
        assert not read_release(records, mean, None, 0.4)[1].is_noisy
    # Rounded further, in other units, or of another number of people, it is no mean of counts.
    for records, released, share in (
        (x, mean.round(1), 0.4),
        (x / 2, mean / 2, 0.4),
        (x, mean, 0.3),
    ):
        assert read_release(records, released, None, share)[1].is_noisy


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_calibration_finds_the_slope_and_cut_of_logistic_labels(slope):
    rng = np.random.default_rng(3)
    judged = rng.normal(size=60_000)
    truth = rng.random(60_000) < 1 / (1 + np.exp(-slope * (judged - 0.7)))
    result = calibrate(judged, judged, judged[truth].mean(), prior=truth.mean())
    assert result == pytest.approx((slope, 0.7), rel=0.1)


# --- attacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_likelihood_is_that_of_somebody_with_all_labels(share):
    x, truth = blobs(share=share)
    attack = Likelihood().fit(x, mean=x[truth].mean(axis=0), prior=truth.mean())
    oracle = LogisticRegression(C=1e8, max_iter=5000, tol=1e-8).fit(x, truth)
    np.testing.assert_allclose(attack.scores_, oracle.predict_proba(x)[:, 1], atol=0.01)
    assert attack.expected_accuracy_ == pytest.approx((attack.labels_ == truth).mean(), abs=0.05)


def awkward_records(count=3000):
    """Heavy tails, units from 1e-6 to 1e6, a sum of two columns, a nearly constant one."""
    rng = np.random.default_rng(7)
    hidden = rng.normal(size=(count, 4))
    amounts = np.exp(1.5 * hidden[:, :2]) * [1e6, 1e-6]
    truth = rng.random(count) < 1 / (1 + np.exp(2.5 - 1.5 * hidden[:, 0] - hidden[:, 2]))
    rare = (rng.random(count) < 0.002).astype(float)
    return np.column_stack(
        [amounts, 3e3 * amounts[:, 0] + amounts[:, 1], 1e4 + hidden[:, 2], hidden[:, 3], rare]
    ), truth


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_the_likelihood_reaches_the_regression_in_any_units(make):
    x, truth = awkward_records()
    attack = Likelihood().fit(make(x), mean=x[truth].mean(axis=0), prior=truth.mean())
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    oracle = LogisticRegression(C=1e8, max_iter=20_000, tol=1e-10).fit(scaled, truth)
    np.testing.assert_allclose(attack.scores_, oracle.predict_proba(scaled)[:, 1], atol=0.01)
    right = (attack.labels_ == truth).mean()
    assert right >= oracle.score(scaled, truth) - 0.002
    assert attack.expected_accuracy_ == pytest.approx(right, abs=0.02)


def test_more_features_than_records_give_every_label_away():
    x = np.random.default_rng(0).normal(size=(60, 200))
    truth = np.random.default_rng(1).random(60) < 0.5  # nothing to do with the records
    attack = Likelihood().fit(x, mean=x[truth].mean(axis=0), prior=truth.mean())
    assert (attack.labels_ == truth).all()
    assert (
        SelfTraining().fit(x, mean=x[truth].mean(axis=0), prior=truth.mean()).labels_ == truth
    ).all()


@pytest.mark.parametrize("make", ATTACKS)
def test_labels_that_have_nothing_to_do_with_few_features_stay_hidden(make):
    rng = np.random.default_rng(0)
    x, truth = rng.normal(size=(4000, 3)), rng.random(4000) < 0.5
    attack = make().fit(x, mean=x[truth].mean(axis=0), prior=0.5)
    assert abs((attack.labels_ == truth).mean() - 0.5) < 0.04
    assert attack.expected_accuracy_ < 0.55


@pytest.mark.parametrize("make", ATTACKS)
def test_sparse_and_dense_records_give_the_same_guesses(make):
    rng = np.random.default_rng(0)
    truth = rng.random(500) < 0.4
    x = rng.poisson(np.where(truth[:, None], 0.6, 0.25), size=(500, 30)).astype(float)
    released = {"mean": x[truth].mean(axis=0), "prior": 0.4}
    dense, thin = make().fit(x, **released), make().fit(sparse.csr_array(x), **released)
    assert (dense.labels_ == thin.labels_).mean() > 0.99
    assert (dense.labels_ == truth).mean() > 0.85


def test_self_training_finds_what_no_line_can():
    x, y = load_digits(return_X_y=True)
    x, truth, noise = x[:1200] / 8 - 1, y[:1200] == 8, Noise("laplace", 0.02)
    mean = x[truth].mean(axis=0) + noise.draw(64, np.random.default_rng(0))
    released = {"mean": mean, "prior": truth.mean(), "noise": noise}
    line, grown = Likelihood().fit(x, **released), SelfTraining(landmarks=500).fit(x, **released)
    right = [float((attack.labels_ == truth).mean()) for attack in (line, grown)]
    assert right[1] > 0.98 > right[0]
    assert grown.weight_ > 0.9
    assert grown.changed_[0] > grown.changed_[-1]
    assert len(grown.changed_) < grown.rounds  # it ends by itself
    assert set(grown.parts_) == {"line", "self-training"}
    fresh = SelfTraining(most=400, landmarks=300).fit(x, **released)
    assert (fresh.labels_ == truth).mean() > 0.97
    assert (grown.predict(x) == grown.labels_).mean() > 0.99


@pytest.mark.parametrize("tails", ["light", "heavy"])
def test_self_training_steps_back_where_lines_are_right(tails):
    # Overlapping classes without clusters: growing would only harden guesses.
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1500, 6))
    truth = rng.random(1500) < 1 / (1 + np.exp(1.0 - x @ [1.0, -0.5, 0.5, 0.0, 0.0, 0.0]))
    x = x if tails == "light" else np.exp(x) * [1e5, 1.0, 1e-3, 1.0, 10.0, 1.0]
    released = {"mean": x[truth].mean(axis=0), "prior": truth.mean()}
    line, grown = Likelihood().fit(x, **released), SelfTraining(landmarks=300).fit(x, **released)
    assert grown.weight_ < 0.3
    right = [attack.labels_ == truth for attack in (line, grown)]
    # Where both guess otherwise, a coin would lose by so much once in forty times.
    lost, differing = int(right[0].sum() - right[1].sum()), int((right[0] != right[1]).sum())
    assert differing < 0.05 * len(truth)
    assert lost <= 2 * np.sqrt(differing)
    assert grown.expected_accuracy_ == pytest.approx(right[1].mean(), abs=0.02)


def test_the_same_seed_gives_the_same_guesses_and_clones_have_no_memory():
    x, truth = digits()
    released = {"mean": x[truth].mean(axis=0), "prior": 0.5}
    first, second = SelfTraining(seed=3).fit(x, **released), SelfTraining(seed=3).fit(x, **released)
    np.testing.assert_array_equal(first.scores_, second.scores_)
    assert not hasattr(clone(first), "scores_")


@pytest.mark.parametrize("share", [0.02, 0.9])
def test_unbalanced_classes(share):
    x, truth = blobs(count=3000, apart=4.0, share=share)
    attack = SelfTraining().fit(x, mean=x[truth].mean(axis=0), prior=truth.mean())
    assert (attack.labels_ == truth).mean() > 0.97
    assert abs(attack.labels_.mean() - truth.mean()) < 0.02


def test_settings_are_checked_and_nonsense_is_not_returned():
    x, truth = blobs()
    with pytest.raises(SettingError, match="rounds must be at least 2, got 1"):
        SelfTraining(rounds=1).fit(x, mean=x[truth].mean(axis=0), prior=0.5)
    with pytest.raises(AttackFailed, match="took all 600 records"):
        Likelihood().fit(x, mean=x.mean(axis=0), prior=0.01)


# --- kernel -----------------------------------------------------------------------------------


def test_leaving_one_out_is_leaving_one_out():
    x, truth = digits()
    kernel = fit_kernel(x, Units(np.ones(64)), 40, 0)
    features = kernel.features(x).astype(np.float64)
    y = np.where(truth, 1.0, -1.0)
    smoother = Smoother.of(features, 0.3)
    left = smoother.left_out(y)
    for k in (0, 17, 100):
        rest = np.arange(len(x)) != k
        gram = features[rest].T @ features[rest] + 0.3 * np.eye(40)
        alone = features[k] @ np.linalg.solve(gram, features[rest].T @ y[rest])
        assert left[k] == pytest.approx(alone, abs=1e-6)
    weights = np.linalg.solve(features.T @ features + 0.3 * np.eye(40), features.T @ y)
    np.testing.assert_allclose(smoother.weights(y), weights, atol=1e-6)
