"""The measured wall in a browser: the recording at once, figures in words, a real run that is watched and one that is stopped."""

import re

PART = "?part=measured"
FIGURE = ".js-plotly-plot .main-svg"


def test_the_recording_is_there_at_once_and_every_figure_has_words(visit):
    watched = visit()
    page = watched.open(f"/memory{PART}")
    page.wait_for_selector(".lab-badge-recorded")
    page.locator(FIGURE).first.wait_for()
    words = page.evaluate("[...document.querySelectorAll('[data-testid=stPlotlyChart]')].map(e => e.closest('[aria-label]')?.ariaLabel || e.querySelector('[aria-label]')?.ariaLabel || '')")
    assert len(words) == 3 and all("Reserved" in text for text in words)
    page.get_by_role("radio", name="Paged").click()
    watched.see("Blocks are taken as a request grows")
    page.get_by_text("The figures as a table").click()
    page.get_by_role("columnheader", name="Tokens in them").wait_for()
    page.get_by_role("radio", name="한국어").click()
    watched.see("이 컴퓨터에서 벽에 부딪혀 보기")
    watched.see("엔진도 세 경우 모두 꼭 그만큼 받아들였습니다.")
    watched.settle()


def changed(watched, page, numbers: dict[str, str]) -> None:
    page.get_by_role("button", name="Change the numbers").click()
    for label, value in numbers.items():
        field = page.get_by_role("spinbutton", name=re.compile(re.escape(label)))
        field.fill(value)
        field.press("Enter")
        watched.settle()
    page.keyboard.press("Escape")


def test_a_real_run_of_a_few_requests(visit):
    """From the button to the numbers: the blocks seen while it runs, the address kept, the wave as foreseen."""
    watched = visit()
    page = watched.open(f"/memory{PART}&lang=en")
    small = {"Requests": "5", "Longest prompt": "96", "Longest answer": "40", "Shortest answer": "20", "The small pool": "240", "Reserved for each": "136"}
    changed(watched, page, small)
    page.get_by_role("button", name="Run on this machine").click()
    page.locator(".lab-steps").wait_for()
    page.locator(".lab-badge-measured").wait_for(timeout=120_000)
    watched.see("The engine let in exactly as many, in every serving.")
    watched.settle()
    assert "wall=" in page.url and page.locator(FIGURE).count() >= 3
    page.reload()
    watched.settle()
    page.locator(".lab-badge-measured").wait_for()


def test_a_run_is_seen_while_it_goes_and_can_be_stopped(visit):
    watched = visit()
    page = watched.open(f"/memory{PART}&lang=en")
    changed(watched, page, {"Draw of the lengths": "4711"})
    page.get_by_role("button", name="Run on this machine").click()
    page.locator(".lab-steps").wait_for()
    page.locator(FIGURE).first.wait_for(timeout=120_000)
    watched.see("blocks in use")
    page.get_by_role("button", name="Cancel").click()
    watched.see("The run was stopped on request", timeout=60_000)
    page.locator(".lab-badge-recorded").wait_for()
