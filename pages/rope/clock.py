"""The first part of the lesson: the hands of one head, what they have seen in training, and each method as a change of them."""

from __future__ import annotations

import streamlit as st

from pages._ui.words import Words


def section(words: Words) -> None:
    st.markdown(words.part("clock"))
