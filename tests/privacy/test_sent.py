"""What was sent is kept as it left, for its owner only, and no more rounds than asked for."""

import stat

import numpy as np
import pytest

from cofill.errors import StoreError
from cofill.privacy import BlindedIds, SentLog, Update, blind

TOKENS = blind(np.arange(3), b"secret")


def ids(sender="lab"):
    return BlindedIds(sender=sender, receiver="ward", tokens=TOKENS, purpose="present")


def update(number):
    return Update(sender="lab", receiver="ward", round=number, change=np.ones(2), rows=3)


def test_releases_come_back_in_the_order_they_left(tmp_path):
    log = SentLog(tmp_path / "sent")
    assert not log.exists
    log.write(100_000, "align again", [ids()])
    log.write(2, "align", [ids(), ids("bank")])
    assert [(step.number, step.step) for step in log] == [(2, "align"), (100_000, "align-again")]
    releases = [release for step in log for release in step.releases]
    assert [r.sender for r in releases] == ["lab", "bank", "lab"]
    np.testing.assert_array_equal(releases[1].tokens, TOKENS)


def test_only_the_last_rounds_are_kept(tmp_path):
    log = SentLog(tmp_path / "sent", last_rounds=2)
    log.write(0, "pre-train", [update(0)])
    for number in range(1, 5):
        log.write(number, "train", [update(number)])
    assert [step.releases[0].round for step in log] == [0, 3, 4]


def test_files_are_for_their_owner_only(tmp_path):
    log = SentLog(tmp_path / "sent")
    log.write(0, "align", [ids()])
    log.keep_keys({"lab": b"s" * 32})
    assert log.keys() == {"lab": b"s" * 32}
    assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700
    for path in log.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "codes.safetensors").touch()
    with pytest.raises(StoreError, match="no file of sent releases"):
        list(SentLog(tmp_path))
    assert SentLog(tmp_path).keys() == {}
