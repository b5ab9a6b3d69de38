"""The lesson on open questions in a browser: a run from the form to its result on a phone, and a picture that follows a choice."""

from __future__ import annotations

from pages._ui.words import Words
from tests.browser.checks import grave, wide


def test_a_run_from_the_form_to_its_result(visit):
    """On a phone, in Korean: numbers changed, measured here, drawn; another size of key changes that picture alone."""
    words = Words("ko", "open")
    watched = visit(locale="ko-KR", width=390, height=844)
    page = watched.open("/open?part=recurrent")
    page.get_by_role("button", name=words("run.numbers")).click()
    for field in ("layers", "trials"):
        box = page.get_by_label(words(f"field.{field}"), exact=True)
        box.fill("1")
        box.press("Enter")
        watched.settle()
    page.keyboard.press("Escape")
    page.get_by_role("button", name=words("run.go")).click()
    page.locator(".st-key-lab-source-recurrent .lab-badge-measured").wait_for(timeout=180_000)
    watched.settle()
    watched.until("document.querySelectorAll('.pl-svg').length === 3")
    recall = page.locator(".pl-svg").last
    before = recall.get_attribute("aria-label")
    page.get_by_text(words("recall.dim", n=16), exact=True).click()
    watched.until(f"[...document.querySelectorAll('.pl-svg')].at(-1).getAttribute('aria-label') !== {before!r}")
    assert "16" in recall.get_attribute("aria-label")
    assert not grave(page) and not wide(page)


def test_the_picture_follows_the_choice(visit):
    """By keyboard: another model to compare with changes sentence, chart and table together."""
    words = Words("en", "open")
    watched = visit()
    page = watched.open("/open")
    watched.see("after 1,064 tokens")
    box = page.get_by_label(words("state.reference"))
    box.click()
    page.keyboard.type("Llama 2 7B")
    page.keyboard.press("Enter")
    watched.see("Llama 2 7B keeps as much after 266 tokens")
    watched.until("document.querySelector('.pl-svg').getAttribute('aria-label').includes('Llama 2 7B')")
