"""What a site makes of targets that others' rows predict: cells, intervals, R² and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from cofill.completion import Completed
from cofill.cooperate._policy import CompletionPolicy, note_untold
from cofill.cooperate._private_site import PrivateSite
from cofill.views import Feature, Kind, MultiView

if TYPE_CHECKING:
    from cofill.impute import TableModel

_LEAST = 50  # people known in part below whom correlations say as much as an imputer


@dataclass(frozen=True, eq=False)
class PrivateCells:
    """Cells of a view for some ids, with the ends of intervals (NaN where there is none)."""

    cells: Float[np.ndarray, "ids features"]
    lower: Float[np.ndarray, "ids features"]
    upper: Float[np.ndarray, "ids features"]

    def over(self, others: PrivateCells, rows: np.ndarray) -> PrivateCells:
        """Return others' cells with these in some rows."""
        return PrivateCells(
            *(
                np.where(rows[:, None], getattr(self, name), getattr(others, name))
                for name in ("cells", "lower", "upper")
            )
        )


def feature_r2(site: PrivateSite) -> Float[np.ndarray, " features"]:
    """Return the out-of-sample R² of each feature by all other views; 0 where none tells."""
    scaler = site.fitted.targets.scaler
    if site.choice is None:
        return np.zeros(len(scaler.features))
    gained = 1.0 - site.fitted.targets.column_errors(site.choice.error)
    return np.array([gained[b.start : b.stop].mean() for b in scaler.blocks])


