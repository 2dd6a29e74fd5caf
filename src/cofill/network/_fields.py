"""Fields of files that people write, with a fault that says what a value must be; and their TOML.

Pydantic checks the files. Every fault becomes one sentence that names the file, the key, what it
must be and what it was. A value that could be a password (a database's URL) is shown without it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field, StrictStr, TypeAdapter, ValidationError
from pydantic.functional_validators import WrapValidator
from pydantic_core import PydanticCustomError

from cofill.errors import SettingError

STRICT = ConfigDict(extra="forbid")
UNKNOWN = "is no setting that is known here; check its spelling or remove it"


def must_be(phrase: str, check: Callable[[Any], Any] | None = None) -> WrapValidator:
    """Return a validator whose fault says what a value must be, whichever check failed."""

    def validate(value: Any, check_type: Callable[[Any], Any]) -> Any:
        with suppress(ValidationError):
            checked = check_type(value)
            if check is None or check(checked):
                return checked
        raise PydanticCustomError("must", phrase.replace("{", "{{"))  # pyright: ignore[reportArgumentType]

    return WrapValidator(validate)


def whole(least: int, most: int) -> Any:
    """Return the type of a whole number between two others."""
    number = f"a whole number from {least:,} to {most:,}"
    return Annotated[int, Field(strict=True, ge=least, le=most), must_be(number)]


Text = Annotated[StrictStr, must_be("a text that is not empty", len)]
OptionalText = Annotated[
    StrictStr | None, must_be("a text that is not empty", lambda text: text != "")
]


def one_of(choices: Any) -> Any:
    """Return the type of one of a few words."""
    return Annotated[choices, must_be(f"one of {', '.join(get_args(choices))}")]


def validate(cls: Any, document: Any, where: str, keys: Mapping[str, str] | None = None) -> Any:
    """Return a checked object, or raise a `SettingError` about the first fault."""
    try:
        return TypeAdapter(cls).validate_python(document)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    key = ""
    for part in fault["loc"]:
        if isinstance(part, int):
            key += f" {part + 1}"
        elif part not in ("[key]", "tuple[constrained-int, ...]"):
            known = (keys or {}).get(part, part) if not key else part
            key += f".{known}" if key else str(known)
    if fault["type"] == "missing":
        raise SettingError(f"{where}: {key} is missing")
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        raise SettingError(f"{where}: {key} {UNKNOWN}")
    phrase = fault["msg"] if fault["type"] == "must" else "of another type"
    raise SettingError(f"{where}: {key} must be {phrase}, got {shown(fault['input'])}")


def shown(value: Any) -> str:
    """Return a value as an error may show it."""
    text = repr(value)
    if "://" in text:
        return "the URL of a database"
    return text if len(text) <= 80 else f"{text[:77]}…"


def read_toml(path: Path, content: bytes | None = None) -> dict[str, Any]:
    """Return a file's tables, or those of its content where it was read; or a `SettingError`."""
    try:
        return tomllib.loads((path.read_bytes() if content is None else content).decode("utf-8"))
    except FileNotFoundError:
        raise SettingError(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise SettingError(f"{path} is a folder; give a .toml file") from None
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        position = re.search(r"\(at .*\)", str(error))
        raise SettingError(
            f"{path} must be TOML; it cannot be read {position[0] if position else ''}".rstrip()
        ) from None
