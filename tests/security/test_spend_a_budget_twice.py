"""A submitter wants more than a person's budget: other names, other federations, a lost ledger."""

import json
import shutil
from dataclasses import replace

import pytest

from cofill.errors import SettingError, StoreError
from cofill.network._account import SiteAccount
from cofill.network._order import RunOrder, new_run
from cofill.network._policy import SitePolicy, Spending
from cofill.privacy import Ledger
from cofill.protocol import PartyFolder

MEAN = {"epsilon": 0.5, "low": 0.0, "high": 1.0, "view": "u"}
TWICE = SitePolicy(budget=Spending(epsilon=0.9, per_run=0.6))


def ask(federation, **changes) -> None:
    """Have site a release another mean."""
    federation.order = RunOrder(new_run(), "mean", {**federation.order.settings, **changes})
    federation.place("a").act(0, {})


def ask_often(federation, times: int) -> None:
    for _ in range(times):
        ask(federation)


@pytest.fixture
def spent(rows_at):
    """A federation whose site a has spent its budget."""
    federation = rows_at("mean", MEAN, TWICE)
    ask(federation)
    ask(federation)
    with pytest.raises(SettingError, match=r"noisy-mean from 'a'.*of 0.9"):
        ask(federation)
    return federation


def account(federation) -> SiteAccount:
    home = PartyFolder(federation.base / "a" / "home")
    return SiteAccount(federation.configs["a"].account_folder, home)


def test_a_site_without_a_policy_has_a_budget(rows_at):
    federation = rows_at("mean", {**MEAN, "epsilon": 1.0})
    with pytest.raises(SettingError, match=r"of 2 at δ = 1e-05"):
        ask_often(federation, 38)
    assert 2 <= len(Ledger.load(federation.ledger("a"))) < 5


def test_views_of_one_site_share_a_budget(here):
    federation = here(sites={"a": ("a", "b"), "two": ("c",)})
    settings = {"epsilon": 0.5, "low": 0.0, "high": 1.0}
    federation.order = RunOrder(new_run(), "mean", settings)
    policy = SitePolicy(budget=Spending(epsilon=0.6, per_run=0.6))
    federation.configs["a"] = replace(federation.configs["a"], policy=policy)
    with pytest.raises(SettingError, match=r"noisy-mean from 'b'.*what the run costs"):
        federation.place("a").act(0, {})


def test_one_run_cannot_take_it_all(rows_at):
    federation = rows_at("mean", {**MEAN, "noise": "laplace per coordinate", "epsilon": 0.4})
    # By the order it costs 0.4, by the columns that the site has three times that.
    with pytest.raises(SettingError, match=r"bring what the run costs to ε = 1.2"):
        federation.place("a").act(0, {})


def test_a_second_federation_does_not_double_it(spent, tmp_path):
    # Another kit, and the operator's same folder of policy and account.
    other = replace(spent.configs["a"], account=spent.configs["a"].account_folder)
    spent.configs["a"] = other
    spent.base = tmp_path / "other federation"
    with pytest.raises(SettingError, match=r"noisy-mean from 'a'.*of 0.9"):
        ask(spent)


def test_a_deleted_ledger_does_not_give_it_back(spent):
    spent.ledger("a").unlink()
    with pytest.raises(StoreError, match=r"must go on from the .* lines that the site's account"):
        ask(spent)


def test_a_deleted_folder_of_the_site_does_not_give_it_back(spent):
    shutil.rmtree(spent.base / "a" / "home")
    with pytest.raises(StoreError, match="must go on from"):
        ask(spent)


def test_a_ledger_cut_short_does_not_give_it_back(spent):
    lines = spent.ledger("a").read_text().splitlines(keepends=True)
    spent.ledger("a").write_text("".join(lines[:-1]))
    with pytest.raises(StoreError, match="must go on from"):
        ask(spent)


