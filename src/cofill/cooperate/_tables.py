"""What sites have learned, as tables: masks, and how well each feature can be reconstructed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from cofill.cooperate._predict import masks_of
from cofill.cooperate._site import CooperativeSite
from cofill.views import Scaler, to_frame


def masks_table(sites: Iterable[CooperativeSite]) -> Any:
    """Return a data frame with the weight of each source in each feature of each view."""
    rows: list[tuple[Any, ...]] = []
    for site in sites:
        if site.model.statistics is not None:
            names = _column_names(site.fitted_scaler)
            masks = masks_of(site.model.statistics, site.settings)
            for source, weights in zip(site.model.links, masks.tolist(), strict=True):
                pairs = zip(names, weights, strict=True)
                rows += [(site.name, source, feature, weight) for feature, weight in pairs]
    return _frame(("view", "source", "feature", "weight"), rows)


def reconstructability_table(sites: Iterable[CooperativeSite]) -> Any:
    """Return a data frame with the R² of each feature, by all sources and by each alone."""
    rows: list[tuple[Any, ...]] = []
    for site in sites:
        scaler = site.fitted_scaler
        scores = {"all": feature_r2(site)}
        for source, residuals in site.model.link_residuals.items():
            scores[source] = _per_feature(scaler, residuals.r2)
        for source, values in scores.items():
            pairs = zip(scaler.features, values.tolist(), strict=True)
            rows += [(site.name, feature.name, source, value) for feature, value in pairs]
    return _frame(("view", "feature", "source", "r2"), rows)


def feature_r2(site: CooperativeSite) -> Float[np.ndarray, " features"]:
    """Return the R² of each feature by what predicts it; 0 where nothing does."""
    if site.model.residuals is None:
        return np.zeros(len(site.fitted_scaler.features))
    return _per_feature(site.fitted_scaler, site.model.residuals.r2)


def _column_names(scaler: Scaler) -> list[str]:
    """Name each encoded column; a categorical feature's columns name their category too."""
    names = []
    for block in scaler.blocks:
        feature = scaler.features[block.feature]
        if block.stop - block.start == 1:
            names.append(feature.name)
        else:
            names += [f"{feature.name}={value}" for value in feature.categories]
    return names


def _per_feature(
    scaler: Scaler, columns: Float[np.ndarray, " columns"]
) -> Float[np.ndarray, " features"]:
    """Average encoded columns to one value per feature."""
    return np.array([columns[block.start : block.stop].mean() for block in scaler.blocks])


def _frame(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return to_frame(pa.table({n: list(c) for n, c in zip(names, columns, strict=True)}))
