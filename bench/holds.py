"""Every method with its defaults on sets that nobody tuned it on, beside its peers in the same run.

    python -m bench holds

Each part is a function in `PARTS` that yields comparisons; the frame records them, and prints where
cofill is behind a peer. Sets that a part names as `ONCE` are left out unless ``--once`` is given:
they are looked at one time, when methods are frozen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench import holds_attacks
from bench.comparisons import Comparison, Run

from cofill.metrics import Recorder

PARTS: Mapping[str, Callable[[Run], Iterator[Comparison]]] = {
    "attacks": holds_attacks.compare,
    "epsilon": holds_attacks.weaken,
}


@dataclass
class Tally:
    """Comparisons of a part, those that are short of a peer, and those beyond chance."""

    comparisons: int = 0
    short: int = 0
    behind: int = 0
    seconds: float = 0.0


def measure(name: str, run: Run, recorder: Recorder) -> Tally:
    tally = Tally()
    for compared in PARTS[name](run):
        where = f"{name}, {compared.where}"
        recorder.add(compared.method, compared.metric, where, compared.values)
        for peer, values in compared.peers.items():
            recorder.add(peer, compared.metric, where, values)
        recorder.add(compared.method, f"{compared.metric}_cpu_s", where, compared.seconds)
        for method, values in (compared.also or {}).items():
            recorder.add(method, "expected", where, values)
        tally.comparisons += 1
        tally.seconds += float(np.sum(compared.seconds))
        line = f"  {compared.where:45s} {compared.method} {compared.mean:.4f}"
        peer, short, behind = compared.best_peer()
        line += f"  {peer} {compared.mean_of(peer):.4f}"
        tally.short += short
        tally.behind += behind
        if short:
            line += "  BEHIND" if behind else "  short, within chance"
        print(line, flush=True)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--once", action="store_true", help="the sets that are looked at once, too")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--set", action="append", help="sets whose names begin so")
    options = parser.parse_args()
    draws = 2 if options.quick else 5
    run = Run(draws=draws, quick=options.quick, once=options.once, sets=tuple(options.set or ()))
    recorder = Recorder("bench_holds", seeds=range(draws), settings=vars(run))
    for name in options.part or PARTS:
        print(f"{name}:", flush=True)
        tally = measure(name, run, recorder)
        recorder.note(name, vars(tally))
        print(
            f"{name}: short in {tally.short} of {tally.comparisons}, behind by more than chance in "
            f"{tally.behind}",
            flush=True,
        )
        if options.out:  # after every part: a run that is cut off keeps what it has reached
            recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
