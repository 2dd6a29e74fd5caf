"""A whole federation on this machine, for trying and for tests: real processes, mutual TLS.

Everything lies under one folder: kits, each site's table, configuration, results and ledger, the
coordinator's metrics. Every process is ended when the block ends, however it ends.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np

from cofill.errors import DataError, SettingError
from cofill.network._config import FederationConfig, Member, Person, ViewSource
from cofill.network._kits import Kit, make_kits
from cofill.network._order import RunOrder, new_run
from cofill.network._policy import POLICY_FILE
from cofill.network._policy_signature import sign_policy
from cofill.network._processes import ProcessError, end_tree, free_port, start_party, wait_for_port
from cofill.network._session import FederationError, Session, open_session
from cofill.privacy import release_types
from cofill.protocol import COORDINATOR, FederationFolder, RunFolder
from cofill.views import MultiView, View, by_row, drop_rows, load, to_table, write_sql, write_table

MARK = ".cofill-federation"
SUBMITTER, VIEWER = "submitter@localhost.local", "viewer@localhost.local"
# Until every process must be there, in all and for each site: each imports FLARE first.
_START_S, _SITE_START_S = 60.0, 10.0
TRIAL_POLICY = """\
# A trial: every party of this federation is on one machine, in the hands of one person. Between
# organisations start from the default, `cofill site policy`.
smallest_group = 1
participants = 1
secure_sums = false
code_share = inf
keyed_hashes = true
[training]
learning_rate = [1e-12, 10.0]
epochs = 1
[budget]
epsilon = 100.0
per_run = 100.0
"""
_FORMS = (".csv", ".parquet", None)  # None: a database
ReportProgress = Callable[[str, float], None]


@dataclass(frozen=True)
class LocalResult:
    """What a local run made."""

    run: str
    out: Path
    seconds: float
    outcome: Mapping[str, Any]
    results: Mapping[str, Path]
    ledgers: Mapping[str, Path]
    database: str
    rounds: Mapping[str, float]


@dataclass(frozen=True)
class LocalFederation(FederationFolder):
    """Coordinator and sites as processes, under one folder."""

    federation: FederationConfig
    processes: dict[str, Popen[bytes]] = field(default_factory=dict)

    def person(self, name: str = SUBMITTER) -> Kit:
        """Return a person's kit: whoever submits, or may look only."""
        return Kit.read(self.path / "kits" / "people" / name, "person")

    def start(self, name: str) -> None:
        """Start a party as a process of its own."""
        words = ["site", "--config", str(self.site_file(name))]
        words = [COORDINATOR] if name == COORDINATOR else words
        words += ["--kit", str(self.kit(name))]
        # A trial leaves nothing in the user's own folder.
        keys = {"COFILL_KEYS": str(self.keys)}
        self.processes[name] = start_party(words, self._log(name), **keys)

    @property
    def keys(self) -> Path:
        """The folder of keys of all sites."""
        return self.path / "keys"

    def _log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.txt"

    def check(self) -> None:
        """Raise unless every party's process is alive."""
        for name, process in self.processes.items():
            code = process.poll()
            if code is not None:
                words = self._log(name).read_text(errors="replace").strip() or "nothing"
                last = words.splitlines()[-1]
                raise ProcessError(f"the process of {name!r} ended (code {code}); it said: {last}")

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
    def session(self) -> Iterator[Session]:
        """Log in once every site is there."""
        seconds = max(_START_S, _SITE_START_S * len(self.federation.sites))
        wait_for_port(self.federation.port, timeout=seconds, alive=self.check)
        until = time.monotonic() + seconds
        with ExitStack() as kept:  # what is done with the session is not tried again
            while True:
                try:
                    with ExitStack() as trial:
                        opened = trial.enter_context(open_session(self.person()))
                        self._await_sites(opened, until)
                        kept.enter_context(trial.pop_all())
                    break
                except FederationError:
                    self.check()
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.5)
            yield opened

    def _await_sites(self, opened: Session, until: float) -> None:
        while True:
            there = set(opened.sites())
            if there >= set(self.federation.names):
                return
            self.check()
            if time.monotonic() > until:
                lacking = ", ".join(sorted(set(self.federation.names) - there))
                raise ProcessError(f"no sign of {lacking} in time")
            time.sleep(0.3)

    def run_folder(self, party: str, run: str) -> RunFolder:
        """Return what a party keeps of a run."""
        return self.party(party).run(run)

    def progress(self, run: str) -> tuple[str, float]:
        """Return the step that the coordinator is at, and the share that is done."""
        note = self.run_folder("coordinator", run).read_note()
        if note is None:
            return "start", 0.0
        return note["step"], note["at"] / note["steps"]

    def run(
        self, order: RunOrder, report_progress: ReportProgress | None = None, timeout: float = 600.0
    ) -> dict:
        """Submit a run, wait for it, and return its outcome."""

        def look() -> None:
            self.check()
            if report_progress is not None:
                report_progress(*self.progress(order.run))

        with self.session() as opened:
            job = opened.submit(order)
            opened.wait(job, timeout=timeout, look=look)
            return opened.outcome(job)


