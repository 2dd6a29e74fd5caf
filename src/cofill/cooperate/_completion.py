"""What a site makes of reconstructed rows: cells in the user's units, notes, intervals, draws.

The same functions end a run between organisations and `CooperativeReconstruction.complete`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.completion import Completed, conformal_radius
from cofill.cooperate._site import CooperativeSite, ReconstructedRows
from cofill.cooperate._tables import feature_r2
from cofill.errors import SettingError
from cofill.privacy import no_tokens, rows_of
from cofill.views import Kind, MultiView

_CHOICES = ("flag", "fill", "leave")


@dataclass(frozen=True)
class CompletionPolicy:
    """What is done with features that cannot be reconstructed, and the level of intervals.

    See `CooperativeReconstruction` for the parameters.
    """

    on_unreconstructable: str = "flag"
    threshold: float = 0.05
    interval: float | None = None

    def __post_init__(self) -> None:
        if self.on_unreconstructable not in _CHOICES:
            raise SettingError(
                f"on_unreconstructable must be one of {', '.join(_CHOICES)}, "
                f"got {self.on_unreconstructable!r}"
            )
        if self.interval is not None and not 0 < self.interval < 1:
            raise SettingError(f"interval must be between 0 and 1, got {self.interval}")


def completed_views(
    views: MultiView,
    tokens: np.ndarray,
    sites: Mapping[str, CooperativeSite],
    rows: Mapping[str, ReconstructedRows],
    policy: CompletionPolicy,
    method: str,
) -> Completed:
    """Return views in which each site has filled its gaps with the rows it reconstructed.

    ``tokens`` are the blinded ids of the views' individuals.
    """
    cells, lower, upper = {}, {}, {}
    for name, site in sites.items():
        cells[name] = apply_policy(site, decode_rows(site, rows[name], tokens), policy)
        if policy.interval is not None:
            ends = interval_ends(site, rows[name], tokens, policy.interval)
            lower[name], upper[name] = (np.where(np.isnan(cells[name]), np.nan, e) for e in ends)
    notes = site_notes(sites, policy)
    return Completed.merge(views, cells, method=method, lower=lower, upper=upper, notes=notes)


def reconstructed_rows(site: CooperativeSite) -> ReconstructedRows:
    """Return what a site has reconstructed; no rows where it has asked for nothing."""
    nothing = np.zeros((0, site.fitted_scaler.width))
    return site.reconstructed or ReconstructedRows(no_tokens(), nothing)


def unreconstructable(
    site: CooperativeSite, policy: CompletionPolicy
) -> Bool[np.ndarray, " features"]:
    """Return which features of a site's view have an R² below the threshold."""
    return feature_r2(site) < policy.threshold


def site_notes(sites: Mapping[str, CooperativeSite], policy: CompletionPolicy) -> tuple[str, ...]:
    """Return sentences on links that were left out and on features left empty."""
    notes = [note for site in sites.values() for note in site.notes]
    for name, site in sites.items():
        is_left_empty = unreconstructable(site, policy)
        if policy.on_unreconstructable == "flag" and is_left_empty.any():
            notes.append(
                f"view {name!r}: {int(is_left_empty.sum())} of {len(is_left_empty)} features "
                "cannot be reconstructed from the other views and are left empty"
            )
    return tuple(notes)


def decode_rows(
    site: CooperativeSite, rows: ReconstructedRows, tokens: np.ndarray
) -> Float[np.ndarray, "individuals features"]:
    """Return cells in the user's units for tokens, NaN for those without a reconstructed row."""
    scaler = site.fitted_scaler
    return _by_token(rows, tokens, scaler.decode(rows.expected, clip=True))


def _by_token(rows: ReconstructedRows, tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values of rows in the order of tokens, NaN for tokens without a row."""
    positions = rows_of(rows.tokens, tokens)
    known = positions >= 0
    ordered = np.full((len(tokens), values.shape[1]), np.nan)
    ordered[known] = values[positions[known]]
    return ordered


def apply_policy(
    site: CooperativeSite,
    cells: Float[np.ndarray, "individuals features"],
    policy: CompletionPolicy,
) -> Float[np.ndarray, "individuals features"]:
    """Empty the features that cannot be reconstructed, or fill every cell when asked to."""
    if policy.on_unreconstructable != "fill":
        return np.where(unreconstructable(site, policy), np.nan, cells)
    if site.typical is None:
        return cells
    is_whole = np.array([feature.is_integer for feature in site.fitted_scaler.features])
    typical = np.where(is_whole, np.rint(site.typical), site.typical)
    return np.where(np.isnan(cells), typical, cells)


# --- how sure a site is ---------------------------------------------------------------------------


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
    expected = np.asarray(rows.expected, dtype=np.float64)
    columns = [(b.feature, b.start) for b in scaler.blocks if b.kind is Kind.NUMERIC]
    if residuals is None or not columns:
        nothing = np.full((len(tokens), len(scaler.features)), np.nan)
        return nothing, nothing.copy()
    features, starts = (np.array(c) for c in zip(*columns, strict=True))
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
