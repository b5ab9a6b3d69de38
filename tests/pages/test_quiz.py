"""The quiz page as a learner and a teacher use it: posed, judged, explained, kept, taken away and brought along."""

import copy
import re
from dataclasses import replace
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import LabError
from engine.quiz import gift
from engine.quiz.posed import pose
from engine.service import client
from pages._ui import quiz, recordings
from pages._ui.language import LANGUAGES
from pages._ui.words import Words, table
from pages.quiz import figures, question
from tests.pages import lessons, pools_small, recurrent_small
from tests.pages.lessons import complete, html

pytestmark = pytest.mark.usefixtures("home")
page = partial(lessons.lesson, "quiz")
ALL = [item for lesson in quiz.lessons() for item in quiz.items(lesson)]
ME = "a-browser-of-these-tests"


def of_kind(kind: str):
    """The first question of a kind that needs no result."""
    return next(item for item in ALL if item.kind == kind and not item.needs_result)


def posed(item, lang: str = "en", attempt: int = 0):
    return pose(item, quiz.learner(ME), lang, None, attempt)


def opened(item, **address: str):
    return page(lesson=item.lesson, item=item.id, **{"lang": "en", **address})


def record(item) -> dict:
    return client.progress(ME).get(f"quiz:{item.id}") or {}


@pytest.fixture(autouse=True)
def nothing_kept():
    """Each test begins as somebody new."""
    client.erase(ME)


# ------------------------------------------------------------------ what is shown


@pytest.mark.parametrize("item", ALL, ids=lambda item: item.id)
def test_a_question_can_be_shown_and_read_again_where_it_says(item):
    """A figure nobody can draw, or a part that a lesson does not have, would be found by a learner."""
    assert item.figure is None or figures.can_show(item.figure)
    assert f"part.{item.part}" in table("en", item.lesson), f"{item.lesson} has no part {item.part}"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("lesson", quiz.lessons())
def test_every_question_of_a_lesson_opens_in_both_languages(lesson, lang):
    """One page for all: from question to question as a learner goes."""
    app = page(lesson=lesson, lang=lang)
    for number, item in enumerate(quiz.items(lesson), 1):
        app.segmented_control(key=f"quiz-item-{lesson}-{lang}").set_value(item.id).run()
        assert Words(lang, "quiz")("kind.of", n=number, all=len(quiz.items(lesson))) in complete(app)
        words = " ".join(element.value for element in app.markdown)
        assert item.text[lang].split("{")[0][:40] in words
        assert "quiz-again" not in {button.key for button in app.button}, "the solution is there before an answer"


HOSTILE = ["", " ", "<script>alert(1)</script>", "../../etc/passwd", "a" * 5000, "\x00", "{0.__class__}", "own", "None", "🙂" * 300]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: ascii(v)[:30])
def test_an_address_nobody_gave_out(value):
    assert "qz-head" in complete(page(lang="en", lesson=value, item=value, part=value))


# ------------------------------------------------------------------ answers


def test_a_number_from_a_slip_over_hints_to_the_right_one_and_on_to_other_numbers():
    item = next(i for i in ALL if i.kind == "number" and i.slips and i.hints and len(i.cases) > 1 and not i.needs_result)
    asked = posed(item)
    app = opened(item)

    def hand_in(text: str, draw: int = 0) -> str:
        app.text_input(key=f"quiz-{item.id}-{draw}-number").set_value(text)
        app.button(key=f"quiz-{item.id}-{draw}-check").click().run()
        return complete(app)

    assert "qz-unclear" in hand_in("<b>much</b>") and record(item) == {}, "what cannot be read is no attempt"
    wrong, feedback = asked.slips[0]
    found = hand_in(f"{wrong} {item.unit}")
    assert "qz-wrong" in found and question.inline(feedback, True) in found and asked.right not in found
    assert (record(item)["state"], record(item)["attempts"]) == ("wrong", 1)
    app.button(key="quiz-hint").click().run()
    assert question.inline(asked.hints[0], True) in html(app)
    assert "qz-right" in hand_in(f"{asked.answer} {item.unit}")
    assert asked.explain in [m.value for m in app.markdown]
    assert (record(item)["state"], record(item)["attempts"]) == ("right", 2)

    again = opened(item)
    assert "qz-right" in complete(again) and asked.explain in [m.value for m in again.markdown], "kept over a reload"

    app.button(key="quiz-again").click().run()
    assert posed(item, attempt=1).text in [m.value for m in app.markdown]
    assert "qz-wrong" in hand_in("-1e30 " + item.unit, draw=1)
    assert record(item)["state"] == "right", "once right stays right, whatever other numbers bring"
    assert record(item)["attempts"] == 3


