"""Files of the codec: exact, replaced as a whole, and refused in one sentence when damaged."""

import json
import struct

import jax
import numpy as np
import pytest
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from cofill import codec
from cofill.errors import StoreError
from cofill.nets import MLP, Autoencoder

KEY = jax.random.key(0)
NETWORKS = [MLP((3, 4, 2), key=KEY, residual=True, dropout=0.1), Autoencoder((3, 2), key=KEY)]


def save(path, value=NETWORKS):
    codec.save(path, value, format="networks")


def load(path):
    return codec.load(path, format="networks")


def test_networks_come_back_exactly(tmp_path):
    save(tmp_path / "file", {"ü": NETWORKS, "epochs": 3})
    content = load(tmp_path / "file")
    assert content["epochs"] == 3
    assert jax.tree.structure(content["ü"]) == jax.tree.structure(NETWORKS)
    jax.tree.map(np.testing.assert_array_equal, content["ü"], NETWORKS)


def test_saving_replaces_and_leaves_nothing_beside(tmp_path):
    save(tmp_path / "file", 1)
    save(tmp_path / "file", 2)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert load(tmp_path / "file") == 2


def test_a_failed_save_keeps_the_old_file(tmp_path):
    save(tmp_path / "file", 1)
    with pytest.raises(StoreError, match="no type that may be encoded"):
        save(tmp_path / "file", object())
    with pytest.raises(StoreError):
        save(tmp_path / "no" / "folder")
    assert load(tmp_path / "file") == 1


def change_header(path, **changes):
    """Rewrite cofill's part of the container's metadata; None removes an entry."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    container = json.loads(content[8 : 8 + size])
    header = json.loads(container["__metadata__"]["cofill"]) | changes
    header = {name: value for name, value in header.items() if value is not None}
    container["__metadata__"]["cofill"] = json.dumps(header)
    text = json.dumps(container).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])


def flip_bit(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


DAMAGE = {
    "missing": (lambda path: path.unlink(), "must be a readable file"),
    "empty": (lambda path: path.write_bytes(b""), "no value"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "no value"),
    "header cut": (lambda path: path.write_bytes(path.read_bytes()[:20]), "no value"),
    "pickle": (lambda path: path.write_bytes(b"\x80\x04cos\nsystem\n."), "no value"),
    "text": (lambda path: path.write_text("a,b\n1,2\n" * 50), "no value"),
    "foreign": (lambda path: path.write_bytes(to_bytes({"x": np.ones(3)})), "no value"),
    "other format": (lambda path: change_header(path, format="other"), "hold 'other'"),
    "no version": (lambda path: change_header(path, version=None), "no value"),
    "newer": (lambda path: change_header(path, version=99), "version 99"),
    "bit": (flip_bit, "checksum"),
    "checksum": (lambda path: change_header(path, checksum="0" * 64), "checksum"),
    "unknown type": (
        lambda path: change_header(path, checksum=None, tree={"type": "Popen", "fields": []}),
        "'Popen', which is not allowed",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_in_one_sentence_that_names_it(tmp_path, damage):
    path = tmp_path / "file"
    save(path)
    do, word = DAMAGE[damage]
    do(path)
    with pytest.raises(StoreError, match=word) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_container_is_one_that_safetensors_reads():
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, bool)}
    arrays |= {"c": np.empty((0, 4)), "d": np.arange(5, dtype=np.uint64)}
    stored = from_bytes(codec.encode(arrays, format="example"))
    read = codec.decode(codec.encode(arrays, format="example"), format="example")
    assert len(stored) == len(arrays)
    for array in arrays.values():
        assert any(a.dtype == array.dtype and np.array_equal(a, array) for a in stored.values())
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
