"""The lesson about RoPE beyond the trained length: its clock hands, what breaks, what mends it, and by which formula."""

from pages._ui import lesson
from pages.rope import clock, details, lengths, retrieval, workbench

SECTIONS = {
    "clock": clock.section,
    "lengths": lengths.section,
    "retrieval": retrieval.section,
    "workbench": workbench.section,
    "details": details.section,
}

lesson.show("rope", SECTIONS)
