"""What is kept of a learner, in a real browser: taken from a phone to a desktop by keyboard, and erased; and the navigation.

The path itself is walked in test_the_whole_course.py.
"""

import re

from tests.browser.checks import PHONE, check


def test_a_learner_walks_takes_it_along_and_erases_it(visit):
    """Progress hangs on the cookie: it must outlive a reload, and a code must bring it to a browser with another cookie.
    And of two clicks on the parts of a page the second used to be lost."""
    phone = visit(locale="ko-KR", **PHONE)
    phone.open("/roofline")
    page = phone.open("/course")
    phone.see("열어 봄")
    assert page.locator(".cr-marks .cr-all").count() == 1
    check(phone)
    page.get_by_role("tab", name="내 진도").click()
    page.get_by_role("button", name="이어 하기 코드 만들기").click()
    code = page.locator("[data-testid=stCode] code")
    code.wait_for()
    code = code.inner_text().strip()
    assert re.fullmatch(r"(?:[0-9A-Z]{4}-){3}[0-9A-Z]{4}", code)
    check(phone)

    desk = visit(color_scheme="dark", width=1280)
    page = desk.open("/course?part=keeping")
    desk.see("Nothing has been noted")
    page.get_by_label("Resume code", exact=True).focus()
    page.keyboard.type(code.lower().replace("-", " "))
    page.keyboard.press("Enter")
    desk.see("Welcome back")
    desk.see("shared by 2 browsers")
    page.reload()
    desk.settle()
    desk.see("shared by 2 browsers")
    page.get_by_role("tab", name="Synthesis").click()
    page.wait_for_selector(".cr-remedy")
    check(desk)
    page.get_by_role("tab", name="The path").click()
    page.wait_for_selector(".cr-marks .cr-all")
    check(desk)

    page.get_by_role("tab", name="My progress").click()
    erase = page.get_by_role("button", name="Erase my data")
    erase.wait_for()
    erase.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Yes, erase").click()
    desk.see("has been erased")
    page = phone.open("/course?part=keeping")
    phone.see("아직 적어 둔 것이 없습니다")


def test_the_navigation_leaves_the_language_switch_free(visit):
    """Thirteen pages do not fit beside it everywhere: the rest must be reached through "more", in the reader's language."""
    for locale, width, more in (("en-US", 1100, "more"), ("ko-KR", 900, "더 보기")):
        watched = visit(locale=locale, width=width)
        page = watched.open("/course")
        page.wait_for_selector(".rc-overflow-item-rest button")
        page.wait_for_selector(".st-key-lab-bar button")
        watched.until(
            "Math.max(...[...document.querySelectorAll('[data-testid=stTopNav] .rc-overflow-item')].filter(e => getComputedStyle(e).opacity > 0)"
            ".map(e => e.getBoundingClientRect().right)) <= document.querySelector('.st-key-lab-bar button').getBoundingClientRect().left",
            timeout=10,
        )
        page.locator(".rc-overflow-item-rest button", has_text=more).wait_for()  # in Korean from lang.js, which comes with the page
        page.locator(".rc-overflow-item-rest button").click()
        page.get_by_role("link", name="교재의 주장" if locale == "ko-KR" else "Claims", exact=True).last.click()
        watched.until("location.pathname.endsWith('/claims')")
