"""Updates and common models as they were sent: attacked at both ends, by the run's own network."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.audit import audit_ledger, read_evidence
from cofill.audit._evidence import start_row_sites
from cofill.federate import FederatedCompletion
from cofill.privacy import Ledger, SentLog
from cofill.protocol import Membership
from cofill.views import MultiView, by_row

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3))
VIEWS = MultiView.from_arrays({"a": A, "b": A @ RNG.normal(size=(3, 2)) + RNG.normal(size=(60, 2))})
HELD = by_row(VIEWS, 3, key=0)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Three sites of 20 people who learn their own noise by heart, and what they sent."""
    model = FederatedCompletion(
        rounds=4,
        secure=False,
        epochs=30,
        batch=4,
        learning_rate=1e-2,
        network={"width": 16, "blocks": 1},
    )
    model.sent = SentLog(tmp_path_factory.mktemp("run") / "sent", last_rounds=2)
    model.fit_sites(HELD)
    return model, read_evidence([model.sent], row_sites=model.federation_.sites)


def updates_audit(model, evidence, site="site_1"):
    entries = [e for e in model.ledger_ if e.kind == "update" and e.sender == site]
    (release,) = audit_ledger(Ledger([replace(e, chain="") for e in entries]), evidence).releases
    return release


def test_people_learned_by_heart_are_told_from_others(fitted):
    model, evidence = fitted
    for site in HELD:
        release = updates_audit(model, evidence, site)
        rate, area = release.leaks
        assert (area.figure, area.sizes["members"], area.sizes["strangers"]) == ("AUC", 20, 40)
        assert area.attack > 0.9
        assert area.excludes_floor()
        assert area.control < 0.8  # the common model has learned from everybody
        assert rate.figure == "TPR at 1 % FPR"
        assert release.individual in ("considerable", "near-total")
        assert "rounds 3, 4 as they were sent" in release.notes[0]


def test_an_update_that_changes_nothing_tells_nothing(fitted):
    model, evidence = fitted
    sent = tuple(
        replace(r, change=np.zeros_like(r.change)) if r.kind == "update" else r
        for r in evidence.sent
    )
    _, area = updates_audit(model, replace(evidence, sent=sent)).leaks
    assert area.attack == 0.5
    assert not area.excludes_floor()


def test_all_types_of_the_run_are_audited(fitted):
    model, evidence = fitted
    audit = audit_ledger(model.ledger_, evidence)
    assert {r.kind for r in audit.releases} >= {"update", "model", "column-summary"}
    assert [r.sender for r in audit.releases if r.kind == "update"] == list(HELD)


def test_without_values_rows_or_other_sites_updates_are_not_attacked(fitted):
    model, evidence = fitted
    for changes, reason in (
        ({"row_sites": {}}, "rows of 'site_1' were not given"),
        ({"sent": (), "held": {"site_1": {}}}, "kept no values"),
        ({"row_sites": {"site_1": model.federation_.sites["site_1"]}}, "no other site"),
    ):
        release = updates_audit(model, replace(evidence, **changes))
        assert release.individual == "not attacked"
        assert reason in release.reason


def test_rows_are_encoded_anew_as_the_run_did_without_training(fitted):
    model, _ = fitted
    members = Membership({site: tuple(views) for site, views in HELD.items()}, tuple(VIEWS))
    sites = start_row_sites(model.protocol(members), HELD)
    for name, site in sites.items():
        trained = model.federation_.sites[name]
        np.testing.assert_array_equal(site.rows.cells, trained.rows.cells)
        assert site.learner == trained.learner


# --- common models ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def summed(tmp_path_factory):
    """Sites whose updates are summed securely, with nothing to learn but each person's noise."""
    noise = MultiView.from_arrays({"a": RNG.normal(size=(60, 4)), "b": RNG.normal(size=(60, 4))})
    held = by_row(noise.take(np.arange(60) < 15), 3, key=0)
    model = FederatedCompletion(
        rounds=6, epochs=40, batch=4, learning_rate=1e-2, network={"width": 32, "blocks": 1}
    )
    model.sent = SentLog(tmp_path_factory.mktemp("run") / "sent", last_rounds=3)
    model.fit_sites(held)
    strangers = noise.take(np.arange(60) >= 15)
    sites = model.federation_.sites
    return model, read_evidence([model.sent], row_sites=sites, strangers=strangers)


def models_audit(model, evidence):
    entries = [replace(e, chain="") for e in model.ledger_ if e.kind == "model"]
    (release,) = audit_ledger(Ledger(entries), evidence).releases
    return release


def test_people_that_the_sum_learned_by_heart_are_told_from_strangers(summed):
    release = models_audit(*summed)
    changed, last = (leak for leak in release.leaks if leak.figure == "AUC")
    assert "what rounds 4, 5, 6 changed" in changed.name
    assert (last.sizes["members"], last.sizes["strangers"]) == (15, 45)
    assert last.attack > 0.8
    assert last.excludes_floor()
    assert last.control < 0.7  # a model that nobody has trained
    assert release.individuals == 15
    assert release.individual in ("considerable", "near-total")


def test_models_that_do_not_change_tell_nothing_by_their_changes(summed):
    model, evidence = summed
    models = [r for r in evidence.sent if r.kind == "model"]
    sent = tuple(replace(m, weights=models[0].weights) for m in models)
    changed, _ = (
        leak
        for leak in models_audit(model, replace(evidence, sent=sent)).leaks
        if leak.figure == "AUC"
    )
    assert changed.attack == 0.5


def test_without_strangers_rows_or_models_the_reason_is_said(summed, fitted):
    model, evidence = summed
    for changes, reason in (
        ({"strangers": None}, "people whom no site trained on"),
        ({"row_sites": {}}, "rows that sites trained on, are needed"),
        ({"sent": ()}, "models of two rounds"),
    ):
        release = models_audit(model, replace(evidence, **changes))
        assert release.individual == "not attacked"
        assert reason in release.reason
    assert "what it tells of people, they tell" in models_audit(*fitted).reason
