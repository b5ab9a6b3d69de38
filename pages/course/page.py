"""The course: the path through the lessons with the learner's progress, the synthesis, and what is kept of him."""

import streamlit as st

from pages._ui import parts, session
from pages.course import keeping, path, synthesis

SECTIONS = {"path": path.section, "synthesis": synthesis.section, "keeping": keeping.section}

words = session.words("course")

st.html(parts.heading(words))
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
