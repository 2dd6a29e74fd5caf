"""From codes to cells: the guesses of links, their masked sum, or the fusion, for any pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.cooperate._encode import codes_for
from cofill.cooperate._masks import (
    MaskStatistics,
    by_gradient,
    by_iteration,
    closed_form,
    closed_forms,
    equal_weights,
)
from cofill.cooperate._settings import CooperativeSettings
from cofill.cooperate._site import Answer, CooperativeSite, Link, gathered
from cofill.errors import DataError
from cofill.nets import forward, patterns_of
from cofill.privacy import BlindedIds, Codes, Release, in_order, rows_of, union
from cofill.protocol import Step

__all__ = ["ANSWER", "ASK", "COMPLETE", "link_guess", "masked_sum", "masks_of"]


def _ask(
    sites: Sequence[CooperativeSite],
    inboxes: Sequence[tuple[Release, ...]],
    report_progress: Callable[[float], None],
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Ask each peer for the codes of individuals it has and this site lacks, or knows in part."""
    out = []
    for site, inbox in zip(sites, inboxes, strict=True):
        heard = {r.sender: r.tokens for r in inbox if isinstance(r, BlindedIds)}
        tokens = site.tokens
        whole = tokens[~np.isnan(site.view.cells).any(axis=1)]
        asked: list[Release] = []
        for peer in site.model.links:
            wanted = heard.get(peer, tokens[:0])
            wanted = in_order(wanted[rows_of(whole, wanted) < 0])
            if len(wanted):
                asked.append(
                    BlindedIds(sender=site.name, receiver=peer, tokens=wanted, purpose="ask")
                )
        out.append((site.with_(peer_tokens=heard, answer=None), asked))
    return out


def _answer(
    sites: Sequence[CooperativeSite],
    inboxes: Sequence[tuple[Release, ...]],
    report_progress: Callable[[float], None],
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Send the codes that were asked for, of individuals this site has."""
    out = []
    for site, inbox in zip(sites, inboxes, strict=True):
        tokens = site.tokens
        sent: list[Release] = []
        for request in inbox:
            if not isinstance(request, BlindedIds) or site.encoder is None:
                continue
            rows = rows_of(tokens, request.tokens)
            site, codes = codes_for(site, rows[rows >= 0], request.sender)
            sent.append(codes)
        out.append((site, sent))
    return out


def _complete(
    sites: Sequence[CooperativeSite],
    inboxes: Sequence[tuple[Release, ...]],
    report_progress: Callable[[float], None],
) -> list[tuple[CooperativeSite, list[Release]]]:
    """Reconstruct the rows that were asked about."""
    out: list[tuple[CooperativeSite, list[Release]]] = []
    for site, inbox in zip(sites, inboxes, strict=True):
        codes: dict[str, Codes] = {}
        for release in inbox:
            if isinstance(release, Codes):
                link = site.model.links.get(release.sender)
                if link is None:
                    raise DataError(
                        f"codes from {release.sender!r} to {site.name!r} are of a view that is "
                        "not known here; refused"
                    )
                release.check(link.spec)
                codes[release.sender] = release
        out.append((site.with_(answer=reconstruct(site, codes)), []))
    return out


ASK = Step("ask", _ask)
ANSWER = Step("answer", _answer)
COMPLETE = Step("complete", _complete)


def reconstruct(site: CooperativeSite, codes: dict[str, Codes]) -> Answer:
    """Return expected cells of everyone for whom some peer sent a code."""
    wanted = union(c.tokens for c in codes.values())
    width = site.scaler.width if site.scaler is not None else 0
    if not len(wanted):
        return Answer(wanted, np.zeros((0, width)))
    parts, present = [], []
    for peer, link in site.model.links.items():
        columns, there = gathered(codes.get(peer), link, wanted)
        parts.append(columns)
        present.append(there)
    there = np.stack(present, axis=1)
    model = site.model
    if model.use_fusion and model.fusion is not None:
        expected = model.fusion.predict(np.hstack(parts), there)
    elif model.statistics is not None:
        guesses = np.zeros((len(parts), len(wanted), width))
        for j, (link, columns) in enumerate(zip(model.links.values(), parts, strict=True)):
            rows = there[:, j]
            guesses[j, rows] = link_guess(link, columns[rows])
        expected = masked_sum(guesses, model.statistics, there, site.settings)
    else:
        expected = np.full((len(wanted), width), np.nan)
    return Answer(wanted, expected)


def link_guess(
    link: Link, codes: Float[np.ndarray, "rows code"]
) -> Float[np.ndarray, "rows width"]:
    """Return what a link makes of (scaled) codes."""
    if link.fusion is not None:
        return link.fusion.predict(codes, np.ones((len(codes), 1), bool))
    return forward(link.network, codes).astype(np.float64)


def masks_of(
    statistics: MaskStatistics, settings: CooperativeSettings
) -> Float[np.ndarray, "sources features"]:
    """Return the masks of all sources by the method that the settings name."""
    if settings.masks == "gradient":
        return by_gradient(statistics)[0]
    if settings.masks == "iteration":
        return by_iteration(statistics)[0]
    if settings.masks == "equal":
        return equal_weights(statistics.cross.shape[1], len(statistics.cross))
    return closed_form(statistics)


def masked_sum(
    guesses: Float[np.ndarray, "sources rows features"],
    statistics: MaskStatistics,
    present: Bool[np.ndarray, "rows sources"],
    settings: CooperativeSettings,
) -> Float[np.ndarray, "rows features"]:
    """Return the weighted sum of the guesses (Eq. 4), with masks for each row's own pattern."""
    made = np.zeros(guesses.shape[1:])
    found = list(patterns_of(present))
    if settings.masks == "closed" and len(found) > 1:
        many = closed_forms(statistics, np.array([pattern for pattern, _ in found]))
        for weights, (_, rows) in zip(many, found, strict=True):
            made[rows] = np.einsum("jf,jrf->rf", weights, guesses[:, rows])
        return made
    for pattern, rows in found:
        if pattern.any():
            weights: Any = masks_of(statistics.only(pattern), settings)
            made[rows] = np.einsum("jf,jrf->rf", weights, guesses[pattern][:, rows])
    return made
