"""A throw-away PostgreSQL server for tests and trials that need a real one."""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

USER, PASSWORD = "ada", "tr0ub4dor"
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB")


class MissingServerError(Exception):
    """PostgreSQL cannot run here; the message says what is missing."""


@dataclass(frozen=True)
class Postgres:
    """A server: where it listens, and how it is stopped and started."""

    port: int
    folder: Path
    pg_ctl: tuple[str, ...] = field(repr=False)
    """The command, run as the user to whom the server belongs."""
    user: str = USER
    password: str = PASSWORD

    def url(self, target: str = "", *, password: str | None = None, database: str = "postgres"):
        """Return the URL that a user would type."""
        login = f"{self.user}:{self.password if password is None else password}"
        end = f"#{target}" if target else ""
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}{end}"

    def connect(self):
        import psycopg

        return psycopg.connect(self.url(), autocommit=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = (f"listen_addresses=127.0.0.1 -p {self.port} -k {self.folder}", *_QUICK)
        options = " ".join(f"-c {setting}" for setting in settings)
        log = str(self.folder / "server.log")
        _run(self.folder, *self.pg_ctl, "-w", "-t", "30", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        """Stop it at once, as a machine that fails does."""
        _run(self.folder, *self.pg_ctl, "-m", "immediate", "-w", "stop")


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Start a server in a folder of its own; stop it and remove the folder at the end."""
    if importlib.util.find_spec("psycopg") is None:
        raise MissingServerError("psycopg is not installed")
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    if not (initdb and pg_ctl):
        raise MissingServerError("PostgreSQL's server programs (initdb, pg_ctl) are not installed")
    owner = _owner() if os.geteuid() == 0 else None
    as_user = () if owner is None else (_runuser(), "-u", owner, "--")
    folder = Path(tempfile.mkdtemp(prefix="cofill-pg-"))
    try:
        secret, data = folder / "password", str(folder / "data")
        secret.write_text(PASSWORD)
        if owner is not None:
            for path in (folder, secret):
                shutil.chown(path, user=owner)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        login = ("-U", USER, "--pwfile", str(secret), "--auth", "scram-sha-256")
        _run(folder, *as_user, initdb, "-D", data, *login, "-E", "UTF8", "--no-sync")
        server = Postgres(port, folder, (*as_user, pg_ctl, "-D", data))
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path, *command: str) -> None:
    with (folder / "commands.log").open("ab") as log:
        subprocess.run(
            command,
            check=True,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            timeout=60,
        )


def _program(name: str) -> str | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders = [os.environ.get("PATH", ""), *map(str, versions)]
    return shutil.which(name, path=os.pathsep.join(folders))


def _owner() -> str:
    """Return an ordinary user: PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise MissingServerError("PostgreSQL does not run as root and there is no other user to run it")


def _runuser() -> str:
    found = shutil.which("runuser") or shutil.which("runuser", path="/usr/sbin:/sbin")
    if found is None:
        raise MissingServerError("PostgreSQL does not run as root, and runuser is missing")
    return found
