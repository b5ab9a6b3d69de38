"""No serious or critical finding of axe, in both themes; figures have a text and a table; the keyboard is enough."""

import pytest
from axe_playwright_python.sync_playwright import Axe

GRAVE = ("serious", "critical")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/schedules"])
def test_axe_has_nothing_grave_to_say(visit, path, scheme):
    watched = visit(locale="ko-KR", color_scheme=scheme)
    page = watched.open(path)
    page.wait_for_selector(".js-plotly-plot")
    found = Axe().run(page).response["violations"]
    grave = [
        (v["id"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"][:200])
        for v in found
        if v["impact"] in GRAVE
    ]
    assert not grave


def test_the_timeline_opens_as_a_table_by_keyboard(visit):
    watched = visit()
    page = watched.open("/schedules")
    box = page.locator("summary", has_text="The timeline as a table")
    box.focus()
    page.keyboard.press("Enter")
    page.get_by_role("cell", name="Disaggregated").first.wait_for()
    assert page.locator("[role=figure][aria-label]").count() >= 1
