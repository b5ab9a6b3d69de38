"""Figures have a text and a table; the keyboard is enough. (axe reads every page in test_every_page.py.)"""


def test_the_timeline_opens_as_a_table_by_keyboard(visit):
    watched = visit()
    page = watched.open("/schedules")
    box = page.locator("summary", has_text="The timeline as a table")
    box.focus()
    page.keyboard.press("Enter")
    page.get_by_role("cell", name="Disaggregated").first.wait_for()
    page.locator("canvas[role=img][aria-label]").first.wait_for()


def test_every_chart_has_words_and_a_table(visit):
    watched = visit(locale="ko-KR")
    for part in ("waiting", "chunk-sweep", "backlog"):
        page = watched.open(f"/schedules?part={part}")
        page.wait_for_selector(".js-plotly-plot")
        charts = page.locator("[data-testid=stPlotlyChart]").count()
        assert page.locator("[role=figure][aria-label]").count() == charts
        assert page.locator("[data-testid=stExpander]").count() >= 1


def test_the_keyboard_alone_runs_plays_cancels_and_switches_language(visit):
    """Tab, Enter, Space and arrows: nobody needs a mouse for the main job."""
    watched = visit()
    page = watched.open("/schedules")
    page.wait_for_selector(".tl-canvas")
    play = page.get_by_role("button", name="Play")
    play.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Pause").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Play").wait_for()

    page.get_by_role("button", name="Run on this machine").focus()
    page.keyboard.press("Enter")
    watched.see("Cancel")
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    watched.see("The run was stopped on request", timeout=60_000)

    page.get_by_role("radio", name="English").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    watched.see("긴 프롬프트 하나, 여러 채팅, 세 가지 스케줄")
