"""The data sets of the papers and a few more, as views with labels.

Three are embedded (``wdbc``, ``digits``, ``cube``) and need no file; the others are read from the
data folder (see `data_folder`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, UInt8

from cofill.errors import DataError, SettingError
from cofill.paths import data_folder
from cofill.registry import suggest
from cofill.views._feature import Feature, Kind
from cofill.views._fetch import FILES, read_idx, read_npz
from cofill.views._keys import Key, stream
from cofill.views._multiview import MultiView
from cofill.views._view import View

__all__ = ["Dataset", "DatasetInfo", "datasets", "edges", "load"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Views with the class of every individual.

    Parameters
    ----------
    name
        The data set's name.
    views
        Its views; ids are positions in the original data.
    labels
        Class of each individual of ``views.ids``, from 0.
    class_names
        What the classes are called.
    source
        Where the data come from.
    splits
        The official parts (``"train"``, ``"test"``, ``"valid"``) as masks over ``views.ids``,
        where the data have them.
    """

    name: str
    views: MultiView
    labels: Int[np.ndarray, " individuals"]
    class_names: tuple[str, ...]
    source: str
    splits: Mapping[str, Bool[np.ndarray, " individuals"]] = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = "".join(f", {int(m.sum()):,} {n}" for n, m in self.splits.items())
        return f"Dataset({self.name!r}, {len(self.class_names)} classes{parts})\n{self.views!r}"

    def split(self, part: str) -> Dataset:
        """Return only the individuals of an official part."""
        if part not in self.splits:
            known = ", ".join(map(repr, self.splits)) or "none"
            raise SettingError(f"data set {self.name!r} has no part {part!r}; its parts: {known}")
        mask = self.splits[part]
        return replace(self, views=self.views.take(mask), labels=self.labels[mask], splits={})


@dataclass(frozen=True)
class DatasetInfo:
    """A line of `datasets`: what there is, and where (embedded, a path, or not here)."""

    name: str
    description: str
    individuals: int
    views: tuple[str, ...]
    where: str

    @property
    def is_here(self) -> bool:
        """Whether it can be loaded now."""
        return self.where != "not here"


