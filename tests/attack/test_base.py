from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cofill.attack._base import AbstractMeanAttack, AttackFailed
from cofill.attack._floor import KMeansFloor, kmeans_accuracy
from cofill.attack._inputs import Noise
from cofill.errors import CofillError, DataError, SettingError

TELLTALE = 8765.4321


@dataclass(kw_only=True, eq=False, repr=False)
class Nearest(AbstractMeanAttack):
    """Positive is who is nearer to the mean than `radius`."""

    name: ClassVar[str] = "nearest"
    accepts_sparse: ClassVar[bool] = True

    radius: float = 3.0

    def _fit(self, records, released):
        if self.radius < 0:
            raise SettingError("radius must be 0 or more")
        self.mean_, self.prior_, self.noise_ = released

    def _score(self, records):
        rows = records.toarray() if sparse.issparse(records) else records
        return (np.sqrt(((rows - self.mean_) ** 2).sum(axis=1)) < self.radius).astype(float)


class Dense(Nearest):
    accepts_sparse: ClassVar[bool] = False


def blobs(count=200, seed=0):
    positive = np.arange(count) < count // 2
    noise = np.random.default_rng(seed).normal(size=(count, 3))
    return noise + np.where(positive, 2, -2)[:, None], positive


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.astype(np.float32), sparse.csr_matrix])
def test_a_fit_leaves_labels_scores_and_an_outcome(make):
    x, positive = blobs()
    noise = Noise("laplace", 0.1)
    attack = Nearest().fit(make(x), mean=x[positive].mean(axis=0), prior=0.5, noise=noise)
    assert (attack.labels_ == positive).mean() > 0.9
    assert attack.labels_.dtype == bool
    assert attack.scores_.shape == (200,)
    assert (attack.outcome_, attack.notes_, attack.noise_) == ("ok", [], noise)
    assert (attack.predict(make(x)) == attack.labels_).all()
    assert (attack.predict_proba(make(x)) == attack.scores_).all()


def test_scikit_learns_manners():
    attack = Nearest(radius=1.0)
    assert attack.get_params() == {"radius": 1.0}
    assert clone(attack).set_params(radius=2.0).radius == 2.0
    with pytest.raises(NotFittedError):
        attack.predict(np.ones((2, 3)))


def holed(x, where=0, value=np.nan):
    x = x.copy()
    x.ravel()[where] = value
    return x


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"mean": np.zeros(4)}, DataError, ["mean", "3 features", "(4,)"]),
        ({"mean": np.zeros((1, 3))}, DataError, ["mean", "3 features"]),
        ({"mean": np.array([0, np.nan, np.inf])}, DataError, ["mean", "2 of 3"]),
        ({"mean": ["a", "b", "c"]}, DataError, ["mean", "numbers"]),
        ({"records": holed(blobs()[0])}, DataError, ["records", "1 cells"]),
        ({"records": holed(blobs()[0], value=np.inf)}, DataError, ["records", "1 cells"]),
        ({"records": sparse.csr_array(holed(blobs()[0]))}, DataError, ["records", "1 cells"]),
        ({"records": np.array([["x", "y", "z"]] * 3)}, DataError, ["records", "numbers"]),
        ({"records": np.ones(3)}, DataError, ["records", "two axes", "(3,)"]),
        ({"records": np.ones((3, 0)), "mean": np.ones(0)}, DataError, ["two axes", "(3, 0)"]),
        ({"records": np.ones((1, 3))}, DataError, ["at least 2 records", "got 1"]),
        ({"records": np.full((5, 3), TELLTALE)}, DataError, ["differ", "all 3"]),
        ({"records": sparse.csr_array(np.ones((5, 3)))}, DataError, ["differ", "all 3"]),
        ({"prior": 0.0}, SettingError, ["prior", "got 0.0"]),
        ({"prior": 1}, SettingError, ["prior", "got 1"]),
        ({"prior": float("nan")}, SettingError, ["prior", "nan"]),
    ],
)
def test_bad_input_is_named(change, error, words):
    x, _ = blobs()
    x[1] = TELLTALE
    inputs = {"records": x, "mean": np.full(3, TELLTALE), "prior": 0.5, **change}
    with pytest.raises(error) as caught:
        Nearest().fit(inputs.pop("records"), **inputs)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "8765" not in message
    assert "\n" not in message


def test_a_sparse_matrix_is_refused_where_it_cannot_be_used():
    x, _ = blobs()
    with pytest.raises(DataError, match="toarray"):
        Dense().fit(sparse.csr_array(x), mean=np.zeros(3), prior=0.5)


def test_new_records_must_have_the_columns_of_the_fit():
    x, positive = blobs()
    attack = Nearest().fit(x, mean=x[positive].mean(axis=0), prior=0.5)
    with pytest.raises(DataError, match="3 columns they had at fit, got 2"):
        attack.predict(x[:, :2])


@pytest.mark.parametrize(("radius", "side"), [(0.0, "negative"), (1e6, "positive")])
def test_one_class_for_all_is_a_failure(radius, side):
    x, _ = blobs()
    with pytest.raises(AttackFailed, match=f"nearest took all 200 records for {side}") as caught:
        Nearest(radius=radius).fit(x, mean=np.zeros(3), prior=0.5)
    assert isinstance(caught.value, CofillError)
    assert "--prior" not in str(caught.value)
    with pytest.raises(AttackFailed, match=r"state the share .*which was estimated \(--prior\)"):
        Nearest(radius=radius).fit(x, mean=np.zeros(3))


@pytest.mark.parametrize("radius", [0.0, -1.0])
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(radius):
    x, positive = blobs()
    attack = Nearest().fit(x, mean=x[positive].mean(axis=0), prior=0.5)
    before = attack.labels_
    with pytest.raises(CofillError):
        attack.set_params(radius=radius).fit(x, mean=np.zeros(3), prior=0.25)
    assert attack.labels_ is before
    assert attack.prior_ == 0.5
    fresh = Nearest(radius=radius)
    with pytest.raises(CofillError):
        fresh.fit(x, mean=np.zeros(3), prior=0.5)
    assert not hasattr(fresh, "labels_")


@pytest.mark.parametrize(
    ("text", "variance"), [("laplace:0.04", 0.0032), (" Gaussian:3", 9.0), ("gaussian:1e-1", 0.01)]
)
def test_noise_is_read_and_has_the_variance_of_its_draws(text, variance):
    noise = Noise.parse(text)
    assert noise.variance == pytest.approx(variance)
    draws = noise.draw(40_000, np.random.default_rng(0))
    assert draws.var() == pytest.approx(variance, rel=0.1)
    assert Noise.parse(str(noise)) == noise


@pytest.mark.parametrize(
    "text",
    ["laplace", "laplace:", "laplace:x", "cauchy:1", "laplace:0", "laplace:-1", "gaussian:nan"],
)
def test_unreadable_noise_is_refused(text):
    with pytest.raises(SettingError, match="noise"):
        Noise.parse(text)


def test_the_floor_names_the_cluster_nearer_to_the_mean():
    x, positive = blobs()
    for who in (positive, ~positive):
        for rows in (x, sparse.csr_array(x)):
            floor = KMeansFloor().fit(rows, mean=x[who].mean(axis=0), prior=0.5)
            assert (floor.labels_ == who).mean() > 0.95
    assert kmeans_accuracy(x, ~positive) == kmeans_accuracy(x, positive) > 0.95
