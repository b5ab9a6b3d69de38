"""The course page: the path with what a learner did, the synthesis with what was measured, and what is kept of him."""

import copy
import re

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import LabError
from engine.service import client
from engine.service.server import RUNNERS
from pages._ui import course, progress, quiz, recordings, run_panel, session
from pages._ui.language import LANGUAGES
from pages._ui.words import PAGES, Words, table
from pages.course import evidence, marks, synthesis
from pages.course.evidence import GAIN, PRICE
from pages.course.marks import MEASURED, OPENED, PREDICTED, QUIZ, Mark
from pages.course.path import marks_html
from tests.pages.lessons import complete, html, lesson



ME = "a-browser-of-these-tests"
RECORDED = {kind: recordings.load(f"{kind}-cpu") for kind in evidence.KINDS}


@pytest.fixture(autouse=True)
def clean(home, monkeypatch):
    """Nobody has done anything yet, and no test has used up what a browser may try."""
    monkeypatch.setattr(client, "_client", client.Client())
    client.erase(ME)


def opened(**address: str) -> AppTest:
    app = lesson("course", **{"lang": "en"} | address)
    complete(app)
    return app


# ------------------------------------------------------------------ the path, written once


def test_the_path_has_every_lesson_once_and_every_lesson_has_a_page():
    assert len(course.LESSONS) == len(set(course.LESSONS)) == 9
    assert {path.parent.name for path in PAGES.glob("*/page.py")} - {"home", "course", "quiz", "claims"} == set(course.LESSONS)


def test_every_experiment_belongs_to_one_lesson():
    """A run of one that is missing would never count as the learner's own measurement."""
    kinds = [kind for lesson_kinds in course.KINDS.values() for kind in lesson_kinds]
    assert sorted(kinds) == sorted(RUNNERS) and set(course.KINDS) == set(course.LESSONS)
    assert course.lesson_of("needle") == "sinks" and course.lesson_of("fetch") is None


def test_what_follows():
    assert course.after("roofline") == "memory" and course.after(course.LESSONS[-1]) is None and course.after("home") is None
    walked = ["roofline"]
    while following := course.after(walked[-1]):
        walked.append(following)
    assert tuple(walked) == course.LESSONS


# ------------------------------------------------------------------ marks


def test_marks_count_what_was_noted_and_leave_out_what_a_lesson_has_not():
    noted = {"lesson:rope": {"opened": True}, "predict:rope-a": {"given": "x"}, "predict:sinks-a": {"given": 1}, "quiz:rope-q": {"state": "right"}}
    assert marks.of("rope", noted, ("rope-a", "rope-b"), 1, 5) == [Mark(OPENED, 1, 1), Mark(PREDICTED, 1, 2), Mark(MEASURED, 0, 1), Mark(QUIZ, 1, 5)]
    assert marks.of("rope", {}, (), 0, 0) == [Mark(OPENED, 0, 1), Mark(MEASURED, 0, 1)]
    noted["lesson:rope"]["measured"] = True
    assert [mark.complete for mark in marks.of("rope", noted, (), 7, 5)] == [True, True, True]


def test_a_prediction_that_was_taken_back_is_none():
    """"Predict anew" leaves a record behind, which counted as a prediction."""
    known = {"predict:a": {"given": 3, "at": "x"}, "predict:b": {"at": "x"}}
    assert [mark.done for mark in marks.of("memory", known, ("a", "b", "c"), 0, 0) if mark.name == marks.PREDICTED] == [1]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("new new new", "a"),
        ("begun new new", "a"),
        ("done new new", "b"),
        ("begun done new", "c"),
        ("begun begun new", "b"),
        ("done done done", None),
        ("begun done done", "a"),
        ("new done new", "a"),
        ("done new done", "b"),
    ],
)
def test_where_it_goes_on(states, expected):
    """Not back to the first for who skipped its questions, and not on to a new lesson in the middle of one."""
    of = {"new": [Mark(OPENED, 0, 1), Mark(QUIZ, 0, 3)], "begun": [Mark(OPENED, 1, 1), Mark(QUIZ, 1, 3)], "done": [Mark(OPENED, 1, 1), Mark(MEASURED, 0, 1), Mark(QUIZ, 3, 3)]}
    assert marks.following(dict(zip("abc", (of[state] for state in states.split()), strict=True))) == expected


