"""What a completion would do, before it is run: what was read, what is filled, how, how long."""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import Any

import numpy as np

from cofill.completion._completer import require_rows
from cofill.completion._job import CompletionJob, require_shared_individuals
from cofill.completion._registry import METHODS, make
from cofill.errors import InputError
from cofill.views import Feature, Kind, MultiView, View, read_views

SAMPLE = 300
"""People on whom the time is measured: enough that fitting, not starting, is what takes it."""

_COPIES = 40
"""Copies of the cells that a run holds at its peak: coded columns, candidates, folds."""


def check_tables(job: CompletionJob, *, measure: bool = False) -> dict[str, Any]:
    """Return what a job would do, in facts that name nobody; nothing is written.

    With `measure` the method is timed on a few people, from which the time of the whole is
    reckoned, in proportion to the people.
    """
    views = read_views(job.sources, id=job.id, **job.rules)
    require_shared_individuals(views)
    require_rows(views)
    to_fill = {name: _to_fill(views, name) for name in views}
    notes = [*views.notes, *(n for v in views.values() for n in _constants(v))]
    return {
        "individuals": views.n_individuals,
        "views": {
            name: {
                "rows": len(view),
                "columns": _columns(view),
                "passed_through": _passed_through(view),
                **to_fill[name],
            }
            for name, view in views.items()
        },
        "patterns": [
            {"views": [n for n, has in zip(views, pattern, strict=True) if has], "individuals": k}
            for pattern, k in views.patterns().items()
        ],
        "notes": notes,
        "method": {"name": job.method, "why": _why(job)},
        "expected": {
            "memory_bytes": _memory(views),
            **_expected_time(job, views, measure and not views.is_complete),
        },
    }


def _to_fill(views: MultiView, name: str) -> dict[str, int]:
    absent = views.n_individuals - len(views[name])
    cells = views[name].n_missing_cells + absent * views[name].n_features
    return {"rows_to_fill": absent, "cells_to_fill": cells}


def _columns(view: View) -> dict[str, dict[str, Any]]:
    missing = np.isnan(view.cells).sum(axis=0)
    return {
        feature.name: {"kind": _kind(feature), "missing": int(missing[k])}
        for k, feature in enumerate(view.features)
    }


def _kind(feature: Feature) -> str:
    if feature.kind is Kind.NUMERIC:
        temporal = feature.dtype.startswith(("date", "time", "duration"))
        return feature.dtype.partition("[")[0] if temporal else "numeric"
    order = "ordered " if feature.ordered else ""
    return f"{order}{feature.kind} of {len(feature.categories)}"


def _passed_through(view: View) -> list[str]:
    columns = view.source.columns if view.source is not None else ()
    return [c for c in columns if c not in view.feature_names and c != view.id_name]


def _constants(view: View) -> list[str]:
    constant = np.nanmin(view.cells, axis=0) == np.nanmax(view.cells, axis=0)
    return [
        f"view {view.name!r}: column {feature.name!r} has one value only and is filled with it"
        for feature, is_constant in zip(view.features, constant, strict=True)
        if is_constant
    ]


def _why(job: CompletionJob) -> str:
    pools = METHODS.find(job.method).facts.get("pools_rows", True)
    if job.separate:
        return "every view is a site that keeps its rows at home (--separate)"
    if pools:
        return "all tables are yours and may be used together; --separate keeps rows at home"
    return "it was asked for; it lets no row leave its view"


def _expected_time(job: CompletionJob, views: MultiView, measure: bool) -> dict[str, Any]:
    """Reckon the time from a run on a few people; None where there is no such run."""
    people = np.random.default_rng(job.seed).permutation(views.n_individuals)[:SAMPLE]
    unknown = {"seconds": None, "sample": len(people), "cores": os.cpu_count()}
    if not measure:
        return unknown
    started = time.perf_counter()
    try:
        make(job.method, **job.settings).fit_complete(views.take(np.sort(people)))
    except InputError:  # a few people may be too few for the method
        return unknown
    seconds = (time.perf_counter() - started) * max(1.0, views.n_individuals / len(people))
    return {**unknown, "seconds": round(seconds, 1)}


def _memory(views: MultiView) -> int:
    cells = views.n_individuals * sum(view.n_features for view in views.values())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit + _COPIES * 8 * cells
