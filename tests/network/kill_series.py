"""Kill something at a random moment of a run, and see that nothing is lost: one trial a seed.

    python -m tests.network.kill_series private cooperate federate --seeds 0-19 --out FILE

A seed draws the victim (the process of a run at a site, a whole site, the coordinator) and the
moment. By view a run ends with a sentence and is resumed to the same result; by row it goes on
without a site that is lost, or is resumed. Prints one line a trial, and a count of outcomes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import psutil
import pytest

from cofill.cooperate import CooperativeReconstruction, PrivateCompletion
from cofill.metrics import Recorder
from cofill.nets import FusionSettings, TrainSettings
from cofill.network import _local
from cofill.network._local import LocalFederation, local_federation
from cofill.network._order import RunOrder, new_run
from cofill.privacy import Ledger
from cofill.views import MultiView, read_views

from . import hooks
from .conftest import FAST, ROUNDS, estimator_for, marked_views, row_sites

Cells = dict[str, dict[str, np.ndarray]]
VICTIMS = ("job", "site", "coordinator")
OUTCOMES = (
    "resumed",
    "went on without it",
    "resumed without it in some rounds",
    "ended before",
    "FAILED",
)
JOBS = ("worker_process", "runner_process")
# A site allows twenty runs of an experiment; a series may be longer.
OFTEN = "".join(
    f"[experiments.{name}]\nruns = 100\n"
    for name in ("cooperate", "private", "federate", "cluster", "mean")
)


def held() -> dict[str, MultiView]:
    """Sites a, b and c: a view of their own each, and two that they share by row."""
    own, shared = marked_views(), row_sites()
    return {name: MultiView([own[name], *shared[name].values()]) for name in own}


def expectation(experiment: str) -> tuple[dict[str, Any], Cells, float]:
    """Return a run's settings, what sites must complete by it, and how far rounding may go."""
    if experiment == "cooperate":
        estimator = CooperativeReconstruction(
            fusion=FusionSettings(hidden=(), folds=3),
            encoder_training=TrainSettings(epochs=30, learning_rate=0.01),
        )
        done = estimator.fit_complete(marked_views())
        # Cells vary by thousands; programs that train one site or three round differently.
        return FAST, {name: {name: done.cells[name]} for name in done.views}, 0.5
    if experiment == "private":
        settings = {"features": 6, "min_overlap": 10, "most_asked": 50, "rounds": 1}
        done = PrivateCompletion(**settings).fit_complete(marked_views())
        settings = {**settings, "views": ["a", "b", "c"]}
        return settings, {name: {name: done.cells[name]} for name in done.views}, 0.5
    settings = {**ROUNDS, "rounds": 8, "min_sites": 2}
    done = estimator_for(settings).fit_sites(row_sites()).complete_sites(row_sites())
    return settings, {name: dict(made.cells) for name, made in done.items()}, 0.0


@dataclass(frozen=True)
class Trial:
    """What happened: who was killed when, how the run ended first and after resuming."""

    seed: int
    victim: str
    name: str
    share: float
    outcome: str
    why: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.victim} of {self.name} at {self.share:.2f}: {self.outcome} "
            f"({self.seconds:.0f} s) {self.why}"
        )


@dataclass(frozen=True)
class Series:
    """A federation of real processes, and runs of one experiment in which something is killed.

    An earlier run has gone through: whatever is killed later must leave its results as they are.
    """

    federation: LocalFederation
    experiment: str
    settings: dict[str, Any]
    expected: Cells
    atol: float
    earlier: RunOrder
    earlier_cells: Cells

    @classmethod
    @contextmanager
    def start(cls, experiment: str, base: Path) -> Iterator[Series]:
        """Give a series whose runs can be compared with those of one process."""
        settings, expected, atol = expectation(experiment)
        with pytest.MonkeyPatch.context() as patch:
            hooks.install(patch, base / "hook", hooks.SEEDED)
            patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
            patch.setattr(_local, "TRIAL_POLICY", _local.TRIAL_POLICY + OFTEN)
            with local_federation(base / "out", held()) as federation:
                earlier = RunOrder(new_run(), experiment, settings)
                outcome = federation.run(earlier, timeout=120.0)
                assert (outcome["state"], outcome["notes"]) == ("finished", [])
                series = cls(federation, experiment, settings, expected, atol, earlier, {})
                series._require_results(earlier, [], "")
                yield replace(series, earlier_cells=series._results(earlier))

    def run_trial(self, seed: int) -> Trial:
        """Run one trial; raise an `AssertionError` where something was lost or left behind."""
        federation = self.federation
        rng = np.random.default_rng([seed, len(self.experiment)])
        victim = VICTIMS[rng.integers(3)]
        sites = federation.federation.names
        name = "coordinator" if victim == "coordinator" else sites[rng.integers(len(sites))]
        share, wait = float(rng.uniform(0.02, 0.95)), float(rng.uniform(0, 0.4))
        began = time.monotonic()
        order = RunOrder(new_run(), self.experiment, self.settings)
        state, why, notes = _killed(federation, order, victim, name, share, wait)
        self.restart()
        with federation.session():
            pass
        outcome = "went on without it" if state == "finished" else "resumed"
        left = []
        if state == "finished":
            left = [site for site in sites if any(f"'{site}'" in note for note in notes)]
            assert left in ([], [name]), notes
            outcome = "ended before" if not left else outcome
        else:
            assert why, "a run that failed must say why"
            done = resumed(federation, order)
            assert done["state"] == "finished", done
            assert not [n for n in done["notes"] if name not in n], done["notes"]
            left = [name] if done["notes"] else []
            outcome = "resumed without it in some rounds" if left else outcome
        self._require_results(order, left, name)
        for site, views in self._results(self.earlier).items():
            for view, cells in views.items():
                np.testing.assert_array_equal(cells, self.earlier_cells[site][view])
        if self.experiment == "private":
            _require_shown_once(federation, order, self.settings)
        return Trial(seed, victim, name, share, outcome, why, time.monotonic() - began)

    def restart(self) -> None:
        """Start whoever was killed."""
        for name in ("coordinator", *self.federation.federation.names):
            if name not in self.federation.processes:
                self.federation.start(name)
        assert all(p.poll() is None for p in self.federation.processes.values())

    def _results(self, order: RunOrder) -> Cells:
        """Return what all sites wrote at the end of a run."""
        return {
            site: {view: self._written(order, site, view) for view in views}
            for site, views in self.expected.items()
        }

    def _written(self, order: RunOrder, site: str, view: str) -> np.ndarray:
        (path,) = (self.federation.site(site) / "results" / order.run).glob(f"{view}.*")
        return read_views({view: str(path)}, id="id")[view].cells

    def _require_results(self, order: RunOrder, left: list[str], name: str) -> None:
        """Raise unless every site has what it must complete; `left` went on without `name`."""
        for site, views in self.expected.items():
            folder = self.federation.site(site) / "results" / order.run
            if site == name and left and not folder.exists():
                continue  # it was gone when the others completed
            for view, cells in views.items():
                written = self._written(order, site, view)
                assert np.isfinite(written).all()
                if not left:
                    # Sites write text, whose last decimal is one of their column's.
                    np.testing.assert_allclose(written, cells, rtol=1e-15, atol=self.atol)


