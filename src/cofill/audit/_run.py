"""An audit of a finished run's folder: of a completion, the demo, or a federation."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cofill.attack import share_leak
from cofill.audit._audit import Audit
from cofill.audit._codes import CodeAuditSettings
from cofill.audit._evidence import evidence_of
from cofill.audit._ledger import audit_ledger
from cofill.audit._release import AuditedRelease
from cofill.audit._update import UpdateAuditSettings
from cofill.completion import METHODS, make, silent
from cofill.cooperate import CooperativeReconstruction, settings_from_json
from cofill.errors import CofillError, DataError, StoreError
from cofill.privacy import Ledger
from cofill.views import Source, View, is_url, read_views

__all__ = ["audit_run"]

ReportProgress = Callable[[str, float], None]
_MADE_ANEW = (
    "the run kept no ledger: what it released was made anew as far as the first codes; questions "
    "about people whom a site lacks, and the answers, are of the same types"
)


@dataclass(frozen=True, eq=False)
class _Run:
    """What a run's folder tells: its ledgers, where its rows are, how it was run."""

    title: str
    ledgers: tuple[Ledger, ...]
    sources: Mapping[str, Mapping[str, Any]]
    estimator: CooperativeReconstruction | None
    pooled: str = ""
    alone: str = ""
    notes: tuple[str, ...] = field(default=())


