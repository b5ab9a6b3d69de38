"""Ten million tokens: what their cache weighs, how long it travels, how long it takes to read, to hold and to go on with.

Pure: profiles and a choice in, sentences and tables out; the links and what is counted as between machines are those of the
transfer lesson. A prefill is counted at least: 2 x the parameters a token meets, and causal attention of the layers that see
everything; windows, states and what leaves out the embedding are small beside these at this length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.formulas.flops import attention_flops, compute_s, matrix_flops
from engine.formulas.kv import KV_DTYPES, Attention, Latent
from engine.formulas.memory import request_bytes
from engine.formulas.transfer import least_bytes_per_s, transfer_s
from engine.profiles import DeviceProfile, LinkProfile, ModelProfile
from pages._ui import fmt
from pages._ui.charts import log_ticks
from pages._ui.choosing import chosen
from pages._ui.words import Words
from pages.open.state_story import with_state
from pages.transfer.calculator_story import between_machines, bits_per_s, long

Sentence = tuple[str, dict[str, str]]
LONG = 10_000_000
DEVICES = (1, 4, 8, 16, 32, 64)
UTILISATIONS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
LINK, SLOW = "infiniband-ndr", "ethernet-10"
FIRST = {"model": "llama-4-scout", "other": "codestral-mamba-7b", "dtype": "bf16", "device": "h100-sxm", "devices": 8, "utilisation": 0.4}


@dataclass(frozen=True)
class Choice:
    """model: keeps a cache; other: keeps a state; dtype: of KV; devices: prefill and decode together, at this share of their peak."""

    model: ModelProfile
    other: ModelProfile
    dtype: str
    device: DeviceProfile
    devices: int
    utilisation: float

    def size(self, model: ModelProfile, dtype: str | None = None, tokens: int = LONG) -> int:
        """Bytes of one sequence."""
        return request_bytes(model.groups, tokens, dtype or self.dtype)

    def prefill_s(self, tokens: int = LONG) -> float:
        """Of the model with a cache, at least."""
        flops = prefill_flops(self.model, tokens)
        return compute_s(flops, self.device.bf16_flops_per_s, utilisation=self.utilisation, devices=self.devices)

    def read_s(self, tokens: int = LONG) -> float:
        """Of a decode step: the cache alone, once, with all devices at their full bandwidth."""
        return self.size(self.model, tokens=tokens) / (self.device.memory_bytes_per_s * self.devices)

    @property
    def holders(self) -> int:
        """Devices whose memory the cache alone fills."""
        return -(-self.size(self.model) // self.device.capacity_bytes)


def prefill_flops(model: ModelProfile, tokens: int) -> int:
    """Operations, at least. Compressed keys are attended to at the dimensions that they are expanded to. model: of `growing`."""
    found = matrix_flops(model.active_parameters or model.parameters, tokens)
    for group in model.groups:
        if isinstance(group, Attention) and group.window is None:
            found += attention_flops(group.layers, model.heads, (group.key_dim + group.value_dim) // 2, tokens)
        elif isinstance(group, Latent):
            found += attention_flops(group.layers, model.heads, (model.uncompressed_key_dim + model.uncompressed_value_dim) // 2, tokens)
    return found


def growing(models: Mapping[str, ModelProfile]) -> list[str]:
    """Models whose cache grows without end, of known size."""
    return [
        name
        for name, model in models.items()
        if model.parameters and any(isinstance(group, Latent) or (isinstance(group, Attention) and group.window is None) for group in model.groups)
    ]


def choice_of(found: Mapping, models: Mapping[str, ModelProfile], devices: Mapping[str, DeviceProfile]) -> Choice:
    """From whatever a session or an address holds: what is not possible becomes the lesson's own."""

    def one(name: str, allowed) -> object:
        return chosen(found, name, allowed, FIRST)

    return Choice(
        model=models[one("model", growing(models))],
        other=models[one("other", with_state(models))],
        dtype=one("dtype", KV_DTYPES),
        device=devices[one("device", tuple(devices))],
        devices=one("devices", DEVICES),
        utilisation=one("utilisation", UTILISATIONS),
    )


def over(size: int, link: LinkProfile) -> float:
    """Seconds at the link's full rate."""
    return transfer_s(size, link.bytes_per_s, link.latency_s or 0.0)


def figures(choice: Choice, words: Words) -> list[tuple[str, str]]:
    return [
        (words("ten.figure_bytes"), fmt.bytes_(choice.size(choice.model))),
        (words("ten.figure_holders"), words("ten.holders", n=fmt.count(choice.holders), device=choice.device.title)),
        (words("ten.figure_prefill"), words("ten.at_least", value=long(choice.prefill_s()))),
        (words("ten.figure_read"), fmt.seconds(choice.read_s())),
    ]


