"""`cofill doctor`: what this machine has, what it lacks, and what to do about it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text
from typer import Option

from cofill.cli._finding import Finding, State
from cofill.cli._options import LISTED, Listing, examples
from cofill.cli._show import console, say
from cofill.paths import compiled_folder, data_folder

_PORT = 8002  # of a coordinator unless federation.toml says otherwise
_LITTLE_GIB = 2.0
_EXTRAS = {
    "sql": "databases as sources",
    "network": "federations between machines",
    "psi": "private set intersection",
    "cuda": "NVIDIA GPUs",
}
_COUNTED: dict[State, str] = {"ok": "fine", "note": "to note", "problem": "in the way"}
_STYLES: dict[State, str] = {"ok": "green", "note": "yellow", "problem": "bold red"}


@examples(
    "cofill doctor",
    "cofill doctor --json",
    "cofill doctor --site kits/sites/lab --config site.toml",
)
def doctor(
    site: Annotated[
        Path | None, Option(help="The kit of a site: look at its installation instead.")
    ] = None,
    config: Annotated[Path, Option(help="With --site: its site.toml.")] = Path("site.toml"),
    listing: Listing = LISTED,
) -> None:
    """Look at this machine: versions, devices, memory, data, folders, ports, other programs.

    With --site: permissions, policy, pinned keys, ledger, tables and coordinator of a site. Ends
    with exit code 1 if something would stop cofill from working.
    """
    if site is None:
        lines = list(findings())
    else:
        from cofill.cli._doctor_site import site_findings  # the network package is behind it

        lines = list(site_findings(site, config))
    sound = all(line.state != "problem" for line in lines)
    facts = {"ok": sound, "findings": [line.to_json() for line in lines]}
    listing.print(facts, lambda: _show(lines))
    if not sound:
        raise typer.Exit(1)


def findings() -> Iterator[Finding]:
    """Yield a finding for everything that is looked at."""
    yield from _software()
    yield from _extras()
    yield from _devices()
    yield from _machine()
    yield from _data()
    yield _cache()
    yield _port(_PORT)
    yield from _programs()


def _ok_or_note(what: str, fine: bool, detail: str, lacking: str, todo: str) -> Finding:
    """Return a finding that asks for something to be done only where not all is fine."""
    return Finding(what, "ok", detail) if fine else Finding(what, "note", lacking, todo)


def _show(lines: list[Finding]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for line in lines:
        words = Text(line.detail)
        if line.todo:
            words.append(f"\n→ {line.todo}")
        table.add_row(Text(line.state, style=_STYLES[line.state]), line.what, words)
    console().print(table)
    counts = (f"{sum(f.state == s for f in lines)} {words}" for s, words in _COUNTED.items())
    say(", ".join(counts))


# --- software -------------------------------------------------------------------------------------


def _software() -> Iterator[Finding]:
    import cofill

    yield Finding("cofill", "ok", cofill.__version__)
    system = f"{platform.system()} {platform.machine()}"
    yield Finding("Python", "ok", f"{platform.python_version()}, {system}")
    lacking = [name for extra, name in _needed() if not extra and _version(name) is None]
    shown = [f"{name} {_version(name)}" for name in ("jax", "numpy", "scipy", "scikit-learn")]
    if lacking:
        todo = "install cofill again: pip install --force-reinstall cofill"
        yield Finding("libraries", "problem", f"missing: {', '.join(lacking)}", todo)
    else:
        yield Finding("libraries", "ok", ", ".join(shown))


def _extras() -> Iterator[Finding]:
    for extra, purpose in _EXTRAS.items():
        names = [name for needed_by, name in _needed() if needed_by == extra]
        if extra == "cuda":
            names = ["jax-cuda12-plugin"]
        installed = bool(names) and all(_version(name) is not None for name in names)
        detail = ", ".join(f"{name} {_version(name)}" for name in names)
        todo = f"for {purpose}: pip install 'cofill[{extra}]'"
        yield _ok_or_note(f"extra {extra}", installed, detail, "not installed", todo)


def _needed() -> list[tuple[str, str]]:
    """Return what cofill's metadata asks for, as (extra or "", package)."""
    try:
        lines = requires("cofill") or []
    except PackageNotFoundError:
        return []
    pattern = re.compile(r"""([\w.-]+)(?:.*extra\s*==\s*['"]([\w-]+))?""")
    return [(match[2] or "", match[1]) for line in lines if (match := pattern.match(line))]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# --- hardware -------------------------------------------------------------------------------------


