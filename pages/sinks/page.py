"""The lesson about attention sinks: the sink seen in a real model, and what becomes of the model without it."""

import streamlit as st

from pages._ui import session
from pages.sinks import details, heatmap, needle, published, streaming

SECTIONS = {
    "heatmap": heatmap.section,
    "streaming": streaming.section,
    "needle": needle.section,
    "published": published.section,
    "details": details.section,
}

words = session.words("sinks")

st.html(
    f"<p class='lab-eyebrow'>{words('page.eyebrow')}</p><h1 class='lab-title'>{words('page.title')}</h1>"
    f"<p class='lab-lead'>{words('page.lead')}</p>"
)
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
