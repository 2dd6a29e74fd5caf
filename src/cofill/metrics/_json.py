"""Values as plain JSON: what a record may hold."""

import dataclasses
import enum
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from cofill.errors import SettingError


def plain(value: Any, name: str) -> Any:
    """Return a value as dicts, lists, strings, numbers and None, which JSON keeps unchanged.

    NaN becomes None, infinity the string "inf". Arrays and tuples become lists, data classes become
    dicts, paths and members of enumerations become strings. Anything else raises a `SettingError`,
    in which `name` says where it is.

    Examples
    --------
    >>> plain({"epsilon": float("inf"), "widths": np.array([15, 10])}, "settings")
    {'epsilon': 'inf', 'widths': [15, 10]}
    """
    kind = type(value).__name__
    if isinstance(value, enum.Enum):
        return plain(value.value, name)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # JSON has no word for NaN and infinity.
        return float(value) if math.isfinite(value) else None if value != value else str(value)
    if isinstance(value, np.generic | np.ndarray):
        if value.dtype.kind in "biufUO":
            return plain(value.tolist(), name)
        kind = f"an array of {value.dtype}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: plain(getattr(value, f.name), f"{name}.{f.name}") for f in fields}
    if isinstance(value, Mapping):
        return {_key(k, name): plain(v, f"{name}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, f"{name}[{i}]") for i, v in enumerate(value)]
    raise SettingError(
        f"{name} must be made of numbers, strings, lists and dicts to be written as JSON, "
        f"got {kind}."
    )


def _key(key: Any, name: str) -> str:
    if isinstance(key, str | int | np.integer) and not isinstance(key, bool):
        return str(key)
    raise SettingError(f"{name} must have strings for keys, got {type(key).__name__}.")
