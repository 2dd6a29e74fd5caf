"""The first steps: each site trains its autoencoder, announces its individuals, and sends codes.

Paper CRS, sections IV-A and IV-B: one autoencoder per view, trained by the mean squared error
(Eq. 3); architectures and code lengths may differ between views. An encoder may also be trained
against a decoder that plays the attacker. Codes leave through `make_codes` only, which applies the
defence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cofill.cooperate._site import (
    CooperativeSite,
    Report,
    Rows,
    ViewEncoder,
    fit_in_groups,
    named_seed,
)
from cofill.errors import SettingError
from cofill.nets import (
    MLP,
    Autoencoder,
    Block,
    CellLoss,
    OpposedEncoder,
    SquaredError,
    Task,
    TrainSettings,
    forward,
    loss_blocks,
    recipe,
    train,
)
from cofill.privacy import BlindedIds, Codes, CodeSpec, in_order, no_tokens, rows_of
from cofill.protocol import Inbox, Outbox, Step, one_by_one
from cofill.views import Kind, Scaler

_ROWS_AT_ONCE = 65_536  # bounds the memory that encoding a large view takes


def _encode(
    sites: Sequence[CooperativeSite], inboxes: Sequence[Inbox], report_progress: Report
) -> list[tuple[CooperativeSite, Outbox]]:
    """Train the autoencoders of the sites that have none."""
    scaled = list(sites)
    for position, site in enumerate(sites):
        if site.scaler is None:
            scaler = Scaler.fit(site.view, method=site.settings.scale)
            scaled[position] = replace(site, scaler=scaler, typical=site.view.typical())
    alike: dict[Any, list[int]] = {}
    for position, site in enumerate(scaled):
        if site.encoder is None:
            alike.setdefault(_encoder_key(site), []).append(position)

    def fit(items: list[Any], key: Any, report: Report) -> Sequence[Any]:
        tasks = [task for task, *_ in items]
        return train(tasks, *key, progress=lambda step, steps, _: report(step / steps)).networks

    first_sites = [scaled[positions[0]] for positions in alike.values()]
    items = [(*_task_and_loss(site), encoder_training(site)) for site in first_sites]
    networks = fit_in_groups(items, lambda item: item[1:], fit, report_progress)
    for positions, network in zip(alike.values(), networks, strict=True):
        for position in positions:
            encoder = view_encoder(scaled[position], network)
            scaled[position] = replace(scaled[position], encoder=encoder).count_trained(encoders=1)
    return [(site, []) for site in scaled]


def _encoder_key(site: CooperativeSite) -> Any:
    """Return all that a site's encoder follows from: repeats that differ later share it."""
    settings = site.settings
    widths = settings.widths(site.fitted_scaler.width)
    price = settings.defence.cost_of_leak if _is_opposed(site) else None
    seeds = (site.seed, site.encoder_key)
    made_of = (id(site.view), site.name, *seeds, settings.scale, settings.is_faithful)
    return (*made_of, widths.encoder, price, encoder_training(site))


def _is_opposed(site: CooperativeSite) -> bool:
    """Return whether an opponent takes part now; with a pilot it does once needs are known."""
    return site.settings.defence.adversary and not site.settings.defence.pilot


def _task_and_loss(site: CooperativeSite) -> tuple[Task, Any]:
    """Return the training of a site's autoencoder, and its loss: the paper's, or the cells'."""
    if _is_opposed(site):
        return opposed_task(site)
    is_faithful = site.settings.is_faithful
    rows = site.encoded().astype(np.float32)
    widths = (rows.shape[1], *site.settings.widths(rows.shape[1]).encoder)
    task = Task(
        recipe(Autoencoder, widths, activation="relu" if is_faithful else "tanh"),
        np.nan_to_num(rows),
        rows,
        key=_first_key(site, "encoder"),
        name=f"autoencoder of {site.name!r}",
    )
    if is_faithful or all(feature.kind is Kind.NUMERIC for feature in site.view.features):
        return task, SquaredError()
    return task, CellLoss(loss_blocks(site.fitted_scaler.blocks))


def _first_key(site: CooperativeSite, purpose: str) -> Array:
    """Return the key of an encoder's first weights.

    Whoever knows these and can have an encoder trained too little knows the encoder, and reads
    rows off their codes: between organisations they are the site's own secret.
    """
    if not site.encoder_key:
        return jax.random.key(named_seed(site.seed, purpose, site.name))
    words = hashlib.blake2b(purpose.encode(), key=site.encoder_key, digest_size=8).digest()
    return jax.random.wrap_key_data(jnp.frombuffer(words, jnp.uint32), impl="threefry2x32")


