"""Tables made from a record: our figures, mean ± std over the seeds, beside the published ones."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from cofill.errors import SettingError
from cofill.metrics import ResultRecord, ResultTable, checked_key

Published = int | float | tuple[int | float, int | float] | str


def table(
    record: ResultRecord,
    metrics: Iterable[str] | None = None,
    published: Mapping[str, Published] | None = None,
) -> ResultTable:
    """Return a record as a table: a row for each method and part, a column for each metric.

    `metrics` are those to show, in this order; by default all. `published` are the paper's figures
    by ``"<method>/<metric>/<where>"``: a number, a pair of mean and std, or text; a method that
    only the paper has gets a row too.

    Examples
    --------
    >>> record = ResultRecord("cube", seeds=[0, 1], values={"mwm/mask/shared": [0.99, 0.97]})
    >>> print(table(record, published={"mwm/mask/shared": (0.920, 0.026)}))
    method  where            mask   mask (paper)
    ------  ------  -------------  -------------
    mwm     shared  0.980 ± 0.014  0.920 ± 0.026
    mwm     all     0.980 ± 0.014              –
    """
    published = {} if published is None else published
    summary = record.summary
    keys = [checked_key(key).split("/") for key in [*summary, *published]]
    known = list(dict.fromkeys(metric for _, metric, _ in keys))
    shown = known if metrics is None else list(metrics)
    unknown = [metric for metric in shown if metric not in known]
    if unknown:
        raise SettingError(
            f"metrics must be among {', '.join(known) or 'none'}, got {', '.join(unknown)}."
        )
    beside = {key.split("/")[1] for key in published}
    header = ["method", "where"]
    for metric in shown:
        header += [metric, f"{metric} (paper)"] if metric in beside else [metric]
    rows: list[dict[str, Any]] = []
    cells: list[list[str]] = []
    for method, where in _ordered([(m, w) for m, metric, w in keys if metric in shown]):
        row: dict[str, Any] = {"method": method, "where": where}
        line = [method, where]
        for metric in shown:
            key = checked_key(f"{method}/{metric}/{where}")
            figure = summary.get(key, {"mean": None, "std": None, "n": 0})
            mean, std, n = figure["mean"], figure["std"], figure["n"]
            row |= {metric: mean, f"{metric}_std": std, f"{metric}_n": n}
            line.append(_show(mean, std if n > 1 else None))
            if metric in beside:
                row[f"{metric}_published"] = published.get(key)
                line.append(_show(published.get(key)))
        rows.append(row)
        cells.append(line)
    return ResultTable(rows, header, cells)


def _ordered(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return rows by method, parts in the order they appear, `all` last."""
    methods = dict.fromkeys(method for method, _ in pairs)
    parts = sorted(dict.fromkeys(where for _, where in pairs), key=lambda where: where == "all")
    return [(m, w) for m in methods for w in parts if (m, w) in set(pairs)]


def _show(mean: Published | None, std: int | float | None = None) -> str:
    """Return mean ± std to two digits of the spread, or the mean alone to four digits."""
    if isinstance(mean, str):
        return mean
    if isinstance(mean, tuple):
        mean, std = mean
    if mean is None or math.isnan(mean):
        return "–"
    if math.isinf(mean):
        return "∞" if mean > 0 else "−∞"
    if std is None or not math.isfinite(std):
        return _fixed(mean, _decimals(mean, 4))
    digits = _decimals(std, 2) if std > 0 else _decimals(mean, 4)
    return f"{_fixed(mean, digits)} ± {_fixed(std, digits)}"


def _decimals(value: int | float, significant: int) -> int:
    """Return the decimals that show so many significant digits, from 0 to 6."""
    if value == 0:
        return significant - 1
    return min(max(significant - 1 - math.floor(math.log10(abs(value))), 0), 6)


def _fixed(value: int | float, decimals: int) -> str:
    small = value != 0 and abs(value) < 0.5 * 10.0**-decimals
    return f"{value:.2g}" if small and decimals == 6 else f"{value:.{decimals}f}"