def _devices() -> Iterator[Finding]:
    try:
        import jax

        devices = jax.devices()
    except Exception as error:  # noqa: BLE001  whatever a driver raises is what is looked for
        todo = "set JAX_PLATFORMS=cpu, or install jax again"
        yield Finding("devices", "problem", f"JAX finds no device: {type(error).__name__}", todo)
        return
    listed = ", ".join(dict.fromkeys(f"{d.platform} ({d.device_kind})" for d in devices))
    used = any(d.platform != "cpu" for d in devices) or not shutil.which("nvidia-smi")
    todo = "an NVIDIA driver is here; to use its GPU: pip install 'cofill[cuda]'"
    yield _ok_or_note("devices", used, listed, listed, todo)


def _machine() -> Iterator[Finding]:
    from cofill.metrics import machine

    facts = machine()
    yield Finding("cores", "ok", f"{facts['cores']}, {facts['cpu']}")
    memory = facts["memory_gib"]
    if memory is None:
        yield Finding("memory", "note", "unknown on this system")
        return
    todo = f"with less than {_LITTLE_GIB:g} GiB expect room for small tables only"
    enough = float(memory) >= _LITTLE_GIB
    yield _ok_or_note("memory", enough, f"{memory} GiB", f"{memory} GiB", todo)


# --- folders and ports ----------------------------------------------------------------------------


def _data() -> Iterator[Finding]:
    folder = data_folder()
    todo = "`cofill datasets fetch NAME` makes it; COFILL_DATA names another"
    missing = f"{folder} is not there"
    yield _ok_or_note("data folder", folder.is_dir(), str(folder), missing, todo)
    from cofill.views import datasets

    known = datasets()
    installed = [d.name for d in known if d.is_here]
    yield Finding("data sets", "ok", f"here: {', '.join(installed)}")
    lacking = [d.name for d in known if not d.is_here]
    if lacking:
        todo = "`cofill datasets list` says what they are, `cofill datasets fetch NAME` gets one"
        yield Finding("data sets", "note", f"not here: {', '.join(lacking)}", todo)


def _cache() -> Finding:
    folder = compiled_folder()
    todo = "name a folder you may write to in COFILL_CACHE; until then every run compiles anew"
    fine, broken = f"{folder}, writable", f"{folder} cannot be written"
    return _ok_or_note("cache folder", _writable(folder), fine, broken, todo)


def _writable(folder: Path) -> bool:
    """Return whether a file can be made in a folder, or in the nearest one above that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _port(port: int) -> Finding:
    """Return whether a coordinator could listen here."""
    with socket.socket() as listener:
        if os.name == "posix":  # as servers do: a port that was just closed is free
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            todo = "give a coordinator another port in federation.toml"
            return Finding("ports", "note", f"{port} is taken on 127.0.0.1", todo)
    return Finding("ports", "ok", f"{port} is free on 127.0.0.1 for a coordinator")


def _programs() -> Iterator[Finding]:
    # Debian keeps the server's programs out of the path.
    debian = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/postgres")))
    postgres = shutil.which("postgres") or next(reversed(debian), None)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    for name, path, purpose in (
        ("PostgreSQL", postgres, "a database server of your own"),
        ("chromium", chromium, "the browser tests of reports"),
    ):
        todo = f"optional: for {purpose}, install it from your system"
        yield _ok_or_note(name, path is not None, path or "", "not found", todo)
