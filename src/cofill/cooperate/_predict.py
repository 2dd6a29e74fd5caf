"""From codes to cells: outputs of links, their masked sum, or the fusion, for any pattern."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.cooperate._encode import announced_tokens, make_codes
from cofill.cooperate._masks import (
    MaskStatistics,
    equal_masks,
    masks_by_gradient,
    masks_by_iteration,
    masks_for_patterns,
    masks_in_closed_form,
)
from cofill.cooperate._own_cells import add_known_in_part
from cofill.cooperate._settings import CooperativeSettings
from cofill.cooperate._site import CooperativeSite, Link, ReconstructedRows, Rows, gather_codes
from cofill.errors import DataError
from cofill.nets import forward
from cofill.privacy import BlindedIds, Codes, in_order, no_tokens, rows_of, union
from cofill.protocol import Inbox, Outbox, Step, one_by_one
from cofill.views import patterns_of


def _ask(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Ask each peer for the codes of individuals it has and this site lacks, or knows in part."""
    announced = announced_tokens(inbox)
    complete = site.tokens[~np.isnan(site.view.cells).any(axis=1)]
    requests = []
    for peer in site.model.links:
        wanted = announced.get(peer, no_tokens())
        wanted = in_order(wanted[rows_of(complete, wanted) < 0])
        if len(wanted):
            requests.append(
                BlindedIds(sender=site.name, receiver=peer, tokens=wanted, purpose="ask")
            )
    return replace(site, peer_tokens=announced, reconstructed=None), requests


def _answer(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Send the codes that were asked for, of individuals this site has."""
    answers = []
    for peer, wanted in announced_tokens(inbox).items():
        if site.encoder is not None:
            rows = rows_of(site.tokens, wanted)
            site, codes = make_codes(site, rows[rows >= 0], peer)
            answers.append(codes)
    return site, answers


def _complete(site: CooperativeSite, inbox: Inbox) -> tuple[CooperativeSite, Outbox]:
    """Reconstruct the rows that were asked about."""
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
    rows = reconstruct_rows(site, codes)
    return replace(site, reconstructed=add_known_in_part(site, rows)), []


ASK = Step("ask", one_by_one(_ask))
ANSWER = Step("answer", one_by_one(_answer))
COMPLETE = Step("complete", one_by_one(_complete))


def reconstruct_rows(site: CooperativeSite, codes: Mapping[str, Codes]) -> ReconstructedRows:
    """Return expected cells of everyone for whom some peer sent a code."""
    tokens, model = union(release.tokens for release in codes.values()), site.model
    width = site.scaler.width if site.scaler is not None else 0
    if not len(tokens):
        return ReconstructedRows(tokens, np.zeros((0, width)))
    sent = [gather_codes(codes.get(peer), link, tokens) for peer, link in model.links.items()]
    parts, present = [part for part, _ in sent], np.stack([known for _, known in sent], axis=1)
    if model.use_fusion and model.fusion is not None:
        return ReconstructedRows(tokens, model.fusion.predict(np.hstack(parts), present))
    if model.statistics is None:
        return ReconstructedRows(tokens, np.full((len(tokens), width), np.nan))
    outputs = link_outputs(model.links.values(), parts, present, width)
    return ReconstructedRows(tokens, masked_sum(outputs, model.statistics, present, site.settings))


def link_outputs(
    links: Collection[Link],
    codes: Sequence[np.ndarray],
    present: Bool[np.ndarray, "rows links"],
    width: int,
) -> Float[np.ndarray, "links rows width"]:
    """Return each link's prediction of each row, zero where the peer sent no code."""
    outputs = np.zeros((len(links), len(present), width))
    for number, (link, peer_codes) in enumerate(zip(links, codes, strict=True)):
        rows = present[:, number]
        outputs[number, rows] = link_output(link, peer_codes[rows])
    return outputs


def link_output(link: Link, codes: Float[np.ndarray, "rows code"]) -> Rows:
    """Return the cells that a link predicts from standardised codes."""
    if link.fusion is not None:
        return link.fusion.predict(codes, np.ones((len(codes), 1), bool))
    return forward(link.network, codes).astype(np.float64)


def masks_of(
    statistics: MaskStatistics, settings: CooperativeSettings
) -> Float[np.ndarray, "sources features"]:
    """Return the masks of all sources by the method that the settings name."""
    if settings.masks == "equal":
        return equal_masks(statistics.cross.shape[1], len(statistics.cross))
    if settings.masks == "closed":
        return masks_in_closed_form(statistics)
    descend = masks_by_gradient if settings.masks == "gradient" else masks_by_iteration
    return descend(statistics)[0]


def masked_sum(
    outputs: Float[np.ndarray, "sources rows features"],
    statistics: MaskStatistics,
    present: Bool[np.ndarray, "rows sources"],
    settings: CooperativeSettings,
) -> Float[np.ndarray, "rows features"]:
    """Return the weighted sum of the outputs (Eq. 4), with masks for each row's own pattern."""
    sums = np.zeros(outputs.shape[1:])
    patterns = list(patterns_of(present))
    if settings.masks == "closed" and len(patterns) > 1:
        masks = masks_for_patterns(statistics, np.array([pattern for pattern, _ in patterns]))
        for weights, (_, rows) in zip(masks, patterns, strict=True):
            sums[rows] = np.einsum("jf,jrf->rf", weights, outputs[:, rows])
        return sums
    for pattern, rows in patterns:
        if pattern.any():
            weights: Any = masks_of(statistics.only(pattern), settings)
            sums[rows] = np.einsum("jf,jrf->rf", weights, outputs[pattern][:, rows])
    return sums
