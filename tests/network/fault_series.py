"""Break something in every step of every protocol, and see that nothing is lost.

    python -m tests.network.fault_series --out results/faults.json

Parties are in one process, with everything that they keep on disk: a killed party loses what it has
in memory, and is made anew from its folder. A series is a run in which one party, drawn by a seed,
is hit in each step at a moment that is drawn as well: before it acts, at any of the files that it
writes while it acts, or after it has acted and before anybody has its answer. Its end must be that
of a run without faults, to the last bit, and its ledgers must list each release once. What needs
real processes (a stopped process, a cut line, a black hole) is in `outages.py`.
"""

from __future__ import annotations

import argparse
import errno
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import cofill.files
from cofill.errors import CofillError
from cofill.federate import RowSite
from cofill.metrics import Recorder
from cofill.network._order import RunOrder, new_run
from cofill.privacy import Ledger
from cofill.protocol import COORDINATOR

from .conftest import (
    FAST,
    OPEN,
    ROUNDS,
    Here,
    federation_by_row,
    federation_by_view,
    marked_views,
    row_sites,
)

MEAN = {"epsilon": 0.5, "low": 7.6e6, "high": 7.8e6, "view": "u"}
DAY_S = 86_400.0
FAULTS = ("kill", "full disk", "lost answer", "source gone", "clock ahead", "clock behind")


def _by_view(experiment: str, settings: dict[str, Any], base: Path) -> Here:
    federation = federation_by_view(base, marked_views(60))
    federation.order = RunOrder(new_run(), experiment, settings)
    federation.is_reproducible = True
    return federation


def _by_row(experiment: str, settings: dict[str, Any], base: Path) -> Here:
    held = row_sites(60, whole=experiment in ("cluster", "deep-cluster"))
    return federation_by_row(base, experiment, settings, held)


DEEP = {"k": 2, "rounds": 3, "restarts": 1, "seed": 1, "network": {"hidden": [8]}}
PRIVATE = {"features": 3, "min_overlap": 10, "most_asked": 50, "rounds": 1}
MAKERS: dict[str, Callable[[Path], Here]] = {
    "cooperate": partial(_by_view, "cooperate", FAST),
    "cooperate-psi": partial(_by_view, "cooperate", {**FAST, "alignment": "psi"}),
    "private": partial(_by_view, "private", PRIVATE),
    "federate": partial(_by_row, "federate", {**ROUNDS, "rounds": 2}),
    "federate-secure": partial(_by_row, "federate", {**ROUNDS, "rounds": 2, "secure": True}),
    "federate-sums": partial(_by_row, "federate", {"rounds": 3, "secure": True, "seed": 5}),
    "federate-epsilon": partial(_by_row, "federate", {"epsilon": 2.0, "secure": True, "seed": 5}),
    "cluster": partial(_by_row, "cluster", {"k": 2, "rounds": 6, "restarts": 1, "seed": 1}),
    "deep-cluster": partial(_by_row, "deep-cluster", DEEP),
    "mean": partial(_by_row, "mean", MEAN),
}


class KilledError(BaseException):
    """A process was killed: nothing after this line has happened."""


