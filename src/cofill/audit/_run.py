"""An audit of a finished run's folder: of a completion, the demo, or a federation.

A run that kept nothing of what it sent is audited by its ledger alone.
"""

import time
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cofill.attack import share_leak
from cofill.audit._audit import Audit
from cofill.audit._auditors import CERTAIN
from cofill.audit._codes import CodeAuditSettings
from cofill.audit._evidence import Evidence, read_evidence, start_row_sites
from cofill.audit._ledger import audit_ledger
from cofill.audit._release import AuditedRelease
from cofill.completion import METHODS, RULES, CompletionFolder, silent
from cofill.errors import CofillError, DataError, StoreError
from cofill.federate import FederatedCompletion, FederatedProtocol
from cofill.privacy import Ledger, SentLog
from cofill.protocol import FederationFolder, Membership, PartyFolder
from cofill.views import ColumnRules, MultiView, Source, View, is_url, read_view, sources_of

ReportProgress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class _Table:
    """Where a view's rows are, and how they are read."""

    source: str
    id: str | None
    rules: ColumnRules = field(default_factory=ColumnRules)
    image: tuple[int, ...] | None = None

    def read(self, name: str) -> View:
        # A completion's rules are about all of its views together.
        return read_view(
            name, self.source, id=self.id, rules=self.rules, image=self.image, is_only_view=False
        )


@dataclass(frozen=True, eq=False)
class _Run:
    """What a run's folder holds: ledgers, what was sent, and where the rows are, by site and view.

    ``row_protocol`` makes the protocol of sites that hold the same views, from their members.
    """

    title: str
    ledgers: tuple[Ledger, ...] = ()
    logs: tuple[SentLog, ...] = ()
    received: tuple[SentLog, ...] = ()
    tables: Mapping[str, Mapping[str, _Table]] = field(default_factory=dict)
    row_protocol: Callable[[Membership], FederatedProtocol] | None = None
    deal: Callable[[MultiView], Mapping[str, MultiView]] | None = None
    without_ledger: AuditedRelease | None = None
    notes: tuple[str, ...] = ()


def audit_run(
    folder: str | Path,
    *,
    views: Mapping[str, str] | None = None,
    attribute: tuple[str, str] | None = None,
    budget: float | int | None = None,
    codes: CodeAuditSettings | None = None,
    progress: ReportProgress | None = None,
) -> Audit:
    """Audit a finished run as the owner of its rows.

    Parameters
    ----------
    folder
        What `cofill complete`, `cofill demo` or `cofill federation local` wrote, or the kit of a
        site of a federation.
    views
        Where rows are now, by view, if they are no longer where the run read them.
    attribute
        A view and a column of it, to be inferred from codes.
    budget
        ε that every site may have spent.
    codes
        How to attack codes.
    progress
        Called with what is attacked and the share done.

    Raises
    ------
    DataError
        If the folder is no run's, or a type of release has no auditor.
    """
    started = time.perf_counter()
    report_progress = progress or silent
    run = _read_run(Path(folder))
    report_progress("read", 0.0)
    if run.without_ledger is not None:
        audit = Audit(title=run.title, releases=(run.without_ledger,), notes=run.notes)
    else:
        if not any(len(ledger) for ledger in run.ledgers):
            raise DataError(f"{folder} keeps no ledger of what left: there is nothing to audit")
        evidence = _evidence(run, dict(views or {}), codes or CodeAuditSettings(), attribute)
        audit = audit_ledger(
            run.ledgers, evidence, title=run.title, budget=budget, progress=report_progress
        )
        audit = replace(audit, notes=(*run.notes, *evidence.missing.values()))
    return replace(
        audit,
        settings={**audit.settings, "audit": "run", "folder": str(folder)},
        duration_s=time.perf_counter() - started,
    )


# --- evidence -------------------------------------------------------------------------------------