@pytest.mark.parametrize("lang", LANGUAGES)
def test_marks_say_in_words_what_they_show(lang):
    """A ring that is filled tells a screen reader nothing."""
    words = Words(lang, "course")
    found = marks_html([Mark(OPENED, 1, 1), Mark(PREDICTED, 0, 1), Mark(MEASURED, 0, 1), Mark(QUIZ, 2, 7)], words)
    assert [re.sub("<.*?>", "", item) for item in found.split("<li")[1:]] == [
        f" class='cr-{state}'>{words(key, done=2, all=7)}"
        for state, key in (("all", "mark.opened_done"), ("none", "mark.predicted_open"), ("none", "mark.measured_open"), ("some", "mark.quiz_of"))
    ]


# ------------------------------------------------------------------ what was measured


def changes(remedy: str, side: str, results: dict) -> dict[str, tuple[str, str]]:
    return {found.id: (found.before, found.after) for found in evidence.of(remedy, side, results)}


def test_the_numbers_are_those_of_the_results():
    served = RECORDED["schedules"]["schedules"]
    gap = {name: served[name]["metrics"]["itl_max_s"] for name in served}
    found = {remedy: changes(remedy, GAIN, RECORDED) | changes(remedy, PRICE, RECORDED) for remedy in evidence.REMEDIES}
    assert found["chunked"].keys() == found["disaggregated"].keys() == {"gap", "first"}
    assert found["chunked"]["gap"] == (f"{gap['unified']:.2f} s", f"{gap['chunked'] * 1000:.0f} ms")
    assert found["disaggregated"]["gap"][0] == found["chunked"]["gap"][0] and found["disaggregated"]["gap"] != found["chunked"]["gap"]
    assert found["streaming"].keys() == {"kept", "perplexity", "found"} and found["yarn"].keys() == {"beyond", "needles"}
    assert found["ring"].keys() >= {"held", "sent"} and found["ring"]["sent"][0] == "0 B"


def test_a_ring_that_gained_time_is_no_price_and_one_beyond_the_cores_says_nothing():
    ring = copy.deepcopy(RECORDED["ring"])
    for seconds, gain, price in ((0.5, True, False), (2.0, False, True), (1.0, False, False)):
        for layout in ring["layouts"].values():
            layout["seconds"] = ring["alone"]["seconds"] * seconds
        assert ("time" in changes("ring", GAIN, {"ring": ring}), "time" in changes("ring", PRICE, {"ring": ring})) == (gain, price)
    for layout in ring["layouts"].values():
        layout["seconds"] = ring["alone"]["seconds"] * 2
    ring["processes_at_most_cores"] = False
    assert "time" not in changes("ring", PRICE, {"ring": ring})


@pytest.mark.parametrize("side", [GAIN, PRICE])
@pytest.mark.parametrize("remedy", evidence.REMEDIES)
def test_without_results_there_is_nothing_to_tell(remedy, side):
    """A result in the middle of its making, or none: the page shows its words."""
    assert evidence.of(remedy, side, {}) == []
    assert evidence.of(remedy, side, {kind: {"kind": kind, "manifest": {}} for kind in evidence.KINDS if kind != "ring"}) == []
    assert evidence.of(remedy, side, {"schedules": {"schedules": {"unified": {}}}}) == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_cell_and_every_change_has_its_words(lang):
    words, texts = Words(lang, "course"), table(lang, "course")
    for remedy, effects in evidence.ON_AXES.items():
        assert len(effects) == len(evidence.AXES) and GAIN in effects
        for axis in evidence.AXES:
            assert f"on.{remedy}.{axis}" in texts and f"axis.{axis}" in texts
        html_of = synthesis.remedy_html(remedy, RECORDED, words)
        assert not re.search(r"(change|gain|price|side|remedy)\.[a-z]", html_of) and "{" not in html_of
    assert all(f"stage.{stage}" in texts for stage in course.STAGES)
    assert synthesis.axes_table(words).count("<td") == len(evidence.REMEDIES) * len(evidence.AXES)


