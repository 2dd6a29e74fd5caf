"""What a site makes of reconstructed rows and of its model: cells, notes, intervals, draws, tables.

The same functions end a run between organisations and `CooperativeReconstruction.complete`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from cofill.completion import Completed, conformal_radius
from cofill.cooperate._policy import CompletionPolicy, note_untold
from cofill.cooperate._predict import masks_of
from cofill.cooperate._site import CooperativeSite, ReconstructedRows
from cofill.privacy import no_tokens, rows_of
from cofill.views import Kind, MultiView, Scaler, to_frame

Cells = Float[np.ndarray, "individuals features"]


def completed_views(
    views: MultiView,
    tokens: np.ndarray,
    sites: Mapping[str, CooperativeSite],
    rows: Mapping[str, ReconstructedRows],
    policy: CompletionPolicy,
    method: str,
) -> Completed:
    """Return views whose gaps each site has filled; tokens are the individuals' blinded ids."""
    cells, lower, upper = {}, {}, {}
    for name, site in sites.items():
        decoded = decode_rows(site, rows[name], tokens)
        cells[name] = apply_policy(site, decoded, policy, views.present(name))
        if policy.interval is not None:
            ends = interval_ends(site, rows[name], tokens, policy.interval)
            lower[name], upper[name] = (np.where(np.isnan(cells[name]), np.nan, e) for e in ends)
    notes = site_notes(sites, policy)
    return Completed.merge(views, cells, method=method, lower=lower, upper=upper, notes=notes)


def reconstructed_rows(site: CooperativeSite) -> ReconstructedRows:
    """Return what a site has reconstructed; no rows where it has asked for nothing."""
    nothing = np.zeros((0, site.fitted_scaler.width))
    return site.reconstructed or ReconstructedRows(no_tokens(), nothing)


def unreconstructable(site: CooperativeSite, policy: CompletionPolicy) -> np.ndarray:
    """Return which features of a site's view have an R² below the threshold."""
    return feature_r2(site) < policy.threshold


def site_notes(sites: Mapping[str, CooperativeSite], policy: CompletionPolicy) -> tuple[str, ...]:
    """Return sentences on links that were left out and on features that cannot be told."""
    notes = [note for site in sites.values() for note in site.notes]
    for name, site in sites.items():
        notes += note_untold(name, site.fitted_scaler, unreconstructable(site, policy), policy)
    return tuple(notes)


def decode_rows(site: CooperativeSite, rows: ReconstructedRows, tokens: np.ndarray) -> Cells:
    """Return cells in the user's units for tokens, NaN for those without a reconstructed row."""
    return _by_token(rows, tokens, site.fitted_scaler.decode(rows.expected, clip=True))


def _by_token(rows: ReconstructedRows, tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values of rows in the order of tokens, NaN for tokens without a row."""
    positions = rows_of(rows.tokens, tokens)
    known = positions >= 0
    ordered = np.full((len(tokens), values.shape[1]), np.nan)
    ordered[known] = values[positions[known]]
    return ordered


def apply_policy(
    site: CooperativeSite,
    cells: Cells,
    policy: CompletionPolicy,
    known: Bool[np.ndarray, " individuals"] | None = None,
) -> Cells:
    """Fill every cell, or empty the features that cannot be told.

    People whom the site knows in part (`known`) keep what their own cells tell.
    """
    if policy.on_unreconstructable == "leave":
        hopeless = np.broadcast_to(unreconstructable(site, policy), cells.shape)
        joint = site.model.own_cells
        if known is not None and joint is not None:
            explained = _per_feature(site.fitted_scaler, joint.r2[: site.fitted_scaler.width])
            hopeless = hopeless & ~(known[:, None] & (explained >= policy.threshold))
        return np.where(hopeless, np.nan, cells)
    if site.typical is None:
        return cells
    is_whole = np.array([feature.is_integer for feature in site.fitted_scaler.features])
    typical = np.where(is_whole, np.rint(site.typical), site.typical)
    return np.where(np.isnan(cells), typical, cells)


def interval_ends(
    site: CooperativeSite, rows: ReconstructedRows, tokens: np.ndarray, level: float
) -> tuple[Any, Any]:
    """Return the ends of intervals for tokens, from out-of-fold residuals.

    The intervals lie around the expected number itself, not around the rounded or clipped cell
    that is filled in: the residuals are of those. Around whole numbers the ends are the first
    and the last whole number inside. Coded cells, empty cells, features with too few known
    residuals and tokens without a reconstructed row have none (NaN).
    """
    scaler, residuals = site.fitted_scaler, site.model.residuals
    columns = [(b.feature, b.start) for b in scaler.blocks if b.kind is Kind.NUMERIC]
    if residuals is None or not columns:
        nothing = np.full((len(tokens), len(scaler.features)), np.nan)
        return nothing, nothing.copy()
    features, starts = (np.array(c) for c in zip(*columns, strict=True))
    expected = np.asarray(rows.expected, dtype=np.float64)
    radius = conformal_radius(np.abs(residuals.ordered)[:, starts], level)
    is_whole = np.array([scaler.features[k].is_integer for k in features])
    ends = []
    for sign, round_inwards in ((-1, np.ceil), (1, np.floor)):
        moved = expected.copy()
        moved[:, starts] += sign * radius
        end = np.full((len(expected), len(scaler.features)), np.nan)
        end[:, features] = scaler.decode(moved, whole=False)[:, features]
        end[:, features[is_whole]] = round_inwards(end[:, features[is_whole]])
        ends.append(end)
    is_empty = ends[0] > ends[1]  # no whole number lies inside: the nearest one it is
    nearest = scaler.decode(np.nan_to_num(expected))
    lower, upper = (_by_token(rows, tokens, np.where(is_empty, nearest, end)) for end in ends)
    return lower, upper


def draw_rows(
    site: CooperativeSite, rows: ReconstructedRows, generator: np.random.Generator
) -> ReconstructedRows:
    """Return one draw of what the reconstructed rows could be."""
    residuals = site.model.residuals
    if residuals is None or not len(rows.tokens):
        return rows
    expected = rows.expected.copy()
    noise = residuals.draw(generator, len(expected))
    for block in site.fitted_scaler.blocks:
        part = slice(block.start, block.stop)
        if block.kind is Kind.NUMERIC:
            expected[:, part] += noise[:, part]
        elif block.kind is Kind.BINARY:
            expected[:, part] = generator.random((len(expected), 1)) < expected[:, part]
        else:
            ends = np.cumsum(expected[:, part], axis=1)
            drawn = (generator.random((len(expected), 1)) * ends[:, -1:] > ends).sum(axis=1)
            expected[:, part] = np.eye(block.stop - block.start)[drawn]
    return replace(rows, expected=expected)


# --- what was learned -----------------------------------------------------------------------------


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


def _per_feature(scaler: Scaler, columns: np.ndarray) -> np.ndarray:
    """Average encoded columns to one value per feature."""
    return np.array([columns[block.start : block.stop].mean() for block in scaler.blocks])


def _frame(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return to_frame(pa.table({n: list(c) for n, c in zip(names, columns, strict=True)}))
