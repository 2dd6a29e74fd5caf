"""The data sets of the papers: found, checked, fetched, or missed; declared as entry points."""

import os
import time
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

from cofill.errors import DataError, SettingError
from cofill.views import DATASETS, DatasetInfo, Kind, datasets, load
from cofill_papers import _datasets, _fetch
from cofill_papers._fetch import fetch

FOLDER = Path(os.environ.get("COFILL_DATA") or Path(__file__).parents[3] / "shared" / "data")
FILE_SETS = [getattr(_datasets, name) for name in _datasets.__all__]


@pytest.fixture
def folder(monkeypatch):
    if not FOLDER.is_dir():
        pytest.skip(f"no data folder: {FOLDER} is not there, set COFILL_DATA")
    monkeypatch.setenv("COFILL_DATA", str(FOLDER))
    return FOLDER


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """A data folder of the test's own, with nothing in it."""
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def need(folder, file):
    if not (folder / file).exists():
        pytest.skip(f"{file} is not in {folder}")


def test_every_set_is_an_entry_point_of_the_distribution():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["cofill.datasets"]
    assert sorted(declared) == sorted(_fetch.FILES) == sorted(info.name for info in FILE_SETS)
    installed = entry_points(group="cofill.datasets")
    for name, value in declared.items():
        point = EntryPoint(name, value, "cofill.datasets")
        assert point in installed
        assert isinstance(point.load(), DatasetInfo)
        assert point.load().name == name
    assert "cofill-papers" in DATASETS.packages


@pytest.mark.usefixtures("empty")
def test_without_files_no_set_is_here():
    listed = {d.name: d for d in datasets()}
    assert {listed[info.name].where for info in FILE_SETS} == {"not here"}


@pytest.mark.parametrize("info", FILE_SETS, ids=lambda d: d.name)
def test_file_sets_are_what_the_listing_says(info, folder):
    need(folder, "mnist" if info.name == "mnist" else _fetch.FILES[info.name])
    data = load(info.name)
    assert data.views.names == info.views
    assert data.views.n_individuals == info.individuals - 10_000 * (info.name == "mnist")
    assert data.labels.shape == data.views.ids.shape
    assert np.array_equal(np.unique(data.labels), np.arange(len(data.class_names)))
    assert all(m.shape == data.labels.shape for m in data.splits.values())
    assert next(d for d in datasets() if d.name == info.name).where.startswith(str(folder))


def test_mnist(folder):
    need(folder, "mnist")
    start = time.process_time()
    train = load("mnist")
    assert time.process_time() - start < 10  # 1.3 s on two idle cores
    assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    for view in train.views.values():
        assert view.image_shape == (28, 28)
        assert view.cells.dtype == np.float32
        assert (view.cells.min(), view.cells.max()) == (0, 255)
    few = load("mnist", part="test", limit=7)
    assert few.labels.tolist() == [7, 2, 1, 0, 4, 1, 4]
    assert few.views.n_individuals == 7


def test_mfdd(folder):
    need(folder, "mfeat.npz")
    data = load("mfdd", mor=False)
    widths = {n: v.n_features for n, v in data.views.items()}
    assert widths == {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47}
    assert data.views["pix"].image_shape == (16, 15)


def test_madelon(folder):
    need(folder, "madelon.npz")
    data = load("madelon", key=1)
    names = [n for v in data.views.values() for n in v.feature_names]
    assert len(names) == len(set(names)) == 500
    assert {v.n_features for v in data.views.values()} == {125}
    assert data.split("train").views.n_individuals == 2000
    assert data.split("valid").labels.shape == (600,)
    assert (
        data.views["part_1"].feature_names != load("madelon", key=2).views["part_1"].feature_names
    )
    with pytest.raises(SettingError, match="no part 'test'; its parts: 'train', 'valid'"):
        data.split("test")


def test_tcga_brca(folder):
    need(folder, "tcga_brca_mixomics.npz")
    data = load("tcga_brca")
    assert len(data.views["protein"]) == 150
    assert data.class_names == ("Basal", "Her2", "LumA")
    assert data.views["mrna"].feature_names[0] == "RTN2"
    assert data.split("train").views.is_complete
    test = data.split("test").views
    assert (test.n_individuals, len(test["protein"])) == (70, 0)


def test_credit(folder):
    need(folder, "credit_default.npz")
    views = load("credit").views
    kinds = {f.name: f.kind for f in views["demo"].features}
    assert kinds["SEX"] is Kind.BINARY
    assert kinds["EDUCATION"] is kinds["MARRIAGE"] is Kind.CATEGORICAL
    assert views["demo"].features[1].categories == (1, 2)
    assert all(f.is_integer for f in views["bill_amt"].features)
    with np.load(folder / "credit_default.npz") as raw:
        sex = np.array(views["demo"].features[1].categories)[views["demo"].cells[:, 1].astype(int)]
        assert np.array_equal(sex, raw["view_demo"][:, 1])


