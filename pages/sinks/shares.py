"""Shares of attention as numbers. Equal to pages/static/js/heat/label.js (a browser test compares them). Pure."""

from __future__ import annotations

from pages._ui import fmt


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
