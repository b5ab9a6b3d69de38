"""The memory wall computed: what the browser gets to draw and move it, the formula with its numbers, what other choices would
change. Pure: profiles in, plain data and sentences out; no streamlit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from engine.formulas import memory
from engine.formulas.kv import KV_DTYPES, Attention, Group, Latent, Recurrent, held_tokens, kv_bytes
from engine.profiles import DeviceProfile, ModelProfile
from pages._ui import fmt
from pages._ui.words import Words

WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "int4": 0.5}
DEVICES = (1, 2, 4, 8, 16, 32, 64)
RESERVES = (0.0, 0.05, 0.1, 0.2, 0.3)
LENGTHS, BATCHES = (1, 1 << 24), (1, 4096)
SPOKEN = "wall."
_KINDS = {Attention: "attention", Latent: "latent", Recurrent: "recurrent"}


@dataclass(frozen=True)
class Choice:
    """What the reader has chosen. weights, kv: number formats; reserve: a share of the capacity; length: tokens."""

    model: ModelProfile
    device: DeviceProfile
    devices: int
    weights: str
    kv: str
    reserve: float
    length: int
    batch: int

    @property
    def weight_bytes(self) -> int | None:
        """Without scales, where the weights are quantised: those add a few percent."""
        return None if self.model.parameters is None else round(self.model.parameters * WEIGHT_BYTES[self.weights])

    @property
    def capacity_bytes(self) -> int:
        return self.devices * self.device.capacity_bytes

    @property
    def room_bytes(self) -> int | None:
        """For requests; negative if not even the weights fit; None if their size is not known."""
        if self.weight_bytes is None:
            return None
        return memory.room_bytes(self.capacity_bytes, self.weight_bytes, self.reserve)


def payload(choice: Choice, compare: list[ModelProfile], words: Words) -> dict:
    """What the component in pages/static/js/memory draws: sizes in bytes and bytes per second, JSON-ready."""
    model, device = choice.model, choice.device
    return {
        "words": {key: words(key) for key in words.keys(SPOKEN)},
        "model": _model(model),
        "compare": [_model(other) for other in compare if other.name != model.name],
        "weights": _weights(choice),
        "weight_bytes": choice.weight_bytes,
        "device": {
            "title": device_title(choice, words),
            "capacity_bytes": choice.capacity_bytes,
            "memory_bytes_per_s": choice.devices * device.memory_bytes_per_s,
            "flops_per_s": choice.devices * device.bf16_flops_per_s,
        },
        "reserve_share": choice.reserve,
        "dtype": choice.kv,
        "at": {"length": choice.length, "batch": choice.batch},
    }


def device_title(choice: Choice, words: Words) -> str:
    """ "2 × NVIDIA H100"."""
    return choice.device.title if choice.devices == 1 else words("many_devices", n=choice.devices, device=choice.device.title)


def groups_as_data(groups: tuple[Group, ...]) -> list[dict]:
    """Groups of layers for JavaScript: their fields and their kind."""
    return [{"kind": _KINDS[type(g)], **{f.name: getattr(g, f.name) for f in fields(g)}} for g in groups]


def _model(model: ModelProfile) -> dict:
    return {
        "title": model.title,
        "short": model.title if len(model.title) <= 20 else model.title[:19] + "…",
        "groups": groups_as_data(model.groups),
        "max_context_tokens": model.max_context_tokens,
    }


def _weights(choice: Choice) -> dict | None:
    """What is needed to tell how much of the weights a decode step reads; None if that is not known."""
    model = choice.model
    if model.weight_bytes_read(1) is None:
        return None
    names = ("parameters", "active_parameters", "experts", "experts_per_token")
    return {name: getattr(model, name) for name in names} | {"bytes_per_value": WEIGHT_BYTES[choice.weights]}


def formula(choice: Choice, words: Words) -> list[str]:
    """KV of one request, group of layers by group, with the numbers put in; the last line is the sum."""
    lines = [_group_line(group, choice, words) for group in choice.model.groups]
    if len(lines) > 1:
        total = memory.request_bytes(choice.model.groups, choice.length, choice.kv)
        lines.append(words("formula.sum", bytes=fmt.bytes_(total)))
    return lines


def _group_line(group: Group, choice: Choice, words: Words) -> str:
    if isinstance(group, Recurrent):
        bytes_ = memory.request_bytes((group,), 1, choice.kv)
        return words("formula.recurrent", layers=group.layers, values=fmt.count(group.state_values), bytes=fmt.bytes_(bytes_))
    found = kv_bytes((group,), choice.length, choice.kv)
    facts = {
        "layers": group.layers,
        "held": fmt.count(held_tokens(group, choice.length)),
        "value": words(f"formula.value_{choice.kv}"),
        "bytes": fmt.bytes_(found.payload),
        "scales": words("formula.scales", bytes=fmt.bytes_(found.scales)) if found.scales else "",
    }
    if isinstance(group, Latent):
        return words("formula.latent", rank=group.rank, rope=group.rope_dim, **facts)
    key = "formula.attention" if group.key_dim == group.value_dim else "formula.attention_uneven"
    line = words(key, heads=group.kv_heads, dim=group.key_dim, key=group.key_dim, value_dim=group.value_dim, **facts)
    if group.window is not None and choice.length > group.window:
        line += " " + words("formula.window", window=fmt.count(group.window), length=fmt.count(choice.length))
    return line


def formats(choice: Choice, words: Words) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: the same request in every KV format."""
    head = [words(f"formats.{name}") for name in ("format", "payload", "scales", "request", "most", "longest")]
    rows = []
    for dtype in KV_DTYPES:
        found = kv_bytes(choice.model.groups, choice.length, dtype)
        request = memory.request_bytes(choice.model.groups, choice.length, dtype)
        rows.append(
            [
                words(f"format.{dtype}"),
                fmt.bytes_(found.payload),
                fmt.bytes_(found.scales) if found.scales else fmt.DASH,
                fmt.bytes_(request),
                *_limits(choice, choice.model.groups, dtype, words),
            ]
        )
    return head, rows


