"""How many groups, and where individuals lie on a plane."""

import numpy as np
import pytest

from cofill.cluster import FederatedKMeans, PlaneMap, choose_k, map_picture, plane_map
from cofill.errors import DataError, SettingError


@pytest.mark.parametrize(
    ("method", "scale"), [("gap", "none"), ("stability", "standard"), ("stability", "none")]
)
@pytest.mark.parametrize("how", ["even", "by group"])
def test_the_planted_number_of_groups_is_found(deal, method, scale, how):
    labels = np.arange(240) % 4
    rows = np.random.default_rng(0).normal(size=(240, 3)) + 9 * np.eye(4)[labels, :3]
    sites, _ = deal(rows, labels, how)
    chosen = choose_k(sites, range(2, 6), method=method, scale=scale, repeats=2)
    assert chosen.k == 4
    assert [line["k"] for line in chosen.table() if line["chosen"]] == [4]
    sent = {"group-sums", "group-centres", "column-scales"}
    assert {e.kind for e in chosen.ledger} == sent


def test_rows_without_groups_have_no_gap():
    rows = np.random.default_rng(0).uniform(size=(200, 3))
    chosen = choose_k(rows, range(2, 6), method="gap")
    assert max(chosen.scores) < 0.1


def test_an_estimator_chooses_when_no_number_is_given(blobs):
    model = FederatedKMeans(None, ks=(3, 4, 5), rounds=9).fit(blobs[0])
    assert model.k_ == 4
    assert model.get_params()["k"] is None
    # What left for the choice is in the same ledger.
    assert len(model.ledger_) > 2 * len(FederatedKMeans(4, rounds=9).fit(blobs[0]).ledger_)


@pytest.mark.parametrize(
    ("ks", "options", "message"),
    [
        ((), {}, "at least one number"),
        ((1, 2), {}, "k must be at least 2"),
        ((2, 500), {}, "at most the number of individuals"),
        ((2, 3), {"method": "elbow"}, "choose must be one of 'gap', 'stability'"),
        ((2, 3), {"repeats": 1}, "repeats"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(blobs, ks, options, message):
    with pytest.raises(SettingError, match=message):
        choose_k(blobs[0], ks, **options)


def test_a_plane_is_that_of_most_variance(blobs):
    rows, labels = blobs
    drawn = plane_map(rows, labels, sample=None)
    centred = rows - rows.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    assert drawn.explained == pytest.approx((singular[:2] ** 2).sum() / (singular**2).sum())
    np.testing.assert_allclose(np.linalg.norm(drawn.points, axis=0), singular[:2])
    assert np.bincount(drawn.groups).tolist() == np.bincount(labels).tolist()


def test_a_map_does_not_tell_who_is_who(blobs):
    rows, labels = blobs
    drawn = plane_map(rows, labels, sample=50)
    assert drawn.points.shape == (50, 2)
    assert not np.array_equal(drawn.groups, labels[:50])
    assert set(vars(drawn)) == {"points", "groups", "explained"}


def test_faults_of_a_map(blobs):
    rows, labels = blobs
    with pytest.raises(SettingError, match="sample"):
        plane_map(rows, sample=1)
    with pytest.raises(DataError, match="groups"):
        plane_map(rows, labels[:3])
    with pytest.raises(DataError, match="finite"):
        plane_map(np.full((3, 2), np.nan))
    assert plane_map(np.arange(4.0)[:, None]).points.shape == (4, 2)


def test_a_map_is_drawn_in_bins_and_not_at_all_for_too_few():
    points = np.random.default_rng(0).normal(size=(40, 2))
    groups = np.arange(40) % 2
    drawn = map_picture(plane_map(points, groups))
    assert drawn is not None
    assert "group 1" in drawn
    assert "fewer than 3" in drawn
    assert map_picture(plane_map(points[:4], groups[:4])) is None
    with pytest.raises(SettingError, match="groups must be given"):
        map_picture(plane_map(points))


def test_few_individuals_neither_show_in_a_map_nor_stretch_it():
    rng = np.random.default_rng(0)
    crowd = rng.normal(size=(2000, 2))
    far = np.concatenate([crowd, [[1e6, 1e6], [-1e6, 1e6]]])
    plain, stretched = (
        map_picture(PlaneMap(points, np.zeros(len(points), int), 1.0)) for points in (crowd, far)
    )
    bins = [picture.count("<rect") for picture in (plain, stretched)]
    assert bins[0] > 50
    assert bins[1] == pytest.approx(bins[0], rel=0.2)
    counts = np.repeat([[0.0, 0.0], [1.0, 1.0]], [100, 2], axis=0)
    drawn = map_picture(PlaneMap(counts, np.zeros(102, int), 1.0))
    assert drawn.count("<rect") == 3  # the page, the frame and the bin of a hundred
    assert "98 % drawn" in drawn
