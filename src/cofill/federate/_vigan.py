"""VIGAN (Shang et al. 2017) as Fed-VIGAN trains it, and pix2pix beside it (faithful).

Two generators G₁: X → Y and G₂: Y → X, a discriminator for each modality, and an autoencoder A of
both. Training has three steps: A rebuilds pairs (Eq. 3.1); the generators learn from individuals of
one modality by an adversarial and a cycle loss (Eq. 3.3 to 3.6); then, on pairs, A takes what the
generators put out as the noisy version of the pair and rebuilds the true one (Eq. 3.2), while the
discriminators judge its output (Eq. 3.7 to 3.9); everything is trained together by

    λ_AE Loss_AE + λ_CCL Loss_CCL + λ_AG Loss_AG                                   (Eq. 3.11).

A missing y is completed as x → G₁(x) → A(x, G₁(x)) → ŷ (section 4.3). Norms are means over cells,
so that the weights do not depend on the number of cells. Generators minimise log(1 − D), as the
thesis prints it (Eq. 1.5), unless told otherwise; each step moves the discriminators with the
generators fixed, then the generators with the discriminators fixed (section 1.2).

The thesis scales pixels to [0, 1]. Generators and discriminators see them in [−1, 1] here, with
tanh at the generators' end, as in the public CycleGAN; papers/PROTOCOL.md says how this and what
the thesis does not state was chosen.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.federate._common_model import Phase
from cofill.federate._learner import AbstractLearner, Batch, Loss
from cofill.federate._rows import Shape
from cofill.federate._vigan_networks import make_networks
from cofill.privacy import require_one_of

Rows = tuple[Array, ...]
Adversarial = Literal["printed", "non-saturating", "least-squares"]
_JUDGES, _GENERATORS = ("D1", "D2"), ("G1", "G2")


@dataclass(frozen=True)
class _Pair(AbstractLearner, ABC):
    """Two modalities of one size, with generators between them: what both models share."""

    training: ClassVar[Mapping[str, Any]] = {"batch": 4, "learning_rate": 1e-3, "first_moment": 0.5}

    shape: Shape
    architecture: str = "small"
    adversarial: Adversarial = "printed"
    weight_ccl: float | int = 10.0
    weight_ag: float | int = 1.0

    def __post_init__(self) -> None:
        if self.shape.count != 2 or self.shape.sizes[0] != self.shape.sizes[1]:
            pairs = zip(self.shape.names, self.shape.sizes, strict=True)
            raise SettingError(
                "this model takes two modalities of one size, got "
                f"{', '.join(f'{name} ({size})' for name, size in pairs)}; "
                "use model 'best' for any number of modalities of any size"
            )
        require_one_of("adversarial", self.adversarial, get_args(Adversarial))

    @cached_property
    def _networks(self) -> tuple[Any, Any, Any, Any]:
        return make_networks(self.shape, self.architecture)

    def _bounded(self, output: Array) -> Array:
        """Return outputs in the range of the data."""
        return jax.nn.sigmoid(output) if self.shape.bounded else output

    def _centred(self, rows: Array) -> Array:
        """Return cells as generators and discriminators see them: pixels between −1 and 1."""
        return 2 * rows - 1 if self.shape.bounded else rows

    def _judge(self, number: int) -> Any:
        """Return a discriminator of one row (1) or of a pair (2) in the data's range."""
        judge = self._networks[number]
        return lambda params, *rows: judge(params, *map(self._centred, rows))

    def _generated(self, params: Any, way: int, rows: Array) -> Array:
        output = self._networks[0](params[f"G{way}"], self._centred(rows))
        # σ(2z) = (tanh z + 1) / 2: tanh, in the data's range.
        return jax.nn.sigmoid(2 * output) if self.shape.bounded else output

    def generated(self, params: Any, cells: Array, present: Array) -> Array:
        """Return rows with the generators' output for what is missing."""
        x, y = self._two(cells)
        has = present > 0
        filled_x = jnp.where(has[:, :1], x, self._generated(params, 2, y))
        filled_y = jnp.where(has[:, 1:], y, self._generated(params, 1, x))
        return jnp.concatenate([filled_x, filled_y], axis=1)

    def _two(self, rows: Array) -> tuple[Array, Array]:
        size = self.shape.sizes[0]
        return rows[:, :size], rows[:, size:]

    def _cycle_loss(self, params: Any, x: Array, y: Array, wx: Array, wy: Array) -> Array:
        """Return the cycle loss (Eq. 3.4), in the range that generators see."""
        back_x = self._generated(params, 2, self._generated(params, 1, x))
        back_y = self._generated(params, 1, self._generated(params, 2, y))
        away_x, away_y = (
            jnp.abs(self._centred(back) - self._centred(row))
            for back, row in ((back_x, x), (back_y, y))
        )
        return _mean(away_x, wx) + _mean(away_y, wy)

    def _game(
        self, judge: Any, params: Any, name: str, real: Rows, false: Rows, wr: Array, wf: Array
    ) -> tuple[Array, Array]:
        """Return the generators' loss and the discriminator's.

        The discriminator judges `real` and `false` rows; gradients flow from the first loss to
        `false` only, from the second to the discriminator only.
        """
        fixed = jax.lax.stop_gradient(params[name])
        fooled = judge(fixed, *false)
        seen = judge(params[name], *map(jax.lax.stop_gradient, false))
        true = judge(params[name], *map(jax.lax.stop_gradient, real))
        if self.adversarial == "least-squares":
            judged = 0.5 * (_mean((true - 1) ** 2, wr) + _mean(seen**2, wf))
            return _mean((fooled - 1) ** 2, wf), judged
        judged = _mean(jax.nn.softplus(-true), wr) + _mean(jax.nn.softplus(seen), wf)
        if self.adversarial == "printed":
            return _mean(-jax.nn.softplus(fooled), wf), judged
        return _mean(jax.nn.softplus(-fooled), wf), judged

    def _total(self, games: tuple[tuple[Array, Array], ...], cycle: Array) -> Loss:
        """Return the weighted sum of cycle loss and both games, and the figures."""
        (fooled_y, judged_y), (fooled_x, judged_x) = games
        fooled, judged = fooled_x + fooled_y, judged_x + judged_y
        total = self.weight_ccl * cycle + self.weight_ag * fooled + judged_x + judged_y
        return total, {"cycle": cycle, "fooled": fooled, "told": judged}


