"""Audits of codes, at both ends, with k-anonymity and with what is refused."""

import json

import numpy as np
import pyarrow as pa
import pytest

from cofill.attack import DecoderSettings, LinkageSettings
from cofill.audit import CodeAuditSettings, anonymity, audit_codes
from cofill.errors import DataError, SettingError
from cofill.nets import FusionSettings

RNG = np.random.default_rng(0)
ROWS = RNG.exponential(size=(120, 4)) * [4, 3, 2, 1]
MIX = RNG.normal(size=(4, 6))
LINEAR = DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()), draws=200)
QUICK = CodeAuditSettings(
    pairs=(0, 10, "all"), decoders=LINEAR, linkage=LinkageSettings(repeats=1, rounds=5)
)


def test_codes_that_tell_everything_are_called_near_total():
    audit = audit_codes(
        ROWS @ MIX,
        ROWS,
        known=RNG.normal(size=(120, 2)),
        public=RNG.exponential(size=(100, 4)) * [4, 3, 2, 1],
        attribute=ROWS[:, 0] > 3,
        attribute_name="rich",
        second=ROWS @ RNG.normal(size=(4, 5)),
        settings=QUICK,
    )
    release = audit.releases[0]
    assert audit.verdict == "near-total"
    assert release.kind == "codes"
    assert release.individuals == 120
    assert release.claim is None
    assert "narrower" in release.change
    names = {leak.name for leak in release.leaks}
    assert {"code inversion, 0 pairs", "code inversion, 10 pairs", "code inversion, all pairs"} < (
        names
    )
    assert {"inference of rich, all pairs", "linkage, 0 pairs", "linkage, 10 pairs"} < names
    whole = next(x for x in release.leaks if x.name == "code inversion, all pairs")
    assert whole.attack > 0.95 > 0.2 > whole.control
    assert release.anonymity[0].smallest == 1
    assert release.anonymity[0].share_below == 1.0


def test_codes_of_nobody_in_particular_are_called_none_seen():
    audit = audit_codes(RNG.normal(size=(120, 6)), ROWS, settings=QUICK)
    assert audit.verdict == "none seen"
    assert audit.releases[0].change == "Nothing, against the attackers tried here."
    assert "needs public rows" in audit.releases[0].notes[0]


def test_table_and_record_hold_the_same_figures():
    audit = audit_codes(ROWS @ MIX, ROWS, settings=QUICK)
    table = audit.table()
    frame = pa.Table.from_pylist(table.rows)
    assert frame.num_rows == len(audit.releases[0].leaks)
    record = json.loads(audit.to_json())
    leaks = record["releases"][0]["leaks"]
    assert [row["leak"] for row in table.rows] == [leak["attack"] for leak in leaks]
    assert record["verdict"] == "near-total"
    assert record["settings"]["pairs"] == [0, 10, "all"]
    assert "near-total" in str(table)


def test_too_few_people_for_many_pairs_are_told():
    settings = CodeAuditSettings(pairs=(10, 100, "all"), decoders=LINEAR)
    audit = audit_codes((ROWS @ MIX)[:60], ROWS[:60], settings=settings)
    assert audit.releases[0].notes == ("60 people are too few for 100 pairs: not tried",)


def test_groups_are_counted_by_hand():
    codes = np.array([[0.0, 1], [0, 1], [0, 1], [9, 1], [9, 1], [5, 2]])
    found = anonymity(codes, k=3, steps=(0,))[0]
    assert (found.people, found.groups, found.smallest) == (6, 3, 1)
    assert found.share_below == pytest.approx(0.5)
    coarse = anonymity(RNG.normal(size=(500, 1)), k=5, steps=(0, 4))
    assert coarse[0].groups == 500
    assert coarse[1].groups <= 3


@pytest.mark.parametrize(
    ("codes", "rows", "message"),
    [
        (np.zeros((0, 3)), np.zeros((0, 3)), "empty release cannot be attacked"),
        (np.ones((1, 3)), np.ones((1, 3)), "at least 10 people, got 1"),
        (np.ones((30, 3)), ROWS[:30], "must differ between people"),
        ((ROWS @ MIX)[:30], ROWS[:29], "30 of codes, 29 of rows"),
    ],
)
def test_releases_that_cannot_be_attacked_are_refused(codes, rows, message):
    with pytest.raises(DataError, match=message):
        audit_codes(codes, rows, settings=QUICK)


def test_bad_roundings_are_refused():
    with pytest.raises(SettingError, match="k must be at least 2"):
        anonymity(ROWS, k=1)
    with pytest.raises(SettingError, match="steps must be 0 or more"):
        anonymity(ROWS, steps=(-1,))
