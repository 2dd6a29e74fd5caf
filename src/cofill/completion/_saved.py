"""A fitted method as a folder: what it learned, and what it remembers of tables; no pickle.

``model.safetensors`` holds the method's name, its parameters, the schemas of its views and what it
learned, in the one format of `cofill.codec`. ``model.json`` says for people what that is, and
cannot be changed apart from it. The folder appears whole or not at all and can be read by its owner
only: a method that compares people, such as ``pooled``, keeps rows of those it learned from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cofill import codec
from cofill.errors import StoreError
from cofill.files import new_folder, read_document, write_atomically
from cofill.metrics import versions

if TYPE_CHECKING:
    from cofill.completion._completer import AbstractCompleter

_FORMAT, _VERSION = "cofill.model", 1
_ABOUT, _LEARNED = "model.json", "model.safetensors"
_CONTENT = {"about", "parameters", "schemas", "learned"}


def save_model(path: str | Path, completer: AbstractCompleter) -> None:
    """Write a fitted method to a new folder that only its owner can read."""
    with new_folder(Path(path), private=True) as folder:
        write_model(folder, completer)


def write_model(folder: Path, completer: AbstractCompleter) -> None:
    """Write a fitted method's files to a folder that exists."""
    about = json.dumps(_about(completer), indent=2, ensure_ascii=False).encode() + b"\n"
    content = {
        "about": about,
        "parameters": completer.get_params(deep=False),
        "schemas": completer.schemas,
        "learned": completer.learned(),
    }
    try:
        codec.save(folder / _LEARNED, content, format=_FORMAT, version=_VERSION, private=True)
    except StoreError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise StoreError(f"the method {completer.name!r} cannot be saved: {error}") from None
    write_atomically(folder / _ABOUT, about, private=True)


def read_about(path: str | Path) -> dict[str, Any]:
    """Return what ``model.json`` says; raise a `StoreError` for a folder that is no model."""
    about = Path(path) / _ABOUT
    if not about.is_file():
        raise StoreError(
            f"{path} is no folder of a model; give one that `cofill complete --save` wrote"
        )
    return read_document(about, _FORMAT, version=_VERSION)


def read_model(path: str | Path) -> dict[str, Any]:
    """Return what `write_model` wrote; raise a `StoreError` for a folder that is not as it was.

    The types of the method must be known: its class must have been imported.
    """
    folder = Path(path)
    content = codec.load(folder / _LEARNED, format=_FORMAT, version=_VERSION)
    if not isinstance(content, dict) or content.keys() != _CONTENT:
        raise StoreError(f"{path} is no complete model; save it again")
    if content["about"] != (folder / _ABOUT).read_bytes():
        raise StoreError(f"{folder / _ABOUT} was changed after it was saved; save the model again")
    return content


def _about(completer: AbstractCompleter) -> dict[str, Any]:
    """Say what a model is: its method and columns; no id, no cell, no category."""
    views = {
        name: {
            "id": schema.id_name,
            "columns": {feature.name: str(feature.kind) for feature in schema.features},
        }
        for name, schema in completer.schemas.items()
    }
    facts = {"method": completer.name, "views": views, "versions": versions()}
    return {"format": _FORMAT, "version": _VERSION, **facts}