@pytest.mark.parametrize("info", FILE_SETS, ids=lambda d: d.name)
def test_a_missing_file_says_where_it_was_looked_for_and_what_to_do(info, empty):
    with pytest.raises(DataError) as caught:
        load(info.name)
    message = str(caught.value)
    assert "is missing, looked for in " + str(empty) in message
    assert "set COFILL_DATA" in message
    assert (f"cofill datasets fetch {info.name}" in message) != (info.name in _fetch.ELSEWHERE)


def test_a_part_of_mnist_that_is_not_there():
    with pytest.raises(SettingError, match="part must be 'train' or 'test', got 'valid'"):
        load("mnist", part="valid")
    with pytest.raises(SettingError, match="limit must be at least 1, got 0"):
        load("mnist", limit=0)


SIZES = {554: (70_000, 784), 1485: (2_600, 500), 42477: (30_000, 23)}
SIZES |= {_fetch._MFEAT_IDS[v]: (2_000, w) for v, w in _fetch._MFEAT_WIDTHS.items()}


def fake_openml(*, data_id, as_frame, return_X_y, cache, n_retries, parser):
    """Answer as scikit-learn's fetch_openml does: cells as floats, classes as text."""
    assert (as_frame, return_X_y, cache) == (False, True, False)
    n, d = SIZES[data_id]
    cells = np.zeros((n, d), dtype=np.float32)
    cells[:, :3] = np.random.default_rng(data_id).integers(1, 7, (n, 3))
    classes = {554: range(10), 1485: [1, 2], 42477: [0, 1]}.get(data_id, range(1, 11))
    return cells, np.resize(np.array([str(c) for c in classes], dtype=object), n)


@pytest.mark.parametrize("name", ["mnist", "mfdd", "madelon", "credit"])
def test_fetching_and_loading_again(name, empty):
    path = fetch(name, openml=fake_openml)
    assert path == empty / _fetch.FILES[name]
    assert sorted(p.name for p in empty.iterdir()) == [path.name, path.name + ".sha256"]
    data = load(name)
    info = next(d for d in datasets() if d.name == name)
    assert data.views.names == info.views
    assert np.array_equal(np.unique(data.labels), np.arange(len(data.class_names)))
    written = path.stat().st_mtime_ns
    assert fetch(name, openml=_no_network) == path  # it is there and sound: nothing to fetch
    assert path.stat().st_mtime_ns == written


def test_official_mnist_files_are_enough(folder):
    need(folder, "mnist")
    assert fetch("mnist", folder, openml=_no_network) == folder / "mnist"


def _no_network(**_):
    raise URLError("no route")


def test_no_network_is_one_sentence_and_leaves_nothing(empty):
    with pytest.raises(DataError, match=r"could not be fetched from OpenML \(URLError\); check"):
        fetch("madelon", openml=_no_network)
    assert not empty.exists()


def test_a_changed_set_on_openml_is_refused(empty):
    with pytest.raises(DataError, match="must have 2,600 rows and 500 columns, got 2 × 3"):
        fetch("madelon", openml=lambda **_: (np.zeros((2, 3)), ["1", "2"]))

    def shuffled(**asked):
        cells, classes = fake_openml(**asked)
        return cells, classes[::-1] if asked["data_id"] == _fetch._MFEAT_IDS["kar"] else classes

    with pytest.raises(DataError, match=r"view 'kar'\) must have its rows in the order"):
        fetch("mfdd", openml=shuffled)
    assert not empty.exists()


def test_an_interrupted_write_leaves_nothing(empty, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match=r"the disk is full; .*; choose a folder"):
        fetch("madelon", openml=fake_openml)
    assert list(empty.iterdir()) == []


def test_a_tampered_file_is_refused_and_fetched_again(empty):
    path = fetch("madelon", openml=fake_openml)
    whole = path.read_bytes()
    with np.load(path) as stored:
        changed = {k: stored[k] for k in stored.files}
    changed["y"] = 1 - changed["y"]
    np.savez_compressed(path, **changed)
    with pytest.raises(DataError, match=r"damaged or was changed \(its SHA-256 is not the one in"):
        load("madelon")
    assert fetch("madelon", openml=fake_openml).read_bytes()[:100] == whole[:100]
    load("madelon")


def test_files_that_are_no_data(empty):
    empty.mkdir()
    (empty / "scene15.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(DataError, match=r"not a readable \.npz of arrays"):
        load("scene15")
    np.savez(empty / "scene15.npz", y=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"not a readable \.npz of arrays"):
        load("scene15")
    np.savez(empty / "scene15.npz", z=np.zeros(3))
    with pytest.raises(DataError, match="must hold the array 'view_v1_20', got z"):
        load("scene15")
    (empty / "mnist").mkdir()
    (empty / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"tampered")
    with pytest.raises(DataError, match="its MD5 is not the official one"):
        load("mnist")


def test_sets_openml_does_not_hold():
    for name, where in _fetch.ELSEWHERE.items():
        with pytest.raises(DataError, match="is not on OpenML") as caught:
            fetch(name)
        assert where in str(caught.value)
