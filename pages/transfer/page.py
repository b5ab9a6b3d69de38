"""The lesson about the cache that has to travel: formats, overlap, and which link is enough."""

import streamlit as st

from pages._ui import session
from pages.transfer import calculator, details, formats, overlap

SECTIONS = {
    "formats": formats.section,
    "overlap": overlap.section,
    "calculator": calculator.section,
    "details": details.section,
}

words = session.words("transfer")

st.html(
    f"<p class='lab-eyebrow'>{words('page.eyebrow')}</p><h1 class='lab-title'>{words('page.title')}</h1>"
    f"<p class='lab-lead'>{words('page.lead')}</p>"
)
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
