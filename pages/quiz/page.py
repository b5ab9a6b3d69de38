"""The quizzes: questions on every lesson, and for teachers files to take away and to try out."""

from html import escape

import streamlit as st

from pages._ui import session
from pages.quiz import files, questions

SECTIONS = {"questions": questions.section, "files": files.section}

words = session.words("quiz")

st.html(
    f"<p class='lab-eyebrow'>{escape(words('page.eyebrow'))}</p><h1 class='lab-title'>{escape(words('page.title'))}</h1>"
    f"<p class='lab-lead'>{escape(words('page.lead'))}</p>"
)
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
