"""The cache as cells by itself, and the parts about streaming on the real app."""

from __future__ import annotations

import pytest

from engine.kv.eviction import Sinks, Window
from pages._ui.words import Words
from pages.sinks.streaming import CELLS
from tests.browser.checks import grave, wide
from tests.browser.harness import Harness


@pytest.fixture(scope="module")
def harness():
    made = Harness("cells")
    yield made
    made.close()


@pytest.fixture
def opened(browser, harness):
    """opened(lang=..., ...) shows the component; at the end the console must have been silent."""
    contexts, complaints = [], []

    def new(*, lang="en", width=1240, **options):
        words = Words(lang, "sinks")
        texts = {key: words(key) for key in words.keys("cells.")}
        harness.mount({"words": texts, "tokens": words("cells.sentence").split(), **CELLS}, lang=lang)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(harness.address)
        page.wait_for_selector(".kc-cell")
        return page

    yield new
    for context in contexts:
        context.close()
    assert not complaints


def test_the_cells_keep_what_the_engine_keeps(opened):
    """A picture with rules of its own would teach another cache than the one that is measured."""
    page = opened()
    script = """async ([sinks, window]) => {
        const p = await import('/static/js/cells/policy.js');
        return Array.from({ length: 31 }, (_, tokens) => p.kept(tokens, sinks, window));
    }"""
    for sinks, window in ((0, 8), (2, 8), (4, 8), (1, 2), (0, 1)):
        policy = Sinks(sinks, window) if sinks else Window(window)
        assert page.evaluate(script, [sinks, window]) == [list(policy.kept(tokens)) for tokens in range(31)]


def test_steps_by_keyboard_are_told_and_shown(opened):
    page = opened(reduced_motion="reduce")
    page.get_by_role("button", name="One token on").focus()
    page.keyboard.press("ArrowRight")
    told = page.locator("[aria-live]").inner_text()
    assert "Position 8, “his”, comes." in told
    assert "Position 0, “Once”, is evicted: the sink is gone." in told
    assert "Position 2, “a”, is evicted; positions 0 to 1 stay." in told
    assert page.locator(".kc-one").nth(0).locator(".kc-text .kc-evicted").count() == 1
    cache = page.locator(".kc-one").nth(1).locator(".kc-cache .kc-cell")
    assert [text.split()[-1] for text in cache.locator("small").all_inner_texts()] == [str(n) for n in range(8)], "positions inside the cache"
    assert cache.locator("b").all_inner_texts()[:3] == ["Once", "upon", "time"]
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert page.locator(".kc-moment").inner_text() == "17 of 17 tokens read"
    assert page.get_by_role("button", name="One token on").get_attribute("aria-disabled") == "true"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "One token on", "the focus stays"
    page.get_by_role("combobox", name="Sinks", exact=True).select_option("4")
    assert page.locator(".kc-one h3").nth(1).inner_text() == "Sinks + window: 4 + 4 slots"


def test_it_plays_and_pauses_without_moving_when_nobody_wants_motion(opened):
    page = opened(lang="ko", reduced_motion="reduce")
    assert page.locator(".kc-cell").first.evaluate("(e) => getComputedStyle(e).transitionDuration") == "0s"
    page.get_by_role("button", name="처음으로").click()
    page.get_by_role("button", name="재생").click()
    page.get_by_text("16토큰 중 2토큰 읽음").wait_for()
    page.get_by_role("button", name="멈춤").click()
    assert page.get_by_role("button", name="재생").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_grave_to_say_of_the_cells_and_a_phone_scrolls_down_only(opened, scheme):
    page = opened(color_scheme=scheme, width=390)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert not grave(page) and not wide(page)
