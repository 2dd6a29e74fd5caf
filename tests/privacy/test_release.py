"""Blinding, sound and unsound codes, the gate, the ledger."""

import json
from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.errors import DataError, SettingError
from cofill.privacy import BlindedIds, Codes, CodeSpec, Gate, Ledger, LedgerEntry, Release, blind

SPEC = CodeSpec("lab", 2, "v1")
IDS = np.array(["ann-4711", "bob-4712", "eve-4713"])


def codes(**changes) -> Codes:
    fields = {
        "sender": "lab",
        "receiver": "clinic",
        "spec": SPEC,
        "tokens": blind(IDS, b"k"),
        "codes": np.array([[0.11111, 0.2], [0.3, 0.4], [0.5, 0.6]]),
    }
    return Codes(**{**fields, **changes})


# --- blinding ---------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_tokens_and_another_key_others():
    one, again, other = blind(IDS, b"k"), blind(IDS, b"k"), blind(IDS, b"other")
    np.testing.assert_array_equal(one, again)
    assert not np.isin(one, other).any()


def test_a_token_depends_on_the_id_alone():
    np.testing.assert_array_equal(blind(IDS[::-1], b"k"), blind(IDS, b"k")[::-1])
    np.testing.assert_array_equal(blind(IDS[1:2], b"k"), blind(IDS, b"k")[1:2])
    # The width of the array's text type says nothing about the person.
    np.testing.assert_array_equal(blind(IDS.astype("U90"), b"k"), blind(IDS, b"k"))


def test_a_number_and_its_text_are_two_people():
    tokens = [blind(np.array([i]), b"k")[0] for i in (7, "7", "07", "int:7")]
    assert len(set(tokens)) == 4


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=30))
def test_tokens_are_distinct_and_of_one_length(ids):
    tokens = blind(np.array(ids, dtype=np.int64), b"k")
    assert len(set(tokens.tolist())) == len(ids)
    assert all(len(t) == 32 for t in tokens.tolist())


def test_no_id_and_no_key_is_in_the_tokens():
    ids = np.array([70_000_000_000_001, 70_000_000_000_002])
    blinded = blind(ids, b"topsecret").tobytes() + blind(IDS, b"topsecret").tobytes()
    for value in (*IDS.tolist(), *map(str, ids), "topsecret"):
        assert value.encode() not in blinded
        assert value.encode().hex().encode() not in blinded
    for value in ids:
        assert value.tobytes() not in blinded
        assert f"{value:x}".encode() not in blinded


def test_no_ids_give_no_tokens():
    for none in (np.array([], dtype=np.int64), np.array([], dtype=str)):
        assert blind(none, b"k").shape == (0,)
        assert blind(none, b"k").dtype == blind(IDS, b"k").dtype


# --- codes ------------------------------------------------------------------------------------


def test_sound_codes_pass():
    codes().check(SPEC)
    codes().check(None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens": blind(IDS[:2], b"k")}, "2 individuals for 3 codes"),
        ({"codes": np.array([[0.1, np.nan]] * 3)}, "3 codes are not finite"),
        ({"codes": np.array([[0.1, 1.0], [0.1, np.inf], [0, 0]])}, "1 codes are not finite"),
        ({"codes": np.ones((3, 3))}, "have width 3, announced were 2"),
        ({"codes": np.ones((3, 3)), "spec": CodeSpec("lab", 3, "v1")}, "not the 2 that the links"),
        ({"spec": CodeSpec("lab", 2, "v2")}, "another version"),
        ({"spec": CodeSpec("bank", 2, "v1")}, "view 'bank', which is not known"),
    ],
)
def test_unsound_codes_are_refused_without_a_value_in_the_message(changes, words):
    with pytest.raises(DataError, match=words) as caught:
        codes(**changes).check(SPEC)
    assert "refused" in str(caught.value)
    assert "0.11111" not in str(caught.value)
    assert not any(t.decode() in str(caught.value) for t in codes().tokens.tolist())


