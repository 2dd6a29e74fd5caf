"""The best learner: one network that predicts every missing modality from those that are present.

Its input is the whole row with zeros for what is missing, and a flag for each modality that is
present; its output is the whole row. It is trained on individuals with several modalities: some of
these are hidden, in every way that can happen, and the error of the hidden ones is the loss.
Individuals with a single modality train it by a cycle: what is predicted from it must predict it.
Any number of modalities, any pattern, one model.

Images of one size go through a U-Net, in which each modality brings its channels. No setting of it
comes from a named data set:

- Its width and the cells of its largest grid follow from the effort, which follows from the device
  where nobody names it; a larger image is cut into squares of pixels, one cell each, so that work
  stays within what the effort allows. Cells hold all their pixels: nothing is pooled away.
- Rounds follow from the effort, and end when rows that sites hold out find no better model.
- Ten sites take as many steps in a pass as one place does: a step has about 40 rows, all sites
  together. Their mean has a momentum.
- Images are moved by a fourteenth of their side at most while the network learns.

Where the constants come from, each by rows held out of training rows and one seed: the shift from
made-up things beside their edges and beside a blurred copy, and from digits of 8 × 8 pixels; the
momentum from such things and digits; the grid of a quick effort from such things; rows of a step,
learning rate, decay, second moment and widths from such things beside their edges alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.federate._common_model import Phase
from cofill.federate._effort import require_effort
from cofill.federate._learner import AbstractLearner, Batch, Loss, squared_error
from cofill.federate._rows import Shape
from cofill.nets import GridNet, UNet, gather_squares, require_at_least, spread_squares

_WIDTHS = {"quick": 32, "normal": 32, "thorough": 48}  # channels of a cell of the largest grid
_MOST_CELLS = {"quick": 14, "normal": 64, "thorough": 128}  # on a side of the largest grid
_ALL_SITES_BATCH, _LEAST_BATCH = 40, 2  # rows of images in a step, at all sites and at one
# Moved by two pixels, things of 28 pixels were completed better and digits of 8 worse than unmoved
# (`python -m bench images --inside --change shift=0`).
_SIDES_PER_SHIFT = 14
_ALL_PATTERNS = 4  # modalities up to which every way of hiding some is tried


@dataclass(frozen=True)
class CompletionNet(AbstractLearner):
    """One network for all modalities and patterns.

    Parameters
    ----------
    shape
        Of the rows.
    width, blocks
        Of the network: channels at full size for images, units for other rows; residual blocks,
        which are those of the smallest size for images. None for what the effort says.
    patch
        Pixels on a side of the squares that images are cut into, one cell of the network's largest
        grid each: 1 for full size, more for less work. None for what the effort says.
    effort
        How large a network of images is: ``"quick"``, ``"normal"`` or ``"thorough"``.
    shift
        By how many pixels images are moved at most while the network learns, against learning them
        by heart; 0 where a pixel's place matters by itself. None for a fourteenth of their side.
    cycle
        Weight of the cycle loss of individuals with a single modality.

    Examples
    --------
    >>> net = CompletionNet(Shape(("a", "b"), (3, 2)), width=8, blocks=1)
    >>> params = net.init(jax.random.key(0))
    >>> net.fill(params, jnp.ones((4, 5)), jnp.array([[1.0, 0.0]] * 4)).shape
    (4, 5)
    """

    # No fewer rows in a step than the smallest group of a site's default policy, which would refuse
    # an order with the defaults.
    training: ClassVar[Mapping[str, Any]] = {"batch": 10, "learning_rate": 3e-3}

    shape: Shape
    width: int | None = None
    blocks: int | None = None
    patch: int | None = None
    effort: str = "normal"
    shift: int | None = None
    cycle: float | int = 0.0

    def __post_init__(self) -> None:
        require_effort(self.effort)
        require_at_least(self, cycle=0)
        for name, least in (("width", 1), ("blocks", 0), ("patch", 1), ("shift", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingError(f"{name} must be at least {least} or None, got {value}")

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Rounds only."""
        singles = [f"only:{k}" for k in range(self.shape.count)] if self.cycle else []
        return (Phase("rounds", ("several", *singles)),)

    @cached_property
    def _net(self) -> Any:
        shape, count = self.shape, self.shape.count
        blocks = (3 if shape.image is None else 2) if self.blocks is None else self.blocks
        if shape.image is None:
            return GridNet((1, 1), shape.size + count, shape.size, self.width or 64, blocks)
        deep = sum(shape.channels) * self._side**2
        width = self.width or _WIDTHS[self.effort]
        return UNet(*self._grid, deep + count, deep, width, blocks)

    @property
    def _side(self) -> int:
        """Pixels on the side of a cell of the largest grid."""
        assert self.shape.image is not None  # noqa: S101
        return self.patch or math.ceil(max(self.shape.image) / _MOST_CELLS[self.effort])

    @property
    def _grid(self) -> tuple[int, int]:
        """Rows and columns of the largest grid of images."""
        high, wide = self.shape.image or (1, 1)
        return math.ceil(high / self._side), math.ceil(wide / self._side)

    @classmethod
    def image_training(cls, sites: int) -> Mapping[str, Any]:
        """Return what suits a U-Net, at so many sites."""
        return {
            "batch": max(_LEAST_BATCH, _ALL_SITES_BATCH // sites),
            "learning_rate": 4e-3,
            "second_moment": 0.99,
            "weight_decay": 0.1,
            "moments": "keep",
            "warm_up": True,
        }

    @property
    def momentum(self) -> float:
        """Much for images: small batches are noisy, which shortens a site's own steps."""
        return 0.0 if self.shape.image is None else 0.8

    @property
    def held_out(self) -> float:
        """Some rows of images, of which there are many; none of others."""
        return 0.0 if self.shape.image is None else 0.05

    def init(self, key: Array) -> Any:
        return self._net.init(key)

    def fill(self, params: Any, cells: Array, present: Array) -> Array:
        output = self._raw(params, cells, present)
        return jnp.clip(output, 0.0, 1.0) if self.shape.bounded else output

    def _raw(self, params: Any, cells: Array, present: Array) -> Array:
        shape, n = self.shape, len(cells)
        if shape.image is None:
            inputs = jnp.concatenate([cells, present], axis=1)[:, None, None]
            return self._net(params, inputs).reshape(n, -1)
        (high, wide), side = shape.image, self._side
        modalities = zip(shape.slices.values(), shape.channels, strict=True)
        parts = [cells[:, c].reshape(n, high, wide, channels) for c, channels in modalities]
        missing = ((0, -high % side), (0, -wide % side))
        images = jnp.pad(jnp.concatenate(parts, axis=-1), ((0, 0), *missing, (0, 0)), mode="edge")
        flags = jnp.broadcast_to(present[:, None, None], (n, *self._grid, shape.count))
        inputs = jnp.concatenate([gather_squares(images, side), flags], axis=-1)
        output = spread_squares(self._net(params, inputs), side)[:, :high, :wide]
        parts = jnp.split(output, np.cumsum(shape.channels)[:-1], axis=-1)
        return jnp.concatenate([part.reshape(n, -1) for part in parts], axis=1)

    def loss(self, phase: str, params: Any, batches: Mapping[str, Batch], key: Array) -> Loss:
        """Return the error of hidden modalities plus the weighted cycle loss."""
        batch = self._moved(batches["several"], jax.random.fold_in(key, 1))
        # One modality alone is shown whole or not at all: nothing is learnt.
        patterns = self._draw_patterns(batch, key) or [jnp.zeros_like(batch.present)]
        # All patterns are one batch, which an accelerator works off in fewer and larger parts.
        shown = jnp.concatenate(patterns)
        batch = jax.tree.map(lambda table: jnp.concatenate([table] * len(patterns)), batch)
        predicted = self._raw(params, batch.cells * shown[:, self.shape.owner], shown)
        # A row that shows nothing in a pattern predicts nothing.
        scored = (batch.present - shown) * (shown.sum(axis=1, keepdims=True) > 0)
        total = squared_error(predicted, batch, scored, self.shape) / len(patterns)
        figures = {"error": total}
        if self.cycle:
            cycle_loss = jnp.zeros(())
            for k in range(self.shape.count):
                single = batches[f"only:{k}"]
                forward = self._raw(params, single.cells, single.present)
                missing = (1.0 - single.present) * single.weight[:, None]
                back = self._raw(params, forward * missing[:, self.shape.owner], missing)
                cycle_loss += squared_error(back, single, single.present, self.shape)
            total += self.cycle * cycle_loss / self.shape.count
            figures["cycle"] = cycle_loss / self.shape.count
        return total, figures

    def _moved(self, batch: Batch, key: Array) -> Batch:
        """Return a batch whose images are moved by a few pixels, all alike.

        Pixels that come in at a side repeat the last ones, and are not known: nothing is learnt
        from them.
        """
        shape = self.shape
        image = shape.image
        if image is None:
            return batch
        wanted = min(image) // _SIDES_PER_SHIFT if self.shift is None else self.shift
        most = min(wanted, min(image) - 1)
        if not most:
            return batch
        down, right = jax.random.randint(key, (2,), 0, 2 * most + 1)

        def move(table: Array, mode: str) -> Array:
            parts = []
            for columns, channels in zip(shape.slices.values(), shape.channels, strict=True):
                images = table[:, columns].reshape(-1, *image, channels)
                sides = ((0, 0), (most, most), (most, most), (0, 0))
                wider = jnp.pad(images, sides, mode=mode)
                moved = lax.dynamic_slice(wider, (0, down, right, 0), images.shape)
                parts.append(moved.reshape(len(table), -1))
            return jnp.concatenate(parts, axis=1)

        cells, known = move(batch.cells, "edge"), move(batch.known, "constant")
        return batch._replace(cells=cells, known=known)

    def _draw_patterns(self, batch: Batch, key: Array) -> list[Float[Array, "n count"]]:
        """Return which modalities each row shows, in one or two ways."""
        patterns = self._patterns
        if len(patterns) <= 2:
            return [batch.present * jnp.asarray(p) for p in patterns]
        drawn = []
        for way in jax.random.split(key, 2):
            number = jax.random.randint(way, (len(batch.cells),), 0, len(patterns))
            drawn.append(batch.present * jnp.asarray(patterns)[number])
        return drawn

    @cached_property
    def _patterns(self) -> np.ndarray:
        count = self.shape.count
        if count <= _ALL_PATTERNS:
            ways = [p for p in product((1.0, 0.0), repeat=count) if 0 < sum(p) < count]
            return np.array(ways, dtype=np.float32)
        single = np.eye(count, dtype=np.float32)
        half = np.array([[float((k + j) % 2) for k in range(count)] for j in (0, 1)])
        return np.concatenate([1 - single, single, half]).astype(np.float32)
