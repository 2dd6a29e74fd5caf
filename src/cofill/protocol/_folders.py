"""Where a party keeps its files: its ledger, and of each run what it needs to go on or be audited.

These classes own the layout; nothing else joins the names of these files.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofill.errors import StoreError
from cofill.files import draft_of, read_document, write_atomically, write_document, write_json
from cofill.privacy import Ledger, SentLog
from cofill.protocol._protocol import COORDINATOR

_KIT_FORMAT = "cofill.kit"
_METRICS_FORMAT = "cofill.metrics"
_RUN_FORMAT = "cofill.run"
_FAULT_FORMAT = "cofill.fault"
_APPROVAL_FORMAT = "cofill.approval"


def _below(name: str) -> Any:
    """Return a property of a folder: a path in it."""
    return property(lambda folder: folder.path / name)


@dataclass(frozen=True)
class RunFolder:
    """The files of one run at one party.

    ``state`` is what the party has become, with large values in ``parts``, ``note`` where the run
    stands as the coordinator knows it, ``messages`` what is on its way through the coordinator, by
    step, ``times`` how long each step took, a JSON line each, and ``attempt`` which step the party
    was about to pay for, with how many releases its ledger had before. Messages that are being
    received lie in ``incoming``.
    """

    path: Path
    state = _below("state.safetensors")
    parts = _below("parts")
    note = _below("run.json")
    messages = _below("messages")
    incoming = _below("incoming")
    times = _below("times.jsonl")
    attempt = _below("attempt.json")

    def make(self) -> None:
        """Make the folder, for its owner only."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def forget(self, *, but: Collection[Path] = ()) -> None:
        """Remove what the run would need to go on: states, shares and messages; logs stay.

        Messages named in ``but`` are kept.
        """
        self.state.unlink(missing_ok=True)
        self.attempt.unlink(missing_ok=True)
        shutil.rmtree(self.parts, ignore_errors=True)
        shutil.rmtree(self.incoming, ignore_errors=True)
        for path in self.messages.glob("*/*") if but else ():
            if path not in but:
                path.unlink(missing_ok=True)
        if not but:
            shutil.rmtree(self.messages, ignore_errors=True)

    @property
    def sent(self) -> SentLog:
        """The releases that the party has sent."""
        return SentLog(self.path / "sent")

    @property
    def received(self) -> SentLog:
        """What the coordinator sent the party in the last rounds, such as common models."""
        return SentLog(self.path / "received")

    def message(self, step: int, sender: str, receiver: str) -> Path:
        """Return where the coordinator keeps a message on its way."""
        return self.messages / str(step) / f"{sender}--{receiver}.sealed"

    def write_message(
        self, step: int, sender: str, receiver: str, message: bytes | Path, *, sync: bool
    ) -> None:
        """Keep a message on its way, for its owner only; a private file that holds it stays."""
        path = self.message(step, sender, receiver)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(message, Path):
            write_atomically(path, message, private=True, sync=sync)
            return
        with draft_of(path, private=True, sync=sync) as draft:
            linked = draft.with_suffix(".link")
            try:
                os.link(message, linked)  # on the same disk no byte is written again
                linked.replace(draft)
            except OSError:
                shutil.copyfile(message, draft)

    def write_note(self, value: Mapping[str, Any]) -> None:
        """Write where the run stands."""
        write_document(self.note, _RUN_FORMAT, value)

    def read_note(self) -> dict[str, Any] | None:
        """Return where the run stands, or None if nothing was noted yet."""
        return read_document(self.note, _RUN_FORMAT) if self.note.exists() else None

    def write_attempt(self, value: Mapping[str, Any]) -> None:
        """Note which step is about to be paid for; if that is lost, it is paid for again."""
        write_json(self.attempt, value, private=True, sync=False)

    def read_attempt(self) -> dict[str, Any] | None:
        """Return which step was about to be paid for, or None; what is damaged is none."""
        with suppress(OSError, ValueError):
            value = json.loads(self.attempt.read_text(encoding="utf-8"))
            if {"step", "entries"} <= set(value):
                return value
        return None

    def write_fault(self, sentence: str) -> None:
        """Leave what went wrong where the party's own people find it."""
        write_document(self.path / "fault.json", _FAULT_FORMAT, {"why": sentence})

    def add_time(self, step: int, name: str, seconds: float) -> None:
        """Note how long a step took, for whoever wonders where a run's time goes."""
        line = json.dumps({"step": step, "name": name, "seconds": seconds}) + "\n"
        with suppress(OSError), self.times.open("a", encoding="utf-8") as file:
            file.write(line)

    def read_times(self) -> list[dict[str, Any]]:
        """Return the noted times; a half-written last line is left out."""
        with suppress(OSError):
            lines = self.times.read_text(encoding="utf-8").splitlines()
            return [json.loads(line) for line in lines if line.endswith("}")]
        return []


