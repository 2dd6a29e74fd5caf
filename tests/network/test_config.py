"""What people write down: read when right, refused in one sentence when wrong."""

from dataclasses import asdict
from datetime import date

import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.network import FederationConfig, SiteConfig, read_people, read_site_views
from cofill.network._config import Member, ViewSource
from cofill.network._policy import DEFAULT_POLICY, SitePolicy
from cofill.network._policy_signature import sign_policy
from cofill.views import ColumnRules

FEDERATION = """
name = "breast"
id_type = "text"
[coordinator]
address = "hub.example.org"
port = 9000
[[sites]]
name = "clinic"
organisation = "City Clinic"
views = ["blood", "scan"]
[[sites]]
name = "lab"
[[people]]
name = "ada@clinic.example"
role = "submit"
[limits]
message_megabytes = 10
"""
SITE = """
[views.lab]
source = "lab.csv"
id = "person"
ignore = ["note"]
[views.lab.kinds]
smoker = "binary"
[people]
source = "people.csv"
id = "person"
[results]
folder = "out"
"""


def test_a_federation_is_read(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION)
    given = FederationConfig.read(path)
    assert given.views == {"blood": "clinic", "scan": "clinic", "lab": "lab"}
    assert given.sites[0] == Member("clinic", "City_Clinic", ("blood", "scan"))
    assert (given.address, given.port, given.id_type) == ("hub.example.org", 9000, "text")
    assert given.limits.message_bytes == 10 * 2**20
    assert FederationConfig.from_json(asdict(given)) == given


def test_a_site_is_read_with_paths_beside_its_file(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(SITE)
    given = SiteConfig.read(path)
    assert given.views["lab"].source == str(tmp_path / "lab.csv")
    assert given.views["lab"].kinds == {"smoker": "binary"}
    assert given.results == tmp_path / "out"
    assert given.people is not None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('address = "hub.example.org"', "", "coordinator.address is missing"),
        ("hub.example.org", "hub:80", "coordinator.address must be a host name"),
        ("port = 9000", "port = 90000", "coordinator.port must be a whole number"),
        ("port = 9000", "port = true", "coordinator.port must be a whole number"),
        ('name = "lab"', 'name = "clinic"', "sites 2.name must be another name"),
        ('name = "lab"', 'name = "coordinator"', "sites 2.name must be"),
        ('name = "lab"', 'name = "../lab"', "sites 2.name must be"),
        ('name = "lab"', 'name = "blood"\nviews = ["blood"]', "at one site only"),
        ('"submit"', '"boss"', "people 1.role must be one of submit, look, got 'boss'"),
        ("ada@clinic.example", "ada", "people 1.name must be an e-mail address"),
        ('id_type = "text"', 'id_type = "number"', "id_type must be 'text'"),
        ('id_type = "text"', "speed = 3", "speed is no setting"),
        ("message_megabytes", "messages", "limits.messages is no setting"),
        ('name = "breast"', "name = [", "must be TOML"),
    ],
)
def test_a_wrong_federation_is_named(tmp_path, old, new, words):
    path = tmp_path / "federation.toml"
    assert old in FEDERATION
    path.write_text(FEDERATION.replace(old, new))
    with pytest.raises(SettingError, match=words) as caught:
        FederationConfig.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('source = "lab.csv"', "", r"views.lab.source is missing"),
        ("lab.csv", "lab.ods", "the form of this source is not known"),
        ('"binary"', '"yes"', "views.lab.kinds.smoker must be one of"),
        ("[results]", "[budget]\nepsilon = 9\n[results]", "budget is no setting"),
        ("[results]", "[policy]\nrounds = 9\n[results]", "policy is no setting"),
        ('folder = "out"', 'folders = "out"', "results.folders is no setting"),
        ('id = "person"\nignore', "ignore", "views.lab.id is missing"),
        ('ignore = ["note"]', 'decimal = ""', "views.lab.decimal must be a text that is not"),
        ('ignore = ["note"]', "decimal = 1", "views.lab.decimal must be a text that is not empty"),
        ('ignore = ["note"]', 'thousands = "__"', "views.lab.thousands must be one character"),
        ('ignore = ["note"]', 'encoding = "utf-9"', "views.lab.encoding must be one that Python"),
        ('ignore = ["note"]', "na_values = [-999]", "views.lab.na_values must be a list of texts"),
        ('ignore = ["note"]', 'na_values = "-9"', "views.lab.na_values must be a list of texts"),
        ("[results]", 'delimiter = ";;"\n[results]', "people.delimiter must be one character"),
        ("lab.csv", "postgresql://ada:${NO_SUCH_WORD}@db/x#t", "variable NO_SUCH_WORD"),
    ],
)
def test_a_wrong_site_is_named(tmp_path, old, new, words):
    path = tmp_path / "site.toml"
    assert old in SITE
    path.write_text(SITE.replace(old, new))
    with pytest.raises(SettingError, match=words) as caught:
        SiteConfig.read(path)
    assert str(path) in str(caught.value)


TEXT_RULES = """
na_values = ["-999", "smoker=?"]
decimal = ","
thousands = "."
delimiter = "|"
encoding = "cp1252"
"""


