"""The course: the path through the lessons with the learner's progress, the synthesis, and what is kept of him."""

from html import escape

import streamlit as st

from pages._ui import session
from pages.course import keeping, path, synthesis

SECTIONS = {"path": path.section, "synthesis": synthesis.section, "keeping": keeping.section}

words = session.words("course")

st.html(
    f"<p class='lab-eyebrow'>{escape(words('page.eyebrow'))}</p><h1 class='lab-title'>{escape(words('page.title'))}</h1>"
    f"<p class='lab-lead'>{escape(words('page.lead'))}</p>"
)
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
