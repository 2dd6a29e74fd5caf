"""A run's progress file: one JSON line per event, for whoever follows the run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill.errors import DataError

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
