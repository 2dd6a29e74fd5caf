"""Codes of what the receivers need: a pilot, their needs in return, and only then everybody's code.

A code that completes a receiver's rows must tell what both sides share, and nothing beyond. Which
part that is, no sender can know alone. So the full codes of a few individuals go first; every
receiver learns from them by ridge regression which directions of the codes it uses, all senders
together, and returns those (`Needs`: weights, no rows). The sender then has, in the space of its
whitened codes, the matrix M of what receivers explain by a direction and the matrix L of what an
attacker explains of the row by it, and keeps the directions in which M − price · L is positive.

That choice is the best there is where regressions are linear: for any code C of a row x, let K be
the covariance of E[x | C]. Then 0 ≤ K ≤ Σ, the attacker explains tr(L K), the receiver tr(M K),
and tr((M − price · L) K) is largest for the projection on the positive directions.

The round has its own leak: the pilot's people are as exposed as without a defence, and needs tell
how the receiver's features depend on the sender's, over the pilot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from cofill.cooperate._encode import (
    announced_tokens,
    encode_rows,
    encoder_training,
    join_networks,
    make_codes,
    opposed_task,
    view_encoder,
)
from cofill.cooperate._link_data import link_data, receive_codes
from cofill.cooperate._site import CooperativeSite, Report, ViewEncoder
from cofill.errors import DataError
from cofill.nets import MLP, FusionSettings, fit_fusions, train
from cofill.privacy import CodeSpec, Needs, in_order, rows_of
from cofill.protocol import Inbox, Outbox, Step, one_by_one

_LEAST_VARIANCE = 1e-9  # of the largest: directions below are rounding


def _send_pilot(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Send each peer the full codes of a few shared individuals, the same few where possible."""
    announced = announced_tokens(inbox)
    site = replace(site, peer_tokens={**site.peer_tokens, **announced})
    releases = []
    if site.encoder is not None and site.encoder.awaits_needs:
        for peer, tokens in announced.items():
            # Tokens are keyed hashes: their first ones are anybody.
            rows = rows_of(site.tokens, in_order(tokens))
            rows = rows[rows >= 0][: site.settings.defence.pilot]
            if len(rows):
                site, codes = make_codes(site, rows, peer)
                releases.append(codes)
    return site, releases


