"""The Schedules lesson in a browser: the recording at once, a real run as it goes, two readers, both languages, a phone."""

import json
import re
from urllib.parse import parse_qs, urlsplit

CANVAS = ".tl-canvas"
# One short experiment for those tests that are about the service and not about what is measured.
SHORT = {"Long: prompt tokens": "64", "Chats: answer tokens": "8", "Chats: how many": "2"}


def address(page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def drawn(page) -> int:
    """How many pixels of the first canvas are not paper."""
    return page.evaluate(
        f"""() => {{ const c = document.querySelector("{CANVAS}"); const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i] > 200) n++; return n; }}"""
    )


def choose_quick(watched) -> None:
    watched.page.get_by_label("Workload").click()
    watched.page.get_by_role("option", name="Quick").click()
    watched.settle()


def run_short(watched, prompt: str) -> str:
    """Start the short experiment with a prompt length of its own, so that no stored run answers; gives the run's id."""
    page = watched.page
    choose_quick(watched)
    page.get_by_role("button", name="Change the numbers").click()
    for label, value in {**SHORT, "Long: prompt tokens": prompt}.items():
        field = page.get_by_role("spinbutton", name=label)
        field.fill(value)
        field.press("Enter")
        watched.settle()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Run on this machine").click()
    page.wait_for_url(re.compile(r"run="))
    return address(page)["run"]


def wait_for_result(watched) -> None:
    watched.page.wait_for_selector(".lab-badge-measured", timeout=240_000)
    watched.page.wait_for_selector(CANVAS)
    watched.settle()


def test_recording_then_a_real_run_in_both_languages(visit):
    """The whole way of a newcomer: see the recording, run "quick", watch it grow, see it measured, switch, reload."""
    watched = visit()
    page = watched.open("/schedules")
    page.wait_for_selector(".lab-badge-recorded")
    page.wait_for_selector(CANVAS)
    page.get_by_role("img", name=re.compile("Unified: worst gap of a chat")).wait_for()
    assert page.title() == "Schedules · Long-Context Serving Lab"
    assert drawn(page) > 5_000

    choose_quick(watched)
    page.get_by_role("button", name="Run on this machine").click()
    watched.see("Cancel")
    page.wait_for_selector(".tl-live .tl-canvas", timeout=120_000)
    watched.until("!!document.querySelector('.tl-live')?.innerText.includes('first token after')")
    wait_for_result(watched)
    run = address(page)["run"]
    assert re.fullmatch(r"[\w-]{20,}", run) and drawn(page) > 5_000

    page.get_by_role("tab", name="Details and files").click()
    page.get_by_role("link", name="Manifest (JSON)").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Manifest (JSON)").click()
    assert run in download.value.path().read_text()

    page.get_by_role("radio", name="한국어").click()
    watched.see("스케줄마다 주어진 자원")  # the same part, in the other language
    watched.settle()
    assert page.locator(".lab-badge-measured").first.inner_text().strip() == "실측"
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert address(page) == {"lang": "ko", "run": run, "part": "details"}

    page.reload()
    watched.settle()
    watched.see("실측")
    watched.see("스케줄마다 주어진 자원")


def test_the_same_again_is_answered_at_once_and_measured_anew_on_wish(visit):
    """A class that presses the same button must not wait thirty times."""
    first = visit()
    first.open("/schedules?lang=en")
    run = run_short(first, "70")
    wait_for_result(first)
    second = visit()
    page = second.open("/schedules?lang=en")
    assert run_short(second, "70") == run
    second.see("This machine has measured the same scenario before")
    page.get_by_role("button", name="Measure again").click()
    second.until(f"!location.search.includes('{run}')")
    wait_for_result(second)
    assert address(page)["run"] != run
    page.get_by_role("button", name="My runs").wait_for()


def test_two_readers_take_turns_and_only_the_owner_may_cancel(visit):
    """One runs, one waits and sees it; a third who has the link may look and not stop it; who closed the tab finds it."""
    owner = visit()
    owner.open("/schedules?lang=en")
    choose_quick(owner)
    owner.page.get_by_role("button", name="Change the numbers").click()
    field = owner.page.get_by_role("spinbutton", name="Chats: answer tokens")
    field.fill("900")  # long enough to be found running
    field.press("Enter")
    owner.settle()
    owner.page.keyboard.press("Escape")
    owner.page.get_by_role("button", name="Run on this machine").click()
    owner.see("Cancel")
    long_run = address(owner.page)["run"]

    waiting = visit()
    waiting.open("/schedules?lang=en")
    short_run = run_short(waiting, "80")
    waiting.see("Ahead in the queue: 1")
    waiting.page.close()

    watcher = visit()
    watcher.open(f"/schedules?lang=en&run={long_run}")
    watcher.see("Somebody else started this run")
    assert watcher.page.get_by_role("button", name="Cancel").count() == 0

    owner.page.get_by_role("button", name="Cancel").click()
    owner.see("The run was stopped on request")
    watcher.see("The run was stopped on request")
    later = visit()
    later.open(f"/schedules?lang=en&run={short_run}")
    wait_for_result(later)


def test_cancelled_in_the_queue(visit):
    running = visit()
    running.open("/schedules?lang=en")
    run_short(running, "90")
    waiting = visit()
    page = waiting.open("/schedules?lang=en")
    run_short(waiting, "3000")  # long enough to be cancelled, should the first one have ended meanwhile
    page.get_by_role("button", name="Cancel").click()
    waiting.see("The run was stopped on request")
    wait_for_result(running)


def test_the_promises_move_the_goodput(visit):
    watched = visit()
    page = watched.open("/schedules?lang=en&part=waiting")
    page.locator(".lab-goodput").first.wait_for()
    texts = "[...document.querySelectorAll('.lab-goodput')].map(e => e.innerText).join()"
    before = page.evaluate(texts)
    slider = page.get_by_role("slider", name="Promise: next token within")
    for _ in range(4):
        slider.press("ArrowLeft")
    watched.until(f"{texts} !== {json.dumps(before)}")
    page.get_by_role("radio", name="99 of 100 gaps").click()
    watched.settle()
    page.locator(".js-plotly-plot .scatterlayer path").first.wait_for(state="attached")


def test_the_sweeps_show_something_before_any_run(visit):
    watched = visit(locale="ko-KR")
    for part, title in (("chunk-sweep", "청크는 얼마나 커야 할까"), ("backlog", "백만 토큰에서 만나는 같은 벽")):
        page = watched.open(f"/schedules?part={part}")
        watched.see(title)
        page.locator(".js-plotly-plot .scatterlayer path").first.wait_for(state="attached")


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


def test_the_navigation_leads_everywhere_and_keeps_the_language(visit):
    """On a wide screen and on a phone: the language switch must not lie over the navigation."""
    for width, phone in ((1440, False), (390, True)):
        watched = visit(width=width, is_mobile=phone, has_touch=phone)
        page = watched.open("/?lang=ko")
        if phone:
            page.locator("[data-testid=stExpandSidebarButton]").click()
        page.locator("[data-testid=stSidebarNavLink], [data-testid=stTopNavLink]").get_by_text("스케줄 비교").click()
        watched.see("긴 프롬프트 하나, 여러 채팅, 세 가지 스케줄")
        watched.settle()
        assert "/schedules" in page.url and "lang=ko" in page.url
