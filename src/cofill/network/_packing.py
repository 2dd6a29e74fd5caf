"""Values as bytes without pickle: a JSON tree, and the arrays that it names in safetensors.

Nothing in the bytes decides what code runs: they name types, and only the types that the reader
lists are made. What a release's type says about its fields is checked by `_releases`; this module
knows containers, numbers, texts, arrays, and data classes of a given list.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from cofill.errors import StoreError

__all__ = ["pack", "unpack"]

_MOST_ARRAYS = 100_000
_DEEPEST = 40
_SHORT = 4096  # bytes that are written as hexadecimal digits


def pack(value: Any, types: Mapping[str, type]) -> bytes:
    """Return a value as bytes; raise a `StoreError` for a type that is not listed.

    Examples
    --------
    >>> unpack(pack({"a": (1, np.arange(2))}, {}), {})
    {'a': (1, array([0, 1]))}
    """
    from safetensors.numpy import save

    arrays: dict[str, np.ndarray] = {}
    known = {kind: name for name, kind in types.items()}
    tree = json.dumps(_down(value, known, arrays), separators=(",", ":"), allow_nan=False).encode()
    return b"".join([len(tree).to_bytes(8, "little"), tree, save(arrays)])


def unpack(content: bytes, types: Mapping[str, type]) -> Any:
    """Return the value that `pack` wrote; raise a `StoreError` for anything else."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        size = int.from_bytes(content[:8], "little")
        if len(content) < 8 + size:
            raise ValueError
        tree = json.loads(content[8 : 8 + size])
        arrays = load(bytes(memoryview(content)[8 + size :]))
        if len(arrays) > _MOST_ARRAYS:
            raise ValueError
        return _up(tree, types, arrays, 0)
    except StoreError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, SafetensorError) as error:
        raise StoreError(
            f"these bytes are no value that cofill packed ({type(error).__name__})"
        ) from None
    except RecursionError:
        raise StoreError("these bytes are nested too deeply to be a value of cofill") from None


def _down(value: Any, known: Mapping[type, str], arrays: dict[str, np.ndarray]) -> Any:
    """Turn a value into what JSON holds; arrays go to the side."""
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, int | float) and not isinstance(value, Enum | np.generic):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, bytes):
        if len(value) <= _SHORT:
            return {"bytes": value.hex()}
        name = str(len(arrays))
        arrays[name] = np.frombuffer(value, np.uint8)
        return {"blob": name}
    if type(value) in known:
        return _object(value, known, arrays)
    if isinstance(value, list):
        return [_down(v, known, arrays) for v in value]
    if isinstance(value, tuple):
        return {"tuple": [_down(v, known, arrays) for v in value]}
    if isinstance(value, frozenset):
        return {"set": [_down(v, known, arrays) for v in sorted(value)]}
    if isinstance(value, Mapping):
        if not all(isinstance(k, str) for k in value):
            raise StoreError("a mapping must have texts as keys to be packed")
        return {"map": [[k, _down(v, known, arrays)] for k, v in value.items()]}
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _array(value, arrays)
    raise StoreError(f"{type(value).__name__} is no type that may be packed here")


def _object(value: Any, known: Mapping[type, str], arrays: dict[str, np.ndarray]) -> Any:
    name = known[type(value)]
    if isinstance(value, Enum):
        return {"enum": name, "value": value.value}
    parts = [[f.name, _down(getattr(value, f.name), known, arrays)] for f in fields(value)]
    return {"type": name, "fields": parts}


def _array(value: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    name = str(len(arrays))
    plain = np.asarray(value)
    # jax's arrays come back as jax's: networks are applied by programs that expect them.
    kind = "array" if isinstance(value, np.ndarray) else "number"
    if kind == "number" and not isinstance(value, np.generic):
        kind = "device"
    note: dict[str, Any] = {kind: name}
    if plain.dtype.kind == "S":
        note["width"] = plain.dtype.itemsize
        note["shape"] = list(plain.shape)
        plain = np.frombuffer(np.ascontiguousarray(plain).tobytes(), np.uint8)
    elif plain.dtype.kind not in "fiub":
        raise StoreError(f"an array of {plain.dtype} may not be packed here")
    arrays[name] = np.ascontiguousarray(plain).reshape(plain.shape)
    return note


def _up(tree: Any, types: Mapping[str, type], arrays: Mapping[str, np.ndarray], deep: int) -> Any:
    """Turn what JSON held back into a value."""
    if deep > _DEEPEST:
        raise StoreError("these bytes are nested too deeply to be a value of cofill")
    if isinstance(tree, list):
        return [_up(v, types, arrays, deep + 1) for v in tree]
    if not isinstance(tree, dict):
        return tree
    if "float" in tree:
        return float(tree["float"])
    if "bytes" in tree:
        return bytes.fromhex(tree["bytes"])
    if "blob" in tree:
        return arrays[tree["blob"]].tobytes()
    if "tuple" in tree:
        return tuple(_up(v, types, arrays, deep + 1) for v in tree["tuple"])
    if "set" in tree:
        return frozenset(_up(v, types, arrays, deep + 1) for v in tree["set"])
    if "map" in tree:
        return {k: _up(v, types, arrays, deep + 1) for k, v in tree["map"]}
    if "array" in tree:
        return _restored(tree, arrays[tree["array"]])
    if "number" in tree:
        return arrays[tree["number"]][()]
    if "device" in tree:
        import jax.numpy as jnp

        return jnp.asarray(arrays[tree["device"]])
    name = tree.get("type", tree.get("enum"))
    if not isinstance(name, str) or name not in types:
        raise StoreError(f"these bytes name the type {str(name)[:40]!r}, which is not allowed here")
    kind = types[name]
    if "enum" in tree:
        return kind(tree["value"])
    given = {k: _up(v, types, arrays, deep + 1) for k, v in tree["fields"]}
    return _made(kind, given)


def _restored(note: Mapping[str, Any], array: np.ndarray) -> np.ndarray:
    if "width" not in note:
        return array
    width, shape = int(note["width"]), tuple(int(n) for n in note["shape"])
    if not 0 < width <= 64:
        raise StoreError("a text in an array must have 1 to 64 bytes")
    return np.frombuffer(array.tobytes(), f"S{width}").reshape(shape)


def _made(kind: type, given: Mapping[str, Any]) -> Any:
    """Make an object of its fields, as they were when it was taken apart."""
    if not is_dataclass(kind) or {f.name for f in fields(kind)} != given.keys():
        raise StoreError(f"{kind.__name__} was packed by another version of cofill")
    made = object.__new__(kind)
    for name, value in given.items():
        object.__setattr__(made, name, value)
    return made
