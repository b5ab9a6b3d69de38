"""The Schedules lesson in a browser: the recording at once, a real run, both languages, a phone."""

import re

LANES = ".js-plotly-plot .barlayer path"


def test_recording_then_a_real_run_in_both_languages(visit):
    """The whole way of a newcomer: see the recording, run "quick" for real, see measured lanes, switch, reload."""
    watched = visit()
    page = watched.open("/schedules")
    page.wait_for_selector(".lab-badge-recorded")
    page.wait_for_selector(LANES)
    page.get_by_role("figure", name=re.compile("Unified: worst gap of a chat")).wait_for()
    assert page.title() == "Schedules · Long-Context Serving Lab"

    page.get_by_label("Workload").click()
    page.get_by_role("option", name="Quick").click()
    watched.settle()
    page.get_by_role("button", name="Run on this machine").click()
    watched.see("Cancel")
    assert re.search(r"[?&]run=[\w-]{20,}", page.url)
    page.wait_for_selector(".lab-badge-measured", timeout=240_000)
    page.wait_for_selector(LANES)
    watched.settle()
    assert page.locator(LANES).count() > 50
    address = page.url

    page.get_by_role("radio", name="한국어").click()
    watched.see("스케줄마다 치르는 값")
    watched.settle()
    assert page.locator(".lab-badge-measured").inner_text().strip() == "실측"
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert (
        "lang=ko" in page.url
        and re.search(r"run=[\w-]+", page.url).group() == re.search(r"run=[\w-]+", address).group()
    )

    page.reload()
    watched.settle()
    watched.see("실측")


def test_a_number_that_cannot_be_is_refused_in_the_readers_language(visit):
    watched = visit(locale="ko-KR")
    page = watched.open("/schedules")
    page.get_by_role("button", name="숫자 바꾸기").click()
    field = page.get_by_role("spinbutton", name="청크: 스텝당 프롬프트 토큰")
    field.fill("-3")
    field.press("Enter")
    watched.see("이 숫자로는 실행할 수 없습니다")
    watched.see("1 이상 1,000,000 이하의 정수")
    assert page.get_by_role("button", name="이 컴퓨터에서 실행").is_disabled()


def test_an_unknown_run_is_said_and_the_recording_shown(visit):
    watched = visit()
    page = watched.open("/schedules?run=there-is-no-such-run")
    watched.see("This run is not here")
    page.wait_for_selector(".lab-badge-recorded")


def test_a_phone_never_scrolls_sideways(visit):
    for path in ("/", "/schedules"):
        watched = visit(width=390, height=844, is_mobile=True, has_touch=True)
        page = watched.open(path)
        page.wait_for_selector(LANES)
        inner, outer = page.evaluate("[document.querySelector('[data-testid=stMain]').scrollWidth, window.innerWidth]")
        assert inner <= outer


def test_the_navigation_leads_everywhere_and_keeps_the_language(visit):
    """On a wide screen and on a phone: the language switch must not lie over the navigation."""
    for width, phone in ((1440, False), (390, True)):
        watched = visit(width=width, is_mobile=phone, has_touch=phone)
        page = watched.open("/?lang=ko")
        if phone:
            page.locator("[data-testid=stExpandSidebarButton]").click()
        page.get_by_role("link", name="스케줄 비교").click()
        watched.see("긴 프롬프트 하나, 여러 채팅, 세 가지 스케줄")
        watched.settle()
        assert "/schedules" in page.url and "lang=ko" in page.url
