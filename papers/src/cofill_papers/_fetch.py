"""The files of the papers' data sets: their names, checks when read, and downloads from OpenML."""

from __future__ import annotations

import gzip
import hashlib
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from cofill.errors import DataError, StoreError
from cofill.files import write_atomically
from cofill.paths import data_folder

__all__ = ["ELSEWHERE", "FILES", "fetch", "read_idx", "read_npz"]

# Where the sets that OpenML does not hold, or not in this form, come from.
ELSEWHERE: Mapping[str, str] = {
    "scene15": "Scene-15's three descriptors are in the repository "
    "github.com/XLearning-SCU/2021-CVPR-Completer (data/Scene_15.mat)",
    "tcga_brca": "the breast cancer data are breast.TCGA in the R package mixOmics "
    "(github.com/mixOmicsTeam/mixOmics)",
}
FILES: Mapping[str, str] = {
    "mnist": "mnist.npz",
    "mfdd": "mfeat.npz",
    "madelon": "madelon.npz",
    "scene15": "scene15.npz",
    "tcga_brca": "tcga_brca_mixomics.npz",
    "credit": "credit_default.npz",
}
_IDX_MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
_CREDIT_COLUMNS = {
    "demo": ["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"],
    "pay_status": ["PAY_0", *(f"PAY_{k}" for k in range(2, 7))],
    "bill_amt": [f"BILL_AMT{k}" for k in range(1, 7)],
    "pay_amt": [f"PAY_AMT{k}" for k in range(1, 7)],
}
_MFEAT_IDS = {"fou": 14, "fac": 12, "kar": 16, "pix": 40979, "zer": 22, "mor": 18}
_MFEAT_WIDTHS = {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}

OpenML = Callable[..., Any]


def require_file(name: str, path: Path) -> Path:
    """Return a data set's file, or say what is missing and what to do."""
    if path.is_file():
        return path
    get = ELSEWHERE.get(name) or f"run `cofill datasets fetch {name}` where there is a network"
    raise DataError(
        f"data set {name!r}: the file {path.name} is missing, looked for in {path.parent}; {get}, "
        "or set COFILL_DATA to a folder that has it"
    )


