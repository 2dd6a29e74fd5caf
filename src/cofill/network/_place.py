"""A place: one site's end of the network driver, without the engine that carries the parcels.

It runs the steps of the in-process driver over the parties that live here, one step at a time when
it is told to. What a step wants to send goes through this site's gate into its ledger on disk, is
packed, sealed and kept, and only then handed out: a step that is asked for again hands out the very
same parcels, so that nothing is released or charged twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cofill.errors import CofillError, DataError, SettingError, StoreError
from cofill.network._config import FederationConfig, SiteConfig
from cofill.network._experiments import AbstractExperiment
from cofill.network._identity import Identity
from cofill.network._packing import pack, unpack
from cofill.network._parcels import Address, open_parcel, seal_parcel
from cofill.network._releases import releases_from, releases_to
from cofill.network._tables import read_people, read_site_views
from cofill.privacy import Budget, Gate, Ledger, Release
from cofill.protocol import COORDINATOR
from cofill.views import Source, View, new_folder

__all__ = ["Mail", "Place", "Route", "plain_fault"]

Mail = Mapping[tuple[int, str], bytes]
"""Parcels for a place, by the step they were sent in and their sender."""


@dataclass(frozen=True)
class Route:
    """Who sends to whom in which step; the same table at every place."""

    experiment: AbstractExperiment
    federation: FederationConfig

    @property
    def report(self) -> int:
        """The number of the last step, in which sites report to the coordinator."""
        return len(self.experiment.steps)

    def name(self, number: int) -> str:
        """Return a step's name."""
        return "report" if number == self.report else self.experiment.steps[number].name

    def actors(self, number: int) -> tuple[str, ...]:
        """Return the places that act in a step."""
        if number < self.report and self.experiment.steps[number].at == "coordinator":
            return (COORDINATOR,)
        return self.federation.names

    def receivers(self, number: int, sender: str) -> tuple[str, ...]:
        """Return the places to which a sender owes a parcel in a step."""
        if number == self.report:
            return (COORDINATOR,)
        everyone = self.federation.names
        if self.experiment.coordinator is not None:
            everyone = (*everyone, COORDINATOR)
        return tuple(name for name in everyone if name != sender)

    def due(self, number: int, receiver: str) -> tuple[tuple[int, str], ...]:
        """Return the parcels that must have arrived at a place before it acts: all since it did."""
        if number >= self.report and receiver != COORDINATOR:
            first = number  # a report needs nothing from others
        else:
            own = [k for k in range(number) if receiver in self.actors(k)]
            first = own[-1] if own else 0
        return tuple(
            (k, sender)
            for k in range(first, min(number, self.report))
            for sender in self.actors(k)
            if receiver in self.receivers(k, sender)
        )


