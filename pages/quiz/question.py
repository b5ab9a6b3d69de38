"""One question: what is asked, the learner's answer, hints, what is said of the answer, and where to read again.

An answer is judged on the server, and the right one is sent to the browser only when it is due. What a reader did with a
question is kept in the session as a `Try`; how it ended is kept in the learner's progress.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html import escape

import streamlit as st

from engine.errors import LabError
from engine.quiz import Item
from engine.quiz.judge import Verdict, judge
from engine.quiz.posed import Posed, pose
from pages._ui import errors, outcome, parts, quiz, recordings, session
from pages._ui.words import Words
from pages.quiz import answer, figures, kept

PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
INLINE = ((re.compile(r"\*\*(.+?)\*\*"), r"<b>\1</b>"), (re.compile(r"`(.+?)`"), r"<code>\1</code>"))


@dataclass(frozen=True)
class Try:
    """What a reader did with one draw of a question.

    draw: which one, from 0; given: the answer handed in last, and verdict: what it was judged; hints: how many are shown;
    solved: whether the solution is.
    """

    draw: int = 0
    given: object = None
    verdict: Verdict | None = None
    hints: int = 0
    solved: bool = False


def show(item: Item, at: int, among: int, record: dict, words: Words, *, ours: bool) -> None:
    """The question, its place among the others, and all that belongs to it.

    record: what is known of it in the learner's progress; ours: it ships with the lab (its texts are Markdown and its record
    goes into the store), where another comes from a file.
    """
    st.html(_head(item, at, among, words))
    now = _now(item, record, ours)
    try:
        result = _result(item)
        posed = pose(item, quiz.learner(session.browser()), words.lang, result, now.draw)
    except LabError as error:
        if item.measure:
            _measure_first(item, error, words)
        else:
            st.html(parts.notice(words("choose.unreadable_title"), errors.sentence(error, words)))
        return
    _asked(posed.text, ours)
    if item.figure:
        figures.show(item.figure, words, key=f"quiz-figure-{item.id}")
    if item.measure:
        st.html(f"{outcome.source_line(result, words)}<p class='lab-note'>{escape(words('measure.from'))}</p>")
    if not now.solved:
        given, sent = answer.ask(posed, words, f"{kept.key(item, ours)}-{now.draw}", lambda text: label(text, ours))
        if sent:
            _hand_in(posed, now, given, record, ours)
    _verdict(item, now, record, ours, words)
    if now.solved:
        _solution(posed, now, ours, words)
    else:
        _help(posed, now, record, ours, words)


def _result(item: Item) -> dict | None:
    """What the question is about: a recording, or the reader's own newest run, if there is one. Raises LabError("quiz-file")."""
    if item.figure is None:
        return kept.newest(item.measure.kind) if item.measure else None
    if not figures.can_show(item.figure):
        raise LabError("quiz-file", path=f"{item.lesson}/quiz.toml", item=item.id, why="there is no such figure")
    return recordings.load(item.figure["recording"])


def _asked(text: str, ours: bool) -> None:
    with st.container(key="quiz-asked"):
        st.markdown(label(text, ours))


def label(text: str, ours: bool) -> str:
    """A text for a widget or for Markdown. Of somebody's file every sign stands for itself."""
    return text if ours else "\n".join(PUNCTUATION.sub(r"\\\1", line.strip()) for line in text.splitlines())


def inline(text: str, ours: bool) -> str:
    """A sentence or two as HTML."""
    found = parts.prose(text)
    for mark, tag in INLINE if ours else ():
        found = mark.sub(tag, found)
    return found


def _head(item: Item, at: int, among: int, words: Words) -> str:
    chapters = [words("kind.chapter", n=about.removeprefix("quiz-")) for about in item.about if about.startswith("quiz-")]
    notes = "".join(f"<span>{escape(note)}</span>" for note in (words(f"kind.{item.kind}"), *chapters))
    return f"<header class='qz-head'><h2>{escape(words('kind.of', n=at, all=among))}</h2>{notes}</header>"