def read_npz(name: str, path: Path) -> dict[str, np.ndarray]:
    """Read a data set's ``.npz``; where a ``.sha256`` file lies beside it, both must agree."""
    require_file(name, path)
    seal = path.with_name(path.name + ".sha256")
    if seal.is_file() and _digest(path, "sha256") != seal.read_text().split()[0]:
        raise _damaged(name, path, f"its SHA-256 is not the one in {seal.name}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {field: stored[field] for field in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(name, path, "it is not a readable .npz of arrays") from error


def read_idx(path: Path, *, limit: int | None = None) -> np.ndarray:
    """Read one of MNIST's official idx files, whose MD5 is known, into ``uint8``."""
    require_file("mnist", path)
    if _digest(path, "md5") != _IDX_MD5[path.name]:
        raise _damaged("mnist", path, "its MD5 is not the official one")
    with gzip.open(path) as file:
        n_axes = file.read(4)[3]
        shape = [int(s) for s in np.frombuffer(file.read(4 * n_axes), dtype=">u4")]
        shape[0] = shape[0] if limit is None else min(limit, shape[0])
        return np.frombuffer(file.read(int(np.prod(shape))), dtype=np.uint8).reshape(shape)


def fetch(name: str, folder: Path | None = None, *, openml: OpenML | None = None) -> Path:
    """Download a data set through OpenML into the data folder, and seal it with a checksum.

    A file that is there and sound is left as it is. The file appears under its name only when it
    is whole.

    Parameters
    ----------
    name
        A name of `FILES`.
    folder
        Where to put it; `data_folder` when left out.
    openml
        What to download with, called as scikit-learn's ``fetch_openml``, which it is when left out.

    Returns
    -------
    pathlib.Path
        The file (for MNIST the folder of the official files, where they are there).
    """
    if name in ELSEWHERE:
        raise DataError(
            f"data set {name!r} is not on OpenML; {ELSEWHERE[name]}: store it as {FILES[name]} "
            "(arrays view_<name> and y) in the folder that COFILL_DATA names"
        )
    path = (data_folder() if folder is None else folder) / FILES[name]
    official = path.with_name("mnist")
    if name == "mnist" and all((official / file).is_file() for file in _IDX_MD5):
        return official
    if path.is_file():
        try:
            read_npz(name, path)
        except DataError:
            pass  # damaged: fetch it again
        else:
            return path
    makers = {"mnist": _mnist, "mfdd": _mfdd, "madelon": _madelon, "credit": _credit}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns at every retry
            arrays = makers[name](_fetch_openml() if openml is None else openml)
    except DataError:
        raise
    except (OSError, ValueError, TypeError, KeyError, ImportError) as error:
        raise DataError(
            f"data set {name!r} could not be fetched from OpenML ({type(error).__name__}); check "
            "the network and try again, or set COFILL_DATA to a folder that has "
            f"{FILES[name]}"
        ) from error
    _store(path, arrays)
    return path


def _fetch_openml() -> OpenML:
    from sklearn.datasets import fetch_openml

    return fetch_openml


def _table(openml: OpenML, data_id: int, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Download one OpenML set as numbers and classes from 0, and check its shape."""
    cells, classes = openml(
        data_id=data_id,
        as_frame=False,
        return_X_y=True,
        cache=False,  # nothing is left behind when it fails
        n_retries=1,
        parser="pandas" if find_spec("pandas") else "liac-arff",
    )
    cells = np.asarray(cells)
    if cells.dtype.kind not in "fiub":
        cells = cells.astype(np.float64)
    if cells.shape != shape or len(classes) != shape[0]:
        raise DataError(
            f"OpenML's data set {data_id} must have {shape[0]:,} rows and {shape[1]} columns, got "
            f"{' × '.join(map(str, cells.shape))}; it has changed, set COFILL_DATA to a folder "
            "that has the data"
        )
    numbers = np.asarray(classes).astype(str).astype(np.float64)
    return cells, np.unique(numbers, return_inverse=True)[1].astype(np.uint8)


def _mnist(openml: OpenML) -> dict[str, np.ndarray]:
    cells, y = _table(openml, 554, (70_000, 784))
    return {"view_image": cells.astype(np.uint8), "y": y}


def _mfdd(openml: OpenML) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name, data_id in _MFEAT_IDS.items():
        cells, y = _table(openml, data_id, (2_000, _MFEAT_WIDTHS[name]))
        if not np.array_equal(arrays.setdefault("y", y), y):
            raise DataError(
                f"OpenML's data set {data_id} (mfeat, view {name!r}) must have its rows in the "
                "order of the other views, got other classes; set COFILL_DATA to a folder that "
                "has mfeat.npz"
            )
        arrays[f"view_{name}"] = cells.astype(np.uint8 if name == "pix" else np.float32)
    return arrays


def _madelon(openml: OpenML) -> dict[str, np.ndarray]:
    cells, y = _table(openml, 1485, (2_600, 500))
    cells = cells.astype(np.uint16)
    return {
        "view_all": cells[:2_000],
        "y": y[:2_000],
        "view_all_valid": cells[2_000:],
        "y_valid": y[2_000:],
    }


def _credit(openml: OpenML) -> dict[str, np.ndarray]:
    cells, y = _table(openml, 42477, (30_000, 23))
    arrays, start = {"y": y}, 0
    for name, columns in _CREDIT_COLUMNS.items():
        arrays[f"view_{name}"] = cells[:, start : start + len(columns)].astype(np.float32)
        arrays[f"names_{name}"] = np.array(columns)
        start += len(columns)
    return arrays


def _store(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays, and their checksum beside them."""
    packed = io.BytesIO()
    # The stubs take every keyword of savez_compressed for its allow_pickle.
    np.savez_compressed(packed, **dict[str, Any](arrays))
    content = packed.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
        write_atomically(path.with_name(f"{path.name}.sha256"), f"{digest}  {path.name}\n".encode())
    except (OSError, StoreError) as error:
        raise DataError(f"{error}; choose a folder you may write to (COFILL_DATA)") from error


def _digest(path: Path, method: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, method).hexdigest()


def _damaged(name: str, path: Path, why: str) -> DataError:
    way_out = "" if name in ELSEWHERE else f" and run `cofill datasets fetch {name}`"
    return DataError(
        f"data set {name!r}: the file {path} is damaged or was changed ({why}); "
        f"remove it{way_out}, or put an untouched copy in its place"
    )
