"""The lesson about what nobody has solved: a state instead of a cache, a cache that keeps only meaning, and ten million tokens."""

import streamlit as st

from pages._ui import session
from pages.open import details, meaning, recurrent, state, ten

SECTIONS = {
    "state": state.section,
    "recurrent": recurrent.section,
    "meaning": meaning.section,
    "ten-million": ten.section,
    "details": details.section,
}

words = session.words("open")

st.html(
    f"<p class='lab-eyebrow'>{words('page.eyebrow')}</p><h1 class='lab-title'>{words('page.title')}</h1>"
    f"<p class='lab-lead'>{words('page.lead')}</p>"
)
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
