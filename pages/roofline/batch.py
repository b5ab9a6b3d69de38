"""The batch slider: when a decode step of a published model becomes compute-bound, and what ends the batch before."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine import profiles
from engine.formulas.kv import Attention, Latent, Recurrent
from engine.profiles import ModelProfile
from pages._ui import fmt, outcome, parts, plot, predict
from pages._ui.words import Words
from pages.roofline import decode, picture, story
from pages.roofline.decode import Machine
from pages.roofline.story import Sentence

BATCHES = (1, *(half << k for k in range(11) for half in (2, 3)), 4096)
CONTEXTS = tuple(2**k for k in range(7, 21))
DEVICES = (1, 2, 4, 8, 16, 32, 64)
HERE = "here"
FIRST_MODEL, FIRST_DEVICE, FIRST_CONTEXT, FIRST_BATCH = "llama-3.1-8b", "h100-sxm", 8192, 32
HEIGHT = 400
NEAR = 4  # two upright lines closer than this factor have no room for the words of both
STYLES = {"linear": 0, "attention": 3, "whole": 1}


def section(result: dict, words: Words) -> None:
    """Widgets, numbers, what they mean, the picture. Only this part runs again when a slider is moved."""
    outcome.section(words("section.batch"))
    st.markdown(words.part("batch"))
    predict.section("roofline", "batch", words)

    @st.fragment
    def draw() -> None:
        models = {name: m for name, m in profiles.models().items() if decode.usable(m)}
        machines = machines_for(result)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="lab-batch-of"):
            model = models[_choice("model", models, FIRST_MODEL, lambda n: models[n].title, words)]
            chosen = _choice("device", machines, FIRST_DEVICE, lambda n: _title(machines[n], words), words)
            count = 1
            if chosen != HERE:
                count = st.selectbox(words("batch.devices"), DEVICES, key="roofline-devices", width=200, persist_state="session")
        left, right = st.columns(2, gap="large")
        context = left.select_slider(
            words("batch.context"), CONTEXTS, FIRST_CONTEXT, format_func=fmt.count, key="roofline-context", persist_state="session"
        )
        size = right.select_slider(
            words("batch.batch"), BATCHES, FIRST_BATCH, format_func=fmt.count, key="roofline-batch", persist_state="session"
        )
        machine = machines[chosen].times(count)
        st.html(parts.figures(figures(model, machine, size, context, words)))
        said = [words(key, **facts) for key, facts in sentences(model, machine, size, context, words)]
        st.html("".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in said))
        plot.show(spec(model, machine, size, context, words), alt=alt(model, machine, context, words), key="roofline-batch-plot")
        st.html(_formula(model, machine, size, context, words) + _notes(model, chosen, words))

    draw()


def machines_for(result: dict | None) -> dict[str, Machine]:
    """What can be chosen: published devices, and the machine of the result with the roof that was measured."""
    found = {
        name: Machine(d.title, picture.published(d), d.capacity_bytes) for name, d in profiles.devices().items()
    }
    roof = story.roof(result) if result else None
    memory = result["manifest"]["device"].get("memory_bytes") if result else None
    if roof and memory:
        found[HERE] = Machine(result["manifest"]["device"]["name"], roof, memory, measured=True)
    return found


def figures(model: ModelProfile, machine: Machine, batch: int, context: int, words: Words) -> list[tuple[str, str]]:
    """(what, value) of the chosen batch."""
    step = decode.step(model, machine, batch, context)
    fit = decode.requests(model, machine, context)
    return [
        (words("batch.intensity_linear"), fmt.intensity(step.linear_intensity)),
        (words("batch.intensity_attention"), fmt.intensity(step.attention_intensity)),
        (words("figure.ridge"), fmt.intensity(machine.roof.ridge)),
        (words("batch.idle"), fmt.share(step.idle_share)),
        (words("batch.step"), fmt.seconds(step.seconds)),
        (words("batch.rate"), fmt.rate(batch / step.seconds)),
        (words("batch.fit"), words("batch.no_fit") if fit is None else fmt.count(fit)),
    ]


def sentences(model: ModelProfile, machine: Machine, batch: int, context: int, words: Words) -> list[Sentence]:
    """What the choice means: the matrices, attention, and which end the batch meets first."""
    return [
        _matrices(model, machine, batch, context),
        _attention(model, machine, batch, context, words),
        *_memory(model, machine, batch, context),
        ("batch.endless", {"idle": fmt.share(decode.endless_idle_share(model, machine, context))}),
    ] + ([("batch.context_over", {"most": fmt.count(model.max_context_tokens)})] if context > (model.max_context_tokens or context) else [])


def spec(model: ModelProfile, machine: Machine, batch: int, context: int, words: Words) -> dict:
    """Intensity over the batch, with the crossing, the chosen batch, and where the memory is full."""
    steps = {b: decode.step(model, machine, b, context) for b in BATCHES}
    lines = {
        "linear": [[b, s.linear_intensity] for b, s in steps.items()],
        "attention": [[b, s.attention_intensity] for b, s in steps.items()],
        "whole": [[b, s.intensity] for b, s in steps.items()],
    }
    drawn = {name: [at for at in line if at[1] > 0] for name, line in lines.items()}
    values = [y for line in drawn.values() for _, y in line] + [machine.roof.ridge]
    y = [min(values) / 2, max(values) * 2]
    fit = decode.requests(model, machine, context)
    close = bool(fit) and 1 / NEAR < fit / batch < NEAR  # the slider says the batch too, so the wall's words come first
    marks = [
        {"across": "y", "at": machine.roof.ridge, "text": words("batch.mark_ridge", ridge=fmt.intensity(machine.roof.ridge))},
        {"across": "x", "at": batch, "text": "" if close else words("batch.mark_batch", n=fmt.count(batch))},
    ]
    if fit and fit <= BATCHES[-1]:
        marks.append({"across": "x", "at": fit, "text": words("batch.mark_fit", n=fmt.count(fit))})
    return {
        "height": HEIGHT,
        "x": {
            "title": words("batch.x"),
            "log": True,
            "range": [1, BATCHES[-1]],
            "ticks": [[b, fmt.count(b)] for b in (1, 4, 16, 64, 256, 1024, 4096)],
        },
        "y": picture.axis(words("batch.y"), y, picture.plain),
        "lines": [
            {
                "name": words(f"batch.{name}"),
                "points": points,
                "style": STYLES[name],
                "width": 2.4,
                "label": "end",
                "texts": [f"{words(f'batch.{name}')}\n{words('batch.mark_batch', n=fmt.count(b))}: {fmt.intensity(v)}" for b, v in points],
            }
            for name, points in drawn.items()
            if points
        ],
        "marks": marks,
    }


def alt(model: ModelProfile, machine: Machine, context: int, words: Words) -> str:
    """The picture in words."""
    first, last = (decode.step(model, machine, b, context) for b in (BATCHES[0], BATCHES[-1]))
    return words(
        "alt.batch",
        model=model.title,
        machine=machine.title,
        context=fmt.count(context),
        low=fmt.intensity(first.linear_intensity),
        high=fmt.intensity(last.linear_intensity),
        attention=fmt.intensity(last.attention_intensity),
        whole=fmt.intensity(last.intensity),
        ridge=fmt.intensity(machine.roof.ridge),
    )


def _matrices(model: ModelProfile, machine: Machine, batch: int, context: int) -> Sentence:
    step, begin = decode.step(model, machine, batch, context), decode.compute_bound_from(model, machine)
    facts = {
        "batch": fmt.count(batch),
        "intensity": fmt.intensity(step.linear_intensity),
        "ridge": fmt.intensity(machine.roof.ridge),
        "times": fmt.ratio(machine.roof.ridge / step.linear_intensity),
        "from_batch": fmt.count(begin),
    }
    return "batch.never" if begin is None else "batch.below" if batch < begin else "batch.beyond", facts


def _attention(model: ModelProfile, machine: Machine, batch: int, context: int, words: Words) -> Sentence:
    value = decode.step(model, machine, batch, context).attention_intensity
    if value == 0:
        return "batch.attention_state", {}
    facts = {
        "intensity": fmt.intensity(value),
        "times": fmt.ratio(machine.roof.ridge / value),
        "ridge": fmt.intensity(machine.roof.ridge),
        "why": _why(model, words),
    }
    return "batch.attention_low" if value < machine.roof.ridge else "batch.attention_high", facts


def _why(model: ModelProfile, words: Words) -> str:
    """What decides the intensity of this model's attention."""
    if any(isinstance(g, Latent) for g in model.groups):
        return words("batch.why_mla", n=fmt.count(model.heads))
    sharing = {model.heads / g.kv_heads for g in model.groups if isinstance(g, Attention)}
    if len(sharing) != 1:
        return words("batch.why_mixed")
    group = sharing.pop()
    if any(isinstance(g, Recurrent) for g in model.groups):
        return words("batch.why_hybrid", n=fmt.count(group))
    if group == 1:
        return words("batch.why_mha")
    return words("batch.why_mqa" if group == model.heads else "batch.why_gqa", n=fmt.count(group))