def test_a_choice_says_why_and_the_solution_can_be_looked_at():
    item = of_kind("choice")
    asked = posed(item)
    wrong = next(entry for entry in asked.entries if entry.id != asked.answer)
    app = opened(item)
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "qz-unclear" in complete(app), "nothing chosen"
    app.radio(key=f"quiz-{item.id}-0-choice").set_value(wrong.id)
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert question.inline(wrong.feedback, True) in complete(app)
    app.button(key="quiz-solve").click().run()
    assert question.inline(asked.right, True) in complete(app)
    assert (record(item)["state"], record(item)["attempts"]) == ("shown", 1), "looking is no attempt, and not right"
    assert quiz.done(item.lesson, client.progress(ME)) == 0


def test_steps_are_pressed_in_their_order_and_taken_back():
    item = of_kind("order")
    asked = posed(item)
    app = opened(item)
    press = lambda step: app.button(key=f"quiz-{item.id}-0-step-{step}").click().run()
    first, *rest = asked.answer
    press(rest[0])
    press(first)
    press(rest[0])  # taken back
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "qz-unclear" in complete(app) and record(item) == {}
    for step in rest:
        press(step)
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "qz-right" in complete(app) and record(item)["state"] == "right"


def test_an_open_question_hides_its_model_answer_until_the_own_one_is_written():
    item = of_kind("open")
    asked = posed(item)
    app = opened(item)
    everything = lambda: html(app) + " ".join(m.value for m in app.markdown)
    assert asked.model_answer not in everything() and not app.checkbox
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "qz-unclear" in complete(app) and asked.model_answer not in everything()
    app.text_area(key=f"quiz-{item.id}-0-open").set_value("<script>alert(1)</script> own words")
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "&lt;script&gt;" in complete(app) and asked.model_answer in everything()
    assert len(app.checkbox) == len(asked.rubric) and record(item)["state"] == "committed"
    app.checkbox[0].check().run()
    assert Words("en", "quiz")("open.score", n=1, all=len(asked.rubric)) in html(app)
    assert "own words" not in str(client.progress(ME)), "the text itself is not kept"


def test_measure_it_yourself_needs_an_own_run_and_takes_the_newest(monkeypatch):
    item = next(i for i in ALL if i.measure)
    app = opened(item)
    assert Words("en", "quiz")("measure.title") in complete(app) and not app.text_input
    name = recordings.first_for(item.measure.kind, "cpu")
    result = copy.deepcopy(recordings.load(name)) | {"provenance": "measured"}
    run = lessons.stored(result, f"own-{item.measure.kind}")
    found = [type("Run", (), {"id": run})]
    monkeypatch.setattr(client, "runs", lambda browser, limit, kind: found if (browser, kind) == (ME, item.measure.kind) else [])
    app = opened(item)
    right = pose(item, quiz.learner(ME), "en", result)
    app.text_input(key=f"quiz-{item.id}-0-number").set_value(f"{right.answer} {item.unit}")
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "qz-right" in complete(app) and "lab-badge-measured" in html(app)


def test_who_erases_their_progress_finds_no_answers_of_before():
    """On a shared computer the next one has the same tab."""
    item = of_kind("open")
    app = opened(item)
    app.text_area(key=f"quiz-{item.id}-0-open").set_value("my own words")
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "my own words" in complete(app)
    client.erase(ME)
    app.run()
    assert "qz-verdict" not in complete(app) and app.text_area(key=f"quiz-{item.id}-0-open").value == ""
    assert posed(item).model_answer not in [m.value for m in app.markdown]


