"""The lesson about the cache that has to travel: formats, overlap, and which link is enough."""

from pages._ui import lesson
from pages.transfer import calculator, details, formats, overlap

SECTIONS = {
    "formats": formats.section,
    "overlap": overlap.section,
    "calculator": calculator.section,
    "details": details.section,
}

lesson.show("transfer", SECTIONS)
