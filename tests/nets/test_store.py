import json
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save as to_bytes

from cofill.errors import StoreError
from cofill.nets import MLP, Autoencoder, load, read_metadata, save

KEY = jax.random.key(0)
NETWORK = MLP((3, 4, 2), key=KEY)


def test_round_trip_is_exact(tmp_path):
    tree = {
        "a": [NETWORK, Autoencoder((3, 2), key=KEY)],
        "scale": jnp.arange(3.0),
        "one": jnp.array(2),
    }
    path = tmp_path / "networks.safetensors"
    save(path, tree, {"views": ["blood", "ü"], "epochs": 3})
    found, metadata = load(path, jax.eval_shape(lambda: tree))
    assert metadata == read_metadata(path) == {"views": ["blood", "ü"], "epochs": 3}
    assert jax.tree.structure(found) == jax.tree.structure(tree)
    jax.tree.map(np.testing.assert_array_equal, found, tree)


def test_saving_replaces_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "network.safetensors"
    save(path, NETWORK, {"n": 1})
    save(path, NETWORK, {"n": 2})
    assert [file.name for file in tmp_path.iterdir()] == ["network.safetensors"]
    assert read_metadata(path) == {"n": 2}


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "network.safetensors"
    save(path, NETWORK, {"n": 1})
    with pytest.raises(StoreError, match="JSON"):
        save(path, NETWORK, {"n": object()})
    with pytest.raises(StoreError, match="cannot be written"):
        save(tmp_path / "no" / "folder", NETWORK)
    assert read_metadata(path) == {"n": 1}


def header(path, change):
    """Rewrite cofill's part of the file's header."""
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    described = json.loads(whole[8 : 8 + size])
    inner = json.loads(described["__metadata__"]["cofill"])
    change(inner)
    described["__metadata__"]["cofill"] = json.dumps(inner)
    new = json.dumps(described).encode()
    new += b" " * (-len(new) % 8)
    path.write_bytes(struct.pack("<Q", len(new)) + new + whole[8 + size :])


def flip_bit(path):
    whole = bytearray(path.read_bytes())
    whole[-3] ^= 1
    path.write_bytes(bytes(whole))


DAMAGE = {
    "missing": (lambda path: path.unlink(), "no such file"),
    "empty": (lambda path: path.write_bytes(b""), "not a whole"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "not a whole"),
    "header cut": (lambda path: path.write_bytes(path.read_bytes()[:20]), "not a whole"),
    "pickle": (lambda path: path.write_bytes(b"\x80\x04cos\nsystem\n."), "not a whole"),
    "text": (lambda path: path.write_text("a,b\n1,2\n" * 50), "not a whole"),
    "foreign": (lambda path: path.write_bytes(to_bytes({"x": np.ones(3)})), "not saved by cofill"),
    "foreign name": (
        lambda path: header(path, lambda inner: inner.update(format="other")),
        "not saved by cofill",
    ),
    "no version": (
        lambda path: header(path, lambda inner: inner.pop("version")),
        "not saved by cofill",
    ),
    "newer": (
        lambda path: header(path, lambda inner: inner.update(version=99)),
        "version 1 or older",
    ),
    "bit": (flip_bit, "checksum"),
    "sum": (lambda path: header(path, lambda inner: inner.update(sha256="0" * 64)), "checksum"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_one_clear_sentence(tmp_path, damage):
    path = tmp_path / "network.safetensors"
    save(path, NETWORK)
    do, word = DAMAGE[damage]
    do(path)
    with pytest.raises(StoreError, match=word) as caught:
        load(path, NETWORK)
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("like", "word"),
    [
        (MLP((3, 5, 2), key=KEY), r"weights.0 as float32\[5, 3\], got float32\[4, 3\]"),
        (MLP((3, 2), key=KEY), "mismatch at"),
        (jax.tree.map(lambda leaf: leaf.astype(jnp.float16), NETWORK), "float16"),
    ],
)
def test_another_network_is_refused(tmp_path, like, word):
    path = tmp_path / "network.safetensors"
    save(path, NETWORK)
    with pytest.raises(StoreError, match=word):
        load(path, like)
