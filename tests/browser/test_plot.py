"""The chart component by itself: it draws what it is given, its points can be picked by mouse and keyboard, it fits a phone."""

from __future__ import annotations

import pytest

from tests.browser.checks import wide
from tests.browser.harness import Harness

SPEC = {
    "height": 360,
    "x": {"title": "FLOP per byte", "log": True, "range": [0.5, 2000], "ticks": [[1, "1"], [10, "10"], [100, "100"], [1000, "1,000"]]},
    "y": {"title": "FLOP/s", "log": True, "range": [1e9, 1e12], "ticks": [[1e9, "1 G"], [1e10, "10 G"], [1e11, "100 G"], [1e12, "1 T"]]},
    "areas": [{"points": [[1, 1e9, 1e10], [1000, 1e9, 1e12]], "style": 2}],
    "lines": [
        {"name": "the roof", "points": [[0.5, 1e9], [100, 2e11], [2000, 2e11]], "style": 0, "label": "end"},
        {"name": "published", "points": [[0.5, 2e9], [2000, 5e11]], "style": 5, "label": "end", "quiet": True},
    ],
    "points": [
        {"id": "a", "x": 1, "y": 2e9, "style": 2, "shape": "square", "text": "decode\n1 FLOP per byte"},
        {"id": "b", "x": 300, "y": 1e11, "style": 0, "shape": "circle", "filled": False, "text": "prefill <b>512</b>"},
    ],
    "marks": [{"across": "x", "at": 100, "text": "crossing"}],
    "legend": [{"name": "decode", "style": 2, "shape": "square"}],
}
DATA = {"spec": SPEC, "alt": "A roof and two points.", "picked": None}


@pytest.fixture(scope="module")
def harness():
    made = Harness("plot")
    yield made
    made.close()


@pytest.fixture
def opened(browser, harness):
    """opened(width=...) shows the chart; at the end the console must have been silent."""
    contexts, complaints = [], []

    def new(width: int = 1000, **options):
        harness.mount(DATA)
        context = browser.new_context(viewport={"width": width, "height": 700}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(harness.address)
        page.wait_for_selector(".pl-point")
        return page

    yield new
    for context in contexts:
        context.close()
    assert not complaints


def place(page, point: str) -> tuple[float, float]:
    box = page.locator(f"[data-id={point}] .pl-symbol").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_values_stand_where_the_axes_say(opened):
    """A log axis that is taken for a linear one, or pixels that run the wrong way, would show nonsense quietly."""
    page = opened()
    (ax, ay), (bx, by) = place(page, "a"), place(page, "b")
    tick = {t.text_content(): t.bounding_box() for t in page.locator(".pl-ticks text").all()}
    across = {name: tick[name]["x"] + tick[name]["width"] / 2 for name in ("1", "100", "1,000")}
    assert ax == pytest.approx(across["1"], abs=1.5)
    # 300 lies 0.477 of the way from 100 to 1,000, in logarithms.
    assert bx == pytest.approx(across["100"] + 0.4771 * (across["1,000"] - across["100"]), abs=1.5)
    up = {name: tick[name]["y"] + tick[name]["height"] / 2 for name in ("1 G", "10 G", "100 G")}
    assert by == pytest.approx(up["100 G"], abs=3) and up["10 G"] < ay < up["1 G"]


def test_points_are_picked_by_mouse_and_by_keyboard(opened):
    """Who has no mouse could not read a single number."""
    page = opened()
    page.mouse.move(*place(page, "b"))
    assert page.locator(".pl-tip b").inner_text() == "prefill <b>512</b>", "shown as text, never as markup"
    page.mouse.click(*place(page, "b"))
    page.locator("[data-id=a]").focus()
    assert page.locator(".pl-tip").inner_text().splitlines() == ["decode", "1 FLOP per byte"]
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.id") == "b"
    page.keyboard.press(" ")
    assert page.evaluate("told") == [["picked", "b"], ["picked", "a"], ["picked", "b"]]
    assert page.locator("[aria-pressed=true]").get_attribute("data-id") == "b"


def test_new_data_is_drawn_into_the_same_chart(opened):
    """A chart made anew would lose the focus of who goes through its points with the keyboard."""
    page = opened()
    page.locator("[data-id=b]").focus()
    page.evaluate(
        "async () => { const d = await (await fetch('/mount')).json(); d.spec.points[1].x = 1000; d.alt = 'Another.'; give(d); }"
    )
    assert page.evaluate("document.activeElement.dataset.id") == "b"
    assert page.locator("svg.pl-svg").get_attribute("aria-label") == "Another."
    assert page.locator(".pl-svg").count() == 1
    page.evaluate("clean()")
    assert page.locator(".pl-svg").count() == 0


def test_on_a_phone_the_names_go_above_and_nothing_hangs_out(opened):
    page = opened(width=390)
    assert page.locator(".pl-legend li").all_inner_texts() == ["decode", "the roof", "published"]
    assert not wide(page)
    page.set_viewport_size({"width": 1000, "height": 700})
    page.wait_for_function("document.querySelectorAll('.pl-name').length === 2")
    assert page.locator(".pl-legend li").all_inner_texts() == ["decode"]
