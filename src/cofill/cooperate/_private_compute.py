"""The two computing sites' steps: one round of a computation each, then what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.cooperate._private_learner import ask, learn
from cofill.cooperate._private_site import Named, PrivateSite, require_words
from cofill.errors import DataError
from cofill.privacy import MaskedRows, OpenedShares, PaddedCells, PadKey, ScoreShares
from cofill.protocol import COORDINATOR, Inbox, Outbox
from cofill.shares import AGREED, NOTHING, ComputingSite, derive, random_words

_RUNNING: dict[bytes, tuple[int, Named, Generator[Any, Any, Any]]] = {}
"""Computations under way, by key; one that is missing is run again from what was received."""


def start_computing(asking: bool) -> Callable[[PrivateSite, Inbox], tuple[PrivateSite, Outbox]]:
    """Return the step in which computing sites begin, once they have everybody's masked rows."""

    def start(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
        if site.number is None:
            return site, []
        inputs = dict(site.inputs)
        pads = {r.sender: r.key for r in inbox if isinstance(r, PadKey)}
        for release in inbox:
            if isinstance(release, MaskedRows):
                if not all(label.startswith(f"{release.sender}/") for label in release.words):
                    raise DataError(f"{release.sender!r} sent rows in another's name; refused")
                inputs |= release.words
        expected = site.placed.plan.input_shapes(asking=asking)
        for party in site.parties:
            shapes = {k: shape for k, shape in expected.items() if k.startswith(f"{party}/")}
            rows = {k: words for k, words in inputs.items() if k.startswith(f"{party}/")}
            require_words(rows, shapes, party)
            if asking and party != site.name and party not in pads:
                raise DataError(f"site {site.name!r} needs a key for pads of {party!r}; refused")
        site = replace(site, inputs=inputs, pads={**site.pads, **pads})
        shares = _shares_to_open(site, asking)
        return site, [_opened(site, shares)]

    return start


def compute(asking: bool) -> Callable[[PrivateSite, Inbox], tuple[PrivateSite, Outbox]]:
    """Return the step of one round: read what the other computing site opened, open the next."""

    def advance(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
        if site.number is None:
            return site, []
        site = _with_received(site, inbox, asking)
        shares = _shares_to_open(site, asking)
        return site, [_opened(site, shares)]

    return advance


def finish_learning(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send shares of each view's errors to its owner."""
    if site.number is None:
        return site, []
    learned, scores = _result(_with_received(site, inbox, False), asking=False)
    by_view = {
        view: {label: words for label, words in scores.items() if label.rsplit("/", 1)[0] == view}
        for view in site.views
    }
    learner = site.without_shares()
    scores = by_view[site.parties[site.name]]
    site = replace(learner, learned=learned, known=site.placed.plan, scores=scores)
    return site, [
        ScoreShares(sender=site.name, receiver=party, words=by_view[view])
        for party, view in site.parties.items()
        if party != site.name and by_view[view]
    ]


def finish_asking(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send shares of everybody's cells, under their receivers' pads, to the coordinator."""
    if site.number is None:
        return site, []
    predicted = _result(_with_received(site, inbox, True), asking=True)
    pads = {**site.pads, site.name: site.pads[f"#{site.number}"]}
    padded = {}
    for party, view in site.parties.items():
        if view in predicted:
            pad = random_words(pads[party], party, predicted[view].shape)
            padded[party] = predicted[view] + pad
    site = replace(site.without_shares(), pads={k: v for k, v in site.pads.items() if k[0] == "#"})
    return site, [PaddedCells(sender=site.name, receiver=COORDINATOR, words=padded)]


def _opened(site: PrivateSite, shares: Named) -> OpenedShares:
    other = site.computing[1 - site.computing.index(site.name)]
    return OpenedShares(
        sender=site.name, receiver=other, round=len(site.received), words=dict(shares)
    )


def _with_received(site: PrivateSite, inbox: Inbox, asking: bool) -> PrivateSite:
    """Return the site with what the other computing site opened, which must fit its own shares."""
    shares = _shares_to_open(site, asking)
    opened = [r for r in inbox if isinstance(r, OpenedShares)]
    if len(opened) != 1 or opened[0].round != len(site.received):
        raise DataError(
            f"site {site.name!r} needs the shares of round {len(site.received)} and got those of "
            f"{', '.join(str(r.round) for r in opened) or 'none'}; refused"
        )
    words = opened[0].words
    if set(words) != set(shares) or not all(_fits(k, words[k], shares[k]) for k in shares):
        raise DataError(f"site {opened[0].sender!r} sent shares of other shapes; refused")
    return replace(site, received=(*site.received, words))


def _fits(label: str, received: np.ndarray, share: np.ndarray) -> bool:
    """Return whether words of a label can be added to this site's."""
    if label.endswith(AGREED):
        return NOTHING.shape in (received.shape, share.shape)
    return received.shape == share.shape


def _computation(site: PrivateSite, asking: bool) -> Generator[Any, Any, Any]:
    placed = site.placed
    computer = ComputingSite(site.number or 0, placed.dealer_key, placed.dealt)
    least = site.settings.min_overlap
    if not asking:
        return learn(computer, placed.plan, site.inputs, least)
    if site.learned is None or site.known is None:
        raise DataError(f"site {site.name!r} has not learned yet; fit first")
    return ask(computer, placed.plan, site.inputs, site.learned, site.known, site.choices, least)


def _shares_to_open(site: PrivateSite, asking: bool) -> Named:
    """Return the shares that come after all that was received so far."""
    token = derive(site.placed.dealer_key, site.name)
    done, shares, computation = _RUNNING.pop(token, (-1, {}, None))
    if computation is None or not 0 <= len(site.received) - done <= 1:
        computation = _computation(site, asking)
        done, shares = 0, next(computation)
    for words in site.received[done:]:
        shares = computation.send({label: shares[label] + words[label] for label in shares})
    _RUNNING[token] = len(site.received), shares, computation
    return shares


def _result(site: PrivateSite, asking: bool) -> Any:
    """Return what a computation comes to after its last round."""
    try:
        _shares_to_open(site, asking)
    except StopIteration as stop:
        return stop.value
    raise DataError("the computation has more rounds than the protocol; report this")