@dataclass(frozen=True)
class PartyFolder:
    """The folder in which a party keeps its ``ledger`` over all runs and its ``runs``.

    The ``kit`` says who the party is, and what everybody knows of the federation.
    """

    path: Path
    kit = _below("kit.json")
    ledger = _below("ledger.jsonl")
    runs = _below("runs")
    approvals = _below("approvals")

    def ask_approval(self, run: str, value: Mapping[str, Any]) -> None:
        """Leave an order where a person of the party finds it, to approve of it or not."""
        self.approvals.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_document(self.approvals / f"{run}.json", _APPROVAL_FORMAT, value, private=True)

    def read_approval(self, run: str) -> dict[str, Any] | None:
        """Return an order that waits for a person, or has one's approval; None for neither."""
        path = self.approvals / f"{run}.json"
        return read_document(path, _APPROVAL_FORMAT) if path.exists() else None

    def write_kit(self, value: Mapping[str, Any]) -> None:
        """Write who the party is."""
        write_document(self.kit, _KIT_FORMAT, value)

    def read_kit(self) -> dict[str, Any]:
        """Return who the party is; raise a `StoreError` for a file that does not say so."""
        return read_document(self.kit, _KIT_FORMAT)

    def run(self, name: str) -> RunFolder:
        """Return the folder of a run."""
        return RunFolder(self.runs / name)

    def all_runs(self) -> list[RunFolder]:
        """Return the folders of all runs, by name: they begin with the time of the order."""
        return [RunFolder(path) for path in sorted(self.runs.glob("*")) if path.is_dir()]

    def forget_runs(self, days: int, *, but: str) -> None:
        """Forget runs other than one that have not gone on for so many days."""
        latest = time.time() - days * 24 * 3600
        for run in self.all_runs():
            kept = [path for path in (run.state, run.messages) if path.exists()]
            ages = [path.stat().st_mtime for path in kept]
            if run.path.name != but and ages and max(ages) < latest:
                run.forget()

    @contextmanager
    def open_ledger(self) -> Iterator[Ledger]:
        """Give the ledger to add to; what was added is on disk when the block ends.

        Two runs at once write to one ledger, so a lock is held between processes. On a full disk
        no half line is left.
        """
        import fcntl

        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "ledger.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ledger = Ledger.load(self.ledger) if self.ledger.exists() else Ledger()
            yield ledger
            size = self.ledger.stat().st_size if self.ledger.exists() else 0
            try:
                ledger.save(self.ledger)
            except OSError as error:
                with suppress(OSError):
                    os.truncate(self.ledger, size)
                raise StoreError(f"{self.ledger} cannot be written: {error.strerror}") from None


@dataclass(frozen=True)
class FederationFolder:
    """The folder of a federation on one machine, as `cofill federation local` writes it.

    ``metrics`` is the outcome of the last run.
    """

    path: Path
    metrics = _below("metrics.json")

    def kit(self, party: str) -> Path:
        """Return the kit of a site or of the coordinator."""
        return self.path / "kits" / (party if party == COORDINATOR else f"sites/{party}")

    def party(self, name: str) -> PartyFolder:
        """Return where a party keeps its ledger and its runs."""
        return PartyFolder(self.kit(name) / "cofill")

    def site(self, name: str) -> Path:
        """Return the folder of a site's tables and results."""
        return self.path / "sites" / name

    def site_file(self, name: str) -> Path:
        """Return the file that says where a site's tables are."""
        return self.site(name) / "site.toml"

    @property
    def site_names(self) -> tuple[str, ...]:
        """The sites that have a ledger, by name."""
        ledgers = sorted((self.path / "kits" / "sites").glob("*/cofill/ledger.jsonl"))
        return tuple(ledger.parent.parent.name for ledger in ledgers)

    def write_metrics(self, value: Mapping[str, Any]) -> None:
        """Write the outcome of a run."""
        write_document(self.metrics, _METRICS_FORMAT, value)

    def read_metrics(self) -> dict[str, Any]:
        """Return the outcome of the last run; raise a `StoreError` for a damaged file."""
        return read_document(self.metrics, _METRICS_FORMAT)
