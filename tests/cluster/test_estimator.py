"""Both estimators keep scikit-learn's manners."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import cofill.cluster
from cofill.cluster import (
    DeepClustering,
    DeepSettings,
    FederatedKMeans,
    GroupNoise,
    KMeansSettings,
    NetworkSettings,
)
from cofill.errors import DataError
from cofill.views import MultiView


@pytest.fixture(params=["kmeans", "deep"])
def make(request, quick):
    return partial(FederatedKMeans, rounds=10) if request.param == "kmeans" else quick


def test_a_clone_is_an_unfitted_equal(make, blobs):
    model = make(4, seed=3)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(blobs[0])
    assert clone(model.set_params(k=5)).k == 5


def test_learned_attributes_fit_the_rows(make, blobs):
    rows, _ = blobs
    model = make(4).fit(rows)
    assert model.labels_.shape == model.confidence_.shape == (400,)
    assert set(model.labels_) <= set(range(4))
    assert ((model.confidence_ >= 0) & (model.confidence_ <= 1)).all()
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    np.testing.assert_allclose(model.confidence(rows), model.confidence_, atol=1e-5)
    assert model.centers_.shape == (4, 5)
    assert model.n_iter_ >= 1
    assert model.n_features_in_ == 5
    assert len(model.codes(rows)) == 400
    np.testing.assert_array_equal(make(4).fit_predict(rows), model.labels_)


def test_sites_in_sites_out(make, blobs, deal):
    sites, _ = deal(*blobs, "even")
    model = make(4).fit(sites)
    answered = model.predict(sites)
    assert list(answered) == list(sites)
    np.testing.assert_array_equal(np.concatenate(list(answered.values())), model.labels_)
    views = MultiView.from_arrays({"lab": blobs[0]})
    with pytest.raises(DataError, match="calls column"):
        model.predict(views)
    with pytest.raises(DataError, match="has 2 columns"):
        model.predict(np.ones((3, 2)))


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(make, blobs):
    rows, _ = blobs
    model = make(4).fit(rows)
    before = model.labels_
    with pytest.raises(DataError):
        model.fit(np.full((9, 5), np.nan))
    assert model.labels_ is before


def test_progress_is_told(make, blobs):
    reports = []
    make(4).fit(blobs[0], progress=lambda step, share: reports.append((step, share)))
    shares = [share for _, share in reports]
    assert reports[0][0] == "measure"
    assert shares == sorted(shares)
    assert shares[0] < 0.1 < 0.9 < shares[-1] < 1


def test_parameters_are_those_of_the_settings():
    others = {"k", "init", "scale", "ks", "choose", "seed"}
    for estimator, settings in ((FederatedKMeans, KMeansSettings), (DeepClustering, DeepSettings)):
        parameters = estimator().get_params(deep=False)
        fields = settings.__dataclass_fields__
        assert set(parameters) - others == set(fields) - {"k"}
        assert estimator()._settings(settings, 7) == settings(k=7)
    noisy = FederatedKMeans(3, noise=GroupNoise(1, 1))
    assert noisy._settings(KMeansSettings, 3).starts == 1
    deep = DeepClustering(3, network=NetworkSettings((2,), (3,)))
    changed = deep._settings(DeepSettings, 3)
    assert changed.network.hidden == (3,)


def test_every_exported_name_is_there():
    for name in cofill.cluster.__all__:
        assert getattr(cofill.cluster, name) is not None
    assert sorted(cofill.cluster.__all__) == list(cofill.cluster.__all__)
