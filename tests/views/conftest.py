"""A throw-away PostgreSQL server for the tests that need a real one."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

USER, PASSWORD = "ada", "tr0ub4dor"


@dataclass(frozen=True)
class Postgres:
    """Where the server listens; `url` builds the URLs a user would type."""

    port: int
    folder: Path
    user: str = USER
    password: str = PASSWORD

    def url(self, target: str = "", *, password: str | None = None, database: str = "postgres"):
        login = f"{self.user}:{self.password if password is None else password}"
        end = f"#{target}" if target else ""
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}{end}"

    def connect(self):
        import psycopg

        return psycopg.connect(self.url(), autocommit=True)


def _program(name: str) -> str | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders = [os.environ.get("PATH", ""), *map(str, versions)]
    return shutil.which(name, path=os.pathsep.join(folders))


def _ordinary_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None


@pytest.fixture(scope="session")
def postgres():
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    if not (initdb and pg_ctl):
        pytest.skip("PostgreSQL's server programs (initdb, pg_ctl) are not installed")
    as_user: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="cofill-pg-"))
    try:
        if os.geteuid() == 0:
            user = _ordinary_user()
            runuser = shutil.which("runuser") or shutil.which("runuser", path="/usr/sbin:/sbin")
            if user is None or runuser is None:
                pytest.skip("PostgreSQL does not run as root and there is no other user to run it")
            as_user = [runuser, "-u", user, "--"]
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if as_user:
            for path in (folder, secret):
                shutil.chown(path, user=as_user[2])
        data = folder / "data"

        def run(*command: str) -> None:
            with (folder / "commands.log").open("ab") as log:
                subprocess.run(
                    [*as_user, *command],
                    check=True,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                    timeout=60,
                )

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        run(
            *(initdb, "-D", str(data), "-U", USER, "--pwfile", str(secret), "-E", "UTF8"),
            *("--auth", "scram-sha-256", "--no-sync"),
        )
        quick = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        listen = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c shared_buffers=16MB"
        run(
            *(pg_ctl, "-D", str(data), "-w", "-t", "30", "-l", str(folder / "server.log")),
            *("-o", f"{quick} {listen}", "start"),
        )
        try:
            yield Postgres(port, folder)
        finally:
            run(pg_ctl, "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
