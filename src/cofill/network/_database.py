"""A throw-away database for trying a federation: PostgreSQL where its programs are, else SQLite."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofill.errors import CofillError
from cofill.network._processes import end_tree, free_port, wait_for_port

__all__ = ["throw_away_database"]

_USER = "cofill"
# The server is an ordinary user's, and ends with whoever started it, also when that is killed.
_AS_USER = """
import ctypes, os, signal, sys
user, group, *words = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(int(group)), os.setuid(int(user))
ctypes.CDLL(None).prctl(1, signal.SIGINT)
os.execv(words[0], words)
"""


@contextmanager
def throw_away_database(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the URL of a new database and what it is; it ends with the block.

    Parameters
    ----------
    folder
        Where a file of SQLite goes, if PostgreSQL's server programs are not on this machine.
    """
    programs = _program("initdb"), _program("postgres")
    owner = _owner()
    if None in programs or owner is None:
        yield f"sqlite:///{folder / 'database.sqlite'}", "SQLite"
        return
    initdb, postgres = map(str, programs)
    place = Path(tempfile.mkdtemp(prefix="cofill-postgres-"))
    process = None
    try:
        password, port = secrets.token_hex(16), free_port()
        (place / "password").write_text(password)
        for path in (place, place / "password"):
            os.chown(path, owner.pw_uid, owner.pw_gid)
            path.chmod(0o700)
        process = _start(initdb, postgres, place, port, owner)

        def alive() -> None:
            if process.poll() is not None:
                raise CofillError("the throw-away PostgreSQL server has ended by itself")

        wait_for_port(port, timeout=30.0, alive=alive)
        _await_logins(place)
        yield f"postgresql://{_USER}:{password}@127.0.0.1:{port}/postgres", "PostgreSQL"
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)  # "fast shutdown"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5.0)
            end_tree(process.pid)
            process.wait()
        shutil.rmtree(place, ignore_errors=True)


def _start(
    initdb: str, postgres: str, place: Path, port: int, owner: pwd.struct_passwd
) -> subprocess.Popen[Any]:
    """Make a cluster and start its server as an ordinary user."""
    data, log = place / "data", (place / "server.log").open("ab")
    start = [sys.executable, "-ISc", _AS_USER, str(owner.pw_uid), str(owner.pw_gid)]
    common: dict[str, Any] = {"cwd": place, "stdin": subprocess.DEVNULL, "stdout": log}
    common |= {"stderr": log, "env": {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}}
    words = ["-D", str(data), "-U", _USER, "--pwfile", str(place / "password"), "-E", "UTF8"]
    with log:
        subprocess.run(  # noqa: S603
            [*start, initdb, *words, "--auth", "scram-sha-256", "--no-sync"],
            check=True,
            timeout=60,
            **common,
        )
        listening = ["-p", str(port), "-k", str(place), "-c", "listen_addresses=127.0.0.1"]
        quick = ["-c", "fsync=off", "-c", "shared_buffers=16MB"]
        return subprocess.Popen(  # noqa: S603
            [*start, postgres, "-D", str(data), *listening, *quick],
            start_new_session=True,
            **common,
        )


def _await_logins(place: Path) -> None:
    """Wait until the server takes logins: it listens a little earlier."""
    for _ in range(300):
        if b"ready to accept connections" in (place / "server.log").read_bytes():
            return
        time.sleep(0.1)


def _program(name: str) -> str | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders = [os.environ.get("PATH", ""), *map(str, versions)]
    return shutil.which(name, path=os.pathsep.join(folders))


def _owner() -> pwd.struct_passwd | None:
    """Return who may run the server: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None
