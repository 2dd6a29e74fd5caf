"""What tests of several packages share: a browser, and a PostgreSQL server."""

import base64
import shutil
import time
from pathlib import Path

import pytest

from .postgres import MissingServerError, postgres_server


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


@pytest.fixture(scope="session")
def postgres():
    try:
        with postgres_server() as server:
            yield server
    except MissingServerError as reason:
        pytest.skip(str(reason))
