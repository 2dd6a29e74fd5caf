"""Files and folders appear whole or not at all, whatever fails."""

import errno
import json
import os

import pytest

from cofill.errors import DataError, StoreError
from cofill.files import check_new_folder, new_folder, write_atomically, write_json


def leftovers(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_new_folder_appears_whole(tmp_path):
    target = tmp_path / "deep" / "out"
    with new_folder(target) as folder:
        write_json(folder / "lab.json", {"x": 1})
        assert not target.exists()
    assert leftovers(target) == ["lab.json"]
    assert leftovers(target.parent) == ["out"]
    assert target.stat().st_mode & 0o777 == 0o755


def test_an_empty_folder_may_be_taken(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    with new_folder(target) as folder:
        write_json(folder / "lab.json", {"x": 1})
    assert leftovers(target) == ["lab.json"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_leaves_nothing(tmp_path, error):
    def write():
        with new_folder(tmp_path / "out") as folder:
            write_json(folder / "lab.json", {"x": 1})
            raise error

    with pytest.raises(error):
        write()
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full; nothing was written"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EACCES, "may not be written; check the folder's permissions"),
        (errno.EROFS, "may not be written"),
        (errno.EIO, "cannot be written (Input/output error); nothing was written"),
    ],
)
@pytest.mark.parametrize("when", ["write", "rename", "make"])
def test_a_failing_disk_leaves_nothing(tmp_path, monkeypatch, number, words, when):
    def fail(*args, **options):
        raise OSError(number, os.strerror(number))

    if when == "rename":
        monkeypatch.setattr("os.replace", fail)
    if when == "make":
        monkeypatch.setattr("tempfile.mkdtemp", fail)
    if when == "write":
        monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    with pytest.raises(StoreError) as caught, new_folder(tmp_path / "out") as folder:
        write_json(folder / "lab.json", {"x": 1})
    assert words in str(caught.value)
    assert str(tmp_path / "out") in str(caught.value)
    assert leftovers(tmp_path) == []


def test_what_exists_is_left_as_it_is(tmp_path):
    full, file = tmp_path / "out", tmp_path / "file"
    full.mkdir()
    (full / "kept.txt").write_text("kept")
    file.write_text("kept")
    for path in (full, file):
        with pytest.raises(DataError, match="exists already and is left as it is"):
            check_new_folder(path)
        with pytest.raises(DataError, match="give another folder"), new_folder(path):
            pytest.fail("the block must not run")
    assert (full / "kept.txt").read_text() == file.read_text() == "kept"
    assert leftovers(tmp_path) == ["file", "out"]


def test_a_file_in_the_way_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("kept")
    with (
        pytest.raises(StoreError, match="cannot be written"),
        new_folder(tmp_path / "file" / "out"),
    ):
        pytest.fail("the block must not run")


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_file_replaces_an_older_one_with_its_own_rights(tmp_path, private, mode):
    path = tmp_path / ("long" * 60 + ".json")
    path.write_text("older")
    write_json(path, {"name": "Bäcker"}, private=private)
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": "Bäcker"}
    assert "Bäcker" in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == mode
    assert leftovers(tmp_path) == [path.name]


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.write_bytes"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_older_file(tmp_path, monkeypatch, call, error):
    path = tmp_path / "state.bin"
    path.write_bytes(b"older")

    def fail(*args):
        raise error

    monkeypatch.setattr(call, fail)
    with pytest.raises((StoreError, KeyboardInterrupt)) as caught:
        write_atomically(path, b"newer")
    if isinstance(error, OSError):
        assert "state.bin: the disk is full" in str(caught.value)
    monkeypatch.undo()
    assert path.read_bytes() == b"older"
    assert leftovers(tmp_path) == ["state.bin"]


def test_a_write_need_not_wait_for_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: pytest.fail("the disk was waited for"))
    write_atomically(tmp_path / "mail.bin", b"x", sync=False)
    assert (tmp_path / "mail.bin").read_bytes() == b"x"


def test_a_file_without_a_folder_or_over_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="does not exist; make it first"):
        write_atomically(tmp_path / "no" / "x", b"x")
    with pytest.raises(StoreError, match="cannot be written"):
        write_atomically(tmp_path, b"x")
    assert leftovers(tmp_path) == []
