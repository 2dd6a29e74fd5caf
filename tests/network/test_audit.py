"""An audit of a run over the network attacks the very bytes that the sites have sent."""

import shutil
from dataclasses import asdict, replace

import numpy as np

from cofill.attack import DecoderSettings, LinkageSettings
from cofill.audit import CodeAuditSettings, audit_run
from cofill.nets import FusionSettings
from cofill.protocol import FederationFolder

from .conftest import run_in_process

QUICK = CodeAuditSettings(
    pairs=("all",),
    decoders=DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()), draws=100),
    linkage=LinkageSettings(repeats=1, rounds=2),
)


def run_and_gather(federation, folder) -> FederationFolder:
    """Run a federation in one process and lay its files out as a federation's folder."""
    names = federation.federation.names
    coordinator = federation.office()
    run_in_process(coordinator, {name: federation.place(name) for name in names})
    gathered = FederationFolder(folder)
    for name in names:
        shutil.copytree(federation.base / name / "home", gathered.party(name).path)
        gathered.party(name).write_kit({"federation": asdict(federation.federation)})
        gathered.site(name).mkdir(parents=True)
        views = federation.configs[name].views.items()
        gathered.site_file(name).write_text(
            "".join(f'[views.{v}]\nsource = "{s.source}"\nid = "id"\n' for v, s in views)
        )
    order = federation.order
    gathered.write_metrics({"experiment": order.experiment, "settings": dict(order.settings)})
    return gathered


def verdicts(folder: FederationFolder, kind: str) -> set[str]:
    audit = audit_run(folder.path, codes=QUICK)
    return {release.individual for release in audit.releases if release.kind == kind}


def change_sent(folder: FederationFolder, kind: str, change) -> None:
    """Replace the releases of a type in what the sites have kept."""
    for name in folder.site_names:
        (run,) = folder.party(name).all_runs()
        for step in list(run.sent):
            releases = [change(r) if r.kind == kind else r for r in step.releases]
            run.sent.write(step.number, step.step, releases)


def test_codes_are_attacked_as_they_were_sent(here, tmp_path):
    folder = run_and_gather(here(), tmp_path / "federation")
    assert verdicts(folder, "codes") == {"near-total"}
    rng = np.random.default_rng(0)
    change_sent(folder, "codes", lambda r: replace(r, codes=rng.normal(size=r.codes.shape)))
    assert verdicts(folder, "codes") == {"none seen"}


def test_updates_are_attacked_as_they_were_sent(rows_here, tmp_path):
    folder = run_and_gather(rows_here(), tmp_path / "federation")
    audit = audit_run(folder.path, codes=QUICK)
    updates = [r for r in audit.releases if r.kind == "update"]
    assert len(updates) == 3
    for release in updates:
        assert "rounds 1, 2, 3 as they were sent" in release.notes[0]
        assert release.leaks[-1].attack != 0.5
    change_sent(folder, "update", lambda r: replace(r, change=np.zeros_like(r.change)))
    assert verdicts(folder, "update") == {"none seen"}
