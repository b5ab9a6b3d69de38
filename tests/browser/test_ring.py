"""The ring step by step: the browser's rules against the engine's, by keyboard and film; and a run on the app."""

from __future__ import annotations

import pytest

from engine.formulas import ring as formulas
from pages._ui.words import Words
from pages.ring import steps
from tests.browser.checks import grave, wide
from tests.browser.harness import Harness


@pytest.fixture(scope="module")
def harness():
    made = Harness("ring")
    yield made
    made.close()


@pytest.fixture
def opened(browser, harness):
    """opened(lang=..., ...) shows the component; at the end the console must have been silent."""
    contexts, complaints = [], []

    def new(*, lang="en", width=1240, **options):
        harness.mount(steps.payload(Words(lang, "ring")), lang=lang)
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(harness.address)
        page.wait_for_selector(".rg-cell")
        return page

    yield new
    for context in contexts:
        context.close()
    assert not complaints


def test_the_rounds_are_the_engines(opened):
    """A chunk of 100 tokens: a whole pair is 10,000 pairs of tokens, one on the diagonal 5,050. The picture must not show
    another layout, order or balance than the one that is measured beside it."""
    page = opened()
    found = page.evaluate(
        """async () => {
          const m = await import("/static/js/ring/rounds.js");
          return [2, 3, 4, 6].map((n) => m.LAYOUTS.map((layout) => [n, layout,
            Array.from({ length: n }, (_, r) => Array.from({ length: n }, (_, s) => m.work(r, s, n, layout))),
            Array.from({ length: n }, (_, r) => m.chunksOf(r, n, layout)), m.whole(n, layout).busy])).flat();
        }"""
    )
    for ranks, layout, work, chunks, busy in found:
        tokens = 200 * ranks
        wanted = formulas.pairs(tokens, ranks, layout)
        # Each rank has two half pairs, both in its first round, and each of them is 50 pairs more than half a square.
        own = [[pairs - (100 if round_ == 0 else 0) for round_, pairs in enumerate(rounds)] for rounds in wanted]
        assert [[10_000 * done for done in rounds] for rounds in work] == own
        held = [sorted(c for begin, end in pieces for c in range(begin // 100, end // 100)) for pieces in formulas.pieces(tokens, ranks, layout)]
        assert [sorted(c) for c in chunks] == held
        assert busy == pytest.approx(formulas.balance(own))


def test_a_ring_is_walked_by_keyboard_and_told(opened):
    """Each cell is computed once; at the end all below the diagonal are; the picture says in words what it shows."""
    page = opened()
    matrix = page.locator(".rg-matrix").first
    page.get_by_role("button", name="One round forward").focus()
    seen = matrix.locator(".rg-now").count()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        seen += matrix.locator(".rg-now").count()
    assert seen == 36 == matrix.locator(".rg-now, .rg-done").count()
    assert "nobody waits" not in page.locator(".rg-said").first.inner_text()
    assert "nobody waits" in page.locator(".rg-said").last.inner_text()
    assert "Rank 0 has keys and values of rank 1" in page.locator(".rg-circle").first.get_attribute("aria-label")
    assert page.get_by_role("button", name="One round forward").get_attribute("aria-disabled") == "true"
    page.keyboard.press("Home")
    assert matrix.locator(".rg-done").count() == 0
    page.get_by_label("Ranks").select_option("6")
    assert page.locator(".rg-node").count() == 12 and page.locator(".rg-matrix").first.locator(".rg-cell").count() == 144


def test_the_film_ends_and_the_blocks_have_moved(opened):
    page = opened(reduced_motion="reduce")
    page.get_by_label("Ranks").select_option("2")
    block = page.locator(".rg-block").first
    before = block.bounding_box()
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Play").wait_for(timeout=10_000)
    assert abs(block.bounding_box()["y"] - before["y"]) > 20
    assert page.evaluate("getComputedStyle(document.querySelector('.rg-block')).transitionDuration") == "0s"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_grave_to_say_and_a_phone_scrolls_down_only(opened, scheme):
    page = opened(color_scheme=scheme, width=390, lang="ko")
    page.get_by_label("랭크 수").select_option("6")
    assert not grave(page) and not wide(page)


def test_a_run_from_the_form_to_its_result(visit):
    """On a phone, in Korean: numbers changed, measured here, told, drawn and open to a screen reader."""
    words = Words("ko", "ring")
    watched = visit(locale="ko-KR", width=390, height=844)
    page = watched.open("/ring?part=measured")
    field = page.get_by_label(words("field.tokens"), exact=True)
    field.fill("256")
    field.press("Enter")
    watched.settle()
    page.get_by_role("button", name=words("run.go")).click()
    page.locator(".st-key-lab-source-ring .lab-badge-measured").wait_for(timeout=180_000)
    watched.settle()
    page.locator(".pl-svg").first.wait_for()  # its bars are lines without height, which count as hidden
    assert page.locator(".rt-row").count() == 5
    assert not grave(page) and not wide(page)


def test_the_calculator_answers_a_choice(visit):
    words = Words("en", "ring")
    watched = visit()
    page = watched.open("/ring?part=calculator")
    watched.see("It hides")
    page.get_by_label(words("calc.tokens"), exact=True).fill("100000")
    page.keyboard.press("Enter")
    watched.see("It does not hide")
    watched.settle()
    assert not grave(page)