@dataclass(frozen=True)
class VIGAN(_Pair):
    """The thesis's local model.

    Parameters
    ----------
    shape
        Of the rows: two modalities of one size.
    architecture
        ``"small"`` or ``"published"``.
    adversarial
        ``"printed"`` (generators minimise log(1 − D)), ``"non-saturating"`` or
        ``"least-squares"``.
    weight_ccl, weight_ag, weight_ae
        λ_CCL, λ_AG, λ_AE; in pre-training λ₁ = λ_AG / λ_CCL.

    Examples
    --------
    >>> model = VIGAN(Shape(("x", "y"), (4, 4)))
    >>> [phase.name for phase in model.phases]
    ['autoencoder', 'cycle', 'rounds']
    """

    pretraining: ClassVar[tuple[str, ...]] = ("autoencoder", "cycle")

    weight_ae: float | int = 100.0

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The autoencoder on pairs, the generators on single modalities, all on pairs."""
        return (
            Phase("autoencoder", ("complete",)),
            Phase("cycle", ("only:0", "only:1")),
            Phase("rounds", ("complete",)),
        )

    def turns(self, phase: str) -> tuple[tuple[str, ...], ...]:
        """Return the discriminators, then the others, where there are players on both sides."""
        others = (*_GENERATORS, "A") if phase == "rounds" else _GENERATORS
        return () if phase == "autoencoder" else (_JUDGES, others)

    def init(self, key: Array) -> Any:
        generator, judge, _, pair = self._networks
        keys = jax.random.split(key, 5)
        params = {f"G{k}": generator.init(keys[k]) for k in (1, 2)}
        params |= {f"D{k}": judge.init(keys[k + 2]) for k in (1, 2)}
        return {**params, "A": pair.init(keys[0])}

    def fill(self, params: Any, cells: Array, present: Array) -> Array:
        """Return whole rows: the generator fills what is missing, the autoencoder cleans it."""
        x, y = self._two(self.generated(params, cells, present))
        return jnp.concatenate(self._rebuilt(params, x, y), axis=1)

    def rebuilt(self, params: Any, cells: Array, present: Array) -> Array:
        """Return rows as the autoencoder rebuilds them (Table 4.3)."""
        return jnp.concatenate(self._rebuilt(params, *self._two(cells)), axis=1)

    def _rebuilt(self, params: Any, x: Array, y: Array) -> tuple[Array, Array]:
        rebuilt_x, rebuilt_y = self._networks[3](params["A"], x, y)
        return self._bounded(rebuilt_x), self._bounded(rebuilt_y)

    def loss(self, phase: str, params: Any, batches: Mapping[str, Batch], key: Array) -> Loss:
        """Return the loss of a phase: Eq. 3.1, Eq. 3.6 or Eq. 3.11."""
        if phase == "autoencoder":
            error = self._distance(params, batches["complete"], None)
            return error, {"error": error}
        if phase == "cycle":
            only_x, only_y = batches["only:0"], batches["only:1"]
            x, y = self._two(only_x.cells)[0], self._two(only_y.cells)[1]
            false_x, false_y = self._generated(params, 2, y), self._generated(params, 1, x)
            wx, wy = only_x.weight, only_y.weight
            error = None
        else:
            pairs = batches["complete"]
            x, y = self._two(pairs.cells)
            wx = wy = pairs.weight
            generated = self._generated(params, 2, y), self._generated(params, 1, x)
            false_y = self._rebuilt(params, x, generated[1])[1]
            false_x = self._rebuilt(params, generated[0], y)[0]
            error = self._distance(params, pairs, generated)
        judge = self._judge(1)
        games = (
            self._game(judge, params, "D1", (y,), (false_y,), wy, wx),
            self._game(judge, params, "D2", (x,), (false_x,), wx, wy),
        )
        total, figures = self._total(games, self._cycle_loss(params, x, y, wx, wy))
        if error is None:
            return total, figures
        return total + self.weight_ae * error, {"error": error, **figures}

    def _distance(self, params: Any, pairs: Batch, generated: tuple[Array, Array] | None) -> Array:
        """Return Eq. 3.1, or with generated modalities Eq. 3.2."""
        x, y = self._two(pairs.cells)
        inputs = [(x, y)] if generated is None else [(x, generated[1]), (generated[0], y)]
        total = jnp.zeros(())
        for input_x, input_y in inputs:
            back = jnp.concatenate(self._rebuilt(params, input_x, input_y), axis=1)
            # Twice the mean over both modalities is the sum of their means.
            total += 2 * _mean(pairs.known * (back - pairs.cells) ** 2, pairs.weight)
        return total


@dataclass(frozen=True)
class Pix2Pix(_Pair):
    """Federated pix2pix as the thesis compares with it (Eq. 4.6 to 4.8): pairs only.

    Discriminators judge pairs; beside the game there is the cycle loss, and no distance between
    what was generated and the truth. Parameters are those of `VIGAN` but ``weight_ae``.
    """

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Rounds only."""
        return (Phase("rounds", ("complete",)),)

    def turns(self, phase: str) -> tuple[tuple[str, ...], ...]:
        """Return the discriminators, then the generators."""
        return _JUDGES, _GENERATORS

    def init(self, key: Array) -> Any:
        generator, _, judge, _ = self._networks
        keys = jax.random.split(key, 5)
        params = {f"G{k}": generator.init(keys[k]) for k in (1, 2)}
        return params | {f"D{k}": judge.init(keys[k + 2]) for k in (1, 2)}

    def fill(self, params: Any, cells: Array, present: Array) -> Array:
        return self.generated(params, cells, present)

    def loss(self, phase: str, params: Any, batches: Mapping[str, Batch], key: Array) -> Loss:
        """Return Eq. 4.8."""
        pairs = batches["complete"]
        x, y = self._two(pairs.cells)
        w = pairs.weight
        false_x, false_y = self._generated(params, 2, y), self._generated(params, 1, x)
        judge = self._judge(2)
        games = (
            self._game(judge, params, "D1", (x, y), (x, false_y), w, w),
            self._game(judge, params, "D2", (x, y), (false_x, y), w, w),
        )
        return self._total(games, self._cycle_loss(params, x, y, w, w))


def _mean(values: Float[Array, "n k"], weight: Float[Array, " n"]) -> Float[Array, ""]:
    return (values.mean(axis=1) * weight).sum() / jnp.maximum(weight.sum(), 1.0)
