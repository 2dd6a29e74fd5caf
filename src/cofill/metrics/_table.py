"""A table of results, ready to show as plain text or in Markdown."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ResultTable:
    """Rows of method × where, ready to show. ``str()`` gives aligned plain text.

    Attributes
    ----------
    rows
        One dict a row: ``method``, ``where`` and for each metric ``<metric>`` (the mean),
        ``<metric>_std``, ``<metric>_n`` and, where some are given, ``<metric>_published``.
    header, cells
        Headings of the columns, and the same rows, as shown.
    """

    rows: list[dict[str, Any]]
    header: list[str]
    cells: list[list[str]]

    def __str__(self) -> str:
        head, *body = _padded([self.header, *self.cells])
        rule = ["-" * len(cell) for cell in head]
        return "\n".join("  ".join(line).rstrip() for line in (head, rule, *body))

    def markdown(self) -> str:
        """Return a Markdown table, aligned in its source as well."""
        safe = [[cell.replace("|", "\\|") for cell in line] for line in (self.header, *self.cells)]
        head, *body = _padded(safe)
        rule = ["-" * len(cell) for cell in head[:2]] + [f"{'':-<{len(c) - 1}}:" for c in head[2:]]
        return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *body))


def _padded(lines: list[list[str]]) -> list[list[str]]:
    """Return every column at one width, names to the left and numbers to the right."""
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    sides = ["<", "<", *">" * (len(widths) - 2)]
    return [[f"{c:{s}{w}}" for c, s, w in zip(line, sides, widths, strict=True)] for line in lines]
