"""Codes of what the receivers need: a pilot, their needs in return, and only then everybody's code.

A code that completes others' rows must tell what both sides share, and nothing beyond. Which part
that is, no sender can know alone. So the full codes of a few individuals go first; every receiver
learns from them by ridge regression which directions of the codes it uses, all senders together,
and returns those (`Needs`: weights, no rows). The sender then has, in the space of its whitened
codes, the matrix M of what receivers explain by a direction and the matrix L of what an attacker
explains of the row by it, and keeps the directions in which M − price · L is positive.

That choice is the best there is where regressions are linear: for any code C of a row x, let K be
the covariance of E[x | C]. Then 0 ≤ K ≤ Σ, the attacker explains tr(L K), the receiver tr(M K),
and tr((M − price · L) K) is largest for the projection on the positive directions.

The round has its own leak: the pilot's people are as exposed as without a defence, and needs tell
how the receiver's features depend on the sender's, over the pilot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from cofill.cooperate._encode import codes_for, encode_rows, encoder_of, training_of
from cofill.cooperate._learn import desk_of, fusion_problem, receive
from cofill.cooperate._opposed import joined, opposed_loss, opposed_task
from cofill.cooperate._site import CooperativeSite
from cofill.errors import DataError
from cofill.nets import MLP, FusionSettings, fit_fusions, train
from cofill.privacy import BlindedIds, Needs, Release, in_order, rows_of
from cofill.protocol import Step

__all__ = ["NARROW", "SEND_PILOT", "STATE_NEEDS", "best_directions"]

_LEAST = 1e-9  # of the largest variance: directions below are rounding


def _send_pilot(
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], report_progress: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Send each peer the full codes of a few shared individuals, the same few wherever possible."""
    out = []
    for site, inbox in zip(sites, inboxes, strict=True):
        heard = {r.sender: r.tokens for r in inbox if isinstance(r, BlindedIds)}
        site = site.with_(peer_tokens={**site.peer_tokens, **heard})
        sent: list[Release] = []
        if site.encoder is not None and site.encoder.awaits_needs:
            for peer, theirs in heard.items():
                # Tokens are keyed hashes: their first ones are anybody.
                rows = rows_of(site.tokens, in_order(theirs))
                rows = rows[rows >= 0][: site.settings.defence.pilot]
                if len(rows):
                    site, codes = codes_for(site, rows, peer)
                    sent.append(codes)
        out.append((site, sent))
    return out


