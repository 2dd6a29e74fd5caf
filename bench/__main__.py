"""`make bench`: run every comparison and write one record each under results/.

    python -m bench [--quick] [NAME ...]
    python -m bench NAME --option ...

Options of an entry follow its name, and `--out` among them keeps the record apart. Entries run one
after another, each in a process of its own: a ratio compares times of one run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENTRIES = (
    "engine",
    "rows",
    "scale",
    "tables",
    "views",
    "by_row",
    "coverage",
    "demo",
    "cooperate",
    "attack",
    "federate",
    "images",
    "secure",
    "robust",
    "epsilon",
    "network",
    "private",
    "shares",
    "predict",
    "holds",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ENTRIES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing is recorded")
    words = sys.argv[1:]
    shared = ("--quick", "-h", "--help")
    cut = next(
        (k for k, w in enumerate(words) if w.startswith("-") and w not in shared), len(words)
    )
    options, rest = parser.parse_args(words[:cut]), words[cut:]
    if rest and len(options.names) != 1:
        parser.error(f"{rest[0]} goes with one entry: write its name before it")
    unknown = [n for n in options.names if n not in ENTRIES]
    if unknown:
        parser.error(f"the entry must be one of {', '.join(ENTRIES)}, not {unknown[0]!r}")
    results = ROOT / "results"
    results.mkdir(exist_ok=True)
    for name in options.names or ENTRIES:
        print(f"== {name}", flush=True)
        arguments = ["--quick"] if options.quick else ["--out", str(results / f"bench_{name}.json")]
        arguments = rest if "--out" in rest else [*arguments, *rest]
        code = subprocess.run(
            [sys.executable, "-m", f"bench.{name}", *arguments], cwd=ROOT
        ).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
