"""Fill one table by another project's imputer, in whatever environment runs this file.

    python bench/imputers.py METHOD IN.npz OUT.npz

IN holds `cells` (floats, NaN where missing), `coded` (whether a column holds codes) and `seed`; OUT
holds `cells` and `seconds`. Nothing of cofill is imported. REMASKER names a checkout of
github.com/tydusky/remasker, which is no package.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import time
import warnings
from unittest.mock import MagicMock

import numpy as np


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules, while it is entered, for absent packages of which nothing is called."""

    def __init__(self, names):
        self.absent = [name for name in names if importlib.util.find_spec(name) is None]

    def __enter__(self):
        sys.meta_path.append(self)

    def __exit__(self, *error):
        # Other libraries ask whether pyarrow is loaded and would take the stand-in for it.
        sys.meta_path.remove(self)
        for name in [m for m in sys.modules if m.split(".")[0] in self.absent]:
            del sys.modules[name]

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.absent:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return MagicMock(name=spec.name, __path__=[])

    def exec_module(self, module):
        pass


def mean(cells, coded, seed):
    return np.where(np.isnan(cells), np.nanmean(cells, axis=0), cells)


def knn(cells, coded, seed):
    from sklearn.impute import KNNImputer

    return KNNImputer(n_neighbors=5).fit_transform(cells)


def iterative(cells, coded, seed):
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return IterativeImputer(max_iter=20, random_state=seed).fit_transform(cells)


def missforest(cells, coded, seed):
    """MissForest (Stekhoven & Bühlmann 2012): iterated random forests, fewest holes first."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    def models(is_coded):
        if is_coded:
            return RandomForestClassifier(100, max_features="sqrt", random_state=seed)
        return RandomForestRegressor(100, max_features=1 / 3, random_state=seed)

    return iterate(cells, coded, models, rounds=5)


def extratrees(cells, coded, seed):
    """Iterated extremely randomised trees, as in scikit-learn's example of its imputer."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    def models(is_coded):
        return (ExtraTreesClassifier if is_coded else ExtraTreesRegressor)(100, random_state=seed)

    return iterate(cells, coded, models, rounds=5)


def iterated_boosting(cells, coded, seed):
    """Histogram boosting iterated from the columns' means."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    def models(is_coded):
        kind = HistGradientBoostingClassifier if is_coded else HistGradientBoostingRegressor
        return kind(random_state=seed)

    return iterate(cells, coded, models, rounds=3)


def iterate(cells, coded, models, rounds):
    """Fill with means and modes, then each column in turn from all others as they are filled."""
    holes = np.isnan(cells)
    filled = np.where(holes, np.nanmean(cells, axis=0), cells)
    for k in np.flatnonzero(coded):
        values, counts = np.unique(cells[~holes[:, k], k], return_counts=True)
        filled[holes[:, k], k] = values[counts.argmax()]
    for _ in range(rounds):
        for k in np.argsort(holes.sum(axis=0)):
            gone = holes[:, k]
            targets = cells[~gone, k]
            if gone.any() and len(np.unique(targets)) > 1:
                others = np.delete(filled, k, axis=1)
                model = models(coded[k]).fit(others[~gone], targets)
                filled[gone, k] = model.predict(others[gone])
    return filled


def boosted(cells, coded, seed):
    """Histogram boosting of every column on the others with their holes, once."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    filled = cells.copy()
    for k in range(cells.shape[1]):
        gone = np.isnan(cells[:, k])
        if gone.any():
            targets = cells[~gone, k]
            if len(np.unique(targets)) < 2:
                filled[gone, k] = targets[0]
                continue
            kind = HistGradientBoostingClassifier if coded[k] else HistGradientBoostingRegressor
            others = np.delete(cells, k, axis=1)
            model = kind(random_state=seed).fit(others[~gone], targets)
            filled[gone, k] = model.predict(others[gone])
    return filled


def hyperimpute(cells, coded, seed):
    import pandas as pd
    from hyperimpute.plugins.imputers import Imputers

    table = pd.DataFrame(cells, columns=[f"c{k}" for k in range(cells.shape[1])])
    return np.asarray(Imputers().get("hyperimpute", random_state=seed).fit_transform(table))


def miceforest(cells, coded, seed):
    import miceforest
    import pandas as pd

    table = pd.DataFrame(cells, columns=[f"c{k}" for k in range(cells.shape[1])])
    for k in np.flatnonzero(coded):
        table[f"c{k}"] = table[f"c{k}"].astype("category")
    kernel = miceforest.ImputationKernel(
        table, num_datasets=5, random_state=seed, mean_match_candidates=0
    )
    kernel.mice(5)
    tables = np.stack([kernel.complete_data(i).to_numpy(dtype=float) for i in range(5)])
    filled = tables.mean(axis=0)
    for k in np.flatnonzero(coded):  # the commonest of the draws
        filled[:, k] = [np.bincount(draws.astype(int)).argmax() for draws in tables[:, :, k].T]
    return filled


def remasker(cells, coded, seed):
    import pandas as pd
    import torch

    vars(np)["float"] = float  # an alias that NumPy dropped after this code was written
    sys.path.insert(0, os.environ["REMASKER"])
    sys.argv = sys.argv[:1]
    with StandIns(["torchvision"]):  # timm names some of it, and ReMasker calls nothing of that
        from remasker_impute import ReMasker

    torch.manual_seed(seed)
    return np.asarray(ReMasker().fit_transform(pd.DataFrame(cells)))


METHODS = {
    f.__name__: f
    for f in (
        mean,
        knn,
        iterative,
        missforest,
        extratrees,
        boosted,
        iterated_boosting,
        hyperimpute,
        miceforest,
        remasker,
    )
}


def main() -> None:
    method, source, out = sys.argv[1:4]
    warnings.filterwarnings("ignore")
    table = np.load(source)
    cells, coded = table["cells"], table["coded"]
    started = time.perf_counter()
    filled = METHODS[method](cells, coded, int(table["seed"]))
    np.savez(out, cells=filled, seconds=time.perf_counter() - started)


if __name__ == "__main__":
    main()