def _memory(model: ModelProfile, machine: Machine, batch: int, context: int) -> list[Sentence]:
    fit, begin = decode.requests(model, machine, context), decode.compute_bound_from(model, machine)
    facts = {"weights": fmt.bytes_(model.weight_bytes(machine.bytes_per_value)), "context": fmt.count(context)}
    if fit is None:
        return [("batch.too_large", {**facts, "there": fmt.bytes_(machine.capacity_bytes)})]
    if fit == 0:
        return [("batch.no_request", facts)]
    facts |= {"fit": fmt.count(fit), "idle": fmt.share(decode.step(model, machine, fit, context).idle_share)}
    if begin is None:
        found: list[Sentence] = [("batch.wall_only", facts)]
    else:
        found = [("batch.wall" if fit < begin else "batch.room", {**facts, "from_batch": fmt.count(begin)})]
    return found + ([("batch.over", {"fit": fmt.count(fit)})] if batch > fit else [])


def _formula(model: ModelProfile, machine: Machine, batch: int, context: int, words: Words) -> str:
    step = decode.step(model, machine, batch, context)
    text = words(
        "batch.formula",
        params=fmt.count(model.active_parameters or model.parameters),
        batch=fmt.count(batch),
        bytes=fmt.bytes_(step.linear_bytes),
        flops=fmt.flops(step.attention_flops),
        moved=fmt.bytes_(step.attention_bytes),
        peak=fmt.flops_per_s(machine.roof.flops_per_s),
        memory=fmt.bytes_per_s(machine.roof.bytes_per_s),
    )
    return f"<div class='lab-formulas'>{parts.badge('computed', words)}<p>{parts.prose(text)}</p></div>"


def _notes(model: ModelProfile, chosen: str, words: Words) -> str:
    found = [model.sources.get("parameters"), model.sources.get("active_parameters"), model.sources.get("layers")]
    if chosen != HERE:
        device = profiles.device(chosen)
        found += [device.sources["bf16_flops_per_s"], device.sources["memory_bytes_per_s"]]
    sources = "; ".join(dict.fromkeys(s for s in found if s))
    return f"<p class='lab-note'>{escape(words('batch.what'))}</p><p class='lab-note'>{parts.sentence_citing(words, 'batch.sources', sources)}</p>"


def _choice(name: str, known: dict, first: str, title, words: Words) -> str:
    names = list(known)
    return st.selectbox(
        words(f"batch.{name}"),
        names,
        index=names.index(first) if first in names else 0,
        format_func=title,
        key=f"roofline-{name}",
        width=320,
        persist_state="session",
    )


def _title(machine: Machine, words: Words) -> str:
    return words("batch.here", name=machine.title) if machine.measured else machine.title
