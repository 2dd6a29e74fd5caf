"""Pieces of markup; words that are not `markupsafe.Markup` yet are escaped when they are put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from markupsafe import Markup, escape

from cofill.pages._quantity import Quantity

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
    """Return parts one after another.

    Examples
    --------
    >>> print(join("1 < ", strong("2")))
    1 &lt; <strong>2</strong>
    """
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
