"""Before the first round: sites agree on scales and on a model, without showing a row.

``describe → agree → encode``: each site sends a summary of its columns; the coordinator combines
them (Chan et al.'s update of means and squared deviations), makes scales and a first model, and
sends the scales back; sites encode their rows. Images are brought to [0, 1] by their modality's
range over all sites, other numbers to mean 0 and deviation 1. Summaries say what scaling needs and
no more, and nothing of a modality of which a site has very few rows: of one row the mean is the
row. They carry no noise, so a site whose budget is ``only_guaranteed`` sends none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cofill.errors import DataError
from cofill.federate._learner import AbstractLearner
from cofill.federate._local import LocalSettings
from cofill.federate._parties import Coordinator, RoundSettings, RowSite, coordinator_of, site_of
from cofill.federate._rows import Shape, rows_of
from cofill.federate._strategies import AbstractStrategy
from cofill.privacy import Budget, ColumnSummary, ModelWeights, Release
from cofill.protocol import COORDINATOR, Federation, Step
from cofill.views import Feature, Kind, MultiView, Scaler, View

__all__ = ["SURVEY", "Design", "Newcomer", "Surveyor", "check_sites", "survey_of"]

_FEWEST = 3  # rows of a modality below which a site says nothing about it

Outbox = Sequence[Release]
MakeLearner = Callable[[Shape], AbstractLearner]


@dataclass(frozen=True, eq=False)
class Design:
    """What all parties know beforehand: the columns, the model, how it is trained.

    Parameters
    ----------
    features, image_shapes
        Of each view, the same at every site.
    learner
        Makes the model for a shape.
    local, settings, strategy, seed
        As in `federation_of`.
    """

    features: Mapping[str, tuple[Feature, ...]]
    image_shapes: Mapping[str, tuple[int, ...] | None]
    learner: MakeLearner
    local: LocalSettings
    settings: RoundSettings
    strategy: AbstractStrategy
    seed: int

    def scalers(self, scales: Mapping[str, np.ndarray]) -> dict[str, Scaler]:
        """Return the scalers that belong to agreed scales: centers, scales, lows, highs in a row.

        A range that ends before it begins is none.
        """
        made = {}
        for name, features in self.features.items():
            center, scale, low, high = scales[name].reshape(4, -1)
            ends = np.where(low > high, -np.inf, low), np.where(low > high, np.inf, high)
            rows = (tuple(map(float, row)) for row in (center, scale, *ends))
            made[name] = Scaler(features, "standard", *rows)
        return made

    def shape(self, scalers: Mapping[str, Scaler]) -> Shape:
        """Return the shape of encoded rows."""
        images = set(self.image_shapes.values())
        only = next(iter(images)) if len(images) == 1 else None
        image = (only[0], only[1]) if only is not None and len(only) == 2 else None
        sizes = tuple(scalers[name].width for name in self.features)
        return Shape(tuple(self.features), sizes, image, bounded=None not in images)


@dataclass(frozen=True, eq=False)
class Newcomer:
    """A site before it has encoded its rows."""

    name: str
    views: MultiView
    design: Design


@dataclass(frozen=True, eq=False)
class Surveyor:
    """The coordinator before it has a model."""

    names: tuple[str, ...]
    design: Design


def check_sites(held: Mapping[str, MultiView]) -> dict[str, MultiView]:
    """Return the sites' views with the same modalities everywhere, be they without rows.

    Raises a `DataError` where sites disagree about columns, kinds or shapes.
    """
    if not held:
        raise DataError("there is no site; give at least one with its views")
    known: dict[str, tuple[str, View]] = {}
    for site, views in held.items():
        if not views.n_individuals:
            raise DataError(f"site {site!r} has no individual; leave it out")
        for name, own in views.items():
            where, other = known.setdefault(name, (site, own))
            if own.image_shape != other.image_shape or own.feature_names != other.feature_names:
                raise DataError(
                    f"site {site!r}: {name!r} has other columns or another shape "
                    f"({own.image_shape or own.n_features}) than at site {where!r} "
                    f"({other.image_shape or other.n_features})"
                )
            if own.features != other.features:
                raise DataError(
                    f"site {site!r}: {name!r} has other kinds or categories of columns than at "
                    f"site {where!r}; read both with the same kinds and categories"
                )
    return {
        site: MultiView(
            [
                views[name] if name in views else _without_rows(view, views)
                for name, (_, view) in known.items()
            ]
        )
        for site, views in held.items()
    }


def _without_rows(view: View, views: MultiView) -> View:
    """Return a modality that a site knows of and has no row of."""
    return view.with_rows(views.ids[:0], view.cells[:0])


def survey_of(
    held: Mapping[str, MultiView], design: Design, budget: Budget | None = None
) -> Federation[Any]:
    """Return a federation that is ready for the survey, each site with a budget of its own."""
    sites: dict[str, Any] = {n: Newcomer(n, views, design) for n, views in held.items()}
    budgets = {} if budget is None else dict.fromkeys(sites, budget)
    return Federation(sites, coordinator=Surveyor(tuple(sites), design), budgets=budgets)


def _describe(
    sites: Sequence[Newcomer], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Newcomer, Outbox]]:
    return [
        (
            site,
            [
                ColumnSummary(
                    sender=site.name,
                    receiver=COORDINATOR,
                    columns={name: _told(view) for name, view in site.views.items()},
                    rows=site.views.n_individuals,
                )
            ],
        )
        for site in sites
    ]


def _agree(
    parties: Sequence[Surveyor], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party, inbox in zip(parties, inboxes, strict=True):
        design = party.design
        summaries = _summaries(party, inbox)
        scales = {
            name: _scales(
                _combined([s.columns[name] for s in summaries]),
                features,
                design.image_shapes[name] is not None,
                name,
            )
            for name, features in design.features.items()
        }
        learner = design.learner(design.shape(design.scalers(scales)))
        coordinator = coordinator_of(
            party.names, learner, design.settings, design.strategy, design.seed
        )
        letters = [
            ModelWeights(
                sender=COORDINATOR,
                receiver=name,
                round=0,
                weights=np.zeros(0, dtype=np.float32),
                extras={name: values.ravel() for name, values in scales.items()},
            )
            for name in party.names
        ]
        made.append((coordinator, letters))
    return made


def _encode(
    sites: Sequence[Newcomer], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[RowSite, Outbox]]:
    made = []
    learners: dict[int, AbstractLearner] = {}
    for site, inbox in zip(sites, inboxes, strict=True):
        design = site.design
        (model,) = (r for r in inbox if isinstance(r, ModelWeights))
        scalers = design.scalers(model.extras)
        shape = design.shape(scalers)
        # Equal learners are one: what is compiled for the first serves all.
        learner = learners.setdefault(id(design), design.learner(shape))
        rows = rows_of(site.views, scalers, shape)
        row_site = site_of(
            site.name,
            rows,
            learner,
            design.local,
            design.settings,
            design.strategy,
            design.seed,
        )
        made.append((replace(row_site, scalers=scalers), []))
    return made


SURVEY: tuple[Step[Any], ...] = (
    Step("describe", _describe),
    Step("agree", _agree, at="coordinator"),
    Step("encode", _encode),
)


def _summaries(party: Surveyor, inbox: Sequence[Release]) -> list[ColumnSummary]:
    """Return every site's summary; raise a `DataError` for one that is missing or unsound."""
    found: dict[str, ColumnSummary] = {}
    for release in inbox:
        where = f"site {release.sender!r}: its summary of columns"
        if not isinstance(release, ColumnSummary) or release.sender in found:
            raise DataError(f"{where} must come once and nothing else, got {type(release).kind}")
        for name, features in party.design.features.items():
            told = release.columns.get(name)
            if told is None or told.shape != (5, len(features)):
                shape = None if told is None else told.shape
                raise DataError(f"{where} of {name!r} must be 5 × {len(features)}, got {shape}")
            if not np.isfinite(told).all() or (told[[0, 2]] < 0).any():
                raise DataError(f"{where} of {name!r} must be finite, with counts of at least 0")
        found[release.sender] = release
    absent = [name for name in party.names if name not in found]
    if absent:
        raise DataError(f"site {absent[0]!r} did not describe its columns; start again")
    return [found[name] for name in sorted(found)]


