"""The grids of rates by themselves, and perplexity and needles measured for real on the app."""

from __future__ import annotations

import pytest

from pages._ui.words import Words
from pages.rope import retrieval_story
from tests.browser.checks import grave, wide
from tests.browser.harness import Harness
from tests.pages import rope_small as small


@pytest.fixture(scope="module")
def harness():
    made = Harness("grids")
    yield made
    made.close()


@pytest.fixture
def opened(browser, harness):
    """opened(lang=..., ...) shows the component; at the end the console must have been silent."""
    contexts, complaints = [], []

    def new(*, lang="en", width=1240, result=None, **options):
        words = Words(lang, "rope")
        result = result or small.retrieval()
        harness.mount({"spec": retrieval_story.grids(result, words), "alt": retrieval_story.alt(result, words)}, lang=lang)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(harness.address)
        page.wait_for_selector(".gd-cell")
        return page

    yield new
    for context in contexts:
        context.close()
    assert not complaints


def test_a_grid_is_walked_by_keyboard_and_told(opened):
    """96 cells must not be 96 stops of the Tab key; and where nothing was measured the arrow keys go on."""
    result = small.retrieval()
    result["cells"] = [c for c in result["cells"] if (c["method"], c["length"]) != ("none", 256)]
    page = opened(result=result)
    assert page.locator(".gd-cell[tabindex='0']").count() == 8
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.at") == "0 0 2"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert "As trained, 1,024 tokens (8×), depth 50 %" in page.locator(".gd-tip").inner_text()
    assert "6 of 100 right" in page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('table').getAttribute('aria-label')") == "Linear (PI)"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.dataset.at") == "0 1 3", "where one was"
    page.locator(".gd-gone").first.hover()
    assert "needle evicted" in page.locator(".gd-tip").inner_text()


def test_new_cells_leave_the_reader_where_he_was(opened):
    """While a run goes on its grids are drawn anew every second."""
    page = opened()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    later = {"spec": retrieval_story.grids(small.retrieval(trials=50, right={m: [[n // 2 for n in by] for by in all_] for m, all_ in small.RIGHT.items()}), Words("en", "rope")), "alt": "later"}
    page.evaluate("(data) => window.give(data)", later)
    assert page.evaluate("document.activeElement.dataset.at") == "0 1 0"
    assert "of 50 right" in page.locator(".gd-tip").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_grave_to_say_of_the_grids_and_a_phone_scrolls_down_only(opened, scheme):
    page = opened(color_scheme=scheme, width=390, lang="ko")
    page.keyboard.press("Tab")
    assert not grave(page) and not wide(page)
    tip = page.locator(".gd-tip").bounding_box()
    assert tip["x"] >= 0 and tip["x"] + tip["width"] <= 390


RUNS = [("en-US", "lengths", {"samples": "1", "seeds": "1"}, ".rl-table"), ("ko-KR", "retrieval", {"trials": "8"}, ".gd-cell")]


@pytest.mark.parametrize(("locale", "part", "changes", "seen"), RUNS, ids=["lengths-en", "retrieval-ko"])
def test_a_run_from_the_form_to_its_result(visit, locale, part, changes, seen):
    """On a phone: numbers changed, measured here, and the result is told, drawn and open to a screen reader."""
    words = Words(locale[:2], "rope")
    watched = visit(locale=locale, width=390, height=844)
    page = watched.open(f"/rope?part={part}")
    page.get_by_role("button", name=words("run.numbers")).click()
    for name, value in changes.items():
        field = page.get_by_label(words(f"field.{name}"), exact=True)
        field.fill(value)
        field.press("Enter")
        watched.settle()
    page.keyboard.press("Escape")
    page.get_by_role("button", name=words("run.go")).click()
    page.locator(f".st-key-lab-source-{part} .lab-badge-measured").wait_for(timeout=60_000)
    watched.settle()
    page.locator(seen).first.wait_for()
    assert not grave(page) and not wide(page)
