"""Releases as bytes and messages: nothing but declared types, nothing to the wrong place."""

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import cofill.privacy
from cofill.codec import decode, encode
from cofill.errors import CofillError, DataError, SettingError, StoreError
from cofill.network._identity import Identity
from cofill.network._messages import MAGIC, read_address, read_message, write_message
from cofill.privacy import (
    BlindedIds,
    BlindedPoints,
    BlindingPart,
    Box,
    ChosenPenalties,
    Codes,
    CodeSpec,
    Columns,
    ColumnScales,
    ColumnSummary,
    CommonFeatures,
    DealtWords,
    EncryptedIds,
    GaussianEvent,
    GroupCentres,
    GroupSums,
    MaskedRows,
    MaskedVector,
    MeanDefence,
    MessageAddress,
    ModelWeights,
    Needs,
    OpenedShares,
    PaddedCells,
    PadKey,
    PublicKeys,
    Release,
    RevealedShares,
    Roster,
    RowFlags,
    RunFigures,
    ScoreShares,
    SealedShares,
    SelectedCells,
    SlotPlan,
    Survivors,
    Update,
    blind,
    compose,
    decode_releases,
    encode_releases,
    release_types,
)
from cofill.views import Feature, Kind

TOKENS = blind(np.array(["ann", "bob"]), b"secret")
TO = {"sender": "a", "receiver": "b"}
KEYS = PublicKeys(**TO, round=1, seal_key=b"k" * 32, mask_key=b"m" * 32, signature=b"s" * 64)
ROWS = np.arange(2)
WORDS = {"a/feature/0": np.arange(4, dtype=np.uint64).reshape(2, 2)}
EXAMPLES: list[Release] = [
    BlindedIds(**TO, tokens=TOKENS, purpose="ask"),
    Codes(
        **TO,
        spec=CodeSpec("a", 3, "v1"),
        tokens=TOKENS,
        codes=np.arange(6, dtype=np.float32).reshape(2, 3),
    ),
    BlindingPart(**TO, part=b"p" * 32),
    Columns(
        **TO,
        features={
            "scan": (Feature("p0", dtype="int64"), Feature("p1")),
            "ward": (Feature("smoker", Kind.BINARY, categories=(False, True), dtype="bool"),),
        },
        shapes={"scan": (1, 2)},
    ),
    ColumnScales(**TO, columns={"blood": np.ones((4, 2))}),
    ColumnSummary(**TO, columns={"blood": np.ones((5, 2))}, rows=9),
    GroupCentres(**TO, round=1, centres=np.ones((2, 3, 4)), running=np.ones(2), best=1),
    EncryptedIds(**TO, purpose="answer", content=bytes(range(256)) * 40, answering_ids=b"x"),
    RunFigures(**TO, rows=4, figures={"r2": 0.5, "rows": 7}),
    GroupSums(**TO, round=2, sums=np.ones((2, 3)), counts=np.ones(2), event=GaussianEvent(2.0)),
    KEYS,
    MaskedVector(**TO, round=1, words=np.arange(4, dtype=np.uint64), rows=3),
    ModelWeights(**TO, round=3, weights=np.ones(5, np.float32), extras={"control": np.zeros(5)}),
    Needs(**TO, spec=CodeSpec("a", 3, "v1"), directions=np.ones((3, 2)), people=7),
    MeanDefence(Box(0.0, 1.0), 1.0).release(np.full((9, 2), 0.5), **TO, rng=0),
    RevealedShares(**TO, round=1, own_masks={"c": 2**250}, mask_keys={}),
    Roster(**TO, round=1, keys=(KEYS, KEYS), threshold=2),
    SealedShares(**TO, round=1, boxes={"b": b"x" * 40}, commitment=b"c" * 32),
    Survivors(**TO, round=1, names=("a", "c")),
    BlindedPoints(**TO, origin="a", points=b"p" * 64),
    RowFlags(**TO, flags=np.array([1, 2, 3], np.uint8), sizes=(4, 2, 3), groups=((4, 2, 1),)),
    SlotPlan(
        **TO,
        slots=np.arange(3),
        everyone=5,
        sizes={"a": (4, 2, 3)},
        patterns=np.arange(3),
        people=np.ones((2, 3), np.int64),
        asked={"a": ((2, 0), (2, 1))},
        groups={"a": ((4, 2, 1),)},
        keys=(b"k" * 32, b"l" * 32),
    ),
    CommonFeatures(**TO, arrays={"knots": np.ones((2, 3))}),
    DealtWords(**TO, words=WORDS),
    MaskedRows(**TO, words=WORDS, rows=2),
    OpenedShares(**TO, round=3, words=WORDS),
    ScoreShares(**TO, words={"a/0": np.arange(3, dtype=np.uint64)}),
    ChosenPenalties(**TO, choices=np.zeros((2, 3), np.int64), rows=9),
    PadKey(**TO, key=b"k" * 32),
    PaddedCells(**TO, words=WORDS),
    SelectedCells(**TO, words=WORDS, part=1, ids=ROWS, slots=ROWS),
    Update(
        **TO,
        round=1,
        change=np.ones(3),
        rows=5,
        metrics={"loss": 0.25},
        event=compose([GaussianEvent(2.0), GaussianEvent(3.0)]),
    ),
]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, Release):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)
        )
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("release", EXAMPLES, ids=lambda r: type(r).__name__)
def test_every_declared_release_travels_unchanged(release):
    (back,) = decode_releases(encode_releases([release]), "a")
    assert same(release, back)
    assert back.n_bytes == release.n_bytes
    assert back.facts() == release.facts()


