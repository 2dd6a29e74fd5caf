"""Where a run stands, from the files it leaves while it goes: names, figures, faults, no data.

What is looked for, in the run's folder and below: ``progress.jsonl`` (see `ProgressLog`), the
coordinator's ``run.json``, ledgers, and checkpoints of rounds.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofill.errors import CofillError, DataError
from cofill.privacy import Budget, Gate, Ledger, LedgerEntry
from cofill.report._progress import FILE, read_progress

__all__ = ["Follower"]

_CHECKPOINT = "rounds.safetensors"
_NAMES = {FILE, _CHECKPOINT, "run.json", "ledger.jsonl", "kit.json"}
_SKIPPED = {"mail", "sent", "startup", "local", "transfer", "storage", "results"}
_BROKEN = (OSError, KeyError, TypeError, ValueError, AttributeError, CofillError)
_DEEP, _SHOWN, _LINES = 6, 20, 2000


@dataclass
class _Seen:
    """What is known so far of one look at the folder."""

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


class Follower:
    """Looks at a run's folder and says where the run stands.

    Examples
    --------
    >>> import tempfile
    >>> from cofill.report import ProgressLog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ProgressLog(folder).tell("train", 0.5)
    ...     found = Follower(folder).state()
    >>> found["state"], found["what"], found["share"]
    ('running', 'train', 0.5)
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise DataError(f"{folder} is no folder; give the folder of a run")
        self._ledgers: dict[Path, tuple[int, Ledger | str]] = {}
        self._spent: dict[tuple[str, int, str], float] = {}

    def state(self) -> dict[str, Any]:
        """Return everything that is shown, as JSON's types."""
        seen = _Seen()
        found = self._files()
        found["run.json"] = sorted(found["run.json"], key=_changed)[-1:]
        for name, read in (
            ("kit.json", _read_kit),
            (FILE, _read_diary),
            (_CHECKPOINT, _read_checkpoint),
            ("ledger.jsonl", self._read_ledger),
            ("run.json", _read_run),
        ):
            for path in found[name]:
                try:
                    read(path, seen)
                except _BROKEN:
                    seen.faults.append(f"{path.parent.name}/{name} is not as expected")
        return self._told(seen)

    def _files(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {name: [] for name in _NAMES}
        for place, folders, names in os.walk(self.folder):
            depth = len(Path(place).relative_to(self.folder).parts)
            folders[:] = sorted(
                name
                for name in folders
                if depth < _DEEP and not name.startswith(".") and name not in _SKIPPED
            )
            for name in _NAMES & set(names):
                found[name].append(Path(place) / name)
        if (self.folder / "run.json").is_file():  # of one run; the party's files are above
            for name in ("kit.json", "ledger.jsonl"):
                above = self.folder.parents[1] / name
                found[name] += [above] if above.is_file() else []
        return found

    def _read_ledger(self, path: Path, seen: _Seen) -> None:
        size = path.stat().st_size
        if self._ledgers.get(path, (-1, ""))[0] != size:
            self._ledgers[path] = (size, _ledger(path))
        kept = self._ledgers[path][1]
        if isinstance(kept, str):
            seen.faults.append(kept)
            return
        seen.entries += list(kept)
        seen.changed = max(seen.changed, _changed(path))

    def _told(self, seen: _Seen) -> dict[str, Any]:
        entries = seen.entries
        for entry in reversed(entries):
            seen.sites.setdefault(entry.sender, f"sent {entry.kind} ({entry.step})")
        names = list(dict.fromkeys(n for losses in seen.curve.values() for n in losses))
        steps = sorted(seen.curve)
        state = seen.state
        if state == "waiting" and (entries or seen.curve):
            state = "running"
        return {
            "name": self.folder.name,
            "state": state,
            "why": seen.why,
            "what": seen.what,
            "share": seen.share,
            "steps": seen.steps,
            "changed": seen.changed or None,
            "now": time.time(),
            "sites": [{"name": n, "state": s} for n, s in seen.sites.items()],
            "losses": {
                "x": steps,
                "series": {n: [seen.curve[k].get(n) for k in steps] for n in names},
            },
            "releases": {
                "count": len(entries),
                "bytes": sum(e.bytes for e in entries),
                "kinds": dict(Counter(e.kind for e in entries)),
                "latest": [_release(e) for e in entries[-_SHOWN:][::-1]],
            },
            "budget": self._budget(seen),
            "faults": list(dict.fromkeys(seen.faults))[-_SHOWN:],
        }

    def _budget(self, seen: _Seen) -> list[dict[str, Any]]:
        ledger = Ledger(list(seen.entries))
        paid = Counter(e.sender for e in seen.entries if e.event is not None)
        found = []
        for site in dict.fromkeys([*seen.budgets, *paid]):
            given = seen.budgets.get(site)
            key = (site, paid[site], repr(given))
            if key not in self._spent:
                limits = {} if given is None else {site: Budget(**given)}
                self._spent[key] = Gate(ledger, limits).spent(site)
            limit = None if given is None else float(given["epsilon"])
            delta = 1e-5 if given is None else float(given.get("delta", 1e-5))
            spent = self._spent[key]
            found.append({"site": site, "spent": round(spent, 4), "limit": limit, "delta": delta})
        return found


def _read_diary(path: Path, seen: _Seen) -> None:
    entries = read_progress(path.parent)[-_LINES:]
    for entry in entries:
        if "share" in entry:
            seen.what, seen.share = str(entry.get("what", "")), _number(entry["share"])
        if isinstance(entry.get("losses"), dict) and _number(entry.get("round")) is not None:
            numbers = {str(n): _number(v) for n, v in entry["losses"].items()}
            at = seen.curve.setdefault(float(entry["round"]), {})
            at.update({n: v for n, v in numbers.items() if v is not None})
        if "site" in entry:
            seen.sites[str(entry["site"])] = str(entry.get("state", ""))
        elif "state" in entry:
            seen.state = str(entry["state"])
        if "fault" in entry:
            seen.faults.append(str(entry["fault"])[:300])
        if isinstance(entry.get("budget"), dict):
            seen.budgets.update(_budgets(entry["budget"]))
    if entries:
        seen.changed = max(seen.changed, _number(entries[-1].get("time")) or _changed(path))
        seen.state = "running" if seen.state == "waiting" else seen.state


def _read_checkpoint(path: Path, seen: _Seen) -> None:
    from cofill.nets import read_metadata

    try:
        kept = read_metadata(path)
    except CofillError:
        return  # it is just being replaced, or no checkpoint of rounds
    for entry in kept.get("curve", []):
        numbers = {n: _number(v) for n, v in entry.items() if n not in ("round", "sites")}
        seen.curve[float(entry["round"])] = {n: v for n, v in numbers.items() if v is not None}
    seen.faults += [str(note)[:300] for note in kept.get("notes", [])]
    seen.entries += [LedgerEntry.from_json(entry) for entry in kept.get("ledger", [])]
    seen.what = seen.what or f"round {kept.get('round', '?')}"
    seen.changed = max(seen.changed, _changed(path))


def _read_run(path: Path, seen: _Seen) -> None:
    note = _object(path)
    if note is None or "next" not in note:
        return
    number, steps = int(note["next"]), max(int(note["steps"]), 1)
    seen.state, seen.why = str(note["state"]), str(note.get("why", ""))[:300]
    seen.what, seen.share = str(note["step"]), min(number / steps, 1.0)
    seen.steps = (min(number + 1, steps), steps)
    seen.faults += [str(said)[:300] for said in note.get("notes", [])]
    seen.faults += [seen.why] if seen.why else []
    seen.changed = max(seen.changed, _changed(path))
    there = {p.name.partition("--")[0] for p in (path.parent / "mail" / str(number)).glob("*--*")}
    running = seen.state == "running"
    for site in seen.sites:
        seen.sites[site] = ("answered" if site in there else "at work") if running else seen.state


def _read_kit(path: Path, seen: _Seen) -> None:
    """Learn the sites' names and the common budget; keys are in another file."""
    kit = _object(path) or {}
    federation = kit.get("federation") or {}
    for member in federation.get("sites", []):
        seen.sites.setdefault(str(member["name"]), "not heard of")
        if isinstance(federation.get("budget"), dict):
            views = [str(view) for view in member.get("views", [])]
            seen.budgets.update(_budgets(dict.fromkeys(views, federation["budget"])))


def _ledger(path: Path) -> Ledger | str:
    """Return the whole lines of a ledger, or what is wrong with them."""
    whole = path.read_bytes().rpartition(b"\n")[0]
    try:
        entries = [LedgerEntry.from_json(json.loads(line)) for line in whole.splitlines()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{path.parent.name}/{path.name} holds a line that is no entry of a ledger"
    ledger = Ledger(entries)
    wrong = ledger.verify()
    if wrong is not None:
        return f"{path.parent.name}/{path.name}: line {wrong} was changed, or one before it removed"
    return ledger


def _release(entry: LedgerEntry) -> dict[str, Any]:
    names = ("step", "kind", "sender", "receiver", "individuals", "bytes")
    cost = entry.epsilon
    return {name: getattr(entry, name) for name in names} | {
        "epsilon": None if cost is None else round(cost, 4)
    }


def _budgets(given: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    names = ("epsilon", "delta", "neighbours", "unit", "only_guaranteed")
    return {
        str(site): {name: limits[name] for name in names if name in limits}
        for site, limits in given.items()
        if isinstance(limits, Mapping) and _number(limits.get("epsilon")) is not None
    }


def _object(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return float(value) if good and abs(value) != float("inf") else None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
