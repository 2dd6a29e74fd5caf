"""How several sites of one view agree on columns, scales and features, by sums that hide their own.

Each site adds a pad to its words that the next one takes off, in a ring of the view's sites, so
that the coordinator sees their total only. It rounds what it hands out (`_private_common`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cofill.cooperate._private_common import (
    ShapeSums,
    model_arrays,
    model_of_arrays,
    rounded_scaler,
)
from cofill.cooperate._private_coordinator import PrivateCoordinator
from cofill.cooperate._private_inputs import LocalModel
from cofill.cooperate._private_site import PrivateSite, only_release
from cofill.errors import DataError
from cofill.privacy import (
    Columns,
    ColumnScales,
    CommonFeatures,
    ExactSums,
    MaskedVector,
    NumbersAndFlags,
    PadKey,
)
from cofill.protocol import COORDINATOR, Inbox, Outbox, Survey, agree_on_columns, agreed_columns
from cofill.shares import random_words
from cofill.views import Feature, Kind, Scaler

_SHAPE_DIGITS = 5  # words of a number: 80 bits, for products of many people
_NO_FLAGS = np.zeros(0, bool)


# --- a site's steps -------------------------------------------------------------------------------


def describe(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Tell the coordinator the view's columns, and the next site of the view the key of a pad."""
    if site.ring is None:
        return site, []
    columns = Columns(
        sender=site.name, receiver=COORDINATOR, features={site.view.name: site.view.features}
    )
    pad = PadKey(sender=site.name, receiver=site.ring, key=site.key_for("survey"))
    return site, [columns, pad]


def add_moments(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Add the view's counts, sums and sums of squares to those of its other sites."""
    if site.ring is None:
        return site, []
    key = only_release(inbox, PadKey, site.name).key
    columns = agreed_columns(inbox)
    survey = Survey(columns, {})
    words = survey.code(len(site.peers)).encode(survey.describe({site.view.name: site.view}))
    site = replace(site, scaler=_unscaled(columns.features[site.view.name]), pads={"survey": key})
    return site, [_padded(site, words, 0)]


def add_shapes(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Add, in agreed scales, counts below edges and sums of products."""
    if site.ring is None or site.scaler is None:
        return site, []
    figures = only_release(inbox, ColumnScales, site.name).columns[site.view.name]
    site = replace(site, scaler=_with_figures(site.scaler, figures))
    sums = ShapeSums(site.agreed_scaler)
    values = NumbersAndFlags(sums.numbers(site.view), _NO_FLAGS)
    return site, [_padded(site, _shape_code(sums, len(site.peers)).encode(values), 1)]


def common_model(site: PrivateSite, inbox: Inbox) -> LocalModel:
    """Return the features and targets that all sites of the view have in common."""
    arrays = only_release(inbox, CommonFeatures, site.name).arrays
    return model_of_arrays(site.agreed_scaler, dict(arrays), site.view.name)


def _padded(site: PrivateSite, words: np.ndarray, number: int) -> MaskedVector:
    label = f"survey {number}"
    pad = random_words(site.key_for("survey"), label, words.shape)
    other_pad = random_words(site.pads["survey"], label, words.shape)
    return MaskedVector(
        sender=site.name,
        receiver=COORDINATOR,
        round=number,
        words=words + pad - other_pad,
        rows=len(site.view),
    )


# --- the coordinator's steps ----------------------------------------------------------------------


def agree_columns(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Check that the sites of a view have the same columns, and tell them so."""
    scalers, releases = {}, []
    for view, names in party.split_views.items():
        agreed = agree_on_columns(names, [view], [r for r in inbox if r.sender in names])
        scalers[view] = _unscaled(agreed[0].features[view])
        releases += agreed
    return replace(party, scalers=scalers), releases


def agree_scales(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Open the sums of moments, and hand out scales in coarse steps."""
    scalers, releases = {}, []
    for view, names in party.split_views.items():
        features = party.scalers[view].features
        survey = Survey(Columns(sender=COORDINATOR, receiver="", features={view: features}), {})
        code = survey.code(len(names))
        pooled = survey.pool(code.decode(_total(inbox, view, names, code, 0)))[view]
        scalers[view] = rounded_scaler(features, pooled)
        figures = {view: _figures(scalers[view])}
        releases += [ColumnScales(sender=COORDINATOR, receiver=n, columns=figures) for n in names]
    return replace(party, scalers=scalers), releases


def agree_features(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Open the sums of products, and hand out features that rest on them."""
    releases = []
    for view, names in party.split_views.items():
        sums = ShapeSums(party.scalers[view])
        code = _shape_code(sums, len(names))
        shape = sums.read(view, code.decode(_total(inbox, view, names, code, 1)).numbers)
        scaler, width = party.scalers[view], party.settings.features_of(len(party.views))
        arrays = model_arrays(shape.model(scaler, width, len(party.views)))
        releases += [CommonFeatures(sender=COORDINATOR, receiver=n, arrays=arrays) for n in names]
    return party, releases


def _total(
    inbox: Inbox, view: str, names: tuple[str, ...], code: ExactSums, number: int
) -> np.ndarray:
    """Return the sum of a view's sites, of which pads are taken off by adding up."""
    vectors = {r.sender: r for r in inbox if isinstance(r, MaskedVector) and r.round == number}
    total = np.zeros(code.length, np.uint64)
    for name in names:
        if name not in vectors or vectors[name].words.shape != total.shape:
            raise DataError(
                f"the sum over the sites of view {view!r} needs {len(total)} words of {name!r}, "
                "and got something else; start a new run"
            )
        total += vectors[name].words
    return total


def _shape_code(sums: ShapeSums, sites: int) -> ExactSums:
    return ExactSums(sums.count, 0, digits=_SHAPE_DIGITS, sites=sites)


def _unscaled(features: tuple[Feature, ...]) -> Scaler:
    zeros, ones = (tuple(np.full(len(features), value).tolist()) for value in (0.0, 1.0))
    ends = tuple(np.full(len(features), np.inf).tolist())
    return Scaler(features, "none", zeros, ones, tuple(-end for end in ends), ends)


def _figures(scaler: Scaler) -> np.ndarray:
    """Return center, scale and range by column; those of coded columns are zeros."""
    rows = np.array([scaler.center, scaler.scale, scaler.low, scaler.high])
    return np.where([f.kind is Kind.NUMERIC for f in scaler.features], rows, 0.0)


def _with_figures(scaler: Scaler, figures: np.ndarray) -> Scaler:
    """Return the scaler with agreed figures, or raise a `DataError` if they do not fit."""
    numeric = np.array([f.kind is Kind.NUMERIC for f in scaler.features])
    if figures.shape != (4, len(numeric)) or not (figures[1, numeric] > 0).all():
        raise DataError("the coordinator must send a scale above 0 for each column; refused")
    coded = np.array([[0.0], [1.0], [-np.inf], [np.inf]])
    center, scale, low, high = (tuple(row) for row in np.where(numeric, figures, coded).tolist())
    return Scaler(scaler.features, "standard", center, scale, low, high)