class Place:
    """A site in one run: its parties, its gate, its files.

    Parameters
    ----------
    route
        The run's table of steps.
    identity
        Its keys and everybody's.
    config
        What the site brings and allows; None for the coordinator's own place.
    home
        The folder in which the site keeps its ledger and its runs.
    """

    def __init__(
        self,
        route: Route,
        identity: Identity,
        config: SiteConfig | None,
        home: Path,
        tell: Callable[[str, float], None] | None = None,
    ) -> None:
        self.route, self.identity, self.config = route, identity, config
        self.experiment = route.experiment
        self.home, self.tell = home, tell
        order = self.experiment.order
        self.folder = home / "runs" / order.run
        self.limit = route.federation.limits.parcel_bytes
        if config is not None and order.experiment not in config.agrees:
            raise SettingError(
                f"site {self.name!r} does not agree to the experiment {order.experiment!r} "
                f"(it agrees to {', '.join(config.agrees) or 'none'})"
            )
        if config is not None and config.only_psi and order.settings.get("alignment") != "psi":
            raise SettingError(
                f"site {self.name!r} agrees to alignment 'psi' only; order the run with "
                "--set alignment=psi"
            )
        self.parties: dict[str, Any] = {}
        self.local: list[Release] = []
        self.done = -1
        self._begin()

    @property
    def name(self) -> str:
        """The place's name."""
        return self.identity.name

    def _begin(self) -> None:
        """Make the parties, or take them up where they were kept."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.views: dict[str, View] = {}
        self.people: np.ndarray | None = None
        if self.config is not None:
            self.views = read_site_views(self.config, self.route.federation)
            self.people = read_people(self.config, self.route.federation)
        kept = self.folder / "state.bin"
        if not kept.exists():
            self.parties = (
                {COORDINATOR: self.experiment.coordinator}
                if self.config is None
                else self.experiment.begin(self.views, self.people)
            )
            return
        try:
            state = unpack(kept.read_bytes(), {})
            if state["views"] != _digests(self.views):
                raise StoreError(
                    f"the rows of site {self.name!r} have changed since run "
                    f"{self.experiment.order.run} began, so it cannot go on; start a new run"
                )
            self.done = state["done"]
            self.parties = {
                name: self.experiment.restore(content, self.views.get(name), self.people)
                for name, content in state["parties"].items()
            }
            self.local = releases_from(state["local"], self.name)
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"what site {self.name!r} kept of run {self.experiment.order.run} is damaged "
                f"({type(error).__name__}); start a new run"
            ) from None

    # --- acting -------------------------------------------------------------------------------

    def act(self, number: int, mail: Mail) -> dict[str, bytes]:
        """Run a step and return a sealed parcel for everyone who is owed one."""
        if not 0 <= number <= self.route.report or self.name not in self.route.actors(number):
            raise SettingError(f"step {number} is no step of site {self.name!r}; refused")
        if number <= self.done:
            return self._kept(number)
        own = [k for k in range(number) if self.name in self.route.actors(k)]
        if own and self.done != own[-1]:
            raise StoreError(
                f"site {self.name!r} has done {self.done + 1} of the steps before step {number} "
                f"and cannot go on from there; start a new run"
            )
        outbox = (
            self._report()
            if number == self.route.report
            else self._step(number, self._open(mail, number))
        )
        self._pass(outbox, number)
        parcels = self._seal(outbox, number)
        self._keep(number, parcels)
        return parcels

    def _open(self, mail: Mail, number: int) -> list[Release]:
        """Return the releases that have arrived, in the order of the in-process driver."""
        due = self.route.due(number, self.name)
        if set(mail) != set(due):
            missing = [sender for k, sender in due if (k, sender) not in mail]
            what = f"no parcel from {', '.join(missing)}" if missing else "a parcel too many"
            raise DataError(
                f"site {self.name!r} got {what} before step {number} "
                f"({self.route.name(number)}); refused"
            )
        arrived: list[tuple[int, int, Release]] = []
        order = self._order()
        for step, sender in due:
            address = Address(self.experiment.order.run, step, sender, self.name)
            content = open_parcel(mail[step, sender], address, self.identity, most=self.limit)
            for release in releases_from(content, sender):
                if self._home_of(release.sender) != sender:
                    raise DataError(f"site {sender!r} may not send as {release.sender!r}; refused")
                if release.receiver not in self.parties:
                    raise DataError(
                        f"site {sender!r} sent a release for {release.receiver!r}, which is not at "
                        f"site {self.name!r}; refused"
                    )
                arrived.append((step, order[release.sender], release))
        own = self.done
        arrived += [(own, order[r.sender], r) for r in self.local]
        arrived.sort(key=lambda item: item[:2])
        return [release for *_, release in arrived]

    def _order(self) -> dict[str, int]:
        names = [*self.route.federation.views, COORDINATOR]
        return {name: k for k, name in enumerate(names)}

    def _home_of(self, party: str) -> str | None:
        """Return the place of a party."""
        return COORDINATOR if party == COORDINATOR else self.route.federation.views.get(party)

    def _step(self, number: int, arrived: Sequence[Release]) -> list[Release]:
        step = self.experiment.steps[number]
        names = list(self.parties)
        inboxes = [tuple(r for r in arrived if r.receiver == name) for name in names]

        def tell(share: float) -> None:
            if self.tell is not None:
                self.tell(step.name, share)

        results = step.run([self.parties[n] for n in names], inboxes, tell)
        outbox: list[Release] = []
        self.local = []
        for name, (party, sent) in zip(names, results, strict=True):
            self.parties[name] = party
            for release in sent:
                self._check(release, name, step.name)
                here = self._home_of(release.receiver) == self.name
                (self.local if here else outbox).append(release)
        return outbox

    def _check(self, release: Any, party: str, step: str) -> None:
        if not isinstance(release, Release):
            raise SettingError(
                f"step {step!r}: {type(release).__name__} is no declared type of release and may "
                "not leave a site"
            )
        if release.sender != party:
            raise SettingError(f"step {step!r}: {party!r} may not send as {release.sender!r}")
        if self._home_of(release.receiver) is None or release.receiver == party:
            raise SettingError(
                f"step {step!r}: there is no other site {release.receiver!r} to send to"
            )

    def _report(self) -> list[Release]:
        """Write what was made to the site's results and return figures for the coordinator."""
        config = self.config
        assert config is not None  # noqa: S101
        target = config.results / self.experiment.order.run
        figures: list[Release] = []
        # Results that are there already were written before a crash, by this very run.
        there = target.exists()
        with (
            tempfile.TemporaryDirectory() as spare,
            nullcontext(Path(spare)) if there else new_folder(target) as folder,
        ):
            for name, party in self.parties.items():
                form = ".csv" if Source(config.views[name].source).form == "csv" else ".parquet"
                figures.append(self.experiment.finish(party, self.people, folder, form))
        return figures

    # --- what leaves --------------------------------------------------------------------------

    def _pass(self, outbox: Sequence[Release], number: int) -> None:
        """Take every release through this site's gate into the ledger on disk, before it leaves."""
        given = None
        if self.config is not None:
            given = self.config.budget or self.route.federation.budget
        budgets = {} if given is None else dict.fromkeys(self.parties, Budget(**given))
        path = self.home / "ledger.jsonl"
        label = f"{self.route.name(number)} (run {self.experiment.order.run})"
        with _locked(self.home / "ledger.lock"):
            ledger = Ledger.load(path) if path.exists() else Ledger()
            gate = Gate(ledger, budgets)
            for release in outbox:
                gate.pass_on(release, label)
            ledger.save(path)

    def _seal(self, outbox: Sequence[Release], number: int) -> dict[str, bytes]:
        parcels = {}
        for receiver in self.route.receivers(number, self.name):
            content = releases_to([r for r in outbox if self._home_of(r.receiver) == receiver])
            address = Address(self.experiment.order.run, number, self.name, receiver)
            parcels[receiver] = seal_parcel(content, address, self.identity, most=self.limit)
        stray = [r for r in outbox if self._home_of(r.receiver) not in parcels]
        if stray:
            raise SettingError(
                f"step {self.route.name(number)!r}: {stray[0].receiver!r} takes no part in it"
            )
        return parcels

    # --- what stays ---------------------------------------------------------------------------

    def _keep(self, number: int, parcels: Mapping[str, bytes]) -> None:
        """Put parcels and parties on disk; the state's rename is the moment the step is done."""
        folder = self.folder / "sent" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        for receiver, parcel in parcels.items():
            _write(folder / f"{receiver}.parcel", parcel)
        last = number == self.route.report
        if last:
            self.parties = {}  # what others sent is kept no longer than the run needs it
        state = {
            "done": number,
            "views": _digests(self.views),
            "local": releases_to(self.local),
            "parties": {name: self.experiment.keep(p) for name, p in self.parties.items()},
        }
        _write(self.folder / "state.bin", pack(state, {}))
        self.done = number
        if last:
            for old in range(number):
                shutil.rmtree(self.folder / "sent" / str(old), ignore_errors=True)

    def _kept(self, number: int) -> dict[str, bytes]:
        folder = self.folder / "sent" / str(number)
        return {
            receiver: (folder / f"{receiver}.parcel").read_bytes()
            for receiver in self.route.receivers(number, self.name)
        }


def _digests(views: Mapping[str, View]) -> dict[str, str]:
    """Return a hash of each view's rows, by which a changed table is noticed."""
    found = {}
    for name, view in views.items():
        hashed = hashlib.blake2b(digest_size=16)
        hashed.update(repr([f.to_dict() for f in view.features]).encode())
        for array in (view.ids, view.cells):
            hashed.update(f"{array.dtype.str}{array.shape}".encode())
            hashed.update(np.ascontiguousarray(array).tobytes())
        found[name] = hashed.hexdigest()
    return found


def _write(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.part")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StoreError(f"{path.parent} cannot be written: {error.strerror}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes: two runs at once write to one ledger."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def plain_fault(error: BaseException) -> str:
    """Return what may be said of an error elsewhere: cofill's own sentence, or only its type."""
    if isinstance(error, CofillError):
        return str(error)
    return f"an unexpected {type(error).__name__}; see the site's own log"
