"""Encode values as bytes and files: one safetensors container with a JSON tree, nothing executable.

Saved estimators, checkpoints, a site's state between steps and messages all use this format. The
container's metadata holds a JSON object with the name and version of the format and the tree of
the value; arrays in the tree are named tensors of the container. Bytes never decide what code
runs: they name types, and a reader only builds the data classes that were registered by `storable`
(or the few that it lists), field by field, without calling their constructors.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cofill.errors import StoreError
from cofill.files import write_atomically

__all__ = ["decode", "encode", "encode_buffers", "load", "save", "storable"]

_HEADER = "cofill"
# Bytes may come from a party that means harm: more would take memory before anything is checked.
_MAX_ARRAYS = 100_000
_MAX_DEPTH = 40
_TOO_DEEP = "these bytes are nested too deeply to be a value of cofill"
_DTYPES = {
    name: np.dtype(code)
    for name, code in (
        *(("BOOL", "?"), ("U8", "u1"), ("I8", "i1"), ("U16", "<u2"), ("I16", "<i2")),
        *(("U32", "<u4"), ("I32", "<i4"), ("U64", "<u8"), ("I64", "<i8")),
        *(("F16", "<f2"), ("F32", "<f4"), ("F64", "<f8")),
    )
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_INLINE_BYTES = 4096  # longer byte strings become tensors, because hexadecimal doubles them

Class = TypeVar("Class", bound=type)
_STORABLE: dict[str, type] = {}


def storable(cls: Class) -> Class:
    """Register a data class, named tuple or enum, so that its values can be encoded.

    Examples
    --------
    >>> @storable
    ... @dataclass
    ... class Range:
    ...     low: float
    ...     high: float
    >>> decode(encode(Range(0.0, 1.0), format="example"), format="example")
    Range(low=0.0, high=1.0)
    """
    known = _STORABLE.setdefault(cls.__name__, cls)
    # A module that is imported a second time defines its classes anew: the latest one counts.
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"{cls.__name__} is the name of two storable classes; rename one of them")
    _STORABLE[cls.__name__] = cls
    return cls


def encode(
    value: Any,
    *,
    format: str,  # noqa: A002
    version: int = 1,
    types: Collection[type] | None = None,
    checksum: bool = False,
) -> bytes:
    """Return a value as bytes; raise a `StoreError` for one of another type than these.

    A value is numbers, texts, bytes, lists, tuples, frozen sets, mappings with text keys, NumPy and
    JAX arrays, and objects of storable classes (of ``types``, where stated), nested. ``format`` and
    ``version`` are what the bytes are: `decode` must be asked for the same. ``checksum`` adds a
    hash of the content, for files that nothing else protects.

    Examples
    --------
    >>> decode(encode({"a": (1, np.arange(2))}, format="example"), format="example")
    {'a': (1, array([0, 1]))}
    """
    buffers = encode_buffers(value, format=format, version=version, types=types, checksum=checksum)
    return b"".join(buffers)


def encode_buffers(
    value: Any,
    *,
    format: str,  # noqa: A002
    version: int = 1,
    types: Collection[type] | None = None,
    checksum: bool = False,
) -> list[memoryview]:
    """Return the bytes of `encode` as buffers that follow each other; large arrays are not copied.

    Whoever changes such an array in place changes its buffer.
    """
    arrays: dict[str, np.ndarray] = {}
    tree = _Encoder(_allowed(types), arrays).down(value)
    header: dict[str, Any] = {"format": format, "version": version, "tree": tree}
    if checksum:
        header["checksum"] = _checksum(tree, arrays)
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    return _container(arrays, text)


def decode(
    content: bytes | memoryview,
    *,
    format: str,  # noqa: A002
    version: int = 1,
    types: Collection[type] | None = None,
) -> Any:
    """Return the value that `encode` wrote; raise a `StoreError` for anything else.

    Of a content that may be written to, an array that is most of it is a part and no copy.
    """
    try:
        view = memoryview(content)
        listed, start = _listed(view)
        header = json.loads(listed["__metadata__"][_HEADER])
        if header["format"] != format:
            raise StoreError(f"these bytes hold {str(header['format'])[:40]!r}, not {format!r}")
        if header["version"] != version:
            raise StoreError(
                f"{format!r} is in version {str(header['version'])[:10]}, and this cofill reads "
                f"version {version}; use the cofill that wrote it"
            )
        arrays = _arrays(view, listed, start)
        if "checksum" in header and header["checksum"] != _checksum(header["tree"], arrays):
            raise StoreError(f"{format!r} is damaged: its content does not match its checksum")
        return _Decoder(_allowed(types), arrays).up(header["tree"], 0)
    except StoreError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        fault = type(error).__name__
        raise StoreError(f"these bytes are no value that cofill encoded ({fault})") from None
    except RecursionError:
        raise StoreError(_TOO_DEEP) from None


def _container(arrays: Mapping[str, np.ndarray], header: str) -> list[memoryview]:
    """Return a safetensors container as buffers: sizes and types of the arrays, then each array."""
    # Wide numbers first, so that each array begins where its type wants it.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, int(name)))
    listed: dict[str, Any] = {"__metadata__": {_HEADER: header}}
    buffers, start = [], 0
    for name in names:
        array = np.asarray(arrays[name], arrays[name].dtype.newbyteorder("<"), order="C")
        if array.dtype not in _DTYPE_NAMES:
            raise StoreError(f"an array of {array.dtype} may not be encoded here")
        end = start + array.nbytes
        dtype = _DTYPE_NAMES[array.dtype]
        listed[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [start, end]}
        # As bytes: an empty array has no view of its own.
        buffers += [array.reshape(-1).view(np.uint8).data] if array.nbytes else []
        start = end
    text = json.dumps(listed, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [memoryview(len(text).to_bytes(8, "little") + text), *buffers]


def _arrays(content: memoryview, listed: Mapping[str, Any], start: int) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors container, which must fill it without gap or overlap.

    An array that is most of a content that may be written to is a view of it; others are copied, so
    that whoever keeps a small one does not keep the whole.
    """
    data = content[start:]
    arrays, end = {}, 0
    entries = {name: entry for name, entry in listed.items() if name != "__metadata__"}
    if len(entries) > _MAX_ARRAYS:
        raise ValueError
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
        first, last = entry["data_offsets"]
        counts = (*shape, first, last)
        if not all(type(count) is int and count >= 0 for count in counts) or first != end:
            raise ValueError
        if math.prod(shape) * dtype.itemsize != last - first or last > len(data):
            raise ValueError
        array = np.frombuffer(data[first:last], dtype).reshape(shape)
        is_view = not content.readonly and 2 * array.nbytes > len(content)
        arrays[name], end = array if is_view else array.copy(), last
    if end != len(data):
        raise ValueError
    return arrays