@dataclass
class Disk:
    """Every file that a party writes, as moments at which something can break."""

    writes: int = 0
    breaks_at: int | None = None
    error: BaseException | None = None

    def pass_moment(self) -> None:
        """Count a moment, and break at the chosen one."""
        self.writes += 1
        if self.breaks_at == self.writes and self.error is not None:
            raise self.error

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Make each write two moments: before it, and once its file is there."""
        draft_of, save = cofill.files.draft_of, Ledger.save

        @contextmanager
        def watched_draft(path: Path, **options: Any) -> Iterator[Path]:
            self.pass_moment()
            with draft_of(path, **options) as draft:
                yield draft
            self.pass_moment()

        def watched_save(ledger: Ledger, path: Path) -> None:
            self.pass_moment()
            save(ledger, path)
            self.pass_moment()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cofill.files, "draft_of", watched_draft)
            patch.setattr(Ledger, "save", watched_save)
            yield

    @contextmanager
    def breaking(self, at: int, error: BaseException) -> Iterator[None]:
        """Break at the given moment of what follows, if it comes to it."""
        self.writes, self.breaks_at, self.error = 0, at, error
        try:
            yield
        finally:
            self.breaks_at = None


@dataclass
class Series:
    """A run of a protocol under faults."""

    federation: Here
    disk: Disk
    fault: str | None
    rng: np.random.Generator
    trials: Counter[str] = field(default_factory=Counter)
    sentences: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Run to the end, a fault in every step."""
        self.office = self.federation.office()
        self.places = {name: self.federation.place(name) for name in self.names}
        while self.office.next <= self.office.schedule.report:
            number = self.office.next
            actors = self.office.schedule.actors(number)
            victim = self._victim(number, actors)
            for name in actors:
                self._perform(name, partial(self._act, name, number), victim)
            self._perform(COORDINATOR, partial(self._advance, number), victim)
        self.office.end()

    def _victim(self, number: int, actors: tuple[str, ...]) -> str | None:
        """Return who is hit in a step; nobody where it is done again, or has no such fault."""
        label = f"{number} {self.office.schedule.name(number)}"
        sites = [name for name in actors if name != COORDINATOR]
        # The coordinator has no table, and its answers are its messages on disk.
        choice = sites if self.fault in ("lost answer", "source gone") else [*sites, COORDINATOR]
        if self.fault is None or label in self.trials or not choice:
            return None
        self.trials[label] += 1
        return str(self.rng.choice(choice))

    def _perform(self, name: str, action: Callable[[], None], victim: str | None) -> None:
        """Do what a party has to do, under the fault where it is the victim."""
        if name == victim:
            self._under_fault(name, action)
        else:
            action()

    @property
    def names(self) -> tuple[str, ...]:
        return self.federation.federation.names

    def _act(self, name: str, number: int) -> None:
        if self.office.next != number:
            return
        if name == COORDINATOR:
            self.office.act()
            return
        office = self.office
        office.receive(name, self.places[name].act(number, office.messages_for(name)))

    def _advance(self, number: int) -> None:
        if self.office.next == number:
            self.office.advance()

    def _restart(self, name: str) -> None:
        """Make a party anew from what it has on disk; a coordinator asks sites again."""
        if name != COORDINATOR:
            self.places[name] = self.federation.place(name)
            return
        self.office = self.federation.office()
        number = self.office.next
        if number <= self.office.schedule.report:
            for actor in self.office.schedule.actors(number):
                if actor != COORDINATOR:
                    self._act(actor, number)

    def _under_fault(self, name: str, action: Callable[[], None]) -> None:
        """Do what a party has to do, with a fault, and then what its operator would do."""
        fault, number = self.fault, self.office.next
        if fault == "lost answer":
            self.places[name].act(number, self.office.messages_for(name))
            action()
            action()  # and the line sends it twice
            return
        if fault == "source gone":
            self._without_source(name)
        elif fault in ("clock ahead", "clock behind"):
            self._with_clock(name, DAY_S if fault == "clock ahead" else -DAY_S)
        error: BaseException = KilledError()
        if fault == "full disk":
            error = OSError(errno.ENOSPC, "No space left on device")
        if fault in ("kill", "full disk"):
            # A step writes up to a dozen files; beyond its last the party is hit after it.
            moment = int(self.rng.integers(0, 14))
            try:
                with self.disk.breaking(moment, error):
                    if moment == 0 and fault == "kill":
                        raise KilledError
                    action()
                if fault == "kill":
                    raise KilledError
                return
            except KilledError:
                self._restart(name)
            except (CofillError, OSError) as told:
                self.sentences.add(type(told).__name__)
        action()  # which it leaves where the step is done

    def _without_source(self, name: str) -> None:
        paths = [Path(view.source) for view in self.federation.configs[name].views.values()]
        with tempfile.TemporaryDirectory() as elsewhere:
            for path in paths:
                shutil.move(path, elsewhere)
            try:
                self._restart(name)
            except CofillError as told:
                self.sentences.add(str(told).partition(": ")[2])
            else:
                raise AssertionError("a site came up without its table")
            for path in paths:
                shutil.move(Path(elsewhere) / path.name, path)
        self._restart(name)

    def _with_clock(self, name: str, seconds: float) -> None:
        now = time.time
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: now() + seconds)
            self._restart(name)


