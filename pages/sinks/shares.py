"""Shares of attention as numbers, and tokens as labels. Equal to pages/static/js/heat/label.js (a browser test compares them). Pure."""

from __future__ import annotations

import unicodedata

from pages._ui import fmt

# What a line break or a tab would do to a label, shown as a sign.
SIGNS = {"\n": "⏎", "\r": "⏎", "\t": "⇥", " ": "␣", "\u00a0": "␣", "\u3000": "␣"}


def share(value: float | None) -> str:
    """Two digits at any size: ``0.434`` -> ``43 %``; ``0.0262`` -> ``2.6 %``; ``0.0026`` -> ``0.26 %``; less than can be
    shown says so; None -> a dash."""
    if value is None:
        return fmt.DASH
    percent = value * 100 * fmt.HALVES_UP
    for least, digits in ((9.95, 0), (0.995, 1), (0.005, 2)):
        if percent >= least:
            return f"{percent:.{digits}f} %"
    return "< 0.01 %" if percent > 0 else "0 %"


def visible(label: str) -> str:
    """A token as it can stand in a line: spaces and breaks as signs, other control characters as their number, and no
    character that turns the direction of what follows."""
    return "".join(SIGNS.get(c) or (f"U+{ord(c):04X}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") and c not in "\u200c\u200d" else c) for c in label)
