"""How the lesson measures and counts, and what the text said."""

from __future__ import annotations

import streamlit as st

from pages._ui import claims
from pages._ui.words import Words


def section(words: Words) -> None:
    with st.container(key="lab-model"):
        st.markdown(words.part("sources"))
    claims.section("pools", words)
