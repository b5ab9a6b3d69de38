"""The lesson about Ring Attention: keys and values that go round, what that costs here, and when it hides behind computing."""

from pages._ui import lesson
from pages.ring import details, hiding, measured, steps

SECTIONS = {
    "ring": steps.section,
    "measured": measured.section,
    "calculator": hiding.section,
    "details": details.section,
}

lesson.show("ring", SECTIONS)
