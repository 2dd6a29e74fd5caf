"""Encoders that are trained against a decoder which plays the attacker.

What a code should carry is either what the receivers have said they need, or, at a site that knows
nothing of them, the leading components of its own rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from cofill.cooperate._site import CooperativeSite, named_seed
from cofill.nets import MLP, Autoencoder, Block, CellLoss, OpposedEncoder, Task, recipe

__all__ = ["OpposedTask", "opposed_loss", "opposed_task", "without_opponent"]


@dataclass(frozen=True, eq=False)
class OpposedTask:
    """A network to train, and how many columns its helper and its opponent make."""

    task: Task
    outputs: tuple[int, int]


def opposed_task(
    site: CooperativeSite,
    wanted: Float[np.ndarray, "rows wanted"] | None = None,
    width: int | None = None,
) -> OpposedTask:
    """Return the training of a site's encoder against an opponent.

    Parameters
    ----------
    site
        With its scaler.
    wanted
        What the code should carry of each row; the opponent then decodes the whole row. None for
        the leading components; the opponent then decodes what they leave.
    width
        Of the code; as the settings say for None.
    """
    rows = site.encoded()
    full = np.nan_to_num(rows)
    widths = (rows.shape[1], *site.settings.widths(rows.shape[1]).encoder)
    if width is not None:
        widths = (*widths[:-1], width)
    hidden = rows
    if wanted is None:
        wanted, hidden = _components(full, rows, widths[-1])
    outputs = (wanted.shape[1], rows.shape[1])
    strength = site.settings.defence.cost_of_leak
    task = Task(
        recipe(OpposedEncoder, widths, outputs, strength=strength),
        full.astype(np.float32),
        np.hstack([wanted, hidden]).astype(np.float32),
        key=jax.random.key(named_seed(site.seed, "opposed encoder", site.name)),
        name=f"opposed encoder of {site.name!r}",
    )
    return OpposedTask(task, outputs)


def opposed_loss(wanted: int, row: int) -> CellLoss:
    """Return the loss: squared errors of the wanted columns, and the row's mean squared error.

    Coded cells count by their squared errors too: an attacker is no worse for it.
    """
    return CellLoss(
        (
            Block("squared", 0, wanted),
            Block("squared", wanted, wanted + row, weight=1.0 / row),
        )
    )


def without_opponent(network: Any) -> Any:
    """Return an opposed encoder as an autoencoder, its opponent as the decoder; others as is."""
    if not isinstance(network, OpposedEncoder):
        return network
    return joined(network.encoder, network.opponent)


def joined(encoder: MLP, decoder: MLP) -> Autoencoder:
    """Return an encoder and a decoder, each of its own making, as one autoencoder."""
    widths = (encoder.weights[0].shape[1], *(b.shape[0] for b in encoder.biases))
    network = Autoencoder(widths, key=jax.random.key(0), activation=encoder.activation)
    object.__setattr__(network, "encoder", encoder)
    object.__setattr__(network, "decoder", decoder)
    return network


def _components(
    full: Float[np.ndarray, "rows columns"], rows: Float[np.ndarray, "rows columns"], count: int
) -> tuple[Float[np.ndarray, "rows components"], Float[np.ndarray, "rows columns"]]:
    """Return the leading components, by their share of the variance, and what they leave."""
    centred = full - full.mean(axis=0)
    _, _, turn = np.linalg.svd(centred, full_matrices=False)
    leading = turn[:count]
    kept = centred @ leading.T
    return kept / np.sqrt(full.shape[1]), rows - kept @ leading
