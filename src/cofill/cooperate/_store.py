"""What the sites of a fitted cooperative model keep when it is saved: no one's row.

Saved are scalers, encoders, links, mask statistics, fusions and residuals. Views, codes, blinded
ids, the secret that blinds them and predictions for training rows are not: a loaded model completes
new views, and learns more only after a new fit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.cooperate._site import CooperativeSite, ViewModel
from cofill.errors import StoreError
from cofill.nets import Fusion
from cofill.privacy import no_tokens
from cofill.views import View

_SAVED = ("settings", "seed", "peers", "scaler", "typical", "encoder", "notes")


def site_states(sites: Mapping[str, CooperativeSite]) -> dict[str, Any]:
    """Return what fitted sites have learned, of storable types."""
    states = {}
    for name, site in sites.items():
        if site.scaler is None or site.encoder is None:
            raise StoreError(f"site {name!r} is not fitted and cannot be saved; fit it first")
        fields = {field: getattr(site, field) for field in _SAVED}
        states[name] = {**fields, "model": _without_rows(site.model), "id_name": site.view.id_name}
    return states


def sites_from(states: Mapping[str, Any]) -> dict[str, CooperativeSite]:
    """Return the sites whose states `site_states` returned."""
    # A new one each time: with that of its runs whoever gets the file could name their tokens.
    secret = os.urandom(32)
    return {name: _site(name, **{**fields, "secret": secret}) for name, fields in states.items()}


def _site(name: str, id_name: str, **fields: Any) -> CooperativeSite:
    features = fields["scaler"].features
    view = View(name, [], np.empty((0, len(features))), features, id_name=id_name)
    return CooperativeSite(name=name, view=view, **fields)


def _without_rows(model: ViewModel) -> ViewModel:
    """Return a model without tokens and without predictions for the rows it learned from."""

    def cleared(fusion: Fusion | None) -> Fusion | None:
        return fusion and replace(fusion, out_of_fold=fusion.out_of_fold[:0])

    links = {
        peer: replace(link, out_of_fold=None, fusion=cleared(link.fusion))
        for peer, link in model.links.items()
    }
    return replace(model, links=links, fusion=cleared(model.fusion), seen=no_tokens())
