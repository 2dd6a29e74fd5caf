"""The live page of a run, and the small server that shows it: to this machine, or by a token."""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from markupsafe import Markup

from cofill.errors import SettingError
from cofill.pages import Line, Page, Section, element, join, lines, plot, scroll_area
from cofill.report._live import Follower

_NOW = Markup(
    '<p><span id="state" class="badge">waiting</span> <strong id="what">nothing yet</strong> '
    '<span id="step"></span> <span id="changed" class="lead"></span></p>'
    '<p class="bar"><progress id="share" max="1" aria-label="share done"></progress> '
    '<span id="percent"></span></p>'
    '<p id="lost" class="note bad" role="alert" hidden>The server does not answer; this is the '
    "last that was heard.</p>"
)


def live_page(name: str) -> Page:
    """Return the page that follows a run: it asks its own server for the state every second."""
    losses = plot(
        lines({"loss": Line([], [])}, x_axis="round", y_axis="loss"),
        "Losses of the sites after each round, weighted by their rows.",
        "Losses over rounds",
    )
    sites = _table("sites", ("site", "state"), "No site has been heard of.")
    released = ("release", "from", "to", "individuals", "size", "privacy cost", "step")
    total = element("p", id="total", aria_live="polite")
    releases = _table("releases", released, "Nothing has crossed a border.")
    spent = ("site", "ε spent", "ε allowed", "ε left", "δ")
    budget = _table("budget", spent, "No release with a guarantee, and no budget set.")
    return Page(
        f"Run {name}",
        "Followed while it goes: names and figures, no rows. Nothing here changes the run.",
        [
            Section("Now", _NOW, "now"),
            Section("Sites", sites, "parties"),
            Section("Losses", _hidden("losses", losses, "No loss has been told yet."), "curve"),
            Section("Releases", [total, releases], "crossed", "The latest first."),
            Section("Privacy budget", budget, "left"),
            Section("Faults", _table("faults", ("what went wrong",), "None."), "wrong"),
        ],
        script=files("cofill.report").joinpath("live.js").read_text(encoding="utf-8"),
    )


def _hidden(name: str, content: Markup, none: str) -> Markup:
    """Return content that the page's script shows when there is some, and words until then."""
    return join(element("div", content, id=name, hidden=""), element("p", none, id=f"{name}-none"))


def _table(name: str, header: Sequence[str], none: str) -> Markup:
    heads = element("tr", *(element("th", words, scope="col") for words in header))
    table = element("table", element("thead", heads), element("tbody"))
    return _hidden(name, scroll_area(name, table), none)


class WatchServer(ThreadingHTTPServer):
    """Serves the live page and the state of one run; nothing else, and it takes nothing in.

    Port 0 takes a free one. A host that others can reach needs the token in the address, which is
    then part of `url`.
    """

    daemon_threads = True  # a reader that stays connected must not keep the command from ending

    def __init__(self, folder: Path | str, host: str = "127.0.0.1", port: int = 0) -> None:
        self.follower = Follower(folder)
        self.token = "" if _is_loopback(host) else secrets.token_urlsafe(24)
        self.page = live_page(self.follower.folder.name).html().encode()
        self._lock = threading.Lock()  # all readers share one follower, which keeps state
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "no such port"
            raise SettingError(
                f"the page cannot be served at {host}:{port} ({why}); give another --host or --port"
            ) from None

    @property
    def url(self) -> str:
        """The address to open."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/" + (f"?token={self.token}" if self.token else "")

    def state(self) -> bytes:
        """Return the state of the run, as JSON."""
        with self._lock:
            return json.dumps(self.follower.state()).encode()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a reader that went away."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def watching(folder: Path | str, host: str = "127.0.0.1", port: int = 0) -> Iterator[WatchServer]:
    """Serve the live page in the background while a block runs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, watching(folder) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """
    with WatchServer(folder, host, port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "cofill", ""
    timeout = 30

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not self._allowed(parse_qs(url.query)):
            self._answer(HTTPStatus.FORBIDDEN, b"the address lacks the token", "text/plain")
        elif url.path == "/":
            self._answer(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif url.path == "/state":
            self._answer(HTTPStatus.OK, self.server.state(), "application/json")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there is no such page", "text/plain")

    def _allowed(self, query: dict[str, list[str]]) -> bool:
        token = self.server.token
        if token:
            return hmac.compare_digest(query.get("token", [""])[0].encode(), token.encode())
        # A page from elsewhere whose name was made to lead here must not read the state.
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        return _is_loopback(host)

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        sizes = {"Content-Type": kind, "Content-Length": str(len(body))}
        for name, value in (sizes | _HEADERS).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet: the address holds the token."""