def test_text_is_read_as_the_site_says(tmp_path):
    rows = "person|smoker|größe|note\n001|yes|1.234,5|-\n2|?|20|x\n3|no|-999|y\n"
    (tmp_path / "lab.csv").write_bytes(rows.encode("cp1252"))
    (tmp_path / "people.csv").write_bytes(b"name|person\nZo\xeb|001\nAda|4\n")
    path, federation = tmp_path / "site.toml", tmp_path / "federation.toml"
    text = SITE.replace('ignore = ["note"]', TEXT_RULES + 'ignore = ["note"]')
    path.write_text(text.replace("[results]", 'delimiter = "|"\nencoding = "cp1252"\n[results]'))
    federation.write_text(FEDERATION)
    config, agreed = SiteConfig.read(path), FederationConfig.read(federation)
    lab = read_site_views(config, agreed)["lab"]
    assert lab.feature_names == ("smoker", "größe")
    assert lab.ids.tolist() == ["001", "2", "3"]
    assert np.array_equal(lab.cells, [[1.0, 1234.5], [np.nan, 20.0], [0.0, np.nan]], equal_nan=True)
    assert read_people(config, agreed).tolist() == ["001", "4"]


def test_a_site_has_every_rule_of_reading_that_the_command_has():
    """A rule that is added to the command must reach sites too; `drop` is about what is written."""
    from cofill.completion import RULES

    fields = set(ViewSource.__dataclass_fields__) | {"id_type", "drop"}
    assert set(RULES) <= fields
    stated = ViewSource(
        "a.csv", "id", {"x": "binary"}, ("y",), None, ("-9",), ",", ".", ";", "utf-8"
    )
    rules = stated.rules("text")
    unset = ColumnRules()
    same = [r for r in RULES if r != "drop" and getattr(rules, r) == getattr(unset, r)]
    assert same == []


def test_a_password_comes_from_the_environment_and_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_PASSWORD", "hunter2")
    path = tmp_path / "site.toml"
    path.write_text(SITE.replace("lab.csv", "postgresql://ada:${LAB_PASSWORD}@db/ward#lab"))
    assert SiteConfig.read(path).views["lab"].source == "postgresql://ada:hunter2@db/ward#lab"
    path.write_text(SITE.replace('id = "person"', 'id = ["postgresql://ada:hunter2@db/ward"]', 1))
    with pytest.raises(SettingError, match=r"views.lab.id must be"):
        SiteConfig.read(path)
    path.write_text(SITE.replace('["note"]', '"postgresql://ada:hunter2@db/ward"'))
    with pytest.raises(SettingError) as caught:
        SiteConfig.read(path)
    assert "hunter2" not in str(caught.value)


def test_views_must_be_those_of_the_federation(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(SITE)
    federation = tmp_path / "federation.toml"
    federation.write_text(FEDERATION)
    given = FederationConfig.read(federation)
    with pytest.raises(SettingError, match=r"must hold blood.*got lab"):
        SiteConfig.read(path).check_against(given, "clinic", path)


def test_shared_views_are_at_every_site_unless_told(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text('views = ["scan", "age"]\n' + FEDERATION.replace('name = "breast"', ""))
    given = FederationConfig.read(path)
    assert given.shared == ("scan", "age")
    assert [s.views for s in given.sites] == [("blood", "scan"), ("scan", "age")]
    assert given.views == {"blood": "clinic"}
    assert (given.membership.is_by_row, given.membership.is_by_view) == (True, False)
    assert FederationConfig.from_json(asdict(given)) == given
    path.write_text('views = ["scan", "scan"]\n' + FEDERATION.replace('name = "breast"', ""))
    with pytest.raises(SettingError, match="views must be names of the views that sites hold"):
        FederationConfig.read(path)


POLICY = """
smallest_group = 12
[budget]
epsilon = 3
[without_guarantee.codes]
people = 1
[experiments.cooperate]
people = ["ada@clinic.example"]
until = 2030-12-31
"""


def test_the_default_policy_is_what_its_file_says(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(DEFAULT_POLICY)
    assert SitePolicy.read(path) == SitePolicy()


def test_a_policy_is_read_beside_the_site(tmp_path):
    (tmp_path / "site.toml").write_text(SITE)
    assert SiteConfig.read(tmp_path / "site.toml").policy == SitePolicy()
    (tmp_path / "policy.toml").write_text(POLICY)
    sign_policy(tmp_path / "policy.toml", "ada")
    policy = SiteConfig.read(tmp_path / "site.toml").policy
    assert list(policy.experiments) == ["cooperate"]
    assert policy.experiments["cooperate"].until == date(2030, 12, 31)
    assert set(policy.spending.allowances) == {"codes"}
    assert (policy.spending.epsilon, policy.spending.only_guaranteed) == (3.0, True)
    assert policy.digest != SitePolicy().digest


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("smallest_group = 12", "smallest_group = 0", "smallest_group must be a whole number from"),
        ("smallest_group = 12", "smallest = 12", "smallest is no setting"),
        ("epsilon = 3", "epsilon = inf", "budget.epsilon must be a number above 0"),
        ("epsilon = 3", "epsilon = 0.5", "budget.per_run must be at most budget.epsilon"),
        ("guarantee.codes", "guarantee.rows", "without_guarantee.rows must be a type of release"),
        (
            "experiments.cooperate",
            "experiments.steal",
            "experiments.steal must be one of cooperate",
        ),
        ("until = 2030-12-31", "until = 'soon'", "experiments.cooperate.until must be a date"),
        ("people = 1", "people = -1", "without_guarantee.codes.people must be a whole number"),
    ],
)
def test_a_wrong_policy_is_named(tmp_path, old, new, words):
    path = tmp_path / "policy.toml"
    assert old in POLICY
    path.write_text(POLICY.replace(old, new))
    with pytest.raises(SettingError, match=words) as caught:
        SitePolicy.read(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingError, match="there is no such file"):
        FederationConfig.read(tmp_path / "none.toml")
    with pytest.raises(SettingError, match="is a folder"):
        SiteConfig.read(tmp_path)
