"""What the reader has chosen, on every part of the lesson the same: kept in the session, and in the address so that it can be
passed on. What is in an address may be anything."""

from __future__ import annotations

import math

import streamlit as st

from engine import profiles
from engine.formulas.kv import KV_DTYPES
from engine.profiles import ModelProfile
from pages.memory import calculator
from pages.memory.calculator import Choice

PASTED = "pasted"
COMPARED = ("llama-2-7b", "deepseek-v3")
MOST_COMPARED = 4
_FIRST = {
    "model": "llama-3.1-8b",
    "device": "h100-sxm",
    "devices": 1,
    "kv": "bf16",
    "weights": "bf16",
    "reserve": 0.1,
    "length": 131_072,
    "batch": 8,
}


def known_models() -> dict[str, ModelProfile]:
    """All profiles by name, with the reader's own in front if there is one."""
    own = st.session_state.get(PASTED)
    return ({PASTED: own} if own else {}) | profiles.models()


def current() -> Choice:
    """The choice as it is: from the session, at first from the address, else the lesson's own."""
    found = {name: _of(name, allowed) for name, allowed in _allowed().items()}
    model = known_models()[found.pop("model")]
    return Choice(model=model, device=profiles.device(found.pop("device")), **found)


def compared() -> list[ModelProfile]:
    """The models it is compared with."""
    known = known_models()
    names = st.session_state.get("memory-compare", COMPARED)
    return [known[name] for name in names if name in known][:MOST_COMPARED]


def keep(**chosen: object) -> None:
    """Remember choices, and put them into the address; a pasted model stays out of it."""
    for name, value in chosen.items():
        st.session_state[f"memory-{name}"] = value
        if value == PASTED:
            st.query_params.pop(name, None)
        else:
            st.query_params[name] = str(value)


def _of(name: str, allowed: tuple) -> object:
    kept = st.session_state.get(f"memory-{name}")
    return next((value for value in (kept, _read(name), _FIRST[name]) if value is not None and _is_in(value, allowed)), allowed[0])


def _read(name: str) -> object:
    """What the address says, as the kind of value it is for; None for what cannot be one."""
    text = st.query_params.get(name)
    if text is None or isinstance(_FIRST[name], str):
        return text
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return number if isinstance(_FIRST[name], float) else round(number)


def _allowed() -> dict[str, tuple | range]:
    return {
        "model": tuple(known_models()),
        "device": tuple(profiles.devices()),
        "devices": calculator.DEVICES,
        "kv": KV_DTYPES,
        "weights": tuple(calculator.WEIGHT_BYTES),
        "reserve": calculator.RESERVES,
        "length": range(calculator.LENGTHS[0], calculator.LENGTHS[1] + 1),
        "batch": range(calculator.BATCHES[0], calculator.BATCHES[1] + 1),
    }


def _is_in(value: object, allowed: tuple | range) -> bool:
    return not isinstance(value, bool) and value in allowed
