"""Two records of one experiment with other methods, made into one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cofill.errors import SettingError
from cofill.metrics import ResultRecord

__all__ = ["joined"]


def joined(first: ResultRecord, second: ResultRecord, *, anew: bool = False) -> ResultRecord:
    """Return the record of both runs: the same experiment, seeds and settings, other methods.

    With `anew` the second may have methods of the first again, whose figures it replaces.
    Durations add up. ``extra["runs"]`` keeps when, how long, on what machine and with what versions
    each run was made, and which methods it had.

    Examples
    --------
    >>> one = ResultRecord("demo", seeds=[0], values={"a/mse/all": [1.0]}, duration_s=2)
    >>> two = ResultRecord("demo", seeds=[0], values={"b/mse/all": [3.0]}, duration_s=3)
    >>> both = joined(one, two)
    >>> sorted(both.values), both.duration_s, len(both.extra["runs"])
    (['a/mse/all', 'b/mse/all'], 5.0, 2)
    """
    if (first.name, first.seeds) != (second.name, second.seeds):
        raise SettingError(
            f"records can be joined when they are of one experiment and the same seeds, got "
            f"{first.name!r} of {len(first.seeds)} seeds and {second.name!r} of "
            f"{len(second.seeds)}"
        )
    shared = [{k: v for k, v in r.settings.items() if k != "methods"} for r in (first, second)]
    if shared[0] != shared[1]:
        odd = sorted(k for k in {**shared[0], **shared[1]} if shared[0].get(k) != shared[1].get(k))
        raise SettingError(f"records can be joined when their settings agree, {odd[0]!r} differs")
    if anew:
        first = _without(first, {key.split("/")[0] for key in second.values})
    both = first.values.keys() & second.values.keys()  # the original data's figures are in each
    twice = sorted({k.split("/")[0] for k in both if first.values[k] != second.values[k]})
    if twice:
        raise SettingError(f"the record has the method {twice[0]!r} already; leave it out")
    methods = {**first.settings.get("methods", {}), **second.settings.get("methods", {})}
    extra: dict[str, Any] = {k: v for k, v in first.extra.items() if k != "runs"}
    for name, value in second.extra.items():
        if name == "runs":
            continue
        before = extra.get(name)
        extra[name] = {**before, **value} if isinstance(before, dict) else value
    extra["runs"] = [*_runs(first), *_runs(second)]
    return ResultRecord(
        name=first.name,
        seeds=first.seeds,
        values={**first.values, **second.values},
        settings={**first.settings, **({"methods": methods} if methods else {})},
        versions=second.versions,
        machine=second.machine,
        started=min(first.started, second.started),
        duration_s=first.duration_s + second.duration_s,
        extra=extra,
    )


def _without(record: ResultRecord, methods: set[str]) -> ResultRecord:
    """Return a record without the figures of some methods, and without runs that had only those."""
    runs = [{**run, "methods": sorted({*run["methods"]} - methods)} for run in _runs(record)]
    return replace(
        record,
        values={k: v for k, v in record.values.items() if k.split("/")[0] not in methods},
        extra={**record.extra, "runs": [run for run in runs if run["methods"]]},
    )


def _runs(record: ResultRecord) -> list[Any]:
    """Return when, how and with what each run of a record was made."""
    if "runs" in record.extra:
        return list(record.extra["runs"])
    return [
        {
            "methods": sorted({k.split("/")[0] for k in record.values}),
            "started": record.started,
            "duration_s": record.duration_s,
            "machine": record.machine,
            "versions": record.versions,
        }
    ]