def test_what_a_run_brings_along_is_escaped():
    results = copy.deepcopy(RECORDED)
    for found in results.values():
        found["manifest"]["model"]["title"] = found["manifest"]["device"]["name"] = "<script>alert(1)</script>"
    assert "<script" not in synthesis.sources_html(results, Words("en", "course"))


# ------------------------------------------------------------------ the page


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("part", ["path", "synthesis", "keeping"])
def test_each_part_opens_in_both_languages(lang, part):
    app = opened(lang=lang, part=part)
    assert Words(lang, "course")("page.title") in html(app)
    assert not re.search(r">(part|path|mark|stage|axis|axes|on|gain|price|change|keeping|code|resume|leave|erase|done)\.[a-z_.]+<", html(app))


def test_the_path_shows_what_this_learner_did():
    first = course.LESSONS[0]
    app = opened()
    assert app.button(key="go-on").label == f"Begin: {Words('en')(f'nav.{first}')}"
    assert "So far: 0 of 9 lessons opened" in html(app) and html(app).count("not opened yet") == 9
    complete(lesson(first, lang="en"))
    items = quiz.items("memory")
    for item in items:
        client.note_progress(ME, f"quiz:{item.id}", {"state": "right", "attempts": 1})
    client.note_progress(ME, "quiz:memory-of-another-version", {"state": "right"})
    app = opened()
    assert "So far: 1 of 9 lessons opened" in html(app) and html(app).count("not opened yet") == 8
    assert f"{len(items)} of {len(items)} questions answered" in html(app)
    assert app.button(key="go-on").label.startswith("Go on: ")


def test_who_has_done_all_is_sent_on_to_the_synthesis():
    for name in course.LESSONS:
        client.note_progress(ME, f"lesson:{name}", {"opened": True})
        for item in quiz.items(name):
            client.note_progress(ME, f"quiz:{item.id}", {"state": "right"})
    app = opened()
    assert "The path is walked" in html(app) and "go-on" not in [button.key for button in app.button]


def test_a_measurement_of_ones_own_counts_and_one_by_a_link_does_not(monkeypatch):
    """Who opens a link to somebody else's run has measured nothing."""
    noted = []
    monkeypatch.setattr(progress, "measured", lambda kind, run: noted.append((kind, run)))
    monkeypatch.setattr(client, "result", lambda run: {"kind": "wall", "run_id": run})
    monkeypatch.setattr(run_panel.st, "session_state", {"answered-" + "a" * 20: True})
    for own, run in ((True, "m" * 20), (False, "l" * 20), (False, "a" * 20)):
        status = client.Status("done", result_id=run, own=own)
        assert run_panel.result_of(status, run, "wall", Words("en")) is not None
    assert noted == [("wall", "m" * 20), ("wall", "a" * 20)]


def test_noting_a_measurement_marks_its_lesson():
    script = "from pages._ui import progress\nprogress.measured('needle', 'r' * 20)\nprogress.measured('fetch', 'r' * 20)\nprogress.opened('rope')"
    app = AppTest.from_string(script).run()
    assert not app.exception
    found = client.progress(ME)
    assert found["lesson:sinks"]["measured"] is True and found["lesson:rope"]["opened"] is True and len(found) == 2


def test_a_store_that_is_busy_ends_no_page(monkeypatch):
    """The path shows what the session knew; what is kept says why it cannot be shown."""
    client.note_progress(ME, "lesson:memory", {"opened": True})

    def busy(*_):
        raise LabError("store-busy", path="runs.db")

    app = opened()
    monkeypatch.setattr(client, "learner", busy)
    monkeypatch.setattr(client, "progress", busy)
    monkeypatch.setattr(client, "note_progress", busy)
    app.run()
    assert "So far: 1 of 9 lessons opened" in complete(app)
    assert "held by another program" in html(opened(part="keeping"))
    complete(lesson("memory", lang="en"))


# ------------------------------------------------------------------ codes and erasing


