"""The whole path as a new learner walks it, from the course's first button to the synthesis: Korean on a phone, English on a desktop.

In every lesson: opened by its own link, a prediction committed and explained, one question of its quiz answered, and on to the next.
"""

import pytest
from playwright.sync_api import Locator

from engine.quiz.posed import Posed, pose
from pages._ui import course, coursework, quiz, recordings
from pages._ui.web import BrowserName
from pages._ui.words import Words
from tests.browser.checks import PHONE, wide

OWN = "recurrent"  # measured on the way where the test asks for it: the quickest there is


class Walk:
    """A learner on the way; by_keyboard: without a mouse from here on."""

    def __init__(self, watched, lang: str) -> None:
        self.watched, self.page, self.lang, self.by_keyboard = watched, watched.page, lang, False

    def words(self, folder: str) -> Words:
        return Words(self.lang, folder)

    def press(self, target: Locator, key: str = "Enter") -> None:
        """Click it; or press Tab until the focus is there, and then a key."""
        target.wait_for()
        if not self.by_keyboard:
            return target.click()
        self.tab_to(target)
        self.page.keyboard.press(key)

    def fill(self, target: Locator, text: str) -> None:
        if not self.by_keyboard:
            return target.fill(text)
        self.tab_to(target)
        self.page.keyboard.type(text)

    def tab_to(self, target: Locator) -> None:
        for _ in range(120):
            if target.evaluate("e => e === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab never comes to {target}")

    def arrived(self, page: str) -> None:
        self.watched.until(f"location.pathname === '/{page}' && !!document.querySelector('h1.lab-title')")
        self.watched.settle()
        assert not wide(self.page), page

    def lesson(self, lesson: str, own_run=None) -> None:
        """One lesson, from its title to the link to the next one."""
        words = self.words(lesson)
        self.arrived(lesson)
        assert self.page.locator("h1.lab-title").inner_text() == words("page.title")
        prediction = first_prediction(lesson, bool(own_run))
        tab = self.page.get_by_role("tab", name=words(f"part.{prediction.part}"), exact=True)
        if tab.get_attribute("aria-selected") != "true":
            tab.evaluate("tab => tab.scrollIntoView({ inline: 'center' })")  # on a phone a row of tabs is pushed aside
            self.press(tab)
        self.predict(prediction, words)
        if own_run:
            own_run(self)
        explained = self.page.locator(f".st-key-lab-predict-{prediction.id}")
        explained.locator(".lab-predict-pair").wait_for()
        badge = "measured" if own_run else "recorded" if prediction.experiment else "computed"
        explained.locator(f".lab-badge-{badge}").wait_for()
        states = [words(f"predict.state_{state}") for state in ("right", "near", "low", "high", "other")]
        assert any(state in explained.inner_text() for state in states), explained.inner_text()
        self.press(self.page.get_by_role("link", name=words("lesson.quiz")))
        self.quiz(lesson)
        # The question leads back to where it can be read again; there the lesson ends with the way on.
        self.press(self.page.locator(".st-key-quiz-solution").get_by_role("link").first)
        self.arrived(lesson)
        if following := course.after(lesson):
            self.press(self.page.get_by_role("link", name=words("lesson.next", title=words(f"nav.{following}"))))

    def predict(self, prediction, words: Words) -> None:
        box = self.page.locator(f".st-key-lab-predict-{prediction.id}")
        self.press(box.locator("summary"))
        if prediction.kind == "choice":
            self.press(box.get_by_role("radio").first, "Space") if self.by_keyboard else box.locator("label:has(input[type=radio])").first.click()
        else:
            self.fill(box.locator("input[type=number]"), "3")
        self.press(box.get_by_role("button", name=words("predict.commit")))

    def quiz(self, lesson: str) -> None:
        """The first question that can be answered without a run of one's own, answered rightly."""
        self.arrived("quiz")
        items = quiz.items(lesson)
        self.watched.until(f"location.search.includes('item={items[0].id}')")
        at = next(n for n, item in enumerate(items) if not item.measure)
        for _ in range(at):
            self.press(self.page.locator(".st-key-quiz-next button"))
        self.watched.until(f"location.search.includes('item={items[at].id}')")
        self.watched.settle()
        self.answer(self.posed(items[at]))
        self.page.wait_for_selector(".qz-right")
        assert not wide(self.page), items[at].id

    def posed(self, item) -> Posed:
        """The question with the numbers that were drawn for this browser."""
        cookie = next(c["value"] for c in self.page.context.cookies() if c["name"] == BrowserName.COOKIE)
        return pose(item, quiz.learner(cookie), self.lang, recordings.load(item.figure["recording"]) if item.figure else None)

    def answer(self, posed: Posed) -> None:
        place = self.page.locator(".st-key-quiz-question")
        if posed.item.kind == "number":
            self.fill(place.locator("input[type=text]"), posed.right)
        elif posed.item.kind == "choice":
            option = next(n for n, entry in enumerate(posed.entries) if entry.id == posed.answer)
            if self.by_keyboard:
                self.tab_to(place.get_by_role("radio").first)
                self.page.keyboard.press("Space")
                for _ in range(option):
                    self.page.keyboard.press("ArrowDown")
            else:
                place.locator("label:has(input[type=radio])").nth(option).click()
        elif posed.item.kind == "order":
            for number, step in enumerate(posed.answer, 1):
                button = place.locator(f"[class*='-step-{step}'] button")
                self.press(button)
                button.get_by_text(str(number), exact=True).wait_for()
        else:
            self.fill(place.locator("textarea"), "A sentence of my own, or two.")
        self.press(place.locator("[class*='-check'] button"))


