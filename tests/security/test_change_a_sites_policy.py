"""Somebody wants another policy in force than the one that a site's operator has signed."""

from pathlib import Path

import pytest
from tests.network.conftest import row_sites

from cofill.cli._app import run
from cofill.errors import SettingError
from cofill.network import RunOrder, SiteConfig, make_kits, new_run
from cofill.network._admission import SiteAdmission
from cofill.network._config import FederationConfig, Member, Person
from cofill.network._job import write_job
from cofill.network._kits import Kit
from cofill.network._local import local_federation
from cofill.network._order import SITE_CONFIG, SITE_KIT
from cofill.network._policy import POLICY_FILE
from cofill.network._policy_signature import sign_policy, signature_file
from cofill.privacy import Ledger
from cofill.protocol import PartyFolder

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)
STRICT = "smallest_group = 50\n[experiments.private]\napproval = true\n"
LOOSE = "smallest_group = 1\n[without_guarantee.codes]\npeople = 1\n"
MEAN = {"low": 0.0, "high": 1.0, "epsilon": 1.0}


@pytest.fixture
def site(tmp_path) -> Path:
    """Return the site.toml of a site whose strict policy is signed."""
    path = tmp_path / "site" / "site.toml"
    path.parent.mkdir()
    path.write_text("".join(f'[views.{v}]\nsource = "{v}.csv"\nid = "id"\n' for v in "uv"))
    (path.parent / POLICY_FILE).write_text(STRICT)
    sign_policy(path.parent / POLICY_FILE, "ada")
    return path


def test_the_signed_policy_is_in_force(site):
    assert SiteConfig.read(site).policy.smallest_group == 50


def test_a_loosened_policy_is_not(site):
    (site.parent / POLICY_FILE).write_text(LOOSE)
    with pytest.raises(SettingError, match="must be the policy that its operator has signed"):
        SiteConfig.read(site)


def test_one_more_space_is_another_policy(site):
    (site.parent / POLICY_FILE).write_text(STRICT + " ")
    with pytest.raises(SettingError, match="was changed since"):
        SiteConfig.read(site)


def test_removing_the_policy_does_not_bring_the_default_back(site):
    (site.parent / POLICY_FILE).unlink()
    with pytest.raises(SettingError, match="must be there, because its operator has signed one"):
        SiteConfig.read(site)
    # All that lies beside it can go as well: the hash does not lie there.
    assert signature_file(site.parent / POLICY_FILE).parent != site.parent


def test_the_signature_of_another_sites_policy_is_none_of_this_one(site, tmp_path):
    other = tmp_path / "other" / "site.toml"
    other.parent.mkdir()
    other.write_text(site.read_text())
    (other.parent / POLICY_FILE).write_text(STRICT)
    with pytest.raises(SettingError, match="must be signed by the site's operator"):
        SiteConfig.read(other)


def test_a_site_with_a_policy_that_nobody_signed_does_not_start(site, kits, capsys):
    (site.parent / POLICY_FILE).write_text(LOOSE)
    assert run(["site", "--kit", str(kits / "sites" / "a"), "--config", str(site)]) == 2
    said = capsys.readouterr().err
    assert "cofill site policy --sign" in said
    assert said.count("\n") == 1


def test_nothing_is_signed_that_nobody_has_agreed_to(site, monkeypatch, capsys):
    (site.parent / POLICY_FILE).write_text(LOOSE)
    monkeypatch.setattr("typer.confirm", lambda _: False)
    assert run(["site", "policy", "--sign", "--config", str(site)]) == 0
    assert "codes, of 1 people or more (not in the default)" in capsys.readouterr().out
    with pytest.raises(SettingError, match="was changed since"):
        SiteConfig.read(site)


# --- before the engine builds anything ---------------------------------------------------------


@pytest.fixture(scope="module")
def kits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kits") / "kits"
    sites = tuple(Member(name, name, ("u", "v")) for name in "ab")
    person = Person("eve@example.org", "cofill", "submit")
    make_kits(FederationConfig("f", "localhost", 8002, sites, (person,), shared=("u", "v")), folder)
    return folder


def answer(site: Path, kits: Path, tmp_path: Path, monkeypatch, experiment: str = "mean") -> str:
    """Return what site a says before FLARE builds anything of a job."""
    monkeypatch.setenv(SITE_CONFIG, str(site))
    monkeypatch.setenv(SITE_KIT, str(kits / "sites" / "a"))
    order = RunOrder(new_run(), experiment, MEAN)
    write_job(order, Kit.read(kits / "people" / "eve@example.org", "person"), tmp_path / order.run)
    return SiteAdmission().validate(str(tmp_path / order.run / "app"))[0]


def test_an_experiment_that_a_policy_does_not_have_is_not_built(site, kits, tmp_path, monkeypatch):
    words = answer(site, kits, tmp_path, monkeypatch)
    assert "does not allow the experiment 'mean' (it allows private)" in words
    ledger = Ledger.load(PartyFolder(kits / "sites" / "a" / "cofill").ledger)
    assert (ledger.notes[-1].what, ledger.notes[-1].experiment) == ("refused", "mean")


def test_an_order_that_nobody_has_signed_is_not_built(site, kits, tmp_path, monkeypatch):
    (site.parent / POLICY_FILE).write_text('[experiments.mean]\npeople = ["ada@clinic.example"]\n')
    sign_policy(site.parent / POLICY_FILE, "ada")
    PartyFolder(kits / "sites" / "a" / "cofill").ledger.unlink(missing_ok=True)
    words = answer(site, kits, tmp_path, monkeypatch)
    assert "not by somebody who has not signed" in words


def test_no_job_is_built_under_a_changed_policy_and_others_are_not_told_where_it_lies(
    site, kits, tmp_path, monkeypatch
):
    (site.parent / POLICY_FILE).write_text(LOOSE)
    words = answer(site, kits, tmp_path, monkeypatch, "cooperate")
    assert words == "it could not do its part; its own log says why"
    faults = (kits / "sites" / "a" / "cofill" / "runs").glob("*/fault.json")
    assert any("was changed since" in fault.read_text() for fault in faults)


def test_a_site_that_was_started_in_another_way_builds_nothing(kits, tmp_path, monkeypatch, site):
    answer(site, kits, tmp_path, monkeypatch)
    monkeypatch.delenv(SITE_CONFIG)
    (app,) = list(tmp_path.glob("*/app"))[:1]
    assert SiteAdmission().validate(str(app))[0]


@pytest.mark.full
def test_submitters_are_told_why_a_site_did_not_let_a_run_in(tmp_path):
    with local_federation(tmp_path / "local", row_sites()) as federation:
        policy = federation.site("b") / POLICY_FILE
        policy.write_text("[experiments.private]\n")
        sign_policy(policy, "ada", federation.keys)
        settings = {"low": 0.0, "high": 1e7, "epsilon": 1.0, "view": "u"}
        done = federation.run(RunOrder(new_run(), "mean", settings), timeout=120.0)
        assert done["state"] == "finished"
        assert set(done["result"]["sites"]) == {"a", "c"}
        assert any("'b' refuses the run" in note for note in done["notes"]), done["notes"]
        done = federation.run(RunOrder(new_run(), "cluster", {"k": 2}), timeout=120.0)
        assert done["state"] == "failed"
        assert "does not allow the experiment 'cluster'" in done["why"]
        run_folders = federation.kit("b") / "cofill" / "runs"
        assert not list(run_folders.glob("*/state.safetensors"))
