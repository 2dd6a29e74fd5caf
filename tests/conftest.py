"""What tests of several packages share: a browser, and a PostgreSQL server."""

import base64
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_keys(tmp_path_factory):
    """Set where keys and secrets come from, also in processes that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COFILL_KEYS", str(tmp_path_factory.mktemp("keys")))
        # Runs are compared bit for bit, so their masks must follow from the seed.
        patch.setenv("COFILL_SEEDED_SECRETS", "1")
        yield


ARTEFACTS = Path(__file__).parents[1] / ".artefacts"


class Browser:
    """A headless chromium, driven by selenium; one for all tests of a process."""

    def __init__(self, driver):
        self.driver = driver
        self.run = driver.execute_script

    def open(self, url, *, width=1280, dark=False):
        """Open a page, wait until its plots are drawn, and return the seconds that took."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get_log("browser")
        self.driver.get(url)
        self.wait("return document.documentElement.dataset.ready")
        return self.run("return performance.now()") / 1000

    def wait(self, script, seconds=20):
        """Return what a script returns, once it is something."""
        until = time.monotonic() + seconds
        while not (found := self.run(script)):
            if time.monotonic() > until:
                pytest.fail(f"nothing after {seconds} s: {script}")
            time.sleep(0.05)
        return found

    def complaints(self):
        """Return what the console says."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def shot(self, name):
        """Keep a picture of the whole page, for people to look at."""
        ARTEFACTS.mkdir(exist_ok=True)
        wide, tall = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": wide, "height": tall, "scale": 1}
        made = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        (ARTEFACTS / f"{name}.png").write_bytes(base64.b64decode(made["data"]))


@pytest.fixture(scope="session")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium with its driver here (apt-get install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield Browser(started)
    started.quit()


# --- a throw-away PostgreSQL server for the tests that need a real one ---------------------------

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
