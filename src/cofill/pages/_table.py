"""Tables whose numbers line up and whose headings explain themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from cofill.errors import SettingError
from cofill.pages._html import Cell, Html, Quantity, hint, number, text

__all__ = ["table_html"]

_SENTENCE = 60  # characters, from which on a cell needs room


def table_html(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    caption: str = "",
    hints: Mapping[str, str] | None = None,
    strong_rows: Sequence[int] = (),
    most: int = 200,
) -> Html:
    """Return a table that scrolls sideways by itself where it is wider than the screen.

    Parameters
    ----------
    header
        Headings; units belong here or in a `Quantity`.
    rows
        Cells: words (escaped), `Html`, numbers, `Quantity` or None for a dash. The first cell of a
        row names it. A column of numbers is aligned to the right.
    caption
        What the table shows.
    hints
        Explanations of headings, shown on hover and focus.
    strong_rows
        Positions of rows that matter most.
    most
        Rows shown at most; how many were left out is said below.

    Examples
    --------
    >>> made = table_html(["site", "bytes"], [["<lab>", 1200]], hints={"bytes": "as sent"})
    >>> '&lt;lab&gt;</th><td class="n">1,200' in made, 'title="as sent"' in made
    (True, True)
    """
    if any(len(row) != len(header) for row in rows):
        raise SettingError(f"every row of a table must have {len(header)} cells, as its header has")
    kinds = [_kind([row[k] for row in rows]) for k in range(len(header))]
    told = hints or {}
    head = "".join(
        f'<th scope="col"{kinds[k]}>{hint(name, told[name]) if name in told else text(name)}</th>'
        for k, name in enumerate(header)
    )
    body = "".join(
        _row(row, kinds, strong=position in strong_rows) for position, row in enumerate(rows[:most])
    )
    named = f"<caption>{text(caption)}</caption>" if caption else ""
    left = len(rows) - most
    more = f'<p class="more">{left:,} more rows are not shown.</p>' if left > 0 else ""
    label = escape(caption or ", ".join(header))
    return Html(
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>{named}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _row(row: Sequence[Cell], kinds: Sequence[str], *, strong: bool) -> str:
    first, *rest = (_cell(cell) for cell in row)
    cells = "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(rest, kinds[1:], strict=True))
    mark = " class=strong" * strong
    return f'<tr{mark}><th scope="row"{kinds[0]}>{first}</th>{cells}</tr>'


def _cell(cell: Cell) -> Html:
    return text(cell) if isinstance(cell, str | Quantity) else Html(number(cell))


def _kind(column: Sequence[Cell]) -> str:
    """Return the attribute of a column's cells: numbers to the right, sentences with room."""
    known = [cell for cell in column if cell is not None]
    if known and not any(isinstance(cell, str) for cell in known):
        return ' class="n"'
    long = any(isinstance(cell, str) and len(cell) > _SENTENCE for cell in known)
    return ' class="w"' if long else ""
