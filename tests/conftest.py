"""What every test gets: markers, and the rule that a skip is never silent.

Tests marked ``gpu`` are skipped, with that reason, where there is no CUDA device.
It is the one skip that is always allowed. A skipped browser test counts as failed,
since the test command promises a Chromium; and where ``CI`` is set every other
skip counts as failed too, since nothing may be missing there.
"""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from engine.measure.threads import OPENMP_SETTINGS

# Before torch is imported: beside another busy process, waiting threads that spin make a test of seconds one of minutes.
for setting, value in OPENMP_SETTINGS.items():
    os.environ.setdefault(setting, value)

BROWSER_TESTS = Path(__file__).parent / "browser"

# The machine may be slow or busy, and a slow example is no wrong one.
hypothesis.settings.register_profile("lab", deadline=None, print_blob=True)
hypothesis.settings.load_profile("lab")


@pytest.fixture
def one_thread():
    """Torch on one thread: products of a few numbers are no faster on more, and far slower beside another busy process."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_collection_modifyitems(items):
    for item in items:
        if BROWSER_TESTS in item.path.parents:
            item.add_marker("browser")
    # Last, in each process that `lab.py test` starts, since Playwright keeps an event loop running in this thread
    # until it is closed, and no other test could run one of its own.
    items.sort(key=lambda item: BROWSER_TESTS in item.path.parents)
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not _has_cuda():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="gpu: no CUDA device here"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    is_xfail = hasattr(report, "wasxfail")
    if report.skipped and not is_xfail and not item.get_closest_marker("gpu"):
        _fail_if_not_allowed(report, item.path)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if report.skipped:  # a whole file that skips itself, as pytest.importorskip does
        _fail_if_not_allowed(report, collector.path)
    return report


def _fail_if_not_allowed(report, path: Path) -> None:
    if BROWSER_TESTS in path.parents or os.environ.get("CI"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{path.name} may not skip here, but did: {reason}"


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The default model's file; fetched into the data folder if it is not there yet."""
    from engine.model.fetch import fetch

    return fetch("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def kjv():
    """The default text, fetched if need be."""
    from engine.model.fetch import fetch
    from engine.texts import load_text

    fetch("kjv")
    return load_text("kjv")
