"""`make results`: put figures of results/ and tables from the code into pages, draw the picture.

A block between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is made by the function that a
page has under that name: from records (`bench.readme`, `bench.quality`, `bench.papers`,
`bench.speed`, `bench.operation`) or from the code (`commands` and `formats` in docs/_ext). A figure
within a sentence stands between ``<!-- value RECORD METHOD/METRIC/WHERE -->`` (with ``%`` behind it
for a share) and ``<!-- end -->``. Pages hold what they show, and so can be read without being
built. With ``--check`` nothing is written and a difference is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.operation import OPERATION_BLOCKS
from bench.papers import PAPER_BLOCKS
from bench.picture import completion_picture
from bench.quality import PREDICT_BLOCKS, QUALITY_BLOCKS, demo
from bench.readme import README_BLOCKS
from bench.records import mean_of, read_record
from bench.speed import SPEED_BLOCKS

from cofill.completion import methods

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

import commands  # noqa: E402  after the path
import formats  # noqa: E402

PAGES: dict[Path, Mapping[str, Callable[[], str]]] = {
    ROOT / "README.md": README_BLOCKS,
    DOCS / "operators.md": OPERATION_BLOCKS,
    DOCS / "results.md": QUALITY_BLOCKS | SPEED_BLOCKS | PAPER_BLOCKS,
    DOCS / "explanation" / "privacy.md": {},
    DOCS / "how-to" / "predict.md": PREDICT_BLOCKS,
    DOCS / "how-to" / "strategy.md": {"strategies": formats.strategies},
    DOCS / "reference" / "api" / "index.md": {"packages": formats.packages},
    DOCS / "reference" / "commands.md": {"commands": commands.reference},
    DOCS / "reference" / "formats.md": {"releases": formats.releases},
    DOCS / "tutorial" / "tables.md": {"demo": demo, "methods": commands.methods},
}
PICTURE = DOCS / "picture.svg"
# A block in a quotation has its markers in the quotation too, which a bare comment would end.
_MARKER = re.compile(r"^(?:> )?<!-- begin ([\w-]+) -->$", re.MULTILINE)
_VALUE = re.compile(r"(<!-- value ([\w-]+) ([^\s%]+)( %)? -->)[^<]*(<!-- end -->)")


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


def fill_values(text: str) -> str:
    """Return the text with every marked figure read from its record."""
    return _VALUE.sub(_value, text)


def _value(mark: re.Match[str]) -> str:
    mean = mean_of(mark[2], mark[3])
    return f"{mark[1]}{f'{100 * mean:.1f} %' if mark[4] else f'{mean:.3f}'}{mark[5]}"


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
    contents = {
        page: fill_values(fill_blocks(page.read_text(), blocks)) for page, blocks in PAGES.items()
    }
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
