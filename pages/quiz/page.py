"""The quizzes: questions on every lesson, and for teachers files to take away and to try out."""

import streamlit as st

from pages._ui import parts, session
from pages.quiz import files, questions

SECTIONS = {"questions": questions.section, "files": files.section}

words = session.words("quiz")

st.html(parts.heading(words))
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
