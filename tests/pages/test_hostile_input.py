"""Odd and hostile input over addresses, fields and uploads: never a traceback, never a lost page, a reason where refused.

The real pages run here as Streamlit runs them, without a browser; what a browser does with them is in tests/browser.
"""

import json
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import LabError
from engine.experiments.scenarios import DEFAULT_WORKLOAD
from engine.paths import runs_dir
from engine.service import client, files
from engine.service.store import Store
from pages._ui import recordings
from tests.pages import lessons
from tests.pages.lessons import html

pytestmark = pytest.mark.usefixtures("home")
lesson = partial(lessons.lesson, "schedules")
ADDRESSES = [
    {"run": value}
    for value in (
        "../../etc/passwd", "%2e%2e%2f", "a" * 16, "a" * 5000, "", " ", "<script>alert(1)</script>", "' OR 1=1 --", "\x00abc",
        "recorded:schedules-cpu", "한글한글한글한글한글", "\u202eabcdefghijklmnopqr", "-" * 20, "null", "run.db", "{0.__class__}",
    )  # fmt: skip
]
ADDRESSES += [{"lang": value} for value in ("", "xx", "ko-KR", "KO", "../ko", "<b>", "en\x00", "🙂" * 300)]
ADDRESSES += [{"part": value} for value in ("", "run", "details", "waiting", "<b>", "../home", "chunk-sweep\x00")]
ADDRESSES += [
    {"part": "chunk-sweep", "chunks": "../../x"}, {"part": "backlog", "backlog": "a" * 3000},
    {"run": "x", "lang": "y", "part": "z"}, {"unknown": "1"},
]  # fmt: skip
NUMBERS = [
    (field, value)
    for field in ("chat.count", "long.prompt_tokens", "chunk_tokens", "kv_bytes")
    for value in (0, -1, 10**12, 2**53 - 1, None)
]
SWEEPS = [
    "", " ", ",", "²", "1e3", "64,64", "64;128", "9" * 400, "-5", "NaN", "<script>", "64,", "0",
    ",".join(str(n) for n in range(1, 40)), "\u202e64", "64,\x00", "1.5", "0x40", "{values}",
]  # fmt: skip
TYPED = ["", " \n\t", "\x00", "🙂" * 2000, "<img src=x onerror=alert(1)>" * 50, "\u202eabc" * 500, "{} {0} %s $x$ " * 200, "가" * 20_000]
UPLOADS = {
    "empty": b"",
    "white space": b" \n\t ",
    "not UTF-8": b"\xff\xfe\x00abc",
    "Latin-1": "café".encode("latin-1"),
    "binary": b"\x00\x01\x02" * 100,
    "a zip": b"PK\x03\x04" + b"\x00" * 100,
    "half a character": "한글".encode()[:-1],
    "too large": b"a" * (33 << 20),
}
KEY = f"{DEFAULT_WORKLOAD}-cpu"


@pytest.fixture(scope="module")
def page(home) -> AppTest:
    """One page that all the fields are tried on, one after another: what was refused must not stay."""
    return lesson(lang="en")


@pytest.fixture(scope="module")
def sweep_pages(home) -> dict[str, AppTest]:
    """The parts of the lesson with a list of numbers to fill in."""
    return {kind: lesson(lang="en", part=kind) for kind in ("chunk-sweep", "backlog")}


def whole(app: AppTest) -> str:
    """The page is all there: no exception, and the numbers of the recording; gives its HTML."""
    assert not app.exception
    found = html(app)
    assert "lab-headline" in found and "lab-race" in found
    assert "<script>alert" not in found and "onerror=alert(1)>" not in found.replace("&lt;img src=x onerror=alert(1)&gt;", "")
    return found


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda a: ascii(a)[:60])
def test_an_address_nobody_gave_out(address):
    found = whole(lesson(**address))
    if address.get("run", "").strip():
        assert "lab-notice-info" in found  # "this run is not here"