def said(choice: Choice, links: Mapping[str, LinkProfile]) -> list[Sentence]:
    """The transfer; what it is beside the prefill; where it is all there is; what a decode step reads; and the state's turn."""
    size, other = choice.size(choice.model), choice.size(choice.other)
    taken, prefill = over(size, links[LINK]), choice.prefill_s()
    facts = {
        "model": choice.model.title,
        "other": choice.other.title,
        "tokens": fmt.count(LONG),
        "bytes": fmt.bytes_(size),
        "format": choice.dtype,
        "link": links[LINK].title,
        "slow": links[SLOW].title.split(",")[0],
        "taken": long(taken),
        "slow_taken": long(over(size, links[SLOW])),
        "prefill": long(prefill),
        "devices": f"{choice.devices} × {choice.device.title}" if choice.devices > 1 else choice.device.title,
        "share": fmt.share(choice.utilisation),
        "ratio": fmt.times(prefill / taken if prefill > taken else taken / prefill),
        "rate": bits_per_s(least_bytes_per_s(size, prefill)),
        "read": fmt.seconds(choice.read_s()),
        "per_s": fmt.number(1 / choice.read_s()),
        "other_bytes": fmt.bytes_(other),
        "other_taken": long(over(other, links[LINK])),
        "times": fmt.times(size / other if size > other else other / size),
    }
    return [
        ("ten.headline", facts),
        ("ten.prefill_longer" if prefill > taken else "ten.link_longer", facts),
        ("ten.again", facts),
        ("ten.read", facts),
        ("ten.other_less" if other < size else "ten.other_more", facts),
    ]


def _times(choice: Choice, links: Mapping[str, LinkProfile], tokens: int) -> dict[str, float]:
    """Seconds of each line of the chart."""
    size = choice.size(choice.model, tokens=tokens)
    return {"prefill": choice.prefill_s(tokens), "slow": over(size, links[SLOW]), "link": over(size, links[LINK]), "read": choice.read_s(tokens)}


def spec(choice: Choice, links: Mapping[str, LinkProfile], words: Words) -> dict:
    """Seconds by length, both logarithmic: reading a text, sending its cache over two links, one decode step. See pages/_ui/plot.py."""
    at = sorted({2**n for n in range(12, 24)} | {LONG})
    found = [_times(choice, links, n) for n in at]
    lines = []
    for style, name in enumerate(("prefill", "slow", "link", "read")):
        called = _line(name, links, words)
        points = [[n, times[name]] for n, times in zip(at, found, strict=True)]
        texts = [f"{called}\n{words('ten.at', n=fmt.count(n), value=long(value))}" for n, value in points]
        line = {"name": called, "points": points, "texts": texts, "style": style}
        lines.append({**line, "label": "end", "solid": name == "prefill", "width": 2.6})
    values = [value for times in found for value in times.values()]
    low, high = min(values) / 1.6, max(values) * 1.6
    across = [[n, fmt.count(n)] for n in (4_096, 32_768, 262_144, 1_048_576, LONG)]
    up = [[v, _tick(v)] for v in log_ticks(low, high) if low <= v <= high]
    return {
        "height": 380,
        "x": {"title": words("ten.axis_tokens"), "log": True, "range": [at[0], LONG], "ticks": across},
        "y": {"title": words("ten.axis_seconds"), "log": True, "range": [low, high], "ticks": up},
        "lines": lines,
    }


def _line(name: str, links: Mapping[str, LinkProfile], words: Words) -> str:
    if name in ("prefill", "read"):
        return words(f"ten.line_{name}")
    return links[SLOW if name == "slow" else LINK].title.split(",")[0]


def _tick(seconds: float) -> str:
    return fmt.tick(seconds) if seconds < 100 else f"{fmt.count(seconds)} s"


def alt(choice: Choice, links: Mapping[str, LinkProfile], words: Words) -> str:
    """The chart in words."""
    told = ", ".join(f"{_line(name, links, words)} {long(value)}" for name, value in _times(choice, links, LONG).items())
    return words("ten.alt", tokens=fmt.count(LONG), list=told)


def table(choice: Choice, links: Mapping[str, LinkProfile], words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each link: the cache in the chosen format and in int4, and the other model's."""
    columns = [(choice.model, dtype) for dtype in dict.fromkeys((choice.dtype, "int4"))] + [(choice.other, choice.dtype)]
    head = [words("ten.col_link"), words("ten.col_rate")]
    head += [words("ten.col_kept", model=model.title, format=dtype, bytes=fmt.bytes_(choice.size(model, dtype))) for model, dtype in columns]
    rows = [
        [link.title, fmt.bytes_per_s(link.bytes_per_s), *(long(over(choice.size(model, dtype), link)) for model, dtype in columns)]
        for link in between_machines(dict(links))
    ]
    return head, rows
