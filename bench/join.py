"""Join records of one experiment that were made in parts.

    python -m bench.join part1.json part2.json … --out results/NAME.json

The parts have the same seeds and settings and different methods; machine, versions and duration of
each stay in the record. With ``--anew`` methods of a later part replace those of an earlier one;
``--without a,b`` leaves out methods of the first part that stand for something else by now.
Parts with different simulated means are refused: use ``cofill reproduce --add`` instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path

from cofill.errors import CofillError, SettingError
from cofill.metrics import ResultRecord
from cofill_papers import joined, without_methods


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.join", description=__doc__)
    parser.add_argument("parts", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--anew", action="store_true", help="replace methods that occur again")
    parser.add_argument("--without", default="", help="methods of the first part to leave out")
    options = parser.parse_args()
    try:
        first, *rest = [ResultRecord.read(part) for part in options.parts]
        parts = [without_methods(first, set(filter(None, options.without.split(",")))), *rest]
        _require_same_means(parts)
        record = reduce(partial(joined, anew=options.anew), parts)
        record.write(options.out)
    except CofillError as error:
        print(f"bench.join: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {', '.join(sorted({k.split('/')[0] for k in record.values}))}")
    return 0


def _require_same_means(parts: Sequence[ResultRecord]) -> None:
    """Raise if simulated means differ: attacks on them could not be compared."""
    simulated: dict[str, object] = {}
    for part in parts:
        for source, means in part.extra.get("simulated", {}).items():
            if simulated.setdefault(source, means) != means:
                raise SettingError(
                    f"the parts have different simulated means of {source!r}; add to the first "
                    "part by `cofill reproduce --add`"
                )


if __name__ == "__main__":
    sys.exit(main())
