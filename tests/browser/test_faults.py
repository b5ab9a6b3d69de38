"""Killed processes as a reader meets them: what the page says, that nothing is left behind, and that the next run works.

What each fault says in all, and that no result is lost: tests/service/test_faults.py."""

import os
import signal

import psutil
import pytest

from tests.browser.conftest import App
from tests.browser.test_schedules import address, choose_quick


@pytest.fixture
def app(tmp_path):
    made = App(tmp_path)
    yield made
    if made.process.poll() is None:
        made.stop()


def family(app: App) -> list[psutil.Process]:
    return psutil.Process(app.process.pid).children(recursive=True)


def one_of(app: App, module: str) -> psutil.Process:
    return next(p for p in family(app) if module in p.cmdline())


def start_a_long_run(watched) -> str:
    page = watched.open("/schedules?lang=en")
    choose_quick(watched)
    page.get_by_role("button", name="Change the numbers").click()
    field = page.get_by_role("spinbutton", name="Chats: answer tokens")
    field.fill("2000")
    field.press("Enter")
    watched.settle()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Run on this machine").click()
    watched.until("!!document.querySelector('.tl-live')?.innerText.includes('first token after')", timeout=120)  # it measures
    return address(page)["run"]


def test_a_killed_worker_and_a_killed_service_fail_their_run_and_no_other(visit, app):
    watched = visit(address=app.address)
    start_a_long_run(watched)
    one_of(app, "engine.serving.worker").kill()
    watched.see("ended in the middle of the work", timeout=30_000)
    watched.see("Run it again")
    start_a_long_run(watched)
    one_of(app, "engine.service").kill()
    watched.see("The engine service ended while working (signal 9)", timeout=30_000)
    watched.page.get_by_role("button", name="Run on this machine").wait_for()


def test_a_killed_server_leaves_nothing_behind_and_the_page_tells_after_its_return(visit, app):
    """The hardest end: no goodbye. Workers and service must go by themselves, and the link must not lie."""
    watched = visit(address=app.address)
    lost = start_a_long_run(watched)
    left = family(app)
    assert len(left) >= 3
    watched.page.close()
    os.kill(app.process.pid, signal.SIGKILL)
    app.process.wait()
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not alive

    again = App(app.home, app.port)
    try:
        watched = visit(address=again.address)
        watched.open(f"/schedules?lang=en&run={lost}")
        watched.see("The app ended while this run waited or was being measured")
        watched.page.get_by_role("button", name="Run on this machine").wait_for()
    finally:
        again.stop()


def test_ctrl_c_ends_everything(visit, app):
    watched = visit(address=app.address)
    start_a_long_run(watched)
    everybody = [psutil.Process(app.process.pid), *family(app)]
    watched.page.close()
    os.kill(app.process.pid, signal.SIGINT)
    _, alive = psutil.wait_procs(everybody, timeout=25)
    assert not alive and app.process.wait() == 0
