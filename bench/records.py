"""Read the records under results/ and write their figures as cells of Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from cofill.metrics import ResultRecord
from cofill_papers import find_experiment

RESULTS = Path(__file__).parents[1] / "results"
MISSING = "–"


@cache
def read_record(name: str) -> ResultRecord:
    return ResultRecord.read(RESULTS / f"{name}.json")


def has_record(name: str) -> bool:
    """Return whether there is a record of that name."""
    return (RESULTS / f"{name}.json").exists()


def mean_of(name: str, key: str) -> float:
    """Return the mean over repeats of a value in the record of that name."""
    return read_record(name).summary[key]["mean"] or 0.0


def with_spread(name: str, key: str, *, digits: int = 3, scale: float = 1.0) -> str:
    """Return mean ± standard deviation over repeats; the value of one, a dash of none."""
    value = read_record(name).summary.get(key)
    if value is None or value["mean"] is None:
        return MISSING
    mean = f"{scale * value['mean']:,.{digits}f}"
    return f"{mean} ± {scale * (value['std'] or 0):.{digits}f}" if value["n"] > 1 else mean


def printed(name: str, key: str, *, digits: int = 3, scale: float = 1.0) -> str:
    """Return the figure that the experiment's paper prints, or a dash."""
    value = find_experiment(name).published.get(key)
    if value is None:
        return MISSING
    parts = value if isinstance(value, tuple) else (value,)
    return " ± ".join(f"{scale * part:,.{digits}f}" for part in parts)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """Return a table whose first `words` columns hold text and are aligned to the left."""
    align = ["---"] * words + ["---:"] * (len(header) - words)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, align, *rows))
