"""The coordinator's end of the network driver: it sequences steps and forwards sealed parcels.

It sees who sends how many bytes to whom in which step, and nothing inside. A parcel is kept on
disk until the run has ended, so that a run that was cut off goes on from the last step that every
site had done: `resume` orders the same run again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill.errors import DataError, SettingError, StoreError
from cofill.network._identity import Identity, read_json, write_json
from cofill.network._parcels import Address, open_parcel, read_address
from cofill.network._place import Mail, Place, Route, _write
from cofill.network._releases import releases_from
from cofill.privacy import Figures
from cofill.protocol import COORDINATOR

__all__ = ["PostOffice"]


class PostOffice:
    """A run as the coordinator keeps it: which steps are done, and the parcels under way."""

    def __init__(self, route: Route, identity: Identity, home: Path) -> None:
        self.route, self.identity = route, identity
        self.order = route.experiment.order
        self.folder = home / "runs" / self.order.run
        self.limit = route.federation.limits.parcel_bytes
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.next = 0
        self.metrics: dict[str, dict[str, Any]] = {}
        note = self.folder / "run.json"
        if note.exists():
            self._take_up(read_json(note))
        self.place = None
        if route.experiment.coordinator is not None:
            self.place = Place(route, identity, None, home)
        self.note("running")

    def _take_up(self, note: Mapping[str, Any]) -> None:
        if note.get("order") != self.order.to_json():
            raise SettingError(
                f"run {self.order.run} was ordered with other settings before; give it the same, "
                "or start a new run"
            )
        if note.get("state") == "finished":
            raise SettingError(f"run {self.order.run} has finished; there is nothing to resume")
        self.next = int(note["next"])

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
                "metrics": self.metrics,
            },
        )

    def mail(self, receiver: str) -> dict[tuple[int, str], bytes]:
        """Return the parcels that a place needs for the next step."""
        found = {}
        for step, sender in self.route.due(self.next, receiver):
            path = self._path(step, sender, receiver)
            try:
                found[step, sender] = path.read_bytes()
            except OSError:
                raise StoreError(
                    f"the parcel from {sender!r} to {receiver!r} of step {step} is lost; start a "
                    "new run"
                ) from None
        return found

    def act(self) -> None:
        """Run the coordinator's own step."""
        if self.place is None:
            raise SettingError(f"step {self.next} has no coordinator")
        self.receive(COORDINATOR, self.place.act(self.next, self.mail(COORDINATOR)))

    def receive(self, sender: str, parcels: Mapping[str, bytes]) -> None:
        """Take the parcels of a place that has ended the step; refuse what it does not owe."""
        owed = self.route.receivers(self.next, sender)
        if sender not in self.route.actors(self.next) or set(parcels) != set(owed):
            raise DataError(
                f"site {sender!r} must send {len(owed)} parcels in step {self.next} "
                f"({self.route.name(self.next)}), got {len(parcels)}; refused"
            )
        for receiver, parcel in parcels.items():
            if not isinstance(parcel, bytes):
                raise DataError(f"site {sender!r} sent no parcel but {type(parcel).__name__}")
            wanted = Address(self.order.run, self.next, sender, receiver)
            if read_address(parcel, most=self.limit) != wanted:
                raise DataError(f"site {sender!r} sent a parcel that is not {wanted}; refused")
        for receiver, parcel in parcels.items():
            path = self._path(self.next, sender, receiver)
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, parcel)

    def advance(self) -> None:
        """Go on to the next step; every actor's parcels of this one are here."""
        if self.next == self.route.report:
            self._read_reports()
        self.next += 1
        self.note("running")

    def end(self) -> None:
        """Close a run that has gone through: parcels are no longer needed."""
        self.note("finished")
        shutil.rmtree(self.folder / "mail", ignore_errors=True)

    def _read_reports(self) -> None:
        for sender in self.route.federation.names:
            address = Address(self.order.run, self.next, sender, COORDINATOR)
            parcel = self._path(self.next, sender, COORDINATOR).read_bytes()
            content = open_parcel(parcel, address, self.identity, most=self.limit)
            for release in releases_from(content, sender):
                home = self.route.federation.views.get(release.sender)
                if not isinstance(release, Figures) or home != sender:
                    raise DataError(f"site {sender!r} must report figures of its own; refused")
                self.metrics[release.sender] = {"site": sender, **release.figures}

    def _path(self, step: int, sender: str, receiver: str) -> Path:
        return self.folder / "mail" / str(step) / f"{sender}--{receiver}.parcel"


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