def _now(item: Item, record: dict, ours: bool) -> Try:
    """What is known of the reader's try in this session; after a reload, where the record left off. Who has erased or left
    their progress meanwhile finds no answers of before."""
    key = f"{kept.key(item, ours)}-try"
    found: Try | None = st.session_state.get(key)
    judged = found is not None and (found.solved or (found.verdict is not None and found.verdict.state != "unclear"))
    if judged and not record:
        for name in [name for name in st.session_state if str(name).startswith(f"{kept.key(item, ours)}-")]:
            del st.session_state[name]
        found = None
    if found is None:
        solved = record.get("state") in (*quiz.DONE, quiz.SHOWN)
        found = st.session_state[key] = Try(draw=quiz.count(record.get("seed_attempt")), solved=solved)
    return found


def _keep(item: Item, now: Try, record: dict, state: str | None, ours: bool) -> None:
    """Remember, and begin the page anew: what stands above the question shows how far the learner is."""
    st.session_state[f"{kept.key(item, ours)}-try"] = now
    if state:
        error = kept.note(item, quiz.judged(record, state, now.draw), ours)
        st.session_state["quiz-not-kept"] = error
    st.rerun()


def _hand_in(posed: Posed, now: Try, given: object, record: dict, ours: bool) -> None:
    verdict = judge(posed, given)
    state = {"right": quiz.RIGHT, "wrong": quiz.WRONG, "open": quiz.COMMITTED}.get(verdict.state)
    solved = state in quiz.DONE
    _keep(posed.item, replace(now, given=given, verdict=verdict, solved=solved), record, state, ours)


def _help(posed: Posed, now: Try, record: dict, ours: bool, words: Words) -> None:
    """Hints one by one; who has tried may also see the solution."""
    item = posed.item
    if now.hints:
        shown = "".join(f"<li>{inline(hint, ours)}</li>" for hint in posed.hints[: now.hints])
        st.html(f"<ol class='qz-hints' aria-label='{escape(words('hint.title'), quote=True)}'>{shown}</ol>")
    with st.container(horizontal=True, gap="medium"):
        if now.hints < len(posed.hints):
            text = words("hint.more" if now.hints else "hint.show", n=now.hints + 1, all=len(posed.hints))
            if st.button(text, key="quiz-hint", type="tertiary"):
                _keep(item, replace(now, hints=now.hints + 1), {}, None, ours)
        if now.verdict and now.verdict.state == "wrong" and st.button(words("solution.show"), key="quiz-solve", type="tertiary"):
            _keep(item, replace(now, solved=True), record, quiz.SHOWN, ours)


def _verdict(item: Item, now: Try, record: dict, ours: bool, words: Words) -> None:
    """What became of the answer. The box is there from the beginning, so that a screen reader tells what comes into it."""
    verdict, box, attempts = now.verdict, "", "" if item.kind == "open" else _attempts(record, words)
    if verdict is not None:
        state = "right" if verdict.state == "open" else verdict.state
        title = words("verdict.committed") if verdict.state == "open" else words(f"verdict.{state}")
        feedback = "" if verdict.feedback.rstrip(".") == title else f"<p>{inline(verdict.feedback, ours)}</p>"
        box = f"<div class='qz-verdict qz-{state}'><b><i aria-hidden='true'></i>{escape(title)}</b>{attempts}{feedback}</div>"
    elif now.solved and record.get("state") in quiz.DONE:
        key = "verdict.before_committed" if record["state"] == quiz.COMMITTED else "verdict.before"
        date = str(record.get("answered_at"))[:10]
        box = f"<div class='qz-verdict qz-right'><b><i aria-hidden='true'></i>{escape(words(key, date=date))}</b>{attempts}</div>"
    st.html(f"<div class='qz-said' role='status'>{box}</div>")
    if error := st.session_state.get("quiz-not-kept"):
        st.html(f"<p class='lab-note'>{escape(words('kept.failed', why=errors.sentence(error, words)))}</p>")


