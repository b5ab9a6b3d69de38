"""The third part of the lesson: choose a model, a device, a link and a ring; read whether its transfers hide."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine import profiles
from pages._ui import fmt, outcome, parts, plot
from pages._ui.words import Words
from pages.ring import calculator
from pages.ring.calculator import FIRST, RANKS, TOKENS, UTILISATIONS, Choice


def section(words: Words) -> None:
    st.markdown(words.part("calculator"))

    @st.fragment
    def draw() -> None:
        _show(_choose(words), words)

    draw()
    outcome.why(words, "calculator")


def _choose(words: Words) -> Choice:
    models, devices, links = calculator.models(), profiles.devices(), profiles.links()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-hiding"):

        def box(name: str, options, show, width: int):
            names = list(options)
            return st.selectbox(
                words(f"calc.{name}"), names, index=names.index(FIRST[name]), format_func=show, key=f"ring-calc-{name}", width=width, persist_state="session"
            )

        model = models[box("model", models, lambda name: models[name].title, 200)]
        device = devices[box("device", devices, lambda name: devices[name].title, 235)]
        link = links[box("link", links, lambda name: links[name].title, 300)]
        ranks = box("ranks", RANKS, str, 100)
        tokens = st.number_input(
            words("calc.tokens"), *TOKENS, FIRST["tokens"], step=100_000, key="ring-calc-tokens", width=170, persist_state="session", help=words("calc.tokens_help")
        )
        utilisation = box("utilisation", UTILISATIONS, fmt.share, 170)
    return Choice(model, device, link, ranks, FIRST["tokens"] if tokens is None else tokens, utilisation)


def _show(choice: Choice, words: Words) -> None:
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{escape(words('calc.counted'))}</span></div>")
    first, *rest = [words(key, **facts) for key, facts in calculator.said(choice)]
    told = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{told}{parts.figures(calculator.figures(choice, words))}")
    plot.show(calculator.spec(choice, words), alt=calculator.alt(choice, words), key="ring-calc-chart")
    lines = "".join(f"<p class='rg-formula'>{parts.prose(line)}</p>" for line in calculator.formula(choice, words))
    st.html(f"<div class='rg-formulas'>{lines}</div>")
    outcome.section(words("calc.section_ranks", tokens=fmt.count(choice.tokens)))
    st.html(parts.plain_table(*calculator.by_ranks(choice, words), words("calc.col_ranks")) + f"<p class='lab-note'>{parts.prose(words('calc.ranks_note'))}</p>")
    outcome.section(words("calc.section_links", ranks=fmt.count(choice.ranks), tokens=fmt.count(choice.tokens)))
    st.html(parts.plain_table(*calculator.by_link(choice, words), words("calc.col_link")))
