"""A quiz with the keyboard alone, on a phone in Korean and on a desktop in English: answered, kept, taken away, brought along."""

from engine.quiz.posed import pose
from pages._ui import quiz
from pages._ui.web import BrowserName
from tests.browser.checks import PHONE, check

ITEMS = {item.id: item for item in quiz.items("memory")}


def asked(watched, name: str, lang: str, result: dict | None = None):
    """A question with the numbers that were drawn for this browser."""
    cookies = {cookie["name"]: cookie["value"] for cookie in watched.page.context.cookies()}
    return pose(ITEMS[name], quiz.learner(cookies[BrowserName.COOKIE]), lang, result)


def tab_to(watched, selector: str) -> None:
    """Press Tab until the focus is there; it must be reached."""
    for _ in range(80):
        watched.page.keyboard.press("Tab")
        if watched.page.evaluate("s => document.activeElement.matches(s)", selector):
            return
    raise AssertionError(f"Tab never comes to {selector}")


def test_a_number_and_an_order_by_keyboard_on_a_phone(visit):
    """What a click does, Enter must do; what was answered is there again after a reload."""
    watched = visit(locale="ko-KR", **PHONE)
    page = watched.open("/quiz?item=memory-kv-total")
    question = asked(watched, "memory-kv-total", "ko")
    tab_to(watched, "input[type=text]")
    page.keyboard.type(f"{question.slips[0][0]:.6g} GiB")
    page.keyboard.press("Enter")
    watched.see(question.slips[0][1])
    tab_to(watched, ".st-key-quiz-hint button")
    page.keyboard.press("Enter")
    watched.see(question.hints[0])
    check(watched)
    page.locator("input[type=text]").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(f"{question.answer:.4f}".replace(".", ",") + " ＧｉＢ")  # as a Korean keyboard may leave it; with three digits a thousand
    page.keyboard.press("Enter")
    page.wait_for_selector(".qz-right")
    page.reload()
    watched.see("맞힌 문제입니다")
    watched.see(question.explain)

    page = watched.open("/quiz?item=memory-token-order")
    question = asked(watched, "memory-token-order", "ko")
    for place, step in enumerate(question.answer, 1):
        button = page.locator(f"[class*='step-{step}'] button")
        button.focus()
        page.keyboard.press("Enter")
        watched.until(f"document.activeElement.innerText.startsWith('{place}')")  # it says its place, and keeps the focus
    tab_to(watched, "[class*='-check'] button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".qz-right")
    check(watched)


def test_a_choice_a_figure_an_own_text_and_files_on_a_desktop(visit):
    """Radio, checkbox, text and files are reached and used without a mouse; what is in the dark can be read too."""
    watched = visit(color_scheme="dark")
    page = watched.open("/quiz?lesson=memory&item=memory-two-limits")
    question = asked(watched, "memory-two-limits", "en")
    tab_to(watched, "input[type=radio]")
    page.keyboard.press("Space")
    tab_to(watched, "[class*='-check'] button")
    page.keyboard.press("Enter")
    watched.see(question.entries[0].feedback)
    tab_to(watched, ".st-key-quiz-next button")
    page.keyboard.press("Enter")
    watched.until("location.search.includes('memory-token-order')")

    watched.open("/quiz?item=memory-read-wall")
    page.locator("[role=figure][aria-label], [role=img][aria-label]").first.wait_for()
    check(watched)

    watched.open("/quiz?item=memory-why-wall")
    question = asked(watched, "memory-why-wall", "en")
    assert page.get_by_text(question.model_answer[:60]).count() == 0
    tab_to(watched, "textarea")
    page.keyboard.type("Weights once, caches for each.")
    page.keyboard.press("Control+Enter")
    watched.see(question.model_answer[:60])
    tab_to(watched, "input[type=checkbox]")
    page.keyboard.press("Space")
    watched.see("1 of 4 points found in your answer")
    check(watched)

    page = watched.open("/quiz?part=files")
    with page.expect_download() as download:
        page.locator(".st-key-quiz-download button").click()
    file = download.value.path()
    page.locator("input[type=file]").set_input_files({"name": "mine.txt", "mimeType": "text/plain", "buffer": file.read_bytes()})
    watched.see("Questions read: ")
    check(watched)
    page.get_by_role("button", name="Try them out").click()
    page.wait_for_selector(".qz-head")
    watched.until("location.search.includes('lesson=own')")