def _evidence(
    run: _Run, moved: Mapping[str, str], codes: CodeAuditSettings, attribute: tuple[str, str] | None
) -> Evidence:
    names = {view for tables in run.tables.values() for view in tables}
    unknown = sorted(set(moved) - names) if names else []
    if unknown:
        raise DataError(f"the run has no view {unknown[0]!r}; it has {', '.join(sorted(names))}")
    held: dict[str, dict[str, View]] = {}
    missing: dict[str, str] = {}
    for site, tables in run.tables.items():
        for name, table in tables.items():
            table = replace(table, source=moved.get(name, table.source))
            try:
                held.setdefault(site, {})[name] = table.read(name)
            except CofillError:
                missing[name] = missing[site] = (
                    f"the rows of view {name!r} cannot be read from {Source(table.source).label}; "
                    f"give them by --view {name}=SOURCE to have its releases attacked"
                )
    if run.deal is not None and not missing:
        (views,) = held.values()
        held = {site: dict(dealt) for site, dealt in run.deal(MultiView(views)).items()}
    counts = Counter(name for views in held.values() for name in views)
    single = {
        name if counts[name] == 1 else f"{name}@{site}": view
        for site, views in held.items()
        for name, view in views.items()
        # Of a view that several sites hold, sites by view have a party each.
        if counts[name] == 1 or run.row_protocol is None
    }
    return read_evidence(
        run.logs,
        received=run.received,
        views=single,
        held=held,
        row_sites={} if missing or run.row_protocol is None else _row_sites(run.row_protocol, held),
        missing=missing,
        codes=codes,
        attribute=attribute,
    )


def _row_sites(
    make_protocol: Callable[[Membership], FederatedProtocol], held: Mapping[str, Mapping[str, View]]
) -> dict[str, Any]:
    site_views = {site: tuple(views) for site, views in held.items()}
    shared = tuple(dict.fromkeys(name for names in site_views.values() for name in names))
    return start_row_sites(make_protocol(Membership(site_views, shared)), held)


# --- folders --------------------------------------------------------------------------------------


def _read_run(folder: Path) -> _Run:
    if not folder.is_dir():
        raise DataError(f"{folder} must be the folder of a finished run, got no such folder")
    if CompletionFolder(folder).record.is_file():
        return _read_completion(CompletionFolder(folder))
    completed = CompletionFolder(folder / "completed")
    if completed.record.is_file():
        run = _read_completion(completed)
        return replace(run, notes=(*run.notes, *_other_ledgers(folder)))
    if FederationFolder(folder).site_names:
        return _read_federation(FederationFolder(folder))
    for party in (PartyFolder(folder / "cofill"), PartyFolder(folder)):
        if party.ledger.is_file():
            return _read_party(party)
    raise DataError(
        f"{folder} must hold completion.json (of cofill complete or demo) or a ledger (of a "
        "federation or a site's kit), got neither"
    )


def _other_ledgers(folder: Path) -> list[str]:
    """Name ledgers of other runs in the folder, so that none is left out in silence."""
    ledgers = [p for p in sorted(folder.glob("*/ledger.jsonl")) if p.parent.name != "completed"]
    return [
        f"{path} is the ledger of another run, which is not audited here; of a demo, its own audit "
        f"covers it, and else: cofill audit run {path.parent}"
        for path in ledgers
    ]


def _read_completion(folder: CompletionFolder) -> _Run:
    record = folder.read_record()
    try:
        job = record["settings"]
        method, seed, settings = str(job["method"]), job["seed"], job["settings"]
        rules = ColumnRules(**{name: job[name] for name in RULES if name in job})
        tables = {
            site: {name: _Table(_locate(str(source), folder.path), job["id"], rules)}
            for name, sources in job["sources"].items()
            for site, source in _sites_of(name, sources)
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{folder.record} is no record of a completion ({type(error).__name__})"
        ) from None
    title = f"Completion by {method}"
    if METHODS.find(method).facts["pools_rows"] or method == "mean":
        return _Run(title, without_ledger=_without_ledger(method))
    run = _Run(
        title,
        ledgers=(Ledger.load(folder.ledger),) if folder.ledger.is_file() else (),
        logs=(folder.sent,) if folder.sent.exists else (),
        tables=tables,
    )
    # Settings objects that were given in Python are tables in the record, and cannot be told back.
    is_plain = not any(isinstance(settings.get(k), Mapping) for k in ("local", "settings"))
    if method == FederatedCompletion.name and is_plain:
        estimator = FederatedCompletion(**settings).set_params(seed=seed)
        merged = {"": {name: t for views in tables.values() for name, t in views.items()}}
        return replace(run, tables=merged, row_protocol=estimator.protocol, deal=estimator.deal)
    return run


