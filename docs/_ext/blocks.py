"""Take the marks of figures out of pages while Sphinx reads them; `bench.results` fills them."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_MARK = re.compile(r"<!-- (?:value [^>]+|end) -->")


def setup(app: Sphinx) -> dict[str, Any]:
    """Clean the source of every page."""
    app.connect("source-read", lambda _app, _page, source: _clean(source))
    return {"parallel_read_safe": True}


def _clean(source: list[str]) -> None:
    source[0] = _MARK.sub("", source[0])