@dataclass(frozen=True)
class End:
    """How a run ended: every file of results, and what the ledgers list."""

    files: dict[str, bytes]
    ledgers: Counter[tuple[str, ...]]

    @classmethod
    def of(cls, federation: Here) -> End:
        files, listed = {}, Counter()
        run = federation.order.run
        for name in federation.federation.names:
            folder = federation.results(name)
            for path in sorted(folder.rglob("*")):
                files[f"{name}/{path.name}"] = path.read_bytes()
            for entry in Ledger.load(federation.ledger(name)):
                step = entry.step.replace(run, "")
                listed[name, step, entry.kind, entry.sender, entry.receiver] += 1
        return cls(files, listed)


def run_series(experiment: str, fault: str | None, seed: int) -> tuple[End, Series]:
    """Run a protocol with a fault in every step; return its end."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("COFILL_KEYS", str(base / "keys"))
        # Noise comes from the operating system; here runs are compared.
        patch.setattr(
            "cofill.privacy._mechanisms.noise_generator", lambda rng: np.random.default_rng(7)
        )
        patch.setattr(RowSite, "secret_stream", lambda site, *purpose: [7, *purpose])
        federation = MAKERS[experiment](base)
        disk = Disk()
        stack.enter_context(disk.watched())
        rng = np.random.default_rng([seed, len(experiment), FAULTS.index(fault or FAULTS[0])])
        series = Series(federation, disk, fault, rng)
        series.run()
        return End.of(federation), series


def check_series(experiment: str, fault: str, seed: int, undisturbed: End) -> tuple[Series, int]:
    """Run a series and compare its end; return it, and how often a release was listed again."""
    end, series = run_series(experiment, fault, seed)
    assert end.files == undisturbed.files, f"{experiment}, {fault}, seed {seed}: other results"
    lost = undisturbed.ledgers - end.ledgers
    assert not lost, f"{experiment}, {fault}, seed {seed}: not in the ledger: {lost}"
    return series, sum((end.ledgers - undisturbed.ledgers).values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", nargs="+", choices=MAKERS, default=list(MAKERS))
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    jax.config.update("jax_disable_most_optimizations", True)
    seeds = list(range(options.seeds))
    what = __doc__.partition("\n")[0]
    recorder = Recorder("faults", seeds=seeds, settings={"what": what, "policy": str(OPEN.digest)})
    failed = 0
    for experiment in options.experiments:
        undisturbed, _ = run_series(experiment, None, 0)
        for fault in options.faults:
            for seed in seeds:
                began = time.process_time()
                try:
                    series, again = check_series(experiment, fault, seed, undisturbed)
                    trials, steps, is_whole = series.trials.total(), len(series.trials), 1
                except Exception as error:  # noqa: BLE001  a series that fails is a line too
                    trials = steps = is_whole = again = 0
                    failed += 1
                    sys.stdout.write(f"{type(error).__name__}: {error}\n")
                where = fault.replace(" ", "_")
                values = {"steps": steps, "trials": trials, "whole": is_whole, "again": again}
                for metric, value in values.items():
                    recorder.add(experiment, metric, where, value, seed=seed)
                seconds = time.process_time() - began
                sys.stdout.write(
                    f"{experiment}, {fault}, seed {seed}: {trials} faults in {steps} steps, "
                    f"{'whole' if is_whole else 'FAILED'}, {again} listed again ({seconds:.1f} s)\n"
                )
                sys.stdout.flush()
    if options.out:
        recorder.finish().write(options.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