def _sites_of(name: str, sources: Any) -> list[tuple[str, Any]]:
    """Return a site and a source for each table of a view; sites of several are numbered."""
    parts = sources_of(sources)
    if len(parts) == 1:
        return [(name, parts[0])]
    return [(f"{name}-{number}", part) for number, part in enumerate(parts, start=1)]


def _without_ledger(method: str) -> AuditedRelease:
    """Return the audited release of a method without sites: all rows, or nothing."""
    facts: dict[str, Any] = {"kind": "rows", "sender": "every owner", "receiver": "one place"}
    if method == "mean":
        return AuditedRelease(
            **facts,
            what="nothing",
            personal=False,
            reason="each view is completed by itself: nothing leaves its owner",
        )
    leak = share_leak(
        1,
        1,
        name="rows are pooled",
        threat=f"whoever runs {method} has all rows in one place",
        figure="share of rows given away",
        **CERTAIN,
    )
    return AuditedRelease(**facts, what="all rows", leaks=(replace(leak, interval=(1.0, 1.0)),))


def _locate(source: str, folder: Path) -> str:
    """Return a source, or where it is if the tree was moved or is seen from elsewhere."""
    if is_url(source) or Path(source).exists():
        return source
    parts = Path(source).parts
    for length in range(1, len(parts)):
        moved = folder.parent.joinpath(*parts[-length:])
        if moved.is_file():
            return str(moved)
    return source


def _read_party(party: PartyFolder) -> _Run:
    """Return a site's ledger and what it sent in its last run; its rows are not in its kit."""
    runs = [run for run in party.all_runs() if run.sent.exists]
    return _Run(
        "One site's ledger",
        ledgers=(Ledger.load(party.ledger),),
        logs=tuple(run.sent for run in runs[-1:]),
        received=tuple(run.received for run in runs[-1:]),
    )


def _read_federation(folder: FederationFolder) -> _Run:
    parties = {name: _read_party(folder.party(name)) for name in folder.site_names}
    tables = {
        name: _read_site_file(folder, name) for name in parties if folder.site_file(name).is_file()
    }
    run = _Run(
        "Federation",
        ledgers=tuple(ledger for party in parties.values() for ledger in party.ledgers),
        logs=tuple(log for party in parties.values() for log in party.logs),
        received=tuple(log for party in parties.values() for log in party.received),
        tables=tables,
    )
    if not folder.metrics.is_file():
        note = "the run's settings are not in the folder: updates cannot be attacked without them"
        return replace(run, notes=(note,))
    metrics = folder.read_metrics()
    experiment, settings = metrics.get("experiment"), dict(metrics.get("settings", {}))
    row_protocol = None
    if experiment == FederatedProtocol.name:
        row_protocol = lambda members: FederatedProtocol.from_settings(settings, members)  # noqa: E731
    return replace(run, title=f"Federation, {experiment}", row_protocol=row_protocol)


def _read_site_file(folder: FederationFolder, site: str) -> dict[str, _Table]:
    path = folder.site_file(site)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        views = content.get("views", {}).items()
        id_type = folder.party(site).read_kit()["federation"].get("id_type")
        return {
            name: _Table(
                view["source"] if is_url(view["source"]) else str(path.parent / view["source"]),
                view["id"],
                ColumnRules(**{r: view[r] for r in RULES if r in view}, id_type=id_type),
                tuple(view["image"]) if "image" in view else None,
            )
            for name, view in views
        }
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise StoreError(f"{path} must be a readable site.toml beside its kit") from None
