"""Before the first round: sites agree on columns and scales, without showing a row.

``describe columns → agree on columns → summarise → agree on scales → encode``: sites sum up what
scaling needs of their columns (`Survey`), in a secure sum of which only the total is opened; the
coordinator makes scales and a first model, and sends the scales back; sites encode their rows.
Images are brought to [0, 1] by their modality's range over all sites, other numbers to mean 0 and
deviation 1. Without secure sums each site sends a summary of its columns in the clear, its lowest
and highest values among it. Either holds what scaling needs and no more, and nothing of a modality
of which a site has very few rows: of one row the mean is the row. There is no noise on it, so a
site whose budget is ``only_guaranteed`` sends none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError
from cofill.federate._parties import (
    Coordinator,
    RowSite,
    SurveyCoordinator,
    UnscaledSite,
    make_coordinator,
    make_site,
)
from cofill.federate._rows import Shape, encode_rows
from cofill.federate._secure import SUMMING, join_survey, open_sum
from cofill.privacy import Columns, ColumnScales, ColumnSummary, ImpossibleSumError, NumbersAndFlags
from cofill.protocol import (
    COORDINATOR,
    DESCRIBE_COLUMNS,
    FEWEST_ROWS,
    MOST_ROWS,
    Bounds,
    Inbox,
    Outbox,
    Pooled,
    Step,
    agree_on_columns,
    agreed_columns,
    first_of_type,
    one_by_one,
    pool_moments,
    range_of,
    require_bounded,
    require_possible,
    usable_scale,
    views_with_columns,
)
from cofill.views import Feature, Kind, Scaler, View

Summary = Float[np.ndarray, "5 features"]
"""Count, mean, squared deviations, lowest and highest of each column's known cells."""

Scales = Float[np.ndarray, "5 features"]
"""Center, scale, lowest and highest of each column, and how many individuals have a cell."""


# --- the sites' steps ---------------------------------------------------------------------------


def _summarise(site: UnscaledSite, inbox: Inbox) -> tuple[UnscaledSite, Outbox]:
    columns = agreed_columns(inbox)
    views, settings = views_with_columns(site.views, columns), site.design.settings
    for view in views.values():
        require_bounded(site.name, view, settings.bounds)
    site = replace(site, columns=columns)
    if settings.secure:
        return join_survey(site)
    summary = ColumnSummary(
        sender=site.name,
        receiver=COORDINATOR,
        columns={name: _disclosed(view, settings.bounds) for name, view in views.items()},
        rows=views.n_individuals,
    )
    return site, [summary]


def _encode(site: UnscaledSite, inbox: Inbox) -> tuple[RowSite, Outbox]:
    scales = first_of_type(inbox, ColumnScales)
    if scales is None or site.columns is None:
        raise DataError(f"site {site.name!r} has not been sent columns and scales; start again")
    scalers = _make_scalers(site.columns, scales.columns)
    return encode_site(replace(site, people=_count_people(scales.columns)), scalers), []


def encode_site(site: UnscaledSite, scalers: Mapping[str, Scaler]) -> RowSite:
    """Return a site with its rows encoded by agreed scales, before the first round."""
    columns = site.columns
    assert columns is not None  # noqa: S101
    shape = _row_shape(columns, scalers, site.people)
    rows = encode_rows(views_with_columns(site.views, columns), scalers, shape)
    row_site = make_site(site.name, rows, site.design.make_learner(shape), site.design)
    return replace(row_site, columns=columns, scalers=scalers, member=site.member)


def _make_scalers(columns: Columns, scales: Mapping[str, Scales]) -> dict[str, Scaler]:
    """Return the scalers of agreed scales; a range that ends before it begins is none."""
    scalers = {}
    for name, features in columns.features.items():
        center, scale, low, high, _ = scales[name]
        ends = np.where(low > high, -np.inf, low), np.where(low > high, np.inf, high)
        rows = (tuple(map(float, row)) for row in (center, scale, *ends))
        scalers[name] = Scaler(features, "standard", *rows)
    return scalers