def predicted_of(site: PrivateSite, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets that others' rows predict for ids, and for whom there are any."""
    predicted = np.zeros((len(ids), site.fitted.targets.width))
    informed = np.zeros(len(ids), bool)
    if site.predicted is not None and site.choice is not None and len(ids):
        order = np.argsort(ids)
        asked = site.ids[site.predicted.at]
        place = order[np.searchsorted(ids, asked, sorter=order).clip(0, len(ids) - 1)]
        same = ids[place] == asked
        predicted[place[same]] = site.predicted.targets[same]
        informed[place[same]] = True
    return predicted, informed


def fit_own_cells(site: PrivateSite) -> TableModel | None:
    """Return an imputer of the rows known in part, from their cells and what others predict.

    Predictions of a row were made without it (`Learned`), so that the imputer sees them as good as
    they are where a cell is missing. None where such rows are too few.
    """
    view = site.view
    predicted, informed = predicted_of(site, view.ids)
    partial = np.isnan(view.cells).any(axis=1)
    if not partial.any() or informed.sum() < _LEAST:
        return None
    predictions = site.fitted.targets.columns_of(predicted)
    names = [Feature(f"predicted {k}") for k in range(predictions.shape[1])]
    table = np.hstack([view.cells, np.where(informed[:, None], predictions, np.nan)])
    from cofill.impute import fit_table  # where it is needed only: it loads scikit-learn

    return fit_table(table[informed | partial], [*view.features, *names], seed=site.seed)


def own_cell_imputers(sites: Mapping[str, PrivateSite]) -> dict[str, TableModel | None]:
    """Return each site's imputer of rows that it knows in part."""
    return {name: fit_own_cells(site) for name, site in sites.items()}


def cells_of(
    site: PrivateSite,
    ids: np.ndarray,
    policy: CompletionPolicy,
    imputer: TableModel | None = None,
    draws: np.random.Generator | None = None,
) -> PrivateCells:
    """Return a site's cells for ids: own cells first, then what the other sites tell.

    Rows known in part are filled by `imputer` where there is one (`fit_own_cells`). Other intervals
    are normal, as wide as errors in cross-validation were: nobody's prediction is shown for them.
    Where people lack views that most have, they are too narrow. With ``draws`` cells are drawn
    from that distribution, the errors of a row as related as the view's columns are.
    """
    targets, view = site.fitted.targets, site.view
    rows = np.full((len(ids), len(targets.center)), np.nan)
    at = view.positions(ids)
    rows[at >= 0] = targets.standardised(view)[at[at >= 0]]
    predicted, informed = predicted_of(site, ids)
    errors = np.ones(len(targets.center))
    if informed.any() and site.choice is not None:
        errors = targets.column_errors(site.choice.error)
    values, variance = targets.combine(predicted, errors, rows, informed)
    if draws is not None:
        noise = draws.normal(size=values.shape) @ np.linalg.cholesky(targets.correlation).T
        values = values + noise * np.sqrt(variance / np.diag(targets.correlation))
    cells = targets.cells(values)
    partial = np.flatnonzero((at >= 0) & np.isnan(rows).any(axis=1))
    table = np.zeros((0, 0))
    if imputer is not None and len(partial):
        predictions = targets.columns_of(predicted[partial])
        predictions[~informed[partial]] = np.nan
        table = np.hstack([view.cells[at[partial]], predictions])
        tables = [imputer.predict(table)] if draws is None else imputer.draws(table, [draws])
        cells[partial] = tables[0][:, : cells.shape[1]]
    blocks = targets.scaler.blocks
    unexplained = np.column_stack([variance[:, b.start : b.stop].mean(axis=1) for b in blocks])
    known = informed | (at >= 0)
    if policy.on_unreconstructable == "fill":
        typical = view.typical()
        whole = [f.is_integer for f in targets.scaler.features]
        cells = np.where(known[:, None], cells, np.where(whole, np.rint(typical), typical))
    else:
        cells[~known[:, None] | (1.0 - unexplained < policy.threshold)] = np.nan
    lower, upper = (np.full(cells.shape, np.nan) for _ in range(2))
    if policy.interval is not None:
        radius = ndtri((1 + policy.interval) / 2) * np.sqrt(variance)
        numeric = np.array([b.feature for b in blocks if b.kind is Kind.NUMERIC], dtype=np.int64)
        ends = [
            targets.scaler.decode((values + sign * radius) * targets.spread + targets.center)
            for sign in (-1, 1)
        ]
        for end, decoded in zip((lower, upper), ends, strict=True):
            end[:, numeric] = decoded[:, numeric]
        if imputer is not None and len(partial):
            for end, of_rows in zip(
                (lower, upper), imputer.intervals(table, policy.interval), strict=True
            ):
                end[np.ix_(partial, numeric)] = of_rows[:, numeric]
        for end in (lower, upper):
            end[np.isnan(cells)] = np.nan
    return PrivateCells(cells, lower, upper)


def site_note(site: PrivateSite, policy: CompletionPolicy) -> list[str]:
    """Return sentences on a view that nobody can tell of, and on features left empty.

    One of a view's sites says them for all.
    """
    if site.name != site.peers[0]:
        return []
    if site.choice is None:
        return [
            f"view {site.view.name!r} shares too few people with any other view to be completed"
        ]
    untold = feature_r2(site) < policy.threshold
    return note_untold(site.view.name, site.fitted.targets.scaler, untold, policy)


def completed_by(
    views: MultiView,
    sites: dict[str, PrivateSite],
    policy: CompletionPolicy,
    method: str,
    imputers: Mapping[str, TableModel | None],
    draws: np.random.Generator | None = None,
) -> Completed:
    """Return views in which each site has filled its gaps, with its best guesses or with draws.

    ``imputers`` are those of the sites (`fit_own_cells`). Of a view that several sites hold, the
    first tells of everybody whose row no other has.
    """
    filled: dict[str, PrivateCells] = {}
    for party, site in sites.items():
        name = site.view.name
        of_site = cells_of(site, views.ids, policy, imputers.get(party), draws)
        rows = site.view.positions(views.ids) >= 0
        filled[name] = of_site.over(filled[name], rows) if name in filled else of_site
    lower = {name: f.lower for name, f in filled.items()} if policy.interval else {}
    upper = {name: f.upper for name, f in filled.items()} if policy.interval else {}
    notes = tuple(note for site in sites.values() for note in site_note(site, policy))
    cells = {name: f.cells for name, f in filled.items()}
    return Completed.merge(views, cells, method=method, lower=lower, upper=upper, notes=notes)
