"""A whole federation on this machine, for trying and for tests: real processes, mutual TLS.

Everything lies under one folder: kits, each site's table, configuration, results and ledger, the
coordinator's metrics. Every process is ended when the block ends, however it ends.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from cofill.errors import DataError, SettingError
from cofill.network._config import FederationConfig, Member, Person, ViewSource
from cofill.network._identity import read_json, write_json
from cofill.network._kits import Kit, make_kits
from cofill.network._order import RunOrder, new_run
from cofill.network._processes import (
    ProcessError,
    end_tree,
    free_port,
    start_party,
    wait_for_port,
)
from cofill.network._session import Desk, FederationError, desk
from cofill.views import MultiView, drop_rows, load, to_table, write_table

__all__ = ["LocalFederation", "LocalResult", "local_federation", "run_local", "write_local"]

MARK = ".cofill-federation"
SUBMITTER, VIEWER = "submitter@localhost.local", "viewer@localhost.local"
_START_S = 60.0
_FORMS = (".csv", ".parquet")
Tell = Callable[[str, float], None]


@dataclass(frozen=True)
class LocalResult:
    """What a local run made."""

    run: str
    out: Path
    seconds: float
    metrics: Mapping[str, Mapping[str, Any]]
    results: Mapping[str, Path]
    ledgers: Mapping[str, Path]


@dataclass
class LocalFederation:
    """Coordinator and sites as processes, under one folder."""

    out: Path
    federation: FederationConfig
    processes: dict[str, Popen[bytes]] = field(default_factory=dict)

    def kit(self, name: str) -> Path:
        """Return a party's kit."""
        return self.out / "kits" / ("coordinator" if name == "coordinator" else f"sites/{name}")

    def site(self, name: str) -> Path:
        """Return the folder of a site's own files."""
        return self.out / "sites" / name

    def person(self, name: str = SUBMITTER) -> Kit:
        """Return a person's kit: whoever submits, or may look only."""
        return Kit.read(self.out / "kits" / "people" / name, "person")

    def start(self, name: str) -> None:
        """Start a party as a process of its own."""
        words = ["coordinator"] if name == "coordinator" else ["site"]
        words += ["--kit", str(self.kit(name))]
        if name != "coordinator":
            words += ["--config", str(self.site(name) / "site.toml")]
        self.processes[name] = start_party(words, self.out / "logs" / f"{name}.txt")

    def check(self) -> None:
        """Raise unless every party's process is alive."""
        for name, process in self.processes.items():
            code = process.poll()
            if code is not None:
                log = self.out / "logs" / f"{name}.txt"
                said = log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
                raise ProcessError(
                    f"the process of {name!r} ended (code {code}); it said: {said[0]}"
                )

    def stop(self) -> None:
        """End every process, and those below them."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        until = time.monotonic() + 8.0
        for process in self.processes.values():
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except Exception:  # noqa: BLE001  it did not stop in time
                end_tree(process.pid)
                process.wait()
        self.processes.clear()

    @contextmanager
    def session(self) -> Iterator[Desk]:
        """Log in once every site is there."""
        wait_for_port(self.federation.port, timeout=_START_S, alive=self.check)
        until = time.monotonic() + _START_S
        while True:
            try:
                with desk(self.person()) as opened:
                    self._await_sites(opened, until)
                    yield opened
                    return
            except FederationError:
                self.check()
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def _await_sites(self, opened: Desk, until: float) -> None:
        while True:
            there = set(opened.sites())
            if there >= set(self.federation.names):
                return
            self.check()
            if time.monotonic() > until:
                lacking = ", ".join(sorted(set(self.federation.names) - there))
                raise ProcessError(f"no sign of {lacking} after {_START_S:.0f} s")
            time.sleep(0.3)

    def progress(self, run: str) -> tuple[str, float]:
        """Return the step that the coordinator is at, and the share that is done."""
        path = self.kit("coordinator") / "cofill" / "runs" / run / "run.json"
        if not path.exists():
            return "start", 0.0
        note = read_json(path)
        return note["step"], note["next"] / note["steps"]

    def run(self, order: RunOrder, *, tell: Tell | None = None, timeout: float = 600.0) -> dict:
        """Submit a run, wait for it, and return its outcome."""
        with self.session() as opened:
            job = opened.submit(order)

            def look() -> None:
                self.check()
                if tell is not None:
                    tell(*self.progress(order.run))

            opened.wait(job, timeout=timeout, look=look)
            return opened.outcome(job)


def write_local(out: Path, views: MultiView, *, people: bool = True) -> LocalFederation:
    """Write a federation of one site per view: tables, configurations, kits."""
    _fresh(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    sites = tuple(Member(name, name, (name,)) for name in views)
    people_here = (Person(SUBMITTER, "cofill", "submit"), Person(VIEWER, "cofill", "look"))
    federation = FederationConfig("local", "localhost", free_port(), sites, people_here)
    made = LocalFederation(out, federation)
    for k, (name, view) in enumerate(views.items()):
        folder = made.site(name)
        folder.mkdir(parents=True)
        table = f"{name}{_FORMS[k % len(_FORMS)]}"
        write_table(to_table(view), folder / table)
        if people:
            ids = "\n".join(map(str, views.ids.tolist()))
            (folder / "people.csv").write_text(f"{view.id_name}\n{ids}\n")
        text = site_toml({name: ViewSource(table, view.id_name)}, people=people)
        (folder / "site.toml").write_text(text)
    make_kits(federation, out / "kits")
    return made


def site_toml(views: Mapping[str, ViewSource], *, people: bool) -> str:
    """Return the text of a site's configuration."""
    lines = []
    for name, view in views.items():
        lines += [
            f"[views.{name}]",
            f"source = {json.dumps(view.source)}",
            f"id = {json.dumps(view.id)}",
            "",
        ]
        if people:
            lines += ["[people]", 'source = "people.csv"', f"id = {json.dumps(view.id)}", ""]
    lines += ["[agrees]", 'experiments = ["cooperate"]', "", "[results]", 'folder = "results"', ""]
    return "\n".join(lines)


