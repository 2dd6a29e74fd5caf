"""What a completion would do, before it is run: what was read, what is filled, how, how long."""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import Any

import numpy as np

from cofill.completion._completer import require_rows
from cofill.completion._cost import FACTOR, LARGEST, find_cost
from cofill.completion._job import SEPARATE, TOGETHER, CompletionJob, require_shared_individuals
from cofill.completion._registry import METHODS, make
from cofill.completion._suspects import suspects
from cofill.errors import InputError
from cofill.views import Feature, Kind, MultiView, View, read_views

SAMPLE = 300
"""People on whom the time is measured: enough that fitting, not starting, is what takes it."""

_COPIES = 40
"""Copies of the cells that a method of others may hold at its peak, which nobody has measured."""


def check_tables(job: CompletionJob, *, measure: bool = False) -> dict[str, Any]:
    """Return what a job would do, in facts that name nobody; nothing is written.

    Time and memory are those of a cost model (`cofill.completion._cost`). With `measure` the method
    is timed on a few people instead, from which the time of the whole is reckoned, in proportion to
    the people.
    """
    views = read_views(job.sources, id=job.id, **job.rules)
    require_shared_individuals(views)
    require_rows(views)
    to_fill = {name: _to_fill(views, name) for name in views}
    notes = [*views.notes, *(note for view in views.values() for note in suspects(view))]
    if views.is_complete:
        notes.append("nothing is missing: the tables would be written as they are")
    return {
        "individuals": views.n_individuals,
        "views": {
            name: {
                "rows": _rows_read(view),
                "empty_rows": _rows_read(view) - len(view),
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
        "expected": _expected(job, views, measure and not views.is_complete),
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


def _rows_read(view: View) -> int:
    """Return the rows of a view's table, those without any value among them."""
    return len(view) if view.source is None else len(view.source.row_ids)


def _why(job: CompletionJob) -> str:
    pools = METHODS.find(job.method).facts.get("pools_rows", True)
    if job.method == SEPARATE and job.separate:
        return "every view is a site that keeps its rows at home (--separate)"
    if job.method == TOGETHER and len(job.sources) == 1:
        return "it is the best for one table; cofill methods lists the others"
    if job.method == TOGETHER:
        return "all tables are yours and may be used together; --separate keeps rows at home"
    keeps = "it brings all rows together" if pools else "it lets no row leave its view"
    return f"it was asked for; {keeps}"


def _expected(job: CompletionJob, views: MultiView, measure: bool) -> dict[str, Any]:
    """Reckon time and memory; seconds are None where nobody has measured the method."""
    rows, columns = views.n_individuals, sum(view.n_features for view in views.values())
    cost, now = find_cost(job.method, job.settings, rows * columns), _memory_now()
    mebibytes = _COPIES * 8 * rows * columns / 2**20
    expected: dict[str, Any] = {
        "seconds": None,
        "by": "model",
        "factor": FACTOR,
        "beyond_measured": rows > LARGEST[0] or columns > LARGEST[1],
        "sample": min(SAMPLE, rows),
        "cores": os.cpu_count(),
        "machine_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    if cost is not None:
        mebibytes = cost.mebibytes.at(rows, columns)
        expected["seconds"] = round(cost.seconds.at(rows, columns), 1)
    expected["memory_bytes"] = now + int(mebibytes * 2**20)
    if measure and (seconds := _measured_time(job, views)) is not None:
        expected |= {"seconds": round(seconds, 1), "by": "sample"}
    return expected


def _measured_time(job: CompletionJob, views: MultiView) -> float | None:
    """Return the time of a run on a few people, in proportion; None where they are too few."""
    people = np.random.default_rng(job.seed).permutation(views.n_individuals)[:SAMPLE]
    started = time.perf_counter()
    try:
        make(job.method, **job.settings).fit_complete(views.take(np.sort(people)))
    except InputError:
        return None
    return (time.perf_counter() - started) * max(1.0, views.n_individuals / len(people))


def _memory_now() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
