"""How the lesson measures, where its formats come from, and what the text said."""

from __future__ import annotations

import streamlit as st

from pages._ui import claims
from pages._ui.words import Words


def section(words: Words) -> None:
    with st.container(key="lab-model"):
        st.markdown(words.part("sources"))
    claims.section("transfer", words)