def encoder_training(site: CooperativeSite) -> TrainSettings:
    """Return how the site's encoder is trained: with fewer passes over many rows."""
    training = site.settings.encoder_training
    if site.settings.is_faithful:
        return training
    # Powers of two, so that sites of about the same size share one compiled program.
    rows = 2 ** int(np.ceil(np.log2(max(len(site.view), 16))))
    batch = int(np.clip(rows // 16, training.batch_size or 32, 512))
    epochs = int(np.clip(16 * training.epochs * batch // rows, 5, training.epochs))
    return replace(training, batch_size=batch, epochs=epochs)


def view_encoder(site: CooperativeSite, network: Any, *, is_narrowed: bool = False) -> ViewEncoder:
    """Return a trained network as the site's encoder; with a pilot it awaits needs at first."""
    if isinstance(network, OpposedEncoder):
        network = join_networks(network.encoder, network.opponent)
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(network.encoder):
        digest.update(np.asarray(leaf).tobytes())
    # Other weights make other codes: receivers know them by the version.
    width = network.encoder.biases[-1].shape[0]
    spec = CodeSpec(site.name, width, digest.hexdigest()[:16])
    awaits_needs = site.settings.defence.pilot > 0 and not is_narrowed
    return ViewEncoder(network, spec, awaits_needs)


def opposed_task(
    site: CooperativeSite,
    wanted: Float[np.ndarray, "rows wanted"] | None = None,
    width: int | None = None,
) -> tuple[Task, CellLoss]:
    """Return the training of a site's encoder against an opponent, and its loss.

    ``wanted`` is what the code should carry of each row; the opponent then decodes the whole row.
    A site that knows nothing of its receivers (None) keeps the leading components, and the opponent
    decodes what they leave. ``width`` is that of the code; None for the settings'.

    The loss has squared errors of the wanted columns and the mean squared error of the row. Coded
    cells count by their squared errors too: an attacker is no worse for it.
    """
    rows = site.encoded()
    filled = np.nan_to_num(rows)
    widths = (rows.shape[1], *site.settings.widths(rows.shape[1]).encoder)
    if width is not None:
        widths = (*widths[:-1], width)
    opposed = rows
    if wanted is None:
        # The leading components, by their share of the variance, and what they leave.
        centred = filled - filled.mean(axis=0)
        leading = np.linalg.svd(centred, full_matrices=False)[2][: widths[-1]]
        components = centred @ leading.T
        wanted = np.asarray(components / np.sqrt(rows.shape[1]))
        opposed = rows - components @ leading
    outputs = (wanted.shape[1], rows.shape[1])
    strength = site.settings.defence.cost_of_leak
    task = Task(
        recipe(OpposedEncoder, widths, outputs, strength=strength),
        filled.astype(np.float32),
        np.hstack([wanted, opposed]).astype(np.float32),
        key=_first_key(site, "opposed encoder"),
        name=f"opposed encoder of {site.name!r}",
    )
    wanted_block = Block("squared", 0, outputs[0])
    row_block = Block("squared", outputs[0], sum(outputs), weight=1.0 / outputs[1])
    return task, CellLoss((wanted_block, row_block))


def join_networks(encoder: MLP, decoder: MLP) -> Autoencoder:
    """Return an encoder and a decoder as one autoencoder."""
    widths = (encoder.weights[0].shape[1], *(b.shape[0] for b in encoder.biases))
    network = Autoencoder(widths, key=jax.random.key(0), activation=encoder.activation)
    object.__setattr__(network, "encoder", encoder)
    object.__setattr__(network, "decoder", decoder)
    return network


def encode_rows(site: CooperativeSite, rows: Int[np.ndarray, " rows"]) -> Rows:
    """Return the codes of some of the site's rows (positions in its view), undefended."""
    network = site.fitted_encoder.network.encoder
    starts = range(0, max(len(rows), 1), _ROWS_AT_ONCE)
    parts = [rows[start : start + _ROWS_AT_ONCE] for start in starts]
    return np.concatenate([forward(network, np.nan_to_num(site.encoded(p))) for p in parts])


def make_codes(
    site: CooperativeSite, rows: Int[np.ndarray, " rows"], receiver: str
) -> tuple[CooperativeSite, Codes]:
    """Return the site, which remembers noise, and codes of some rows as they may leave it.

    Rows are positions in the site's view. A noisy code is drawn once for an individual and an
    encoder and sent again as it is.
    """
    defence, encoder = site.settings.defence, site.fitted_encoder
    plain, tokens = encode_rows(site, rows), site.tokens[rows]
    is_bounded = encoder.network.encoder.output == "tanh"
    release = Codes(
        sender=site.name, receiver=receiver, spec=encoder.spec, tokens=tokens, codes=plain
    )
    event = defence.event()
    if event is None:
        return site, replace(release, codes=defence.round_codes(plain, bounded=is_bounded))
    drawn = site.noisy_codes
    if drawn is None or drawn.spec != encoder.spec:
        nothing = np.zeros((0, encoder.spec.width))
        drawn = replace(release, receiver=site.name, tokens=no_tokens(), codes=nothing)
        # One table of noisy codes for an encoder and a noise key.
        named = f"{encoder.spec.view}\n{encoder.spec.version}".encode()
        table = hashlib.blake2b(named, key=site.noise_key, digest_size=16).hexdigest()
        drawn = replace(drawn, event=event, table=table)
    is_new = rows_of(drawn.tokens, tokens) < 0
    if is_new.any():
        generator = _noise_generator(site, encoder.spec, tokens[is_new], plain[is_new])
        noisy = defence.round_codes(defence.add_noise(plain[is_new], generator), bounded=is_bounded)
        all_tokens = np.concatenate([drawn.tokens, tokens[is_new]])
        drawn = replace(drawn, tokens=all_tokens, codes=np.concatenate([drawn.codes, noisy]))
    codes = drawn.codes[rows_of(drawn.tokens, tokens)]
    release = replace(drawn, receiver=receiver, tokens=tokens, codes=codes)
    return replace(site, noisy_codes=drawn), release


def _noise_generator(
    site: CooperativeSite, spec: CodeSpec, tokens: np.ndarray, codes: np.ndarray
) -> np.random.Generator:
    """Return the generator of some codes' noise: the same for the same codes, else another one."""
    digest = hashlib.blake2b(spec.version.encode(), key=site.noise_key)
    digest.update(tokens.tobytes())
    digest.update(np.ascontiguousarray(codes).tobytes())
    return np.random.default_rng(np.frombuffer(digest.digest(), np.uint32))


def announced_tokens(inbox: Inbox) -> dict[str, np.ndarray]:
    """Return the blinded ids in an inbox by their sender."""
    return {r.sender: r.tokens for r in inbox if isinstance(r, BlindedIds)}


def _announce(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Send every peer the blinded ids of this site: all, or after an intersection the common."""
    tokens = in_order(site.tokens)  # sorted, so that the order of rows is not shown
    announcements = []
    for peer in site.peers:
        shown = tokens
        if site.psi is not None:
            shown = tokens[rows_of(site.psi.common.get(peer, no_tokens()), tokens) >= 0]
        announcements.append(
            BlindedIds(sender=site.name, receiver=peer, tokens=shown, purpose="present")
        )
    return site, announcements


def _send_codes(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Send each peer the codes of the individuals it also has (V_j|i), each code once."""
    if site.encoder is not None and site.encoder.awaits_needs:
        raise SettingError(
            f"site {site.name!r} may not send codes before its pilot told what others need; "
            "run the pilot's steps first"
        )
    announced = announced_tokens(inbox) or dict(site.peer_tokens)  # before the pilot
    tokens, sent = site.tokens, dict(site.sent_tokens)
    releases = []
    for peer, peer_tokens in announced.items():
        before = sent.get(peer, no_tokens())
        sorted_tokens = in_order(peer_tokens)  # not in the order of rows
        rows = rows_of(tokens, sorted_tokens)
        rows = rows[(rows >= 0) & (rows_of(before, sorted_tokens) < 0)]
        if len(rows) and site.encoder is not None:
            sent[peer] = np.concatenate([before, tokens[rows]])
            site, codes = make_codes(site, rows, peer)
            releases.append(codes)
    known = {**site.peer_tokens, **announced}
    return replace(site, peer_tokens=known, sent_tokens=sent), releases


ENCODE = Step("train encoders", _encode)
ANNOUNCE = Step("align", one_by_one(_announce))
SEND_CODES = Step("send codes", one_by_one(_send_codes))
