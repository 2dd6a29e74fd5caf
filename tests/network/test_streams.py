"""Large messages between processes: only what was asked for, of the announced size, in files."""

import threading
from pathlib import Path

import pytest

from cofill.errors import DataError

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_types import Stream, StreamError

from cofill.network import _streams
from cofill.network._streams import MessageStreams, remove_files

LARGE = bytes(range(256)) * 6000  # more than a task carries itself
LIMITS = {"limit": 2**21, "total": 2**22}


class Arriving(Stream):
    """A stream at its receiver: FLARE says who sent it and which size was declared."""

    def __init__(self, content: bytes, size: int, headers: dict):
        super().__init__(size, headers)
        self.content = content

    def read(self, size: int) -> bytes:
        frame, self.content = self.content[:size], self.content[size:]
        return frame


class Cell:
    """One end of a line between processes in this one; what is sent arrives in another thread."""

    def __init__(self, name: str, line: dict):
        self.name, self.line = name, line
        self.asked = 0
        line[name] = self

    def register_request_cb(self, *, channel: str, topic: str, cb):
        self.answer = cb

    def register_stream_cb(self, channel: str, topic: str, cb):
        self.take = cb

    def send_request(self, *, channel, topic, target, request, timeout):
        self.asked += 1
        request.set_header(MessageHeaderKey.ORIGIN, self.name)
        return self.line[target].answer(request)

    def send_stream(self, channel, topic, target, message: Message, **_):
        content = b"".join(iter(lambda: message.payload.read(2**20), b""))
        headers = {**(message.headers or {}), MessageHeaderKey.ORIGIN: self.name}
        stream = Arriving(content, message.payload.get_size(), headers)
        threading.Thread(target=self.line[target].take, args=(None, stream, False)).start()


@pytest.fixture
def ends(tmp_path):
    """Two ends of a line, and a third that nobody offers anything."""
    line = {}
    return [MessageStreams(Cell(name, line), tmp_path / name) for name in "abc"]


def fetch(end: MessageStreams, wire, **changes):
    return end.fetch(wire, "a", **{**LIMITS, "stopped": lambda: False, **changes})


def test_messages_arrive_as_they_were_sent_and_large_ones_in_private_files(ends, tmp_path):
    a, b, _ = ends
    (tmp_path / "kept").write_bytes(LARGE)
    messages = {"small": b"hello", "large": LARGE, "file": tmp_path / "kept"}
    wire = a.offer(messages, "b")
    assert wire["small"] == b"hello"
    assert len(str(wire)) < 1000  # of the large ones it says where they are
    arrived = fetch(b, wire)
    assert arrived["small"] == b"hello"
    for key in ("large", "file"):
        assert isinstance(arrived[key], Path)
        assert arrived[key].read_bytes() == LARGE
        assert arrived[key].stat().st_mode & 0o077 == 0
    assert fetch(b, wire)["file"].read_bytes() == LARGE  # and again
    assert (tmp_path / "kept").read_bytes() == LARGE
    remove_files(arrived)
    assert len(list(b.folder.iterdir())) == 2  # of the second time


def test_many_small_messages_are_not_carried_as_one_large(ends):
    wire = ends[0].offer({str(k): bytes(2**18) for k in range(8)}, "b")
    assert sum(isinstance(note, bytes) for note in wire.values()) == 4
    assert all(len(m) == 2**18 for m in fetch(ends[1], wire).values() if isinstance(m, bytes))


@pytest.mark.parametrize("changes", [{"limit": len(LARGE) - 1}, {"total": 2 * len(LARGE) - 1}])
def test_what_is_announced_larger_than_agreed_is_not_asked_for(ends, changes):
    a, b, _ = ends
    wire = a.offer({"x": LARGE, "y": LARGE}, "b")
    with pytest.raises(DataError, match="larger than agreed"):
        fetch(b, wire, **changes)
    assert b.cell.asked == 0


@pytest.mark.parametrize(
    "wire",
    [None, [], {"x": None}, {"x": 3}, {"x": Path("/etc/passwd")}, {1: b""}, {"x": {"name": "n"}}]
    + [{"x": {"name": "n", "size": size}} for size in (-1, True, 1.0, "1")]
    + [{"x": {"name": 3, "size": 1}}],
    ids=str,
)
def test_what_announces_no_messages_is_refused(ends, wire):
    with pytest.raises(DataError, match="malformed"):
        fetch(ends[1], wire)


def test_nobody_else_gets_what_was_offered(ends):
    a, _, c = ends
    (note,) = a.offer({"x": LARGE}, "b").values()
    reply = c.cell.send_request(
        channel="", topic="", target="a", request=Message({}, {"name": note["name"]}), timeout=1
    )
    assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.INVALID_REQUEST
    a.withdraw("b")
    with pytest.raises(DataError, match="no longer ready"):
        fetch(ends[1], {"x": note})


def test_only_what_was_asked_for_is_written(ends, monkeypatch):
    """Not from somebody else, not in another size than announced, not beyond it, not less."""
    monkeypatch.setattr(_streams, "_LOOK_S", 0.01)
    a, b, _ = ends
    (note,) = a.offer({"x": LARGE}, "b").values()
    headers = {"cofill_name": note["name"], MessageHeaderKey.ORIGIN: "a"}
    refused = []

    def attack(request):
        for content, size, changes in (
            (LARGE, len(LARGE), {MessageHeaderKey.ORIGIN: "c"}),
            (LARGE, len(LARGE), {"cofill_name": "another"}),
            (LARGE, len(LARGE) + 1, {}),
            (LARGE + b"x", len(LARGE), {}),
            (LARGE[:-1], len(LARGE), {}),
        ):
            try:
                b.cell.take(None, Arriving(content, size, {**headers, **changes}), False)
            except StreamError as error:
                refused.append(str(error))

    a.cell.answer = attack
    with pytest.raises(DataError, match="did not arrive"):
        fetch(b, {"x": note}, stopped=lambda: len(refused) == 5)
    assert [why.split()[0] for why in refused] == ["nobody", "nobody", "a", "a", "a"]
    assert list(b.folder.iterdir()) == []


def test_a_message_that_stalls_is_asked_for_again(ends, monkeypatch):
    monkeypatch.setattr(_streams, "_STALLED_S", 0.05)
    monkeypatch.setattr(_streams, "_LOOK_S", 0.01)
    a, b, _ = ends
    wire = a.offer({"x": LARGE}, "b")
    serve, lost = a.cell.answer, []

    def lose_two(request):
        if len(lost) < 2:
            lost.append(request)
            return None
        return serve(request)

    a.cell.answer = lose_two
    assert fetch(b, wire)["x"].read_bytes() == LARGE
    assert b.cell.asked == 3


def test_who_does_not_send_is_not_waited_for_forever(ends, monkeypatch):
    for name in ("_STALLED_S", "_PATIENCE_S", "_LOOK_S"):
        monkeypatch.setattr(_streams, name, 0.05)
    a, b, _ = ends
    wire = a.offer({"x": LARGE}, "b")
    a.cell.answer = lambda request: None
    with pytest.raises(DataError, match="did not arrive; the run can be resumed"):
        fetch(b, wire)
