"""Encoders that are trained against a decoder which plays the attacker.

What a code should carry is either what the receivers have said they need, or, at a site that knows
nothing of them, the leading components of its own rows.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from cofill.cooperate._site import CooperativeSite, named_seed
from cofill.nets import MLP, Autoencoder, Block, CellLoss, OpposedEncoder, Task, recipe


def opposed_task(
    site: CooperativeSite,
    wanted: Float[np.ndarray, "rows wanted"] | None = None,
    width: int | None = None,
) -> tuple[Task, CellLoss]:
    """Return the training of a site's encoder against an opponent, and its loss.

    The loss has squared errors of the wanted columns and the mean squared error of the row. Coded
    cells count by their squared errors too: an attacker is no worse for it.

    Parameters
    ----------
    site
        With its scaler.
    wanted
        What the code should carry of each row; the opponent then decodes the whole row. None for
        the leading components; the opponent then decodes what they leave.
    width
        Of the code; None for the settings' width.
    """
    rows = site.encoded()
    filled = np.nan_to_num(rows)
    widths = (rows.shape[1], *site.settings.widths(rows.shape[1]).encoder)
    if width is not None:
        widths = (*widths[:-1], width)
    opposed = rows
    if wanted is None:
        wanted, opposed = _split_components(filled, rows, widths[-1])
    outputs = (wanted.shape[1], rows.shape[1])
    strength = site.settings.defence.cost_of_leak
    task = Task(
        recipe(OpposedEncoder, widths, outputs, strength=strength),
        filled.astype(np.float32),
        np.hstack([wanted, opposed]).astype(np.float32),
        key=jax.random.key(named_seed(site.seed, "opposed encoder", site.name)),
        name=f"opposed encoder of {site.name!r}",
    )
    wanted_block = Block("squared", 0, outputs[0])
    row_block = Block("squared", outputs[0], sum(outputs), weight=1.0 / outputs[1])
    return task, CellLoss((wanted_block, row_block))


def remove_opponent(network: Any) -> Any:
    """Return an opposed encoder as an autoencoder that has its opponent as decoder."""
    if not isinstance(network, OpposedEncoder):
        return network
    return join_networks(network.encoder, network.opponent)


def join_networks(encoder: MLP, decoder: MLP) -> Autoencoder:
    """Return an encoder and a decoder that were made apart as one autoencoder."""
    widths = (encoder.weights[0].shape[1], *(b.shape[0] for b in encoder.biases))
    network = Autoencoder(widths, key=jax.random.key(0), activation=encoder.activation)
    object.__setattr__(network, "encoder", encoder)
    object.__setattr__(network, "decoder", decoder)
    return network


def _split_components(
    filled: Float[np.ndarray, "rows columns"], rows: Float[np.ndarray, "rows columns"], count: int
) -> tuple[Float[np.ndarray, "rows components"], Float[np.ndarray, "rows columns"]]:
    """Return the leading components, by their share of the variance, and what they leave."""
    centred = filled - filled.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    leading = directions[:count]
    components = centred @ leading.T
    return components / np.sqrt(filled.shape[1]), rows - components @ leading
