"""Shared by the tests of the pages: the pages, their code blocks, the path of Sphinx extensions."""

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\{code-block\} )?(\w+)\n(?::caption: (\S+)\n\n?)?(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="session", autouse=True)
def _modules():
    paths = [str(DOCS / "_ext"), str(DOCS.parent)]
    sys.path[:0] = paths
    yield
    for path in paths:
        sys.path.remove(path)


def pages():
    return sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)


def blocks(page):
    """Return (language, caption, text) of the page's fenced blocks, in order."""
    return [(m[2], m[3], m[4]) for m in FENCE.finditer(page.read_text(encoding="utf-8"))]


def joined(text):
    """Return the lines of a block, with those that end in a backslash joined."""
    return text.replace("\\\n", " ").splitlines()
