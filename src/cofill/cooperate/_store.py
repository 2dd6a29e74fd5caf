"""A fitted cooperative model as one file that holds no one's row.

Saved are scalers, encoders, links, mask statistics, fusions and residuals. Views, codes, blinded
ids and predictions for training rows are not: a loaded model completes new views, and learns more
only after a new fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cofill import codec
from cofill.cooperate._site import CooperativeSite, ViewModel
from cofill.errors import StoreError
from cofill.nets import Fusion
from cofill.privacy import no_tokens
from cofill.views import View

_FORMAT, _VERSION = "cofill.cooperative", 2
_SAVED = ("settings", "seed", "secret", "peers", "scaler", "typical", "encoder", "notes")


def save_sites(
    path: str | Path, sites: Mapping[str, CooperativeSite], parameters: Mapping[str, Any]
) -> None:
    """Write fitted sites and the estimator's parameters to one file."""
    saved = {}
    for name, site in sites.items():
        if site.scaler is None or site.encoder is None:
            raise StoreError(f"site {name!r} is not fitted and cannot be saved; fit it first")
        fields = {field: getattr(site, field) for field in _SAVED}
        saved[name] = {**fields, "model": _without_rows(site.model), "id_name": site.view.id_name}
    content = {"parameters": dict(parameters), "sites": saved}
    codec.save(path, content, format=_FORMAT, version=_VERSION)


def load_sites(path: str | Path) -> tuple[dict[str, CooperativeSite], dict[str, Any]]:
    """Return the sites and parameters that `save_sites` wrote, or raise a `StoreError`."""
    content = codec.load(path, format=_FORMAT, version=_VERSION)
    try:
        sites = {name: _site(name, **fields) for name, fields in content["sites"].items()}
        return sites, dict(content["parameters"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path} is no complete cooperative model ({type(error).__name__}); save it again"
        ) from None


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
