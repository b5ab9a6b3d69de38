"""The lesson about RoPE beyond the trained length: its clock hands, what breaks, what mends it, and by which formula."""

from pages._ui import lesson, session
from pages.rope import clock, details, lengths, retrieval, workbench

SECTIONS = {
    "clock": clock.section,
    "lengths": lengths.section,
    "retrieval": retrieval.section,
    "workbench": workbench.section,
    "details": details.section,
}

words = session.words("rope")

lesson.opening(words, "rope")
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
lesson.closing(words, "rope")