def test_every_type_has_an_example_here_and_a_check_of_every_field():
    assert {type(r) for r in EXAMPLES} == set(release_types().values())
    for kind in release_types().values():
        free = {f.name for f in fields(kind) if "check" not in f.metadata}
        assert free == {"sender", "receiver", "event"}
    assert all(hasattr(cofill.privacy, kind.__name__) for kind in release_types().values())


def test_a_type_must_say_how_many_individuals_it_tells_of_and_have_a_kind_of_its_own():
    with pytest.raises(TypeError, match="how many individuals"):
        type("Rows", (Release,), {"kind": "rows"})
    with pytest.raises(TypeError, match="kind of two release types"):
        type("Other", (Release,), {"kind": "codes", "personal": False})
    assert "rows" not in release_types()


def test_a_type_without_guarantees_may_not_claim_one():
    claims = broken(OF["Needs"], event=GaussianEvent(1.0))
    with pytest.raises(DataError, match="claims a guarantee"):
        encode_releases([claims])


class _Rows(Release):
    """A type without a kind: it is not registered."""


def test_an_unknown_type_is_refused_at_the_sender():
    with pytest.raises(DataError, match="_Rows is no type of release"):
        encode_releases([_Rows(**TO)])


def with_tree(tree: Any) -> bytes:
    """Return bytes of an encoded value that hold another tree."""
    header = json.dumps({"format": "cofill.releases", "version": 1, "tree": tree})
    return save({}, {"cofill": header})


@pytest.mark.parametrize("name", ["Rows", "Path", "CooperativeSite", "Scaler", None])
def test_an_unknown_type_is_refused_at_the_receiver(name):
    tree = [{"type": name, "fields": [["sender", "a"], ["receiver", "b"]]}]
    forged = with_tree(tree)
    with pytest.raises(DataError, match="not allowed here"):
        decode_releases(forged, "a")


CODES = EXAMPLES[1]
UNSOUND = {
    "nan": {"codes": np.full((2, 3), np.nan, np.float32)},
    "infinite": {"codes": np.full((2, 3), np.inf, np.float32)},
    "too wide": {"codes": np.zeros((2, 4), np.float32)},
    "too few": {"codes": np.zeros((1, 3), np.float32)},
    "no matrix": {"codes": np.zeros(6, np.float32)},
    "whole numbers": {"codes": np.zeros((2, 3), np.int64)},
    "short tokens": {"tokens": TOKENS.astype("S16")},
    "no tokens": {"tokens": np.zeros(2)},
    "no spec": {"spec": None},
    "negative width": {"spec": CodeSpec("a", -3, "v")},
}


