"""Pieces of markup: whatever is not markup already is escaped when it becomes part of some."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

__all__ = [
    "Cell",
    "Html",
    "Part",
    "Quantity",
    "badge",
    "bullets",
    "byte_size",
    "choice",
    "code",
    "columns",
    "details",
    "heading",
    "hint",
    "join",
    "key_figures",
    "note",
    "number",
    "paragraph",
    "strong",
    "text",
]

Tone: TypeAlias = Literal["plain", "good", "warn", "bad"]


class Html(str):
    """Text that is markup already and is put into a page as it is."""

    __slots__ = ()


@dataclass(frozen=True)
class Quantity:
    """A number with its uncertainty, unit and explanation.

    Parameters
    ----------
    value
        The number; a dash is shown for None and for what is not a number.
    spread
        Its standard deviation or half-width, shown after ±; `words` should say which.
    unit
        Shown after the number.
    digits
        Digits after the point; four significant ones when left out.
    words
        Explanation, shown on hover.

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


Part: TypeAlias = str | Quantity
"""What can stand in a page: words (escaped), `Html` (kept) or a quantity."""

Cell: TypeAlias = str | int | float | Quantity | None
"""What can stand in a table."""


def number(value: int | float | None, digits: int | None = None) -> str:
    """Write a number for people: thousands apart, a true minus, a dash for none.

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
    """Write a number of bytes with the unit that suits it.

    Examples
    --------
    >>> byte_size(812), byte_size(30_600), byte_size(4_815_814)
    ('812 B', '30.6 kB', '4.8 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    for unit, size in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < 1000 * size or unit == "GB":
            return f"{count / size:,.1f} {unit}"
    raise AssertionError  # pragma: no cover


def text(words: Part) -> Html:
    """Return words as markup.

    Examples
    --------
    >>> text("a < b"), text(Html("<b>kept</b>"))
    ('a &lt; b', '<b>kept</b>')
    """
    if isinstance(words, Html):
        return words
    if isinstance(words, Quantity) and words.words:
        return Html(f'<span title="{escape(words.words)}">{escape(str(words))}</span>')
    return Html(escape(str(words)))


def join(*parts: Part) -> Html:
    """Put parts one after another.

    Examples
    --------
    >>> join("1 < ", strong("2"))
    '1 &lt; <strong>2</strong>'
    """
    return Html("".join(text(part) for part in parts))


def paragraph(*parts: Part) -> Html:
    """Return a paragraph."""
    return Html(f"<p>{join(*parts)}</p>")


def strong(words: Part) -> Html:
    """Return words that matter."""
    return Html(f"<strong>{text(words)}</strong>")


def code(words: str) -> Html:
    """Return a name of a file, a command or a setting."""
    return Html(f"<code>{text(words)}</code>")


def hint(words: Part, explanation: str) -> Html:
    """Return words that explain themselves on hover, on focus and on a tap.

    Examples
    --------
    >>> hint("MSE", "mean squared error")
    '<abbr tabindex="0" title="mean squared error" data-hint="mean squared error">MSE</abbr>'
    """
    said = escape(explanation)
    return Html(f'<abbr tabindex="0" title="{said}" data-hint="{said}">{text(words)}</abbr>')


def badge(words: str, tone: Tone = "plain") -> Html:
    """Return a short verdict; the words say it, the colour repeats it."""
    return Html(f'<span class="badge {tone}">{text(words)}</span>')


def bullets(items: Sequence[Part]) -> Html:
    """Return a list."""
    return Html(f"<ul>{''.join(f'<li>{text(item)}</li>' for item in items)}</ul>")


def note(*parts: Part, tone: Tone = "plain") -> Html:
    """Return a remark set apart."""
    return Html(f'<p class="note {tone}" role="note">{join(*parts)}</p>')


def details(summary: str, *parts: Part) -> Html:
    """Return what is folded away until it is asked for."""
    return Html(f"<details><summary>{text(summary)}</summary>{join(*parts)}</details>")


def heading(words: str) -> Html:
    """Return a heading inside a section, one level below the section's own."""
    return Html(f"<h3>{text(words)}</h3>")


def choice(label: str, options: Mapping[str, Part]) -> Html:
    """Return several parts of which the reader sees one and chooses which; all without JavaScript.

    Examples
    --------
    >>> made = choice("feature", {"age": "the one", "<pulse>": "the other"})
    >>> "<option>&lt;pulse&gt;</option>" in made, made.count('<div class="option"')
    (True, 2)
    """
    if len(options) == 1:
        return join(*options.values())
    names = "".join(f"<option>{text(name)}</option>" for name in options)
    bodies = "".join(
        f'<div class="option" aria-label="{escape(name)}">{text(part)}</div>'
        for name, part in options.items()
    )
    return Html(
        f'<div class="choice"><label>{text(label)} <select autocomplete="off">{names}</select>'
        f"</label>{bodies}</div>"
    )


def columns(*parts: Part) -> Html:
    """Return parts side by side where there is room, else one below another."""
    return Html(f'<div class="columns">{"".join(f"<div>{text(p)}</div>" for p in parts)}</div>')


def key_figures(figures: Sequence[tuple[str, Part, str]]) -> Html:
    """Return the figures that matter most: label, value and explanation each.

    Examples
    --------
    >>> key_figures([("rows filled", "513", "over all views")])
    '<dl class="figures"><div><dt><abbr ...>rows filled</abbr></dt><dd>513</dd></div></dl>'
    """
    shown = (
        f"<div><dt>{hint(label, why) if why else text(label)}</dt><dd>{text(value)}</dd></div>"
        for label, value, why in figures
    )
    return Html(f'<dl class="figures">{"".join(shown)}</dl>')
