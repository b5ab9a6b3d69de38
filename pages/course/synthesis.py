"""The closing synthesis: what each remedy acts on, what it relieves and what it costs, in words and in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import streamlit as st

from pages._ui import claims, outcome, parts
from pages._ui.words import Words, model_title
from pages.course import evidence
from pages.course.evidence import GAIN, PRICE, Change


def section(words: Words) -> None:
    """The prose, the axes as a table, and the remedies with what was measured of them."""
    st.markdown(words.part("synthesis"))
    outcome.section(words("axes.title"))
    st.html(f"<p class='lab-note'>{escape(words('axes.what'))}</p>{axes_table(words)}")
    outcome.section(words("remedies.title"))
    results = claims.results(set(evidence.KINDS))
    st.html(f"<p class='lab-note'>{escape(words('remedies.what'))}</p>")
    with st.container(key="cr-remedies", gap="medium"):
        for remedy, lesson in evidence.REMEDIES.items():
            with st.container(key=f"cr-remedy-{remedy}", gap=None):
                st.html(remedy_html(remedy, results, words))
                if page := st.session_state["pages"].get(lesson):
                    label = words("remedies.lesson", lesson=words(f"nav.{lesson}"))
                    st.page_link(page, label=label, query_params={"lang": words.lang})
    st.html(sources_html(results, words))
    st.markdown(words.part("together"))


def axes_table(words: Words) -> str:
    """Remedies by axes: a sign, a word for it, and how. The signs are not the only carriers of what they say."""
    head = "".join(f"<th scope='col'>{escape(words(f'axis.{axis}'))}<small>{escape(words(f'axis.{axis}_what'))}</small></th>" for axis in evidence.AXES)
    body = ""
    for remedy, effects in evidence.ON_AXES.items():
        cells = "".join(
            f"<td class='cr-{effect}' data-of='{escape(words(f'axis.{axis}'), quote=True)}'><b>{escape(words(f'effect.{effect}'))}</b>"
            f"<small>{escape(words(f'on.{remedy}.{axis}'))}</small></td>"
            for axis, effect in zip(evidence.AXES, effects, strict=True)
        )
        body += f"<tr><th scope='row'>{escape(words(f'remedy.{remedy}'))}</th>{cells}</tr>"
    table = f"<table class='lab-table cr-axes'><thead><tr><th scope='col'>{escape(words('axes.remedy'))}</th>{head}</tr></thead><tbody>{body}</tbody></table>"
    label = escape(words("axes.title"), quote=True)
    return f"<div class='lab-scroll' tabindex='0' role='region' aria-label='{label}'>{table}</div>"


def remedy_html(remedy: str, results: Mapping[str, dict], words: Words) -> str:
    """A remedy: what it relieves and what it costs, each with the numbers that were measured."""
    sides = ""
    for side in (GAIN, PRICE):
        changes = "".join(_change(found, results[found.kind], words) for found in evidence.of(remedy, side, results))
        sides += (
            f"<div class='cr-side cr-{side}'><h4>{escape(words(f'side.{side}'))}</h4>"
            f"<p>{escape(words(f'{side}.{remedy}'))}</p>{f'<ul>{changes}</ul>' if changes else ''}</div>"
        )
    return f"<section class='cr-remedy'><h3>{escape(words(f'remedy.{remedy}'))}</h3><div class='cr-sides'>{sides}</div></section>"


def _change(found: Change, result: dict, words: Words) -> str:
    return (
        f"<li><span class='cr-what'>{parts.prose(words(f'change.{found.id}', **found.facts))}</span>"
        f"<span class='cr-values'><span>{parts.prose(found.before)}</span><i aria-hidden='true'>→</i>"
        f"<span class='lab-unseen'>{escape(words('change.to'))}</span><b>{parts.prose(found.after)}</b></span>"
        f"{parts.badge(result['provenance'], words)}</li>"
    )


def sources_html(results: Mapping[str, dict], words: Words) -> str:
    """Where the numbers above were measured, and with which model: each once."""
    lines = {}
    for kind, result in results.items():
        if kind in evidence.KINDS:
            model = f"<span>{escape(model_title(result['manifest']['model'], words))}</span>"
            lines[outcome.source_line(result, words).removesuffix("</div>") + model + "</div>"] = None
    return f"<div class='cr-sources'>{''.join(lines)}</div>"
