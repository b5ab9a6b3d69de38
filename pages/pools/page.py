"""The lesson about pools: one engine against prefill and decode apart, how many of each, and of which GPU."""

from pages._ui import lesson, session
from pages.pools import balance, details, gpu, measured

SECTIONS = {
    "measured": measured.section,
    "balance": balance.section,
    "gpu": gpu.section,
    "details": details.section,
}

words = session.words("pools")

lesson.opening(words, "pools")
for part, place in session.open_parts(tuple(SECTIONS), words):
    with place:
        SECTIONS[part](words)
lesson.closing(words, "pools")
