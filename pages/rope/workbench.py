"""The fourth part of the lesson: a base, a head and a factor in; the new base, the wavelengths and the temperature out."""

from __future__ import annotations

import streamlit as st

from pages._ui.words import Words


def section(words: Words) -> None:
    st.markdown(words.part("workbench"))
