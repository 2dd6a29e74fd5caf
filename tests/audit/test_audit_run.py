"""Audits of a finished run's folder: a completion, a federation, and what is not there."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from cofill.attack import DecoderSettings, LinkageSettings
from cofill.audit import CodeAuditSettings, audit_run
from cofill.audit._run import _other_ledgers
from cofill.completion import CompletionFolder, CompletionJob, run_completion
from cofill.errors import DataError, InputError, StoreError
from cofill.nets import FusionSettings, TrainSettings
from cofill.privacy import Ledger, LedgerEntry, SentLog
from cofill.protocol import FederationFolder
from cofill.views import MultiView, to_table, write_table

QUICK = CodeAuditSettings(
    pairs=(0, 10, "all"),
    decoders=DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()), draws=200),
    linkage=LinkageSettings(repeats=1, rounds=5),
)
SHORT = {
    "fusion": FusionSettings(hidden=()),
    "encoder_training": TrainSettings(epochs=60, learning_rate=1e-2),
}


def people(count=120):
    x = np.random.default_rng(0).exponential(size=(count, 3)) * [3, 2, 1]
    there = np.arange(count) >= 12
    return MultiView.from_arrays({"clinic": x, "lab": x @ np.ones((3, 4)) + x[:, [0, 1, 2, 0]]},
                                 presence={"lab": there})  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A completion of two tables."""
    place = tmp_path_factory.mktemp("run")
    views = people()
    for name in views:
        write_table(to_table(views[name]), place / f"{name}.csv")
    sources = {name: str(place / f"{name}.csv") for name in views}
    out = str(place / "completed")
    job = CompletionJob(
        sources, views["lab"].id_name, out, separate=True, method="cooperative", settings=SHORT
    )
    run_completion(job)
    return place


def test_a_completion_is_audited_by_what_was_sent(run):
    audit = audit_run(run / "completed", codes=QUICK)
    releases = {(r.kind, r.sender): r for r in audit.releases}
    assert set(releases) == {(k, s) for k in ("codes", "blinded-ids") for s in ("clinic", "lab")}
    codes = releases["codes", "clinic"]
    assert codes.individual == "near-total"
    assert codes.notes == ()
    names = {leak.name for leak in codes.leaks}
    assert "code inversion, all pairs, beside lab's rows" in names
    assert "code inversion, 0 pairs" in names
    linked = [leak.name for r in audit.releases for leak in r.leaks if "linkage" in leak.name]
    assert linked
    assert all("with codes of lab" in name for name in linked)
    assert audit.notes == ()


def replace_codes_by_noise(log: SentLog) -> None:
    """Replace the codes in a log, as if noise had been sent."""
    rng = np.random.default_rng(1)
    for step in list(log):
        releases = [
            replace(r, codes=rng.normal(size=r.codes.shape)) if r.kind == "codes" else r
            for r in step.releases
        ]
        log.write(step.number, step.step, releases)


def test_what_is_attacked_is_what_was_sent(run, tmp_path):
    changed = tmp_path / "completed"
    shutil.copytree(run / "completed", changed)
    replace_codes_by_noise(CompletionFolder(changed).sent)
    for folder, verdicts in ((run / "completed", {"near-total"}), (changed, {"none seen"})):
        codes = [r for r in audit_run(folder, codes=QUICK).releases if r.kind == "codes"]
        assert {r.individual for r in codes} == verdicts


def test_updates_of_a_federated_completion_are_attacked_as_they_were_sent(run, tmp_path):
    network = {"width": 8, "blocks": 1}
    settings = {"sites": 3, "secure": False, "rounds": 2, "batch": 8, "network": network}
    sources = {name: str(run / f"{name}.csv") for name in ("clinic", "lab")}
    id_name = people()["lab"].id_name
    out = CompletionFolder(tmp_path / "completed")
    run_completion(
        CompletionJob(sources, id_name, str(out.path), method="federated", settings=settings)
    )
    updates = [r for r in audit_run(out.path).releases if r.kind == "update"]
    assert [r.sender for r in updates] == ["site_1", "site_2", "site_3"]
    assert all("rounds 1, 2 as they were sent" in r.notes[0] for r in updates)
    for step in list(out.sent):
        releases = [
            replace(r, change=np.zeros_like(r.change)) if r.kind == "update" else r
            for r in step.releases
        ]
        out.sent.write(step.number, step.step, releases)
    updates = [r for r in audit_run(out.path).releases if r.kind == "update"]
    assert {r.individual for r in updates} == {"none seen"}


