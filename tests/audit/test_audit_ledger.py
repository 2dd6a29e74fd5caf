"""Audits of ledgers: every type of release has an auditor, and an unknown one fails the audit."""

import numpy as np
import pytest

from cofill.attack import MatchingSettings
from cofill.audit import AUDITORS, Evidence, UpdateAuditSettings, audit_ledger, evidence_of
from cofill.errors import DataError, SettingError
from cofill.privacy import (
    Box,
    Codes,
    CodeSpec,
    ColumnSummary,
    Gate,
    Ledger,
    LedgerEntry,
    MeanDefence,
    release_types,
)
from cofill.views import View

RNG = np.random.default_rng(0)
RANDOM = ("blinding-part", "public-keys", "revealed-shares", "roster", "sealed-shares", "survivors")


def entry(kind, *, sender="lab", receiver="ward", individuals=50, **facts):
    return LedgerEntry("step", kind, sender, receiver, individuals, 100, None, facts)


def test_every_declared_type_of_release_has_an_auditor():
    assert set(AUDITORS) == set(release_types())


@pytest.mark.parametrize("kind", sorted(AUDITORS))
def test_without_rows_every_type_is_attacked_or_says_why_not(kind):
    audit = audit_ledger(Ledger([entry(kind, columns=3, smallest_count=50)]))
    (release,) = audit.releases
    assert release.leaks or release.reason
    if kind in RANDOM:
        assert release.individual == "nothing about a person"
    elif kind != "column-summary":
        assert release.individual == "not attacked"


def test_an_unknown_type_fails_the_audit():
    ledger = Ledger([entry("codes"), entry("telepathy")])
    with pytest.raises(DataError, match=r"'telepathy'.*the audit fails"):
        audit_ledger(ledger)


def test_an_empty_ledger_is_refused():
    with pytest.raises(DataError, match="nothing has left"):
        audit_ledger(Ledger())


def test_noise_in_the_ledger_is_claimed_proved_and_counted_once():
    ledger = Ledger()
    gate = Gate(ledger)
    rows = RNG.uniform(size=(60, 3))
    noisy = MeanDefence(Box(0.0, 1.0), 2.0).release(rows, sender="lab", receiver="ward", rng=0)
    for receiver in ("ward", "bank"):
        gate.pass_on(type(noisy)(**{**vars(noisy), "receiver": receiver}), "send")
    audit = audit_ledger(ledger)
    (release,) = audit.releases
    assert release.receiver == "ward, bank"
    assert release.claim.epsilon == pytest.approx(2.0, rel=1e-6)
    assert 0 < release.proof.epsilon <= release.claim.epsilon
    assert audit.spent["lab"][0] == pytest.approx(2.0, rel=1e-6)
    with pytest.raises(SettingError, match=r"'lab' has spent ε = 2 .* more than its budget of 1"):
        audit_ledger(ledger, budget=1.0)
    assert audit_ledger(ledger, budget=2.0).spent == audit.spent


def test_ledgers_of_several_sites_are_one_audit():
    ledgers = [Ledger([entry("figures", sender=name)]) for name in ("lab", "ward", "bank")]
    audit = audit_ledger(ledgers)
    assert [r.sender for r in audit.releases] == ["lab", "ward", "bank"]
    assert audit.settings["entries"] == 3


def test_a_range_gives_two_cells_of_every_column_away():
    ledger = Ledger()
    columns = {"a": np.vstack([np.full((1, 4), 40.0), np.zeros((4, 4))])}
    summary = ColumnSummary(sender="lab", receiver="ward", columns=columns, rows=40)
    Gate(ledger).pass_on(summary, "send")
    (release,) = audit_ledger(ledger).releases
    assert release.leaks[0].attack == pytest.approx(2 / 40)
    assert release.individual == "small"


def test_ids_are_confirmed_with_the_secret_and_not_without():
    own = View("lab", np.arange(40), RNG.normal(size=(40, 2)))
    other = View("ward", np.arange(20, 90), RNG.normal(size=(70, 2)))
    evidence = Evidence(views={"lab": own, "ward": other})
    (release,) = audit_ledger(Ledger([entry("blinded-ids", individuals=40)]), evidence).releases
    inside, outside = release.leaks
    assert (inside.attack, inside.sizes["candidates"]) == (1.0, 90)
    assert outside.attack == 0.0
    assert not outside.excludes_floor()
    assert release.individual == "near-total"


def test_updates_are_attacked_on_the_owners_rows():
    quick = UpdateAuditSettings(
        widths=(3,), trials=4, rows=1, steps=1, matching=MatchingSettings(starts=1, steps=20)
    )
    own = View("lab", np.arange(60), RNG.normal(size=(60, 4)))
    evidence = evidence_of({"lab": own}, updates=quick)
    (release,) = audit_ledger(Ledger([entry("update", individuals=1)]), evidence).releases
    assert release.individual == "near-total"
    assert "stand-in" in release.notes[0]


def test_codes_with_noise_state_what_the_noise_covers():
    from cofill.privacy import GaussianEvent

    ledger = Ledger()
    release = Codes(
        sender="lab",
        receiver="ward",
        spec=CodeSpec("lab", 2, "v"),
        tokens=np.array([b"a" * 32] * 20),
        codes=RNG.normal(size=(20, 2)),
        event=GaussianEvent(2.0),
        table="one",
    )
    Gate(ledger).pass_on(release, "send")
    (found,) = audit_ledger(ledger).releases
    assert found.claim.by == "the accountant, for what the noise covers"
    assert found.proof.epsilon <= found.claim.epsilon
