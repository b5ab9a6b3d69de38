"""The lesson about attention sinks: the sink seen in a real model, and what becomes of the model without it."""

from pages._ui import lesson
from pages.sinks import details, heatmap, needle, published, streaming

SECTIONS = {
    "heatmap": heatmap.section,
    "streaming": streaming.section,
    "needle": needle.section,
    "published": published.section,
    "details": details.section,
}

lesson.show("sinks", SECTIONS)
