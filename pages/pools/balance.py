"""The second part of the lesson: how many instances prefill and decode need of each other, computed for any workload."""

from __future__ import annotations

import streamlit as st

from engine import profiles
from pages._ui import fmt, outcome, parts, plot, predict
from pages._ui.words import Words
from pages.pools import balance_story as story
from pages.pools import instance


def section(words: Words) -> None:
    st.markdown(words.part("balance"))
    predict.section("pools", "balance", words)

    @st.fragment
    def draw() -> None:
        _show(_chosen(words), words)

    draw()
    outcome.why(words, "balance")


def _show(choice: story.Choice, words: Words) -> None:
    facts = {name: fmt.share(getattr(instance, name)) for name in ("COMPUTE_SHARE", "READ_SHARE", "RESERVE")}
    what = words("balance.what", compute=facts["COMPUTE_SHARE"], read=facts["READ_SHARE"], reserve=facts["RESERVE"])
    first, *rest = [words(key, **known) for key, known in story.headline(choice)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{parts.prose(what)}</span></div>")
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>")
    if not choice.possible:
        return
    st.html(f"{story.bars(choice, words)}{more}")
    outcome.section(words("balance.section_lengths"))
    plot.show(story.spec(choice, words), alt=story.alt(choice, words), key="pools-balance")
    st.html(parts.plain_table(*story.table(choice, words), words("balance.col_workload")))
    st.html(f"<p class='lab-note'>{parts.prose(words('balance.table_note'))}</p>")


def _chosen(words: Words) -> story.Choice:
    """The boxes, which the session keeps."""
    models, devices = instance.models(), profiles.devices()
    found: dict[str, object] = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-pools-balance"):

        def box(name: str, options, show, width: int) -> None:
            names = list(options)
            found[name] = st.selectbox(
                words(f"balance.{name}"), names, index=names.index(story.FIRST[name]), format_func=show, key=f"pools-{name}", width=width, persist_state="session"
            )

        def number(name: str, limits: tuple[int, int]) -> None:
            tip = words("balance.number_help", low=fmt.count(limits[0]), high=fmt.count(limits[1]))
            found[name] = st.number_input(words(f"balance.{name}"), *limits, story.FIRST[name], key=f"pools-{name}", width=150, persist_state="session", help=tip)

        box("workload", (*story.WORKLOADS, story.OWN), lambda name: words(f"balance.work_{name}"), 190)
        if found["workload"] == story.OWN:
            number("prompt", story.PROMPT)
            number("output", story.OUTPUT)
        box("model", models, lambda name: models[name].title, 200)
        box("prefill", devices, lambda name: devices[name].title, 220)
        box("decode", devices, lambda name: devices[name].title, 220)
        box("devices", story.DEVICES, str, 120)
        box("total", story.TOTALS, str, 110)
        box("target", story.TARGETS, fmt.seconds, 120)
    return story.choice_of(found, models, devices)
