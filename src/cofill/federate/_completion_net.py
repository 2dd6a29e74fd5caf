"""The best learner: one network that predicts every missing modality from those that are present.

Its input is the whole row with zeros for what is missing, and a flag for each modality that is
present; its output is the whole row. It is trained on individuals with several modalities: some of
these are hidden, in every way that can happen, and the error of the hidden ones is the loss.
Individuals with a single modality train it by a cycle: what is predicted from it must predict it.
Any number of modalities, any pattern, one model; skip connections keep detail (`cofill.nets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cofill.federate._learner import AbstractLearner, Batch, Loss, Phase, squared_error
from cofill.federate._rows import Shape
from cofill.nets import DetailNet, GridNet, layout_of, require_at_least

_ALL_PATTERNS = 4  # modalities up to which every way of hiding some is tried


@dataclass(frozen=True)
class CompletionNet(AbstractLearner):
    """One network for all modalities and patterns.

    Parameters
    ----------
    shape
        Of the rows.
    width, blocks
        Of the residual network.
    fine
        Channels at full size, for images; 0 for none: much less work, and less detail.
    cycle
        Weight of the cycle loss of individuals with a single modality.

    Examples
    --------
    >>> net = CompletionNet(Shape(("a", "b"), (3, 2)), width=8, blocks=1)
    >>> params = net.init(jax.random.key(0))
    >>> net.fill(params, jnp.ones((4, 5)), jnp.array([[1.0, 0.0]] * 4)).shape
    (4, 5)
    """

    training: ClassVar[Mapping[str, Any]] = {"batch": 8, "learning_rate": 3e-3}

    shape: Shape
    width: int = 64
    blocks: int = 3
    fine: int = 0
    cycle: float | int = 0.0

    def __post_init__(self) -> None:
        require_at_least(self, width=1, blocks=0, fine=0, cycle=0)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Rounds only."""
        singles = [f"only:{k}" for k in range(self.shape.count)] if self.cycle else []
        return (Phase("rounds", ("several", *singles)),)

    @cached_property
    def _net(self) -> Any:
        count, image = self.shape.count, self.shape.image
        if image is None:
            size = self.shape.size
            return GridNet((1, 1), size + count, size, self.width, self.blocks)
        layout = layout_of(image, image[0] * image[1])
        if self.fine:
            return DetailNet(
                *image, 2 * count, count, self.fine, layout.patch, self.width, self.blocks
            )
        deep = layout.depth * count
        return GridNet(layout.grid, deep + count, deep, self.width, self.blocks)

    def init(self, key: Array) -> Any:
        """Return new parameters."""
        return self._net.init(key)

    def fill(self, params: Any, cells: Array, present: Array) -> Array:
        """Return whole rows."""
        output = self._raw(params, cells, present)
        return jnp.clip(output, 0.0, 1.0) if self.shape.bounded else output

    def _raw(self, params: Any, cells: Array, present: Array) -> Array:
        image, count = self.shape.image, self.shape.count
        if image is None:
            inputs = jnp.concatenate([cells, present], axis=1)[:, None, None]
            return self._net(params, inputs).reshape(len(cells), -1)
        high, wide = image
        if self.fine:
            pixels = cells.reshape(-1, count, high, wide).transpose(0, 2, 3, 1)
            flags = jnp.broadcast_to(present[:, None, None], pixels.shape)
            output = self._net(params, jnp.concatenate([pixels, flags], axis=-1))
            return output.transpose(0, 3, 1, 2).reshape(len(cells), -1)
        layout = layout_of(image, high * wide)
        grids = [layout.to_grids(cells[:, c]) for c in self.shape.slices.values()]
        flags = jnp.broadcast_to(present[:, None, None], (len(cells), *layout.grid, count))
        output = self._net(params, jnp.concatenate([*grids, flags], axis=-1))
        return jnp.concatenate(
            [layout.to_rows(g) for g in jnp.split(output, count, axis=-1)], axis=1
        )

    def loss(self, phase: str, params: Any, batches: Mapping[str, Batch], key: Array) -> Loss:
        """Return the error of hidden modalities plus the weighted cycle loss."""
        batch = batches["several"]
        total = jnp.zeros(())
        patterns = self._draw_patterns(batch, key)
        for shown in patterns:
            predicted = self._raw(params, batch.cells * shown[:, self.shape.owner], shown)
            # A row that shows nothing in this pattern predicts nothing.
            scored = (batch.present - shown) * (shown.sum(axis=1, keepdims=True) > 0)
            total += squared_error(predicted, batch, scored, self.shape)
        total /= len(patterns)
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
