"""The papers' data sets that are read from files of the data folder, as plug-ins of `load`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from cofill.errors import DataError, SettingError
from cofill.paths import data_folder
from cofill.views import Dataset, DatasetInfo, Feature, Key, Kind, edges, make_dataset, stream
from cofill_papers._fetch import FILES, fetch, read_idx, read_npz

__all__ = ["CREDIT", "MADELON", "MFDD", "MNIST", "SCENE15", "TCGA_BRCA"]


def _mnist(*, part: str = "train", limit: int | None = None) -> Dataset:
    if part not in ("train", "test"):
        raise SettingError(f"part must be 'train' or 'test', got {part!r}")
    if limit is not None and limit < 1:
        raise SettingError(f"limit must be at least 1, got {limit}")
    folder = data_folder()
    if (folder / "mnist").is_dir() or not (folder / FILES["mnist"]).is_file():
        stem = folder / "mnist" / ("train" if part == "train" else "t10k")
        images = read_idx(stem.with_name(f"{stem.name}-images-idx3-ubyte.gz"), limit=limit)
        labels = read_idx(stem.with_name(f"{stem.name}-labels-idx1-ubyte.gz"), limit=limit)
    else:
        stored = _Arrays("mnist")
        rows = slice(0, 60_000) if part == "train" else slice(60_000, None)
        images = stored["view_image"][rows][:limit].reshape(-1, 28, 28)
        labels = stored["y"][rows][:limit]
    views = {"image": images, "edge": edges(images)}
    return make_dataset("mnist", views, labels, source=MNIST.source)


def _mfdd(*, mor: bool = True) -> Dataset:
    stored = _Arrays("mfdd")
    names = [n for n in MFDD.views if mor or n != "mor"]
    cells = {n: stored[f"view_{n}"] for n in names}
    cells["pix"] = cells["pix"].reshape(-1, 16, 15)
    return make_dataset("mfdd", cells, stored["y"], source=MFDD.source)


def _madelon(*, key: Key = 0) -> Dataset:
    stored = _Arrays("madelon")
    cells = np.concatenate([stored["view_all"], stored["view_all_valid"]])
    labels = np.concatenate([stored["y"], stored["y_valid"]])
    order = stream(key, "madelon").permutation(cells.shape[1])
    parts = {f"part_{k + 1}": np.sort(order[125 * k : 125 * k + 125]) for k in range(4)}
    features = {
        n: [Feature(f"f{c}", dtype="uint16") for c in columns] for n, columns in parts.items()
    }
    train = np.arange(len(cells)) < len(stored["view_all"])
    return make_dataset(
        "madelon",
        {n: cells[:, columns] for n, columns in parts.items()},
        labels,
        source=MADELON.source,
        class_names=("-1", "+1"),
        features=features,
        splits={"train": train, "valid": ~train},
    )


def _scene15() -> Dataset:
    stored = _Arrays("scene15")
    cells = {f"descriptor_{w}": stored[f"view_v{k}_{w}"] for k, w in ((1, 20), (2, 59), (3, 40))}
    return make_dataset("scene15", cells, stored["y"], source=SCENE15.source)


def _tcga_brca() -> Dataset:
    stored = _Arrays("tcga_brca")
    names = TCGA_BRCA.views
    test = stored["is_test"].astype(bool)
    return make_dataset(
        "tcga_brca",
        {n: stored[f"view_{n}"] for n in names},
        stored["y"],
        source=TCGA_BRCA.source,
        class_names=stored["class_names"],
        features={n: [Feature(str(c), dtype="float") for c in stored[f"names_{n}"]] for n in names},
        splits={"train": ~test, "test": test},
    )


def _credit() -> Dataset:
    stored = _Arrays("credit")
    cells, features = {}, {}
    for name in CREDIT.views:
        cells[name] = stored[f"view_{name}"].copy()
        features[name] = [Feature(str(c), dtype="int64") for c in stored[f"names_{name}"]]
    for k, feature in enumerate(features["demo"]):
        if feature.name in ("SEX", "EDUCATION", "MARRIAGE"):
            values, codes = np.unique(cells["demo"][:, k], return_inverse=True)
            kind = Kind.BINARY if len(values) == 2 else Kind.CATEGORICAL
            categories = tuple(int(v) for v in values)
            features["demo"][k] = replace(feature, kind=kind, categories=categories)
            cells["demo"][:, k] = codes
    return make_dataset(
        "credit",
        cells,
        stored["y"],
        source=CREDIT.source,
        class_names=("paid", "default"),
        features=features,
    )


class _Arrays(dict[str, np.ndarray]):
    """The arrays of a set's file; one that is asked for and not there is a `DataError`."""

    def __init__(self, name: str) -> None:
        self._path = data_folder() / FILES[name]
        super().__init__(read_npz(name, self._path))

    def __missing__(self, array: str) -> np.ndarray:
        raise DataError(
            f"{self._path} must hold the array {array!r}, got {', '.join(self) or 'none'}; put the "
            "right file in its place"
        )


def _locate(name: str) -> Path | None:
    folder = data_folder()
    # `_mnist` prefers the official files to the one of OpenML.
    candidates = [*([folder / "mnist"] if name == "mnist" else []), folder / FILES[name]]
    return next((path for path in candidates if path.exists()), None)


def _info(
    name: str,
    loader: Callable[..., Dataset],
    description: str,
    individuals: int,
    views: tuple[str, ...],
    source: str,
) -> DatasetInfo:
    return DatasetInfo(
        name=name,
        description=description,
        individuals=individuals,
        views=views,
        source=source,
        loader=loader,
        locate=partial(_locate, name),
        fetch=partial(fetch, name),
    )


MNIST = _info(
    "mnist",
    _mnist,
    "handwritten digits, 28×28, and their edges (60,000 train, 10,000 test)",
    70_000,
    ("image", "edge"),
    "MNIST (LeCun, Cortes, Burges); OpenML 554",
)
MFDD = _info(
    "mfdd",
    _mfdd,
    "handwritten digits by six feature sets",
    2_000,
    ("fou", "fac", "kar", "pix", "zer", "mor"),
    "Multiple Features (UCI); OpenML 12, 14, 16, 18, 22, 40979",
)
MADELON = _info(
    "madelon",
    _madelon,
    "twenty informative features among 480 probes, in four random views",
    2_600,
    ("part_1", "part_2", "part_3", "part_4"),
    "Madelon (NIPS 2003 challenge, UCI); OpenML 1485",
)
SCENE15 = _info(
    "scene15",
    _scene15,
    "photographs of fifteen kinds of scene by three descriptors",
    4_485,
    ("descriptor_20", "descriptor_59", "descriptor_40"),
    "Scene-15, as in github.com/XLearning-SCU/2021-CVPR-Completer",
)
TCGA_BRCA = _info(
    "tcga_brca",
    _tcga_brca,
    "breast cancers by gene, microRNA and protein; protein really missing for 70",
    220,
    ("mrna", "mirna", "protein"),
    "TCGA, as in the R package mixOmics (breast.TCGA)",
)
CREDIT = _info(
    "credit",
    _credit,
    "credit card clients by demographics, payment status, bills and payments",
    30_000,
    ("demo", "pay_status", "bill_amt", "pay_amt"),
    "Default of Credit Card Clients (UCI); OpenML 42477",
)
