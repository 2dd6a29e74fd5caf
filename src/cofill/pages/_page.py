"""A whole page: title, contents, sections, one style, and the scripts it allows by their hashes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from cofill.errors import SettingError
from cofill.pages._html import Html, Part, Quantity, join, text
from cofill.pages._plot import MARK, plotly_script

__all__ = ["Page", "Section"]


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading of its own.

    Parameters
    ----------
    title
        The heading.
    body
        What stands below: `Html`, or words that are escaped, or several of these.
    anchor
        Name for links, made from the title when left out.
    lead
        One sentence below the heading that says what to learn from it.
    parts
        Sections inside this one, under smaller headings.

    Examples
    --------
    >>> Section("What crossed a border", "nothing").anchor
    'what-crossed-a-border'
    """

    title: str
    body: Part | Sequence[Part]
    anchor: str = ""
    lead: Part = ""
    parts: Sequence[Section] = ()

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise SettingError("a section must have a title, got an empty one")
        anchor = self.anchor or re.sub(r"\W+", "-", self.title.lower()).strip("-") or "section"
        object.__setattr__(self, "anchor", anchor)

    @property
    def anchors(self) -> list[str]:
        """The names for links in it."""
        return [self.anchor, *(anchor for part in self.parts for anchor in part.anchors)]

    def html(self, level: int = 2) -> Html:
        """Return the section as markup, its heading of a level."""
        given = [self.body] if isinstance(self.body, str | Quantity) else self.body
        body = "".join(p if isinstance(p, Html) else f"<p>{text(p)}</p>" for p in given)
        # Escaped words cannot spell a tag, so these are headings of the section's own.
        for mark in ("<h3>", "</h3>"):
            body = body.replace(mark, mark.replace("3", str(level + 1)))
        lead = f'<p class="lead">{text(self.lead)}</p>' if self.lead else ""
        inside = "".join(part.html(level + 1) for part in self.parts)
        name = escape(self.anchor)
        return Html(
            f'<section id="{name}" aria-labelledby="{name}-title">'
            f'<h{level} id="{name}-title">{text(self.title)}</h{level}>{lead}{body}{inside}'
            "</section>"
        )


@dataclass(frozen=True)
class Page:
    """A document that needs nothing but itself: it opens offline and asks no one for anything.

    Parameters
    ----------
    title, subtitle
        What the page is about.
    sections
        Its parts, in order; two may not have the same anchor.
    footer
        Words at the end: versions, where the data are.
    script
        A script of the page's own, which may ask the server that the page came from, and no other.
        It finds ``cofillDraw(canvas)``, which draws a plot anew.

    Examples
    --------
    >>> page = Page("Report", "of a run", [Section("Summary", "5 < 6")]).html()
    >>> "5 &lt; 6" in page, "plotly" in page, "default-src 'none'" in page
    (True, False, True)
    """

    title: str
    subtitle: Part = ""
    sections: Sequence[Section] = ()
    footer: Part = ""
    script: str = ""

    def __post_init__(self) -> None:
        anchors = [anchor for section in self.sections for anchor in section.anchors]
        twice = sorted({a for a in anchors if anchors.count(a) > 1})
        if twice:
            raise SettingError(f"two sections of a page have the anchor {twice[0]!r}; name one")

    def html(self) -> str:
        """Return the page as the text of an HTML file."""
        body = join(*(section.html() for section in self.sections))
        scripts = [_file("page.js")]
        if MARK in body:
            scripts = [plotly_script(), *scripts]
        policy = _policy(scripts)
        if self.script:
            scripts = [*scripts, self.script]
            policy = f"{_policy(scripts)}; connect-src 'self'"
        subtitle = f"<p>{text(self.subtitle)}</p>" if self.subtitle else ""
        footer = f"<footer>{text(self.footer)}</footer>" if self.footer else ""
        contents = "".join(
            f'<li><a href="#{escape(s.anchor)}">{text(s.title)}</a></li>' for s in self.sections
        )
        nav = f'<nav aria-label="Contents"><ul>{contents}</ul></nav>' if contents else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            '<meta name="referrer" content="no-referrer">\n'
            '<link rel="icon" href="data:,">\n'
            f"<title>{text(self.title)}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#content">Skip to the content</a>\n'
            f'<header><div><h1>{text(self.title)}</h1>{subtitle}</div><button type="button" '
            'id="theme" hidden>Dark</button></header>\n'
            f'{nav}\n<main id="content" tabindex="-1">\n{body}\n</main>\n{footer}\n'
            "<noscript><p class=note>The plots of this page need JavaScript; words and tables do "
            "not.</p></noscript>\n"
            + "".join(f"<script>{script}</script>\n" for script in scripts)
            + "</body>\n</html>\n"
        )


def _policy(scripts: Sequence[str]) -> str:
    """Forbid every request and every script but those of the page.

    Styles are allowed inline because plots are placed by style attributes.
    """
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _file(name: str) -> str:
    return files("cofill.pages").joinpath(name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    """Return the style, with the dark colours both as the system's choice and as the reader's."""
    dark = _file("dark.css")
    return (
        f"{_file('page.css')}"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f":root[data-theme=dark] {{ {dark} }}\n"
    )
