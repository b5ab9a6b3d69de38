"""Two promises to the user, and how many requests a second keep both: goodput."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import streamlit as st

from engine.measure import metrics
from pages._ui import fmt, parts
from pages._ui.palette import SCHEDULES
from pages._ui.words import Words

TTFT_S = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0)
ITL_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
# Which of a request's gaps the promise is about.
SHARES = (0.99, 1.0)


@dataclass(frozen=True)
class Kept:
    """What one schedule kept: requests per second, how many of how many, and which promise the others missed."""

    schedule: str
    goodput_rps: float
    met: int
    requests: int
    late_first: int
    late_gaps: int


def kept(result: dict, ttft_s: float, itl_s: float, share: float) -> list[Kept]:
    """Each schedule against the two promises; a request may miss both."""
    found = []
    for schedule in SCHEDULES:
        if schedule not in result["schedules"]:
            continue
        trace = result["schedules"][schedule]["trace"]
        requests = trace["requests"]
        firsts = [metrics.ttft_s(r) for r in requests]
        gaps = [metrics.percentile(metrics.itl_s(r), share) for r in requests]
        found.append(
            Kept(
                schedule,
                metrics.goodput_rps(trace, ttft_s, itl_s, share) or 0.0,
                sum(metrics.meets_slos(r, ttft_s, itl_s, share) for r in requests),
                len(requests),
                sum(first is None or first > ttft_s for first in firsts),
                sum(gap is not None and gap > itl_s for gap in gaps),
            )
        )
    return found


def section(result: dict, words: Words) -> None:
    """The sliders and what they do; only this part runs again when one is moved."""

    @st.fragment
    def draw() -> None:
        left, right = st.columns([2, 3], gap="large")
        with left:
            ttft = st.select_slider(
                words("slo.ttft"), TTFT_S, value=_near(TTFT_S, 8.0), format_func=fmt.seconds, key="slo-ttft", persist_state="session"
            )
            itl = st.select_slider(
                words("slo.itl"), ITL_S, value=_near(ITL_S, 0.8), format_func=fmt.seconds, key="slo-itl", persist_state="session"
            )
            share = st.segmented_control(
                words("slo.share"),
                SHARES,
                default=1.0,
                required=True,
                key="slo-share",
                format_func=lambda s: words(f"slo.share_{round(s * 100)}"),
                persist_state="session",
            )
        found = kept(result, ttft, itl, share)
        right.html(_bars(found, words) + parts.badge(result["provenance"], words))
        said = " ".join(s for s in (verdict(found, words), sooner(found, words)) if s)
        st.html(f"<p class='lab-said'>{parts.prose(said)}</p><p class='lab-note'>{escape(words('slo.what'))}</p>")

    draw()


def verdict(found: list[Kept], words: Words) -> str:
    """Who keeps most, in a sentence."""
    best = max((k.met for k in found), default=0)
    names = [words(f"schedule.{k.schedule}.short") for k in found if k.met == best]
    if best == 0:
        return words("slo.none")
    if len(names) == len(found):
        return words("slo.level", n=fmt.count(best))
    return words("slo.best", names=", ".join(names), n=fmt.count(best), all=fmt.count(found[0].requests))


def sooner(found: list[Kept], words: Words) -> str:
    """That the highest goodput is not where most are kept: fewer, in less time. Else nothing."""
    if not found:
        return ""
    highest = max(found, key=lambda k: k.goodput_rps)
    if highest.met == max(k.met for k in found):
        return ""
    return words("slo.sooner", name=words(f"schedule.{highest.schedule}.short"), rate=_rate(highest))


def _rate(kept: Kept) -> str:
    return f"{kept.goodput_rps:.2f} req/s"


def _bars(found: list[Kept], words: Words) -> str:
    most = max((k.goodput_rps for k in found), default=0.0) or 1.0
    best = max((k.goodput_rps for k in found), default=0.0)
    rows = ""
    for k in found:
        missed = words("slo.missed", first=fmt.count(k.late_first), gaps=fmt.count(k.late_gaps))
        rows += (
            f"<div class='lab-goodput{' lab-best' if best and k.goodput_rps == best else ''}'>"
            f"<b>{escape(words(f'schedule.{k.schedule}.name'))}</b>"
            f"<span class='lab-race-bar'><span style='width:{k.goodput_rps / most * 100:.1f}%'></span></span>"
            f"<span class='lab-race-value'>{_rate(k)}</span>"
            f"<small>{escape(words('slo.met', n=fmt.count(k.met), all=fmt.count(k.requests)))} · {escape(missed)}</small></div>"
        )
    return f"<section class='lab-race'><h3>{escape(words('slo.goodput'))}</h3>{rows}</section>"


def _near(values: tuple[float, ...], wanted: float) -> float:
    return min(values, key=lambda v: abs(v - wanted))
