"""The lesson about what nobody has solved: a state instead of a cache, a cache that keeps only meaning, and ten million tokens."""

from pages._ui import lesson, session
from pages.open import details, meaning, recurrent, state, ten

SECTIONS = {
    "state": state.section,
    "recurrent": recurrent.section,
    "meaning": meaning.section,
    "ten-million": ten.section,
    "details": details.section,
}

words = session.words("open")

lesson.opening(words, "open")
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
lesson.closing(words, "open")
