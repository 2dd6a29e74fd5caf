"""The coordinator's end of the network driver: it sequences steps and forwards sealed messages.

It sees who sends how many bytes to whom in which step, and nothing inside, unless a message is for
the coordinator's own party. A message is kept on disk as long as somebody may need it, so that a
run that was cut off goes on from the last step that every site had done: `resume` orders the same
run again. Where a run has finished without a site, what the coordinator sent it last is kept, and
`resume` lets that site alone take the run to its end.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill.errors import DataError, SettingError, StoreError
from cofill.network._identity import Identity
from cofill.network._messages import Message, message_at, read_address, read_message
from cofill.network._order import Schedule
from cofill.network._site_runner import SiteRunner
from cofill.privacy import MessageAddress, RunFigures, decode_releases
from cofill.protocol import COORDINATOR, PartyFolder


class RunCoordinator:
    """A run as the coordinator keeps it: which steps are done, and the messages under way."""

    def __init__(self, schedule: Schedule, identity: Identity, home: Path) -> None:
        self.schedule, self.identity = schedule, identity
        self.order = schedule.order
        PartyFolder(home).forget_runs(schedule.federation.limits.resume_days, but=self.order.run)
        self.folder = PartyFolder(home).run(self.order.run)
        limits = schedule.federation.limits
        self.limit, self.mail_limit = limits.message_bytes, limits.mail_bytes
        self.folder.make()
        self.next = 0
        self.metrics: dict[str, dict[str, Any]] = {}
        self.notes: list[str] = []
        self.late: tuple[str, ...] = ()
        """Sites that were absent when the others finished, and can finish with what is kept."""
        self._result: dict[str, Any] = {}
        self.began = time.monotonic()
        before = self.folder.read_note()
        if before is not None:
            self._resume(before)
        over = self.next > schedule.report
        own_party = schedule.has_coordinator_party and not over and not self.late
        self.runner = SiteRunner(schedule, identity, None, home) if own_party else None
        if self.runner is not None and before is not None:
            self._go_back(self.runner)
        if not over:
            self.note("running")

    def _resume(self, note: Mapping[str, Any]) -> None:
        if note.get("order") != self.order.to_json():
            raise SettingError(
                f"run {self.order.run} was ordered with other settings before; give it the same, "
                "or start a new run"
            )
        self.next, self.late = int(note["next"]), tuple(note["late"])
        if self.late and self.next > self.schedule.report:
            self.next = self._last_act + 1
        self.notes = list(note["notes"])
        # Where it had finished and nobody heard of it, there is nothing left to do but to say so.
        self.metrics, self._result = dict(note["metrics"]), dict(note["result"])

    def _go_back(self, runner: SiteRunner) -> None:
        """Ask sites once more whose answers were lacking when the coordinator was to act."""
        if COORDINATOR not in self.schedule.actors(self.next) or runner.done >= self.next:
            return
        last = max((k for k in self._executed() if k < self.next), default=-1)
        if last > runner.done and self.schedule.protocol.may_lack_sites(last):
            self.next = last

    def note(self, state: str, why: str = "") -> None:
        """Write where the run stands."""
        last = self.next > self.schedule.report
        self.folder.write_note(
            {
                "order": self.order.to_json(),
                "state": state,
                "next": self.next,
                "at": self.schedule.position(self.next),
                "steps": self.schedule.position(self.schedule.report + 1),
                "step": "end" if last else self.schedule.name(self.next),
                "why": why,
                "late": list(self.late),
                "notes": self.notes,
                "metrics": self.metrics,
                "result": self._result,
            }
        )

    @property
    def actors(self) -> tuple[str, ...]:
        """Who acts in the next step; in a run that others have finished, those who have not."""
        names = self.schedule.actors(self.next)
        return tuple(name for name in names if name in self.late) if self.late else names

    @property
    def _last_act(self) -> int:
        """The number of the coordinator's last step, in which it hands out what came of the run."""
        steps = range(self.schedule.report - 1, -1, -1)
        return next((k for k in steps if COORDINATOR in self.schedule.actors(k)), -1)

    def messages_for(self, receiver: str) -> dict[tuple[int, str], Message]:
        """Return the messages that a machine needs for the next step."""
        messages: dict[tuple[int, str], Message] = {}
        total = 0
        for step, sender in self._wanted(receiver):
            path = self.folder.message(step, sender, receiver)
            if self.schedule.protocol.is_optional(step) and not path.exists():
                continue  # of a step that was left out
            try:
                total += path.stat().st_size
                # Its own party reads all sites' messages from disk, and nobody carries them.
                if total > self.mail_limit and receiver != COORDINATOR:
                    raise DataError(
                        f"step {self.next}: messages for {receiver!r} have {total:,} bytes, more "
                        f"than {self.mail_limit:,}; raise limits.message_megabytes in "
                        "federation.toml"
                    )
                messages[step, sender] = message_at(path)
            except OSError:
                raise StoreError(
                    f"the message from {sender!r} to {receiver!r} of step {step} is lost; start a "
                    "new run"
                ) from None
        return messages

    def _wanted(self, receiver: str) -> list[tuple[int, str]]:
        """Return which messages a machine needs: in a star, those that came since others acted."""
        if self.late:
            return [] if self.next == self.schedule.report else [(self._last_act, COORDINATOR)]
        if not self.schedule.is_star or self.runner is None:
            return list(self.schedule.needed_messages(self.next, receiver))
        if self.next == self.schedule.report:
            return []
        if receiver == COORDINATOR:
            first = self.runner.done
        else:
            first = max((k for k in self._executed() if k < self.next), default=-1)
        possible = self.schedule.possible_messages(self.next, receiver, first)
        return sorted(
            (step, sender)
            for step, sender in possible
            if self.folder.message(step, sender, receiver).exists()
        )

    def _executed(self) -> list[int]:
        """Return the sites' steps of which a message is here."""
        folder = self.folder.messages
        steps = sorted(int(path.name) for path in folder.glob("*")) if folder.exists() else []
        return [k for k in steps if COORDINATOR not in self.schedule.actors(k)]

    def act(self) -> None:
        """Run the coordinator's own step."""
        if self.runner is None:
            raise SettingError(f"step {self.next} has no coordinator")
        self.runner.act(self.next, self.messages_for(COORDINATOR))

    def receive(self, sender: str, messages: Mapping[str, Message]) -> None:
        """Take the messages of a machine that has ended the step; refuse what it does not owe."""
        owed = self.schedule.receivers(self.next, sender)
        if sender not in self.actors or set(messages) != set(owed):
            raise DataError(
                f"site {sender!r} must send {len(owed)} messages in step {self.next} "
                f"({self.schedule.name(self.next)}), got {len(messages)}; refused"
            )
        for receiver, message in messages.items():
            if not isinstance(message, bytes | Path):
                raise DataError(f"site {sender!r} sent no message but {type(message).__name__}")
            wanted = MessageAddress(self.order.run, self.next, sender, receiver)
            if read_address(message, limit=self.limit) != wanted:
                raise DataError(f"site {sender!r} sent a message that is not {wanted}; refused")
        for receiver, message in messages.items():
            # In a star every sender still has its last messages: no need to survive a power cut.
            sync = not self.schedule.is_star
            self.folder.write_message(self.next, sender, receiver, message, sync=sync)

    def leave_out(self, name: str, why: str) -> None:
        """Note that a run goes on without a site's answer."""
        what = f"step {self.next} ({self.schedule.name(self.next)})"
        self.notes.append(f"{what}: site {name!r} {why}; left out")

    def advance(self) -> None:
        """Go on to the next step; every actor's messages of this one are here, or left out."""
        number, runner = self.next, self.runner
        if number == self.schedule.report:
            self._read_reports()
        self.next += 1
        if runner is not None and COORDINATOR in self.schedule.actors(number):
            self.next = self.schedule.protocol.next_step(number, runner.parties[COORDINATOR])
        elif runner is not None and number < self.schedule.report:
            self._forget(number, runner.done)
        taken, self.began = time.monotonic() - self.began, time.monotonic()
        self.folder.add_time(number, self.schedule.name(number), taken)
        self.note("running")

    def _forget(self, number: int, done: int) -> None:
        """Remove messages that nobody can need: of sites' steps before the last, where acted on."""
        if not self.schedule.is_star:
            self._forget_read(number)
            return
        last = min(max((k for k in self._executed() if k < number), default=-1), done)
        for path in self.folder.messages.glob("*"):
            if int(path.name) <= last:
                shutil.rmtree(path, ignore_errors=True)

    def _forget_read(self, number: int) -> None:
        """Remove each machine's messages of steps before it last acted; it has read them."""
        machines = self.schedule.machines
        since = {name: self.schedule.last_acted(number, name) for name in machines}
        for path in self.folder.messages.glob("*"):
            step = int(path.name)
            read = {
                self.folder.message(step, sender, receiver)
                for receiver in machines
                for sender in machines
                if step < since[receiver]
            }
            waiting = set(path.iterdir())
            for message in waiting & read:
                message.unlink(missing_ok=True)
            if waiting <= read:
                shutil.rmtree(path, ignore_errors=True)

    @property
    def result(self) -> dict[str, Any]:
        """What the coordinator's own party tells of the run."""
        if self.runner is None:
            return self._result
        return self.schedule.protocol.summarise(self.runner.parties[COORDINATOR])

    @property
    def all_notes(self) -> list[str]:
        """Notes on whoever was left out, and why."""
        return [*self.notes, *([] if self.runner is None else self.runner.notes)]

    def end(self) -> None:
        """Close a run that has gone through: messages are no longer needed but by late sites."""
        self.notes, self._result = self.all_notes, self.result
        self.runner = None
        self.note("finished")
        self.folder.forget(but=[self._handed(name) for name in self.late])

    def _handed(self, name: str) -> Path:
        """Return where the coordinator's last message to a site is kept."""
        return self.folder.message(self._last_act, COORDINATOR, name)

    def _read_reports(self) -> None:
        asked, self.late = self.actors, ()
        for sender in asked:
            path = self.folder.message(self.next, sender, COORDINATOR)
            if not path.exists() and self.schedule.protocol.may_lack_sites(self.next):
                if self.schedule.is_star and self._handed(sender).exists():
                    self.late += (sender,)
                continue
            address = MessageAddress(self.order.run, self.next, sender, COORDINATOR)
            content = read_message(path, address, self.identity, limit=self.limit)
            for release in decode_releases(content, sender):
                home = self.schedule.protocol.party_sites.get(release.sender)
                if not isinstance(release, RunFigures) or home != sender:
                    raise DataError(f"site {sender!r} must report figures of its own; refused")
                self.metrics[release.sender] = {"site": sender, **release.figures}
