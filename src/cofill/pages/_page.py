"""A whole page: title, contents, sections, one style, and the scripts it allows by their hashes."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from markupsafe import Markup, escape

from cofill.errors import SettingError
from cofill.pages._html import Part, Quantity, element, join
from cofill.pages._pictures import MARK, plotly_script


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading of its own.

    ``body`` is `Markup`, or words that are escaped, or several of these; ``lead`` one sentence
    below the heading that says what to learn from it; ``anchor`` the name for links, made from the
    title when left out; ``parts`` are sections inside this one, under smaller headings.

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

    def html(self, level: int = 2) -> Markup:
        """Return the section as markup, its heading of a level."""
        pieces = [self.body] if isinstance(self.body, str | Quantity) else self.body
        body = join(*(p if isinstance(p, Markup) else element("p", p) for p in pieces))
        # Escaped words cannot spell a tag, so these are headings of the section's own.
        for tag in ("<h3>", "</h3>"):
            body = body.replace(tag, Markup(tag.replace("3", str(level + 1))))  # noqa: S704
        return element(
            "section",
            element(f"h{level}", self.title, id=f"{self.anchor}-title"),
            element("p", self.lead, class_="lead") if self.lead else "",
            body,
            *(part.html(level + 1) for part in self.parts),
            id=self.anchor,
            aria_labelledby=f"{self.anchor}-title",
        )


@dataclass(frozen=True)
class Page:
    """A document that needs nothing but itself: it opens offline and asks no one for anything.

    No two sections may have the same anchor. ``script`` is a script of the page's own, which may
    ask the server that the page came from, and no other; it finds ``cofillDraw(canvas)``, which
    draws a plot anew.

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
        repeated = sorted({a for a in anchors if anchors.count(a) > 1})
        if repeated:
            raise SettingError(f"two sections of a page have the anchor {repeated[0]!r}; name one")

    def html(self) -> str:
        """Return the page as the text of an HTML file."""
        body = join(*(section.html() for section in self.sections))
        scripts = [plotly_script()] if MARK in body else []
        scripts += [_file("page.js"), *([self.script] if self.script else [])]
        links = [
            element("li", element("a", section.title, href=f"#{section.anchor}"))
            for section in self.sections
        ]
        contents = element("nav", element("ul", *links), aria_label="Contents") if links else ""
        # A plain str.format: style and scripts are texts of this package, the rest is markup.
        return _file("page.html").format(
            policy=_policy(scripts) + "; connect-src 'self'" * bool(self.script),
            title=escape(self.title),
            style=_style(),
            subtitle=element("p", self.subtitle) if self.subtitle else "",
            contents=contents,
            body=body,
            footer=element("footer", self.footer) if self.footer else "",
            scripts="".join(f"<script>{script}</script>\n" for script in scripts),
        )


def _policy(scripts: Sequence[str]) -> str:
    """Return a policy that forbids every request, and every script but the page's own.

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
