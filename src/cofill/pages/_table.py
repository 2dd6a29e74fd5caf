"""Tables whose numbers line up and whose headings explain themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from cofill.errors import SettingError
from cofill.pages._html import Cell, Part, element, hint, join
from cofill.pages._quantity import Quantity, number

_SENTENCE = 60  # characters; the widest verdicts and names of the reports stay on one line below it


def table_html(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    caption: str = "",
    hints: Mapping[str, str] | None = None,
    strong_rows: Sequence[int] = (),
    most: int = 200,
) -> Markup:
    """Return a table that scrolls sideways by itself where it is wider than the screen.

    Parameters
    ----------
    header
        Headings; units belong here or in a `Quantity`.
    rows
        Cells: words (escaped), `Markup`, numbers, `Quantity` or None for a dash. The first cell of
        a row names it. A column of numbers is aligned to the right.
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
    >>> markup = table_html(["site", "bytes"], [["<lab>", 1200]], hints={"bytes": "as sent"})
    >>> '&lt;lab&gt;</th><td class="n">1,200' in markup, 'title="as sent"' in markup
    (True, True)
    """
    if any(len(row) != len(header) for row in rows):
        raise SettingError(f"every row of a table must have {len(header)} cells, as its header has")
    kinds = [_kind([row[k] for row in rows]) for k in range(len(header))]
    headings = (hint(name, hints[name]) if hints and name in hints else name for name in header)
    head = (
        element("th", words, scope="col", **kind)
        for words, kind in zip(headings, kinds, strict=True)
    )
    body = (_row(row, kinds, strong=k in strong_rows) for k, row in enumerate(rows[:most]))
    table = element(
        "table",
        element("caption", caption) if caption else "",
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    hidden = len(rows) - most
    more = element("p", f"{hidden:,} more rows are not shown.", class_="more") if hidden > 0 else ""
    return join(scroll_area(caption or ", ".join(header), table), more)


def scroll_area(label: str, content: Part, *, more_class: str = "") -> Markup:
    """Return content that scrolls by itself, also by keyboard, where it is wider than the page."""
    return element(
        "div",
        content,
        class_=f"scroll {more_class}".strip(),
        role="region",
        tabindex="0",
        aria_label=label,
    )


def _row(row: Sequence[Cell], kinds: Sequence[Mapping[str, str]], *, strong: bool) -> Markup:
    words = [cell if isinstance(cell, str | Quantity) else number(cell) for cell in row]
    name = element("th", words[0], scope="row", **kinds[0])
    cells = (element("td", cell, **kind) for cell, kind in zip(words[1:], kinds[1:], strict=True))
    return element("tr", name, *cells, **({"class_": "strong"} if strong else {}))


def _kind(column: Sequence[Cell]) -> dict[str, str]:
    """Return the attributes of a column's cells: numbers to the right, sentences with room."""
    cells = [cell for cell in column if cell is not None]
    if cells and not any(isinstance(cell, str) for cell in cells):
        return {"class_": "n"}
    long = any(isinstance(cell, str) and len(cell) > _SENTENCE for cell in cells)
    return {"class_": "w"} if long else {}
