"""Originals and what was made of them, side by side, where a record keeps such images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cofill.metrics import unpacked_images
from cofill.pages import Html, Part, Section, choice, image_rows
from cofill.report._records import Records
from cofill.report._words import headed, title_of

__all__ = ["images"]

_MOST = 12
_NOT_IMAGES = ("rows", "names")


def images(records: Records) -> Section | None:
    """Return the images of records; records keep some of public test sets only."""
    body: list[tuple[str, Part]] = []
    for record in records.of("result"):
        extra = record.content.extra
        made = _generated(extra["images"]) if isinstance(extra.get("images"), Mapping) else {}
        if isinstance(extra.get("digits"), Mapping):
            made |= _reconstructed(extra["digits"])
        if made:
            body.append((title_of(record.content), choice("images", made)))
    if not body:
        return None
    return Section(
        "Originals and completions",
        headed(body),
        "images",
        "Images of a public test set that no training has seen, and what was made in their place.",
    )


def _generated(methods: Mapping[str, Any]) -> dict[str, Html]:
    """Return images of federated completion: per method, the last round's beside the originals."""
    found = {}
    for method, rounds in methods.items():
        rows: dict[str, np.ndarray] = {}
        for when, made in rounds.items():
            for name, pixels in made.items():
                label = f"{name}, {when}" if " from " in name else name
                rows[label] = unpacked_images(pixels)[:_MOST] / 255
        originals = [name for name in rows if " from " not in name]
        order = [*originals, *(name for name in rows if name not in originals)]
        found[method] = image_rows({n: rows[n] for n in order}, caption=f"Made by {method}.")
    return found


def _reconstructed(digits: Mapping[str, Any]) -> dict[str, Html]:
    """Return reconstructed pixel views: the best and the worst of each class."""
    tall, wide = digits["shape"]
    found = {}
    for which in ("best", "worst"):
        kept = digits.get(which)
        if not isinstance(kept, Mapping):
            continue
        rows = {
            name: np.asarray(pixels[:_MOST], dtype=np.float64).reshape(-1, tall, wide)
            for name, pixels in kept.items()
            if name not in _NOT_IMAGES
        }
        if rows:
            high = float(rows.get("original", next(iter(rows.values()))).max()) or 1.0
            caption = f"One of each class, the {which} reconstructed by {digits['by']}."
            found[f"{which} of each class"] = image_rows(rows, caption=caption, high=high)
    return found