def designs(choice: Choice, words: Words) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: the model as it is, and as it would be with other attention, the same otherwise."""
    head = [words(f"designs.{name}") for name in ("design", "token", "factor", "most", "request", "longest")]
    actual = memory.request_bytes(choice.model.groups, choice.length, choice.kv)
    rows = []
    for name, groups in variants(choice.model):
        request = memory.request_bytes(groups, choice.length, choice.kv)
        most, longest = _limits(choice, groups, choice.kv, words)
        token, factor = fmt.bytes_(request / choice.length), words("times", n=f"{request / actual:.2g}")
        rows.append([words(f"design.{name}"), token, factor, most, fmt.bytes_(request), longest])
    return head, rows


def variants(model: ModelProfile) -> Iterator[tuple[str, tuple[Group, ...]]]:
    """The model's groups under the name "as_is", and what they would be without what saves KV in them: each query head with
    its own K and V, in place of a latent too; no windows; with one KV head; with a window of 4,096 tokens in three of four layers."""
    yield "as_is", model.groups
    attention = [group for group in model.groups if isinstance(group, Attention)]
    if model.uncompressed_key_dim and model.uncompressed_value_dim:
        yield "no_latent", tuple(_without_latent(group, model) for group in model.groups)
    if any(group.kv_heads < model.heads for group in attention):
        yield "mha", _changed(model.groups, kv_heads=model.heads)
    if any(group.window for group in attention):
        yield "no_window", _changed(model.groups, window=None)
    if any(group.kv_heads > 1 for group in attention):
        yield "mqa", _changed(model.groups, kv_heads=1)
    if len(model.groups) == 1 and attention and attention[0].window is None and attention[0].layers >= 4:
        full = attention[0].layers // 4
        yield "windows", (replace(attention[0], layers=full), replace(attention[0], layers=attention[0].layers - full, window=4096))


def _without_latent(group: Group, model: ModelProfile) -> Group:
    if not isinstance(group, Latent):
        return group
    return Attention(group.layers, model.heads, model.uncompressed_key_dim, model.uncompressed_value_dim)


def _changed(groups: tuple[Group, ...], **changes: object) -> tuple[Group, ...]:
    return tuple(replace(group, **changes) if isinstance(group, Attention) else group for group in groups)


def _limits(choice: Choice, groups: tuple[Group, ...], dtype: str, words: Words) -> tuple[str, str]:
    """How many requests of this length fit, and the longest context for this many; as texts."""
    room = choice.room_bytes
    if room is None:
        return fmt.DASH, fmt.DASH
    most = memory.requests_that_fit(room, memory.request_bytes(groups, choice.length, dtype))
    longest = memory.longest_context(groups, dtype, room, choice.batch)
    return fmt.count(most), words("wall.no_limit") if longest is None else fmt.count(longest)
