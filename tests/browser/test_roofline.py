"""The Roofline lesson in a browser: the recording at once, a point picked by keyboard, both languages, a real run."""

import re

from tests.browser.test_schedules import address

PICKED = ".lab-picked h3"


def test_a_point_is_picked_by_keyboard_and_tells_its_numbers_in_both_languages(visit):
    watched = visit()
    page = watched.open("/roofline")
    page.wait_for_selector(".lab-badge-recorded")
    page.wait_for_selector(".pl-point")
    assert page.title() == "Prefill and decode · Long-Context Serving Lab"
    assert "batch 1" in page.locator(PICKED).inner_text()  # without a choice, the smallest decode
    page.locator(".pl-point[tabindex='0']").focus()
    page.keyboard.press("End")
    wanted = page.evaluate("document.activeElement.getAttribute('aria-label')").partition(":")[0]
    page.keyboard.press("Enter")
    page.locator(PICKED, has_text=wanted).wait_for()
    watched.see("Operations of the attention = 4 ×")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"  # the focus stays on the point

    page.get_by_role("radio", name="Apart").click()
    page.locator(".pl-point.pl-hollow").first.wait_for()
    page.get_by_role("combobox", name=re.compile("Published GPUs")).click()
    page.get_by_role("option", name="NVIDIA H100 SXM 80GB").click()
    page.locator(".pl-name", has_text="H100 SXM 80GB, published").wait_for()
    watched.settle()
    page.keyboard.press("Escape")

    page.get_by_role("radio", name="한국어").click()
    watched.see("모델은 하나, 병목은 둘")
    watched.settle()
    page.locator(".pl-name", has_text="공개값").wait_for()  # what was chosen survives the language


def test_the_batch_slider_answers(visit):
    watched = visit(locale="ko-KR")
    page = watched.open("/roofline?part=batch")
    page.wait_for_selector(".pl-svg")
    watched.see("배치 32에서 행렬은")
    thumb = page.get_by_role("slider", name="배치: 한 디코드 스텝의 요청 수")
    thumb.focus()
    page.keyboard.press("End")
    watched.see("배치 4,096에서 행렬은")
    watched.see("고른 배치는 벽 너머에 있습니다")
    page.locator("svg[role=img][aria-label*='어텐션']").wait_for()


def test_a_real_run_of_a_few_steps(visit):
    """From the button to the measured points: phases named, the address kept, the numbers of the run in the form."""
    watched = visit()
    page = watched.open("/roofline?lang=en")
    page.get_by_role("button", name="Change the numbers").click()
    for role, label, value in (("spinbutton", "Longest prefill", "32"), ("textbox", "Decode batches", "1, 2"), ("textbox", "Decode contexts", "64")):
        field = page.get_by_role(role, name=re.compile(label))
        field.fill(value)
        field.press("Enter")
        watched.settle()
    page.keyboard.press("Escape")
    watched.see("4 steps of the engine")
    page.get_by_role("button", name="Run on this machine").click()
    watched.see("Measuring the machine's limits", timeout=60_000)
    page.wait_for_selector(".lab-badge-measured", timeout=240_000)
    watched.settle()
    assert address(page)["roofline"] and page.locator(".pl-point").count() == 4
    page.reload()
    watched.settle()
    page.wait_for_selector(".lab-badge-measured")
    watched.see("4 steps of the engine")
