"""Fill marked lines of a page while Sphinx reads it: tables of records, the command reference.

A line ``<!-- NAME -->`` is replaced by the block of that name, and ``<!-- value RECORD
METHOD/METRIC/WHERE -->`` (with ``%`` behind it for a share) by a figure of ``results/``. The blocks
of ``docs/results.md``, between ``begin`` and ``end``, are filled in the file by `bench.results`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import commands
import formats
from bench.quality import demo
from bench.records import mean_of
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

BLOCKS: dict[str, Callable[[], str]] = {
    "demo": demo,
    "commands": commands.reference,
    "methods": commands.methods,
    "packages": formats.packages,
    "releases": formats.releases,
    "strategies": formats.strategies,
}
_VALUE = re.compile(r"<!-- value ([\w-]+) ([^\s%]+)( %)? -->")
_MARK = re.compile(r"^<!-- ([\w-]+) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill the blocks of every page."""
    app.connect("source-read", lambda _app, _page, source: _fill(source))
    return {"parallel_read_safe": True}


def _fill(source: list[str]) -> None:
    source[0] = _VALUE.sub(_value, _MARK.sub(_block, source[0]))


def _value(mark: re.Match[str]) -> str:
    mean = mean_of(mark[1], mark[2])
    return f"{100 * mean:.1f} %" if mark[3] else f"{mean:.3f}"


def _block(mark: re.Match[str]) -> str:
    if mark[1] not in BLOCKS:
        raise ExtensionError(f"there is no block {mark[1]!r}; there is {', '.join(BLOCKS)}")
    return BLOCKS[mark[1]]()
