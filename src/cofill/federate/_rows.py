"""A site's individuals as its networks see them: one wide row, and which of its cells are known.

The modalities of an individual are the blocks of one row; a missing modality, and a missing cell,
hold zero and are not known. `Shape` says which columns belong to which modality, and is all that a
network needs to know about the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable
from cofill.views import Kind, MultiView, Scaler


@storable
@dataclass(frozen=True)
class Shape:
    """Which columns of a row belong to which modality.

    Parameters
    ----------
    names, sizes
        Modalities and their numbers of columns.
    image
        Height and width when every modality is an image of that size, else None; a modality has as
        many channels as its columns are times its pixels.
    bounded
        Whether cells lie between 0 and 1, so that outputs must.
    widths
        Columns of each feature, of which a category has several.
    people
        Individuals of all sites together, as far as the survey of columns counted them.

    Examples
    --------
    >>> shape = Shape(("image", "edge"), (64, 64), image=(8, 8), bounded=True)
    >>> shape.slices["edge"], shape.size
    (slice(64, 128, None), 128)
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    image: tuple[int, int] | None = None
    bounded: bool = False
    widths: tuple[int, ...] = ()
    people: int = 0

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Columns by modality."""
        ends = np.cumsum(self.sizes)
        return {
            name: slice(int(end) - size, int(end))
            for name, size, end in zip(self.names, self.sizes, ends, strict=True)
        }

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of each modality's pixels; none where rows are no images."""
        return () if self.image is None else tuple(s // math.prod(self.image) for s in self.sizes)

    @property
    def size(self) -> int:
        """Columns of a row."""
        return sum(self.sizes)

    @property
    def count(self) -> int:
        """Number of modalities."""
        return len(self.names)

    @cached_property
    def owner(self) -> np.ndarray:
        """The modality of each column, as a number."""
        return np.repeat(np.arange(self.count), self.sizes)


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded individuals of one site.

    ``cells`` are zero where not ``known``; ``present`` says which modalities an individual has.
    """

    cells: Float[np.ndarray, "n size"]
    known: Bool[np.ndarray, "n size"]
    present: Bool[np.ndarray, "n count"]

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, positions: np.ndarray) -> Rows:
        """Return the individuals at some positions."""
        return Rows(self.cells[positions], self.known[positions], self.present[positions])

    def positions(self, stream: str) -> np.ndarray:
        """Return the positions of a stream's individuals; `Phase` says which streams there are."""
        if stream == "complete":
            return np.flatnonzero(self.present.all(axis=1))
        count = self.present.sum(axis=1)
        if stream == "several":
            return np.flatnonzero(count > 1)
        modality = int(stream.partition(":")[2])
        return np.flatnonzero(self.present[:, modality] & (count == 1))


def encode_rows(views: MultiView, scalers: Mapping[str, Scaler], shape: Shape) -> Rows:
    """Return a site's individuals encoded, in the order of ``views.ids``."""
    n = views.n_individuals
    cells = np.zeros((n, shape.size), dtype=np.float32)
    known = np.zeros((n, shape.size), dtype=bool)
    for name, columns in shape.slices.items():
        # By names and values: these views may have other categories than those of the fit.
        encoded, _ = scalers[name].encode_view(views[name], dtype=np.float32)
        encoded[:, _unscaled(scalers[name])] = np.nan
        present = views.present(name)
        known[present, columns] = ~np.isnan(encoded)
        cells[present, columns] = np.nan_to_num(encoded, nan=0.0)
    # In the order of the shape, which need not be that of the views.
    modalities = np.stack([views.present(name) for name in shape.names], axis=1)
    return Rows(cells, known, modalities)


def _unscaled(scaler: Scaler) -> list[int]:
    """Return the columns of numbers of which none was seen at fit: there is no scale for them."""
    return [
        block.start
        for block in scaler.blocks
        if block.kind is Kind.NUMERIC and scaler.low[block.feature] == -np.inf
    ]
