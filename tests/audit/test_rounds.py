"""Updates made anew: the very ones, attacked at both ends, by the auditor of a ledger."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.audit import Evidence, RoundWatch, audit_ledger
from cofill.errors import SettingError
from cofill.federate import FederatedCompletion
from cofill.privacy import Ledger
from cofill.views import MultiView, by_row

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3))
VIEWS = MultiView.from_arrays({"a": A, "b": A @ RNG.normal(size=(3, 2)) + RNG.normal(size=(60, 2))})
HELD = by_row(VIEWS, 3, key=0)


@pytest.fixture(scope="module")
def fitted():
    """Three sites of 20 people who learn their own noise by heart."""
    watch = RoundWatch(rounds=2)
    model = FederatedCompletion(
        rounds=4, epochs=30, batch=4, learning_rate=1e-2, network={"width": 16, "blocks": 1}
    )
    return watch, model.fit_sites(HELD, on_round=watch)


def updates_of(model, site):
    return [e for e in model.ledger_ if e.kind == "update" and e.sender == site]


def test_updates_made_anew_are_the_very_ones(fitted):
    watch, model = fitted
    assert [one.number for one in watch.updates] == [3, 4]
    site = model.federation_.sites["site_1"]
    last = watch.updates[-1]
    mean = np.mean([last.updates[name].change for name in HELD], axis=0)
    np.testing.assert_allclose(last.weights + mean, model.weights_, atol=1e-5)
    assert last.updates["site_1"].rows == len(site.rows) == 20
    entries = updates_of(model, "site_1")
    assert watch.is_of(entries)
    other = [replace(e, facts={**e.facts, "loss": e.facts["loss"] * 1.01}) for e in entries]
    assert not watch.is_of(other)


def test_people_learned_by_heart_are_told_from_others(fitted):
    watch, _ = fitted
    for site in HELD:
        rate, area = watch.leaks(site)
        assert (area.figure, area.sizes["members"], area.sizes["strangers"]) == ("AUC", 20, 40)
        assert area.attack > 0.9
        assert area.excludes_floor()
        assert area.control < 0.8  # the common model has learned from everybody
        assert rate.figure == "TPR at 1 % FPR"


def test_an_update_that_changes_nothing_tells_nothing(fitted):
    watch, _ = fitted
    still = RoundWatch(rounds=2)
    still._seen.extend(watch._seen)
    still.updates = tuple(
        replace(
            one,
            updates={n: replace(k, change=np.zeros_like(k.change)) for n, k in one.updates.items()},
        )
        for one in watch.updates
    )
    _, area = still.leaks("site_1")
    assert area.attack == 0.5
    assert not area.excludes_floor()


def test_the_ledgers_updates_are_attacked_on_the_runs_own_network(fitted):
    watch, model = fitted
    audit = audit_ledger(model.ledger_, Evidence(rounds=watch))
    assert {r.kind for r in audit.releases} == {
        "update",
        "model",
        "columns",
        "column-summary",
        "column-scales",
    }
    found = [r for r in audit.releases if r.kind == "update"]
    assert [r.sender for r in found] == list(HELD)
    for release in found:
        assert release.individual in ("considerable", "near-total")
        assert "own network" in release.notes[0]
        assert "the very ones" in release.notes[0]
    foreign = Ledger([replace(e, sender="stranger", chain="") for e in updates_of(model, "site_1")])
    (release,) = audit_ledger(foreign, Evidence(rounds=watch)).releases
    assert release.individual == "not attacked"


def test_nothing_is_covered_before_a_round_was_watched():
    assert not RoundWatch().covers("site_1")
    with pytest.raises(SettingError, match="rounds must be at least 1"):
        RoundWatch(rounds=0)
