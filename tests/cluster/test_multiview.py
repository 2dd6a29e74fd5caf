"""Groups of individuals who lack views: views are joined, order and labels do not matter."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from cofill.cluster import ClusterJob, MultiViewClustering, run_cluster
from cofill.errors import DataError, SettingError
from cofill.metrics import ari, clustering_accuracy
from cofill.privacy import Gate
from cofill.protocol import COORDINATOR
from cofill.views import MultiView, by_row

QUICK = {"neighbours": (10,), "dimensions": (1.25, 1.5)}


@pytest.fixture(scope="module")
def crossed():
    """Four groups of which each view tells two apart, and views that half of them lack in turn."""
    rng = np.random.default_rng(5)
    labels = rng.integers(4, size=240)
    halves = {"lab": labels // 2, "scan": labels % 2}
    rows = {name: 8.0 * half[:, None] + rng.normal(size=(240, 3)) for name, half in halves.items()}
    lacking = rng.permutation(240)
    presence = {name: np.ones(240, bool) for name in rows}
    presence["lab"][lacking[:20]] = False
    presence["scan"][lacking[20:40]] = False
    return rows, presence, labels


def test_views_must_be_joined_to_see_the_groups(crossed):
    rows, presence, labels = crossed
    views = MultiView.from_arrays(rows, presence=presence)
    both = presence["lab"] & presence["scan"]
    fitted = MultiViewClustering(4, **QUICK).fit(views)
    assert clustering_accuracy(labels[both], fitted.labels_[both]) > 0.97
    for name in rows:
        alone = MultiViewClustering(4, **QUICK).fit(MultiView.from_arrays({name: rows[name]}))
        assert clustering_accuracy(labels, alone.labels_) < 0.75
    # Whoever lacks a view is in one of the two groups that the other view allows.
    names = {group: np.bincount(labels[fitted.labels_ == group]).argmax() for group in range(4)}
    named = np.array([names[group] for group in fitted.labels_])
    only_scan = ~presence["lab"]
    assert (named[only_scan] % 2 == labels[only_scan] % 2).mean() > 0.9
    assert fitted.confidence_[~both].mean() < fitted.confidence_[both].mean() - 0.2


def test_order_and_labels_change_nothing(crossed):
    rows, presence, labels = crossed
    ids = np.array([f"p{k:03d}" for k in range(240)])
    order = np.random.default_rng(1).permutation(240)
    plain = MultiView.from_arrays(rows, presence=presence, ids=ids)
    shuffled = MultiView.from_arrays(
        {name: cells[order] for name, cells in rows.items()},
        presence={name: seen[order] for name, seen in presence.items()},
        ids=ids[order],
    )

    class Unread:
        def __getattr__(self, name):
            raise AssertionError("labels were looked at")

    first = MultiViewClustering(4, **QUICK).fit(plain, Unread())
    second = MultiViewClustering(4, **QUICK).fit(shuffled, labels)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.probabilities_, second.probabilities_)


def test_new_individuals_get_the_groups_of_those_they_resemble(crossed):
    rows, presence, labels = crossed
    views = MultiView.from_arrays(rows, presence=presence)
    members = np.arange(240) % 4 != 0
    fitted = MultiViewClustering(4, **QUICK).fit(views.take(members))
    new = views.take(~members)
    both = new.presence.all(axis=1)
    groups = fitted.predict(new)
    assert ari(labels[~members][both], groups[both]) > 0.9
    np.testing.assert_allclose(fitted.predict_proba(new).sum(axis=1), 1.0)
    with pytest.raises(DataError, match="are of the views lab, scan"):
        fitted.predict(views.select(["lab"]))


@pytest.mark.full
def test_cells_that_are_missing_and_constant_columns_do_no_harm(crossed):
    rows, presence, labels = crossed
    cells = {name: np.hstack([r, np.ones((240, 1))]) for name, r in rows.items()}
    cells["lab"][::7, 0] = np.nan
    views = MultiView.from_arrays(cells, presence=presence)
    both = presence["lab"] & presence["scan"]
    fitted = MultiViewClustering(4, **QUICK).fit(views)
    assert clustering_accuracy(labels[both], fitted.labels_[both]) > 0.95


@pytest.mark.parametrize(
    ("k", "match"), [(None, "k must be the number of groups"), (1, "from 2 to"), (999, "from 2 to")]
)
def test_a_number_of_groups_that_cannot_be_is_one_sentence(crossed, k, match):
    with pytest.raises(SettingError, match=match):
        MultiViewClustering(k).fit(MultiView.from_arrays(crossed[0]))


def test_a_job_groups_people_who_lack_views(crossed, tmp_path):
    rows, presence, labels = crossed
    ids = np.array([f"PERSON-{k:03d}" for k in range(240)])
    sources = {}
    for name, cells in rows.items():
        seen = presence[name]
        columns = {f"c{k}": column for k, column in enumerate(cells[seen].T)}
        pc.write_csv(pa.table({"id": ids[seen], **columns}), tmp_path / f"{name}.csv")
        sources[name] = str(tmp_path / f"{name}.csv")
    job = ClusterJob(sources, "id", str(tmp_path / "out"), 4, "views", QUICK)
    run_cluster(job)
    table = pc.read_csv(tmp_path / "out" / "assignments.csv").to_pydict()
    assert table["id"] == ids.tolist()
    both = presence["lab"] & presence["scan"]
    assert clustering_accuracy(labels[both], np.array(table["cluster"])[both]) > 0.95
    text = (tmp_path / "out" / "clustering.json").read_text()
    assert json.loads(text)["k"] == 4
    assert "PERSON" not in text


def test_sites_find_the_groups_of_one_place_and_send_sums_only(crossed):
    rows, presence, labels = crossed
    views = MultiView.from_arrays(rows, presence=presence)
    sites = by_row(views, 3, key=0)
    fitted = MultiViewClustering(4, **QUICK).fit(sites)
    groups = np.empty(240, int)
    for name, site in sites.items():
        groups[site.ids] = fitted.labels_by_site_[name]
    both = presence["lab"] & presence["scan"]
    assert clustering_accuracy(labels[both], groups[both]) > 0.95
    kinds = {entry.kind for entry in fitted.ledger_ if entry.sender != COORDINATOR}
    assert kinds == {"group-sums"}
    assert list(fitted.predict(sites)) == list(sites)


@pytest.mark.full
def test_proposals_and_points_tell_no_row(crossed, monkeypatch):
    """What leaves a site before the rounds has no row in it, and no sum of fewer than five."""
    carried = []
    pass_on = Gate.pass_on
    monkeypatch.setattr(Gate, "pass_on", lambda g, r, s: carried.append((s, r)) or pass_on(g, r, s))
    rows, presence, _ = crossed
    views = MultiView.from_arrays(rows, presence=presence)
    MultiViewClustering(4, rounds=0, **QUICK).fit(by_row(views, 3, key=0))
    proposals = [release for step, release in carried if step == "propose groups"]
    assert proposals
    for release in proposals:
        assert release.counts[release.counts > 0].min() >= 5
        assert not release.sums[release.counts == 0].any()
    points = [r.weights.reshape(-1, 3) for step, r in carried if step == "draw points"]
    for name, cells in rows.items():
        scaled = (cells - cells[presence[name]].mean(0)) / cells[presence[name]].std(0)
        for drawn in points:
            distances = np.linalg.norm(scaled[:, None] - drawn[None], axis=2)
            assert distances.min() > 1e-6


def test_sites_with_other_columns_and_too_few_people_are_refused(crossed):
    views = MultiView.from_arrays(crossed[0])
    sites = by_row(views, 2, key=0)
    with pytest.raises(DataError, match="other views or columns"):
        MultiViewClustering(4).fit({**sites, "c": sites["site_1"].select(["lab"])})
    with pytest.raises(DataError, match="enough to propose"):
        MultiViewClustering(40).fit(sites)
