"""The live page of a run, and the small server that shows it: to this machine, or by a token."""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cofill.errors import SettingError
from cofill.pages import Html, Line, Page, Section, lines, plot, text
from cofill.report._live import Follower

__all__ = ["WatchServer", "live_page", "watching"]


def live_page(name: str) -> Page:
    """Return the page that follows a run: it asks its own server for the state every second."""
    now = Html(
        '<p><span id="state" class="badge">waiting</span> <strong id="what">nothing yet</strong> '
        '<span id="step"></span> <span id="changed" class="lead"></span></p>'
        '<p class="bar"><progress id="share" max="1" aria-label="share done"></progress> '
        '<span id="percent"></span></p>'
        '<p id="lost" class="note bad" role="alert" hidden>The server does not answer; this is the '
        "last that was heard.</p>"
    )
    picture = plot(
        lines({"loss": Line([], [])}, x_axis="round", y_axis="loss"),
        "Losses of the sites after each round, weighted by their rows.",
        "Losses over rounds",
    )
    released = ("release", "from", "to", "individuals", "size", "privacy cost", "step")
    budget = ("site", "ε spent", "ε allowed", "ε left", "δ")
    return Page(
        f"Run {name}",
        "Followed while it goes: names and figures, no rows. Nothing here changes the run.",
        [
            Section("Now", now, "now"),
            Section(
                "Sites",
                _table("sites", ("site", "state"), "No site has been heard of."),
                "parties",
            ),
            Section(
                "Losses",
                Html(
                    f'<div id="losses" hidden>{picture}</div>'
                    '<p id="losses-none">No loss has been told yet.</p>'
                ),
                "curve",
            ),
            Section(
                "Releases",
                Html(
                    f'<p id="total" aria-live="polite"></p>'
                    f"{_table('releases', released, 'Nothing has crossed a border.')}"
                ),
                "crossed",
                "The latest first.",
            ),
            Section(
                "Privacy budget",
                _table("budget", budget, "No release with a guarantee, and no budget set."),
                "left",
            ),
            Section("Faults", _table("faults", ("what went wrong",), "None."), "wrong"),
        ],
        script=files("cofill.report").joinpath("live.js").read_text(encoding="utf-8"),
    )


def _table(name: str, header: tuple[str, ...], none: str) -> Html:
    heads = "".join(f'<th scope="col">{text(word)}</th>' for word in header)
    return Html(
        f'<div class="scroll" id="{name}" role="region" tabindex="0" aria-label="{name}" hidden>'
        f"<table><thead><tr>{heads}</tr></thead><tbody></tbody></table></div>"
        f'<p id="{name}-none">{text(none)}</p>'
    )


class WatchServer(ThreadingHTTPServer):
    """Serves the live page and the state of one run; nothing else, and nothing can be sent to it.

    Parameters
    ----------
    folder
        Of the run.
    host, port
        Where to listen; port 0 takes a free one. A host that others can reach needs the token in
        the address, which is then part of `url`.
    """

    daemon_threads = True

    def __init__(self, folder: Path | str, host: str = "127.0.0.1", port: int = 0) -> None:
        self.follower = Follower(folder)
        self.token = "" if _is_loopback(host) else secrets.token_urlsafe(24)
        self.page = live_page(self.follower.folder.name).html().encode()
        self._lock = threading.Lock()
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
        """Return where the run stands, as JSON."""
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


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "cofill", ""
    timeout = 30

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if not self._allowed(parse_qs(asked.query)):
            self._answer(HTTPStatus.FORBIDDEN, b"the address lacks the token", "text/plain")
        elif asked.path == "/":
            self._answer(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif asked.path == "/state":
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
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet: the address holds the token."""
