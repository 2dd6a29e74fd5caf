"""Measure robust means of rounds: one and three of ten sites send poisoned updates.

The Wisconsin breast cancer data, three views, is dealt to ten sites, of which each lacks some rows
of every view. Hostile sites train as others do and send their change times −10 ("reversed") or
random numbers as long as ten honest changes ("random"), and claim a thousand rows, where a site has
about sixty. The score is R² of the hidden rows by the common model, over columns.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from cofill.errors import DataError
from cofill.federate import FederatedCompletion, FederatedProtocol, RobustMean, RoundSettings
from cofill.metrics import Recorder
from cofill.paths import keep_compiled_programs
from cofill.privacy import Update
from cofill.protocol import Step
from cofill.views import by_row, drop_rows, load

SITES, HIDDEN, MOST_ROWS = 10, 0.3, 1000
RULES = {
    "mean": None,
    "norm": RobustMean("mean", norm=1.0, most_rows=MOST_ROWS),
    "trimmed": RobustMean("trimmed", trim=0.3),
    "median": RobustMean("median"),
}
POISONS = ("reversed", "random")


@dataclass(frozen=True, eq=False)
class PoisonedProtocol(FederatedProtocol):
    """Rounds in which the first sites send poisoned updates."""

    hostile: int = 0
    poison: str = POISONS[0]

    @cached_property
    def steps(self):
        def falsify(step):
            def run(parties, inboxes, report_progress):
                results = step.run(parties, inboxes, report_progress)
                return [(party, [self._falsified(r) for r in sent]) for party, sent in results]

            return Step(step.name, run, step.at)

        return tuple(falsify(s) if s.name == "train" else s for s in super().steps)

    def _falsified(self, release):
        if not isinstance(release, Update) or release.sender not in self._hostile_sites:
            return release
        change = -10 * release.change
        if self.poison == "random":
            rng = np.random.default_rng([release.round, *release.sender.encode()])
            noise = rng.normal(size=len(change))
            change = noise / np.linalg.norm(noise) * np.linalg.norm(change)
        return replace(release, change=change.astype(np.float32), rows=MOST_ROWS)

    @property
    def _hostile_sites(self):
        return sorted(self.members.sites)[: self.hostile]


def score(seed, hostile, poison, robust, rounds):
    """Return R² of hidden rows."""
    truth = load("wdbc").views
    holes = drop_rows(truth, HIDDEN, key=seed)[0]
    settings = RoundSettings(rounds=rounds, secure=False, robust=robust)
    model = FederatedCompletion(settings=settings, batch=16, network={"width": 32}, seed=seed)

    def protocol(members):
        plain = FederatedCompletion.protocol(model, members)
        return PoisonedProtocol(plain.members, plain.design, hostile=hostile, poison=poison)

    model.protocol = protocol
    model.fit_sites(by_row(holes, SITES, key=seed))
    done = model.complete(holes)
    explained = []
    for name, view in truth.items():
        hidden = ~holes.present(name)
        actual, filled = done.beside(truth, name, hidden & truth.present(name))
        left = ((actual - filled) ** 2).mean(axis=0) / view.cells.var(axis=0)
        explained.append(1 - left.mean())
    return float(np.mean(explained))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    keep_compiled_programs()
    seeds, rounds = (1, 5) if options.quick else (3, 30)
    recorder = Recorder(
        "bench_robust",
        seeds=list(range(seeds)),
        settings={
            "what": __doc__.partition("\n")[0],
            "sites": SITES,
            "hidden": HIDDEN,
            "rounds": rounds,
            "rules": {name: str(rule) for name, rule in RULES.items()},
        },
    )
    cases = [(0, POISONS[0]), *((n, poison) for n in (1, 3) for poison in POISONS)]
    for hostile, poison in cases:
        where = f"{hostile}_{poison}" if hostile else "none"
        for name, rule in RULES.items():
            scores = []
            for seed in range(seeds):
                try:
                    scores.append(score(seed, hostile, poison, rule, rounds))
                except DataError as error:  # a run that was broken scores nothing
                    print(f"{name}, {where}: {error}", flush=True)
                    scores.append(float("-inf"))
            shown = np.maximum(scores, -1000.0)
            recorder.add(name, "r2", where, shown.tolist())
            print(f"{where}, {name}: R² {shown.mean():.3f} ± {shown.std():.3f}", flush=True)
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
