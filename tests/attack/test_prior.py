"""The share of positives from the mean, and attacks that have to estimate it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from cofill.attack import (
    Discriminant,
    KMeansFloor,
    Likelihood,
    Noise,
    SelfTraining,
    estimate_share,
    sensitivity,
)
from cofill.attack._mixture import fit_mixtures, mean_of_highest
from cofill.errors import DataError, SettingError

SHARES = (0.05, 0.2, 0.5, 0.8, 0.9)


def blobs(share, *, apart=3.0, count=3000, features=8, widths=(1.0, 1.0), seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(count) < round(share * count)
    x = rng.normal(size=(count, features)) * np.where(truth, *widths)[:, None]
    return x + apart * np.outer(truth, np.ones(features) / features**0.5), truth


def digits(share, positive=4, negative=9):
    x, y = load_digits(return_X_y=True)
    of = {d: np.flatnonzero(y == d) for d in (positive, negative)}
    total = min(len(of[positive]) / share, len(of[negative]) / (1 - share))
    chosen = [of[positive][: round(share * total)], of[negative][: round((1 - share) * total)]]
    rows = np.concatenate(chosen)
    return x[rows] / 8 - 1, y[rows] == positive


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("widths", [(1.0, 1.0), (1.5, 1.0), (0.6, 1.0)])
def test_the_share_of_normal_classes_is_found(share, widths):
    x, truth = blobs(share, widths=widths)
    share_estimate = estimate_share(x, x[truth].mean(axis=0))
    assert share_estimate.value == pytest.approx(share, abs=0.02)
    assert share_estimate.low <= share <= share_estimate.high <= share_estimate.most
    assert share_estimate.is_narrow


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_the_share_of_digits_is_found(share):
    x, truth = digits(share)
    share_estimate = estimate_share(x, x[truth].mean(axis=0))
    assert share_estimate.value == pytest.approx(truth.mean(), abs=0.03)
    assert share_estimate.low <= truth.mean() <= share_estimate.high


@pytest.mark.parametrize("share", SHARES)
def test_overlapping_classes_have_a_wide_interval_and_say_so(share):
    x, truth = blobs(share, apart=1.0)
    share_estimate = estimate_share(x, x[truth].mean(axis=0))
    assert share_estimate.low <= share <= share_estimate.high
    assert not share_estimate.is_narrow
    attack = KMeansFloor().fit(x, mean=x[truth].mean(axis=0))
    assert any("does not tell the share" in note for note in attack.notes_)
    assert attack.prior_interval_ == (share_estimate.low, share_estimate.high)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2, 3))]
)
def test_the_interval_knows_of_noise(seed):
    x, truth = blobs(0.3, features=30)
    noise = Noise("gaussian", 0.15)
    mean = x[truth].mean(axis=0) + noise.draw(30, np.random.default_rng(seed))
    share_estimate, exact = estimate_share(x, mean, noise), estimate_share(x, x[truth].mean(axis=0))
    assert share_estimate.low <= 0.3 <= share_estimate.high
    assert share_estimate.high - share_estimate.low > 2 * (exact.high - exact.low)


def test_a_mean_of_few_digits_is_no_exact_mean():
    x, truth = blobs(0.4)
    quiet = 0.1 * np.random.default_rng(1).normal(size=(len(x), 60))
    x = np.column_stack([x, quiet])
    share_estimate = estimate_share(x, np.round(x[truth].mean(axis=0), 1))
    assert share_estimate.value == pytest.approx(0.4, abs=0.03)
    assert share_estimate.low <= 0.4 <= share_estimate.high


def test_no_share_exceeds_what_is_possible():
    x, truth = blobs(0.3, apart=1.5, count=500)
    share_estimate = estimate_share(x, x[truth].mean(axis=0))
    # On the line of Fisher's discriminant the highest places, `most` of them, reach the mean.
    line = np.linalg.solve(np.cov(x.T), x[truth].mean(axis=0) - x.mean(axis=0))
    positions, position = x @ line, x[truth].mean(axis=0) @ line
    assert mean_of_highest(positions, share_estimate.most) >= position
    assert mean_of_highest(positions, share_estimate.most + 2 / 500) < position
    assert share_estimate.most > 0.3


def test_a_mean_like_everybodys_says_nothing():
    x, _ = blobs(0.5)
    share_estimate = estimate_share(x, x.mean(axis=0))
    assert (share_estimate.low, share_estimate.high, share_estimate.is_narrow) == (0.0, 1.0, False)


def test_sparse_and_dense_records_have_the_same_share():
    rng = np.random.default_rng(0)
    truth = np.arange(1500) < 450
    x = rng.poisson(np.where(truth[:, None], 0.6, 0.25), size=(1500, 30)).astype(float)
    mean = x[truth].mean(axis=0)
    assert estimate_share(sparse.csr_array(x), mean).value == pytest.approx(
        estimate_share(x, mean).value
    )
    assert estimate_share(x, mean).value == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("make", [Discriminant, Likelihood, SelfTraining, KMeansFloor])
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_attacks_estimate_a_share_they_are_not_given(make, share):
    x, truth = digits(share)
    mean = x[truth].mean(axis=0)
    known = make().fit(x, mean=mean, prior=truth.mean())
    alone = make().fit(x, mean=mean)
    assert (known.prior_, known.prior_interval_) == (truth.mean(), None)
    assert alone.prior_ == pytest.approx(truth.mean(), abs=0.03)
    low, high = alone.prior_interval_
    assert low <= alone.prior_ <= high
    right = [(attack.labels_ == truth).mean() for attack in (known, alone)]
    assert right[1] > right[0] - 0.03


def test_mixtures_know_their_misfit():
    rng = np.random.default_rng(0)
    truth = np.arange(5000) < 2000
    positions = rng.normal(size=5000) + 2 * truth
    centre, scale = positions.mean(), positions.std()
    ordered = np.sort((positions - centre) / scale)
    centres = np.linspace(0.05, 0.95, 60) * np.sqrt(0.6 / 0.4)
    share_estimate = fit_mixtures(ordered, centres, np.full(60, 0.4))
    assert centres[share_estimate.best] == pytest.approx((2 - centre) / scale, abs=0.05)
    assert share_estimate.misfit < 2
    two = np.sort(rng.choice([-1.0, 1.0], size=5000))
    assert fit_mixtures(two, centres, np.full(60, 0.4)).misfit > 20


# --- wrong shares -----------------------------------------------------------------------------


def test_the_right_share_is_the_best_of_a_table():
    x, truth = digits(0.3)
    mean, priors = x[truth].mean(axis=0), [0.2, 0.25, 0.3]
    table = sensitivity(x, mean, priors, attack=Discriminant(), truth=truth)
    share_estimate = table.to_pydict()
    assert share_estimate["prior"] == priors
    assert int(np.argmax(share_estimate["accuracy"])) == 2
    assert share_estimate["guessed"] == sorted(share_estimate["guessed"])
    right = Discriminant().fit(x, mean=mean, prior=0.3)
    assert share_estimate["accuracy"][2] == (right.labels_ == truth).mean()
    assert share_estimate["expected_accuracy"][2] == right.expected_accuracy_
    assert sensitivity(x, mean, [0.3], attack=Discriminant())["accuracy"].null_count == 1


def test_a_failed_attack_is_a_row():
    x, truth = blobs(0.5, apart=0.2, count=300)
    table = sensitivity(x, x[truth].mean(axis=0), [0.001, 0.5], attack=Likelihood())
    assert table["outcome"].to_pylist() == ["failed", "ok"]
    assert table["guessed"].to_pylist()[0] is None


def test_bad_tables_are_refused():
    x, truth = blobs(0.5, count=100)
    mean = x[truth].mean(axis=0)
    for priors, known, error, words in (
        ([], None, SettingError, "at least one share"),
        ([0.5, 1.5], None, SettingError, "got 1.5"),
        ([0.5], truth[:5], DataError, "each record"),
        ([0.5], truth.astype(int), DataError, "truth value"),
    ):
        with pytest.raises(error, match=words):
            sensitivity(x, mean, priors, truth=known)
