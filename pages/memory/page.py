"""The memory-wall lesson: how many requests fit, computed for any model and device, and a wall of our own to run into."""

from pages._ui import lesson, session
from pages.memory import details, measured, models, wall

PARTS = ("wall", "measured", "models", "details")

words = session.words("memory")
colors, touch = session.colors(), session.on_touch()

lesson.opening(words, "memory")
for part, place in session.open_parts(PARTS, words):
    with place:
        if part == "wall":
            wall.section(words)
        elif part == "measured":
            measured.section(words, colors, touch=touch)
        elif part == "models":
            models.section(words)
        else:
            details.section(words)
lesson.closing(words, "memory")