def _fresh(out: Path) -> None:
    if (out / MARK).exists():
        shutil.rmtree(out)  # an earlier local federation; anything else is left alone
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(
            f"{out} exists and is no earlier local federation; give another --out or remove it"
        )


@contextmanager
def local_federation(
    out: Path, views: MultiView, *, people: bool = True
) -> Iterator[LocalFederation]:
    """Start a federation of one site per view; every process is ended when the block ends."""
    made = write_local(out.resolve(), views, people=people)
    try:
        for name in ("coordinator", *made.federation.names):
            made.start(name)
        yield made
    finally:
        made.stop()


def run_local(
    out: Path,
    *,
    sites: int = 3,
    data: str = "wdbc",
    missing: float = 0.3,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    tell: Tell | None = None,
) -> LocalResult:
    """Run cooperation between sites of this machine, some rows of each view missing."""
    started = time.monotonic()
    everything = load(data).views
    if not 2 <= sites <= len(everything):
        raise SettingError(
            f"--sites must be from 2 to {len(everything)}, the number of views of {data!r}, "
            f"got {sites}"
        )
    if not 0 < missing < 1:
        raise SettingError(f"--missing must be between 0 and 1, got {missing}")
    names = list(everything)[:sites]
    holed, _ = drop_rows(everything.select(names), missing, key=seed)
    order = RunOrder(new_run(), "cooperate", {**(settings or {}), "seed": seed})
    with local_federation(out, holed) as federation:
        if tell is not None:
            tell("start", 0.0)
        outcome = federation.run(order, tell=tell)
    _require_finished(outcome)
    write_json(federation.out / "metrics.json", outcome)
    return LocalResult(
        order.run,
        federation.out,
        time.monotonic() - started,
        outcome["metrics"],
        {name: federation.site(name) / "results" / order.run for name in names},
        {name: federation.kit(name) / "cofill" / "ledger.jsonl" for name in names},
    )


def _require_finished(outcome: Mapping[str, Any]) -> None:
    if outcome["state"] != "finished":
        raise FederationError(f"run {outcome['run']} {outcome['state']}: {outcome['why']}")