def broken(release: Release, **changes: Any) -> Release:
    made = object.__new__(type(release))
    for f in fields(release):
        object.__setattr__(made, f.name, changes.get(f.name, getattr(release, f.name)))
    return made


OF = {type(r).__name__: r for r in EXAMPLES}
MORE = [
    broken(OF["BlindingPart"], part=b"short"),
    broken(OF["BlindingPart"], part="p" * 32),
    broken(OF["Columns"], features={"scan": ("p0",)}),
    broken(OF["Columns"], shapes={"scan": (3, 2)}),
    broken(OF["Columns"], shapes={"x": (1,)}),
    broken(OF["ModelWeights"], weights=np.full(3, np.nan)),
    broken(OF["ModelWeights"], extras={"control": np.array(["a"])}),
    broken(OF["Update"], change=np.full(3, np.inf)),
    broken(OF["Update"], rows=-1),
    broken(OF["Update"], metrics={"loss": float("nan")}),
    broken(OF["GroupSums"], counts=np.ones(3)),
    broken(OF["GroupSums"], sums=np.full((2, 3), np.nan)),
    broken(OF["MaskedVector"], words=np.ones(3)),
    broken(OF["ColumnSummary"], columns={"blood": np.ones((4, 2))}),
    broken(OF["NoisyMean"], scale=np.ones(5)),
    broken(OF["SealedShares"], boxes={"b": b"x" * 5000}),
    broken(OF["Survivors"], names=("a", 3)),
]


@pytest.mark.parametrize("release", MORE, ids=lambda r: type(r).__name__)
def test_other_unsound_releases_are_refused_at_both_ends(release):
    with pytest.raises(DataError, match="may not leave"):
        encode_releases([release])
    try:
        content = encode([release], format="cofill.releases")
    except StoreError:
        return  # it cannot even be written
    with pytest.raises(DataError, match="from site 'a' is refused"):
        decode_releases(content, "a")


@pytest.mark.parametrize("change", UNSOUND.values(), ids=UNSOUND)
def test_unsound_codes_are_refused_at_both_ends(change):
    wrong = broken(CODES, **change)
    with pytest.raises(DataError, match="may not leave"):
        encode_releases([wrong])
    with pytest.raises(DataError, match="from site 'a' is refused"):
        decode_releases(encode([wrong], format="cofill.releases"), "a")


@pytest.mark.parametrize("cut", [0, 5, 30, 200])
def test_malformed_bytes_are_refused(cut):
    whole = encode_releases([CODES])
    with pytest.raises(DataError, match="from site 'a' is malformed"):
        decode_releases(whole[:cut], "a")
    with pytest.raises(DataError, match=r"malformed|no list|refused"):
        decode_releases(b"\x80\x04" + whole[2:], "a")  # a pickle's first bytes


@pytest.mark.parametrize("depth", [50, 900])
def test_deep_nesting_is_refused(depth):
    tree: list[Any] = []
    for _ in range(depth):
        tree = [tree]
    with pytest.raises(DataError, match="malformed"):
        decode_releases(with_tree(tree), "a")


def test_encoding_refuses_objects_and_texts_in_arrays():
    for value in (object(), np.array(["ann"]), np.array([None]), {1: 2}, lambda: 0):
        with pytest.raises(StoreError):
            encode(value, format="x")


def test_numbers_that_json_lacks_come_back():
    value = {"x": (float("inf"), float("-inf")), "n": np.float32(1.5), "s": frozenset({(True,)})}
    assert decode(encode(value, format="x"), format="x") == value


# --- messages ----------------------------------------------------------------------------------

MOST = 10_000
SEALED = 12 + 5 + 16 + 64  # nonce, content, tag and signature of b"hello"


@pytest.fixture
def two():
    a, b, c = (Identity.fresh(name) for name in "abc")
    public = {i.name: i.public for i in (a, b, c)}
    return tuple(
        replace(i, others={n: k for n, k in public.items() if n != i.name}) for i in (a, b, c)
    )


ADDRESS = MessageAddress("20260101-000000-00000000", 3, "a", "b")


