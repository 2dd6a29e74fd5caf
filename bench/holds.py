"""Try methods with their defaults on sets that nobody tuned them on, beside a peer of the same run.

    python -m bench holds [--quick]

A part is a module `bench.holds_NAME` with `compare(recorder, quick=...)`, which yields comparisons;
every comparison that is behind its peer by more than its margin is printed at the end.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from cofill.metrics import Recorder
from cofill.paths import keep_compiled_programs

PARTS = ("images",)


@dataclass(frozen=True)
class Comparison:
    """One figure of cofill beside its peer's: higher is better, ``margin`` what may be missing."""

    what: str
    cofill: float
    peer: float
    margin: float

    @property
    def behind(self) -> bool:
        return self.cofill < self.peer - self.margin

    def __str__(self) -> str:
        verdict = "BEHIND" if self.behind else "holds"
        return f"{self.what}: {self.cofill:.2f}, peer {self.peer:.2f} (−{self.margin:g}): {verdict}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    keep_compiled_programs()
    seeds = list(range(1 if options.quick else options.seeds))
    recorder = Recorder("bench_holds", seeds=seeds, settings={"quick": options.quick})
    behind = []
    for part in options.part or PARTS:
        for comparison in import_module(f"bench.holds_{part}").compare(
            recorder, seeds, quick=options.quick
        ):
            print(comparison, flush=True)
            behind += [comparison] if comparison.behind else []
    print(f"behind in {len(behind)} comparisons", *behind, sep="\n  ", flush=True)
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
