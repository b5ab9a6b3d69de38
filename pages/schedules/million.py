"""The backlog computed for what cannot be measured here: one prefill of up to a million tokens, and the rate it allows."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import streamlit as st

from engine import profiles
from engine.formulas.flops import compute_s
from engine.formulas.queueing import highest_rate_per_s
from pages._ui import charts, fmt, outcome, parts
from pages._ui.palette import Palette
from pages._ui.words import Words
from pages.schedules import sections

TOKENS = (8_192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576)
DEVICES = (1, 2, 4, 8, 16, 32, 64)
UTILISATIONS = (0.3, 0.4, 0.5, 0.6, 0.7, 1.0)


@dataclass(frozen=True)
class Prefill:
    """One prefill on some devices: operations, seconds, and attention's share of both."""

    flops: int
    seconds: float
    attention_share: float

    @property
    def most_per_hour(self) -> float:
        """Prompts per hour at which the load is 1."""
        return 3600 * highest_rate_per_s(self.seconds)


def prefill(model: profiles.ModelProfile, device: profiles.DeviceProfile, tokens: int, devices: int, utilisation: float) -> Prefill:
    """What one prompt costs, computed from the profiles."""
    flops = model.prefill_flops(tokens)
    seconds = compute_s(flops, device.bf16_flops_per_s, utilisation=utilisation, devices=devices)
    return Prefill(flops, seconds, model.attention_flops(tokens) / flops)


def section(words: Words, colors: Palette, *, touch: bool) -> None:
    """The widgets, the result with its formula, and the picture; only this part runs again when one is moved."""
    outcome.section(words("million.title"))
    st.markdown(words.part("million"))

    @st.fragment
    def draw() -> None:
        models, devices = profiles.models(), profiles.devices()
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="lab-run-million"):
            llamas = [name for name, model in models.items() if name.startswith("llama") and model.dense]
            model = models[_choice(words("million.model"), llamas, models, "llama-3-8b", "million-model")]
            device = devices[_choice(words("million.device"), list(devices), devices, "h100-sxm", "million-device")]
            share = st.selectbox(
                words("million.utilisation"), UTILISATIONS, 2, format_func=fmt.share, key="million-use", width=260, persist_state="session"
            )
        left, right = st.columns(2, gap="large")
        tokens = left.select_slider(
            words("million.tokens"), TOKENS, TOKENS[-1], format_func=fmt.count, key="million-tokens", persist_state="session"
        )
        count = right.select_slider(words("million.devices"), DEVICES, 1, format_func=fmt.count, key="million-devices", persist_state="session")
        st.html(_outcome(model, device, tokens, count, share, words))
        figure = _figure(model, device, tokens, count, share, words, colors, touch)
        sections.chart(figure, words("million.alt"), "million-figure")
        st.html(
            f"<p class='lab-note'>{escape(words('million.what'))}</p>"
            f"<p class='lab-note'>{parts.sentence_citing(words, 'million.sources', _sources(model, device))}</p>"
        )

    draw()


def _choice(label: str, names: list[str], known: dict, first: str, key: str) -> str:
    return st.selectbox(
        label, names, names.index(first), format_func=lambda name: known[name].title, key=key, width=260, persist_state="session"
    )


def _outcome(model, device, tokens: int, count: int, share: float, words: Words) -> str:
    found = prefill(model, device, tokens, count, share)
    numbers = [
        (words("million.seconds"), _time(found.seconds)),
        (words("million.pace"), words("million.per_hour", n=f"{found.most_per_hour:,.1f}")),
        (words("million.share"), fmt.share(found.attention_share)),
        (words("million.kv"), fmt.bytes_(kv := model.kv_bytes_per_token() * tokens)),
    ]
    needed, there = model.weight_bytes() + kv, count * device.capacity_bytes
    fits = words(
        "million.fits" if needed <= there else "million.too_large", needed=fmt.bytes_(needed), there=fmt.bytes_(there)
    )
    formula = words(
        "million.formula",
        params=fmt.count(model.matrix_parameters),
        tokens=fmt.count(tokens),
        layers=model.layers,
        heads=model.heads,
        head_dim=model.head_dim,
        flops=fmt.power(found.flops),
        devices=count,
        rate=fmt.power(device.bf16_flops_per_s),
        utilisation=fmt.share(share),
    )
    badge = parts.badge("computed", words)
    return f"{parts.figures(numbers)}<p class='lab-said'>{escape(fits)}</p><p class='lab-note'>{badge} {escape(formula)}</p>"


def _time(seconds: float) -> str:
    return fmt.duration(seconds) if seconds >= 10 else fmt.seconds(seconds)


def _figure(model, device, tokens: int, count: int, share: float, words: Words, colors: Palette, touch: bool) -> dict:
    def seconds(flops: int) -> float:
        return compute_s(flops, device.bf16_flops_per_s, utilisation=share, devices=count)

    lines = {"all": model.prefill_flops, "attention": model.attention_flops, "matrices": model.matrix_flops}
    x = tuple(float(t) for t in TOKENS)
    series = [
        charts.Series(words(f"million.line_{name}"), x, tuple(seconds(flops(t)) for t in TOKENS), style, markers=name == "all")
        for style, (name, flops) in enumerate(lines.items())
    ]
    return charts.lines(
        series,
        charts.Axis(words("million.x"), fmt.count, log=True, at=x[1::2]),
        charts.Axis(words("million.y"), fmt.seconds, fmt.tick, log=True),
        colors,
        touch=touch,
        marks=(charts.Mark(_time(seconds(model.prefill_flops(tokens))), float(tokens)),),
    )


def _sources(model, device) -> str:
    return "; ".join(dict.fromkeys([model.sources["layers"], model.sources["ffn_size"], device.sources["bf16_flops_per_s"]]))
