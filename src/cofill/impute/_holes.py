"""What else is unknown where a cell is missing: practice cells are hidden as the data's holes are.

A known cell of column j stands for a missing one once the same companions are unknown. Under
holes that fall independently a known cell's companions already look so; in views that are absent
as a whole, the companions must be hidden too. `companions` hides column k for a practice cell of
column j so often that k is known as often as it is where j is really missing, and takes which
columns go together from a real row where j is missing.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

_NEGLIGIBLE = 0.1  # share of companions to hide below which none are: sampling noise of shares


def companions(
    known: Bool[np.ndarray, "n d"], column: int, rng: np.random.Generator
) -> Bool[np.ndarray, "n d"] | None:
    """Return which cells to hide beside the known cells of a column, or None where none are."""
    here = known[:, column]
    n = int(here.sum())
    missing = np.flatnonzero(~here)
    if not n or not len(missing):
        return None
    if len(missing) > 20_000:
        missing = rng.choice(missing, 20_000, replace=False)
    known_beside = known[here].mean(axis=0)
    known_without = known[missing].mean(axis=0)
    noise = 2.0 * np.sqrt(0.25 / len(missing) + 0.25 / n)
    keep = np.minimum(1.0, known_without / np.maximum(known_beside, 1e-12))
    hide = np.where(known_beside - known_without > max(_NEGLIGIBLE, noise), 1.0 - keep, 0.0)
    hide[column] = 0.0
    if not hide.any():
        return None
    absent = np.maximum(1.0 - known_without, 1e-12)
    donors = known[rng.choice(missing, len(known))]
    # One draw a row: columns that a donor lacks together are hidden together.
    draw = rng.random((len(known), 1))
    hidden = ~donors & (draw < hide / absent)
    hidden &= known & here[:, None]
    hidden[:, column] = False
    return hidden
