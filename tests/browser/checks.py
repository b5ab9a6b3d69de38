"""What must hold of any page, whatever is on it: axe has nothing grave to say, and nothing is to be scrolled sideways for."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

PHONE = {"width": 390, "height": 844, "is_mobile": True, "has_touch": True}
# The app scrolls inside its main part, which a component by itself has none of. And a phone's innerWidth grows with what hangs out.
WIDEST = "Math.max(document.documentElement.scrollWidth, document.querySelector('[data-testid=stMain]')?.scrollWidth ?? 0)"


def grave(page: Page) -> list[tuple[str, str, str]]:
    """What axe calls serious or critical: the rule, the beginning of the first element's HTML, and what is wrong with it."""
    found = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    return [(v["id"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"][:200]) for v in found]


def wide(page: Page) -> bool:
    return page.evaluate(WIDEST) > page.viewport_size["width"]


def check(watched) -> None:
    """Both, once the page stands still."""
    watched.settle()
    assert not wide(watched.page)
    assert not grave(watched.page)
