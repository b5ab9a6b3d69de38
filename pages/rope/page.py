"""The lesson about RoPE beyond the trained length: its clock hands, what breaks, what mends it, and by which formula."""

import streamlit as st

from pages._ui import session
from pages.rope import clock, details, lengths, retrieval, workbench

SECTIONS = {
    "clock": clock.section,
    "lengths": lengths.section,
    "retrieval": retrieval.section,
    "workbench": workbench.section,
    "details": details.section,
}

words = session.words("rope")

st.html(
    f"<p class='lab-eyebrow'>{words('page.eyebrow')}</p><h1 class='lab-title'>{words('page.title')}</h1>"
    f"<p class='lab-lead'>{words('page.lead')}</p>"
)
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
