"""Values that look wrong, in counts and without a cell, before anything is learned from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from cofill.views import Feature, Kind, View

NEARLY_EMPTY = 0.9
"""Share of missing cells from which a column says little about anybody."""

_FAR = 10.0
"""Ranges of the middle 98 % by which a number must lie beyond them to look like a wrong unit.

No value of scikit-learn's breast cancer, diabetes, iris and wine tables lies that far out, and a
weight in grams among kilograms does.
"""
_TRUTH = {"true", "false", "yes", "no", "y", "n", "t", "f", "1", "0"}
_FEW_ROWS = 20  # fewer rows have no middle
_COPIES_FROM = 3  # with fewer columns, people are alike by chance


def suspects(view: View) -> Iterator[str]:
    """Yield a sentence for each thing about a view that its owner should look at."""
    missing = np.isnan(view.cells).mean(axis=0) if len(view) else np.zeros(view.n_features)
    for k, feature in enumerate(view.features):
        where = f"view {view.name!r}: column {feature.name!r}"
        known = view.cells[:, k][~np.isnan(view.cells[:, k])]
        if not len(known):
            continue
        if known.min() == known.max():
            yield f"{where} has one value only and is filled with it"
        if missing[k] >= NEARLY_EMPTY:
            yield f"{where} is empty in {missing[k]:.0%} of the rows; what fills it is a guess"
        if feature.kind is not Kind.NUMERIC:
            yield from _spellings(where, feature)
        elif count := _far_values(feature, known):
            yield (
                f"{where} has {count:,} {'value' if count == 1 else 'values'} far beyond all "
                "others; check for slips and units"
            )
    if not view.id_name and view.n_features >= _COPIES_FROM:
        # Rows with a NaN are never equal; no cell is infinite.
        plain = np.where(np.isnan(view.cells), np.inf, view.cells)
        copies = len(view) - len(np.unique(plain, axis=0))
        if copies:
            what = "row is a copy of another" if copies == 1 else "rows are copies of others"
            yield f"view {view.name!r}: {copies:,} {what}"


def _spellings(where: str, feature: Feature) -> Iterator[str]:
    """Yield a sentence where categories are likely to mean the same."""
    plain = Counter(" ".join(str(value).casefold().split()) for value in feature.categories)
    if len(plain) > 2 and set(plain) <= _TRUTH:
        yield (
            f"{where} spells yes and no in {len(feature.categories)} ways, which are kept apart; "
            "write them in two"
        )
        return
    twice = sum(count for count in plain.values() if count > 1)
    if twice:
        yield (
            f"{where} has {twice} categories that differ only in case or spaces; they are kept "
            "apart unless you write them alike"
        )


def _far_values(feature: Feature, known: np.ndarray) -> int:
    if feature.is_temporal or len(known) < _FEW_ROWS:
        return 0
    low, high = np.quantile(known, (0.01, 0.99))
    if low == high:  # a column that is one value nearly everywhere
        return 0
    far = _FAR * (high - low)
    return int(((known < low - far) | (known > high + far)).sum())
