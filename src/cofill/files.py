"""Files and folders that a reader finds whole or not at all.

Everything is written under a passing name beside its target and renamed once it is whole, so that
a full disk, an interrupt or a crash never leaves half a file under the name people look for.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofill.errors import DataError, StoreError

__all__ = [
    "check_new_folder",
    "draft_of",
    "new_folder",
    "read_document",
    "write_atomically",
    "write_document",
    "write_json",
]


def write_atomically(
    path: Path, content: bytes, *, private: bool = False, sync: bool = True
) -> None:
    """Write a file that appears whole or not at all; an older file is replaced.

    Its folder must exist. Only the owner may read a ``private`` file, from its first byte on.
    Without ``sync`` it may not survive a power cut, which is faster for what can be made again. If
    it cannot be written, a `StoreError` says why, and what was there before is left as it was.
    """
    with draft_of(path, private=private, sync=sync) as draft:
        draft.write_bytes(content)


def write_json(path: Path, value: Any, *, private: bool = False, sync: bool = True) -> None:
    """Write a value as readable JSON, as `write_atomically` does."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(), private=private, sync=sync)


@contextmanager
def draft_of(path: Path, *, private: bool = False, sync: bool = True) -> Iterator[Path]:
    """Give an empty file to write to, which becomes `path` when the block ends without an error.

    For writers that want a file name; parameters and errors are those of `write_atomically`.
    """
    # In the same folder, so that the rename cannot cross to another disk. The ending matches no
    # pattern (*.parquet, *.json) by which finished files are looked for.
    draft = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        # Made with its final rights, not given them afterwards: a key is never readable by others.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644))
        yield draft
        if sync:
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise _fault(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Give a temporary folder that becomes `path` when the block ends without an error.

    After an error or an interrupt the temporary folder is removed and `path` does not exist. Only
    the owner may open a ``private`` folder.

    Examples
    --------
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
        raise _fault(path, error) from error
    try:
        yield folder
        folder.chmod(0o700 if private else 0o755)
        if path.exists():  # an empty folder: check_new_folder allowed it
            path.rmdir()
        os.replace(folder, path)  # noqa: PTH105  the atomic one
    except OSError as error:
        raise _fault(path, error) from error
    except StoreError as error:
        # A file inside could not be written: name the folder the user asked for, not the draft.
        if isinstance(error.__cause__, OSError):
            raise _fault(path, error.__cause__) from error.__cause__
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_new_folder(path: Path) -> None:
    """Raise a `DataError` unless `path` can become a new folder."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        raise DataError(
            f"{path} exists already and is left as it is; give another folder or remove it first"
        )


def _fault(path: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        why = "the disk is full; nothing was written, free some space and run it again"
        return StoreError(f"{path}: {why}")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(
            f"{path} may not be written; check the folder's permissions or choose another folder"
        )
    if error.errno == errno.ENOENT:
        return StoreError(f"{path} cannot be written: its folder does not exist; make it first")
    reason = os.strerror(error.errno or 0)
    return StoreError(f"{path} cannot be written ({reason}); nothing was written")


def write_document(
    path: Path,
    format: str,  # noqa: A002
    value: Mapping[str, Any],
    *,
    version: int = 1,
    private: bool = False,
) -> None:
    """Write a JSON object that names its format and version, as `write_json` does."""
    write_json(path, {"format": format, "version": version, **value}, private=private)


def read_document(path: Path, format: str, *, version: int = 1) -> dict[str, Any]:  # noqa: A002
    """Return the JSON object that `write_document` wrote, without its format and version.

    A file that is missing, no JSON object, or of another format or version is a `StoreError`.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise StoreError(f"{path} must be JSON; it is damaged") from None
    if not isinstance(value, dict) or value.pop("format", None) != format:
        raise StoreError(f"{path} must be a JSON object of format {format!r}")
    if value.pop("version", None) != version:
        raise StoreError(f"{path} must be of version {version}; use the cofill that wrote it")
    return value
