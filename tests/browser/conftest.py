"""A real server and a real browser, once for all browser tests of a process.

The server uses the models and texts of this user. Runs and locks are its own, as in all other tests: a run that waited for
one of the other test process would be another page. Every page notes what its console said and whom it asked.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from engine.paths import data_dir

ROOT = Path(__file__).resolve().parents[2]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER_ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY = "[data-testid=stApp][data-test-connection-state=CONNECTED][data-test-script-state=notRunning]"
# Streamlit looks for its own address below the page's first; that it is not there is no fault.
SEARCHED = ("_stcore/health", "_stcore/host-config")


class App:
    """The app as `streamlit run app.py` starts it, with a data folder of its own."""

    def __init__(self, home: Path, port: int | None = None) -> None:
        self.home, self.port = home, port or _free_port()
        self.address = f"http://localhost:{self.port}"
        for shared in ("models", "texts"):
            (data_dir() / shared).mkdir(exist_ok=True)
            if not (home / shared).exists():
                (home / shared).symlink_to(data_dir() / shared)
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(self.port)]
        command += ["--server.headless", "true", "--browser.serverAddress", "localhost"]
        with open(home / "server.log", "a") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "LAB_HOME": str(home)}, stdout=log, stderr=log
            )
        _wait_until_healthy(self.process, self.port, home / "server.log")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One app for all tests that leave it whole; gives its address."""
    app = App(tmp_path_factory.mktemp("home"))
    try:
        yield app.address
    finally:
        app.stop()


def _wait_until_healthy(process, port: int, log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=1).read()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the app did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def browser():
    executable = os.environ.get("LAB_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(BROWSER_ARGS))
        yield browser
        browser.close()


class Watched:
    """A page, and what must never happen on it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)

    def _said(self, message) -> None:
        if message.type == "error" and not message.location.get("url", "").endswith(SEARCHED):
            self.complaints.append(f"{message.text} ({message.location.get('url')})")

    def _asked(self, request) -> None:
        if not request.url.startswith((self.address, self.address.replace("http", "ws"), "data:", "blob:")):
            self.elsewhere.append(request.url)

    def open(self, path: str) -> Page:
        """Open a path of the app and wait until its script has run."""
        self.page.goto(self.address + path)
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until no script runs and no exception is on the page."""
        self.page.wait_for_selector(READY, timeout=30_000)
        assert self.page.locator("[data-testid=stException]").count() == 0, self.page.locator(
            "[data-testid=stException]"
        ).inner_text()

    def see(self, text: str, timeout: float = 20_000) -> None:
        """Wait until a text is on the page and in sight."""
        self.page.get_by_text(text).first.wait_for(state="visible", timeout=timeout)


    def until(self, expression: str, timeout: float = 60.0) -> None:
        """Wait until a JavaScript expression is true. (Playwright's own way needs eval, which the page forbids.)"""
        end = time.monotonic() + timeout
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, expression
            self.page.wait_for_timeout(100)


@pytest.fixture
def visit(browser, server):
    """Open pages: visit(locale=..., width=..., ...) gives a Watched page; at the end it must have nothing to complain of."""
    contexts, seen = [], []

    def new(*, locale: str = "en-US", width: int = 1440, height: int = 900, address: str = server, **options) -> Watched:
        context = browser.new_context(locale=locale, viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        seen.append(Watched(context.new_page(), address))
        return seen[-1]

    yield new
    complaints = [c for watched in seen for c in watched.complaints]
    elsewhere = [u for watched in seen for u in watched.elsewhere]
    for context in contexts:
        context.close()
    assert not complaints
    assert not elsewhere