def test_a_store_that_cannot_keep_is_told_and_the_answer_stands_for_this_visit(monkeypatch):
    def full(*_):
        raise LabError("store-busy")

    monkeypatch.setattr(client, "note_progress", full)
    item = of_kind("choice")
    app = opened(item)
    app.radio(key=f"quiz-{item.id}-0-choice").set_value(posed(item).answer)
    app.button(key=f"quiz-{item.id}-0-check").click().run()
    assert "qz-right" in complete(app) and Words("en", "quiz")("kept.failed", why="")[:30] in html(app)
    assert re.search(r"1 of \d+ done", html(app))


@pytest.mark.parametrize("broken", [None, {"state": 7}, {"state": "right", "attempts": "many", "seed_attempt": -3}, {"seed_attempt": True, "answered_at": {}}])
def test_a_record_that_a_browser_made_up_breaks_nothing(monkeypatch, broken):
    item = of_kind("number")
    monkeypatch.setattr(client, "progress", lambda browser: {f"quiz:{item.id}": broken} if broken else {})
    assert "qz-head" in complete(opened(item))


def test_a_learners_seed_does_not_tell_the_browsers_name():
    assert quiz.learner(ME) == quiz.learner(ME) != quiz.learner("another") and 0 <= quiz.learner(ME) < 2**48


def test_markdown_of_somebody_elses_file_stays_what_it_is():
    """An image in a label would ask another server; a heading or a link would pretend to be ours."""
    escaped = question.label("![x](http://a.b/c) # 1. $x$ :red[y] <b>\n    code", ours=False)
    assert re.fullmatch(r"(\\[^\w\s]|[\w ])*\ncode", escaped)
    assert question.inline("**b** <i>`c`", ours=True) == "<b>b</b> &lt;i&gt;<code>c</code>"
    assert question.inline("**b** <i>", ours=False) == "**b** &lt;i&gt;"


# ------------------------------------------------------------------ files


def brought(name: str, raw: bytes):
    """The teachers' part with a file brought along."""
    app = page(part="files", lang="en")
    app.file_uploader(key="quiz-upload").set_value((name, raw, "text/plain")).run()
    complete(app)
    return app


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("form", ["gift", "csv", "anki"])
def test_a_file_of_all_lessons_is_offered_with_what_it_lacks(form, lang):
    app = page(part="files", lang=lang)
    app.selectbox(key="quiz-file-format").set_value(form).run()
    words, found = Words(lang, "quiz"), complete(app)
    assert words("files.written", n="", all=len(ALL))[-12:] in found
    whole = [item.id for item in ALL if item.needs_result]
    assert words("files.left_out") in found and all(name in found for name in whole)
    (button,) = app.get("download_button")
    assert button.proto.label == words("files.download", name=f"quiz-all-{lang}.{'csv' if form == 'csv' else form + '.txt'}")


def test_our_own_export_can_be_tried_out_and_touches_no_progress():
    """Its questions have the ids of ours: answers to them must not count as answers to ours, nor the other way round."""
    text, _ = gift.write(ALL, "en", 1)
    (item, *_) = [item for item in gift.read(text.encode()).items if item.kind == "choice"]
    client.note_progress(ME, f"quiz:{item.id}", {"state": "wrong", "attempts": 3})
    before = client.progress(ME)
    app = brought("mine.txt", text.encode())
    app.button(key="quiz-try").click().run()
    app.segmented_control(key="quiz-lesson-en").set_value("own").run()
    chooser = [*app.segmented_control, *app.selectbox]
    next(widget for widget in chooser if widget.key == "quiz-item-own-en").set_value(item.id).run()
    app.radio(key=f"quiz-own-{item.id}-0-choice").set_value(item.right)
    app.button(key=f"quiz-own-{item.id}-0-check").click().run()
    assert "qz-right" in complete(app) and Words("en", "quiz")("verdict.attempts_one", n=1) in html(app)
    assert client.progress(ME) == before
    app.segmented_control(key="quiz-lesson-en").set_value(item.lesson).run()
    assert re.search(r"0 of \d+ done, 1 tried", complete(app))


UPLOADS = {
    "not UTF-8": ("a.txt", b"\xff\xfe\x00"),
    "empty": ("a.csv", b""),
    "a zip": ("a.gift", b"PK\x03\x04" + bytes(100)),
    "no braces that match": ("a.txt", "가? {=1 ~2 {{{{".encode()),
    "deep": ("a.txt", b"{" * 50_000),
    "too large": ("a.csv", b"kind,text,answer\n" + b"x" * (1 << 20)),
    "a table of something": ("a.csv", b"a,b\n1,2\n"),
    "no question": ("a.txt", b"// nothing\n"),
}


