"""The lesson about attention sinks: the sink seen in a real model, and what becomes of the model without it."""

from pages._ui import lesson, session
from pages.sinks import details, heatmap, needle, published, streaming

SECTIONS = {
    "heatmap": heatmap.section,
    "streaming": streaming.section,
    "needle": needle.section,
    "published": published.section,
    "details": details.section,
}

words = session.words("sinks")

lesson.opening(words, "sinks")
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
lesson.closing(words, "sinks")
