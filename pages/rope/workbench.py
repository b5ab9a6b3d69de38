"""The fourth part of the lesson: a base, a head and a factor in; the new base, the wavelengths and the temperature out."""

from __future__ import annotations

import streamlit as st

from engine.formulas.rope import METHODS, RAMPS
from pages._ui import outcome, parts
from pages._ui.words import Words
from pages.rope import stretching
from pages.rope.stretching import Bench

# What stands in the boxes at first: a head of Llama 2, to be made eight times as long.
START = {"base": "10000", "head_dim": "128", "factor": "8", "trained": "4096"}
RAMPED = ("by-parts", "yarn")


def section(words: Words) -> None:
    """Only this part runs again when a number is changed."""
    st.markdown(words.part("workbench"))

    @st.fragment
    def draw() -> None:
        method, ramp, typed = _choose(words)
        bench, wrong = stretching.read(typed, method, ramp)
        if bench is None:
            said = [words(key, **{**facts, "field": words(f"workbench.{facts['field']}")}) for key, facts in wrong]
            st.html(parts.notice(words("workbench.wrong"), *said))
            return
        _show(bench, words)

    draw()


def _choose(words: Words) -> tuple[str, str, dict[str, str]]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-rope"):
        typed = {
            name: st.text_input(words(f"workbench.{name}"), start, key=f"rope-{name}", width=150, max_chars=40, persist_state="session")
            for name, start in START.items()
        }
        method = st.selectbox(
            words("workbench.method"), METHODS, METHODS.index("ntk"), key="rope-method", width=190,
            format_func=lambda name: words(f"method.{name}"), persist_state="session",
        )
        ramp = RAMPS[0]
        if method in RAMPED:
            ramp = st.selectbox(
                words("clock.ramp"), RAMPS, key="rope-ramp", width=260, format_func=lambda name: words(f"clock.ramp_{name}"), persist_state="session"
            )
    return method, ramp, typed


def _show(bench: Bench, words: Words) -> None:
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}</div>{parts.figures(stretching.figures(bench, words))}")
    if bench.method in ("ntk", "dynamic"):
        facts = {"base": stretching.exact(bench.base), "s": stretching.exact(bench.factor), "d": bench.head_dim, "e": bench.head_dim - 2}
        new = stretching.exact(bench.new_base).replace(",", "{,}")
        st.markdown(words("workbench.with_numbers", **{**facts, "base": facts["base"].replace(",", "{,}"), "new": new}))
    about = f"workbench.about_{bench.method.replace('-', '_')}"
    st.html(f"<p class='lab-said'>{parts.prose(words(about))}</p>")
    outcome.section(words("workbench.section_table"))
    every = st.toggle(words("workbench.every"), key="rope-every", persist_state="session") if bench.head_dim // 2 > stretching.FEW else True
    st.html(parts.plain_table(*stretching.table(bench, words, every=every), words("workbench.section_table")))
    outcome.section(words("workbench.section_derivation"))
    with st.container(key="lab-rope-steps"):
        st.markdown(words.part("workbench-derivation"))
    outcome.section(words("workbench.section_hf"))
    st.html(f"<p class='lab-note'>{parts.prose(words('workbench.hf'))} {parts.prose(words(_hf_note(bench)))}</p>")
    st.code(stretching.hf_text(bench), language="json")


def _hf_note(bench: Bench) -> str:
    if bench.method in RAMPED and bench.ramp == "rotations":
        return "workbench.hf_ramp"
    return {"ntk": "workbench.hf_ntk", "dynamic": "workbench.hf_dynamic", "by-parts": "workbench.hf_by_parts"}.get(bench.method, "workbench.hf_plain")
