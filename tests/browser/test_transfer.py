"""The transfer lesson in a browser: only its picture is drawn anew when a link is chosen, and a phone scrolls down only."""

import pytest


def wide(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > window.innerWidth")


@pytest.mark.parametrize(("part", "shown"), [("formats", ".kt-bars"), ("overlap", ".kt-timeline"), ("calculator", ".pl-svg")])
def test_a_phone_scrolls_down_only(visit, part, shown):
    watched = visit(locale="ko-KR", width=390, height=844)
    page = watched.open(f"/transfer?part={part}")
    page.wait_for_selector(shown)
    assert not wide(page)


def test_over_a_slower_link_the_bars_are_computed(visit):
    """The badge must follow the choice: a computed time that looks measured is the worst this page could show."""
    watched = visit(locale="en-US")
    page = watched.open("/transfer")
    page.wait_for_selector(".kt-bars")
    page.get_by_label("The way between the pools").click()
    page.get_by_role("option", name="Ethernet 10 Gb/s").click()
    watched.see("The way is computed")
    page.get_by_role("radio", name="512", exact=True).or_(page.get_by_role("button", name="512", exact=True)).first.click()
    page.locator(".kt-text mark").first.wait_for()
