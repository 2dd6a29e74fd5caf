"""The first steps: each site trains its autoencoder, says whom it has, and sends codes.

Paper CRS, sections IV-A and IV-B: one autoencoder per view, trained by the mean squared error
(Eq. 3); architectures and code lengths may differ between views.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from cofill.cooperate._site import CooperativeSite, Encoder, named_seed
from cofill.errors import DataError
from cofill.nets import (
    Autoencoder,
    CellLoss,
    SquaredError,
    Task,
    TrainSettings,
    forward,
    loss_blocks,
    recipe,
    train,
)
from cofill.privacy import BlindedIds, Codes, CodeSpec, Release, in_order, rows_of
from cofill.protocol import Step
from cofill.views import Kind, Scaler

__all__ = ["ANNOUNCE", "ENCODE", "SEND_CODES", "encode_rows"]


def _encode(
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], tell: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Train the autoencoders of the sites that have none."""
    scaled = [
        s
        if s.scaler is not None
        else s.with_(scaler=Scaler.fit(s.view, method=s.settings.scale), typical=s.view.typical())
        for s in sites
    ]
    fresh = [k for k, site in enumerate(scaled) if site.encoder is None]
    calls: dict[tuple[Any, TrainSettings], list[int]] = {}
    for k in fresh:
        site = scaled[k]
        calls.setdefault((_loss(site), _training(site)), []).append(k)
    for done, ((loss, training), chosen) in enumerate(calls.items()):
        tasks = [_task(scaled[k]) for k in chosen]
        trained = train(
            tasks,
            loss,
            training,
            progress=lambda n, total, _, at=done: tell((at + n / total) / len(calls)),
        )
        for k, network in zip(chosen, trained.networks, strict=True):
            width = network.encoder.biases[-1].shape[0]
            spec = CodeSpec(scaled[k].name, width, _version(network))
            scaled[k] = scaled[k].with_(encoder=Encoder(network, spec)).counted(encoders=1)
    return [(site, []) for site in scaled]


def _loss(site: CooperativeSite) -> Any:
    """Return the paper's squared error, or the losses of the cells' kinds where they differ."""
    kinds = {f.kind for f in site.view.features}
    if site.settings.is_faithful or kinds == {Kind.NUMERIC}:
        return SquaredError()
    return CellLoss(loss_blocks(site.fitted_scaler.blocks))


def _training(site: CooperativeSite) -> TrainSettings:
    """Return the encoder's training, with fewer passes over many rows."""
    given = site.settings.encoder_training
    if site.settings.is_faithful:
        return given
    rows = 2 ** int(np.ceil(np.log2(max(len(site.view), 16))))
    batch = int(np.clip(rows // 16, given.batch_size or 32, 512))
    steps = given.epochs * 16
    epochs = int(np.clip(steps * batch // rows, 5, given.epochs))
    return TrainSettings(**{**vars(given), "batch_size": batch, "epochs": epochs})


def _task(site: CooperativeSite) -> Task:
    rows = site.encoded().astype(np.float32)
    widths = (rows.shape[1], *site.settings.widths(rows.shape[1]).encoder)
    activation = "relu" if site.settings.is_faithful else "tanh"
    key = jax.random.key(named_seed(site.seed, "encoder", site.name))
    return Task(
        recipe(Autoencoder, widths, activation=activation),
        np.nan_to_num(rows),
        rows,
        key=key,
        name=f"autoencoder of {site.name!r}",
    )


def _version(network: Any) -> str:
    """Return a short digest of the encoder's weights: other weights, other codes."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(network.encoder):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()[:16]


def encode_rows(site: CooperativeSite, rows: np.ndarray) -> Float[np.ndarray, "rows width"]:
    """Return the codes of some of the site's rows (positions in its view)."""
    if site.encoder is None:
        raise DataError(f"site {site.name!r} has no encoder; fit it first")
    return forward(site.encoder.network.encoder, np.nan_to_num(site.encoded()[rows]))


def _announce(
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], tell: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Tell every other site, blinded, whom this one has."""
    out = []
    for site in sites:
        tokens = in_order(site.tokens)  # sorted, so that the order of rows is not told
        sent: list[Release] = [
            BlindedIds(sender=site.name, receiver=other, tokens=tokens, purpose="present")
            for other in site.others
        ]
        out.append((site, sent))
    return out


def _send_codes(
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], tell: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Send each peer the codes of the individuals it also has (V_j|i), each code once."""
    out = []
    for site, inbox in zip(sites, inboxes, strict=True):
        heard = {r.sender: r.tokens for r in inbox if isinstance(r, BlindedIds)}
        tokens = site.tokens
        sent: list[Release] = []
        before = dict(site.sent)
        for peer, theirs in heard.items():
            had = before.get(peer, tokens[:0])
            told = in_order(theirs)  # not in the order of rows
            rows = rows_of(tokens, told)
            shared = rows[(rows >= 0) & (rows_of(had, told) < 0)]
            if len(shared) and site.encoder is not None:
                before[peer] = np.concatenate([had, tokens[shared]])
                sent.append(
                    Codes(
                        sender=site.name,
                        receiver=peer,
                        spec=site.encoder.spec,
                        tokens=tokens[shared],
                        codes=encode_rows(site, shared),
                    )
                )
        known = {**site.peer_tokens, **heard}
        out.append((site.with_(peer_tokens=known, sent=before), sent))
    return out


ENCODE = Step("train encoders", _encode)
ANNOUNCE = Step("align", _announce)
SEND_CODES = Step("send codes", _send_codes)
