"""The lesson about Ring Attention: keys and values that go round, what that costs here, and when it hides behind computing."""

import streamlit as st

from pages._ui import session
from pages.ring import details, hiding, measured, steps

SECTIONS = {
    "ring": steps.section,
    "measured": measured.section,
    "calculator": hiding.section,
    "details": details.section,
}

words = session.words("ring")

st.html(
    f"<p class='lab-eyebrow'>{words('page.eyebrow')}</p><h1 class='lab-title'>{words('page.title')}</h1>"
    f"<p class='lab-lead'>{words('page.lead')}</p>"
)
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
