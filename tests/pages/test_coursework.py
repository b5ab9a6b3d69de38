"""What lessons ask and name: predictions that every recording answers, three sentences of idea, terms that are explained."""

import re
from urllib.parse import urlsplit

import pytest

from engine.errors import LabError
from engine.quiz import measured
from engine.quiz.coursework import Range, load
from pages._ui import coursework, course, glossary, recordings, words as texts
from pages._ui.words import PAGES, Words
from tests.pages import lessons, pools_small, recurrent_small

LESSONS = [lesson for lesson in course.LESSONS if (PAGES / lesson / "course.toml").exists()]
ASKED = [(lesson, prediction) for lesson in LESSONS for prediction in coursework.of(lesson).predictions]
# A Korean text has about half as many characters as its English twin. Much less or more is a sentence that one of them lacks.
LEAST, MOST = 0.35, 0.8
JUSTIFIED: dict[tuple[str, str], str] = {}  # (lesson, part): why its ratio may lie outside
SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


def both(prediction):
    """Every text of a prediction, in both languages."""
    found = [prediction.question, prediction.explain, prediction.against, *(option.text for option in prediction.options)]
    return [(text["ko"], text["en"]) for text in found]


def recorded(prediction):
    """A result as it ships; where none does yet, a small one of the same form."""
    if not prediction.experiment:
        return None
    names = recordings.names(prediction.experiment)
    return recordings.load(names[0]) if names else {"pools": pools_small.pools, "recurrent": recurrent_small.recurrent}[prediction.experiment]()


def test_the_lessons_that_measure_have_their_coursework():
    """A folder that lost its file would silently have no predictions."""
    assert LESSONS == list(course.LESSONS)
    for lesson in LESSONS:
        found = coursework.of(lesson)
        assert found.terms and found.sources and any(p.experiment for p in found.predictions), lesson


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_question_is_one_and_the_idea_has_three_sentences(lesson):
    """An idea that grew pushes the experiment off the first screen."""
    for lang in ("ko", "en"):
        parts = texts.parts(lang, lesson)
        assert len(SENTENCE_END.findall(parts["question"])) == 1 and parts["question"].endswith("?")
        assert len(SENTENCE_END.findall(parts["idea"])) == 3 and parts["idea"].endswith(".")
        assert not re.search(r"[*_#`\[\]<>]|\n", parts["question"] + parts["idea"])  # shown as they are
    assert len(texts.parts("en", lesson)["question"] + texts.parts("en", lesson)["idea"]) < 330


@pytest.mark.parametrize("lesson", sorted(p.parent.name for p in PAGES.glob("*/ko.md")))
def test_neither_language_says_much_more_than_the_other(lesson):
    """A part that was lengthened in one language only."""
    ko, en = texts.parts("ko", lesson), texts.parts("en", lesson)
    for part in ko:
        assert LEAST <= len(ko[part]) / len(en[part]) <= MOST or (lesson, part) in JUSTIFIED, part


def test_terms_questions_and_explanations_are_as_long_in_both_languages():
    ko, en = glossary.terms("ko"), glossary.terms("en")
    assert list(ko) == list(en)
    pairs = [(name, ko[name][1], en[name][1]) for name in ko]
    for lesson in LESSONS:
        found = coursework.of(lesson)
        pairs += [(source.url, source.what["ko"], source.what["en"]) for source in found.sources]
        pairs += [(p.id, one["ko"], one["en"]) for p in found.predictions for one in (p.question, p.explain, p.against)]
    outside = [(name, round(len(a) / len(b), 2)) for name, a, b in pairs if len(b) > 60 and not LEAST <= len(a) / len(b) <= MOST]
    assert not outside
    assert all(re.search("[가-힣]", text) for name, text, _ in pairs)


def test_every_term_is_used_by_some_lesson_and_every_source_can_be_followed():
    """A term nobody names is dead; a link without https cannot be opened from a page that is served so."""
    assert {term for lesson in LESSONS for term in coursework.of(lesson).terms} == set(glossary.terms("en"))
    for lesson in LESSONS:
        for source in coursework.of(lesson).sources:
            assert urlsplit(source.url).scheme == "https" and urlsplit(source.url).path.strip("/"), source.url


