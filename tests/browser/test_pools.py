"""The pools lesson in a browser: a real run through one engine and pools, and prices and workloads that answer at once, on a phone."""

import re

from engine.experiments.pools_scenario import pools
from pages._ui.words import Words, schedule_name
from tests.browser.checks import grave, wide

KO, EN = Words("ko", "pools"), Words("en", "pools")


def test_a_case_is_measured_from_the_form_to_its_result(visit):
    """On a phone, in Korean: another case, numbers changed, measured here, drawn and told, and found again by its address."""
    watched = visit(locale="ko-KR", width=390, height=844)
    page = watched.open("/pools")
    page.get_by_role("radio", name=pools()["short-prompts"].title["ko"]).click()
    watched.settle()
    page.get_by_role("button", name=KO("run.numbers")).click()
    for field, value in (("field.count", "3"), ("field.prompt_tokens", "40"), ("field.output_tokens", "6")):
        box = page.get_by_role("spinbutton", name=re.compile(re.escape(KO(field, kind=KO("kind.chat")))))
        box.fill(value)
        box.press("Enter")
        watched.settle()
    page.keyboard.press("Escape")
    page.get_by_role("button", name=KO("run.go"), exact=True).click()
    page.locator(".lab-steps").wait_for()
    page.locator(".st-key-lab-source-pools .lab-badge-measured").wait_for(timeout=180_000)
    watched.settle()
    titles = page.locator(".po-picture h3").all_inner_texts()
    assert all(title.startswith(schedule_name(name, KO)) for title, name in zip(titles, ("unified", "1:1", "2:1", "1:2"), strict=True))
    watched.see("요청 3개 모두 어느 구성에서나 같은 토큰을 받았습니다.")
    assert page.locator(".po-picture [role=img][aria-label]").count() == 4
    assert not grave(page) and not wide(page)
    assert "case=short-prompts" in page.url and "pools=" in page.url
    page.reload()
    watched.settle()
    page.locator(".st-key-lab-source-pools .lab-badge-measured").wait_for()


def test_splits_and_prices_answer_the_reader(visit):
    """A price that is edited must move the verdict, and a workload the best split; nothing of it scrolls a phone sideways."""
    watched = visit(width=390, height=844)
    page = watched.open("/pools?part=balance")
    best = page.locator(".po-best b")
    assert best.inner_text() == "6 : 2"
    page.get_by_label(EN("balance.workload"), exact=True).click()
    page.get_by_role("option", name=EN("balance.work_reasoning")).click()
    watched.until("document.querySelector('.po-best b')?.innerText === '1 : 7'")
    watched.settle()
    assert not wide(page)
    page = watched.open("/pools?part=gpu")
    watched.see("it is the dearer one for decode")
    price = page.get_by_role("spinbutton", name=EN("gpu.price", device="L40S 48GB"))
    price.fill("0.30")
    price.press("Enter")
    watched.see("it is the cheaper one for decode")
    watched.settle()
    assert not wide(page)
