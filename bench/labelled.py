"""Unlike sets of records with two classes, each with its own units, for attacks on released means.

`DEVELOPMENT` sets may be looked at while methods are built. `ONCE` sets are looked at one time,
when everything is frozen; they were named before the first figure was made. They have been looked
at with the attacks as they are: whoever changes these names two others first.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping

import numpy as np
from sklearn import datasets

from cofill.paths import data_folder

Labelled = tuple[np.ndarray, np.ndarray]


def _views(name: str, *views: str) -> Labelled:
    with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as stored:
        columns = [stored[f"view_{view}"].astype(np.float64) for view in views]
        return np.concatenate(columns, axis=1), stored["y"]


def _table(name: str, label: int | str, is_positive: Callable[[str], bool]) -> Labelled:
    with (data_folder() / "uci" / f"{name}.csv").open() as lines:
        header, *rows = csv.reader(lines)
    at = header.index(label) if isinstance(label, str) else label % len(header)
    kept = [k for k in range(1, len(header)) if k != at]  # the first column is a row number
    records = np.array([[float(row[k]) for k in kept] for row in rows])
    return records, np.array([is_positive(row[at]) for row in rows])


def _mnist() -> Labelled:
    folder = data_folder() / "mnist"
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as stream:
        images = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as stream:
        digits = np.frombuffer(stream.read(), np.uint8, offset=8)
    pair = np.isin(digits, (3, 5))
    return images[pair] / 255.0, digits[pair] == 5


def _usps() -> Labelled:
    with np.load(data_folder() / "usps.npz", allow_pickle=False) as stored:
        images, digits = stored["X"].reshape(-1, 256) / 255.0, stored["y"]
    pair = np.isin(digits, (4, 9))
    return images[pair], digits[pair] == 4


def _credit_default() -> Labelled:
    records, labels = _views("credit_default", "demo", "pay_status", "bill_amt", "pay_amt")
    return records, labels == 1


def _mfeat() -> Labelled:
    records, digits = _views("mfeat", "pix", "fou", "fac", "zer", "kar", "mor")
    return records, digits == 8


def _scene15() -> Labelled:
    records, scenes = _views("scene15", "v1_20", "v2_59", "v3_40")
    return records, scenes < 5


def _madelon() -> Labelled:
    records, labels = _views("madelon", "all")
    return records, labels == 1


def _tcga() -> Labelled:
    records, subtypes = _views("tcga_brca_mixomics", "mrna", "mirna")
    return records, subtypes == 0


def _sklearn(load: Callable[..., Labelled], positive: int) -> Labelled:
    records, labels = load(return_X_y=True)
    return records, labels == positive


def _sparse_binary() -> Labelled:
    """Made up: long-tailed yes-or-no columns, a few hundred of which tell the classes apart."""
    rng = np.random.default_rng(15_551)
    count, features = 1_966, 1_555
    truth = rng.random(count) < 0.45
    usual = np.clip(0.15 / (1 + np.arange(features) / 8), 0.0015, 0.15)
    shift = np.where(rng.random(features) < 0.2, rng.normal(0, 1.0, features), 0.0)
    topics = rng.random((count, 12)) < 0.2
    loading = np.where(rng.random((12, features)) < 0.08, 1.2, 0.0)
    odds = np.log(usual / (1 - usual)) + topics @ loading + np.where(truth[:, None], shift, 0.0)
    return (rng.random((count, features)) < 1 / (1 + np.exp(-odds))).astype(float), truth


def _heavy_tails() -> Labelled:
    """Made up: amounts with heavy tails, codes and flags in units of many sizes, one in nine."""
    rng = np.random.default_rng(41_000)
    count = 8_000
    hidden = rng.normal(size=(count, 4))
    amounts = np.exp(1.3 * hidden[:, [0, 1, 1, 2]] + 0.7 * rng.normal(size=(count, 4)))
    amounts *= [50.0, 1e3, 1e5, 0.01]
    trade = rng.integers(0, 12, count)
    risky = np.isin(trade, (2, 5, 9))
    odds = 1.5 * hidden[:, 0] - 1.5 * hidden[:, 1] + 0.9 * hidden[:, 3] ** 2 + 2.0 * risky - 5.5
    truth = rng.random(count) < 1 / (1 + np.exp(-odds))
    flags = rng.random((count, 5)) < 1 / (1 + np.exp(-hidden[:, [0, 1, 2, 3, 3]]))
    age = np.round(45 + 12 * hidden[:, 3] + 4 * rng.normal(size=count))
    both = amounts[:, 1] + amounts[:, 2]  # one column is the sum of two others
    one_hot = np.eye(12)[trade]
    return np.column_stack([amounts, both, age, flags, one_hot, 1e-6 * hidden[:, 2]]), truth


DEVELOPMENT: Mapping[str, Callable[[], Labelled]] = {
    "mnist 5-3": _mnist,
    "usps 4-9": _usps,
    "credit default": _credit_default,
    "mfeat 8-rest": _mfeat,
    "scene15": _scene15,
    "madelon": _madelon,
    "wdbc": lambda: _sklearn(datasets.load_breast_cancer, 0),
    "digits 8-rest": lambda: _sklearn(datasets.load_digits, 8),
    "wines": lambda: _sklearn(datasets.load_wine, 1),
    "sonar": lambda: _table("sonar", -1, lambda kind: kind == "M"),
    "ionosphere": lambda: _table("ionosphere", -1, lambda kind: float(kind) == 0),
    "parkinsons": lambda: _table("parkinsons", "status", lambda sick: float(sick) == 1),
    "obesity": lambda: _table("obesity", -1, lambda kind: float(kind) in (2, 3, 4)),
    "approval": lambda: _table("credit", -1, lambda kind: float(kind) == 0),
    "raisin": lambda: _table("raisin", -1, lambda kind: float(kind) == 1),
    "blood": lambda: _table("blood", -1, lambda kind: float(kind) == 1),
    "white wine": lambda: _table("wine_white", -1, lambda mark: float(mark) >= 4),
    "sparse binary (synthetic)": _sparse_binary,
    "heavy tails (synthetic)": _heavy_tails,
}
ONCE: Mapping[str, Callable[[], Labelled]] = {
    "tcga": _tcga,
    "letters": lambda: _table("letter", 1, lambda letter: float(letter) < 13),
}
