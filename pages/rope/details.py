"""How the lesson computes, where its methods come from, what a paper measured, and what the two texts said."""

from __future__ import annotations

import streamlit as st

from pages._ui import claims, outcome, parts
from pages._ui.words import Words
from pages.rope import published_story


def section(words: Words) -> None:
    with st.container(key="lab-model"):
        st.markdown(words.part("sources"))
    outcome.section(words("papers.section"))
    st.html(
        f"<div class='lab-source'>{parts.badge('published', words)}<span>{parts.cited(published_story.source(words))}</span></div>"
        f"{parts.plain_table(*published_story.rows(words), words('papers.section'))}"
        f"<p class='lab-said'>{parts.prose(words('papers.said'))}</p>"
    )
    claims.section("rope", words)
