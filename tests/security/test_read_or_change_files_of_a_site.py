"""Somebody with an account on a site's machine, or a bad disk: files that others read or change."""

import pytest
from tests.network.test_by_row import drive

from cofill.errors import StoreError

MEAN = {"epsilon": 0.5, "low": 0.0, "high": 1.0, "view": "u"}


def test_ledger_and_results_are_for_their_owner_only(rows_at):
    federation = rows_at("mean", MEAN)
    drive(federation)
    place = federation.place("a")
    paths = [federation.ledger("a"), federation.results("a"), place.folder.path]
    paths += [place.folder.state, federation.configs["a"].account_folder]
    assert [str(path) for path in paths if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_a_changed_bit_of_a_state_is_noticed(rows_at, share):
    federation = rows_at("mean", MEAN)
    drive(federation, stop=1)
    path = federation.place("a").folder.state
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match="damaged"):
        federation.place("a")
