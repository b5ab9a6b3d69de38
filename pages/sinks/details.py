"""How the lesson counts, what a small model can show, and what the source texts said."""

from __future__ import annotations

import streamlit as st

from pages._ui import claims
from pages._ui.words import Words


def section(words: Words) -> None:
    with st.container(key="lab-model"):
        st.markdown(words.part("limits"))
    claims.section("sinks", words)