def test_sums_of_tables_are_attacked_as_they_were_sent(run, tmp_path):
    sources = {name: str(run / f"{name}.csv") for name in ("clinic", "lab")}
    out = CompletionFolder(tmp_path / "completed")
    settings = {"sites": 2, "secure": False, "rounds": 14}  # nothing about training: from sums
    job = (sources, people()["lab"].id_name, str(out.path))
    run_completion(CompletionJob(*job, method="federated", settings=settings))
    updates = [r for r in audit_run(out.path).releases if r.kind == "update"]
    assert [r.sender for r in updates] == ["site_1", "site_2"]
    (areas,) = zip(*([leak for leak in r.leaks if leak.floor == 0.5] for r in updates), strict=True)
    assert all(area.attack > max(area.control, 0.6) for area in areas)  # both sites are told apart


def test_nothing_is_attacked_where_nothing_was_kept(run, tmp_path):
    old = tmp_path / "completed"
    shutil.copytree(run / "completed", old)
    shutil.rmtree(old / "sent")
    audit = audit_run(old, codes=QUICK)
    assert audit.verdict == "not attacked"
    assert all("kept no values" in r.reason for r in audit.releases)


def test_an_attribute_is_inferred_when_asked_for(run):
    feature = people()["lab"].feature_names[0]
    audit = audit_run(run / "completed", codes=QUICK, attribute=("lab", feature))
    names = [leak.name for r in audit.releases for leak in r.leaks]
    assert f"inference of lab.{feature}, all pairs" in names


def test_people_without_a_row_are_counted(run, tmp_path):
    clinic = people()["clinic"]
    write_table(to_table(clinic.take(np.arange(60))), tmp_path / "fewer.csv")
    audit = audit_run(run / "completed", views={"clinic": str(tmp_path / "fewer.csv")}, codes=QUICK)
    codes = next(r for r in audit.releases if (r.kind, r.sender) == ("codes", "clinic"))
    assert "60 have no row in the tables at hand" in codes.notes[0]


def test_rows_that_are_gone_are_told_and_can_be_named_anew(run, tmp_path):
    moved = tmp_path / "completed"
    shutil.copytree(run / "completed", moved)
    facts = json.loads((moved / "completion.json").read_text())
    facts["settings"]["sources"]["lab"] = "gone/elsewhere.csv"
    (moved / "completion.json").write_text(json.dumps(facts))
    audit = audit_run(moved, codes=QUICK)
    lab = next(r for r in audit.releases if (r.kind, r.sender) == ("codes", "lab"))
    assert lab.individual == "not attacked"
    assert "--view lab=SOURCE" in lab.reason
    assert any("--view lab=SOURCE" in note for note in audit.notes)
    audit = audit_run(moved, views={"lab": str(run / "lab.csv")}, codes=QUICK)
    assert audit.verdict == "near-total"
    with pytest.raises(DataError, match="no view 'ward'"):
        audit_run(moved, views={"ward": "x.csv"})


def test_a_run_whose_ledger_was_not_kept_is_refused(run, tmp_path):
    moved = tmp_path / "completed"
    shutil.copytree(run / "completed", moved)
    (moved / "ledger.jsonl").unlink()
    with pytest.raises(DataError, match="keeps no ledger of what left"):
        audit_run(moved, codes=QUICK)


def by_method(folder, method):
    settings = {
        "sources": {}, "id": "id", "kinds": {}, "ignore": [], "id_type": None, "method": method,
        "settings": {}, "seed": 0,
    }  # fmt: skip
    folder.mkdir()
    record = {"format": "cofill-completion", "version": 1, "settings": settings}
    CompletionFolder(folder).write_record(record)
    return folder


def test_pooled_rows_are_a_total_leak_and_a_mean_alone_is_none(tmp_path):
    pooled = audit_run(by_method(tmp_path / "knn", "knn"))
    assert pooled.verdict == "near-total"
    alone = audit_run(by_method(tmp_path / "mean", "mean"))
    assert alone.verdict == "nothing about a person"