def audit_run(
    folder: str | Path,
    *,
    views: Mapping[str, str] | None = None,
    attribute: tuple[str, str] | None = None,
    budget: float | int | None = None,
    codes: CodeAuditSettings | None = None,
    updates: UpdateAuditSettings | None = None,
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
    codes, updates
        How to attack.
    progress
        Told what is attacked.

    Raises
    ------
    DataError
        If the folder is no run's, or a type of release has no auditor.
    """
    started = time.perf_counter()
    report_progress = progress or silent
    run = _read(Path(folder))
    report_progress("read", 0.0)
    if run.pooled or run.alone:
        audit = Audit(title=run.title, releases=(_without_ledger(run),))
    else:
        found, missing = _rows(run, dict(views or {}))
        report_progress("train encoders", 0.0)
        evidence = evidence_of(
            found,
            run.estimator,
            missing=missing,
            codes=codes,
            updates=updates,
            attribute=attribute,
        )
        ledgers = run.ledgers or (evidence.ledger,)
        if not any(len(ledger) for ledger in ledgers):
            why = "; ".join(missing.values()) or "no two views share an individual"
            raise DataError(f"{folder} keeps no ledger, and it cannot be made anew: {why}")
        audit = audit_ledger(
            ledgers, evidence, title=run.title, budget=budget, progress=report_progress
        )
        made = () if run.ledgers else (_MADE_ANEW,)
        audit = replace(audit, notes=(*run.notes, *made, *missing.values()))
    return replace(
        audit,
        settings={**audit.settings, "audit": "run", "folder": str(folder)},
        duration_s=time.perf_counter() - started,
    )


def _without_ledger(run: _Run) -> AuditedRelease:
    facts: dict[str, Any] = {"kind": "rows", "sender": "every owner", "receiver": "one place"}
    if run.alone:
        return AuditedRelease(
            **facts, what="nothing", personal=False, reason=f"{run.alone}: nothing leaves its owner"
        )
    leak = share_leak(
        1,
        1,
        name="rows are pooled",
        threat=f"whoever runs {run.pooled} has all rows in one place",
        figure="share of rows given away",
        scope="individual",
        floor=0.0,
        ceiling=1.0,
    )
    return AuditedRelease(**facts, what="all rows", leaks=(replace(leak, interval=(1.0, 1.0)),))


# --- what lies in folders -------------------------------------------------------------------------


def _read(folder: Path) -> _Run:
    if not folder.is_dir():
        raise DataError(f"{folder} must be the folder of a finished run, got no such folder")
    if (folder / "completion.json").is_file():
        return _completion(folder)
    if (folder / "completed" / "completion.json").is_file():
        found = _completion(folder / "completed")
        return replace(found, notes=(*found.notes, *_beside(folder)))
    if any(folder.glob("kits/sites/*/cofill/ledger.jsonl")):
        return _federation(folder)
    for path in (folder / "cofill" / "ledger.jsonl", folder / "ledger.jsonl"):
        if path.is_file():
            return _Run("One site's ledger", (Ledger.load(path),), {}, None)
    raise DataError(
        f"{folder} must hold completion.json (of cofill complete or demo) or a ledger (of a "
        "federation or a site's kit), got neither"
    )


def _beside(folder: Path) -> list[str]:
    """Name ledgers of other runs in the folder, so that none is left out in silence."""
    others = [p for p in sorted(folder.glob("*/ledger.jsonl")) if p.parent.name != "completed"]
    return [
        f"{path} is the ledger of another run, which is not audited here; of a demo, its own audit "
        f"covers it, and else: cofill audit run {path.parent}"
        for path in others
    ]


def _completion(folder: Path) -> _Run:
    facts = _json(folder / "completion.json")
    try:
        given, method = facts["settings"], str(facts["settings"]["method"])
        common = {k: given[k] for k in ("id", "kinds", "ignore", "id_type")}
        sources = {
            name: {"source": _found(str(source), folder), **common}
            for name, source in given["sources"].items()
        }
        settings, seed = given["settings"], given["seed"]
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{folder / 'completion.json'} is no record of a completion ({type(error).__name__})"
        ) from None
    title = f"Completion by {method}"
    ledger = folder / "ledger.jsonl"
    ledgers = (Ledger.load(ledger),) if ledger.is_file() else ()
    if METHODS.find(method).facts["pools_rows"]:
        return _Run(title, (), sources, None, pooled=method)
    if method == "mean":
        return _Run(title, (), sources, None, alone="each view is completed by itself")
    estimator = make(method, **settings_from_json(settings))
    if isinstance(estimator, CooperativeReconstruction):
        return _Run(title, ledgers, sources, estimator.set_params(seed=seed))
    return _Run(title, ledgers, sources, None)


def _found(source: str, folder: Path) -> str:
    """Return a source, or where it lies if the tree was moved or is seen from elsewhere."""
    if is_url(source) or Path(source).exists():
        return source
    parts = Path(source).parts
    for keep in range(1, len(parts)):
        moved = folder.parent.joinpath(*parts[-keep:])
        if moved.is_file():
            return str(moved)
    return source


def _federation(folder: Path) -> _Run:
    ledgers = tuple(Ledger.load(p) for p in sorted(folder.glob("kits/sites/*/cofill/ledger.jsonl")))
    kits = [_json(p) for p in sorted(folder.glob("kits/sites/*/cofill/kit.json"))]
    id_type = kits[0].get("federation", {}).get("id_type") if kits else None
    sources: dict[str, dict[str, Any]] = {}
    order: list[str] = []
    for kit in kits[:1]:
        order = [v for site in kit["federation"]["sites"] for v in site["views"]]
    for path in sorted(folder.glob("sites/*/site.toml")):
        for name, view in _toml(path).get("views", {}).items():
            source = view["source"]
            where = source if is_url(source) else str(path.parent / source)
            label = name if name not in sources else f"{path.parent.name}/{name}"
            sources[label] = {
                "source": where,
                "id": view["id"],
                "kinds": view.get("kinds", {}),
                "ignore": tuple(view.get("ignore", ())),
                "id_type": id_type,
            }
    listed = {name: sources[name] for name in order if name in sources} | sources
    outcome = folder / "metrics.json"
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    experiment = "cooperate"
    if outcome.is_file():
        told = _json(outcome)
        experiment, settings = told.get("experiment", experiment), dict(told.get("settings", {}))
    else:
        notes = ("the run's settings are not in the folder: the usual ones were taken",)
    estimator = None
    if experiment == "cooperate":
        settings.pop("alignment", None)
        estimator = CooperativeReconstruction(**settings_from_json(settings))
    return _Run(f"Federation, {experiment}", ledgers, listed, estimator, notes=notes)


def _rows(run: _Run, instead: dict[str, str]) -> tuple[dict[str, View], dict[str, str]]:
    """Return the rows that are still there, and a sentence for each view whose are not."""
    unknown = sorted(set(instead) - set(run.sources)) if run.sources else []
    if unknown:
        raise DataError(f"the run has no view {unknown[0]!r}; it has {', '.join(run.sources)}")
    found: dict[str, View] = {}
    missing: dict[str, str] = {}
    for name, given in run.sources.items():
        rest = {k: v for k, v in given.items() if k != "source"}
        source = str(instead.get(name, given["source"]))
        try:
            found[name] = read_views({name: source}, **rest)[name]
        except CofillError:
            missing[name] = (
                f"the rows of view {name!r} cannot be read from {Source(source).label}; give them "
                f"by --view {name}=SOURCE to have its releases attacked"
            )
    return found, missing


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise StoreError(f"{path} must be readable JSON of a run; run it again") from None
    if not isinstance(found, dict):
        raise StoreError(f"{path} must be a record of a run, got something else")
    return found


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise StoreError(f"{path} must be a readable site.toml") from None