def _count_people(scales: Mapping[str, Scales]) -> int:
    """Return how many individuals have a cell of the column that most have."""
    return int(max(figures[4].max() for figures in scales.values()))


def _row_shape(columns: Columns, scalers: Mapping[str, Scaler], people: int) -> Shape:
    names = tuple(columns.features)
    shapes = [columns.shapes.get(name) or () for name in names]
    sizes = tuple(scalers[name].width for name in names)
    pixels = {shape[:2] for shape in shapes}  # colours may differ
    common = next(iter(pixels)) if len(pixels) == 1 and max(map(len, shapes)) <= 3 else ()
    image = (common[0], common[1]) if len(common) == 2 else None
    widths = tuple(b.stop - b.start for name in names for b in scalers[name].blocks)
    return Shape(names, sizes, image, bounded=all(shapes), widths=widths, people=people)


# --- the coordinator's steps --------------------------------------------------------------------


def _agree_on_columns(
    coordinator: SurveyCoordinator, inbox: Inbox
) -> tuple[SurveyCoordinator, Outbox]:
    columns = agree_on_columns(coordinator.names, coordinator.view_order, inbox)
    return replace(coordinator, columns=columns[0]), columns


def _agree_on_scales(coordinator: SurveyCoordinator, inbox: Inbox) -> tuple[Coordinator, Outbox]:
    survey, names, design = coordinator.survey, coordinator.names, coordinator.design
    columns, bounds, notes = survey.columns, survey.bounds, []
    if design.settings.secure:
        total, _, notes = open_sum(coordinator, inbox)
        pooled = _pool_sum(coordinator, total)
    else:
        summaries = _sound_summaries(columns, names, inbox, bounds)
        pooled = {name: _pool([s.columns[name] for s in summaries]) for name in columns.features}
    scales = {
        name: _scales_of(pooled[name], features, name in columns.shapes, name, bounds)
        for name, features in columns.features.items()
    }
    shape = _row_shape(columns, _make_scalers(columns, scales), _count_people(scales))
    learner = design.make_learner(shape)
    releases = [ColumnScales(sender=COORDINATOR, receiver=name, columns=scales) for name in names]
    return replace(make_coordinator(names, learner, design), notes=tuple(notes)), releases


def _pool_sum(coordinator: SurveyCoordinator, total: NumbersAndFlags) -> dict[str, Pooled]:
    """Return all sites' figures from their sum; raise an error that names the sites of a false one.

    A number that is no mean of rows is a lie of one of them, and nobody can look which it was.
    """
    masked = () if coordinator.sum_state is None else coordinator.sum_state.masked
    try:
        return coordinator.survey.pool(total, sum(vector.rows for vector in masked))
    except ImpossibleSumError:
        raise DataError(
            f"survey: the sums of columns are of no rows that {coordinator.summed_sites} can have; "
            "one of them has sent something else than its sums"
        ) from None


def _sound_summaries(
    columns: Columns, names: Sequence[str], inbox: Inbox, bounds: Bounds
) -> list[ColumnSummary]:
    """Return every site's summary; raise a `DataError` for one that is missing or unsound."""
    summaries: dict[str, ColumnSummary] = {}
    for release in inbox:
        where = f"site {release.sender!r}: its summary of columns"
        if not isinstance(release, ColumnSummary) or release.sender in summaries:
            raise DataError(f"{where} must come once and nothing else, got {type(release).kind}")
        for name, features in columns.features.items():
            figures = release.columns.get(name)
            if figures is None or figures.shape != (5, len(features)):
                shape = None if figures is None else figures.shape
                raise DataError(f"{where} of {name!r} must be 5 × {len(features)}, got {shape}")
            if not np.isfinite(figures).all() or (figures[[0, 2]] < 0).any():
                raise DataError(f"{where} of {name!r} must be finite, with counts of at least 0")
            declared = [range_of(bounds, name, feature.name) for feature in features]
            try:
                require_possible(figures[:2], declared, min(release.rows, MOST_ROWS))
            except ImpossibleSumError:
                raise DataError(
                    f"{where} of {name!r} has more cells than individuals, or a mean outside of "
                    "the declared bounds; refused"
                ) from None
            _, mean, _, low, high = figures
            room = 1e-6 * np.maximum(np.abs(low), np.abs(high))
            is_outside = (mean != 0) & (low < high) & ((mean < low - room) | (mean > high + room))
            if is_outside.any():
                raise DataError(f"{where} of {name!r} has a mean outside of its range; refused")
        summaries[release.sender] = release
    absent = [name for name in names if name not in summaries]
    if absent:
        raise DataError(f"site {absent[0]!r} did not describe its columns; start again")
    return [summaries[name] for name in sorted(summaries)]


