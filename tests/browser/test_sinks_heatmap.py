"""Attention maps in a real browser: the component by itself, and the lesson on the real app."""

from __future__ import annotations

import re

import pytest

from pages._ui.words import Words
from pages.sinks import heatmap_payload as payload
from pages.sinks.shares import share
from tests.browser.checks import grave, wide
from tests.browser.harness import Harness
from tests.pages import attention_small as small

CHOSEN = ".ht-chosen"
CELL = ".ht-cell-said"


@pytest.fixture(scope="module")
def harness():
    made = Harness("heat")
    yield made
    made.close()


@pytest.fixture
def opened(browser, harness):
    """opened(result, at, ...) shows the component; at the end the console must have been silent."""
    contexts, complaints = [], []

    def new(result=None, at=(3, 1), *, lang="en", measure="first", width=1240, **options):
        harness.mount(payload.payload(result or small.result(), at, measure, Words(lang, "sinks")), lang=lang)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(harness.address)
        page.wait_for_selector(".ht-cell")
        return page

    yield new
    for context in contexts:
        context.close()
    assert not complaints


def cell(page, layer: int, head: int):
    return page.locator(f'.ht-cell[data-at="{layer} {head}"]')


def test_numbers_and_labels_read_the_same_in_both(opened):
    page = opened()
    values = [1, 0.434, 0.0996, 0.0994, 0.00996, 0.0026, 0.00006, 0.00004, 0]
    assert page.evaluate("async (v) => { const l = await import('/static/js/heat/label.js'); return v.map(l.share); }", values) == [share(v) for v in values]
    family = "👩‍👩‍👧"
    script = "async (t) => { const l = await import('/static/js/heat/label.js'); return l.short(t, 3); }"
    assert page.evaluate(script, family + "한글") == family + "한글", "a family is one character to a reader"
    assert page.evaluate(script, family * 4) == family * 2 + "…"


def test_a_head_is_chosen_by_mouse_and_python_hears_of_it_once(opened):
    page = opened()
    box = cell(page, 4, 2).bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    assert page.locator(".pl-tip b").inner_text() == "Layer 4, head 2"
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert page.locator(CHOSEN).inner_text().startswith("Layer 4, head 2: token 0 gets")
    assert page.evaluate("told") == [["at", [4, 2]]]
    assert "Layer 3, head 1" in page.locator(".ht-pair h3").first.inner_text(), "until its map has come the old one keeps its name"
    assert "ht-waits" in page.locator(".ht-pair").get_attribute("class")


def test_keys_move_through_heads_and_python_hears_where_they_rest(opened):
    """A map for every head that the keys pass would be asked of the server, and be late for each."""
    page = opened()
    cell(page, 3, 1).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "Home"):
        page.keyboard.press(key)
    assert page.locator(CHOSEN).inner_text().startswith("Layer 0, head 2:"), "and stops at the edges"
    page.wait_for_timeout(500)
    assert page.evaluate("told") == [["at", [0, 2]]]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Layer 0, head 2")


def test_a_cell_of_the_map_is_said_in_words(opened):
    page = opened(small.result(tokens=12), at=(3, 1))
    frame = page.locator(".ht-frame")
    frame.focus()
    for key in ("End", "ArrowUp"):
        page.keyboard.press(key)
    assert "cannot be seen" in page.locator(CELL).inner_text()
    page.keyboard.press("Home")
    text = page.locator(CELL).inner_text()
    assert "From token 10 “\u2068In\u2069”" in text and "goes to token 0 “\u2068In\u2069”" in text
    said = int(re.search(r"(\d+) % of the attention", text)[1])
    assert said == pytest.approx(100 * small.row(3, 1, 10)[0], abs=1), "a byte is not finer than that"
    page.keyboard.press("ArrowRight")
    assert "goes to token 1 " in page.locator(CELL).inner_text()


