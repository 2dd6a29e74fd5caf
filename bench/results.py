"""`make results`: put the figures of results/ into README.md and docs/results.md, draw the picture.

A block between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is made from records by the
function that `bench.readme`, `bench.quality` or `bench.speed` has under that name. With ``--check``
nothing is written and a difference is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.picture import completion_picture
from bench.quality import QUALITY_BLOCKS
from bench.readme import README_BLOCKS
from bench.records import read_record
from bench.speed import SPEED_BLOCKS

from cofill.completion import methods

ROOT = Path(__file__).parents[1]
PAGES = {
    ROOT / "README.md": README_BLOCKS,
    ROOT / "docs" / "results.md": QUALITY_BLOCKS | SPEED_BLOCKS,
}
PICTURE = ROOT / "docs" / "picture.svg"
# A block in a quotation has its markers in the quotation too, which a bare comment would end.
_MARKER = re.compile(r"^(?:> )?<!-- begin ([\w-]+) -->$", re.MULTILINE)


def fill_blocks(text: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """Return the text with every marked block made anew.

    A marker without a block, and a block without a marker, is an error: either is a figure that
    nobody checks.
    """
    marked = _MARKER.findall(text)
    if sorted(marked) != sorted(blocks):
        raise SystemExit(
            f"the page marks the blocks {', '.join(sorted(marked)) or 'none'}; it must mark each "
            f"of {', '.join(sorted(blocks))} once"
        )
    for name, make_block in blocks.items():
        pattern = rf"(<!-- begin {name} -->\n).*?((?:> )?<!-- end {name} -->)"
        block = make_block()
        text, count = re.subn(
            pattern, lambda m, block=block: f"{m[1]}{block}\n{m[2]}", text, flags=re.DOTALL
        )
        if not count:
            raise SystemExit(f"the block {name!r} has no end; add <!-- end {name} -->")
    return text


def draw_picture() -> str:
    """Return the README's picture: rows known and filled, and the error of each method."""
    record = read_record("bench_demo")
    pooled = [m.name for m in methods() if m.facts["pools_rows"]]
    return completion_picture(
        record.extra["individuals"], record.extra["views"], record, pooled=pooled
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.results", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    options = parser.parse_args()
    contents = {page: fill_blocks(page.read_text(), blocks) for page, blocks in PAGES.items()}
    contents[PICTURE] = draw_picture()
    stale = [p for p, text in contents.items() if not p.exists() or p.read_text() != text]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} differs from the records; run `make results`")
        return 1 if stale else 0
    for path in stale:
        path.write_text(contents[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
