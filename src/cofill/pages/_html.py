"""Pieces of markup: numbers as people read them, elements, tables.

Words that are not `markupsafe.Markup` yet are escaped when they are put in.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from cofill.errors import SettingError

_SENTENCE = 60  # characters; the widest verdicts and names of the reports stay on one line below it


@dataclass(frozen=True)
class Quantity:
    """A number with its uncertainty, unit and explanation.

    A dash is shown for None and for what is not a number. ``spread`` is a standard deviation or
    half-width, shown after ±; ``words``, shown on hover, should say which. Without ``digits`` after
    the point, four significant ones are shown.

    Examples
    --------
    >>> str(Quantity(0.22345, 0.0601, digits=3)), str(Quantity(1536, unit="bytes"))
    ('0.223 ± 0.060', '1,536 bytes')
    """

    value: int | float | None
    spread: int | float | None = None
    unit: str = ""
    digits: int | None = None
    words: str = ""

    def __str__(self) -> str:
        shown = number(self.value, self.digits)
        if shown == "–":
            return shown
        spread = "" if self.spread is None else f" ± {number(self.spread, self.digits)}"
        return f"{shown}{spread}{' ' + self.unit if self.unit else ''}"

    def __html__(self) -> Markup:
        """Return the number as markup; `markupsafe.escape` asks for it."""
        if not self.words:
            return escape(str(self))
        return Markup('<span title="{}">{}</span>').format(self.words, str(self))


def number(value: int | float | None, digits: int | None = None) -> str:
    """Return a number for people: thousands apart, a true minus, a dash for none.

    Examples
    --------
    >>> number(1234567), number(-0.12345), number(0.5, 3), number(None), number(3.2e-7)
    ('1,234,567', '−0.1235', '0.500', '–', '3.2e−07')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    if digits is not None:
        shown = f"{value:,.{digits}f}"
    elif isinstance(value, numbers.Integral) or (value == int(value) and abs(value) < 1e15):
        shown = f"{int(value):,}"
    else:
        shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return shown.replace("-", "−")


def byte_size(count: int | float) -> str:
    """Return a number of bytes with the unit that suits it.

    Examples
    --------
    >>> byte_size(812), byte_size(30_600), byte_size(4_815_814)
    ('812 B', '30.6 kB', '4.8 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    unit, size = ("kB", 1e3) if count < 1e6 else ("MB", 1e6) if count < 1e9 else ("GB", 1e9)
    return f"{count / size:,.1f} {unit}"


Tone = Literal["plain", "good", "warn", "bad"]

Part = str | Quantity
"""What can stand in a page: words (escaped), `Markup` (kept) or a quantity."""

Cell = str | int | float | Quantity | None
"""What can stand in a table."""


def element(tag: str, *parts: Part, **attributes: str) -> Markup:
    """Return an element with its attributes and content.

    In the name of an attribute ``_`` stands for ``-``, and is dropped at the end (``class_``).

    Examples
    --------
    >>> print(element("p", "1 < ", element("b", "2"), class_="note", aria_label='"sum"'))
    <p class="note" aria-label="&#34;sum&#34;">1 &lt; <b>2</b></p>
    """
    written = (
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(tag, join(*written), join(*parts))


def join(*parts: Part) -> Markup:
    """Return parts one after another."""
    # Not Markup("").join: a quantity is no text, and beartype checks what str.join is called with.
    return Markup("").join(map(escape, parts))


def paragraph(*parts: Part) -> Markup:
    """Return a paragraph."""
    return element("p", *parts)


def strong(words: Part) -> Markup:
    """Return words that matter."""
    return element("strong", words)


def code(words: str) -> Markup:
    """Return a name of a file, a command or a setting."""
    return element("code", words)


def heading(words: str) -> Markup:
    """Return a heading inside a section, one level below the section's own."""
    return element("h3", words)


def hint(words: Part, explanation: str) -> Markup:
    """Return words that explain themselves on hover, on focus and on a tap.

    Examples
    --------
    >>> print(hint("MSE", "mean squared error"))
    <abbr tabindex="0" title="mean squared error" data-hint="mean squared error">MSE</abbr>
    """
    return element("abbr", words, tabindex="0", title=explanation, data_hint=explanation)


def badge(words: str, tone: Tone = "plain") -> Markup:
    """Return a short verdict; the words say it, the colour repeats it."""
    return element("span", words, class_=f"badge {tone}")


def bullets(items: Sequence[Part]) -> Markup:
    """Return a list."""
    return element("ul", *(element("li", item) for item in items))


def note(*parts: Part, tone: Tone = "plain") -> Markup:
    """Return a remark set apart."""
    return element("p", *parts, class_=f"note {tone}", role="note")


def details(summary: str, *parts: Part) -> Markup:
    """Return what is folded away until a reader opens it."""
    return element("details", element("summary", summary), *parts)


def choice(label: str, options: Mapping[str, Part]) -> Markup:
    """Return several parts of which the reader sees one and chooses which; all without JavaScript.

    Examples
    --------
    >>> markup = choice("feature", {"age": "the one", "<pulse>": "the other"})
    >>> "<option>&lt;pulse&gt;</option>" in markup, markup.count('<div class="option"')
    (True, 2)
    """
    if len(options) == 1:
        return join(*options.values())
    names = (element("option", name) for name in options)
    bodies = (
        element("div", part, class_="option", aria_label=name) for name, part in options.items()
    )
    menu = element("label", label, " ", element("select", *names, autocomplete="off"))
    return element("div", menu, *bodies, class_="choice")


def columns(*parts: Part) -> Markup:
    """Return parts side by side where there is room, else one below another."""
    return element("div", *(element("div", part) for part in parts), class_="columns")


def key_figures(figures: Sequence[tuple[str, Part, str]]) -> Markup:
    """Return the figures that matter most: label, value and explanation each.

    Examples
    --------
    >>> print(key_figures([("rows filled", "513", "over all views")]))
    <dl class="figures"><div><dt><abbr ...>rows filled</abbr></dt><dd>513</dd></div></dl>
    """
    pairs = (
        element("div", element("dt", hint(label, why) if why else label), element("dd", value))
        for label, value, why in figures
    )
    return element("dl", *pairs, class_="figures")


# --- tables --------------------------------------------------------------------------------------


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

    Cells are words (escaped), `Markup`, numbers, `Quantity` or None for a dash; the first cell of a
    row names it, and a column of numbers is aligned to the right. ``hints`` explain headings on
    hover and focus, ``strong_rows`` are positions of rows that matter most. Of more rows than
    ``most`` it is said how many were left out.

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
    named = zip(headings, kinds, strict=True)
    head = (element("th", words, scope="col", **kind) for words, kind in named)
    body = (_row(row, kinds, strong=k in strong_rows) for k, row in enumerate(rows[:most]))
    title = element("caption", caption) if caption else ""
    parts = element("thead", element("tr", *head)), element("tbody", *body)
    table = element("table", title, *parts)
    hidden = len(rows) - most
    more = element("p", f"{hidden:,} more rows are not shown.", class_="more") if hidden > 0 else ""
    return join(scroll_area(caption or ", ".join(header), table), more)


def scroll_area(label: str, content: Part, *, more_class: str = "") -> Markup:
    """Return content that scrolls by itself, also by keyboard, where it is wider than the page."""
    focus = {"role": "region", "tabindex": "0", "aria_label": label}
    return element("div", content, class_=f"scroll {more_class}".strip(), **focus)


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
