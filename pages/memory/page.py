"""The memory-wall lesson: how many requests fit, computed for any model and device, and a wall of our own to run into."""

from pages._ui import lesson, session
from pages.memory import details, measured, models, wall

SECTIONS = {
    "wall": wall.section,
    "measured": lambda words: measured.section(words, session.colors(), touch=session.on_touch()),
    "models": models.section,
    "details": details.section,
}

lesson.show("memory", SECTIONS)
