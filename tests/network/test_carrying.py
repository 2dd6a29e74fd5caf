"""Messages of megabytes: each is encoded once, kept as it left, and handed out again the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cofill.network._order import RunOrder, new_run
from cofill.privacy import _sent, encode_releases
from cofill.protocol import PROTOCOLS
from cofill.registry import Entry

from .conftest import OPEN, advance

ROOT = Path(__file__).parents[2]


@pytest.fixture
def echo(here, monkeypatch):
    """A model of two megabytes to three sites, and as much back."""
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.carrying import Echo

    monkeypatch.setitem(PROTOCOLS._entries, Echo.name, Entry(Echo.name, Echo, ""))
    federation = here()
    federation.order = RunOrder(new_run(), "echo", {"megabytes": 2, "rounds": 1})
    rule = OPEN.experiments["federate"]
    policy = replace(OPEN, experiments={"echo": rule})
    federation.configs = {n: replace(c, policy=policy) for n, c in federation.configs.items()}
    return federation


def test_a_large_message_is_handed_out_again_as_it_was(echo):
    office = echo.office()
    site = echo.place("a")
    advance(office, {}, stop=1)
    messages = office.messages_for("a")
    first = {name: path.read_bytes() for name, path in site.act(1, messages).items()}
    again = echo.place("a").act(1, messages)  # of another process, from its files
    assert {name: path.read_bytes() for name, path in again.items()} == first
    parts = list(site.folder.parts.iterdir())
    assert [path.read_bytes() for path in parts] == list(first.values())
    assert all(path.stat().st_mode & 0o077 == 0 for path in parts)


def test_what_was_sent_and_received_is_kept_without_encoding_it_again(echo, monkeypatch):
    monkeypatch.setattr(_sent, "release_buffers", lambda releases: pytest.fail("encoded again"))
    office, sites = echo.office(), {name: echo.place(name) for name in "abc"}
    advance(office, sites, stop=2)
    ((_, _, (update,)),) = sites["a"].folder.sent
    ((_, _, (model,)),) = sites["a"].folder.received
    np.testing.assert_array_equal(update.change, model.weights + 1)
    assert encode_releases([update])  # whole, and may travel