def load(name: str, **options: Any) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name
        One of `datasets`.
    options
        ``cube``: `key`. ``madelon``: `key` (which features go to which view). ``mnist``: `part`
        (``"train"`` or ``"test"``) and `limit` (the first so many). ``mfdd``: `mor` (False leaves
        the view out that the paper does not name).

    Examples
    --------
    >>> load("wdbc")
    Dataset('wdbc', 2 classes)
    MultiView of 569 individuals
      mean   569 (100.0 %) × 10 features
      error  569 (100.0 %) × 10 features
      worst  569 (100.0 %) × 10 features
      in every view: 569 individuals
    >>> load("cube", key=1).views["along_z"].feature_names
    ('x', 'y')
    """
    if name not in _CATALOGUE:
        raise SettingError(f"there is no data set {name!r}; {suggest(name, _CATALOGUE)}")
    loader = _CATALOGUE[name].loader
    for option in options:
        if option not in signature(loader).parameters:
            known = ", ".join(signature(loader).parameters) or "none"
            raise SettingError(f"data set {name!r} has no option {option!r}; its options: {known}")
    return loader(**options)


def datasets() -> tuple[DatasetInfo, ...]:
    """List the data sets: embedded ones first, then those of the data folder.

    Examples
    --------
    >>> [d.name for d in datasets() if d.where == "embedded"]
    ['wdbc', 'digits', 'cube']
    """
    return tuple(
        DatasetInfo(name, e.description, e.individuals, e.views, _where(name))
        for name, e in _CATALOGUE.items()
    )


def edges(images: UInt8[np.ndarray, "n height width"]) -> UInt8[np.ndarray, "n height width"]:
    """Return the 3×3 dilation of images minus the images (Fed-VIGAN's second modality).

    Examples
    --------
    >>> dot = np.zeros((1, 3, 4), dtype=np.uint8); dot[0, 1, 1] = 9
    >>> edges(dot)[0]
    array([[9, 9, 9, 0],
           [9, 0, 9, 0],
           [9, 9, 9, 0]], dtype=uint8)
    """
    grown = images.copy()
    np.maximum(grown[:, 1:], images[:, :-1], out=grown[:, 1:])
    np.maximum(grown[:, :-1], images[:, 1:], out=grown[:, :-1])
    tall = grown.copy()
    np.maximum(grown[:, :, 1:], tall[:, :, :-1], out=grown[:, :, 1:])
    np.maximum(grown[:, :, :-1], tall[:, :, 1:], out=grown[:, :, :-1])
    grown -= images
    return grown


def _wdbc() -> Dataset:
    from sklearn.datasets import load_breast_cancer

    raw: Any = load_breast_cancer()
    names = [str(n).removeprefix("mean ") for n in raw.feature_names[:10]]
    cells = {v: raw.data[:, 10 * k : 10 * k + 10] for k, v in enumerate(("mean", "error", "worst"))}
    return _dataset("wdbc", cells, raw.target, raw.target_names, dict.fromkeys(cells, names))


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    raw: Any = load_digits()
    images = raw.images.astype(np.uint8)
    return _dataset("digits", {"image": images, "edge": edges(images)}, raw.target)


def _cube(*, key: Key = 0) -> Dataset:
    """1000 points around the origin and the three unit vectors, seen along each axis."""
    labels = np.repeat(np.arange(4), 250)
    centers = np.vstack([np.zeros(3), np.eye(3)])
    points = centers[labels] + stream(key, "cube").normal(scale=0.1, size=(1000, 3))
    seen = {"along_x": ["y", "z"], "along_y": ["x", "z"], "along_z": ["x", "y"]}
    cells = {v: points[:, ["xyz".index(c) for c in names]] for v, names in seen.items()}
    return _dataset("cube", cells, labels, ("origin", "x", "y", "z"), seen)


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
    return _dataset("mnist", {"image": images, "edge": edges(images)}, labels)


def _mfdd(*, mor: bool = True) -> Dataset:
    stored = _Arrays("mfdd")
    names = [n for n in _CATALOGUE["mfdd"].views if mor or n != "mor"]
    cells = {n: stored[f"view_{n}"] for n in names}
    return _dataset("mfdd", {**cells, "pix": cells["pix"].reshape(-1, 16, 15)}, stored["y"])


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
    return _dataset(
        "madelon",
        {n: cells[:, columns] for n, columns in parts.items()},
        labels,
        ("-1", "+1"),
        features,
        splits={"train": train, "valid": ~train},
    )


def _scene15() -> Dataset:
    stored = _Arrays("scene15")
    cells = {f"descriptor_{w}": stored[f"view_v{k}_{w}"] for k, w in ((1, 20), (2, 59), (3, 40))}
    return _dataset("scene15", cells, stored["y"])


def _tcga_brca() -> Dataset:
    stored = _Arrays("tcga_brca")
    names = _CATALOGUE["tcga_brca"].views
    test = stored["is_test"].astype(bool)
    return _dataset(
        "tcga_brca",
        {n: stored[f"view_{n}"] for n in names},
        stored["y"],
        stored["class_names"],
        {n: [Feature(str(c), dtype="float") for c in stored[f"names_{n}"]] for n in names},
        splits={"train": ~test, "test": test},
    )


def _credit() -> Dataset:
    stored = _Arrays("credit")
    cells, features = {}, {}
    for name in _CATALOGUE["credit"].views:
        cells[name] = stored[f"view_{name}"].copy()
        features[name] = [Feature(str(c), dtype="int64") for c in stored[f"names_{name}"]]
    for k, feature in enumerate(features["demo"]):
        if feature.name in ("SEX", "EDUCATION", "MARRIAGE"):
            values, codes = np.unique(cells["demo"][:, k], return_inverse=True)
            kind = Kind.BINARY if len(values) == 2 else Kind.CATEGORICAL
            categories = tuple(int(v) for v in values)
            features["demo"][k] = replace(feature, kind=kind, categories=categories)
            cells["demo"][:, k] = codes
    return _dataset("credit", cells, stored["y"], ("paid", "default"), features)


def _dataset(
    name: str,
    cells: Mapping[str, np.ndarray],
    labels: np.ndarray,
    class_names: Any = None,
    features: Mapping[str, Any] | None = None,
    splits: Mapping[str, np.ndarray] | None = None,
) -> Dataset:
    """Put a data set together; arrays of more than two axes become images."""
    views = []
    for view, array in cells.items():
        columns = features[view] if features else None
        if columns is None:
            width = int(np.prod(array.shape[1:]))
            stored = "double" if array.dtype == np.float64 else "float"
            columns = [Feature(f"{view}_{k}", dtype=stored) for k in range(width)]
        views.append(View(view, np.arange(len(array)), array, columns))
    classes = np.asarray(labels).astype(np.int64)
    names = range(int(classes.max()) + 1) if class_names is None else class_names
    return Dataset(
        name=name,
        views=MultiView(views),
        labels=classes,
        class_names=tuple(str(c) for c in names),
        source=_CATALOGUE[name].source,
        splits=MappingProxyType(dict(splits or {})),
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


def _where(name: str) -> str:
    if name not in FILES:
        return "embedded"
    folder = data_folder()
    candidates = [*([folder / "mnist"] if name == "mnist" else []), folder / FILES[name]]
    return next((str(path) for path in candidates if path.exists()), "not here")


@dataclass(frozen=True)
class _Entry:
    loader: Callable[..., Dataset]
    description: str
    individuals: int
    views: tuple[str, ...]
    source: str


_CATALOGUE: Mapping[str, _Entry] = {
    "wdbc": _Entry(
        _wdbc,
        "cell nuclei of breast masses: mean, standard error and worst of ten measures",
        569,
        ("mean", "error", "worst"),
        "Wisconsin Diagnostic Breast Cancer (UCI), with scikit-learn",
    ),
    "digits": _Entry(
        _digits,
        "handwritten digits, 8×8, and their edges",
        1_797,
        ("image", "edge"),
        "Optical Recognition of Handwritten Digits, test part (UCI), with scikit-learn",
    ),
    "cube": _Entry(
        _cube,
        "four clusters in space, seen along each axis",
        1_000,
        ("along_x", "along_y", "along_z"),
        "generated as in section V-A of the Cooperative Reconstruction System",
    ),
    "mnist": _Entry(
        _mnist,
        "handwritten digits, 28×28, and their edges (60,000 train, 10,000 test)",
        70_000,
        ("image", "edge"),
        "MNIST (LeCun, Cortes, Burges); OpenML 554",
    ),
    "mfdd": _Entry(
        _mfdd,
        "handwritten digits by six feature sets",
        2_000,
        ("fou", "fac", "kar", "pix", "zer", "mor"),
        "Multiple Features (UCI); OpenML 12, 14, 16, 18, 22, 40979",
    ),
    "madelon": _Entry(
        _madelon,
        "twenty informative features among 480 probes, in four random views",
        2_600,
        ("part_1", "part_2", "part_3", "part_4"),
        "Madelon (NIPS 2003 challenge, UCI); OpenML 1485",
    ),
    "scene15": _Entry(
        _scene15,
        "photographs of fifteen kinds of scene by three descriptors",
        4_485,
        ("descriptor_20", "descriptor_59", "descriptor_40"),
        "Scene-15, as in github.com/XLearning-SCU/2021-CVPR-Completer",
    ),
    "tcga_brca": _Entry(
        _tcga_brca,
        "breast cancers by gene, microRNA and protein; protein really missing for 70",
        220,
        ("mrna", "mirna", "protein"),
        "TCGA, as in the R package mixOmics (breast.TCGA)",
    ),
    "credit": _Entry(
        _credit,
        "credit card clients by demographics, payment status, bills and payments",
        30_000,
        ("demo", "pay_status", "bill_amt", "pay_amt"),
        "Default of Credit Card Clients (UCI); OpenML 42477",
    ),
}