def _state_needs(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Learn from the pilot's codes which of their directions are of use; return these."""
    data = link_data(receive_codes(replace(site, peer_codes={}), inbox))
    if not data.links:
        return site, []
    problem = data.fusion_problem()
    fusion = fit_fusions([problem], FusionSettings(hidden=()))[0]
    weights = fusion.ridge_weights() / np.sqrt(problem.targets.shape[1])
    return site, [
        Needs(
            sender=site.name,
            receiver=peer,
            spec=link.spec,
            directions=_condense(weights[start:stop] / link.scale[:, None]),
            people=len(problem.inputs),
        )
        for (peer, link), (start, stop) in zip(data.links.items(), problem.groups, strict=True)
    ]


def _narrow(
    sites: Sequence[CooperativeSite], inboxes: Sequence[Inbox], report_progress: Report
) -> list[tuple[CooperativeSite, Outbox]]:
    """Keep of each site's codes what is worth its leak, in closed form or against an opponent."""
    results: list[tuple[CooperativeSite, Outbox]] = []
    for number, (site, inbox) in enumerate(zip(sites, inboxes, strict=True)):
        if site.encoder is not None and site.encoder.awaits_needs:
            site = _narrow_site(site, _received_needs(site.encoder.spec, site.name, inbox))
        results.append((site, []))
        report_progress((number + 1) / len(sites))
    return results


def _narrow_site(site: CooperativeSite, needs: Float[np.ndarray, "width needs"]) -> CooperativeSite:
    codes = encode_rows(site, np.arange(len(site.view))).astype(np.float64)
    rows = np.nan_to_num(site.encoded())
    defence = site.settings.defence
    price, most = defence.cost_of_leak, defence.code_width(rows.shape[1])
    directions, centre = best_directions(codes, rows, needs, price=price, most=most)
    if not defence.adversary:
        return replace(site, encoder=_projected_encoder(site, directions, centre, codes, rows))
    wanted = (codes - centre) @ _condense(needs) if needs.size else codes - centre
    # Each by itself: sites need different numbers of directions, so no two share a program.
    task, loss = opposed_task(site, wanted, directions.shape[1])
    network = train([task], loss, encoder_training(site)).networks[0]
    encoder = view_encoder(site, network, is_narrowed=True)
    return replace(site, encoder=encoder).count_trained(encoders=1)


SEND_PILOT = Step("send the pilot's codes", one_by_one(_send_pilot))
STATE_NEEDS = Step("state needs", one_by_one(_state_needs))
NARROW = Step("narrow codes", _narrow)


def best_directions(
    codes: Float[np.ndarray, "people width"],
    rows: Float[np.ndarray, "people columns"],
    needs: Float[np.ndarray, "width needs"],
    *,
    price: float,
    most: int | None = None,
) -> tuple[Float[np.ndarray, "width directions"], Float[np.ndarray, " width"]]:
    """Return the directions of codes that are worth their leak, and the codes' mean (centre).

    ``rows`` are standardised, ``needs`` the receivers' directions side by side, ``price`` that of
    a unit of leak against a unit of need, ``most`` the directions to keep at most; one is kept at
    least. ``(codes - centre) @ directions`` has uncorrelated columns of unit variance.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(500, 3))
    >>> needs = np.array([[1.0], [0.2], [0.0]])
    >>> directions, _ = best_directions(rows, rows, needs, price=0.5)
    >>> np.abs(directions / np.linalg.norm(directions)).round(1).ravel().tolist()
    [1.0, 0.2, 0.0]
    """
    centre = codes.mean(axis=0)
    centred = codes - centre
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    varies = values > max(values.max(), 1e-300) * _LEAST_VARIANCE
    spread = np.sqrt(values[varies])
    whiten = vectors[:, varies] / spread
    needed = (vectors[:, varies] * spread).T @ needs
    leaked = (centred @ whiten).T @ (rows - rows.mean(axis=0))
    leaked = leaked / len(rows) / np.sqrt(rows.shape[1])
    worth, axes = np.linalg.eigh(needed @ needed.T - price * leaked @ leaked.T)
    order = np.argsort(-worth)
    count = max(1, int((worth > 0).sum()))
    chosen = order[: count if most is None else min(count, most)]
    return whiten @ axes[:, chosen], centre


def _received_needs(spec: CodeSpec, name: str, inbox: Inbox) -> Float[np.ndarray, "width needs"]:
    """Return all receivers' directions side by side, checked."""
    parts = [np.zeros((spec.width, 0))]
    for release in inbox:
        if isinstance(release, Needs):
            what = f"needs from {release.sender!r} to {name!r}"
            if release.spec != spec or len(release.directions) != spec.width:
                raise DataError(f"{what} are about other codes than this site has; refused")
            if not np.isfinite(release.directions).all():
                raise DataError(f"{what} are not finite numbers; refused")
            parts.append(release.directions)
    return np.hstack(parts)


def _condense(directions: Float[np.ndarray, "width needs"]) -> Float[np.ndarray, "width fewer"]:
    """Return as few directions as have the same D Dᵀ, without those that are rounding."""
    left, sizes, _ = np.linalg.svd(directions, full_matrices=False)
    counts = sizes > sizes.max(initial=0.0) * 1e-6
    counts[:1] = True
    return left[:, counts] * sizes[counts]


def _projected_encoder(
    site: CooperativeSite,
    directions: Float[np.ndarray, "width directions"],
    centre: Float[np.ndarray, " width"],
    codes: Float[np.ndarray, "people width"],
    rows: Float[np.ndarray, "people columns"],
) -> ViewEncoder:
    """Return an encoder that ends in a projection, with the best linear decoder."""
    full, mean = site.fitted_encoder.network.encoder, rows.mean(axis=0)
    weights, biases = (*full.weights, directions.T), (*full.biases, -centre @ directions)
    decoding = np.linalg.lstsq((codes - centre) @ directions, rows - mean, rcond=None)[0]
    decoder = _network((decoding.T,), (mean,), "relu")
    network = join_networks(_network(weights, biases, full.activation), decoder)
    return view_encoder(site, network, is_narrowed=True)


def _network(weights: tuple[Any, ...], biases: tuple[Any, ...], activation: str) -> MLP:
    """Return the perceptron with these layers."""
    widths = (weights[0].shape[1], *(len(b) for b in biases))
    network = MLP(widths, key=jax.random.key(0), activation=activation)
    for name, parts in (("weights", weights), ("biases", biases)):
        object.__setattr__(network, name, tuple(jnp.asarray(p, jnp.float32) for p in parts))
    return network
