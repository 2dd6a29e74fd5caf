"""The state of a run, from the files it leaves while it goes: names, figures, faults, no data.

Files that are read, in the run's folder and below: ``progress.jsonl`` (see `ProgressLog`), the
coordinator's or a checkpoint's ``run.json``, and ledgers.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofill.errors import CofillError, DataError, StoreError
from cofill.privacy import Budget, Gate, Ledger, LedgerEntry
from cofill.protocol import RunFolder

FILE = "progress.jsonl"
_PAUSE_S = 0.5  # the live page asks once a second; more lines would only make the file long


class ProgressLog:
    """Appends to ``progress.jsonl`` in a run's folder; `report_progress` is a progress callback.

    A line has ``time`` (seconds since 1970) and some of ``what``, ``share``, ``round``, ``losses``
    (``{name: number}``), ``site``, ``state``, ``fault``, ``budget`` (``{site: {"epsilon": …,
    "delta": …}}``). It must hold no record of a person: figures, names of steps and sites only.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = ProgressLog(folder)
    ...     log.report_progress("train", 0.0)
    ...     log.report_progress("train", 0.01)  # too soon after the last to be worth a line
    ...     log.note(round=1, losses={"pixels": 0.5})
    ...     [sorted(line)[0] for line in read_progress(Path(folder))]
    ['share', 'losses']
    """

    def __init__(self, folder: Path | str) -> None:
        self._path = Path(folder) / FILE
        self._last: tuple[str, float] = ("", 0.0)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
        except OSError as error:
            raise DataError(f"{self._path} cannot be written ({error.strerror})") from None

    def report_progress(self, what: str, share: float | int) -> None:
        """Note what is being done and the share that is done; a few times a second at most."""
        now = time.monotonic()
        last_what, last_time = self._last
        if what == last_what and share < 1 and now - last_time < _PAUSE_S:
            return
        self._last = (what, now)
        self.note(what=what, share=round(float(share), 4))

    def note(self, **facts: Any) -> None:
        """Add a line."""
        line = json.dumps({**facts, "time": round(time.time(), 3)}, ensure_ascii=False)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def read_progress(folder: Path) -> list[Mapping[str, Any]]:
    """Return the whole lines of a run's progress; none where there is no such file."""
    try:
        content = (folder / FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    entries = []
    for line in content.split("\n")[:-1]:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


_NAMES = {FILE, "run.json", "ledger.jsonl", "kit.json"}
# Keys, sealed messages and the engine's own files: nothing to show, and many files to walk.
_SKIPPED = {"messages", "sent", "startup", "local", "transfer", "storage", "results"}
# Files are read while they are written, and by a version that may not have written them.
_BROKEN = (OSError, KeyError, TypeError, ValueError, AttributeError, CofillError)
# Folders below a run, entries on the page, lines of progress: a page asks for them every second.
_DEEPEST, _SHOWN, _LINES = 6, 20, 2000
_MOST_CHARACTERS = 300


@dataclass
class _Snapshot:
    """What the files of a folder say at one moment."""

    state: str = "waiting"
    why: str = ""
    what: str = ""
    share: float | None = None
    steps: tuple[int, int] | None = None
    changed: float = 0.0
    sites: dict[str, str] = field(default_factory=dict)
    curve: dict[float, dict[str, float]] = field(default_factory=dict)
    entries: list[LedgerEntry] = field(default_factory=list)
    budgets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add_losses(self, round_: Any, losses: Mapping[str, Any]) -> None:
        numbers = {str(name): _number(value) for name, value in losses.items()}
        at = self.curve.setdefault(float(round_), {})
        at.update({name: value for name, value in numbers.items() if value is not None})

    def add_budgets(self, budgets: Mapping[str, Any]) -> None:
        names = ("epsilon", "delta", "neighbours", "unit", "only_guaranteed")
        for site, limits in budgets.items():
            if isinstance(limits, Mapping) and _number(limits.get("epsilon")) is not None:
                self.budgets[str(site)] = {n: limits[n] for n in names if n in limits}

    def add_fault(self, words: Any) -> None:
        self.faults.append(str(words)[:_MOST_CHARACTERS])


class Follower:
    """Reads a run's folder and returns the state of the run.

    Examples
    --------
    >>> import tempfile
    >>> from cofill.report import ProgressLog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ProgressLog(folder).report_progress("train", 0.5)
    ...     state = Follower(folder).state()
    >>> state["state"], state["what"], state["share"]
    ('running', 'train', 0.5)
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise DataError(f"{folder} is no folder; give the folder of a run")
        # The page asks every second: a ledger is read again when it has grown, and the
        # composition of costs, which takes longest, is counted again after a new release.
        self._ledgers: dict[Path, tuple[int, Ledger]] = {}
        self._spent: dict[tuple[str, int, str], float] = {}

    def state(self) -> dict[str, Any]:
        """Return everything that is shown, as JSON's types."""
        snapshot = _Snapshot()
        paths = self._files()
        paths["run.json"] = sorted(paths["run.json"], key=_changed)[-1:]
        readers = {"kit.json": _read_kit, FILE: _read_progress}
        readers |= {"ledger.jsonl": self._read_ledger, "run.json": _read_run}
        for name, read in readers.items():
            for path in paths[name]:
                try:
                    read(path, snapshot)
                except _BROKEN:
                    snapshot.add_fault(f"{path.parent.name}/{name} is not as expected")
        return self._state_of(snapshot)

    def _files(self) -> dict[str, list[Path]]:
        paths: dict[str, list[Path]] = {name: [] for name in _NAMES}
        for location, folders, names in os.walk(self.folder):
            depth = len(Path(location).relative_to(self.folder).parts)
            below = folders if depth < _DEEPEST else ()
            folders[:] = sorted(n for n in below if not n.startswith(".") and n not in _SKIPPED)
            for name in _NAMES & set(names):
                paths[name].append(Path(location) / name)
        if (self.folder / "run.json").is_file():  # of one run; the party's files are above
            for name in ("kit.json", "ledger.jsonl"):
                above = self.folder.parent.parent / name
                paths[name] += [above] if above.is_file() else []
        return paths

    def _read_ledger(self, path: Path, snapshot: _Snapshot) -> None:
        size = path.stat().st_size
        if self._ledgers.get(path, (-1, None))[0] != size:
            # The last line may be half written: the run goes on.
            whole_lines = path.read_bytes().rpartition(b"\n")[0]
            try:
                ledger = Ledger.parse(whole_lines, f"{path.parent.name}/{path.name}")
            except StoreError as error:
                snapshot.add_fault(error)
                return
            self._ledgers[path] = (size, ledger)
        snapshot.entries += list(self._ledgers[path][1])
        snapshot.changed = max(snapshot.changed, _changed(path))

    def _state_of(self, snapshot: _Snapshot) -> dict[str, Any]:
        entries, curve = snapshot.entries, snapshot.curve
        for entry in reversed(entries):
            snapshot.sites.setdefault(entry.sender, f"sent {entry.kind} ({entry.step})")
        names = list(dict.fromkeys(name for losses in curve.values() for name in losses))
        rounds = sorted(curve)
        started = snapshot.state == "waiting" and (entries or curve)
        return {
            **{name: getattr(snapshot, name) for name in ("why", "what", "share", "steps")},
            "name": self.folder.name,
            "state": "running" if started else snapshot.state,
            "changed": snapshot.changed or None,
            "now": time.time(),
            "sites": [{"name": name, "state": state} for name, state in snapshot.sites.items()],
            "losses": {
                "x": rounds,
                "series": {name: [curve[k].get(name) for k in rounds] for name in names},
            },
            "releases": {
                "count": len(entries),
                "bytes": sum(e.bytes for e in entries),
                "kinds": dict(Counter(e.kind for e in entries)),
                "latest": [_release(e) for e in entries[-_SHOWN:][::-1]],
            },
            "budget": self._budget(snapshot),
            "faults": list(dict.fromkeys(snapshot.faults))[-_SHOWN:],
        }

    def _budget(self, snapshot: _Snapshot) -> list[dict[str, Any]]:
        ledger = Ledger(list(snapshot.entries))
        paid = Counter(e.sender for e in snapshot.entries if e.event is not None)
        rows = []
        for site in dict.fromkeys([*snapshot.budgets, *paid]):
            limits = snapshot.budgets.get(site)
            key = (site, paid[site], repr(limits))
            if key not in self._spent:
                budgets = {} if limits is None else {site: Budget(**limits)}
                self._spent[key] = Gate(ledger, budgets).spent(site)
            row = {"site": site, "spent": round(self._spent[key], 4)}
            row["limit"] = None if limits is None else float(limits["epsilon"])
            rows.append(row | {"delta": float((limits or {}).get("delta", 1e-5))})
        return rows


def _read_progress(path: Path, snapshot: _Snapshot) -> None:
    entries = read_progress(path.parent)[-_LINES:]
    for entry in entries:
        if "share" in entry:
            snapshot.what, snapshot.share = str(entry.get("what", "")), _number(entry["share"])
        if isinstance(entry.get("losses"), dict) and _number(entry.get("round")) is not None:
            snapshot.add_losses(entry["round"], entry["losses"])
        if "site" in entry:
            snapshot.sites[str(entry["site"])] = str(entry.get("state", ""))
        elif "state" in entry:
            snapshot.state = str(entry["state"])
        if "fault" in entry:
            snapshot.add_fault(entry["fault"])
        if isinstance(entry.get("budget"), dict):
            snapshot.add_budgets(entry["budget"])
    if entries:
        last = _number(entries[-1].get("time")) or _changed(path)
        snapshot.changed = max(snapshot.changed, last)
        snapshot.state = "running" if snapshot.state == "waiting" else snapshot.state


def _read_run(path: Path, snapshot: _Snapshot) -> None:
    facts = _object(path)
    if "next" not in facts:
        return
    number, at, steps = int(facts["next"]), int(facts["at"]), max(int(facts["steps"]), 1)
    # Of a fit in one process the progress log knows more: a command may go on after the last round.
    if "order" in facts or not snapshot.what:
        snapshot.state = str(facts["state"])
        snapshot.why = str(facts.get("why", ""))[:_MOST_CHARACTERS]
        snapshot.what, snapshot.share = str(facts["step"]), min(at / steps, 1.0)
        snapshot.steps = (min(at + 1, steps), steps)
    for fault in (*facts.get("notes", []), *([snapshot.why] if snapshot.why else [])):
        snapshot.add_fault(fault)
    for entry in facts.get("result", {}).get("curve", []):
        losses = {name: v for name, v in entry.items() if name not in ("round", "sites")}
        snapshot.add_losses(entry["round"], losses)
    snapshot.entries += [LedgerEntry.from_json(entry) for entry in facts.get("ledger", [])]
    snapshot.changed = max(snapshot.changed, _changed(path))
    messages = RunFolder(path.parent).messages / str(number)
    answered = {message.name.partition("--")[0] for message in messages.glob("*--*")}
    for site in snapshot.sites:
        working = "answered" if site in answered else "at work"
        snapshot.sites[site] = working if snapshot.state == "running" else snapshot.state


def _read_kit(path: Path, snapshot: _Snapshot) -> None:
    """Learn the sites' names; keys are in another file."""
    federation = _object(path).get("federation") or {}
    for member in federation.get("sites", []):
        snapshot.sites.setdefault(str(member["name"]), "not heard of")


def _release(entry: LedgerEntry) -> dict[str, Any]:
    names = ("step", "kind", "sender", "receiver", "individuals", "bytes")
    epsilon = None if entry.epsilon is None else round(entry.epsilon, 4)
    return {name: getattr(entry, name) for name in names} | {"epsilon": epsilon}


def _object(path: Path) -> dict[str, Any]:
    """Return a JSON object, empty where there is none yet."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
