"""A view of several tables: stacked by one owner, at several sites where sites are separate."""

import json

import numpy as np
import pandas as pd
import pytest

from cofill.audit import audit_run
from cofill.cli._app import run
from cofill.privacy import Ledger

N = 80


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two clinics with the same columns, and an insurer that knows most of both's people."""
    folder = tmp_path_factory.mktemp("tables")
    trait = np.random.default_rng(0).normal(size=N)
    clinic = pd.DataFrame(
        {"person": np.arange(N), "age": np.rint(50 + 10 * trait).astype(int), "w": 70 + 5 * trait}
    )
    clinic[:35].to_csv(folder / "north.csv", index=False)
    clinic[35:70].to_csv(folder / "south.csv", index=False, lineterminator="\r\n")
    clinic[30:70].to_csv(folder / "both.csv", index=False)
    clinic[35:70][["person", "w", "age"]].to_csv(folder / "turned.csv", index=False)
    claims = pd.DataFrame({"person": np.arange(N), "claims": 3 * trait, "paid": -trait})
    claims[10:].to_csv(folder / "insurer.csv", index=False)
    return folder


def call(folder, *more, out, parts=("north.csv", "south.csv")):
    views = [f"--view=clinic={folder / part}" for part in parts]
    arguments = ["complete", *views, f"--view=insurer={folder / 'insurer.csv'}", "--id", "person"]
    return run([*arguments, "--out", str(folder / out), *more])


def test_one_owner_stacks_the_tables(tables):
    assert call(tables, "--method", "mean", out="stacked") == 0
    done = pd.read_csv(tables / "stacked" / "clinic.csv")
    assert done["person"].tolist() == list(range(N))
    before = pd.concat([pd.read_csv(tables / f"{name}.csv") for name in ("north", "south")])
    pd.testing.assert_frame_equal(done[:70], before.reset_index(drop=True))
    lines = (tables / "stacked" / "clinic.csv").read_text().splitlines()
    assert lines[:36] == (tables / "north.csv").read_text().splitlines()


def test_separate_sites_of_one_view_keep_their_rows_and_an_audit_sees_nothing(tables):
    assert call(tables, "--separate", "--set", "features=8", out="apart") == 0
    done = pd.read_csv(tables / "apart" / "clinic.csv")
    assert len(done) == N
    assert not done.isna().any().any()
    truth = 50 + 10 * np.random.default_rng(0).normal(size=N)
    assert np.abs(done["age"] - truth)[70:].mean() < 3
    parties = {"clinic@clinic-1", "clinic@clinic-2", "insurer"}
    senders = {entry.sender for entry in Ledger.load(tables / "apart" / "ledger.jsonl")}
    assert senders == {*parties, "coordinator"}
    facts = json.loads((tables / "apart" / "completion.json").read_text())
    assert len(facts["settings"]["sources"]["clinic"]) == 2
    audit = audit_run(tables / "apart")
    masked = {r.sender: r for r in audit.releases if r.kind == "masked-rows"}
    assert set(masked) == parties
    assert {release.individual for release in masked.values()} == {"none seen"}


def test_tables_that_are_no_parts_of_one_view_are_refused_in_one_sentence(tables, capsys):
    for parts, words in (
        (("north.csv", "insurer.csv"), "must have the columns of"),
        (("north.csv", "turned.csv"), "must have the columns of"),
        (("north.csv", "both.csv"), "5 people are in more than one of"),
    ):
        assert call(tables, out="refused", parts=parts) == 2
        assert words in capsys.readouterr().err
    codes = ("--separate", "--method", "cooperative")
    assert call(tables, *codes, out="refused") == 2
    assert "is at several sites" in capsys.readouterr().err
    assert not (tables / "refused").exists()


def test_a_check_reads_the_parts_of_a_view(tables, capsys):
    views = [f"--view=clinic={tables / p}" for p in ("north.csv", "south.csv")]
    arguments = ["check", *views, f"--view=insurer={tables / 'insurer.csv'}", "--id", "person"]
    assert run([*arguments, "--separate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["views"]["clinic"]["rows"] == 70
