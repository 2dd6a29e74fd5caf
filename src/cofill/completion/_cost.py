"""What a completion takes: processor seconds and memory of each method, by the size of its tables.

A cost is ``start + scale · (people / 1,000)^a · (columns / 10)^b``, fitted by `bench.cost` to
completions of made tables (correlated columns, one in five binary, a tenth of the cells missing).
All constants are here. After a method got faster or slower, measure it again and put the lines that
it prints in place of the method's line::

    OMP_NUM_THREADS=1 python -m bench.cost pooled "pooled large" "pooled quick"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Power:
    """A cost that grows with people and columns, each to a power of its own."""

    start: float
    scale: float
    by_rows: float
    by_columns: float

    def at(self, rows: int, columns: int) -> float:
        """Return the cost of tables with so many people and columns in all.

        Examples
        --------
        >>> Power(1.0, 2.0, 1.0, 2.0).at(2000, 20)
        17.0
        """
        grown = (rows / 1000) ** self.by_rows * (columns / 10) ** self.by_columns
        return self.start + self.scale * grown


@dataclass(frozen=True)
class Cost:
    """Seconds on one processor, and MiB above what the program takes without a table."""

    seconds: Power
    mebibytes: Power


COSTS = {
    "pooled": Cost(Power(0.489, 5.28, 0.99, 1.66), Power(16.3, 165.0, 0.985, 1.05)),
    "pooled large": Cost(Power(1.96, 0.223, 0.674, 2.5), Power(28.0, 0.339, 1.14, 2.5)),
    "pooled quick": Cost(Power(0.29, 0.718, 0.946, 1.4), Power(19.7, 16.7, 1.15, 1.25)),
    "pooled quick large": Cost(Power(1.87, 0.28, 0.0, 2.5), Power(32.8, 0.431, 0.838, 2.5)),
    "cooperative": Cost(Power(13.4, 4.86, 1.41, 0.704), Power(258.0, 4.44, 1.35, 2.03)),
    "private": Cost(Power(0.01, 35.4, 1.08, 1.42), Power(1.0, 364.0, 0.76, 0.86)),
    "federated": Cost(Power(4.73, 0.242, 1.5, 0.497), Power(188.0, 30.1, 0.0, 0.16)),
    "mean": Cost(Power(0.01, 0.001, 1.0, 1.0), Power(0.01, 0.1, 1.0, 1.0)),
    "knn": Cost(Power(0.189, 0.0847, 1.5, 0.2), Power(11.7, 17.4, 1.16, 0.34)),
    "iterative": Cost(Power(0.297, 0.0395, 0.854, 2.04), Power(15.5, 0.687, 0.782, 1.66)),
    "central-ridge": Cost(Power(0.00962, 0.00193, 1.5, 1.24), Power(0.002, 0.919, 1.17, 1.33)),
    "central": Cost(Power(9.72, 1.47, 1.5, 0.408), Power(222.0, 20.6, 0.84, 0.26)),
}
"""By method, with its effort and the word ``large`` behind it where that makes a difference.

Measured on one thread of a 2-core Xeon server, November 2026.
"""

LARGE = 100_000
"""Cells above which `pooled` tries other candidates, and an entry ``large`` holds."""

LARGEST = (40_000, 40)
"""People and columns up to which `pooled` was measured; beyond, the powers are extrapolated.

Networks (`cooperative`, `federated`, `central`) were measured up to 4,000 people, `private` up to
1,000, by three cases beside other work that its powers pass through (a table of whole rows takes
it much less: it learns once), others up to 15,000.
"""

FACTOR = 3.0
"""By which a run may be shorter or longer than the estimate.

Processors differ by two, and other shares of missing cells and categories by as much.
"""


def find_cost(method: str, settings: Mapping[str, Any], cells: int) -> Cost | None:
    """Return what a method costs with these settings, None for one that was not measured.

    Examples
    --------
    >>> find_cost("pooled", {"effort": "quick"}, 1000) == COSTS["pooled quick"]
    True
    >>> find_cost("somebody's own", {}, 1000) is None
    True
    """
    named = [method, f"{method} {settings.get('effort')}"]
    if cells > LARGE:
        named += [f"{name} large" for name in named]
    return next((COSTS[name] for name in reversed(named) if name in COSTS), None)