@pytest.mark.parametrize("name", UPLOADS)
def test_a_file_that_is_none_is_refused_and_leaves_nothing(name):
    app = brought(*UPLOADS[name])
    assert Words("en", "quiz")("files.refused_title") in html(app)
    assert "quiz-try" not in {button.key for button in app.button}


def test_html_and_markdown_of_a_file_stand_there_as_text():
    raw = "::q::<script>alert(1)</script> ![i](http://a.b/c.png) {=*yes*#<b>so</b> ~no#:red[not]}".encode()
    app = brought("a.txt", raw)
    assert "Line 1" in html(app), "what was changed is told, with its line"
    app.button(key="quiz-try").click().run()
    app.segmented_control(key="quiz-lesson-en").set_value("own").run()
    app.radio(key="quiz-own-q-0-choice").set_value("o2")
    app.button(key="quiz-own-q-0-check").click().run()
    shown = complete(app) + " ".join(m.value for m in app.markdown) + " ".join(app.radio[0].options)
    assert "qz-wrong" in shown and ":red[not]" in shown
    assert "![" not in shown and "<script>" not in shown and r"\*yes\*" in shown


def test_imported_questions_go_when_they_are_removed():
    app = brought("a.txt", b"q {=a ~b}")
    app.file_uploader(key="quiz-upload").clear()
    app.button(key="quiz-remove").click().run()
    assert "quiz-try" not in {button.key for button in app.button}
    assert "own" not in page(lang="en").segmented_control(key="quiz-lesson-en").options


# ------------------------------------------------------------------ figures

SETTINGS = {
    ("schedules", "bars"): {"metric": "itl_max_s"},
    ("attention", "heatmap"): {"layer": 20, "head": 3},
    ("wall", "lines"): {"measure": "blocks"},
    ("recurrent", "lines"): {"measure": "recall"},
}
UNRECORDED = {"pools": pools_small.pools, "recurrent": recurrent_small.recurrent}  # until there is a recording of these


@pytest.mark.parametrize(("kind", "view"), figures.VIEWS)
def test_every_view_draws_the_recording_of_its_experiment(kind, view, monkeypatch):
    """A question may name any of them; who writes questions does not draw."""
    if not recordings.names(kind):
        small = UNRECORDED[kind]() | {"provenance": "recorded"}
        monkeypatch.setattr(recordings, "names", lambda *_: [f"{kind}-cpu"])
        monkeypatch.setattr(recordings, "load", lambda name: small)
    figure = {"recording": recordings.names(kind)[0], "view": view, **SETTINGS.get((kind, view), {})}
    assert figures.can_show(figure)

    def script(figure):
        from pages._ui.words import Words
        from pages.quiz import figures

        figures.show(figure, Words("ko", "quiz"), "quiz-figure")

    app = AppTest.from_function(script, kwargs={"figure": figure}, default_timeout=30).run()
    assert not app.exception
    drawn = [e for e in app.main if e.type not in ("html", "markdown")]
    assert "lab-badge-recorded" in html(app) and (drawn or len(html(app)) > 1_000)
    text = re.sub(r"<[^>]+>", " ", html(app))
    assert re.search(r"\b(calc|measured|formats|needle|heatmap|streaming|lengths|recurrent)\.[a-z_]+\b", text) is None, "a key instead of a word"


@pytest.mark.parametrize(
    "figure",
    [
        {},
        {"recording": "nobody-cpu", "view": "lines"},
        {"recording": "ring-cpu", "view": "heatmap"},
        {"recording": "schedules-cpu", "view": "bars"},
    ],
)
def test_a_figure_that_cannot_be_drawn_is_said(figure, monkeypatch):
    """A teacher who names another recording than there is got a page that had ended."""
    assert not figures.can_show(figure)
    broken = replace(next(item for item in ALL if item.figure), figure=figure)
    monkeypatch.setattr(quiz, "items", lambda lesson: (broken,))
    assert "there is no such figure" in html(opened(broken))