def first_prediction(lesson: str, own_run: bool):
    """The first one that has an answer: computed, recorded, or measured on the way."""
    for prediction in coursework.of(lesson).predictions:
        if own_run == (prediction.experiment == OWN) and (own_run or not prediction.experiment or recordings.names(prediction.experiment)):
            return prediction
    raise AssertionError(f"{lesson}: nothing to predict")


def measure_here(walk: Walk) -> None:
    """The smallest run that the form allows."""
    words, page = walk.words("open"), walk.page
    page.get_by_role("button", name=words("run.numbers")).click()
    for field in ("layers", "trials"):
        box = page.get_by_label(words(f"field.{field}"), exact=True)
        box.fill("1")
        box.press("Enter")
        walk.watched.settle()
    page.keyboard.press("Escape")
    page.get_by_role("button", name=words("run.go")).click()
    page.locator(f".st-key-lab-source-{OWN} .lab-badge-measured").wait_for(timeout=180_000)
    walk.watched.settle()


@pytest.mark.parametrize(
    ("lang", "device", "keyboard", "own_run"),
    [("ko", {"locale": "ko-KR", **PHONE}, None, None), ("en", {"locale": "en-US", "width": 1280, "color_scheme": "dark"}, "roofline", measure_here)],
    ids=["ko-phone", "en-desktop"],
)
def test_a_new_learner_walks_the_whole_path(visit, lang, device, keyboard, own_run):
    """A link that leads nowhere, a prediction that is not explained, or a question that cannot be answered ends the way; and the
    course must know at its end what was done, and no more. keyboard: the lesson done without a mouse, its quiz too."""
    walk = Walk(visit(**device), lang)
    words = walk.words("course")
    walk.watched.open("/course")
    first = course.LESSONS[0]
    walk.by_keyboard = keyboard == first
    walk.press(walk.page.get_by_role("button", name=words("path.begin", lesson=words(f"nav.{first}"))))
    for lesson in course.LESSONS:
        walk.by_keyboard = keyboard == lesson
        walk.lesson(lesson, own_run if lesson == course.LESSONS[-1] else None)
    walk.by_keyboard = False
    page = walk.watched.open("/course")
    page.locator(".cr-marks").nth(len(course.LESSONS) - 1).wait_for()
    for lesson in course.LESSONS:
        marks = page.locator(f".st-key-cr-lesson-{lesson} .cr-marks li").all_inner_texts()
        questions, predictions = len(quiz.items(lesson)), len(coursework.of(lesson).predictions)
        measured = own_run is not None and lesson == course.LESSONS[-1]
        assert marks == [
            words("mark.opened_done"),
            words("mark.predicted_of", done=1, all=predictions) if predictions > 1 else words("mark.predicted_done"),
            words("mark.measured_done" if measured else "mark.measured_open"),
            words("mark.quiz_of", done=1, all=questions) if questions > 1 else words("mark.quiz_done"),
        ], lesson
    total = len(course.LESSONS)
    walk.watched.see(words("path.so_far", opened=total, lessons=total, solved=total, items=sum(len(quiz.items(lesson)) for lesson in course.LESSONS)))
    page.get_by_role("tab", name=words("part.synthesis")).click()
    page.wait_for_selector(".cr-remedy")
    walk.watched.settle()
    assert not wide(walk.page)
    if lang == "ko":
        hanging = "[...document.querySelectorAll('.cr-axes *, .cr-remedy *')].filter(e => e.getBoundingClientRect().right > 391).length"
        assert page.evaluate(hanging) == 0
