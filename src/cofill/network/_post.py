"""The coordinator's end of the network driver: it sequences steps and forwards sealed messages.

It sees who sends how many bytes to whom in which step, and nothing inside, unless a message is for
the coordinator's own party. A message is kept on disk as long as somebody may need it, so that a
run that was cut off goes on from the last step that every site had done: `resume` orders the same
run again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill.errors import DataError, SettingError, StoreError
from cofill.files import write_atomically, write_json
from cofill.network._identity import Identity, read_json
from cofill.network._messages import read_address, read_message
from cofill.network._place import Mail, Place, Route, mail_path, note_time
from cofill.privacy import MessageAddress, RunFigures, decode_releases
from cofill.protocol import COORDINATOR

__all__ = ["PostOffice"]


class PostOffice:
    """A run as the coordinator keeps it: which steps are done, and the messages under way."""

    def __init__(self, route: Route, identity: Identity, home: Path) -> None:
        self.route, self.identity = route, identity
        self.order = route.experiment.order
        self.folder = home / "runs" / self.order.run
        self.limit = route.federation.limits.message_bytes
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.next = 0
        self.metrics: dict[str, dict[str, Any]] = {}
        self.notes: list[str] = []
        self._result: dict[str, Any] = {}
        self.began = time.monotonic()
        note = self.folder / "run.json"
        before = read_json(note) if note.exists() else None
        if before is not None:
            self._take_up(before)
        over = self.next > route.report
        self.place = Place(route, identity, None, home) if route.star and not over else None
        if self.place is not None and before is not None:
            self._go_back(self.place)
        if not over:
            self.note("running")

    def _take_up(self, note: Mapping[str, Any]) -> None:
        if note.get("order") != self.order.to_json():
            raise SettingError(
                f"run {self.order.run} was ordered with other settings before; give it the same, "
                "or start a new run"
            )
        self.next = int(note["next"])
        self.notes = list(note["notes"])
        # Where it had finished and nobody heard of it, there is nothing left to do but to say so.
        self.metrics, self._result = dict(note["metrics"]), dict(note["result"])

    def _go_back(self, place: Place) -> None:
        """Ask sites once more whose answers were lacking when the coordinator was to act."""
        if COORDINATOR not in self.route.actors(self.next) or place.done >= self.next:
            return
        last = max((k for k in self._executed() if k < self.next), default=-1)
        if last > place.done and self.route.experiment.lacking(last):
            self.next = last

    def note(self, state: str, why: str = "") -> None:
        """Write where the run stands."""
        last = self.next > self.route.report
        write_json(
            self.folder / "run.json",
            {
                "order": self.order.to_json(),
                "state": state,
                "next": self.next,
                "steps": self.route.report + 1,
                "step": "end" if last else self.route.name(self.next),
                "why": why,
                "notes": self.notes,
                "metrics": self.metrics,
                "result": self._result,
            },
        )

    def mail(self, receiver: str) -> dict[tuple[int, str], bytes]:
        """Return the messages that a place needs for the next step."""
        found = {}
        for step, sender in self._wanted(receiver):
            path = self._path(step, sender, receiver)
            try:
                found[step, sender] = path.read_bytes()
            except OSError:
                raise StoreError(
                    f"the message from {sender!r} to {receiver!r} of step {step} is lost; start a "
                    "new run"
                ) from None
        return found

    def _wanted(self, receiver: str) -> list[tuple[int, str]]:
        """Return which messages a place needs: in a star, those that came since others acted."""
        if self.place is None:
            return list(self.route.due(self.next, receiver))
        if self.next == self.route.report:
            return []
        if receiver == COORDINATOR:
            first = self.place.done
        else:
            first = max((k for k in self._executed() if k < self.next), default=-1)
        possible = self.route.may_come(self.next, receiver, first)
        return sorted(
            (step, sender)
            for step, sender in possible
            if self._path(step, sender, receiver).exists()
        )

    def _executed(self) -> list[int]:
        """Return the sites' steps of which a message is here."""
        folder = self.folder / "mail"
        found = sorted(int(path.name) for path in folder.glob("*")) if folder.exists() else []
        return [k for k in found if COORDINATOR not in self.route.actors(k)]

    def act(self) -> None:
        """Run the coordinator's own step."""
        if self.place is None:
            raise SettingError(f"step {self.next} has no coordinator")
        self.place.act(self.next, self.mail(COORDINATOR))  # its messages are laid out by then

    def receive(self, sender: str, messages: Mapping[str, bytes]) -> None:
        """Take the messages of a place that has ended the step; refuse what it does not owe."""
        owed = self.route.receivers(self.next, sender)
        if sender not in self.route.actors(self.next) or set(messages) != set(owed):
            raise DataError(
                f"site {sender!r} must send {len(owed)} messages in step {self.next} "
                f"({self.route.name(self.next)}), got {len(messages)}; refused"
            )
        for receiver, message in messages.items():
            if not isinstance(message, bytes):
                raise DataError(f"site {sender!r} sent no message but {type(message).__name__}")
            wanted = MessageAddress(self.order.run, self.next, sender, receiver)
            if read_address(message, limit=self.limit) != wanted:
                raise DataError(f"site {sender!r} sent a message that is not {wanted}; refused")
        self._lay_out(sender, self.next, messages)

    def _lay_out(self, sender: str, step: int, messages: Mapping[str, bytes]) -> None:
        for receiver, message in messages.items():
            path = self._path(step, sender, receiver)
            path.parent.mkdir(parents=True, exist_ok=True)
            # In a star every sender still has its last messages: no need to survive a power cut.
            write_atomically(path, message, private=True, sync=not self.route.star)

    def leave_out(self, name: str, why: str) -> None:
        """Note that a run goes on without a site's answer."""
        what = f"step {self.next} ({self.route.name(self.next)})"
        self.notes.append(f"{what}: site {name!r} {why}; left out")

    def advance(self) -> None:
        """Go on to the next step; every actor's messages of this one are here, or left out."""
        number, place = self.next, self.place
        if number == self.route.report:
            self._read_reports()
        self.next += 1
        if place is not None and COORDINATOR in self.route.actors(number):
            self.next = self.route.experiment.follows(number, place.parties[COORDINATOR])
        elif place is not None:
            self._forget(number, place.done)
        taken, self.began = time.monotonic() - self.began, time.monotonic()
        note_time(self.folder, {"step": number, "name": self.route.name(number), "seconds": taken})
        self.note("running")

    def _forget(self, number: int, done: int) -> None:
        """Remove messages that nobody can need: of sites' steps before the last, where acted on."""
        last = min(max((k for k in self._executed() if k < number), default=-1), done)
        for path in (self.folder / "mail").glob("*"):
            if int(path.name) <= last:
                shutil.rmtree(path, ignore_errors=True)

    @property
    def result(self) -> dict[str, Any]:
        """What the coordinator's own party tells of the run."""
        if self.place is None:
            return self._result
        return self.route.experiment.result(self.place.parties[COORDINATOR])

    @property
    def told(self) -> list[str]:
        """Notes on whoever was left out, and why."""
        return [*self.notes, *([] if self.place is None else self.place.notes)]

    def end(self) -> None:
        """Close a run that has gone through: messages are no longer needed."""
        self.notes, self._result = self.told, self.result
        self.place = None
        self.note("finished")
        shutil.rmtree(self.folder / "mail", ignore_errors=True)
        (self.folder / "state.bin").unlink(missing_ok=True)

    def _read_reports(self) -> None:
        for sender in self.route.federation.names:
            path = self._path(self.next, sender, COORDINATOR)
            if not path.exists() and self.route.experiment.lacking(self.next):
                continue
            address = MessageAddress(self.order.run, self.next, sender, COORDINATOR)
            content = read_message(path.read_bytes(), address, self.identity, limit=self.limit)
            for release in decode_releases(content, sender):
                home = self.route.experiment.homes.get(release.sender)
                if not isinstance(release, RunFigures) or home != sender:
                    raise DataError(f"site {sender!r} must report figures of its own; refused")
                self.metrics[release.sender] = {"site": sender, **release.figures}

    def _path(self, step: int, sender: str, receiver: str) -> Path:
        return mail_path(self.folder, step, sender, receiver)


def run_here(office: PostOffice, places: Mapping[str, Place]) -> None:
    """Run all steps over places in this process: the network driver without a network."""
    while office.next <= office.route.report:
        for name in office.route.actors(office.next):
            if name == COORDINATOR:
                office.act()
            else:
                mail: Mail = office.mail(name)
                office.receive(name, places[name].act(office.next, mail))
        office.advance()
    office.end()