def test_a_message_opens_at_its_receiver(two):
    a, b, _ = two
    message = write_message(b"hello", ADDRESS, a, limit=MOST)
    assert read_message(message, ADDRESS, b, limit=MOST) == b"hello"
    assert read_address(message, limit=MOST) == ADDRESS
    assert b"hello" not in message
    assert write_message(b"hello", ADDRESS, a, limit=MOST) != message


@pytest.mark.parametrize(
    "change",
    [
        {"run": "20260101-000000-00000001"},
        {"step": 4},
        {"sender": "c"},
        {"receiver": "c"},
    ],
    ids=str,
)
def test_a_replayed_or_redirected_message_is_refused(two, change):
    a, b, _ = two
    message = write_message(b"hello", ADDRESS, a, limit=MOST)
    other = replace(ADDRESS, **change)
    with pytest.raises(DataError, match="another one came"):
        read_message(message, other, b, limit=MOST)
    # The words on the outside may be changed too: the seal holds them.
    text = json.dumps(
        {
            "run": other.run,
            "step": other.step,
            "from": other.sender,
            "to": other.receiver,
            "bytes": SEALED,
        },
        separators=(",", ":"),
    ).encode()
    forged = MAGIC + len(text).to_bytes(4, "little") + text + message[-SEALED:]
    if other.receiver == "b":
        with pytest.raises(DataError, match="changed on its way or sealed by somebody else"):
            read_message(forged, other, b, limit=MOST)


def test_a_changed_byte_is_found(two):
    a, b, _ = two
    message = write_message(b"hello", ADDRESS, a, limit=MOST)
    for k in range(len(message)):
        changed = message[:k] + bytes([message[k] ^ 1]) + message[k + 1 :]
        with pytest.raises(DataError, match="refused"):
            read_message(changed, ADDRESS, b, limit=MOST)


def test_nobody_else_opens_or_seals(two):
    a, b, c = two
    message = write_message(b"hello", ADDRESS, a, limit=MOST)
    with pytest.raises(DataError, match="somebody else"):
        read_message(message, ADDRESS, replace(c, name="b"), limit=MOST)
    forged = write_message(b"hello", ADDRESS, replace(c, name="a"), limit=MOST)
    with pytest.raises(DataError, match="somebody else"):
        read_message(forged, ADDRESS, b, limit=MOST)
    # With b's stolen sealing key one can agree on the key of a's messages, and still not sign them.
    thief = replace(c, name="a", seal=b.seal, others={"b": a.public})
    with pytest.raises(DataError, match="somebody else"):
        read_message(write_message(b"hello", ADDRESS, thief, limit=MOST), ADDRESS, b, limit=MOST)
    stranger = Identity.fresh("a")
    with pytest.raises(SettingError, match="no public keys of 'b' are pinned"):
        write_message(b"hello", ADDRESS, stranger, limit=MOST)


def test_an_oversized_message_is_refused_at_both_ends(two):
    a, b, _ = two
    with pytest.raises(DataError, match="larger than a message may be"):
        write_message(bytes(MOST), ADDRESS, a, limit=MOST)
    large = write_message(bytes(MOST), ADDRESS, a, limit=2 * MOST)
    for refuse in (
        lambda: read_message(large, ADDRESS, b, limit=MOST),
        lambda: read_address(large, limit=MOST),
    ):
        with pytest.raises(DataError, match="refused"):
            refuse()


@pytest.mark.parametrize("content", [b"", b"cofill", b"cofill-message-1\n" + b"\xff" * 50])
def test_what_is_no_message_is_refused(two, content):
    with pytest.raises(DataError, match="no message of cofill"):
        read_message(content, ADDRESS, two[1], limit=MOST)


def test_keys_are_kept_for_their_owner_alone(tmp_path, two):
    a, _, _ = two
    a.save(tmp_path)
    assert Identity.load(tmp_path) == a
    assert (tmp_path / "identity.json").stat().st_mode & 0o077 == 0
    assert a.seal.hex() not in (tmp_path / "directory.json").read_text()
    assert a.seal.hex() not in repr(a)
    damaged = {"format": "cofill.identity", "version": 1, "name": "a", "seal": "00"}
    (tmp_path / "identity.json").write_text(json.dumps(damaged))
    with pytest.raises(CofillError, match="must hold a party's private keys"):
        Identity.load(tmp_path)