def scaling_steps(*, secure: bool = False) -> tuple[Step[Any], ...]:
    """Return the steps before the first round."""
    return (
        DESCRIBE_COLUMNS,
        Step("agree on columns", one_by_one(_agree_on_columns), "coordinator"),
        Step("summarise", one_by_one(_summarise)),
        *(SUMMING if secure else ()),
        Step("agree on scales", one_by_one(_agree_on_scales), "coordinator"),
        Step("encode", one_by_one(_encode)),
    )


# --- summaries and scales -----------------------------------------------------------------------


def _disclosed(view: View, bounds: Bounds) -> Summary:
    """Return the summary of a modality that a site sends: only what scaling needs."""
    summary = _summary_of(view.cells if len(view) >= FEWEST_ROWS else view.cells[:0])
    numeric = np.array([f.kind is Kind.NUMERIC for f in view.features])
    summary[1:, ~numeric] = 0.0
    if view.image_shape is not None:  # brought to a range
        summary[1:3] = 0.0
    summary[3:, [range_of(bounds, view.name, f.name) is not None for f in view.features]] = 0.0
    return summary


def _summary_of(cells: np.ndarray) -> Summary:
    """Return the summary of each column's known cells; zeros where there is none."""
    known = ~np.isnan(cells)
    count = known.sum(axis=0).astype(np.float64)
    mean = np.where(known, cells, 0.0).astype(np.float64).sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(known, cells - mean, 0.0) ** 2).sum(axis=0)
    low = np.where(known, cells, np.inf).min(axis=0, initial=np.inf)
    high = np.where(known, cells, -np.inf).max(axis=0, initial=-np.inf)
    ends = np.where(count > 0, [low, high], 0.0)
    return np.stack([count, mean, squares, *ends]).astype(np.float64)


def _pool(parts: Sequence[Summary]) -> Pooled:
    """Return the figures of all sites' rows from their summaries."""
    counts, means, squares, lows, highs = np.stack(parts, axis=1)
    mean, variance = pool_moments(counts, counts * means, squares)
    low = np.where(counts > 0, lows, np.inf).min(axis=0)
    high = np.where(counts > 0, highs, -np.inf).max(axis=0)
    return np.stack([counts.sum(axis=0), mean, variance, low, high])


def _scales_of(
    pooled: Pooled, features: Sequence[Feature], image: bool, name: str, bounds: Bounds
) -> Scales:
    """Return the scales of a modality; a range of 1 to 0 where there is none."""
    count, mean, variance, low, high = pooled.copy()
    if not count.any():
        raise DataError(f"{name!r} has fewer than {FEWEST_ROWS} rows at every site; leave it out")
    for k, feature in enumerate(features):
        low[k], high[k] = range_of(bounds, name, feature.name) or (low[k], high[k])
    if image:
        lowest, highest = low.min(), high.max()
        span = highest - lowest if highest > lowest else 1.0
        ends = np.repeat([[lowest], [span], [lowest], [highest]], len(count), axis=1)
        return np.vstack([ends, count])
    numeric = np.array([f.kind is Kind.NUMERIC for f in features]) & (count > 0)
    scale = usable_scale(mean, np.sqrt(variance))
    ends = np.where(numeric, [mean, scale, low, high], [[0.0], [1.0], [1.0], [0.0]])
    return np.vstack([ends, count])
