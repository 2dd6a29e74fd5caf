"""Data sets: the embedded ones need no folder; packages add others; unknown names say so."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.ndimage import grey_dilation

from cofill.errors import SettingError
from cofill.paths import data_folder
from cofill.views._datasets import (
    DATASETS,
    DatasetInfo,
    datasets,
    edges,
    fetch,
    load,
    make_dataset,
    papers_hint,
)

EMBEDDED = ["wdbc", "digits", "cube"]


class TestEmbedded:
    def test_wdbc(self):
        data = load("wdbc")
        assert data.views.names == ("mean", "error", "worst")
        assert all(v.feature_names == data.views["mean"].feature_names for v in data.views.values())
        assert data.views["worst"].feature_names[:3] == ("radius", "texture", "perimeter")
        assert np.bincount(data.labels).tolist() == [212, 357]
        assert data.class_names == ("malignant", "benign")
        assert (data.views["worst"].cells >= data.views["mean"].cells - 1e-9).all()

    def test_digits(self):
        data = load("digits")
        assert {v.image_shape for v in data.views.values()} == {(8, 8)}
        assert data.views["image"].cells.max() == 16
        assert len(data.labels) == data.views.n_individuals == 1797

    def test_cube(self):
        data = load("cube", key=3)
        x, y, z = (data.views[f"along_{c}"] for c in "xyz")
        assert np.bincount(data.labels).tolist() == [250] * 4
        for one, other, shared in ((x, y, "z"), (x, z, "y"), (y, z, "x")):
            np.testing.assert_array_equal(one.select([shared]).cells, other.select([shared]).cells)
        points = np.column_stack([z.cells, y.select(["z"]).cells])
        for k, center in enumerate([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]):
            cluster = points[data.labels == k]
            np.testing.assert_allclose(cluster.mean(axis=0), center, atol=0.03)
            np.testing.assert_allclose(cluster.std(axis=0), 0.1, atol=0.02)
        assert load("cube", key=3).views.same_as(data.views)
        assert not load("cube", key=4).views.same_as(data.views)

    def test_listing(self):
        by_name = {d.name: d for d in datasets()}
        assert list(by_name)[:3] == EMBEDDED
        for name in EMBEDDED:
            info, data = by_name[name], load(name)
            assert (info.where, info.is_here) == ("embedded", True)
            assert data.views.names == info.views
            assert data.views.n_individuals == info.individuals
            assert data.source == info.source


def test_edges_are_dilation_minus_image():
    images = np.random.default_rng(0).integers(0, 256, (5, 9, 7)).astype(np.uint8)
    grown = np.stack([grey_dilation(i, size=(3, 3)) for i in images])
    np.testing.assert_array_equal(edges(images), grown - images)


def _birds(*, limit=5):
    cells = {"song": np.arange(8.0).reshape(4, 2)[:limit]}
    mask = np.arange(min(4, limit)) < 2
    return make_dataset(
        "birds", cells, np.zeros(len(mask)), source="a wood", splits={"train": mask}
    )


BIRDS = DatasetInfo(
    name="birds",
    description="songs of birds",
    individuals=4,
    views=("song",),
    source="a wood",
    loader=_birds,
    locate=lambda: data_folder() / "birds" if (data_folder() / "birds").exists() else None,
    fetch=lambda folder: (folder or data_folder()) / "birds",
)


@pytest.fixture
def plugged(monkeypatch, tmp_path):
    """Have two data sets of another package, of which one is broken, and no others."""
    monkeypatch.setenv("COFILL_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "birdwatch", SimpleNamespace(BIRDS=BIRDS))
    points = [EntryPoint(n, f"birdwatch:{n.upper()}", DATASETS.group) for n in ("birds", "bees")]
    monkeypatch.setitem(DATASETS.__dict__, "_plugins", {p.name: p for p in points})
    return tmp_path


def test_a_package_adds_a_data_set(plugged):
    assert load("birds").views.names == ("song",)
    assert load("birds", limit=3).views.n_individuals == 3
    assert load("birds").split("train").views.n_individuals == 2
    with pytest.raises(SettingError, match="no part 'test'; its parts: 'train'"):
        load("birds").split("test")
    with pytest.raises(SettingError, match="'birds' has no setting 'key'; there is 'limit'"):
        load("birds", key=1)
    listed = {d.name: d for d in datasets()}
    assert list(listed) == [*EMBEDDED, "birds", "bees"]
    assert listed["birds"].where == "not here"
    (plugged / "birds").touch()
    assert listed["birds"].where == str(plugged / "birds")
    assert fetch("birds") == plugged / "birds"
    assert fetch("birds", "/elsewhere") == Path("/elsewhere/birds")
    assert DATASETS.find("birds").summary == "songs of birds"


@pytest.mark.usefixtures("plugged")
def test_a_broken_package_is_listed_with_the_reason():
    bees = next(d for d in datasets() if d.name == "bees")
    assert not bees.is_here
    assert "cannot be loaded (AttributeError" in bees.description
    with pytest.raises(SettingError, match=r"'bees' of .* cannot be loaded") as caught:
        load("bees")
    assert "cofill-papers" not in str(caught.value)  # it would not help


@pytest.mark.usefixtures("plugged")
def test_without_the_papers_an_unknown_name_says_how_to_install_them():
    for use in (load, fetch):
        with pytest.raises(
            SettingError, match="there is no data set 'mnist'; there is 'wdbc'"
        ) as caught:
            use("mnist")
        assert str(caught.value).endswith("install it by `pip install cofill-papers`)")


def test_with_the_papers_there_is_no_hint(monkeypatch):
    monkeypatch.setattr(type(DATASETS), "packages", frozenset({"cofill-papers"}))
    assert papers_hint() == ""
    with pytest.raises(
        SettingError, match="there is no data set 'iris'; did you mean 'digits'"
    ) as caught:
        load("iris")
    assert "install" not in str(caught.value)


def test_options_that_are_not_there_and_sets_without_a_file():
    with pytest.raises(SettingError, match="'cube' has no setting 'seed'; there is 'key'"):
        load("cube", seed=1)
    with pytest.raises(SettingError, match="can be fetched, got 'wdbc', which is embedded"):
        fetch("wdbc")


def test_the_folder_is_the_variable_else_the_cache(monkeypatch):
    monkeypatch.setenv("COFILL_DATA", "~/mine")
    assert data_folder() == Path.home() / "mine"
    monkeypatch.delenv("COFILL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert data_folder() == Path("/caches/cofill/data")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == Path.home() / ".cache" / "cofill" / "data"
