"""Two records of one experiment with other methods or seeds, made into one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cofill.errors import SettingError
from cofill.metrics import ResultRecord

__all__ = ["joined", "without_methods"]


def joined(first: ResultRecord, second: ResultRecord, *, anew: bool = False) -> ResultRecord:
    """Return the record of both runs: the same experiment and settings, other methods or seeds.

    With `anew` the second may have methods of the first again, whose figures it replaces.
    Durations add up. ``extra["runs"]`` keeps when, how long, on what machine and with what versions
    each run was made, and which methods and seeds it had.

    Examples
    --------
    >>> one = ResultRecord("demo", seeds=[0], values={"a/mse/all": [1.0]}, duration_s=2)
    >>> two = ResultRecord("demo", seeds=[0, 1], values={"b/mse/all": [3.0, 4.0]}, duration_s=3)
    >>> both = joined(one, two)
    >>> both.values, both.duration_s, len(both.extra["runs"])
    ({'a/mse/all': [1.0, None], 'b/mse/all': [3.0, 4.0]}, 5.0, 2)
    """
    if first.name != second.name:
        raise SettingError(
            f"records can be joined when they are of one experiment, got {first.name!r} and "
            f"{second.name!r}"
        )
    shared = [{k: v for k, v in r.settings.items() if k != "methods"} for r in (first, second)]
    if shared[0] != shared[1]:
        odd = sorted(k for k in {**shared[0], **shared[1]} if shared[0].get(k) != shared[1].get(k))
        raise SettingError(f"records can be joined when their settings agree, {odd[0]!r} differs")
    if anew:
        first = without_methods(first, {key.split("/")[0] for key in second.values})
    seeds = list(dict.fromkeys([*first.seeds, *second.seeds]))
    values = {
        key: _joined_series(key, first, second, seeds) for key in {**first.values, **second.values}
    }
    methods = {**first.settings.get("methods", {}), **second.settings.get("methods", {})}
    extra = _merged(*({k: v for k, v in r.extra.items() if k != "runs"} for r in (first, second)))
    return ResultRecord(
        name=first.name,
        seeds=seeds,
        values=values,
        settings={**first.settings, **({"methods": methods} if methods else {})},
        versions=second.versions,
        machine=second.machine,
        started=min(first.started, second.started),
        duration_s=first.duration_s + second.duration_s,
        extra={**extra, "runs": [*_runs(first), *_runs(second)]},
    )


def _joined_series(
    key: str, first: ResultRecord, second: ResultRecord, seeds: list[int]
) -> list[float | None]:
    """Return a figure's values of both; the original data's figures are in each, and alike."""
    known: dict[int, float | None] = {}
    for record in (first, second):
        series = record.values.get(key, [None] * len(record.seeds))
        for seed, value in zip(record.seeds, series, strict=True):
            if known.get(seed) not in (None, value) and value is not None:
                method = key.split("/")[0]
                raise SettingError(f"the record has the method {method!r} already; leave it out")
            known[seed] = known.get(seed) if value is None else value
    return [known.get(seed) for seed in seeds]


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the notes of both, those under one name merged; else the second's."""
    merged = dict(first)
    for name, value in second.items():
        before = merged.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[name] = _merged(before, value)
        else:
            merged[name] = value
    return merged


def without_methods(record: ResultRecord, methods: set[str]) -> ResultRecord:
    """Return a record without the figures and notes of some methods.

    Runs that had no other method are left out too.
    """
    if not methods:
        return record

    def others(by_method: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in by_method.items() if k.split("/")[0] not in methods}

    runs = [{**run, "methods": sorted({*run["methods"]} - methods)} for run in _runs(record)]
    extra = {k: others(v) if isinstance(v, dict) else v for k, v in record.extra.items()}
    planned = record.settings.get("methods")
    return replace(
        record,
        values=others(record.values),
        settings={**record.settings, **({"methods": others(planned)} if planned else {})},
        extra={**extra, "runs": [run for run in runs if run["methods"]]},
    )


def _runs(record: ResultRecord) -> list[Any]:
    """Return when, how and with what each run of a record was made."""
    if "runs" in record.extra:
        return list(record.extra["runs"])
    return [
        {
            "methods": sorted({k.split("/")[0] for k in record.values}),
            "seeds": record.seeds,
            "started": record.started,
            "duration_s": record.duration_s,
            "machine": record.machine,
            "versions": record.versions,
        }
    ]
