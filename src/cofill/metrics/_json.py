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
    dicts, paths and members of enumerations become strings.

    Raises
    ------
    SettingError
        When the value, or one inside it, is none of these; `name` says where it is.

    Examples
    --------
    >>> plain({"epsilon": float("inf"), "widths": np.array([15, 10])}, "settings")
    {'epsilon': 'inf', 'widths': [15, 10]}
    """
    if isinstance(value, enum.Enum):
        return plain(value.value, name)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # JSON has no word for these.
        if not math.isfinite(value):
            return None if math.isnan(value) else "inf" if value > 0 else "-inf"
        return float(value)
    if isinstance(value, np.generic | np.ndarray):
        if value.dtype.kind not in "biufUO":
            raise SettingError(_refusal(name, f"an array of {value.dtype}"))
        return plain(value.tolist(), name)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: plain(getattr(value, f.name), f"{name}.{f.name}") for f in fields}
    if isinstance(value, Mapping):
        return {_key(k, name): plain(v, f"{name}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, f"{name}[{i}]") for i, v in enumerate(value)]
    raise SettingError(_refusal(name, type(value).__name__))


def _key(key: Any, name: str) -> str:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(int(key))
    raise SettingError(f"{name} must have strings for keys, got {type(key).__name__}.")


def _refusal(name: str, kind: str) -> str:
    return (
        f"{name} must be made of numbers, strings, lists and dicts to be written as JSON, "
        f"got {kind}."
    )
