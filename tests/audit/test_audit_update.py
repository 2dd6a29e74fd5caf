"""Audits of updates and networks: without a defence they leak, with ε = 1 they do not."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.attack import MatchingSettings, train_shadows
from cofill.audit import UpdateAuditSettings, audit_update
from cofill.errors import DataError, SettingError
from cofill.nets import TrainSettings

ROWS = np.random.default_rng(0).normal(size=(80, 30))
MEMBERS = UpdateAuditSettings(
    widths=(48, 24),
    training=TrainSettings(epochs=120, learning_rate=1e-2, batch_size=None),
    networks=8,
    attacked=4,
    inversion=False,
)
UPDATES = UpdateAuditSettings(
    widths=(3,),
    trials=8,
    rows=2,
    steps=1,
    sites=2,
    membership=False,
    matching=MatchingSettings(starts=1, steps=50),
)


@pytest.mark.parametrize("attempts", [1, 3])
def test_training_claims_what_all_its_attempts_cost(monkeypatch, attempts):
    def train(*args, **options):
        shadows = train_shadows(*args, **options)
        return replace(shadows, steps=attempts * shadows.steps)

    monkeypatch.setattr("cofill.audit._update.train_shadows", train)
    short = replace(MEMBERS.training, epochs=4)
    _, private = audit_update(ROWS, settings=replace(MEMBERS, training=short)).releases
    assert (private.claim.epsilon > 1.5) == (attempts > 1)


@pytest.mark.full
def test_members_are_found_without_noise_and_not_with_it():
    plain, private = audit_update(ROWS, settings=MEMBERS).releases
    assert all(leak.excludes_floor() for leak in plain.leaks)
    assert plain.individual == "near-total"
    assert plain.claim is None
    assert plain.proof.epsilon > 1
    assert not any(leak.excludes_floor() for leak in private.leaks)
    assert private.individual == "none seen"
    assert private.claim.epsilon == pytest.approx(1.0, abs=0.01)
    assert private.proof.epsilon <= private.claim.epsilon
    assert not private.refuted


def test_rows_are_read_from_an_update_without_noise_and_not_with_it():
    audit = audit_update(ROWS[:, :5], settings=UPDATES)
    one, round_, summed, noised = audit.releases
    assert [r.kind for r in audit.releases] == ["update", "update", "masked-vector", "update"]
    assert one.individual == "near-total"
    assert one.leaks[0].excludes_floor()
    assert one.leaks[0].attack == 1.0
    assert noised.individual == "none seen"
    assert not noised.leaks[0].excludes_floor()
    assert (noised.claim.epsilon, noised.claim.unit) == (pytest.approx(1.0, rel=1e-6), "site")
    assert round_.leaks[0].sizes["rows"] == 16
    assert summed.leaks[0].sizes["sites"] == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"delta": 0}, "delta must be in \\(0, 1\\)"),
        ({"clip": 0}, "clip must be above 0"),
        ({"widths": ()}, "widths must be one or more"),
        ({"sites": 1}, "sites must be at least 2"),
        ({"membership": False, "inversion": False}, "must not both be left out"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        UpdateAuditSettings(**settings)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((0, 3)), "empty release"),
        (np.ones((1, 3)), "at least 20 people, got 1"),
        (np.ones((30, 3)), "must differ between people"),
    ],
)
def test_rows_that_cannot_be_audited_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        audit_update(rows, settings=UPDATES)


def test_too_few_rows_for_the_round_are_told():
    many = UpdateAuditSettings(rows=8, sites=3, membership=False)
    with pytest.raises(DataError, match="at least 48 for 3 sites of 8 rows, got 30"):
        audit_update(ROWS[:30], settings=many)
