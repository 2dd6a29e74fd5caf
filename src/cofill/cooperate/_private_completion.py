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

_LEAST_ERROR = 1e-3  # of a target's variance: no round is trusted beyond that
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
    """Return the out-of-sample R² of each feature by all other views; 0 where none tells.

    It is that of the first round: later ones know more of a person by the person's own cells.
    """
    scaler = site.fitted.targets.scaler
    choice = site.choices_so_far[0]
    if choice is None:
        return np.zeros(len(scaler.features))
    gained = 1.0 - site.fitted.targets.column_errors(choice.error)
    return np.array([gained[b.start : b.stop].mean() for b in scaler.blocks])


def predicted_of(
    site: PrivateSite, ids: np.ndarray, rounds: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets that others' rows predict for ids, and for whom there are any.

    Those of several rounds, or of the first ``rounds`` of them, are averaged, weighed by one over
    their errors: later ones are better where others' columns tell much, and take what a row's own
    cells have filled for others' where not.
    """
    total, weights = np.zeros((2, len(ids), site.fitted.targets.width))
    informed = np.zeros(len(ids), bool)
    answers = [(site.known_ids, answer) for answer in site.earlier]
    if site.predicted is not None:
        answers.append((site.ids, site.predicted))
    for (names, answer), choice in zip(answers[:rounds], site.choices_so_far, strict=False):
        if choice is None or not len(ids):
            continue
        order = np.argsort(ids)
        asked = names[answer.at]
        place = order[np.searchsorted(ids, asked, sorter=order).clip(0, len(ids) - 1)]
        same = ids[place] == asked
        weight = 1.0 / np.maximum(choice.error, _LEAST_ERROR)
        total[place[same]] += weight * answer.targets[same]
        weights[place[same]] += weight
        informed[place[same]] = True
    return np.divide(total, weights, out=total, where=weights > 0), informed


def expected_errors(site: PrivateSite) -> Float[np.ndarray, " columns"]:
    """Return the mean squared error of each column in cross-validation; 1 where nobody tells.

    It is that of the first round. Later ones have seen the very cells that they are judged by, in
    what holes beside them were filled with, and take themselves for better than they are.
    """
    choice = site.choices_so_far[0]
    if choice is None:
        return np.ones(len(site.fitted.targets.center))
    return site.fitted.targets.column_errors(choice.error)


def fill_holes(site: PrivateSite) -> Float[np.ndarray, " holes"]:
    """Return cells for the holes inside a site's rows, one after another."""
    cells = cells_of(site, site.view.ids, CompletionPolicy(), fit_own_cells(site)).cells
    return cells[np.isnan(site.view.cells)]


@dataclass(frozen=True, eq=False)
class OwnCells:
    """Imputers of the rows that a site knows in part, from their cells and what others predict.

    Attributes
    ----------
    filler
        It has learned from predictions of all rounds so far.
    spread
        It has learned from those of the first round, and says how far off cells may be. A
        prediction of the first round was made without its row (`Learned`), and is as good for a
        known cell as for a missing one. Later rounds have seen known cells in filled ones.
    """

    filler: TableModel
    spread: TableModel

    def fill(
        self, table: np.ndarray, first: np.ndarray, draws: np.random.Generator | None
    ) -> np.ndarray:
        """Return tables (beside predictions of all rounds, of the first) filled, or drawn."""
        cells = self.filler.predict(table)
        if draws is None:
            return cells
        drawn = self.spread.draws(first, [draws])[0]
        if self.spread is self.filler:
            return drawn
        numeric = [c.levels is None for c in self.spread.encoding.columns]
        return np.where(numeric, drawn + (cells - self.spread.predict(first)), drawn)

    def intervals(
        self, table: np.ndarray, first: np.ndarray, level: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of intervals, as wide as those of the first round."""
        lower, upper = self.spread.intervals(first, level)
        moved = self.filler.predict(table) - self.spread.predict(first)
        return lower + moved, upper + moved


def fit_own_cells(site: PrivateSite, *, spread: bool = False) -> OwnCells | None:
    """Return imputers of rows known in part; None where such rows are too few.

    That of the first round is fitted where ``spread`` asks for it.
    """
    view = site.view
    partial = np.isnan(view.cells).any(axis=1)
    informed = predicted_of(site, view.ids)[1]
    if not partial.any() or informed.sum() < _LEAST:
        return None
    from cofill.impute import fit_table  # where it is needed only: it loads scikit-learn

    width = len(site.fitted.targets.center)
    features = [*view.features, *(Feature(f"predicted {k}") for k in range(width))]
    rows = np.flatnonzero(informed | partial)
    filler = fit_table(_beside_predictions(site, rows), features, seed=site.seed)
    if not spread or not site.earlier:
        return OwnCells(filler, filler)
    first = _beside_predictions(site, rows, rounds=1)
    return OwnCells(filler, fit_table(first, features, seed=site.seed))


def _beside_predictions(
    site: PrivateSite, rows: np.ndarray, rounds: int | None = None
) -> np.ndarray:
    """Return rows of a site's view beside what others predict of all its columns."""
    predicted, informed = predicted_of(site, site.view.ids[rows], rounds)
    predictions = site.fitted.targets.columns_of(predicted)
    predictions[~informed] = np.nan
    return np.hstack([site.view.cells[rows], predictions])


def own_cell_imputers(
    sites: Mapping[str, PrivateSite], *, spread: bool
) -> dict[str, OwnCells | None]:
    """Return each site's imputers of rows that it knows in part."""
    return {name: fit_own_cells(site, spread=spread) for name, site in sites.items()}


def cells_of(
    site: PrivateSite,
    ids: np.ndarray,
    policy: CompletionPolicy,
    imputer: OwnCells | None = None,
    draws: np.random.Generator | None = None,
) -> PrivateCells:
    """Return a site's cells for ids: own cells first, then what the other sites tell.

    Rows known in part are filled by `imputer` where there is one. Other intervals
    are normal, as wide as errors in cross-validation were: nobody's prediction is shown for them.
    Where people lack views that most have, they are too narrow. With ``draws`` cells are drawn
    from that distribution, the errors of a row as related as the view's columns are.
    """
    targets, view = site.fitted.targets, site.view
    rows = np.full((len(ids), len(targets.center)), np.nan)
    at = view.positions(ids)
    rows[at >= 0] = targets.standardised(view)[at[at >= 0]]
    predicted, informed = predicted_of(site, ids)
    errors = expected_errors(site) if informed.any() else np.ones(len(targets.center))
    values, variance = targets.combine(predicted, errors, rows, informed)
    if draws is not None:
        noise = draws.normal(size=values.shape) @ np.linalg.cholesky(targets.correlation).T
        values = values + noise * np.sqrt(variance / np.diag(targets.correlation))
    cells = targets.cells(values)
    partial = np.flatnonzero((at >= 0) & np.isnan(rows).any(axis=1))
    table = first = np.zeros((0, 0))
    if imputer is not None and len(partial):
        table = _beside_predictions(site, at[partial])
        first = _beside_predictions(site, at[partial], rounds=1)
        cells[partial] = imputer.fill(table, first, draws)[:, : cells.shape[1]]
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
                (lower, upper), imputer.intervals(table, first, policy.interval), strict=True
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
    if site.choices_so_far[0] is None:
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
    imputers: Mapping[str, OwnCells | None],
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
