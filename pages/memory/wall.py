"""The first part of the lesson: choose a model and a device, move the sliders, read the formula and what would change it."""

from __future__ import annotations

from dataclasses import replace
from html import escape

import streamlit as st

from engine import profiles
from engine.errors import LabError
from engine.formulas.kv import KV_DTYPES
from engine.profiles import ModelProfile
from engine.profiles.hf_config import parse_config, profile_from_config
from pages._ui import errors, fmt, outcome, parts, predict, script
from pages._ui.words import Words
from pages.memory import calculator, choices
from pages.memory.calculator import Choice

KEY = "memory-wall"
TYPED, FILE, FAILED = "memory-config", "memory-config-file", "memory-config-failed"


def section(words: Words) -> None:
    """Only this part runs again when something is chosen."""
    predict.section("memory", "wall", words)

    @st.fragment
    def draw() -> None:
        choice = _choose(words)
        _moved(choice)
        choice = choices.current()  # with what the sliders have just said
        data = calculator.payload(choice, choices.compared(), words)
        st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{escape(words('choose.counted'))}</span></div>")
        script.component("memory")(key=KEY, data=data, on_at_change=lambda: None)
        _formula(choice, words)
        _tables(choice, words)

    draw()
    outcome.why(words)


def _choose(words: Words) -> Choice:
    """The boxes; what was chosen is in the session and the address afterwards."""
    now = choices.current()
    models, devices = choices.known_models(), profiles.devices()
    names = list(models)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-memory"):

        def box(name: str, options: list, present: object, show, width: int) -> None:
            chosen = st.selectbox(
                words(f"choose.{name}"),
                options,
                index=options.index(present),
                format_func=show,
                key=f"choose-{name}-{words.lang}-{present if name == 'model' else ''}",
                width=width,
            )
            if chosen != present:
                choices.keep(**{name: chosen})

        present = next(name for name, model in models.items() if model is now.model)
        box("model", names, present, lambda name: title(name, models, words), 250)
        box("device", list(devices), now.device.name, lambda name: devices[name].title, 235)
        box("devices", list(calculator.DEVICES), now.devices, str, 80)
        box("kv", list(KV_DTYPES), now.kv, lambda name: words(f"format.{name}"), 140)
        box("weights", list(calculator.WEIGHT_BYTES), now.weights, lambda name: words(f"weight.{name}"), 105)
        with st.popover(words("choose.more")):
            box("reserve", list(calculator.RESERVES), now.reserve, fmt.share, 150)
            st.multiselect(
                words("choose.compare"),
                names,
                default=[model.name for model in choices.compared()],
                max_selections=choices.MOST_COMPARED,
                format_func=lambda name: title(name, models, words),
                key="memory-compare",
                persist_state="session",
            )
        with st.popover(words("choose.paste")):
            _paste(words)
    return choices.current()


def title(name: str, models: dict[str, ModelProfile], words: Words) -> str:
    return words("choose.pasted", title=models[name].title) if name == choices.PASTED else models[name].title


def _moved(choice: Choice) -> None:
    """Take over what the sliders say; a browser may send anything."""
    at = (st.session_state.get(KEY) or {}).get("at")
    if not isinstance(at, dict):
        return
    limits = {"length": calculator.LENGTHS, "batch": calculator.BATCHES}
    for name, (low, high) in limits.items():
        value = at.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high and value != getattr(choice, name):
            choices.keep(**{name: int(value)})


def _paste(words: Words) -> None:
    st.html(f"<p class='lab-note'>{escape(words('paste.what'))}</p>")
    st.text_area(words("paste.label"), key=TYPED, height=150, max_chars=1_000_000, persist_state="session")
    st.file_uploader(words("paste.file"), type=["json"], key=FILE, max_upload_size=1)
    # What came of it stands above the button: below it, a phone would have it out of sight.
    if error := st.session_state.get(FAILED):
        st.html(parts.notice(words("paste.failed"), errors.sentence(error, words)))
    elif own := st.session_state.get(choices.PASTED):
        facts = {"title": own.title, "layers": own.layers, "token": fmt.bytes_(own.kv_bytes_per_token())}
        key = "taken_up_to" if any(getattr(group, "window", None) for group in own.groups) else "taken"
        st.html(f"<p class='lab-note'>{escape(words(f'paste.{key}', kind=words(f'kinds.{own.attention_kind}'), **facts))}</p>")
    st.button(words("paste.use"), key="memory-config-use", type="primary", on_click=_take)


def _take() -> None:
    """The pasted configuration becomes the model; the file wins. What is wrong with it is kept to be said."""
    file = st.session_state.get(FILE)
    try:
        config = parse_config(file.getvalue() if file else st.session_state.get(TYPED) or "")
        model = profile_from_config(config, choices.PASTED)
        # Who does not name it sees its architecture: a word of both languages.
        st.session_state[choices.PASTED] = model if model.repo else replace(model, title=model.model_type)
        st.session_state[FAILED] = None
    except LabError as error:
        st.session_state[FAILED] = error
    else:
        choices.keep(model=choices.PASTED)


def _formula(choice: Choice, words: Words) -> None:
    lines = "".join(f"<p class='lab-said'>{parts.prose(line)}</p>" for line in calculator.formula(choice, words))
    of_device = [choice.device.sources[name] for name in ("nominal_bytes", "usable_bytes", "memory_bytes_per_s") if name in choice.device.sources]
    found = [source for name in ("layers", "parameters") if (source := choice.model.sources.get(name))] + of_device
    sources = parts.sentence_citing(words, "formula.sources", "; ".join(dict.fromkeys(found)))
    kind = words(f"kinds.{choice.model.attention_kind}")
    outcome.section(words("formula.title"))
    st.html(
        f"<div class='lab-source'>{parts.badge('computed', words)}<span>{escape(choice.model.title)}: {escape(kind)}</span></div>"
        f"{lines}<p class='lab-note'>{sources}</p>"
    )


def _tables(choice: Choice, words: Words) -> None:
    head, rows = calculator.designs(choice, words)
    if len(rows) > 1:
        outcome.section(words("designs.title"))
        _case(choice, words)
        st.html(parts.plain_table(head, rows, words("designs.title")))
        st.html(f"<p class='lab-note'>{escape(words('designs.what'))}</p>")
    outcome.section(words("formats.title"))
    _case(choice, words)
    st.html(parts.plain_table(*calculator.formats(choice, words), words("formats.title")))


def _case(choice: Choice, words: Words) -> None:
    """What a table's numbers hold for."""
    facts = {"length": fmt.count(choice.length), "device": calculator.device_title(choice, words), "n": fmt.count(choice.batch)}
    st.html(f"<p class='lab-note'>{escape(words('formats.what', weights=words(f'weight.{choice.weights}'), **facts))}</p>")