def stored(name: str, **changes: object) -> str:
    """A recording as a run of this machine; gives its id."""
    run = f"a-run-of-{name}-{changes.get('number', 'whole')}"
    text = json.dumps(recordings.load(name) | {"run_id": run, "provenance": "measured"} | changes)
    files.write_atomically(runs_dir() / f"{run}.json", text)
    return run


@pytest.mark.parametrize(
    ("slot", "part", "other"),
    [("run", "run", "chunk-sweep-cpu"), ("chunks", "chunk-sweep", "schedules-cpu"), ("backlog", "backlog", "chunk-sweep-cpu")],
)
def test_a_run_of_another_kind_in_the_address(slot, part, other):
    assert "lab-notice-info" in whole(lesson(part=part, **{slot: stored(other)}))


@pytest.mark.parametrize(("kind", "slot"), [("chunk-sweep", "chunks"), ("backlog", "backlog")])
def test_a_sweep_of_one_point(kind, slot):
    """Of which nothing can be said."""
    for number, point in enumerate(sorted(recordings.load(f"{kind}-cpu")["points"], key=lambda p: p["value"])[:2]):
        run = stored(f"{kind}-cpu", points=[point], number=number)
        assert "lab-notice" not in whole(lesson(part=kind, **{slot: run}))


def test_a_kept_run_in_many_tabs():
    """Each tab used to put its own view of the switch through whenever anything was clicked in it."""
    run = "a-run-that-is-kept"
    Store().save(recordings.load("schedules-cpu") | {"run_id": run, "provenance": "measured"})
    mine, other = (lesson(run=run, part="details") for _ in range(2))
    mine.toggle[0].set_value(True).run()
    assert client.stored(run).pinned and mine.toggle[0].value
    other.run()
    assert client.stored(run).pinned and other.toggle[0].value
    other.toggle[0].set_value(False).run()
    mine.run()
    assert not client.stored(run).pinned and not mine.toggle[0].value


REFUSED = "These numbers do not work"


@pytest.mark.parametrize(("field", "value"), NUMBERS, ids=str)
def test_a_number_that_may_not_work(page, field, value):
    widget = page.number_input(key=f"{field}-{KEY}")
    fine = widget.value
    widget.set_value(value).run()
    assert (REFUSED in whole(page)) == (value is not None and (field, value) != ("chat.count", 0))
    page.number_input(key=f"{field}-{KEY}").set_value(fine).run()
    assert REFUSED not in whole(page)  # the way back


@pytest.mark.parametrize("values", SWEEPS, ids=lambda v: ascii(v)[:40])
@pytest.mark.parametrize("kind", ["chunk-sweep", "backlog"])
def test_a_list_that_may_not_work(sweep_pages, kind, values):
    page = sweep_pages[kind]
    fine = page.text_input(key=f"values-{kind}").value
    page.text_input(key=f"values-{kind}").set_value(values).run()
    possible = kind == "chunk-sweep" and values == "0"  # the whole prompt alone
    assert (REFUSED in whole(page)) != possible
    page.text_input(key=f"values-{kind}").set_value(fine).run()
    assert REFUSED not in whole(page)


@pytest.mark.parametrize("typed", TYPED, ids=lambda t: ascii(t)[:30])
def test_a_text_that_somebody_typed(page, typed):
    page.selectbox(key=f"text-{KEY}").set_value("own").run()
    page.text_area(key="own-text").set_value(typed).run()
    assert (REFUSED in whole(page)) == (not typed.strip() or "\x00" in typed)
    page.selectbox(key=f"text-{KEY}").set_value("kjv").run()
    assert REFUSED not in whole(page)


@pytest.mark.parametrize("name", UPLOADS)
def test_a_file_that_is_no_text(name):
    with pytest.raises(LabError) as refused:
        client.keep_text(UPLOADS[name], "../../evil<script>.txt")
    assert refused.value.code in ("text-empty", "text-unreadable", "text-too-large")
    assert str(refused.value)
