"""Audits of ledgers: every type of release has an auditor, and an unknown one fails the audit."""

import numpy as np
import pytest

from cofill.audit import AUDITORS, Evidence, audit_ledger, not_attacked
from cofill.errors import DataError, SettingError
from cofill.privacy import (
    BlindedIds,
    Box,
    Codes,
    CodeSpec,
    ColumnSummary,
    Gate,
    GroupSums,
    Ledger,
    LedgerEntry,
    MeanDefence,
    blind,
    release_types,
)
from cofill.views import View

RNG = np.random.default_rng(0)
RANDOM = (
    "blinding-part",
    "dealt-words",
    "pad-key",
    "public-keys",
    "revealed-shares",
    "roster",
    "sealed-shares",
    "survivors",
)


def entry(kind, *, sender="lab", receiver="ward", individuals=50, **facts):
    return LedgerEntry("step", kind, sender, receiver, individuals, 100, None, facts)


def test_every_declared_type_of_release_has_an_auditor():
    assert set(AUDITORS.names) == set(release_types())


@pytest.mark.parametrize("kind", sorted(AUDITORS.names))
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


def test_a_new_type_needs_one_auditor_only(monkeypatch):
    monkeypatch.setattr(AUDITORS, "_entries", dict(AUDITORS._entries))
    AUDITORS.add("telepathy", not_attacked("thoughts", "nobody can read them"))
    (release,) = audit_ledger(Ledger([entry("telepathy")])).releases
    assert (release.individual, release.reason) == ("not attacked", "nobody can read them")


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
    columns = {"a": np.array([[40.0] * 4, [1] * 4, [9] * 4, [0] * 4, [2] * 4])}
    summary = ColumnSummary(sender="lab", receiver="ward", columns=columns, rows=40)
    ledger = Ledger()
    Gate(ledger).pass_on(summary, "send")
    for evidence in (Evidence(), Evidence(sent=(summary,))):
        (release,) = audit_ledger(ledger, evidence).releases
        assert release.leaks[0].attack == pytest.approx(2 / 40)
        assert release.individual == "small"


def test_of_a_column_of_three_values_the_mean_gives_the_third_away():
    columns = {"a": np.array([[3.0, 40, 40], [1, 1, 0], [9, 9, 0], [0, 0, 0], [2, 2, 0]])}
    summary = ColumnSummary(sender="lab", receiver="ward", columns=columns, rows=40)
    evidence = Evidence(sent=(summary,))
    (release,) = audit_ledger(Ledger([entry("column-summary")]), evidence).releases
    # Three cells, two cells, and none of the column without a range.
    assert release.leaks[0].attack == pytest.approx((3 + 2) / 83)


def sums(counts, number=1):
    return GroupSums(
        sender="lab",
        receiver="ward",
        round=number,
        sums=np.ones((len(counts), 2)),
        counts=np.array(counts, float),
    )


@pytest.mark.parametrize(
    ("rounds", "share", "verdict"),
    [([[20, 20]], 0.0, "none seen"), ([[20, 20], [1, 1, 38], [40, 0]], 2 / 40, "small")],
)
def test_a_group_of_one_person_is_a_row(rounds, share, verdict):
    sent = tuple(sums(counts, number) for number, counts in enumerate(rounds))
    (release,) = audit_ledger(Ledger([entry("group-sums")]), Evidence(sent=sent)).releases
    assert release.leaks[0].attack == pytest.approx(share)
    assert release.individual == verdict


def test_people_are_told_by_a_mean_with_little_noise_and_not_with_much():
    rows = {name: RNG.normal(size=(30, 200)) for name in ("lab", "ward")}
    held = {
        name: {"blood": View("blood", np.arange(30) + 100 * k, cells)}
        for k, (name, cells) in enumerate(rows.items())
    }
    verdicts = []
    for cost in (1e6, 0.01):
        mean = MeanDefence(Box(-4.0, 4.0), cost).release(
            rows["lab"], sender="lab", receiver="ward", rng=0
        )
        ledger = Ledger()
        Gate(ledger).pass_on(mean, "send")
        (release,) = audit_ledger(ledger, Evidence(sent=(mean,), held=held)).releases
        verdicts.append(release.individual)
    assert verdicts[0] in ("considerable", "near-total")
    assert verdicts[1] == "none seen"


def test_ids_are_confirmed_with_the_secret_and_not_without():
    lab = View("lab", np.arange(40), RNG.normal(size=(40, 2)))
    ward = View("ward", np.arange(20, 90), RNG.normal(size=(70, 2)))
    tokens = blind(lab.ids, b"agreed")
    sent = (BlindedIds(sender="lab", receiver="ward", tokens=tokens, purpose="present"),)
    evidence = Evidence(sent=sent, keys={"lab": b"agreed"}, views={"lab": lab, "ward": ward})
    ledger = Ledger([entry("blinded-ids", individuals=40)])
    (release,) = audit_ledger(ledger, evidence).releases
    inside, outside = release.leaks
    assert (inside.attack, inside.sizes["candidates"]) == (1.0, 90)
    assert outside.attack == 0.0
    assert not outside.excludes_floor()
    assert release.individual == "near-total"


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
