"""The home page: what this is, what machine this is, all lessons, and a picture of the first."""

from html import escape

import streamlit as st

from engine.experiments.scenarios import DEFAULT_WORKLOAD, scenario_for
from engine.service import client
from pages._ui import alt, course, fmt, lanes, parts, recordings, routes, session, timeline
from pages._ui.palette import CATEGORIES

SHOWN = ("course", *course.LESSONS, "quiz", "claims")
A_ROW = 4  # more beside each other would be columns of single words

words = session.words("home")
lesson = session.words("schedules")
device = client.device()


def machine() -> str:
    """This machine in a line, and whether the model is on it."""
    cores = words("unit.core_one") if device.get("cores") == 1 else words("unit.core_many", n=device.get("cores"))
    facts = [str(device.get("name")), cores, words("page.memory", memory=fmt.bytes_(device.get("memory_bytes")))]
    if device.get("fast_bf16"):
        facts.append(words("page.bf16"))
    model = scenario_for(DEFAULT_WORKLOAD, device["class"]).model
    ready = words("page.model_ready", model=model) if client.model_ready(model) else words("page.model_missing")
    return f"<p class='lab-machine'><b>{escape(words('page.machine'))}</b> {escape(' · '.join(facts))}<br>{escape(ready)}</p>"


st.html(
    f"<h1 class='lab-title'>{escape(words('page.title'))}</h1><p class='lab-lead'>{escape(words('page.lead'))}</p>{machine()}"
)


def lesson_map() -> None:
    """Every lesson with a link and a line, in the order of the course."""
    pages = st.session_state.get("pages", {})  # the router's table
    shown = [name for name in SHOWN if name in pages]
    with st.container(key="lab-lessons"):
        places = [place for _ in shown[::A_ROW] for place in st.columns(A_ROW, gap="medium")]
        for place, name in zip(places, shown, strict=False):
            with place:
                st.page_link(pages[name], label=words(f"nav.{name}"), query_params={"lang": words.lang})
                st.html(f"<p>{escape(words(f'lessons.{name}'))}</p>")


lesson_map()
with st.container(horizontal=True, gap="small"):
    for name, kind in (("schedules", "primary"), ("course", "secondary")):
        if st.button(words(f"page.to_{name}"), type=kind, key=f"to-{name}"):
            st.switch_page(st.session_state["pages"][name], query_params={"lang": words.lang})

name = recordings.first_for("schedules", device["class"])
if name:
    result = recordings.load(name)
    manifest = result["manifest"]
    where = lesson("source.on", device=manifest["device"]["name"], date=manifest["started_at"][:10])
    st.html(
        f"<div class='lab-source lab-preview'>{parts.badge('recorded', words)}<span>{escape(words('page.lesson_schedules'))} "
        f"{escape(where)}</span></div>{parts.legend(words, CATEGORIES)}"
    )
    timeline.show(
        f"./lab/timeline/{routes.RECORDED}{name}", lesson, alt=alt.timeline_alt(lanes.view(result), result, lesson), key="preview", compact=True
    )

st.html(
    parts.cards([(words(f"page.kept_{k}"), "", [words(f"page.kept_{k}_what")]) for k in ("measured", "same", "yours")])
)
