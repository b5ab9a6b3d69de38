"""The lesson about pools: one engine against prefill and decode apart, how many of each, and of which GPU."""

from pages._ui import lesson
from pages.pools import balance, details, gpu, measured

SECTIONS = {
    "measured": measured.section,
    "balance": balance.section,
    "gpu": gpu.section,
    "details": details.section,
}

lesson.show("pools", SECTIONS)