def write_local(
    out: Path,
    held: MultiView | Mapping[str, MultiView],
    *,
    people: bool = True,
    database: str | None = None,
) -> LocalFederation:
    """Write a federation into a folder: tables, configurations, kits.

    ``held`` is a `MultiView` for one site per view, or the views of each site: a view of several
    sites is one that they share, of other individuals each. With ``people``, sites may name
    everybody. ``database`` is the URL of a database into which every third site's tables go.
    """
    _fresh(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    site_views = _by_site(held)
    config = _federation_of(site_views)
    federation = LocalFederation(out, config)
    everybody = np.unique(np.concatenate([views.ids for views in site_views.values()]))
    for k, (name, views) in enumerate(site_views.items()):
        folder = federation.site(name)
        folder.mkdir(parents=True)
        form = _FORMS[k % len(_FORMS)]
        if form is None and database is None:
            form = _FORMS[k % 2]
        sources = {}
        for view in views.values():
            source = _write_view(view, name, folder, form, database)
            sources[view.name] = ViewSource(source, view.id_name, image=view.image_shape)
        if people:
            ids = "\n".join(map(str, everybody.tolist()))
            id_name = next(iter(views.values())).id_name
            (folder / "people.csv").write_text(f"{id_name}\n{ids}\n")
        configuration = folder / "site.toml"
        configuration.touch(mode=0o600)  # a source may hold a password
        configuration.write_text(site_toml(sources, people=people))
        (folder / POLICY_FILE).write_text(trial_policy())
        sign_policy(folder / POLICY_FILE, "trial", federation.keys)
    make_kits(config, out / "kits")
    return federation


def _by_site(held: MultiView | Mapping[str, MultiView]) -> dict[str, MultiView]:
    """Return the views of each site."""
    if isinstance(held, MultiView):
        return {name: MultiView([view]) for name, view in held.items()}
    return dict(held)


def _federation_of(site_views: Mapping[str, MultiView]) -> FederationConfig:
    """Return a federation of this machine: who holds what, who may submit and look."""
    holders = Counter(view for views in site_views.values() for view in views)
    shared = tuple(view for view, sites in holders.items() if sites > 1)
    sites = tuple(Member(name, name, tuple(views)) for name, views in site_views.items())
    people = (Person(SUBMITTER, "cofill", "submit"), Person(VIEWER, "cofill", "look"))
    return FederationConfig("local", "localhost", free_port(), sites, people, shared=shared)


def _write_view(view: View, site: str, folder: Path, form: str | None, database: str | None) -> str:
    """Write a view where its site will read it from; return the source."""
    if form is None:
        table = f"{site}_{view.name}"
        write_sql({table: to_table(view)}, str(database))
        return f"{database}#{table}"
    write_table(to_table(view), folder / f"{view.name}{form}")
    return f"{view.name}{form}"


def site_toml(views: Mapping[str, ViewSource], *, people: bool) -> str:
    """Return the text of a site's configuration."""
    tables: dict[str, dict[str, Any]] = {}
    for name, view in views.items():
        image = {} if view.image is None else {"image": list(view.image)}
        tables[f"views.{name}"] = {"source": view.source, "id": view.id, **image}
    if people:
        tables["people"] = {"source": "people.csv", "id": next(iter(views.values())).id}
    tables["results"] = {"folder": "results"}
    # JSON's texts, numbers and lists are also TOML's.
    return "\n".join(
        "\n".join([f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in table.items()), ""])
        for name, table in tables.items()
    )


def trial_policy() -> str:
    """Return a policy that allows every experiment and every type of release."""
    plain = (f"[without_guarantee.{kind}]\npeople = 1\n" for kind in release_types())
    return TRIAL_POLICY + "".join(plain)


def _fresh(out: Path) -> None:
    if (out / MARK).exists():
        shutil.rmtree(out)  # an earlier local federation; anything else is left alone
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(
            f"{out} exists and is no earlier local federation; give another --out or remove it"
        )


