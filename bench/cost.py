"""Measure what completion methods cost, for the estimates of `cofill check`.

    OMP_NUM_THREADS=1 python -m bench.cost [METHOD ...]

Every case runs in a process of its own and prints what it took: seconds of the processor, not of
the clock, so that other work on the machine does not count, and the memory above that of the loaded
library. The last lines are the entries of `cofill.completion._cost`, fitted to the logarithms.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from itertools import groupby

import numpy as np
from scipy.optimize import least_squares

from cofill.completion import make
from cofill.views import MultiView, View

SMALL = ((200, 5), (200, 20), (1000, 8), (1000, 24), (4000, 8))
LARGE = ((15_000, 10), (5000, 40), (40_000, 10))
WIDE = ((300, 8), (1000, 8), (1000, 40), (4000, 16), (15_000, 10))
CASES = {
    "pooled": SMALL,
    "pooled large": LARGE,
    "pooled quick": SMALL,
    "pooled quick large": LARGE,
    "cooperative": WIDE,
    "private": WIDE[:4],
    "federated": WIDE[:4],
    "mean": WIDE,
    "knn": WIDE,
    "iterative": WIDE,
    "central-ridge": WIDE,
    "central": WIDE[:4],
}
"""Rows and columns of the tables that each method completes."""

SEVERAL = ("cooperative", "private", "central-ridge", "central")
FORM = np.array([1000.0, 10.0])  # the table whose cost an entry states


def example_tables(method: str, rows: int, columns: int) -> MultiView:
    """Return correlated columns, one in five of them binary, with a tenth of the cells missing."""
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, columns))
    cells += rng.normal(size=cells.shape)
    cells[:, ::5] = cells[:, ::5] > 0
    cells[rng.random(cells.shape) < 0.1] = np.nan
    if method not in SEVERAL and method != "federated":
        return MultiView.from_arrays({"table": cells})
    ids, half, fifth = np.arange(rows), columns // 2, rows // 5
    return MultiView(
        [
            View("left", ids[: rows - fifth], cells[: rows - fifth, :half]),
            View("right", ids[fifth:], cells[fifth:, half:]),
        ]
    )


def measure(case: str, rows: int, columns: int) -> dict[str, float]:
    """Return the processor's seconds and the bytes of one completion, in this process."""
    method, *words = case.split()
    effort = next((word for word in words if word != "large"), None)
    views = example_tables(method, rows, columns)
    completer = make(method, **({"effort": effort} if effort else {}))
    before, started = _peak(), time.process_time()
    completer.fit_complete(views)
    return {"seconds": time.process_time() - started, "bytes": float(_peak() - before)}


def fit_entry(table: np.ndarray, costs: np.ndarray) -> list[float]:
    """Return start, scale and the powers of rows and columns that fit the logarithms of costs."""
    size = np.log(table / FORM)

    def misfit(entry: np.ndarray) -> np.ndarray:
        start, scale, *powers = entry
        expected = np.exp(start) + np.exp(scale + size @ np.array(powers))
        # Without the last terms a start that no case shows could be any number.
        return np.append(np.log(expected / costs), 0.01 * np.array([start - smallest, 0.0]))

    smallest = float(np.log(costs.min()))
    bounds = [(smallest - 9, np.log(costs).min() - 12, 0.0, 0.0), (smallest, 40.0, 1.5, 2.5)]
    fitted = least_squares(
        misfit, [smallest - 1, np.log(np.median(costs)), 0.8, 1.0], bounds=bounds
    )
    start, scale, by_rows, by_columns = fitted.x
    return [float(np.exp(start)), float(np.exp(scale)), float(by_rows), float(by_columns)]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _measure_all(names: list[str]) -> list[tuple[str, int, int, dict[str, float]]]:
    measured = []
    for name in names:
        for rows, columns in CASES[name]:
            words = [sys.executable, "-m", "bench.cost", "--one", name, str(rows), str(columns)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name} {rows} {columns}: {done.stderr.strip().splitlines()[-1]}")
                continue
            cost = json.loads(done.stdout)
            measured.append((name, rows, columns, cost))
            print(
                f"{name} {rows:,} × {columns}: {cost['seconds']:.1f} s, "
                f"{cost['bytes'] / 2**20:.0f} MiB",
                flush=True,
            )
    return measured


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
        return
    measured = _measure_all(sys.argv[1:] or list(CASES))
    for name, cases in groupby(measured, key=lambda case: case[0]):
        listed = list(cases)
        table = np.array([case[1:3] for case in listed], dtype=float)
        entries = []
        for what, unit in (("seconds", 1.0), ("bytes", 2.0**20)):
            costs = np.array([max(case[3][what] / unit, 0.01) for case in listed])
            entries.append(
                "Power(" + ", ".join(str(float(f"{x:.3g}")) for x in fit_entry(table, costs)) + ")"
            )
        print(f'    "{name}": Cost({", ".join(entries)}),')


if __name__ == "__main__":
    main()
