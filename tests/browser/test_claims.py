"""The Claims page in a real browser: the list leads to the cards, choices go into the address, it fits a phone."""

import pytest

from tests.browser.checks import PHONE, wide

LANGUAGES = {"ko-KR": ("글 B", "입력과 출처"), "en-US": ("Text B", "Inputs and their sources")}


@pytest.mark.parametrize("locale", LANGUAGES)
def test_from_the_list_to_a_card_its_sources_and_a_choice(visit, locale):
    """Anchors or details that the sanitiser takes away would leave dead links."""
    text_b, sources = LANGUAGES[locale]
    watched = visit(locale=locale)
    page = watched.open("/claims")
    page.locator("a[href='#claim-B2']").click()
    top = "document.querySelector('#claim-B2').getBoundingClientRect().top"
    watched.until(f"{top} > 0 && {top} < innerHeight / 2")
    summary = page.locator("#claim-B2 summary", has_text=sources)
    summary.focus()
    page.keyboard.press("Enter")
    page.locator("#claim-B2 td", has_text="NVIDIA A100 Tensor Core GPU datasheet").wait_for(state="visible")

    page.get_by_role("radio", name=text_b).click()
    watched.until("location.search.includes('text=B')")
    page.reload()
    watched.settle()
    watched.until("document.querySelectorAll('.lab-claim').length === 12")


def test_from_a_lesson_to_its_claims_and_back(visit):
    watched = visit()
    page = watched.open("/schedules?part=details")
    page.get_by_role("link", name="The claims with formulas and sources").click()
    watched.until("location.pathname.endsWith('/claims') && document.querySelectorAll('.lab-claim').length === 5")
    page.get_by_role("link", name="Go to the lesson: Schedules").first.click()
    watched.until("location.pathname.endsWith('/schedules')")
    page.wait_for_selector(".lab-headline")


def test_a_phone_has_nothing_to_scroll_sideways(visit):
    watched = visit(locale="ko-KR", **PHONE)
    page = watched.open("/claims")
    page.wait_for_selector("#claim-B4")
    assert not wide(page)
    hanging = "[...document.querySelectorAll('.lab-claim *')].filter(e => e.getBoundingClientRect().right > 391 && !e.closest('.lab-scroll')).length"
    assert page.evaluate(hanging) == 0
