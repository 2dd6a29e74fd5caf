"""The commands before anything starts: kits, keys, one sentence and exit code 2 on bad input."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cofill.cli._app import run
from cofill.network import Kit, SiteAccount, SiteConfig, SitePolicy
from cofill.network._identity import Identity
from cofill.network._order import CONTROLLER, EXECUTOR, RunOrder, new_run
from cofill.network._policy_signature import signature_file
from cofill.privacy import LedgerNote
from cofill.protocol import PartyFolder

FEDERATION = """
[coordinator]
address = "localhost"
port = 9001
[[sites]]
name = "clinic"
[[sites]]
name = "lab"
[[people]]
name = "ada@clinic.example"
role = "submit"
"""


@pytest.fixture(scope="module")
def kits(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("kits")
    (base / "federation.toml").write_text(FEDERATION)
    assert (
        run(["federation", "init", str(base / "federation.toml"), "--out", str(base / "kits")]) == 0
    )
    return base / "kits"


def test_everybody_has_a_kit(kits):
    assert {p.name for p in kits.iterdir()} == {"coordinator", "people", "sites"}
    assert {p.name for p in (kits / "sites").iterdir()} == {"clinic", "lab"}
    clinic = Kit.read(kits / "sites" / "clinic", "site")
    assert clinic.member.views == ("clinic",)
    lab = Identity.load(kits / "sites" / "lab" / "cofill")
    assert clinic.identity.others["lab"] == lab.public
    assert set(clinic.identity.others) == {"lab", "coordinator"}


def test_kits_are_hardened(kits):
    for place in (kits / "coordinator", kits / "sites" / "lab"):
        resources = json.loads((place / "local" / "resources.json").read_text())
        assert resources["class_allow_list"] == [CONTROLLER, EXECUTOR]
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert not [c for c in resources["components"] if "log" in c["id"]]
        (launcher,) = (c for c in resources["components"] if c["id"] == "process_launcher")
        assert launcher["path"].startswith("cofill." if "sites" in place.parts else "nvflare.")
        allowed = json.loads((place / "local" / "authorization.json").read_text())["permissions"]
        for role in allowed.values():
            assert role["byoc"] == role["shell_commands"] == role["operate"] == "none"
        assert [n for n, r in allowed.items() if r["submit_job"] != "none"] == ["lead"]
        assert place.stat().st_mode & 0o077 == 0
        text = (place / "startup").glob("fed_*.json")
        assert all('"connection_security": "mtls"' in p.read_text() for p in text)
        private = [p for p in place.rglob("*") if p.name == "identity.json"]
        assert [p.stat().st_mode & 0o077 for p in private] == [0]
    assert (
        json.loads((kits / "sites" / "lab" / "local" / "resources.json").read_text())[
            "allow_log_streaming"
        ]
        is False
    )
    # Nobody's kit holds another's private key, nor the authority's.
    secrets = {p.parent.parent.name: json.loads(p.read_text()) for p in kits.rglob("identity.json")}
    for owner, keys in secrets.items():
        for path in kits.rglob("*"):
            if path.is_file() and owner not in path.parts:
                assert keys["seal"].encode() not in path.read_bytes()
    assert not list(kits.rglob("cert.json"))


def test_storage_is_in_the_kit_not_in_tmp(kits):
    kit = Kit.read(kits / "coordinator", "coordinator")
    kit.prepare()
    text = (kit.folder / "local" / "resources.json").read_text()
    assert "/tmp/nvflare" not in text
    assert str(kit.folder / "storage" / "jobs") in text


def test_runs_that_a_killed_coordinator_left_are_marked(kits):
    kit = Kit.read(kits / "coordinator", "coordinator")
    for name, status in (("a", "RUNNING"), ("b", "FINISHED:COMPLETED"), ("c", "SUBMITTED")):
        folder = kit.folder / "storage" / "jobs" / name
        folder.mkdir(parents=True)
        (folder / "meta").write_text(json.dumps({"name": name, "status": status}))
    kit.prepare()
    found = {
        p.parent.name: json.loads(p.read_text())["status"]
        for p in (kit.folder / "storage" / "jobs").glob("*/meta")
    }
    assert found == {"a": "FINISHED:ABANDONED", "b": "FINISHED:COMPLETED", "c": "SUBMITTED"}


def test_a_site_makes_its_own_keys_and_others_pin_them(kits, tmp_path, capsys):
    clinic, lab = kits / "sites" / "clinic", kits / "sites" / "lab"
    before = Identity.load(clinic / "cofill")
    public = tmp_path / "clinic.json"
    assert run(["site", "keys", "--kit", str(clinic), "--out", str(public)]) == 0
    after = Identity.load(clinic / "cofill")
    assert after.seal != before.seal
    assert after.others == before.others
    assert after.seal.hex() not in public.read_text() + capsys.readouterr().out
    assert Identity.load(lab / "cofill").others["clinic"] == before.public
    assert run(["site", "keys", "--kit", str(lab), "--pin", str(public)]) == 0
    assert Identity.load(lab / "cofill").others["clinic"] == after.public
    public.write_text(json.dumps({**json.loads(public.read_text()), "name": "bank"}))
    assert run(["site", "keys", "--kit", str(lab), "--pin", str(public)]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["federation", "init", "none.toml"], "there is no such file"),
        (["coordinator", "--kit", "nowhere"], "--kit must be a folder"),
        (["coordinator", "--kit", "LAB"], "must be the kit of a coordinator, got that of the site"),
        (["site", "--kit", "HUB", "--config", "x"], "must be the kit of a site"),
        (["site", "--kit", "LAB", "--config", "none.toml"], "there is no such file"),
        (["site", "--kit", "LAB"], "needs --kit KIT and --config"),
        (["site", "keys", "--kit", "LAB"], "needs either --out FILE or --pin FILE"),
        (["federation", "run", "steal", "--kit", "ADA"], "experiment must be one of cooperate"),
        (["federation", "run", "cooperate", "--kit", "LAB"], "must be the kit of a person"),
        (["federation", "run", "cooperate", "--kit", "ADA", "--set", "x"], "must be NAME=VALUE"),
        (["federation", "ledger", "--kit", "HUB"], "must be the kit of a site"),
        (["federation", "local", "--sites", "9", "--out", "OUT"], "--sites must be from 2 to 3"),
        (["federation", "local", "--missing", "2", "--out", "OUT"], "--missing must be between"),
        (["federation", "run", "federate", "--kit", "ADA"], "hold the same views of other"),
        (["federation", "run", "mean", "--kit", "ADA", "--set", "epsilon=1"], "the setting low"),
        (["federation", "run", "cluster", "--kit", "ADA"], "hold the same views of other"),
        (["federation", "local", "--experiment", "steal", "--out", "OUT"], "must be one of"),
        (
            ["federation", "local", "--experiment", "federate", "--sites", "1", "--out", "OUT"],
            "--sites must be from 2 to 100",
        ),
        (
            ["federation", "local", "--set", "speed=3", "--out", "OUT"],
            "private has no setting 'speed'",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(kits, tmp_path, capsys, words, said):
    places = {
        "LAB": kits / "sites" / "lab",
        "HUB": kits / "coordinator",
        "ADA": kits / "people" / "ada@clinic.example",
        "OUT": tmp_path / "out",
    }
    assert run([str(places.get(word, word)) for word in words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert re.fullmatch(r"cofill: [^\n]+", told.strip())
    assert not (tmp_path / "out").exists()


def test_an_absent_coordinator_is_named(kits, capsys):
    kit = str(kits / "people" / "ada@clinic.example")
    from cofill.network._session import FederationError, open_session

    with (
        pytest.raises(FederationError, match=r"localhost:9001 cannot be reached"),
        open_session(Kit.read(Path(kit), "person"), timeout=1.0),
    ):
        raise AssertionError("there is none")


def test_nobody_who_may_submit_is_an_error(tmp_path, capsys):
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.replace('"submit"', '"look"'))
    assert run(["federation", "init", str(path), "--out", str(tmp_path / "kits")]) == 2
    assert "at least one person with role = 'submit'" in capsys.readouterr().err
    assert not (tmp_path / "kits").exists()


@pytest.mark.parametrize(
    "statement", ["import cofill", "import cofill.cli", "import cofill.network"]
)
def test_importing_loads_no_engine(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = shown.stdout.split()
    assert not {"nvflare", "grpc", "jax", "private_set_intersection"} & set(loaded)


def test_only_this_package_names_the_engine():
    source = Path(__file__).parents[2] / "src" / "cofill"
    named = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if re.search(r"^\s*(import|from) nvflare", path.read_text(), re.MULTILINE)
    }
    assert named == {"network"}


def test_a_policy_is_printed_and_explained(kits, tmp_path, capsys):
    assert run(["site", "policy"]) == 0
    assert "[without_guarantee.figures]" in capsys.readouterr().out
    written = tmp_path / "policy.toml"
    assert run(["site", "policy", "--out", str(written)]) == 0
    assert SitePolicy.read(written) == SitePolicy()
    assert run(["site", "policy", "--out", str(written)]) == 2
    site, order = tmp_path / "site.toml", tmp_path / "order.json"
    site.write_text('[views.lab]\nsource = "lab.csv"\nid = "id"\n')
    order.write_text(json.dumps({"experiment": "cooperate", "settings": {"alignment": "psi"}}))
    words = ["--kit", str(kits / "sites" / "lab"), "--config", str(site)]
    assert run(["site", "policy", "--explain", str(order), *words]) == 0
    assert "refused: releases of the type 'codes' would leave" in capsys.readouterr().out
    order.write_text(json.dumps({"experiment": "private"}))
    assert run(["site", "policy", "--explain", str(order), *words]) == 0
    assert "the site takes part" in capsys.readouterr().out
    for content, fault in (("{}", "must be a JSON object with"), ("no", "must be JSON")):
        order.write_text(content)
        assert run(["site", "policy", "--explain", str(order), *words]) == 2
        assert fault in capsys.readouterr().err


def test_a_person_approves_of_what_they_are_shown(kits, tmp_path, capsys):
    site, run_name = tmp_path / "site.toml", new_run()
    site.write_text('[views.lab]\nsource = "lab.csv"\nid = "id"\n')
    words = [run_name, "--kit", str(kits / "sites" / "lab"), "--config", str(site), "--yes"]
    assert run(["site", "approve", *words]) == 2
    assert "waits for approval" in capsys.readouterr().err
    home = PartyFolder(kits / "sites" / "lab" / "cofill")
    order = RunOrder(run_name, "private", {"min_overlap": 12})
    home.ask_approval(run_name, {"order": order.to_json(), "by": "ada@clinic.example"})
    assert run(["site", "approve", *words]) == 0
    shown = capsys.readouterr().out
    assert "private, ordered by ada@clinic.example" in shown
    assert '"min_overlap": 12' in shown
    assert (home.read_approval(run_name) or {})["approved_by"]


def test_a_sites_installation_is_looked_at(kits, tmp_path, capsys):
    lab = kits / "sites" / "lab"
    PartyFolder(lab / "cofill").ledger.unlink(missing_ok=True)  # of another test's site.toml
    (tmp_path / "lab.csv").write_text("id,x\n1,2\n3,4\n")
    site = tmp_path / "site.toml"
    site.write_text('[views.lab]\nsource = "lab.csv"\nid = "id"\n')
    words = ["doctor", "--site", str(lab), "--config", str(site), "--json"]

    def look() -> dict[str, dict]:
        run(words)
        return {line["what"]: line for line in json.loads(capsys.readouterr().out)["findings"]}

    states = {what: line["state"] for what, line in look().items()}
    assert states.pop("coordinator") == "note"  # nobody is there
    assert set(states.values()) == {"ok"}
    assert {"kit", "keys", "tables", "policy", "ledger", "permissions", "nvflare"} <= set(states)
    policy = tmp_path / "policy.toml"
    policy.write_text("[without_guarantee.codes]\npeople = 1\n")
    assert "must be signed by the site's operator" in look()["policy"]["found"]
    assert run(["site", "policy", "--sign", "--yes", "--config", str(site)]) == 0
    shown = capsys.readouterr().out
    assert "without a guarantee: codes, of 1 people or more (not in the default)" in shown
    assert "also codes" in look()["policy"]["found"]
    policy.chmod(0o666)
    assert look()["permissions"]["state"] == "problem"
    policy.unlink()
    assert "must be there" in look()["policy"]["found"]
    signature_file(policy).unlink()
    (tmp_path / "lab.csv").write_text("name\n1\n")
    assert look()["tables"]["state"] == "problem"
    assert run(words) == 1
    capsys.readouterr()
    assert run(["doctor", "--site", str(tmp_path)]) == 1


def test_a_ledger_that_was_cut_is_found(kits, tmp_path, capsys):
    site = tmp_path / "site.toml"
    site.write_text('[views.clinic]\nsource = "clinic.csv"\nid = "id"\n')
    home = PartyFolder(kits / "sites" / "clinic" / "cofill")
    account = SiteAccount(SiteConfig.read(site).account_folder, home)
    with account.open() as (ledger, _):
        ledger.write(LedgerNote("taken", "2026-01-01T00:00:00+00:00", "r", "mean"))
    home.ledger.unlink()
    assert run(["doctor", "--site", str(home.path.parent), "--config", str(site)]) == 1
    assert "must go on from the 1 lines" in " ".join(capsys.readouterr().out.split())
