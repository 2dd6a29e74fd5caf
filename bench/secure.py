"""Time what secure sums cost: rounds and surveys with and without them, one after the other.

Both train the same networks on the same rows in one process, which makes all sites' masks as well:
between machines every site makes its own. The cost grows with the square of the number of sites and
with the size of the model.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from bench.federate import PEOPLE, SMALL, fit_cofill

from cofill.federate import LocalSettings, RoundSettings
from cofill.metrics import Recorder
from cofill.paths import keep_compiled_programs

LOCAL = LocalSettings(batch=8, learning_rate=3e-3, moments="reset")


def time_rounds(case, sites, rounds, secure):
    """Return the seconds of each round but the first two, in which programs are compiled."""
    ends = []
    settings = RoundSettings(rounds=rounds, secure=secure)
    fit_cofill(sites, PEOPLE, case, LOCAL, settings, lambda *_: ends.append(time.perf_counter()))
    return np.diff(ends)[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    keep_compiled_programs()
    rounds = 5 if options.quick else 22
    recorder = Recorder(
        "bench_secure",
        seeds=list(range(rounds - 2)),
        settings={
            "what": "seconds a round with and without secure sums, repeats are rounds",
            "small": SMALL,
            "individuals_a_site": PEOPLE,
            "local": LOCAL,
        },
    )
    ratios = {}
    for name, case in SMALL.items():
        for sites in (3, 10, 30):
            where = f"{name}_{sites}_sites"
            plain, secure = (time_rounds(case, sites, rounds, s) for s in (False, True))
            recorder.add("plain", "seconds", where, plain.tolist())
            recorder.add("secure", "seconds", where, secure.tolist())
            ratios[where] = float(np.median(secure) / np.median(plain))
            print(
                f"{name}, {sites} sites: {np.median(plain):.4f} s a round, with secure sums "
                f"{np.median(secure):.4f} s: {ratios[where]:.2f}×",
                flush=True,
            )
    recorder.note("ratio", ratios)
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
