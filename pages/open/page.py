"""The lesson about what nobody has solved: a state instead of a cache, a cache that keeps only meaning, and ten million tokens."""

from pages._ui import lesson
from pages.open import details, meaning, recurrent, state, ten

SECTIONS = {
    "state": state.section,
    "recurrent": recurrent.section,
    "meaning": meaning.section,
    "ten-million": ten.section,
    "details": details.section,
}

lesson.show("open", SECTIONS)