def _told(view: View) -> np.ndarray:
    """Return what a site tells of a modality's columns: a summary of what scaling needs."""
    summary = _summary(view.cells if len(view) >= _FEWEST else view.cells[:0])
    numeric = np.array([f.kind is Kind.NUMERIC for f in view.features])
    summary[1:, ~numeric] = 0.0
    if view.image_shape is not None:  # brought to a range
        summary[1:3] = 0.0
    return summary


def _summary(cells: np.ndarray) -> np.ndarray:
    """Return count, mean, squared deviations, lowest and highest of each column's known cells.

    Columns without a known cell have zeros.
    """
    known = ~np.isnan(cells)
    count = known.sum(axis=0).astype(np.float64)
    filled = np.where(known, cells, 0.0).astype(np.float64)
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(known, cells - mean, 0.0) ** 2).sum(axis=0)
    low = np.where(known, cells, np.inf).min(axis=0, initial=np.inf)
    high = np.where(known, cells, -np.inf).max(axis=0, initial=-np.inf)
    ends = np.where(count > 0, [low, high], 0.0)
    return np.stack([count, mean, squares, *ends]).astype(np.float64)


def _combined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the summary of all sites' rows from the sites' summaries."""
    count, mean, squares, low, high = parts[0].copy()
    for part in parts[1:]:
        new = part[0] > 0
        low = np.where(new, np.where(count > 0, np.minimum(low, part[3]), part[3]), low)
        high = np.where(new, np.where(count > 0, np.maximum(high, part[4]), part[4]), high)
        total = count + part[0]
        share = part[0] / np.maximum(total, 1)
        apart = part[1] - mean
        mean = mean + apart * share
        squares = squares + part[2] + apart**2 * count * share
        count = total
    return np.stack([count, mean, squares, low, high])


def _scales(summary: np.ndarray, features: Sequence[Feature], image: bool, name: str) -> np.ndarray:
    """Return center, scale, lowest and highest of each column; 1 and 0 where there is no range."""
    count, mean, squares, low, high = summary
    if not count.any():
        raise DataError(f"{name!r} has fewer than {_FEWEST} rows at every site; leave it out")
    if image:
        lowest, highest = low[count > 0].min(), high[count > 0].max()
        span = highest - lowest if highest > lowest else 1.0
        alike = np.ones(len(count))
        return np.stack([lowest * alike, span * alike, lowest * alike, highest * alike])
    deviation = np.sqrt(squares / np.maximum(count, 1))
    scale = np.where(deviation > 1e-12 * np.maximum(np.abs(mean), 1e-300), deviation, 1.0)
    numeric = np.array([f.kind is Kind.NUMERIC for f in features]) & (count > 0)
    return np.stack(
        [
            np.where(numeric, mean, 0.0),
            np.where(numeric, scale, 1.0),
            np.where(numeric, low, 1.0),
            np.where(numeric, high, 0.0),
        ]
    )
