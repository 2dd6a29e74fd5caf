"""Writing results so that a reader finds all of them or none: temporary names, then one rename."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from cofill.errors import DataError

__all__ = ["new_folder", "write_table"]


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes `path` when the block ends without an error.

    After an error or an interrupt the temporary folder is removed and `path` does not exist.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "completed"
    >>> with new_folder(target) as folder:
    ...     _ = (folder / "note.txt").write_text("done")
    >>> (target / "note.txt").read_text()
    'done'
    """
    check_new_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise DataError(_os_fault(path, error)) from None
    try:
        yield folder
        folder.chmod(0o755)
        if path.exists():  # an empty folder: check_new_folder allowed it
            path.rmdir()
        os.replace(folder, path)  # noqa: PTH105  the atomic one
    except OSError as error:
        raise DataError(_os_fault(path, error)) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_new_folder(path: Path) -> None:
    """Raise a `DataError` unless `path` can become a new folder."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        raise DataError(
            f"{path} exists already and is left as it is; give another --out or remove it first"
        )


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as CSV or Parquet, by the file's ending."""
    if path.suffix.lower() in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        pq.write_table(table, path)
        return
    from pyarrow import csv as arrow_csv

    flat = [
        c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns
    ]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    arrow_csv.write_csv(
        pa.table(flat, names=table.column_names),
        path,
        arrow_csv.WriteOptions(delimiter=delimiter, quoting_style="needed"),
    )


def _os_fault(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{path}: the disk is full; nothing was written, free some space and run it again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path} may not be written; check the folder's permissions or give another --out"
    return f"{path} cannot be written ({os.strerror(error.errno or 0)}); nothing was written"
