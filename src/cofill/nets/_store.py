"""Saving and loading networks: one safetensors file with a JSON description, never pickle.

The file's metadata holds the format's name and version, the SHA-256 of the tensors and the
caller's own metadata. Loading fills a pytree of the expected structure; nothing in the file
decides what code runs.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from cofill.errors import StoreError
from cofill.files import write_atomically

__all__ = ["load", "load_arrays", "read_metadata", "save"]

FORMAT = "cofill.nets"
VERSION = 1
HEADER = "cofill"


def save(path: str | Path, tree: PyTree, metadata: Mapping[str, Any] | None = None) -> None:
    """Write the arrays of a network, or of any pytree, with metadata to one file.

    The file appears whole or not at all: it is written beside its place and then renamed.

    Parameters
    ----------
    path
        Where to; an existing file is replaced.
    tree
        Network, list or dictionary of networks, arrays.
    metadata
        What JSON can hold: settings, scales, names.

    Examples
    --------
    >>> import jax, tempfile
    >>> from cofill.nets import MLP
    >>> network = MLP((3, 2), key=jax.random.key(0))
    >>> path = Path(tempfile.mkdtemp()) / "network.safetensors"
    >>> save(path, network, {"view": "blood"})
    >>> load(path, network)[1]
    {'view': 'blood'}
    """
    arrays = _arrays(tree)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": _digest(arrays),
        "metadata": dict(metadata or {}),
    }
    try:
        described = json.dumps(header, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"metadata must be what JSON can hold: {error}.") from None
    write_atomically(Path(path), to_bytes(arrays, {HEADER: described}), private=True)


def load(path: str | Path, like: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """Read what `save` wrote into a pytree of the same structure, and the metadata.

    Parameters
    ----------
    path
        The file.
    like
        A pytree with the structure, shapes and types expected: a freshly made network, or what
        ``jax.eval_shape`` makes of one.

    Raises
    ------
    cofill.errors.StoreError
        If the file is missing, truncated, foreign, altered, too new or of other shapes.

    Examples
    --------
    See `save`.
    """
    path = Path(path)
    arrays, metadata = load_arrays(path)
    wanted = {_name(where): leaf for where, leaf in _array_leaves(like)}
    if wanted.keys() != arrays.keys():
        odd = sorted(wanted.keys() ^ arrays.keys())
        raise StoreError(
            f"{path} must hold the {len(wanted)} arrays of the network asked for, got "
            f"{len(arrays)} arrays and a mismatch at {odd[0]}."
        )
    for name, leaf in wanted.items():
        found = arrays[name]
        if found.shape != tuple(leaf.shape) or found.dtype != np.dtype(leaf.dtype):
            raise StoreError(
                f"{path} must hold {name} as {np.dtype(leaf.dtype)}{list(leaf.shape)}, got "
                f"{found.dtype}{list(found.shape)}."
            )

    def fill(where: Any, leaf: Any) -> Any:
        return jnp.asarray(arrays[_name(where)]) if hasattr(leaf, "shape") else leaf

    return jax.tree_util.tree_map_with_path(fill, like), metadata


def load_arrays(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the arrays of a file by their names, as NumPy holds them, and the metadata.

    A dictionary of arrays that `save` wrote comes back as it was.
    """
    path = Path(path)
    header, arrays = _read(path, tensors=True)
    if _digest(arrays) != header["sha256"]:
        raise StoreError(f"{path} is damaged: its tensors do not match their checksum.")
    return arrays, header["metadata"]


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Read a file's metadata without its arrays, to know what network to make for `load`."""
    return _read(Path(path), tensors=False)[0]["metadata"]


def _read(path: Path, *, tensors: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise StoreError(f"{path} must be a file saved by cofill, got no such file.")
    try:
        with safe_open(path, framework="numpy") as file:
            described = (file.metadata() or {}).get(HEADER)
            names = file.keys() if tensors else []
            arrays = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise StoreError(
            f"{path} is not a whole safetensors file ({type(error).__name__}); save it again."
        ) from None
    try:
        header = json.loads(described or "")
        known = header["format"] == FORMAT
        version = header["version"]
        complete = isinstance(header["sha256"], str) and isinstance(header["metadata"], dict)
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"{path} was not saved by cofill, or its description is damaged."
        ) from None
    if not (known and complete and isinstance(version, int)):
        raise StoreError(f"{path} was not saved by cofill, or its description is damaged.")
    if version > VERSION:
        raise StoreError(
            f"{path} must be of format version {VERSION} or older, got {version}; use a newer "
            "cofill."
        )
    return header, arrays


def _array_leaves(tree: PyTree) -> list[tuple[Any, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(where, leaf) for where, leaf in leaves if hasattr(leaf, "shape")]


def _arrays(tree: PyTree) -> dict[str, np.ndarray]:
    return {
        _name(where): np.ascontiguousarray(jax.device_get(leaf))
        if np.ndim(leaf)
        else np.asarray(leaf)
        for where, leaf in _array_leaves(tree)
    }


def _name(where: Any) -> str:
    return jax.tree_util.keystr(where, simple=True, separator=".") or "value"


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