@pytest.fixture
def federation(tmp_path, run):
    """What a federation leaves: a ledger, what was sent and a table at each site."""
    views = people()
    folder = FederationFolder(tmp_path)
    completed = CompletionFolder(run / "completed")
    sites = [{"views": [name]} for name in views]
    for name in views:
        party = folder.party(name)
        party.path.mkdir(parents=True)
        folder.site(name).mkdir(parents=True)
        ledger = Ledger()
        ledger.write(LedgerEntry("offer", "blinding-part", name, "x", 0, 32, None, {}))
        for entry in Ledger.load(completed.ledger):
            if entry.sender == name:
                ledger.write(replace(entry, chain=""))
        ledger.write(LedgerEntry("report", "figures", name, "coordinator", 120, 72, None, {}))
        ledger.save(party.ledger)
        sent = party.run("20260101").sent
        for step in completed.sent:
            releases = [release for release in step.releases if release.sender == name]
            sent.write(step.number, step.step, releases)
        sent.keep_keys({name: completed.sent.keys()[name]})
        party.write_kit({"federation": {"id_type": None, "sites": sites}})
        source = folder.site(name) / f"{name}.parquet"
        write_table(to_table(views[name]), source)
        text = f'[views.{name}]\nsource = "{source.name}"\nid = "{views[name].id_name}"\n'
        folder.site_file(name).write_text(text)
    folder.write_metrics({"experiment": "cooperate", "settings": {"seed": 0}})
    return tmp_path


def test_a_federation_is_audited_release_type_by_release_type(federation):
    audit = audit_run(federation, codes=QUICK)
    kinds = {r.kind for r in audit.releases}
    assert kinds == {"codes", "blinded-ids", "figures", "blinding-part"}
    assert audit.verdict == "near-total"
    assert all(r.leaks or r.reason for r in audit.releases)
    assert all(r.leaks for r in audit.releases if r.kind == "codes")


def test_a_sites_kit_alone_is_audited_as_far_as_it_goes(federation):
    audit = audit_run(FederationFolder(federation).kit("lab"), codes=QUICK)
    assert {r.sender for r in audit.releases} == {"lab"}
    codes = next(r for r in audit.releases if r.kind == "codes")
    assert codes.individual == "not attacked"
    assert "rows of 'lab' were not given" in codes.reason


def test_a_federation_without_its_outcome_says_what_it_lacks(federation):
    FederationFolder(federation).metrics.unlink()
    (note,) = audit_run(federation, codes=QUICK).notes
    assert "settings are not in the folder" in note


def test_an_unknown_type_in_a_federations_ledger_fails_the_audit(federation):
    path = federation / "kits" / "sites" / "lab" / "cofill" / "ledger.jsonl"
    ledger = Ledger.load(path)
    ledger.write(LedgerEntry("send", "gossip", "lab", "clinic", 3, 9, None, {}))
    ledger.save(path)
    with pytest.raises(DataError, match="'gossip'"):
        audit_run(federation, codes=QUICK)


def test_a_changed_ledger_is_refused(federation):
    path = federation / "kits" / "sites" / "lab" / "cofill" / "ledger.jsonl"
    path.write_text(path.read_text().replace('"individuals":120', '"individuals":119', 1))
    with pytest.raises(InputError, match="line"):
        audit_run(federation, codes=QUICK)


def test_folders_that_are_no_run_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        audit_run(tmp_path / "gone")
    with pytest.raises(DataError, match=r"completion\.json"):
        audit_run(tmp_path)
    (tmp_path / "completion.json").write_text("{")
    with pytest.raises(StoreError, match="must be JSON"):
        audit_run(tmp_path)
    (tmp_path / "completion.json").write_text('{"format": "cofill-completion", "version": 1}')
    with pytest.raises(StoreError, match="no record of a completion"):
        audit_run(tmp_path)


@pytest.mark.full
def test_a_real_federation_is_audited_whole(tmp_path):
    from cofill.network import run_local

    run_local(tmp_path / "trial", experiment="cooperate", sites=3)
    audit = audit_run(tmp_path / "trial")
    assert {r.kind for r in audit.releases} >= {"codes", "blinded-ids", "figures"}
    assert audit.duration_s < 120
    codes = [r for r in audit.releases if r.kind == "codes"]
    assert len(codes) == 3
    assert all(r.leaks for r in codes)


def test_ledgers_of_other_runs_in_the_folder_are_named(tmp_path):
    for name in ("clinics", "completed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").touch()
    (note,) = _other_ledgers(tmp_path)
    assert f"cofill audit run {tmp_path / 'clinics'}" in note