def test_ids_are_unique_and_parts_are_the_lessons():
    """Progress is kept under the id; a prediction of a part that is not there is never shown."""
    ids = [prediction.id for _, prediction in ASKED]
    assert len(ids) == len(set(ids))
    for lesson, prediction in ASKED:
        assert f"part.{prediction.part}" in Words("en", lesson), prediction.id


@pytest.mark.parametrize(("lesson", "prediction"), ASKED, ids=lambda value: getattr(value, "id", value))
def test_the_recording_answers_and_comes_out_as_the_lesson_says(lesson, prediction):
    """A function that no longer finds its numbers, an expectation that the shipped result contradicts, a name in braces that
    nobody fills."""
    for lang in ("ko", "en"):
        words = Words(lang, lesson)
        given = prediction.options[0].id if prediction.kind == "choice" else 1.0
        found = coursework.compare(prediction, given, recorded(prediction), words)
        assert found is not None and found.expected and found.shown
        assert coursework.valid(prediction, given) and coursework.said(prediction, given, words)
        for text in (prediction.explain, prediction.against):
            assert "{" not in text[lang].format(measured=found.shown)
    if prediction.kind == "choice":
        states = [coursework.compare(prediction, option.id, recorded(prediction), words).state for option in prediction.options]
        assert sorted(states) == ["other"] * (len(states) - 1) + ["right"]
    else:
        value = found.number
        states = [coursework.compare(prediction, x, recorded(prediction), words).state for x in (-1e6, value, 1e6 + 10 * value)]
        assert states == ["low", "near", "high"]


@pytest.mark.parametrize("prediction", [p for _, p in ASKED if p.experiment], ids=lambda p: p.id)
def test_a_result_without_what_it_takes_answers_nothing(prediction):
    """A run with other settings, of which the page would say something untrue, or fail."""
    empty = {"schedules": {}, "points": [], "cells": [], "starts": [], "rows": [], "curves": {}, "lengths": [], "layouts": {}, "arrangements": {}}
    for result in ({}, empty):
        assert coursework.compare(prediction, 1.0, result, Words("en")) is None


def test_a_result_against_the_lesson_is_called_so():
    """Unified's mean gap grows as much as its worst: then the lesson's reason may not be given."""
    tpot = next(p for _, p in ASKED if p.id == "schedules-tpot")
    result = {"schedules": {"unified": {"metrics": {"itl_p50_s": 0.05, "tpot_p50_s": 0.5, "itl_max_s": 1.0}}}}
    found = coursework.compare(tpot, 10, result, Words("en"))
    assert not found.expected and found.state == "near" and found.shown == "10×"
    last = next(p for _, p in ASKED if p.id == "schedules-last")
    waits = {"unified": 1.0, "chunked": 3.0, "disaggregated": 2.0}
    result = {"schedules": {name: {"metrics": {"ttft_s": wait}} for name, wait in waits.items()}}
    found = coursework.compare(last, "chunked", result, Words("ko"))
    assert (found.state, found.expected, found.shown) == ("right", False, "청크")


def test_numbers_at_the_edges():
    """The queue that grows everywhere or nowhere has no beginning; one rank and shared cores are no ring."""
    points = [{"prompt_tokens": n, "grows": True, "load": 2.0} for n in (128, 256)]
    assert measured.queue_grows_from({"points": points}) is None
    assert measured.queue_grows_from({"points": [points[1], {"prompt_tokens": 128, "grows": False, "load": 0.5}]}) == 256
    assert not measured.queue_grows_above_load_one({"points": [{"grows": True, "load": 0.4}]})
    ring = {"ranks": 2, "processes_at_most_cores": True, "alone": {"seconds": 2.0}, "layouts": {"zigzag": {"seconds": 3.0}}}
    assert measured.ring_against_one(ring) == 1.5
    assert measured.ring_against_one(ring | {"ranks": 1}) is None
    assert measured.ring_against_one(ring | {"processes_at_most_cores": False}) is None
    assert 1.5 in Range(1.5, 2.0) and 2.0 not in Range(1.5, 2.0)