def test_sizes_are_those_of_what_is_sent():
    ids = BlindedIds(sender="a", receiver="b", tokens=blind(IDS, b"k"), purpose="ask")
    assert (ids.n_individuals, ids.n_bytes) == (3, 3 * 32)
    assert (codes().n_individuals, codes().n_bytes) == (3, 3 * 32 + 3 * 2 * 8)
    narrow = codes(codes=np.ones((3, 2), np.float32))
    assert narrow.n_bytes == 3 * 32 + 3 * 2 * 4


# --- the gate and the ledger ------------------------------------------------------------------


def test_the_gate_writes_what_passes():
    gate = Gate(Ledger())
    release = codes()
    assert gate.pass_on(release, "send") is release
    (entry,) = gate.ledger
    assert entry == LedgerEntry(
        step="send",
        kind="codes",
        sender="lab",
        receiver="clinic",
        individuals=3,
        bytes=release.n_bytes,
        epsilon=None,
        facts={"view": "lab", "width": 2, "version": "v1"},
    )


def test_an_undeclared_type_does_not_pass_and_is_not_written():
    @dataclass(frozen=True, eq=False, kw_only=True)
    class Rows(Release):
        """It has no kind, so it is not registered."""

    @dataclass(frozen=True, eq=False, kw_only=True)
    class MoreThanCodes(Codes):
        rows: np.ndarray

    gate = Gate(Ledger())
    more = MoreThanCodes(
        sender="lab", receiver="x", spec=SPEC, tokens=IDS[:0], codes=np.ones((0, 2)), rows=IDS
    )
    for release in (Rows(sender="lab", receiver="clinic"), more):
        with pytest.raises(SettingError, match="no declared type of release"):
            gate.pass_on(release, "send")
    assert len(gate.ledger) == 0


def test_the_ledger_only_grows():
    gate = Gate(Ledger())
    gate.pass_on(codes(), "one")
    kept = list(gate.ledger)
    gate.pass_on(codes(receiver="bank"), "two")
    assert [e.step for e in gate.ledger] == ["one", "two"]
    assert list(gate.ledger)[:1] == kept
    with pytest.raises(FrozenInstanceError):
        kept[0].bytes = 0  # pyright: ignore[reportAttributeAccessIssue]
    listed = gate.ledger.to_list()
    listed[0]["facts"]["view"] = "other"
    listed.clear()
    assert next(iter(gate.ledger)).facts["view"] == "lab"
    assert len(gate.ledger) == 2
    for way in ("__setitem__", "__delitem__", "pop", "remove", "clear", "insert"):
        assert not hasattr(gate.ledger, way)


def test_an_entry_of_the_ledger_cannot_be_changed_through_its_facts():
    gate = Gate(Ledger())
    gate.pass_on(codes(), "one")
    (entry,) = gate.ledger
    with pytest.raises(TypeError):
        entry.facts["view"] = "other"


def test_the_ledger_shows_no_value_and_no_token():
    gate = Gate(Ledger())
    tokens = blind(IDS, b"k")
    gate.pass_on(BlindedIds(sender="a", receiver="b", tokens=tokens, purpose="present"), "align")
    gate.pass_on(codes(), "send")
    shown = repr(gate.ledger) + json.dumps(gate.ledger.to_list()) + repr(list(gate.ledger))
    for value in (*tokens.tolist(), *IDS.tolist()):
        assert (value.decode() if isinstance(value, bytes) else value) not in shown
    assert "0.11111" not in shown
    assert repr(gate.ledger) == "Ledger(1 blinded-ids, 1 codes, 240 bytes)"


def test_an_empty_ledger_says_nothing_was_released():
    assert repr(Ledger()) == "Ledger(nothing, 0 bytes)"
    assert Ledger().to_list() == []


def test_two_ledgers_do_not_share_entries():
    first, second = Ledger(), Ledger()
    Gate(first).pass_on(replace(codes(), receiver="x"), "send")
    assert (len(first), len(second)) == (1, 0)
