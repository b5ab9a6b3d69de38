"""The lesson about Ring Attention: keys and values that go round, what that costs here, and when it hides behind computing."""

from pages._ui import lesson, session
from pages.ring import details, hiding, measured, steps

SECTIONS = {
    "ring": steps.section,
    "measured": measured.section,
    "calculator": hiding.section,
    "details": details.section,
}

words = session.words("ring")

lesson.opening(words, "ring")
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
lesson.closing(words, "ring")