def _state_needs(
    sites: Sequence[CooperativeSite], inboxes: Sequence[tuple[Release, ...]], report_progress: Any
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Learn from pilots' codes which of their directions are of use, and tell their senders."""
    out: list[tuple[CooperativeSite, list[Release]]] = []
    for site, inbox in zip(sites, inboxes, strict=True):
        desk = desk_of(receive(site.with_(peer_codes={}), inbox))
        sent: list[Release] = []
        if desk.links:
            problem = fusion_problem(desk)
            fusion = fit_fusions([problem], FusionSettings(hidden=()))[0]
            weights = fusion.ridge_weights() / np.sqrt(problem.targets.shape[1])
            for (peer, link), (a, b) in zip(desk.links.items(), problem.groups, strict=True):
                sent.append(
                    Needs(
                        sender=site.name,
                        receiver=peer,
                        spec=link.spec,
                        directions=_condensed(weights[a:b] / link.scale[:, None]),
                        people=len(problem.inputs),
                    )
                )
        out.append((site, sent))
    return out


def _narrow(
    sites: Sequence[CooperativeSite],
    inboxes: Sequence[tuple[Release, ...]],
    report_progress: Callable[[float], None],
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Keep of each site's codes what is worth its leak, in closed form or against an opponent."""
    made = list(sites)
    opposed: list[tuple[int, Any]] = []
    for k, (site, inbox) in enumerate(zip(sites, inboxes, strict=True)):
        if site.encoder is None or not site.encoder.awaits_needs:
            continue
        needs = _needs_of(site, inbox)
        codes = encode_rows(site, np.arange(len(site.view))).astype(np.float64)
        rows = np.nan_to_num(site.encoded())
        defence = site.settings.defence
        kept, centre = best_directions(
            codes,
            rows,
            needs,
            price=defence.cost_of_leak,
            most=defence.code_width(rows.shape[1]),
        )
        if defence.adversary:
            wanted = (codes - centre) @ _condensed(needs) if needs.size else codes - centre
            opposed.append((k, opposed_task(site, wanted, kept.shape[1])))
        else:
            made[k] = site.with_(encoder=_projected(site, kept, centre, codes, rows))
    for number, (k, one) in enumerate(opposed):
        # Each by itself: sites need different numbers of directions, so no two share a program.
        trained = train([one.task], opposed_loss(*one.outputs), training_of(sites[k]))
        encoder = encoder_of(sites[k], trained.network(0), narrowed=True)
        made[k] = sites[k].with_(encoder=encoder).counted(encoders=1)
        report_progress((number + 1) / len(opposed))
    return [(site, []) for site in made]


SEND_PILOT = Step("send the pilot's codes", _send_pilot)
STATE_NEEDS = Step("state needs", _state_needs)
NARROW = Step("narrow codes", _narrow)


def best_directions(
    codes: Float[np.ndarray, "people width"],
    rows: Float[np.ndarray, "people columns"],
    needs: Float[np.ndarray, "width needs"],
    *,
    price: float,
    most: int | None = None,
) -> tuple[Float[np.ndarray, "width kept"], Float[np.ndarray, " width"]]:
    """Return the directions of codes that are worth their leak, and the codes' mean.

    Parameters
    ----------
    codes, rows
        Of the sender's people, rows standardised.
    needs
        The receivers' directions side by side.
    price
        Of a unit of leak against a unit of need.
    most
        Directions to keep at most; at least one is kept.

    Returns
    -------
    directions, centre
        ``(codes - centre) @ directions`` has uncorrelated columns of unit variance.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(500, 3))
    >>> needs = np.array([[1.0], [0.2], [0.0]])
    >>> kept, _ = best_directions(rows, rows, needs, price=0.5)
    >>> np.abs(kept / np.linalg.norm(kept)).round(1).ravel().tolist()
    [1.0, 0.2, 0.0]
    """
    centre = codes.mean(axis=0)
    apart = codes - centre
    values, vectors = np.linalg.eigh(apart.T @ apart / len(apart))
    good = values > max(values.max(), 1e-300) * _LEAST
    spread = np.sqrt(values[good])
    whiten = vectors[:, good] / spread
    needed = (vectors[:, good] * spread).T @ needs
    told = (apart @ whiten).T @ (rows - rows.mean(axis=0)) / len(rows) / np.sqrt(rows.shape[1])
    worth, turn = np.linalg.eigh(needed @ needed.T - price * told @ told.T)
    order = np.argsort(-worth)
    count = max(1, int((worth > 0).sum()))
    chosen = order[: count if most is None else min(count, most)]
    return whiten @ turn[:, chosen], centre


def _needs_of(
    site: CooperativeSite, inbox: tuple[Release, ...]
) -> Float[np.ndarray, "width needs"]:
    """Return all receivers' directions side by side, checked."""
    assert site.encoder is not None  # noqa: S101
    spec = site.encoder.spec
    parts = [np.zeros((spec.width, 0))]
    for release in inbox:
        if isinstance(release, Needs):
            where = f"needs from {release.sender!r} to {site.name!r}"
            if release.spec != spec or len(release.directions) != spec.width:
                raise DataError(f"{where} are about other codes than this site has; refused")
            if not np.isfinite(release.directions).all():
                raise DataError(f"{where} are not finite numbers; refused")
            parts.append(release.directions)
    return np.hstack(parts)


def _condensed(directions: Float[np.ndarray, "width needs"]) -> Float[np.ndarray, "width fewer"]:
    """Return as few directions as have the same D Dᵀ, without those that are rounding."""
    left, sizes, _ = np.linalg.svd(directions, full_matrices=False)
    good = sizes > sizes.max(initial=0.0) * 1e-6
    good[:1] = True
    return left[:, good] * sizes[good]


def _projected(
    site: CooperativeSite,
    kept: Float[np.ndarray, "width kept"],
    centre: Float[np.ndarray, " width"],
    codes: Float[np.ndarray, "people width"],
    rows: Float[np.ndarray, "people columns"],
) -> Any:
    """Return an encoder that ends in a projection, with the best linear decoder."""
    assert site.encoder is not None  # noqa: S101
    wide: MLP = site.encoder.network.encoder
    widths = (wide.weights[0].shape[1], *(b.shape[0] for b in wide.biases), kept.shape[1])
    encoder = MLP(widths, key=jax.random.key(0), activation=wide.activation)
    _set(encoder, (*wide.weights, kept.T), (*wide.biases, -centre @ kept))
    made = (codes - centre) @ kept
    decoder = MLP((kept.shape[1], rows.shape[1]), key=jax.random.key(0))
    back = np.linalg.lstsq(made, rows - rows.mean(axis=0), rcond=None)[0]
    _set(decoder, (back.T,), (rows.mean(axis=0),))
    return encoder_of(site, joined(encoder, decoder), narrowed=True)


def _set(network: MLP, weights: tuple[Any, ...], biases: tuple[Any, ...]) -> None:
    for name, parts in (("weights", weights), ("biases", biases)):
        object.__setattr__(network, name, tuple(jnp.asarray(p, jnp.float32) for p in parts))
