"""The first steps: each site trains its autoencoder, says whom it has, and sends codes.

Paper CRS, sections IV-A and IV-B: one autoencoder per view, trained by the mean squared error
(Eq. 3); architectures and code lengths may differ between views. Codes leave through `codes_for`
only, which applies the defence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from cofill.cooperate._opposed import opposed_loss, opposed_task, without_opponent
from cofill.cooperate._site import CooperativeSite, Encoder, named_seed
from cofill.errors import DataError, SettingError
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
from cofill.privacy import BlindedIds, Codes, CodeSpec, Release, in_order, no_tokens, rows_of
from cofill.protocol import Step
from cofill.views import Kind, Scaler

__all__ = [
    "ANNOUNCE",
    "ENCODE",
    "SEND_CODES",
    "codes_for",
    "encode_rows",
    "encoder_of",
    "training_of",
]

_ROWS = 65_536  # rows encoded together


def _encode(
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], report_progress: Any
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
        calls.setdefault((_loss(site), training_of(site)), []).append(k)
    for done, ((loss, training), chosen) in enumerate(calls.items()):
        alike: dict[Any, list[int]] = {}
        for k in chosen:
            alike.setdefault(_making(scaled[k]), []).append(k)
        tasks = [_task(scaled[same[0]]) for same in alike.values()]
        trained = train(
            tasks,
            loss,
            training,
            progress=lambda n, total, _, at=done: report_progress((at + n / total) / len(calls)),
        )
        for same, network in zip(alike.values(), trained.networks, strict=True):
            for k in same:
                made = encoder_of(scaled[k], network)
                scaled[k] = scaled[k].with_(encoder=made).counted(encoders=1)
    return [(site, []) for site in scaled]


def encoder_of(site: CooperativeSite, network: Any, *, narrowed: bool = False) -> Encoder:
    """Return a trained network as the site's encoder; with a pilot it awaits needs at first."""
    network = without_opponent(network)
    width = network.encoder.biases[-1].shape[0]
    spec = CodeSpec(site.name, width, _version(network))
    return Encoder(network, spec, awaits_needs=site.settings.defence.pilot > 0 and not narrowed)


def _making(site: CooperativeSite) -> Any:
    """Return what a site's encoder follows from; repeats that differ later share one training."""
    s = site.settings
    widths = s.widths(site.fitted_scaler.width)
    price = s.defence.cost_of_leak if _is_opposed(site) else None
    return id(site.view), site.name, site.seed, s.scale, s.is_faithful, widths.encoder, price


def _is_opposed(site: CooperativeSite) -> bool:
    """Whether an opponent takes part already now; with a pilot it does when needs are known."""
    return site.settings.defence.adversary and not site.settings.defence.pilot


def _loss(site: CooperativeSite) -> Any:
    """Return the paper's squared error, or the losses of the cells' kinds where they differ."""
    if _is_opposed(site):
        return opposed_loss(*opposed_task(site).outputs)
    kinds = {f.kind for f in site.view.features}
    if site.settings.is_faithful or kinds == {Kind.NUMERIC}:
        return SquaredError()
    return CellLoss(loss_blocks(site.fitted_scaler.blocks))


def training_of(site: CooperativeSite) -> TrainSettings:
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
    if _is_opposed(site):
        return opposed_task(site).task
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
    network = site.encoder.network.encoder
    parts = [rows[at : at + _ROWS] for at in range(0, max(len(rows), 1), _ROWS)]
    return np.concatenate([forward(network, np.nan_to_num(site.encoded(p))) for p in parts])


def codes_for(
    site: CooperativeSite, rows: np.ndarray, receiver: str
) -> tuple[CooperativeSite, Codes]:
    """Return the codes of some rows as they may leave the site, and the site that remembers noise.

    Rows are positions in the site's view. A noisy code is drawn once for an individual and an
    encoder and sent again as it is.
    """
    defence = site.settings.defence
    plain = encode_rows(site, rows)
    assert site.encoder is not None  # noqa: S101  (encode_rows has asked)
    spec, tokens = site.encoder.spec, site.tokens[rows]
    sent = Codes(sender=site.name, receiver=receiver, spec=spec, tokens=tokens, codes=plain)
    event = defence.event()
    bounded = site.encoder.network.encoder.output == "tanh"
    if event is None:
        return site, replace(sent, codes=defence.rounded(plain, bounded=bounded))
    kept = site.noised if site.noised is not None and site.noised.spec == spec else None
    known = no_tokens() if kept is None else kept.tokens
    fresh = rows_of(known, tokens) < 0
    codes = defence.noised(plain[fresh], _noise_source(site, spec, tokens[fresh], plain[fresh]))
    codes = defence.rounded(codes, bounded=bounded)
    table = Codes(
        sender=site.name,
        receiver=site.name,
        spec=spec,
        tokens=np.concatenate([known, tokens[fresh]]),
        codes=codes if kept is None else np.concatenate([kept.codes, codes]),
        event=event,
        table=_table(site, spec),
    )
    at = rows_of(table.tokens, tokens)
    noisy = replace(table, receiver=receiver, tokens=tokens, codes=table.codes[at])
    return site.with_(noised=table), noisy


def _noise_source(
    site: CooperativeSite, spec: CodeSpec, tokens: np.ndarray, codes: np.ndarray
) -> np.random.Generator:
    """Return the generator of some codes' noise: the same for the same codes, else another one."""
    digest = hashlib.blake2b(spec.version.encode(), key=site.noise_key)
    digest.update(tokens.tobytes())
    digest.update(np.ascontiguousarray(codes).tobytes())
    return np.random.default_rng(np.frombuffer(digest.digest(), np.uint32))


def _table(site: CooperativeSite, spec: CodeSpec) -> str:
    """Return the name of a site's table of noisy codes: one for an encoder and a noise key."""
    named = f"{spec.view}\n{spec.version}".encode()
    return hashlib.blake2b(named, key=site.noise_key, digest_size=16).hexdigest()


def _announce(
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], report_progress: Any
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
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], report_progress: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Send each peer the codes of the individuals it also has (V_j|i), each code once."""
    out = []
    for site, inbox in zip(sites, inboxes, strict=True):
        heard = {r.sender: r.tokens for r in inbox if isinstance(r, BlindedIds)}
        heard = heard or dict(site.peer_tokens)  # told before the pilot
        tokens = site.tokens
        sent: list[Release] = []
        before = dict(site.sent)
        if site.encoder is not None and site.encoder.awaits_needs:
            raise SettingError(
                f"site {site.name!r} may not send codes before its pilot told what others need; "
                "run the pilot's steps first"
            )
        for peer, theirs in heard.items():
            had = before.get(peer, tokens[:0])
            told = in_order(theirs)  # not in the order of rows
            rows = rows_of(tokens, told)
            shared = rows[(rows >= 0) & (rows_of(had, told) < 0)]
            if len(shared) and site.encoder is not None:
                before[peer] = np.concatenate([had, tokens[shared]])
                site, codes = codes_for(site, shared, peer)
                sent.append(codes)
        known = {**site.peer_tokens, **heard}
        out.append((site.with_(peer_tokens=known, sent=before), sent))
    return out


ENCODE = Step("train encoders", _encode)
ANNOUNCE = Step("align", _announce)
SEND_CODES = Step("send codes", _send_codes)
