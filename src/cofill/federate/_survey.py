"""Before the first round: sites agree on scales and on a model, without showing a row.

``describe → agree → encode``: each site sends a summary of its columns; the coordinator combines
them (Chan et al.'s update of means and squared deviations), makes scales and a first model, and
sends the scales back; sites encode their rows. Images are brought to [0, 1] by their modality's
range over all sites, other numbers to mean 0 and deviation 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cofill.errors import DataError
from cofill.federate._learner import AbstractLearner
from cofill.federate._local import LocalSettings
from cofill.federate._rounds import Coordinator, RoundSettings, RowSite, coordinator_of, site_of
from cofill.federate._rows import Shape, rows_of
from cofill.federate._strategies import AbstractStrategy
from cofill.privacy import ColumnSummary, Model, Release
from cofill.protocol import COORDINATOR, Federation, Step
from cofill.views import Feature, Kind, MultiView, Scaler, View

__all__ = ["SURVEY", "Design", "Newcomer", "Surveyor", "check_sites", "survey_of"]

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
        """Return the scalers that belong to agreed scales (center, scale, low, high)."""
        return {
            name: Scaler(features, "standard", *(tuple(map(float, row)) for row in scales[name]))
            for name, features in self.features.items()
        }

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


def survey_of(held: Mapping[str, MultiView], design: Design) -> Federation[Any]:
    """Return a federation that is ready for the survey."""
    sites: dict[str, Any] = {n: Newcomer(n, views, design) for n, views in held.items()}
    return Federation(sites, coordinator=Surveyor(tuple(sites), design))


def _describe(
    sites: Sequence[Newcomer], inboxes: Sequence[Any], tell: Any
) -> list[tuple[Newcomer, Outbox]]:
    return [
        (
            site,
            [
                ColumnSummary(
                    sender=site.name,
                    receiver=COORDINATOR,
                    columns={name: _summary(view.cells) for name, view in site.views.items()},
                    rows=site.views.n_individuals,
                )
            ],
        )
        for site in sites
    ]


def _agree(
    parties: Sequence[Surveyor], inboxes: Sequence[Any], tell: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party, inbox in zip(parties, inboxes, strict=True):
        design = party.design
        summaries = [r for r in inbox if isinstance(r, ColumnSummary)]
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
            Model(
                sender=COORDINATOR,
                receiver=name,
                round=0,
                weights=np.zeros(0, dtype=np.float32),
                extras=scales,
            )
            for name in party.names
        ]
        made.append((coordinator, letters))
    return made


def _encode(
    sites: Sequence[Newcomer], inboxes: Sequence[Any], tell: Any
) -> list[tuple[RowSite, Outbox]]:
    made = []
    learners: dict[int, AbstractLearner] = {}
    for site, inbox in zip(sites, inboxes, strict=True):
        design = site.design
        (model,) = (r for r in inbox if isinstance(r, Model))
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


def _summary(cells: np.ndarray) -> np.ndarray:
    """Return count, mean, squared deviations, lowest and highest of each column's known cells."""
    known = ~np.isnan(cells)
    count = known.sum(axis=0).astype(np.float64)
    filled = np.where(known, cells, 0.0).astype(np.float64)
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(known, cells - mean, 0.0) ** 2).sum(axis=0)
    low = np.where(known, cells, np.inf).min(axis=0, initial=np.inf)
    high = np.where(known, cells, -np.inf).max(axis=0, initial=-np.inf)
    return np.stack([count, mean, squares, low, high]).astype(np.float64)


def _combined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the summary of all sites' rows from the sites' summaries."""
    count, mean, squares, low, high = parts[0].copy()
    for part in parts[1:]:
        total = count + part[0]
        share = part[0] / np.maximum(total, 1)
        apart = part[1] - mean
        mean = mean + apart * share
        squares = squares + part[2] + apart**2 * count * share
        count, low, high = total, np.minimum(low, part[3]), np.maximum(high, part[4])
    return np.stack([count, mean, squares, low, high])


def _scales(summary: np.ndarray, features: Sequence[Feature], image: bool, name: str) -> np.ndarray:
    """Return center, scale, lowest and highest of each column."""
    count, mean, squares, low, high = summary
    if not count.any():
        raise DataError(f"{name!r} has no row at any site; leave it out")
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
            np.where(numeric, low, -np.inf),
            np.where(numeric, high, np.inf),
        ]
    )