def _killed(
    federation: LocalFederation, order: RunOrder, victim: str, name: str, share: float, wait: float
) -> tuple[str, str, list[str]]:
    """Submit a run, kill in the middle of it, and return how it ended."""
    with federation.session() as opened:
        job = opened.submit(order)
        until = time.monotonic() + 120
        while federation.progress(order.run)[1] < share and time.monotonic() < until:
            federation.check()
            time.sleep(0.02)
        time.sleep(wait)
        top = psutil.Process(federation.processes[name].pid)
        below = top.children(recursive=True)
        if victim == "job":
            found = [p for p in below if any(w in part for part in _words(p) for w in JOBS)]
            for process in found:
                process.kill()
        else:
            top.kill()
            federation.processes.pop(name).wait()
            _, alive = psutil.wait_procs(below, timeout=15)
            assert alive == [], "a killed party left processes behind"
        if victim == "coordinator":
            return "failed", "the coordinator was killed", []
        opened.wait(job, timeout=240.0)
        ended = opened.outcome(job)
        return ended["state"], ended["why"], ended.get("notes", [])


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def resumed(federation: LocalFederation, order: RunOrder) -> dict[str, Any]:
    """Resume a run by the command, and return its outcome."""
    words = ["resume", order.run, "--kit", str(federation.person().folder), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", "from cofill.cli import main; main()", "federation", *words],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _require_shown_once(
    federation: LocalFederation, order: RunOrder, settings: dict[str, Any]
) -> None:
    """Raise unless each party has sent what a run without faults sends, and nothing twice."""
    plain = {name: value for name, value in settings.items() if name != "views"}
    undisturbed = PrivateCompletion(**plain).fit(marked_views())
    undisturbed.complete(marked_views())
    expected = Counter((e.sender, e.receiver, e.kind) for e in undisturbed.ledger_)
    shown: Counter[tuple[str, str, str]] = Counter()
    for name in ("coordinator", *federation.federation.names):
        shown.update(
            (e.sender, e.receiver, e.kind)
            for e in Ledger.load(federation.party(name).ledger)
            if order.run in e.step and e.kind != "figures"
        )
    assert shown == expected, {
        key: (shown[key], expected[key])
        for key in {*shown, *expected}
        if shown[key] != expected[key]
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="+", choices=("cooperate", "private", "federate"))
    parser.add_argument("--seeds", default="0-19", help="from-to")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    jax.config.update("jax_disable_most_optimizations", True)
    seeds = range(first, last + 1)
    recorder = Recorder("kills", seeds=seeds, settings={"what": __doc__.partition("\n")[0]})
    outcomes: Counter[str] = Counter()
    for experiment in options.experiments:
        with tempfile.TemporaryDirectory() as base, Series.start(experiment, Path(base)) as series:
            for seed in seeds:
                began = time.monotonic()
                try:
                    trial = series.run_trial(seed)
                    told, outcome = str(trial), trial.outcome
                except Exception as error:  # noqa: BLE001  a trial that fails is a line too
                    told = f"seed {seed}: FAILED: {type(error).__name__}: {error}"
                    outcome = "FAILED"
                    series.restart()
                outcomes[outcome] += 1
                for kind in OUTCOMES:
                    recorder.add(experiment, kind, "trials", float(outcome == kind), seed=seed)
                recorder.add(experiment, "seconds", "trials", time.monotonic() - began, seed=seed)
                sys.stdout.write(f"{experiment}, {told}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{dict(outcomes)}\n")
    if options.out:
        recorder.finish().write(options.out)
    return 1 if outcomes["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
