"""The third part of the lesson: any model's cache over any link, computed, and which link is enough."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine import profiles
from engine.formulas.kv import KV_DTYPES
from pages._ui import fmt, outcome, parts, plot, predict
from pages._ui.words import Words
from pages.transfer import calculator_story as story


def section(words: Words) -> None:
    st.markdown(words.part("calculator"))
    predict.section("transfer", "calculator", words)
    _draw(words)
    outcome.why(words, "calculator")


@st.fragment
def _draw(words: Words) -> None:
    """Only this runs again when something is chosen."""
    choice, links = _chosen(words), profiles.links()
    first, *rest = [words(key, **facts) for key, facts in story.headline(choice, links)]
    if sentence := story.longer(choice):
        rest.append(words(sentence[0], **sentence[1]))
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{escape(words('calc.what'))}</span></div>")
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}")
    plot.show(story.spec(choice, links, words), alt=story.alt(choice, links, words), key="transfer-calculator")
    st.html(parts.plain_table(*story.table(choice, links, words), words("calc.table")))
    outcome.section(words("calc.section_rdma"))
    st.html(f"<p class='lab-said'>{parts.prose(words('calc.rdma', pcie=links[story.PCIE].title, pieces=fmt.count(story.PIECES)))}</p>")
    st.html(parts.plain_table(*story.rdma(choice, links, words), words("calc.section_rdma")))
    used = [links[name] for name in (*story.DRAWN, story.PCIE, *(name for pair in story.STAGED for name in pair))]
    found = [f"{link.title}: {source}" for link in used for source in link.sources.values()]
    with st.expander(words("calc.sources")):
        st.html("".join(f"<p class='lab-note'>{parts.cited(text)}</p>" for text in dict.fromkeys(found)))


def _chosen(words: Words) -> story.Choice:
    """The boxes, which the session keeps."""
    models, devices = profiles.models(), profiles.devices()
    found: dict[str, object] = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-transfer-calculator"):

        def box(name: str, options: list, show, width: int) -> None:
            first = story.FIRST[name]
            found[name] = st.selectbox(
                words(f"calc.{name}"),
                options,
                index=options.index(first),
                format_func=show,
                key=f"transfer-calc-{name}",
                width=width,
                persist_state="session",
            )

        box("model", list(models), lambda name: models[name].title, 230)
        found["tokens"] = st.number_input(
            words("calc.prompt"),
            *story.TOKENS,
            story.FIRST["tokens"],
            key="transfer-calc-tokens",
            width=170,
            persist_state="session",
            help=words("calc.prompt_help", low=fmt.count(story.TOKENS[0]), high=fmt.count(story.TOKENS[1])),
        )
        box("dtype", list(KV_DTYPES), str, 105)
        box("device", list(devices), lambda name: devices[name].title, 220)
        box("devices", list(story.DEVICES), str, 85)
        box("utilisation", list(story.UTILISATIONS), fmt.share, 115)
    return story.choice_of(found, models, devices)