@pytest.mark.parametrize(
    ("kept", "valid"), [("unified", True), ("gone", False), (3, False), (None, False), ({"a": 1}, False), (["unified"], False)]
)
def test_what_was_kept_may_be_anything(kept, valid):
    """Files change, and a store may hold what a browser sent."""
    last = next(p for _, p in ASKED if p.id == "schedules-last")
    assert coursework.valid(last, kept) is valid
    tpot = next(p for _, p in ASKED if p.id == "schedules-tpot")
    assert coursework.valid(tpot, 2.0) and not coursework.valid(tpot, float("nan")) and not coursework.valid(tpot, True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("terms = [", "(-: "),
        ('terms = ["nobody-knows"]', "nobody-knows is not known"),
        ("more = 1", "no more in such a file"),
        ('[[predict]]\nid = "elsewhere-x"', "part is missing"),
        ('[[source]]\ntitle = "x"\nurl = "https://x/y"', "what is missing"),
        ('[[source]]\ntitle = "x"\nurl = "javascript:x"\nwhat = { ko = "x", en = "x" }', "https://"),
        ("predict = [5]", "object has no attribute"),
    ],
)
def test_a_broken_file_says_where(tmp_path, text, why):
    """A teacher edits these files: what is wrong must be said, not fail the page."""
    (tmp_path / "lesson").mkdir()
    (tmp_path / "lesson" / "course.toml").write_text(text, encoding="utf-8")
    with pytest.raises(LabError) as caught:
        load(tmp_path / "lesson" / "course.toml", {"prefill"})
    assert caught.value.code == "course-file" and why in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{measured}.", "{measued}.", "open-crossing: explain.en has {measued}"),
        ("It is {measured}.", "It is {measured}, {.", "open-crossing: explain.en has a brace"),
        ('id = "open-pairs"', 'id = "open-crossing"', "there are two of this id"),
        ('id = "open-crossing"', "id = 5", "5: "),
        ("factor = 2.0", "factor = 0", "factor (1 or more)"),
        ("factor = 2.0", 'factor = "twice"', "open-crossing: "),
        ("expect = { to = 10000.0 }", "expect = {}", "expect needs"),
        ('"cache_outgrows_state"', '"pairs_of_a_sum"', "must be functions"),  # of a result, and there is none
        ('"cache_outgrows_state"', '"Recurrent"', "must be functions"),
        ('id = "transfer"', 'id = "prefill"', "an id of its own"),
    ],
)
def test_what_would_end_a_page_is_found_when_the_file_is_read(tmp_path, old, new, why):
    """A name in braces that nobody fills was a KeyError in front of who had just predicted."""
    text = (PAGES / "open" / "course.toml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "course.toml").write_text(text.replace(old, new, 1), encoding="utf-8-sig")
    with pytest.raises(LabError) as caught:
        load(tmp_path / "open" / "course.toml", glossary.terms("en"))
    assert why in str(caught.value)


def test_a_prediction_is_kept_compared_and_taken_back(home):
    """Committed to before anything is compared; what came out beside it, after a reload too; predicted anew on wish."""
    app = lessons.lesson("schedules", lang="en")
    assert "Predict first:" in app.expander[0].label and "lab-predict-pair" not in lessons.html(app)
    assert "Lesson 3 · Schedules" in lessons.html(app)
    app.button(key="commit-predict-schedules-last").click().run()
    assert "Choose an answer" in lessons.html(app)
    app.radio(key="predict-schedules-last").set_value("unified")
    app.button(key="commit-predict-schedules-last").click().run()
    found = lessons.complete(app)
    assert "It is not what you expected." in found and "lab-predict-pair" in found

    again = lessons.lesson("schedules", lang="ko")
    assert again.expander[0].label == "**내 예상: 통합.** 나온 값: 분리형."
    again.button(key="anew-schedules-last").click().run()
    assert "예상과 다릅니다" not in lessons.complete(again)
    assert "어느 스케줄에서" in lessons.lesson("schedules", lang="ko").expander[0].label


def test_a_lesson_ends_with_its_words_its_sources_and_the_way_on(home):
    app = lessons.lesson("schedules", lang="ko")
    found = lessons.html(app)
    assert "토큰 간격(ITL)" in found and "https://arxiv.org/abs/2401.09670" in found
    labels = [link.proto.label for link in app.get("page_link")]
    assert any(label.startswith("다음 강의: ") for label in labels)
