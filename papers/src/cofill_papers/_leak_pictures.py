"""Pictures of the experiments on defences of codes: leak against utility, a picture a data set."""

from __future__ import annotations

from cofill.metrics import ResultRecord
from cofill_papers._draw import line_chart

__all__ = ["draw_leaks"]


def draw_leaks(record: ResultRecord) -> dict[str, str]:
    """Return, for each data set, a picture with a line a defence over its strengths.

    Examples
    --------
    >>> record = ResultRecord("leak-codes", seeds=[0], values={
    ...     "none/inversion_r2/wdbc": [0.9], "none/mse_growth/wdbc": [0.0],
    ...     "noise-30/inversion_r2/wdbc": [0.2], "noise-30/mse_growth/wdbc": [0.8]})
    >>> list(draw_leaks(record))
    ['wdbc']
    """
    keys = [k.split("/") for k in record.summary if k.split("/")[1] == "inversion_r2"]
    drawn = {}
    for source in dict.fromkeys(where for _, _, where in keys if where != "all"):
        lines: dict[str, list[tuple[float, float]]] = {}
        for name, _, where in keys:
            leak = record.summary[f"{name}/inversion_r2/{where}"]["mean"]
            growth = record.summary.get(f"{name}/mse_growth/{where}", {}).get("mean")
            if where == source and leak is not None and growth is not None:
                lines.setdefault(_family(name), []).append((100 * growth, leak))
        drawn[source] = line_chart(
            f"What codes give away, and what hiding it costs: {source}",
            {family: sorted(points) for family, points in lines.items()},
            x_axis="growth of the completion error, %",
            y_axis="R² of the row behind a code",
            caption=f"Each line joins the strengths of a defence; {len(record.seeds)} repeats. "
            "The goal is the corner below 0.2 and left of 25 %.",
            y_range=(0.0, 1.0),
        )
    return drawn


def _family(name: str) -> str:
    """Return a defence's name without its strength."""
    head, _, tail = name.rpartition("-")
    return head if head and tail[:1].isdigit() else name
