"""Text that is made when the pages are read: tables of records, the command reference.

A line ``<!-- NAME -->`` of a page is replaced by what the block of that name says, and ``<!-- value
RECORD METHOD/METRIC/WHERE -->`` (with ``%`` behind it for a share) by a figure of ``results/``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import commands
import formats
from bench import readme
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from cofill.metrics import ResultRecord

BLOCKS: dict[str, Callable[[], str]] = {
    "demo": readme.demo_block,
    "papers": readme.papers_block,
    "means": readme.means_block,
    "federated": readme.federated_block,
    "leaks": readme.leaks_block,
    "commands": commands.reference,
    "methods": commands.methods,
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
    source[0] = _VALUE.sub(_value, _MARK.sub(_made, source[0]))


def _value(mark: re.Match[str]) -> str:
    found = ResultRecord.read(readme.RESULTS / f"{mark[1]}.json").summary[mark[2]]
    if mark[3]:
        return f"{100 * (found['mean'] or 0.0):.1f} %"
    return f"{found['mean']:.3f}"


def _made(mark: re.Match[str]) -> str:
    if mark[1] not in BLOCKS:
        raise ExtensionError(f"there is no block {mark[1]!r}; there is {', '.join(BLOCKS)}")
    return BLOCKS[mark[1]]()
