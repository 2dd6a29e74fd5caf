"""From files to files: all or nothing, no id in the summary."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from cofill.cluster import ClusterJob, NetworkSettings, run_cluster
from cofill.errors import DataError, SettingError
from cofill.metrics import ari


@pytest.fixture
def files(tmp_path, blobs):
    """Two sites with two tables each, and everybody's true group by id."""
    rows, labels = blobs
    ids = np.array([f"PERSON-{k:04d}" for k in range(len(rows))])
    order = np.random.default_rng(0).permutation(len(rows))
    for site, members in (("north", order[:150]), ("south", order[150:])):
        for view, columns in (("lab", slice(0, 2)), ("scan", slice(2, 5))):
            cells = {f"c{k}": v for k, v in enumerate(rows[members][:, columns].T)}
            pc.write_csv(pa.table({"id": ids[members], **cells}), tmp_path / f"{site}_{view}.csv")
    sources = {
        f"{site}/{view}": str(tmp_path / f"{site}_{view}.csv")
        for site in ("north", "south")
        for view in ("lab", "scan")
    }
    return sources, dict(zip(ids.tolist(), labels.tolist(), strict=True)), tmp_path


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("kmeans", {}),
        ("deep", {"rounds": 8, "local_steps": 10, "batch": 32, "restarts": 2,
                  "learning_rate": 0.01, "network": NetworkSettings((), (16,))}),
    ],
)  # fmt: skip
def test_sites_files_become_everybodys_group(files, method, settings):
    sources, truth, folder = files
    job = ClusterJob(sources, "id", str(folder / "out"), 4, method, settings)
    result = run_cluster(job)
    assert result.files == ("assignments.csv", "clustering.json", "map.svg")
    table = pc.read_csv(folder / "out" / "assignments.csv").to_pydict()
    assert list(table) == ["site", "id", "cluster", "confidence"]
    assert len(set(table["id"])) == len(truth)
    assert ari(np.array([truth[i] for i in table["id"]]), np.array(table["cluster"])) > 0.9
    text = (folder / "out" / "clustering.json").read_text()
    facts = json.loads(text)
    assert facts["k"] == 4
    assert sum(facts["sizes"]) == 400
    assert facts["individuals"] == {"north": 150, "south": 250}
    assert "PERSON" not in text


def test_one_site_chooses_its_number_of_groups(files):
    sources, _, folder = files
    table = pc.read_csv(sources["south/lab"]).join(pc.read_csv(sources["south/scan"]), "id",
                                                  right_suffix="_scan")  # fmt: skip
    pq.write_table(table, folder / "all.parquet")
    job = ClusterJob({"lab": str(folder / "all.parquet")}, "id", str(folder / "out"),
                     settings={"ks": (3, 4, 5)})  # fmt: skip
    facts = run_cluster(job).facts
    assert facts["k"] == 4
    assert [line["k"] for line in facts["choice_of_k"]["table"]] == [3, 4, 5]
    assert pq.read_table(folder / "out" / "assignments.parquet").column_names[0] == "id"


def test_nothing_remains_of_a_job_that_fails(files):
    sources, _, folder = files
    before = sorted(folder.iterdir())
    with pytest.raises(SettingError, match="at most the number of individuals"):
        run_cluster(ClusterJob(sources, "id", str(folder / "out"), 999))
    (folder / "there").mkdir()
    (folder / "there" / "x").write_text("kept")
    with pytest.raises(DataError, match="exists already"):
        run_cluster(ClusterJob(sources, "id", str(folder / "there"), 4))
    assert sorted(folder.iterdir()) == sorted([*before, folder / "there"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sources": {}}, "no view"),
        ({"sources": {"a b": "x.csv"}}, "letters"),
        ({"sources": {"n/lab": "x.csv", "lab": "y.csv"}}, "every view is named"),
        ({"method": "dbscan"}, "method must be one of"),
        ({"k": 1}, "k must be at least 2"),
        ({"settings": {"depth": 3}}, "has no setting 'depth'"),
    ],
)
def test_a_job_is_checked_when_made(changed, message):
    with pytest.raises(SettingError, match=message):
        ClusterJob(**({"sources": {"lab": "x.csv"}, "id": "id", "out": "out"} | changed))