@contextmanager
def local_federation(
    out: Path, held: MultiView | Mapping[str, MultiView], **options: Any
) -> Iterator[LocalFederation]:
    """Start a federation as `write_local` writes it; every process is ended with the block."""
    federation = write_local(out.resolve(), held, **options)
    try:
        for name in (COORDINATOR, *federation.federation.names):
            federation.start(name)
        yield federation
    finally:
        federation.stop()


def run_local(
    out: Path,
    *,
    experiment: str = "private",
    sites: int = 3,
    data: str | None = None,
    missing: float = 0.3,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    database: str | None = None,
    report_progress: ReportProgress | None = None,
) -> LocalResult:
    """Run an experiment between sites of this machine.

    By view (``"cooperate"`` and ``"private"``, on WDBC) each site has a view of which some rows are
    missing; else each site has other individuals (of the digits), for ``"federate"`` with some rows
    missing. One site in three reads from Parquet, one from CSV, one from a database: that of the
    URL `database`, or an SQLite file in the folder, where an audit finds it.
    """
    from cofill.network._order import schedule_of

    started = time.monotonic()
    if not 0 < missing < 1:
        raise SettingError(f"--missing must be between 0 and 1, got {missing}")
    order = RunOrder(new_run(), experiment, {**(settings or {}), "seed": seed})
    held = _deal_views(order, data, sites, missing, seed)
    schedule_of(order, _federation_of(_by_site(held)))  # a wrong setting is told before all else
    out = out.resolve()
    _fresh(out)
    people = order.splits_by_view
    url = database or f"sqlite:///{out}/tables.db"
    with local_federation(out, held, people=people, database=url) as federation:
        if report_progress is not None:
            report_progress("start", 0.0)
        outcome = federation.run(order, report_progress=report_progress)
    names = federation.federation.names
    times = _times(federation, order.run)
    if outcome["state"] != "finished":
        raise FederationError(f"run {outcome['run']} {outcome['state']}: {outcome['why']}")
    metrics = {**outcome, "database": _brand(url), "rounds": times}
    federation.write_metrics(metrics)
    return LocalResult(
        order.run,
        federation.path,
        time.monotonic() - started,
        outcome,
        {name: federation.site(name) / "results" / order.run for name in names},
        {name: federation.party(name).ledger for name in names},
        _brand(url),
        times,
    )


def _deal_views(
    order: RunOrder, data: str | None, sites: int, missing: float, seed: int
) -> MultiView | dict[str, MultiView]:
    """Return what each site holds."""
    everything = load(data or ("wdbc" if order.splits_by_view else "digits")).views
    if order.splits_by_view:
        if not 2 <= sites <= len(everything):
            raise SettingError(
                f"--sites must be from 2 to {len(everything)}, the number of views of "
                f"{data or 'wdbc'!r}, got {sites}"
            )
        chosen = everything.select(list(everything)[:sites])
        return drop_rows(chosen, missing, key=seed)[0]
    if not 2 <= sites <= 100:
        raise SettingError(f"--sites must be from 2 to 100, got {sites}")
    if order.experiment == "federate":
        everything, _ = drop_rows(everything, missing, key=seed)
    return by_row(everything, sites, key=seed)


def _brand(url: str) -> str:
    return "SQLite" if url.startswith("sqlite") else "PostgreSQL"


def _times(federation: LocalFederation, run: str) -> dict[str, float]:
    """Return the mean seconds of a round, of its training at the slowest site, and between.

    The first round is left out: programs are compiled in it.
    """
    coordinator_times = federation.run_folder("coordinator", run).read_times()
    rounds: list[list[tuple[int, float]]] = []
    for line in coordinator_times:
        if line["name"] == "invite":
            rounds.append([])
        if rounds and line["name"] not in ("hand out", "take the model", "report"):
            rounds[-1].append((line["step"], line["seconds"]))
    if len(rounds) < 2:
        return {}
    work: dict[int, float] = {}
    for name in federation.federation.names:
        for line in federation.run_folder(name, run).read_times():
            work[line["step"]] = max(work.get(line["step"], 0.0), line["seconds"])
    later = rounds[1:]
    wall = sum(seconds for steps in later for _, seconds in steps) / len(later)
    trained = sum(work.get(step, 0.0) for steps in later for step, _ in steps) / len(later)
    return {"round_s": wall, "training_s": trained, "overhead_s": wall - trained}
