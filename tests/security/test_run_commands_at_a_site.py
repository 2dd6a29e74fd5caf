"""A submitter wants to run a program at every site: jobs that are not the one job of cofill."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.network.conftest import row_sites

from cofill.network._config import FederationConfig, Member, Person
from cofill.network._kits import Kit, make_kits
from cofill.network._local import local_federation
from cofill.network._order import SITE_CONFIG, SITE_KIT, RunOrder, new_run
from cofill.network._session import write_job
from cofill.protocol import PartyFolder

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)
POPEN = {"id": "thief", "path": "cofill.network._local.Popen", "args": {"args": "id"}}
MEAN = {"lower": 0.0, "upper": 1.0, "epsilon": 1.0}


@pytest.fixture(scope="module")
def kits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kits") / "kits"
    sites = tuple(Member(name, name, ("u", "v")) for name in "ab")
    person = Person("eve@example.org", "cofill", "submit")
    make_kits(FederationConfig("f", "localhost", 8002, sites, (person,), shared=("u", "v")), folder)
    return folder


@pytest.fixture(autouse=True)
def _site(kits, tmp_path, monkeypatch):
    """Let a site's end of FLARE find its files, as `cofill site` does."""
    config = tmp_path / "site" / "site.toml"
    config.parent.mkdir()
    config.write_text("".join(f'[views.{v}]\nsource = "{v}.csv"\nid = "id"\n' for v in "uv"))
    monkeypatch.setenv(SITE_CONFIG, str(config))
    monkeypatch.setenv(SITE_KIT, str(kits / "sites" / "a"))
    yield
    PartyFolder(kits / "sites" / "a" / "cofill").ledger.unlink(missing_ok=True)


@pytest.fixture
def job(kits, tmp_path) -> Path:
    """Return the folder of a sound job's application."""
    order = RunOrder(new_run(), "mean", MEAN)
    write_job(order, Kit.read(kits / "people" / "eve@example.org", "person"), tmp_path / order.run)
    return tmp_path / order.run / "app"


def components(value: Any) -> Iterator[dict]:
    """Yield every table that FLARE may take for a component, wherever it is."""
    if isinstance(value, dict):
        if "path" in value or "class_path" in value:
            yield value
        yield from (found for inner in value.values() for found in components(inner))
    elif isinstance(value, list):
        yield from (found for inner in value for found in components(inner))


def is_admitted(kit: Path, app: Path) -> bool:
    """Ask FLARE, set up as a kit says, whether it builds what a job names."""
    from nvflare.apis.fl_exception import UnsafeComponentError
    from nvflare.apis.workspace import Workspace
    from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
    from nvflare.private.fed.app.fl_app_validator import FLAppValidator

    resources = json.loads((kit / "local" / "resources.json").read_text())
    validators = []
    if "app_validator" in resources:
        module, _, name = resources["app_validator"]["path"].rpartition(".")
        validators.append(getattr(import_module(module), name)())
    if FLAppValidator("client", validators).validate(str(app))[0]:
        return False
    for path in (app / "config").glob("*.json"):
        for component in components(json.loads(path.read_text())):
            try:
                ComponentPathAuthorizer().authorize_component_config(
                    component, workspace=Workspace(str(kit))
                )
            except UnsafeComponentError:
                return False
    return True


@pytest.mark.parametrize("party", ["coordinator", "sites/a"])
def test_the_job_of_an_order_is_admitted(kits, job, party):
    assert is_admitted(kits / party, job)


@pytest.mark.parametrize("party", ["coordinator", "sites/a"])
@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("client", {"components": [POPEN]}),
        ("server", {"components": [POPEN]}),
        ("client", {"executors": [{"tasks": ["step"], "executor": POPEN}]}),
        ("server", {"workflows": [POPEN]}),
        ("client", {"task_result_filters": [{"tasks": ["step"], "filters": [POPEN]}]}),
        ("client", {"handlers": [POPEN]}),
        ("client", {"decomposer_module": "cofill.network._local"}),
        ("server", {"dead_client_grace_period": 1e9}),
    ],
)
def test_another_component_filter_or_setting_is_refused(kits, job, party, file, change):
    path = job / "config" / f"config_fed_{file}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert not is_admitted(kits / party, job)


def test_another_argument_of_the_two_classes_is_refused(kits, job):
    path = job / "config" / "config_fed_client.json"
    config = json.loads(path.read_text())
    config["executors"][0]["executor"]["args"]["home"] = {"path": "pathlib.Path", "args": {}}
    path.write_text(json.dumps(config))
    assert not is_admitted(kits / "sites/a", job)


@pytest.mark.parametrize(
    "name",
    [
        "custom/evil.py",
        "config/config_fed_client.conf",
        "config/log_config.json",
        "sitecustomize.py",
    ],
)
def test_another_file_is_refused(kits, job, name):
    (job / name).parent.mkdir(exist_ok=True)
    (job / name).write_text("{}")
    assert not is_admitted(kits / "sites/a", job)


def test_a_link_out_of_the_job_is_refused(kits, job):
    path = job / "config" / "config_fed_client.json"
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))
    assert not is_admitted(kits / "sites/a", job)


def test_settings_of_an_order_build_nothing(kits, job, tmp_path):
    order = RunOrder(new_run(), "mean", {**MEAN, "columns": POPEN})
    person = Kit.read(kits / "people" / "eve@example.org", "person")
    write_job(order, person, tmp_path / order.run)
    config = (tmp_path / order.run / "app" / "config" / "config_fed_client.json").read_text()
    assert [c["path"] for c in components(json.loads(config))] == [
        "cofill.network._executor.SiteExecutor"
    ]


def test_settings_of_an_order_read_no_variable_of_the_environment(kits, tmp_path, monkeypatch):
    from nvflare.fuel.utils.json_scanner import JsonScanner
    from nvflare.fuel.utils.wfconf import resolve_var_refs

    monkeypatch.setenv("DATABASE_URL", "postgresql://lab:PASSWORD@localhost/people")
    order = RunOrder(new_run(), "mean", {**MEAN, "columns": ["{$DATABASE_URL}"]})
    person = Kit.read(kits / "people" / "eve@example.org", "person")
    write_job(order, person, tmp_path / order.run)
    text = (tmp_path / order.run / "app" / "config" / "config_fed_client.json").read_text()
    config = json.loads(text)
    resolve_var_refs(JsonScanner(config), {})  # what a site does with a job's configuration
    assert config == json.loads(text)


@pytest.mark.full
@pytest.mark.parametrize("where", ["client", "server"])
def test_a_component_of_a_job_starts_no_program(tmp_path, where):
    stolen = tmp_path / "stolen"
    words = f"cat cofill/identity.json > {stolen}"
    with local_federation(tmp_path / "local", row_sites()) as federation:
        order = RunOrder(new_run(), "mean", MEAN)
        write_job(order, federation.person(), tmp_path / order.run)
        path = tmp_path / order.run / "app" / "config" / f"config_fed_{where}.json"
        thief = {**POPEN, "args": {"args": words, "shell": True}}
        path.write_text(json.dumps({**json.loads(path.read_text()), "components": [thief]}))
        with federation.session() as opened:
            number = opened.session.submit_job(str(tmp_path / order.run))
            assert opened.wait(number, timeout=90.0) != "FINISHED:COMPLETED"
    assert not stolen.exists()