def test_a_code_is_shown_until_it_is_noted_and_works(monkeypatch):
    client.note_progress(ME, "quiz:a", {"attempts": 1})
    app = opened(part="keeping")
    assert app.button(key="leave").disabled
    app.button(key="code-make").click().run()
    code = app.code[0].value
    assert re.fullmatch(r"(?:[0-9A-Z]{4}-){3}[0-9A-Z]{4}", code) and not app.button(key="leave").disabled
    app.run()
    assert app.code[0].value == code, "another click on the page does not take it away"
    app.button(key="code-noted").click().run()
    assert not app.code and app.button(key="code-make").label == "Make a new code"

    monkeypatch.setattr(session, "browser", lambda: "another-browser")
    client.note_progress("another-browser", "quiz:b", {"attempts": 2})
    app = opened(part="keeping")
    app.text_input(key="resume-code").input(code.lower())
    app.button[[b.label for b in app.button].index("Go on")].click().run()
    assert "Welcome back" in html(app) and "shared by 2 browsers" in html(app)
    assert set(client.progress(ME)) == {"quiz:a", "quiz:b"}
    client.erase("another-browser")


@pytest.mark.parametrize("code", ["ABCD-EFGH-JKMN-PQRS", "<script>alert(1)</script>", "가나다라", "' OR 1=1 --", "😀" * 20])
def test_a_wrong_code_is_told(code):
    app = opened(part="keeping")
    app.text_input(key="resume-code").input(code)
    app.button[[b.label for b in app.button].index("Go on")].click().run()
    assert "not known here" in complete(app)
    app.text_input(key="resume-code").input("   ")
    app.button[[b.label for b in app.button].index("Go on")].click().run()
    assert "Enter the code first" in complete(app)


def test_leaving_and_erasing_begin_anew():
    """What the session still knew of the one before, an answer or a run, must not be shown to the next."""
    client.note_progress(ME, "quiz:a", {"attempts": 1})
    client.new_resume_code(ME)
    app = opened(part="keeping", lang="ko")
    app.session_state["shown-run"] = "a-run-of-the-one-before"
    app.button(key="leave").click().run()
    complete(app)
    assert client.progress(ME) == {} and "shown-run" not in app.session_state
    assert Words("ko", "course")("done.left") in html(app), "the language stays"

    client.note_progress(ME, "quiz:b", {"attempts": 1})
    app = opened(part="keeping")
    app.button(key="erase").click().run()
    assert client.progress(ME), "one click does not erase"
    app.button(key="erase-no").click().run()
    assert client.progress(ME) and "erase-yes" not in [button.key for button in app.button]
    app.button(key="erase").click().run()
    app.button(key="erase-yes").click().run()
    assert client.progress(ME) == {} and "has been erased" in html(app)


def test_the_runs_go_only_if_they_are_meant():
    from tests.pages import small

    found = copy.deepcopy(small.result()) | {"run_id": "r" * 20, "provenance": "measured"}
    store = client._client.store
    store.save(found, client.hashed(ME))
    for wanted in (False, True):
        app = opened(part="keeping")
        if wanted:
            app.checkbox(key="erase-runs").check()
        app.button(key="erase").click().run()
        assert ("the runs of this browser?" in html(app)) == wanted
        app.button(key="erase-yes").click().run()
        complete(app)
        assert bool(client.runs(ME)) != wanted


def test_a_running_job_is_cancelled_with_the_runs(monkeypatch):
    """It would be stored a minute after everything was erased."""
    cancelled = []
    waiting = client._Job({"id": "j" * 20, "browser": client.hashed(ME)})
    others = client._Job({"id": "o" * 20, "browser": client.hashed("another")})
    monkeypatch.setattr(client._client, "_jobs", {"j" * 20: waiting, "o" * 20: others})
    monkeypatch.setattr(client._client, "cancel", lambda *about: cancelled.append(about))
    client.erase(ME)
    assert cancelled == []
    client.erase(ME, runs=True)
    assert cancelled == [("j" * 20, ME)]


HOSTILE = ["", "<script>alert(1)</script>", "../../etc/passwd", "a" * 5000, "\x00", "{0.__class__}", "한글", "🙂" * 300]
IN_THE_ADDRESS = ("part", "lang", "run", "streaming")
ADDRESSES = [{name: HOSTILE[1]} for name in IN_THE_ADDRESS] + [dict.fromkeys(IN_THE_ADDRESS, value) for value in HOSTILE]


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: ascii(address)[:40])
def test_an_address_nobody_gave_out(address):
    complete(opened(**address))
