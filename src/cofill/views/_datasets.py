"""Data sets as views with labels: three that cofill brings, and those of installed packages.

``wdbc``, ``digits`` and ``cube`` need no file. Another package adds a data set by an entry point of
the group ``cofill.datasets`` that loads a `DatasetInfo`; cofill-papers brings those of the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, UInt8

from cofill.errors import SettingError
from cofill.registry import Registry, require_settings
from cofill.views._feature import Feature
from cofill.views._keys import Key, stream
from cofill.views._multiview import MultiView
from cofill.views._view import View

DATASETS = Registry("cofill.datasets", "data set")


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


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """An entry of `DATASETS`: what a data set is, where it lies, and how to load and fetch it.

    Parameters
    ----------
    name
        The name it is registered under.
    description
        One line about the individuals and the views.
    individuals
        How many there are.
    views
        Names of the views.
    source
        Where the data come from.
    loader
        Returns the data; its keyword arguments are the options of `load`.
    locate
        Returns the file or folder that `loader` would read, None where it is missing; left out
        when the data are embedded.
    fetch
        Downloads the data into a folder (None: the data folder) and returns where they are.
    """

    name: str
    description: str
    individuals: int
    views: tuple[str, ...]
    source: str
    loader: Callable[..., Dataset]
    locate: Callable[[], Path | None] | None = None
    fetch: Callable[[Path | None], Path] | None = None

    @property
    def where(self) -> str:
        """``"embedded"``, the path of the data, or ``"not here"``."""
        return "embedded" if self.locate is None else str(self.locate() or "not here")

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
        Those of the data set. ``cube``: `key`. Of cofill-papers, ``madelon``: `key` (which features
        go to which view); ``mnist``: `part` (``"train"`` or ``"test"``) and `limit` (the first so
        many); ``mfdd``: `mor` (False leaves the view out that the paper does not name).

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
    loader = _find(name).loader
    require_settings(f"data set {name!r}", options, signature(loader).parameters)
    return loader(**options)


def fetch(name: str, folder: str | Path | None = None) -> Path:
    """Download a data set into a folder (the data folder when left out); return where it is."""
    info = _find(name)
    if info.fetch is None:
        raise SettingError(
            f"name must be a data set that can be fetched, got {name!r}, which is {info.where}"
        )
    return info.fetch(None if folder is None else Path(folder))


def datasets() -> tuple[DatasetInfo, ...]:
    """List the data sets: embedded ones first, then those of installed packages.

    Examples
    --------
    >>> [d.name for d in datasets() if d.where == "embedded"]
    ['wdbc', 'digits', 'cube']
    """
    return tuple(
        # One broken package must not take the list away; loading its set raises the reason.
        DatasetInfo(
            name=entry.name,
            description=entry.summary,
            individuals=0,
            views=(),
            source=entry.package,
            loader=entry.load,
            locate=lambda: None,
        )
        if entry.is_broken
        else entry.load()
        for entry in DATASETS
    )


def papers_hint() -> str:
    """Return how to install the papers' data sets, or nothing where they are installed."""
    if "cofill-papers" in DATASETS.packages:
        return ""
    return (
        "the papers' data sets (MNIST among them) come with the distribution cofill-papers; "
        "install it by `pip install cofill-papers`"
    )


def _find(name: str) -> DatasetInfo:
    try:
        return DATASETS.load(name)
    except SettingError as error:
        hint = "" if name in DATASETS.names else papers_hint()
        raise SettingError(f"{error} ({hint})" if hint else str(error)) from None


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


def make_dataset(
    name: str,
    cells: Mapping[str, np.ndarray],
    labels: np.ndarray,
    *,
    source: str,
    class_names: Any = None,
    features: Mapping[str, Any] | None = None,
    splits: Mapping[str, np.ndarray] | None = None,
) -> Dataset:
    """Return a `Dataset` of arrays whose rows are the same individuals in every view.

    Parameters
    ----------
    name
        The data set's name.
    cells
        Rows of each view; an array of more than two axes becomes images.
    labels
        Class of each row, from 0.
    source
        Where the data come from.
    class_names
        What the classes are called; their numbers when left out.
    features
        Names or `Feature` objects of each view's columns; numbered when left out.
    splits
        Masks over the rows, by the name of the official part.
    """
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
        source=source,
        splits=MappingProxyType(dict(splits or {})),
    )


def _wdbc() -> Dataset:
    from sklearn.datasets import load_breast_cancer

    raw: Any = load_breast_cancer()
    names = [str(n).removeprefix("mean ") for n in raw.feature_names[:10]]
    cells = {v: raw.data[:, 10 * k : 10 * k + 10] for k, v in enumerate(("mean", "error", "worst"))}
    return make_dataset(
        "wdbc",
        cells,
        raw.target,
        source=_WDBC.source,
        class_names=raw.target_names,
        features=dict.fromkeys(cells, names),
    )


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    raw: Any = load_digits()
    images = raw.images.astype(np.uint8)
    views = {"image": images, "edge": edges(images)}
    return make_dataset("digits", views, raw.target, source=_DIGITS.source)


def _cube(*, key: Key = 0) -> Dataset:
    """1000 points around the origin and the three unit vectors, seen along each axis."""
    labels = np.repeat(np.arange(4), 250)
    centers = np.vstack([np.zeros(3), np.eye(3)])
    points = centers[labels] + stream(key, "cube").normal(scale=0.1, size=(1000, 3))
    seen = {"along_x": ["y", "z"], "along_y": ["x", "z"], "along_z": ["x", "y"]}
    cells = {v: points[:, ["xyz".index(c) for c in names]] for v, names in seen.items()}
    names = ("origin", "x", "y", "z")
    return make_dataset(
        "cube", cells, labels, source=_CUBE.source, class_names=names, features=seen
    )


_WDBC = DatasetInfo(
    name="wdbc",
    description="cell nuclei of breast masses: mean, standard error and worst of ten measures",
    individuals=569,
    views=("mean", "error", "worst"),
    source="Wisconsin Diagnostic Breast Cancer (UCI), with scikit-learn",
    loader=_wdbc,
)
_DIGITS = DatasetInfo(
    name="digits",
    description="handwritten digits, 8×8, and their edges",
    individuals=1_797,
    views=("image", "edge"),
    source="Optical Recognition of Handwritten Digits, test part (UCI), with scikit-learn",
    loader=_digits,
)
_CUBE = DatasetInfo(
    name="cube",
    description="four clusters in space, seen along each axis",
    individuals=1_000,
    views=("along_x", "along_y", "along_z"),
    source="generated as in section V-A of the Cooperative Reconstruction System",
    loader=_cube,
)
for _info in (_WDBC, _DIGITS, _CUBE):
    DATASETS.add(_info.name, _info, _info.description)
