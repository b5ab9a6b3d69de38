"""All profiles side by side, for the length and the device of the first part."""

from __future__ import annotations

from dataclasses import replace
from html import escape

import streamlit as st

from engine.formulas import memory
from pages._ui import fmt, parts
from pages._ui.words import Words
from pages.memory import calculator, choices
from pages.memory.calculator import Choice


def section(words: Words) -> None:
    choice = choices.current()
    models = choices.known_models()
    facts = {
        "n": len(models),
        "length": fmt.count(choice.length),
        "kv": words(f"format.{choice.kv}"),
        "device": calculator.device_title(choice, words),
        "weights": words(f"weight.{choice.weights}"),
    }
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{escape(words('models.what', **facts))}</span></div>")
    st.html(parts.plain_table(*table(choice, list(models.values()), words), words("part.models")))
    with st.expander(words("models.sources")):
        st.html("".join(_sources(model) for model in sorted(models.values(), key=lambda model: model.title.casefold())))


def table(choice: Choice, models: list, words: Words) -> tuple[list[str], list[list[str]]]:
    """Head and rows, the model with the smallest request first."""
    head = [words(f"models.{name}") for name in ("model", "kind", "token", "most", "request", "state", "weights", "made_for")]
    found = sorted((memory.request_bytes(model.groups, choice.length, choice.kv), model.title, model) for model in models)
    return head, [_row(replace(choice, model=model), request, words) for request, _, model in found]


def _row(choice: Choice, request: int, words: Words) -> list[str]:
    model, room = choice.model, choice.room_bytes
    state = model.state_bytes(choice.kv)
    most = fmt.DASH if room is None else words("models.none") if room <= 0 else fmt.count(memory.requests_that_fit(room, request))
    if room is not None and room > 0 and (model.max_context_tokens or choice.length) < choice.length:
        most = words("models.too_long", most=most)
    return [
        model.title,
        words(f"kind_short.{model.attention_kind}"),
        fmt.bytes_((request - state) / choice.length),
        most,
        fmt.bytes_(request),
        fmt.bytes_(state) if state else fmt.DASH,
        fmt.bytes_(choice.weight_bytes),
        fmt.count(model.max_context_tokens),
    ]


def _sources(model) -> str:
    rows = "".join(f"<li>{parts.cited(f'{name}: {source}')}</li>" for name, source in model.sources.items())
    return f"<h3>{escape(model.title)}</h3><ul class='lab-note'>{rows}</ul>" if rows else ""
