"""The second part of the page, for teachers: questions as files to take away, and a file of one's own to try out.

What is brought along stays in this session: it is read, posed and judged like our own questions, and nobody else sees it.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.errors import LabError
from engine.quiz import Item, anki, csv_table, gift
from engine.quiz.flat import LeftOut
from engine.quiz.judge import sentence
from pages._ui import errors, outcome, parts, quiz
from pages._ui.language import LANGUAGES
from pages._ui.words import Words
from pages.quiz import kept
from pages.quiz.questions import OWN

ALL = "all"
# How a file of each format is made, its ending, and what it is called on the way to the browser.
FORMATS = {
    "gift": (gift.write, "gift.txt", "text/plain; charset=utf-8"),
    "csv": (csv_table.write, "csv", "text/csv; charset=utf-8"),
    "anki": (anki.write, "anki.txt", "text/plain; charset=utf-8"),
}
MOST_SEED = 999_999
MOST_MB = 1
NOTES_SHOWN = 50


def section(words: Words) -> None:
    with st.container(key="quiz-files"):
        outcome.section(words("files.export"))
        st.html(f"<p class='lab-note'>{escape(words('files.export_what'))}</p>")
        _export(words)
        outcome.section(words("files.import"))
        st.html(f"<p class='lab-note'>{escape(words('files.import_what'))}</p>")
        _import(words)


@st.fragment
def _export(words: Words) -> None:
    """Choose, see what the format cannot hold, take the file. Only this runs again when another is chosen."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="quiz-export"):
        name = lambda lesson: words("files.all") if lesson == ALL else words(f"nav.{lesson}")
        lesson = st.selectbox(words("files.lesson"), [ALL, *quiz.lessons()], key="quiz-file-lesson", format_func=name, width=220, persist_state="session")
        lang = st.selectbox(
            words("files.lang"), list(LANGUAGES), index=list(LANGUAGES).index(words.lang), key=f"quiz-file-lang-{words.lang}", format_func=LANGUAGES.get, width=150
        )
        form = st.selectbox(
            words("files.format"), list(FORMATS), key="quiz-file-format", format_func=lambda f: words(f"files.format_{f}"), width=190, persist_state="session"
        )
        seed = st.number_input(words("files.seed"), 0, MOST_SEED, 1, key="quiz-file-seed", width=130, persist_state="session")
    try:
        items = [item for one in (quiz.lessons() if lesson == ALL else (lesson,)) for item in quiz.items(one)]
        write, ending, mime = FORMATS[form]
        text, lost = write(items, lang, 1 if seed is None else seed)
    except LabError as error:
        st.html(parts.notice(words("choose.unreadable_title"), errors.sentence(error, words)))
        return
    file = f"quiz-{lesson}-{lang}.{ending}"
    written = len(items) - len({entry.item for entry in lost if entry.whole})
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.download_button(words("files.download", name=file), text.encode("utf-8"), file, mime, key="quiz-download", type="primary", on_click="ignore")
        st.html(f"<p class='lab-note'>{escape(words('files.written', n=written, all=len(items)))}</p>", width="content")
    if lost:
        st.html(f"<h3 class='qz-left'>{escape(words('files.left_out'))}</h3>{_left_out(lost, words)}")


def _left_out(lost: tuple[LeftOut, ...], words: Words) -> str:
    """What is missing, and of which questions."""
    of: dict[str, list[str]] = {}
    for entry in lost:
        of.setdefault(entry.sentence(words.lang), []).append(entry.item)
    rows = ""
    for what, ids in of.items():
        count = words("files.of_one" if len(ids) == 1 else "files.of_many", n=len(ids))
        rows += f"<details><summary>{escape(what)} <span>{escape(count)}</span></summary>{escape(', '.join(ids))}</details>"
    return f"<div class='qz-notes'>{rows}</div>"


def _import(words: Words) -> None:
    file = st.file_uploader(words("files.upload"), type=["txt", "gift", "csv"], key="quiz-upload", max_upload_size=MOST_MB)
    if file is not None:
        try:
            found = (csv_table if file.name.lower().endswith(".csv") else gift).read(file.getvalue())
        except LabError as error:
            st.html(parts.notice(words("files.refused_title"), errors.sentence(error, words)))
            return
        if tuple(found.items) != kept.imported():
            kept.bring(tuple(found.items))
        if found.notes:
            _notes(found.notes, words)
        if not found.items:
            st.html(parts.notice(words("files.refused_title"), words("files.none"), kind="info"))
    if kept.imported():
        _imported(kept.imported(), words)


def _notes(notes: list[tuple[int, str]], words: Words) -> None:
    """Line by line what was left out or changed."""
    lines = [words("files.line", line=line, what=sentence(reason, words.lang)) for line, reason in notes[:NOTES_SHOWN]]
    more = [words("files.more", n=len(notes) - NOTES_SHOWN)] if len(notes) > NOTES_SHOWN else []
    st.html(parts.notice(words("files.noted"), *lines, *more, kind="info"))


def _imported(items: tuple[Item, ...], words: Words) -> None:
    def go() -> None:
        st.session_state[f"quiz-lesson-{words.lang}"] = OWN
        st.session_state[f"parts-{words.lang}"] = words("part.questions")
        st.query_params["part"] = "questions"

    st.html(f"<p class='lab-said' role='status'>{escape(words('files.read', n=len(items)))}</p>")
    with st.container(horizontal=True, gap="small"):
        st.button(words("files.try"), key="quiz-try", type="primary", on_click=go)
        st.button(words("files.remove"), key="quiz-remove", on_click=kept.bring, args=((),))
