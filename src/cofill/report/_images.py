"""Originals and what was made of them, side by side, where a record keeps such images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from cofill.metrics import unpacked_images
from cofill.pages import Section, choice, image_rows
from cofill.report._records import Records, headed_section

_MOST = 12
_NOT_IMAGES = ("rows", "names")


def images(records: Records) -> Section | None:
    """Return the images of records; records keep some of public test sets only."""
    shown = {record.name: _generated(extra) for record, extra in records.extras("images")}
    for record, extra in records.extras("digits"):
        shown[record.name] = shown.get(record.name, {}) | _reconstructed(extra)
    return headed_section(
        "Originals and completions",
        "images",
        "Images of a public test set that no training has seen, and what was made in their place.",
        [
            (record.title, [choice("images", shown[record.name])])
            for record in records.of("result")
            if shown.get(record.name)
        ],
    )


def _generated(methods: Mapping[str, Any]) -> dict[str, Markup]:
    """Return images of federated completion: per method, the last round's beside the originals."""
    by_method = {}
    for method, rounds in methods.items():
        rows: dict[str, np.ndarray] = {}
        for when, views in rounds.items():
            for name, pixels in views.items():
                label = f"{name}, {when}" if " from " in name else name
                rows[label] = unpacked_images(pixels)[:_MOST] / 255
        originals_first = dict(sorted(rows.items(), key=lambda row: " from " in row[0]))
        by_method[method] = image_rows(originals_first, caption=f"Made by {method}.")
    return by_method


def _reconstructed(digits: Mapping[str, Any]) -> dict[str, Markup]:
    """Return reconstructed pixel views: the best and the worst of each class."""
    tall, wide = digits["shape"]
    by_rank = {}
    for rank in ("best", "worst"):
        views = digits.get(rank)
        if not isinstance(views, Mapping):
            continue
        rows = {
            name: np.asarray(pixels[:_MOST], dtype=np.float64).reshape(-1, tall, wide)
            for name, pixels in views.items()
            if name not in _NOT_IMAGES
        }
        if rows:
            high = float(rows.get("original", next(iter(rows.values()))).max()) or 1.0
            caption = f"One of each class, the {rank} reconstructed by {digits['by']}."
            by_rank[f"{rank} of each class"] = image_rows(rows, caption=caption, high=high)
    return by_rank