def save(
    path: str | Path,
    value: Any,
    *,
    format: str,  # noqa: A002
    version: int = 1,
    private: bool = False,
) -> None:
    """Write a value to a file that appears whole or not at all; `private` to its owner only."""
    content = encode(value, format=format, version=version, checksum=True)
    write_atomically(Path(path), content, private=private)


def load(path: str | Path, *, format: str, version: int = 1) -> Any:  # noqa: A002
    """Read the value that `save` wrote; a `StoreError` names the file and what is wrong."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"{path} must be a readable file of cofill: {error.strerror}") from None
    try:
        return decode(content, format=format, version=version)
    except StoreError as error:
        raise StoreError(f"{path} cannot be read: {error}") from None


def _allowed(types: Collection[type] | None) -> dict[str, type]:
    return _STORABLE if types is None else {cls.__name__: cls for cls in types}


def _listed(content: memoryview) -> tuple[Mapping[str, Any], int]:
    """Return what a safetensors container lists, and where its arrays begin."""
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 + size:
        raise ValueError
    return json.loads(bytes(content[8 : 8 + size])), 8 + size


def _checksum(tree: Any, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=32)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Encoder:
    types: Mapping[str, type]
    arrays: dict[str, np.ndarray]

    def down(self, value: Any) -> Any:
        """Return a value as what JSON holds; arrays are put aside."""
        if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
            return value
        if isinstance(value, int | float) and not isinstance(value, Enum | np.generic):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, bytes):
            if len(value) <= _MAX_INLINE_BYTES:
                return {"bytes": value.hex()}
            return {"blob": self._put(np.frombuffer(value, np.uint8))}
        if self.types.get(type(value).__name__) is type(value):
            return self._object(value)
        if isinstance(value, list):
            return [self.down(item) for item in value]
        if type(value) is tuple:
            return {"tuple": [self.down(item) for item in value]}
        if isinstance(value, frozenset):
            return {"set": [self.down(item) for item in sorted(value)]}
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                raise StoreError("a mapping must have texts as keys to be encoded")
            # A list of pairs, because the order of sites and links means something.
            return {"map": [[key, self.down(item)] for key, item in value.items()]}
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            return self._array(value)
        raise StoreError(f"{type(value).__name__} is no type that may be encoded here")

    def _object(self, value: Any) -> Any:
        name = type(value).__name__
        if isinstance(value, Enum):
            return {"enum": name, "value": value.value}
        pairs = [[field, self.down(getattr(value, field))] for field in _field_names(type(value))]
        return {"type": name, "fields": pairs}

    def _array(self, value: Any) -> dict[str, Any]:
        array = np.asarray(value)
        # JAX's arrays come back as JAX's: networks are applied by programs that expect them.
        kind = "number" if isinstance(value, np.generic) else "device"
        kind = "array" if isinstance(value, np.ndarray) else kind
        note: dict[str, Any] = {}
        if array.dtype.kind == "S":
            note = {"width": array.dtype.itemsize, "shape": list(array.shape)}
            array = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        elif array.dtype.kind not in "fiub":
            raise StoreError(f"an array of {array.dtype} may not be encoded here")
        return {kind: self._put(np.ascontiguousarray(array).reshape(array.shape)), **note}

    def _put(self, array: np.ndarray) -> str:
        name = str(len(self.arrays))
        self.arrays[name] = array
        return name


@dataclass(frozen=True)
class _Decoder:
    types: Mapping[str, type]
    arrays: Mapping[str, np.ndarray]

    def up(self, tree: Any, depth: int) -> Any:
        """Return the value that a tree stands for."""
        if depth > _MAX_DEPTH:
            raise StoreError(_TOO_DEEP)
        if isinstance(tree, list):
            return [self.up(item, depth + 1) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "float" in tree:
            return float(tree["float"])
        if "bytes" in tree:
            return bytes.fromhex(tree["bytes"])
        if "blob" in tree:
            return self.arrays[tree["blob"]].tobytes()
        if "tuple" in tree:
            return tuple(self.up(item, depth + 1) for item in tree["tuple"])
        if "set" in tree:
            return frozenset(self.up(item, depth + 1) for item in tree["set"])
        if "map" in tree:
            return {key: self.up(item, depth + 1) for key, item in tree["map"]}
        if "array" in tree:
            return _shaped(tree, self.arrays[tree["array"]])
        if "number" in tree:
            return self.arrays[tree["number"]][()]
        if "device" in tree:
            import jax

            return jax.device_put(self.arrays[tree["device"]])
        return self._object(tree, depth)

    def _object(self, tree: Mapping[str, Any], depth: int) -> Any:
        name = tree.get("type", tree.get("enum"))
        if not isinstance(name, str) or name not in self.types:
            unknown = repr(str(name)[:40])
            raise StoreError(f"these bytes name the type {unknown}, which is not allowed here")
        cls = self.types[name]
        if "enum" in tree:
            return cls(tree["value"])
        values = {field: self.up(item, depth + 1) for field, item in tree["fields"]}
        if set(_field_names(cls)) != values.keys():
            raise StoreError(f"{name} was encoded by another version of cofill")
        if issubclass(cls, tuple):
            return cls(**values)
        # No constructor runs: it could refuse, change or compute something from foreign values.
        instance = object.__new__(cls)
        for field, value in values.items():
            object.__setattr__(instance, field, value)
        return instance


def _field_names(cls: type) -> tuple[str, ...]:
    if is_dataclass(cls):
        return tuple(field.name for field in fields(cls))
    names = getattr(cls, "_fields", None)
    if names is None:
        raise StoreError(f"{cls.__name__} is neither a data class nor a named tuple")
    return names


def _shaped(note: Mapping[str, Any], array: np.ndarray) -> np.ndarray:
    if "width" not in note:
        return array
    width, shape = int(note["width"]), tuple(int(size) for size in note["shape"])
    if not 0 < width <= 64:
        raise StoreError("a text in an array must have 1 to 64 bytes")
    return np.frombuffer(array.tobytes(), f"S{width}").reshape(shape)