def _attempts(record: dict, words: Words) -> str:
    n = quiz.count(record.get("attempts"))
    text = words("verdict.attempts_one" if n == 1 else "verdict.attempts_many", n=n) if n else ""
    return f"<span class='lab-quiet'>{escape(text)}</span>"


def _solution(posed: Posed, now: Try, ours: bool, words: Words) -> None:
    """The answer, why it is so, where to read again, and the same question with other numbers."""
    item = posed.item
    with st.container(key="quiz-solution", gap="small"):
        if item.kind == "open":
            _compare(posed, now, ours, words)
        else:
            st.html(f"<h3>{escape(words('solution.title'))}</h3>{_right(posed, ours, words)}")
        st.markdown(label(posed.explain, ours))
        with st.container(horizontal=True, gap="medium", vertical_alignment="center"):
            again = "solution.again" if len(item.cases) > 1 else "solution.again_open" if item.kind == "open" else "solution.again_plain"
            if st.button(words(again), key="quiz-again"):
                _keep(item, Try(draw=now.draw + 1), {}, None, ours)
            if ours:
                _reread(item, words)


def _right(posed: Posed, ours: bool, words: Words) -> str:
    if posed.item.kind == "order":
        texts = {entry.id: entry.text for entry in posed.entries}
        return f"<ol class='qz-order'>{''.join(f'<li>{inline(texts[step], ours)}</li>' for step in posed.answer)}</ol>"
    return f"<p class='qz-answer'>{escape(words('verdict.answer'))} <b>{inline(posed.right, ours)}</b></p>"


def _compare(posed: Posed, now: Try, ours: bool, words: Words) -> None:
    """The learner's own text beside the model answer, and what to look for in it."""
    own = f"<blockquote class='qz-own'>{escape(now.given)}</blockquote>" if isinstance(now.given, str) else f"<p class='lab-note'>{escape(words('open.own_gone'))}</p>"
    st.html(f"<h3>{escape(words('open.own'))}</h3>{own}<h3>{escape(words('open.model'))}</h3>")
    st.markdown(label(posed.model_answer, ours))
    st.html(f"<h3>{escape(words('open.rubric'))}</h3>")
    ticked = [st.checkbox(label(text, ours), key=f"{kept.key(posed.item, ours)}-{now.draw}-point-{n}") for n, text in enumerate(posed.rubric)]
    st.html(f"<p class='lab-note' role='status'>{escape(words('open.score', n=sum(ticked), all=len(ticked)))}</p>")


def _reread(item: Item, words: Words) -> None:
    """Links to the part of the lesson that the question is about, and to the claims it goes with."""
    pages = st.session_state.get("pages", {})
    if item.lesson in pages:
        lesson, part = words(f"nav.{item.lesson}"), Words(words.lang, item.lesson)(f"part.{item.part}")
        query = {"lang": words.lang, "part": item.part}
        st.page_link(pages[item.lesson], label=words("solution.reread", lesson=lesson, part=part), query_params=query)
    for claim in (about for about in item.about if not about.startswith("quiz-")):
        st.page_link(pages["claims"], label=words("kind.claim", id=claim), query_params={"lang": words.lang, "claim": claim})


def _measure_first(item: Item, error: LabError, words: Words) -> None:
    """Without a run of the reader's own nothing can be judged yet: what is asked, and the way to the lesson."""
    if len(item.cases) == 1 and not item.cases[0]:
        _asked(item.text[words.lang], ours=True)
    text = words("measure.none") if error.code == "quiz-no-result" else errors.sentence(error, words)
    st.html(parts.notice(words("measure.title"), text, kind="info"))
    pages = st.session_state.get("pages", {})
    if item.lesson in pages:
        query = {"lang": words.lang, "part": item.part}
        st.page_link(pages[item.lesson], label=words("measure.go", lesson=words(f"nav.{item.lesson}")), query_params=query)