def test_a_ledger_written_anew_does_not_give_it_back(spent):
    lines = spent.ledger("a").read_text().count("\n")
    entry = next(iter(Ledger.load(spent.ledger("a"))))
    spent.ledger("a").unlink()
    Ledger([replace(entry, event=None, chain="")] * lines).save(spent.ledger("a"))
    with pytest.raises(StoreError, match="must go on from"):
        ask(spent)


def test_a_deleted_account_does_not_give_it_back(spent):
    shutil.rmtree(account(spent).folder)
    with pytest.raises(StoreError, match="knows nothing of them"):
        ask(spent)


def test_a_changed_head_does_not_give_it_back(spent):
    spent.ledger("a").unlink()
    path = account(spent).folder / "heads.json"
    path.write_text(path.read_text().replace('"lines": ', '"lines": 0'))
    with pytest.raises(StoreError):
        ask(spent)


def test_the_account_is_for_its_owner_only(spent):
    folder = account(spent).folder
    assert folder.stat().st_mode & 0o077 == 0
    key = account(spent).key_file
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder / "heads.json", key))


def test_the_key_of_the_account_lies_beside_nothing_that_it_protects(spent):
    key, folder = account(spent).key_file, account(spent).folder
    assert key.read_bytes() not in [p.read_bytes() for p in folder.rglob("*") if p.is_file()]
    assert folder not in key.parents
    # Heads that somebody writes who has the folder, and no key.
    spent.ledger("a").unlink()
    path = folder / "heads.json"
    document = json.loads(path.read_text())
    forged = {**document, "heads": {}, "key": "../../key"}
    path.write_text(json.dumps(forged))
    with pytest.raises(StoreError, match="was changed by somebody else"):
        ask(spent)
    path.write_text(json.dumps({**forged, "key": document["key"]}))
    with pytest.raises(StoreError, match="was changed by somebody else"):
        ask(spent)


def test_a_lost_key_does_not_give_it_back(spent):
    account(spent).key_file.unlink()
    with pytest.raises(
        StoreError, match=r"is the key of the account .* cannot be read; restore it"
    ):
        ask(spent)


def test_a_crash_after_the_ledger_was_written_is_survived(rows_at):
    federation = rows_at("mean", MEAN, TWICE)
    ask(federation)
    kept = (account(federation).folder / "heads.json").read_bytes()
    ask(federation)
    (account(federation).folder / "heads.json").write_bytes(kept)
    with pytest.raises(SettingError, match=r"noisy-mean from 'a'.*of 0.9"):
        ask(federation)


def test_a_kit_that_was_moved_goes_on(spent, tmp_path):
    moved = tmp_path / "moved"
    spent.configs["a"] = replace(spent.configs["a"], account=account(spent).folder)
    (moved / "a").mkdir(parents=True)
    shutil.move(spent.base / "a" / "home", moved / "a" / "home")
    spent.base = moved
    with pytest.raises(SettingError, match=r"noisy-mean from 'a'.*of 0.9"):
        ask(spent)


def test_a_run_that_was_forgotten_is_paid_for_again(rows_at):
    federation = rows_at("mean", MEAN, TWICE)
    federation.place("a").act(0, {})
    PartyFolder(federation.base / "a" / "home").run(federation.order.run).forget()
    # Its answer may be with the coordinator: another one is another release.
    with pytest.raises(SettingError, match="what the run costs"):
        federation.place("a").act(0, {})


def test_an_attempt_that_was_cut_off_is_paid_for_once(rows_at, monkeypatch):
    federation = rows_at("mean", MEAN, TWICE)
    for _ in range(5):
        place = federation.place("a")
        with monkeypatch.context() as patch:
            patch.setattr(
                place.state, "write", lambda state: (_ for _ in ()).throw(OSError("full"))
            )
            with pytest.raises(OSError, match="full"):
                place.act(0, {})
    federation.place("a").act(0, {})
    assert len(Ledger.load(federation.ledger("a"))) == 1
    ask(federation)
    with pytest.raises(SettingError, match=r"noisy-mean from 'a'.*of 0.9"):
        ask(federation)
