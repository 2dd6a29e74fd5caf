"""The first steps: each site trains its autoencoder, announces its individuals, and sends codes.

Paper CRS, sections IV-A and IV-B: one autoencoder per view, trained by the mean squared error
(Eq. 3); architectures and code lengths may differ between views. Codes leave through `make_codes`
only, which applies the defence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from cofill.cooperate._opposed import opposed_task, remove_opponent
from cofill.cooperate._site import (
    CooperativeSite,
    ViewEncoder,
    fit_in_groups,
    named_seed,
)
from cofill.errors import SettingError
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
from cofill.privacy import BlindedIds, Codes, CodeSpec, in_order, no_tokens, rows_of
from cofill.protocol import Inbox, Outbox, Step, one_by_one
from cofill.views import Kind, Scaler

_ROWS_AT_ONCE = 65_536  # bounds the memory that encoding a large view takes


# --- training -----------------------------------------------------------------------------------


def _encode(
    sites: Sequence[CooperativeSite],
    inboxes: Sequence[Inbox],
    report_progress: Callable[[float], None],
) -> list[tuple[CooperativeSite, Outbox]]:
    """Train the autoencoders of the sites that have none."""
    scaled = [site if site.scaler is not None else _with_scaler(site) for site in sites]
    alike: dict[Any, list[int]] = {}
    for position, site in enumerate(scaled):
        if site.encoder is None:
            alike.setdefault(_encoder_key(site), []).append(position)

    def fit(items: list[Any], key: Any, report: Callable[[float], None]) -> Sequence[Any]:
        tasks = [task for task, *_ in items]
        return train(tasks, *key, progress=lambda step, steps, _: report(step / steps)).networks

    first_sites = [scaled[positions[0]] for positions in alike.values()]
    items = [(*_task_and_loss(site), encoder_training(site)) for site in first_sites]
    networks = fit_in_groups(items, lambda item: item[1:], fit, report_progress)
    for positions, network in zip(alike.values(), networks, strict=True):
        for position in positions:
            site = scaled[position]
            encoder = view_encoder(site, network)
            scaled[position] = site.with_(encoder=encoder).count_trained(encoders=1)
    return [(site, []) for site in scaled]


def _with_scaler(site: CooperativeSite) -> CooperativeSite:
    scaler = Scaler.fit(site.view, method=site.settings.scale)
    return site.with_(scaler=scaler, typical=site.view.typical())


def _encoder_key(site: CooperativeSite) -> Any:
    """Return all that a site's encoder follows from: repeats that differ later share it."""
    settings = site.settings
    widths = settings.widths(site.fitted_scaler.width)
    price = settings.defence.cost_of_leak if _is_opposed(site) else None
    made_of = (id(site.view), site.name, site.seed, settings.scale, settings.is_faithful)
    return (*made_of, widths.encoder, price, encoder_training(site))


def _is_opposed(site: CooperativeSite) -> bool:
    """Return whether an opponent takes part now; with a pilot it does once needs are known."""
    return site.settings.defence.adversary and not site.settings.defence.pilot


def _task_and_loss(site: CooperativeSite) -> tuple[Task, Any]:
    """Return the training of a site's autoencoder, and its loss.

    The loss is the paper's squared error, or the losses of the cells' kinds where they differ.
    """
    if _is_opposed(site):
        return opposed_task(site)
    rows = site.encoded().astype(np.float32)
    widths = (rows.shape[1], *site.settings.widths(rows.shape[1]).encoder)
    activation = "relu" if site.settings.is_faithful else "tanh"
    task = Task(
        recipe(Autoencoder, widths, activation=activation),
        np.nan_to_num(rows),
        rows,
        key=jax.random.key(named_seed(site.seed, "encoder", site.name)),
        name=f"autoencoder of {site.name!r}",
    )
    kinds = {feature.kind for feature in site.view.features}
    if site.settings.is_faithful or kinds == {Kind.NUMERIC}:
        return task, SquaredError()
    return task, CellLoss(loss_blocks(site.fitted_scaler.blocks))


def encoder_training(site: CooperativeSite) -> TrainSettings:
    """Return how the site's encoder is trained: with fewer passes over many rows."""
    training = site.settings.encoder_training
    if site.settings.is_faithful:
        return training
    # Powers of two, so that sites of about the same size share one compiled program.
    rows = 2 ** int(np.ceil(np.log2(max(len(site.view), 16))))
    batch = int(np.clip(rows // 16, training.batch_size or 32, 512))
    steps = training.epochs * 16
    epochs = int(np.clip(steps * batch // rows, 5, training.epochs))
    return TrainSettings(**{**vars(training), "batch_size": batch, "epochs": epochs})


def view_encoder(site: CooperativeSite, network: Any, *, is_narrowed: bool = False) -> ViewEncoder:
    """Return a trained network as the site's encoder; with a pilot it awaits needs at first."""
    network = remove_opponent(network)
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(network.encoder):
        digest.update(np.asarray(leaf).tobytes())
    # Other weights make other codes: receivers know them by the version.
    width = network.encoder.biases[-1].shape[0]
    spec = CodeSpec(site.name, width, digest.hexdigest()[:16])
    awaits_needs = site.settings.defence.pilot > 0 and not is_narrowed
    return ViewEncoder(network, spec, awaits_needs)


# --- codes --------------------------------------------------------------------------------------


def encode_rows(
    site: CooperativeSite, rows: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, "rows width"]:
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
        drawn = replace(
            release,
            receiver=site.name,
            tokens=no_tokens(),
            codes=np.zeros((0, encoder.spec.width)),
            event=event,
            table=_table_name(site, encoder.spec),
        )
    is_new = rows_of(drawn.tokens, tokens) < 0
    if is_new.any():
        generator = _noise_generator(site, encoder.spec, tokens[is_new], plain[is_new])
        noisy = defence.round_codes(defence.add_noise(plain[is_new], generator), bounded=is_bounded)
        drawn = replace(
            drawn,
            tokens=np.concatenate([drawn.tokens, tokens[is_new]]),
            codes=np.concatenate([drawn.codes, noisy]),
        )
    codes = drawn.codes[rows_of(drawn.tokens, tokens)]
    return site.with_(noisy_codes=drawn), replace(
        drawn, receiver=receiver, tokens=tokens, codes=codes
    )


def _noise_generator(
    site: CooperativeSite, spec: CodeSpec, tokens: np.ndarray, codes: np.ndarray
) -> np.random.Generator:
    """Return the generator of some codes' noise: the same for the same codes, else another one."""
    digest = hashlib.blake2b(spec.version.encode(), key=site.noise_key)
    digest.update(tokens.tobytes())
    digest.update(np.ascontiguousarray(codes).tobytes())
    return np.random.default_rng(np.frombuffer(digest.digest(), np.uint32))


def _table_name(site: CooperativeSite, spec: CodeSpec) -> str:
    """Return the name of a site's table of noisy codes: one for an encoder and a noise key."""
    named = f"{spec.view}\n{spec.version}".encode()
    return hashlib.blake2b(named, key=site.noise_key, digest_size=16).hexdigest()


# --- announcing and sending ---------------------------------------------------------------------


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
    return site.with_(peer_tokens=known, sent_tokens=sent), releases


ENCODE = Step("train encoders", _encode)
ANNOUNCE = Step("align", one_by_one(_announce))
SEND_CODES = Step("send codes", one_by_one(_send_codes))
