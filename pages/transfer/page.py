"""The lesson about the cache that has to travel: formats, overlap, and which link is enough."""

from pages._ui import lesson, session
from pages.transfer import calculator, details, formats, overlap

SECTIONS = {
    "formats": formats.section,
    "overlap": overlap.section,
    "calculator": calculator.section,
    "details": details.section,
}

words = session.words("transfer")

lesson.opening(words, "transfer")
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
lesson.closing(words, "transfer")