def test_groups_of_tokens_are_called_so(opened):
    page = opened(small.result(width=3))
    assert "on average" in page.locator(CELL).inner_text() and "tokens 0 to 2" in page.locator(CELL).inner_text()
    assert "40 tokens drawn as 14 × 14 cells" in page.locator(".ht-pair .lab-note").first.inner_text()


def test_more_attention_is_farther_from_the_page_in_both_themes(opened):
    """A scale that is not turned round in the dark shows the sinks as holes."""
    bright = "(e) => getComputedStyle(e).fill.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)"
    for scheme, sign in (("light", -1), ("dark", 1)):
        page = opened(color_scheme=scheme)
        low, high = (cell(page, layer, 2).evaluate(bright) for layer in (0, 4))
        assert (high - low) * sign > 150, scheme


@pytest.mark.parametrize(("tokens", "layers", "heads"), [(1, 6, 3), (2, 1, 1)])
def test_the_smallest_results_are_drawn(opened, tokens, layers, heads):
    page = opened(small.result(tokens=tokens, layers=layers, heads=heads, onset=None), at=(0, 0))
    assert page.locator(".ht-cell").count() == layers * heads
    assert f"{100 // tokens} % of the attention" in page.locator(CELL).inner_text()


def test_a_phone_scrolls_down_only(opened):
    page = opened(small.result(layers=30, heads=9), at=(14, 2), lang="ko", width=390, has_touch=True)
    assert not wide(page)
    cell(page, 20, 5).tap()
    assert page.locator(CHOSEN).inner_text().startswith("레이어 20, 헤드 5")
    cell(page, 20, 5).focus()
    page.keyboard.press("ArrowDown")
    assert page.locator(CHOSEN).inner_text().startswith("레이어 21, 헤드 5"), "layers run downwards here"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_grave_to_say_of_the_component(opened, scheme):
    page = opened(color_scheme=scheme)
    assert not grave(page)


# ---------------------------------------------------------------- the lesson on the real app


@pytest.mark.parametrize(
    ("locale", "headline", "title", "switch", "then"),
    [
        ("en-US", "138 of 270 heads", "Layer 20, head 4: each query's attention", "한국어", "레이어 20, 헤드 4: 쿼리마다의 어텐션"),
        ("ko-KR", "헤드 270개 가운데 138개", "레이어 20, 헤드 4: 쿼리마다의 어텐션", "English", "Layer 20, head 4: each query's attention"),
    ],
    ids=["en", "ko"],
)
def test_a_head_chosen_by_keyboard_brings_its_map_and_stays(visit, locale, headline, title, switch, then):
    watched = visit(locale=locale)
    page = watched.open("/sinks")
    watched.see(headline)
    cell(page, 20, 3).focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("heading", name=title).wait_for()
    assert page.evaluate("document.activeElement.dataset.at") == "20 4", "the focus stays on the cell"
    page.get_by_role("radio", name=switch).click()
    page.get_by_role("heading", name=then).wait_for()


def test_a_real_run_of_a_text_of_ones_own(visit):
    """From a pasted text with emoji and right-to-left words to its map, and back by its address."""
    watched = visit()
    page = watched.open("/sinks?lang=en")
    page.get_by_role("combobox", name=re.compile("Text")).click()
    page.get_by_role("option", name="A text of your own").click()
    area = page.get_by_label("Paste a text")
    area.fill("שלום עולם 👩‍👩‍👧 한글 \u202eabc\u202c, the same the same the same. " * 2)
    area.press("Control+Enter")
    watched.settle()
    page.get_by_role("button", name="Run on this machine").click()
    page.wait_for_selector(".lab-badge-measured", timeout=240_000)
    watched.see("A reader's own text")
    watched.see("The text has no more than that (512 were asked for)")
    page.wait_for_selector(".ht-cell")
    page.reload()
    watched.settle()
    page.wait_for_selector(".lab-badge-measured")
