"""The means of several classes, against an oracle with labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from cofill.attack import Likelihood, MultiClass, Noise
from cofill.attack._multiclass import balance_classes
from cofill.attack._multinomial import complete_classes
from cofill.attack._spread import measure_spread
from cofill.errors import DataError, SettingError
from cofill.metrics import clustering_accuracy


def blobs(count=900, features=6, apart=2.0, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=count, p=[0.5, 0.3, 0.2])
    return rng.normal(size=(count, features)) + apart * rng.normal(size=(3, features))[kind], kind


def released(x, kind, names="abc"):
    means = {n: x[kind == k].mean(axis=0) for k, n in enumerate(names)}
    priors = {n: float(np.mean(kind == k)) for k, n in enumerate(names)}
    return means, priors, np.array(list(names))[kind]


def test_the_likelihood_is_that_of_somebody_with_all_labels():
    x, kind = blobs(apart=0.7)
    means, priors, truth = released(x, kind)
    attack = MultiClass(rounds=0).fit(x, means=means, priors=priors)
    oracle = LogisticRegression(C=1e8, max_iter=5000, tol=1e-8).fit(x, kind)
    np.testing.assert_allclose(attack.scores_, oracle.predict_proba(x), atol=0.01)
    assert attack.expected_accuracy_ == pytest.approx((attack.labels_ == truth).mean(), abs=0.03)
    np.testing.assert_allclose(attack.predict_proba(x), attack.scores_)


@pytest.mark.parametrize("noise", [None, Noise("gaussian", 0.2)])
def test_two_classes_are_the_attack_on_one_mean(noise):
    x, kind = blobs()
    who = kind == 0
    mean = x[who].mean(axis=0)
    if noise is not None:
        mean = mean + noise.draw(len(mean), np.random.default_rng(0))
    single = Likelihood().fit(x, mean=mean, prior=who.mean(), noise=noise)
    two = MultiClass(rounds=0).fit(x, means={"in": mean}, priors={"in": who.mean()}, noise=noise)
    assert two.classes_.tolist() == ["in", "rest"]
    assert (single.labels_ == (two.labels_ == "in")).mean() > 0.99
    np.testing.assert_allclose(single.scores_, two.scores_[:, 0], atol=0.05)


def test_more_features_than_records_give_every_label_away():
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=(90, 200)), rng.integers(3, size=90)
    means, priors, truth = released(x, kind)
    assert (MultiClass().fit(x, means=means, priors=priors).labels_ == truth).all()


@pytest.mark.parametrize("noise", [None, Noise("laplace", 0.05)])
def test_shares_follow_from_the_means_of_all_classes(noise):
    x, kind = blobs(apart=2.0)
    # Columns that hardly vary show noise, not classes.
    x = np.column_stack([x, 0.05 * np.random.default_rng(3).normal(size=(len(x), 40))])
    means, priors, _ = released(x, kind)
    if noise is not None:
        rng = np.random.default_rng(0)
        means = {name: mean + noise.draw(len(mean), rng) for name, mean in means.items()}
    completed = MultiClass(rounds=0).fit(x, means=means, noise=noise)
    assert completed.priors_ == pytest.approx(priors, abs=1e-5 if noise is None else 0.03)


def test_what_shares_leave_is_one_more_class():
    x, kind = blobs()
    means, priors, truth = released(x, kind)
    some = [{name: released[name] for name in "ab"} for released in (means, priors)]
    attack = MultiClass().fit(x, means=some[0], priors=some[1])
    assert attack.classes_.tolist() == ["a", "b", "rest"]
    assert (attack.labels_ == np.where(truth == "c", "rest", truth)).mean() > 0.95
    complete = MultiClass().fit(x, means=means, priors=priors)
    np.testing.assert_allclose(attack.scores_, complete.scores_, atol=0.02)


def test_noise_is_shared_out_so_that_means_add_up():
    x, kind = blobs()
    means, priors, _ = released(x, kind)
    means = {name: mean + 0.1 * k for k, (name, mean) in enumerate(means.items())}
    completed = complete_classes(measure_spread(x), means, priors)
    np.testing.assert_allclose(completed.shares @ completed.means, x.mean(axis=0))


@pytest.mark.full
def test_self_training_finds_what_no_plane_can():
    x, y = load_digits(return_X_y=True)
    x = x / 8 - 1
    noise, rng = Noise("laplace", 0.1), np.random.default_rng(0)
    means, priors, truth = released(x, y, "0123456789")
    means = {name: mean + noise.draw(64, rng) for name, mean in means.items()}
    release = {"means": means, "priors": priors, "noise": noise}
    plane = MultiClass(rounds=0).fit(x, **release)
    grown = MultiClass(landmarks=400).fit(x, **release)
    right = [float((attack.labels_ == truth).mean()) for attack in (plane, grown)]
    floor = clustering_accuracy(truth, KMeans(10, n_init=3, random_state=0).fit_predict(x))
    assert right[1] > 0.95
    assert right[1] > right[0] + 0.01 > floor
    assert grown.changed_[0] > grown.changed_[-1] < 0.01
    assert right[1] - 0.07 < grown.expected_accuracy_ < right[1] + 0.01
    some = MultiClass(landmarks=300, most=900).fit(x, **release)
    assert (some.labels_ == truth).mean() > 0.93
    assert (grown.predict(x) == grown.labels_).mean() > 0.97


def test_sparse_and_dense_records_give_the_same_guesses():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=600)
    x = rng.poisson(np.eye(3, 30)[kind] * 4 + 0.2).astype(float)
    means, priors, truth = released(x, kind)
    dense = MultiClass().fit(x, means=means, priors=priors)
    thin = MultiClass().fit(sparse.csr_array(x), means=means, priors=priors)
    assert (dense.labels_ == thin.labels_).mean() > 0.99
    assert (dense.labels_ == truth).mean() > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_balanced_guesses_have_their_numbers(seed):
    rng = np.random.default_rng(seed)
    judged = rng.normal(size=(400, 5)) + np.array([0, 1, 2, 0, -1])
    wanted = rng.multinomial(400, [0.4, 0.3, 0.1, 0.1, 0.1])
    guess, offsets = balance_classes(judged, wanted)
    assert np.abs(np.bincount(guess, minlength=5) - wanted).max() <= 2
    assert (guess == (judged - offsets).argmax(axis=1)).all()
    same, _ = balance_classes(judged, np.bincount(judged.argmax(axis=1), minlength=5))
    assert (same == judged.argmax(axis=1)).all()


M = np.zeros(6)
BAD = {
    "no class": ({"means": {}}, DataError, "at least one class"),
    "length": ({"means": {"a": M[:5], "b": M}}, DataError, "6 features"),
    "NaN": ({"means": {"a": M + np.nan, "b": M}}, DataError, "finite"),
    "names": ({"means": {"a": M}, "priors": {"b": 0.5}}, SettingError, "same classes, got a and b"),
    "sum": (
        {"means": {"a": M, "b": M}, "priors": {"a": 0.8, "b": 0.5}},
        SettingError,
        "must not exceed 1 in all, got 1.3",
    ),
    "share": ({"means": {"a": M}, "priors": {"a": 0.0}}, SettingError, "got 0.0"),
    "whole": ({"means": {"a": M}, "priors": {"a": 0.995}}, SettingError, "leave some records"),
    "alone": ({"means": {"a": M}}, SettingError, "one mean"),
    "rest": ({"means": {"rest": M}, "priors": {"rest": 0.5}}, SettingError, "cannot be named"),
    "same means": ({"means": {"a": M + 50, "b": M + 60}}, DataError, "no records"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_releases_are_named(case):
    x, _ = blobs()
    released, error, words = BAD[case]
    attack = MultiClass()
    with pytest.raises(error, match=words):
        attack.fit(x, **released)
    with pytest.raises(NotFittedError):
        attack.predict(x)


def test_settings_manners_and_strangers():
    x, kind = blobs()
    means, priors, _ = released(x, kind)
    with pytest.raises(SettingError, match="landmarks must be at least 2, got 1"):
        MultiClass(landmarks=1).fit(x, means=means, priors=priors)
    attack = MultiClass(seed=3).fit(x, means=means, priors=priors)
    np.testing.assert_array_equal(
        attack.scores_, clone(attack).fit(x, means=means, priors=priors).scores_
    )
    with pytest.raises(DataError, match="6 columns they had at fit, got 5"):
        attack.predict(x[:, :5])
