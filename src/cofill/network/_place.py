"""A place: one site's end of the network driver, without the engine that carries the messages.

It runs the steps of the in-process driver over the parties that live here, one step at a time when
it is told to. What a step wants to send is packed and sealed, goes through this site's gate into
its ledger on disk, is kept with the parties' new state, and only then handed out: a step that is
asked for again hands out the very same messages, so that nothing is released or charged twice. A
step that fails leaves the parties as they were. The coordinator's own party lives in a place too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cofill.codec import decode, encode
from cofill.errors import CofillError, DataError, SettingError, StoreError
from cofill.files import new_folder, write_atomically
from cofill.network._config import FederationConfig, SiteConfig
from cofill.network._experiment import AbstractExperiment
from cofill.network._identity import Identity
from cofill.network._messages import read_message, write_message
from cofill.network._tables import read_people, read_site_views
from cofill.privacy import (
    Budget,
    Gate,
    Ledger,
    MessageAddress,
    Release,
    decode_releases,
    encode_releases,
)
from cofill.protocol import COORDINATOR
from cofill.views import Source, View

__all__ = ["Mail", "Place", "Route", "mail_path", "note_time", "plain_fault"]

Mail = Mapping[tuple[int, str], bytes]
"""Messages for a place, by the step they were sent in and their sender."""


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

    @property
    def star(self) -> bool:
        """Whether sites talk to the coordinator's party only, and never to each other."""
        return self.experiment.coordinator is not None

    def receivers(self, number: int, sender: str) -> tuple[str, ...]:
        """Return the places to which a sender owes a message in a step."""
        if number == self.report or (self.star and sender != COORDINATOR):
            return (COORDINATOR,)
        return tuple(name for name in self.federation.names if name != sender)

    def due(self, number: int, receiver: str) -> tuple[tuple[int, str], ...]:
        """Return the messages that must be at a site before it acts, where there is no star."""
        if number in (0, self.report):
            return ()  # a report needs nothing from others
        before = number - 1
        return tuple((before, sender) for sender in self.actors(before) if sender != receiver)

    def may_come(self, number: int, receiver: str, done: int) -> set[tuple[int, str]]:
        """Return the messages that may arrive for a step: in a star, all since a place last acted.

        There a place cannot know what it has missed: sites are left out, empty steps too.
        """
        if not self.star:
            return set(self.due(number, receiver))
        at = [k for k in range(done + 1, number) if receiver not in self.actors(k)]
        return {(k, sender) for k in at for sender in self.actors(k)}


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
        report_progress: Callable[[str, float], None] | None = None,
    ) -> None:
        self.route, self.identity, self.config = route, identity, config
        self.experiment = route.experiment
        self.home, self.report_progress = home, report_progress
        order = self.experiment.order
        self.folder = home / "runs" / order.run
        self.limit = route.federation.limits.message_bytes
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
        self.sent: dict[str, bytes] = {}
        self.notes: list[str] = []
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
        self._digests = _digests(self.views)
        kept = self.folder / "state.bin"
        if not kept.exists():
            self.parties = (
                {COORDINATOR: self.experiment.coordinator}
                if self.config is None
                else self.experiment.begin(self.views, self.people, self.identity)
            )
            return
        try:
            state = decode(kept.read_bytes(), format="cofill.state")
            if state["views"] != self._digests:
                raise StoreError(
                    f"the rows of site {self.name!r} have changed since run "
                    f"{self.experiment.order.run} began, so it cannot go on; start a new run"
                )
            self.done = state["done"]
            self.sent = dict(state["sent"])
            self.notes = list(state["notes"])
            self.parties = {
                name: self.experiment.restore(name, content, self.views, self.people, self.identity)
                for name, content in state["parties"].items()
            }
            self.local = decode_releases(state["local"], self.name)
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"what site {self.name!r} kept of run {self.experiment.order.run} is damaged "
                f"({type(error).__name__}); start a new run"
            ) from None

    # --- acting -------------------------------------------------------------------------------

    def act(self, number: int, mail: Mail) -> dict[str, bytes]:
        """Run a step and return a sealed message for everyone who is owed one."""
        if not 0 <= number <= self.route.report or self.name not in self.route.actors(number):
            raise SettingError(f"step {number} is no step of site {self.name!r}; refused")
        if number <= self.done:
            return self._kept(number)
        self._require_place(number)
        before = dict(self.parties), list(self.local), list(self.notes)
        try:
            outbox = self._made(number, mail)
            messages = self._seal(outbox, number)
            self._pass(outbox, number)
            self._keep(number, messages)
        except BaseException:
            self.parties, self.local, self.notes = before
            raise
        return messages

    def _require_place(self, number: int) -> None:
        """Raise unless every step that this place must not have missed is done."""
        own = [k for k in range(number) if self.name in self.route.actors(k)]
        missed = [k for k in own if k > self.done]
        needed = [k for k in missed if not self.experiment.optional(k)]
        if needed and (self.name != COORDINATOR or not self.route.star):
            raise StoreError(
                f"site {self.name!r} has not done step {needed[0]} "
                f"({self.route.name(needed[0])}) of this run and cannot go on with step {number}; "
                "start a new run"
            )

    def _made(self, number: int, mail: Mail) -> list[Release]:
        """Run a step, or write the results, and return what is to leave."""
        began = time.monotonic()
        outbox = (
            self._report()
            if number == self.route.report
            else self._step(number, self._open(mail, number))
        )
        if self.config is not None:  # of the coordinator's place the post office keeps times
            note = {"step": number, "name": self.route.name(number)}
            note_time(self.folder, {**note, "seconds": time.monotonic() - began})
        return outbox

    def _open(self, mail: Mail, number: int) -> list[Release]:
        """Return the releases that have arrived, in the order of the in-process driver."""
        due = self.route.may_come(number, self.name, self.done)
        missing = sorted(sender for k, sender in due if (k, sender) not in mail)
        if set(mail) - due or (missing and not self.route.star):
            what = f"no message from {', '.join(missing)}" if missing else "a message too many"
            raise DataError(
                f"site {self.name!r} got {what} before step {number} "
                f"({self.route.name(number)}); refused"
            )
        arrived: list[tuple[int, int, Release]] = []
        order = self._order()
        for step, sender in sorted(mail):
            try:
                found = self._releases(step, sender, mail[step, sender])
            except DataError as error:
                if self.name != COORDINATOR or not self.experiment.lacking(step):
                    raise
                self.notes.append(f"step {step} ({self.route.name(step)}): {error}; left out")
                continue
            arrived += [(step, order[release.sender], release) for release in found]
        own = self.done
        arrived += [(own, order[r.sender], r) for r in self.local]
        arrived.sort(key=lambda item: item[:2])
        return [release for *_, release in arrived]

    def _releases(self, step: int, sender: str, message: bytes) -> list[Release]:
        """Open a message, and refuse what its sender may not send here."""
        address = MessageAddress(self.experiment.order.run, step, sender, self.name)
        content = read_message(message, address, self.identity, limit=self.limit)
        found = decode_releases(content, sender)
        for release in found:
            if self._home_of(release.sender) != sender:
                raise DataError(f"site {sender!r} may not send as {release.sender!r}; refused")
            if release.receiver not in self.parties:
                raise DataError(
                    f"site {sender!r} sent a release for {release.receiver!r}, which is not at "
                    f"site {self.name!r}; refused"
                )
        return found

    def _order(self) -> dict[str, int]:
        names = [*self.experiment.homes, COORDINATOR]
        return {name: k for k, name in enumerate(names)}

    def _home_of(self, party: str) -> str | None:
        """Return the place of a party."""
        return COORDINATOR if party == COORDINATOR else self.experiment.homes.get(party)

    def _step(self, number: int, arrived: Sequence[Release]) -> list[Release]:
        step = self.experiment.steps[number]
        names = list(self.parties)
        inboxes = [tuple(r for r in arrived if r.receiver == name) for name in names]

        def report_progress(share: float) -> None:
            if self.report_progress is not None:
                self.report_progress(step.name, share)

        results = step.run([self.parties[n] for n in names], inboxes, report_progress)
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
                view = config.views.get(name) or next(iter(config.views.values()))
                form = ".csv" if Source(view.source).form == "csv" else ".parquet"
                told = self.experiment.finish(party, self.people, folder, form)
                figures += [] if told is None else [told]
        return figures

    # --- what leaves --------------------------------------------------------------------------

    def _pass(self, outbox: Sequence[Release], number: int) -> None:
        """Take every release through this site's gate into the ledger on disk, before it leaves."""
        if not outbox:
            return
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
            _save(ledger, path)

    def _seal(self, outbox: Sequence[Release], number: int) -> dict[str, bytes]:
        messages = {}
        for receiver in self.route.receivers(number, self.name):
            own = [r for r in outbox if self._home_of(r.receiver) == receiver]
            if self.name == COORDINATOR and not own:
                continue  # it knows anyway whom it has nothing to say to
            content = encode_releases(own)
            address = MessageAddress(self.experiment.order.run, number, self.name, receiver)
            messages[receiver] = write_message(content, address, self.identity, limit=self.limit)
        stray = [r for r in outbox if self._home_of(r.receiver) not in messages]
        if stray:
            raise SettingError(
                f"step {self.route.name(number)!r}: {stray[0].receiver!r} takes no part in it"
            )
        return messages

    # --- what stays ---------------------------------------------------------------------------

    def _keep(self, number: int, messages: Mapping[str, bytes]) -> None:
        """Put messages and parties on disk; the state's rename is the moment the step is done."""
        last = number == self.route.report
        # What others sent is kept no longer than the run needs it.
        parties = {} if last else self.parties
        sent = dict(messages)
        if self.name == COORDINATOR:
            # They are forwarded from these files; a state that held them too would be large.
            for receiver, message in messages.items():
                path = mail_path(self.folder, number, self.name, receiver)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, message, private=True, sync=False)
            sent = {}
        state = {
            "done": number,
            "views": self._digests,
            "local": encode_releases(self.local),
            "parties": {name: self.experiment.keep(p) for name, p in parties.items()},
            "sent": sent,
            "notes": self.notes,
        }
        content = encode(state, format="cofill.state")
        write_atomically(self.folder / "state.bin", content, private=True)
        self.done, self.parties, self.sent = number, parties, sent

    def _kept(self, number: int) -> dict[str, bytes]:
        if number != self.done:
            raise StoreError(
                f"site {self.name!r} has gone on to step {self.done} and no longer has what it "
                f"sent in step {number}; start a new run"
            )
        if self.name != COORDINATOR:
            return self.sent
        paths = {
            n: mail_path(self.folder, number, self.name, n) for n in self.route.federation.names
        }
        return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


def mail_path(folder: Path, step: int, sender: str, receiver: str) -> Path:
    """Return where the coordinator keeps a message on its way."""
    return folder / "mail" / str(step) / f"{sender}--{receiver}.message"


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


def note_time(folder: Path, note: Mapping[str, Any]) -> None:
    """Add a line on how long a step took; for whoever wonders where a run's time goes."""
    with suppress(OSError), (folder / "times.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")


def _save(ledger: Ledger, path: Path) -> None:
    """Append what is new in a ledger; on a full disk no half line is left."""
    size = path.stat().st_size if path.exists() else 0
    try:
        ledger.save(path)
    except OSError as error:
        with suppress(OSError):
            os.truncate(path, size)
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None


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
