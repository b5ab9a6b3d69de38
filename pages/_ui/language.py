"""Which language a reader gets: the one in the address, else the browser's, else English. No streamlit here."""

from __future__ import annotations

LANGUAGES = {"ko": "한국어", "en": "English"}
DEFAULT = "en"


def negotiate(asked: str | None, accept_language: str | None) -> str:
    """The language code to use.

    asked: the value of ``?lang=``, if any; ignored unless it is a language we have.
    accept_language: the browser's header, for example ``ko-KR,ko;q=0.9,en;q=0.8``.
    """
    if asked and asked.lower()[:2] in LANGUAGES:
        return asked.lower()[:2]
    return max(_weighted(accept_language or ""), key=lambda pair: pair[1], default=(DEFAULT, 0.0))[0]


def _weighted(header: str) -> list[tuple[str, float]]:
    found = []
    for part in header.split(","):
        tag, _, rest = part.strip().partition(";")
        code = tag.strip().lower()[:2]
        if code not in LANGUAGES:
            continue
        try:
            weight = float(rest.strip().removeprefix("q=")) if rest.strip() else 1.0
        except ValueError:
            weight = 0.0
        if weight > 0:
            found.append((code, weight))
    return found
