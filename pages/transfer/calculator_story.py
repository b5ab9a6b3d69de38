"""The KV of a long prompt over the links of data sheets, and the link below which disaggregation loses. Pure: profiles and a
choice in, sentences, a chart and a table out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.formulas.flops import compute_s
from engine.formulas.kv import KV_DTYPES
from engine.formulas.transfer import least_bytes_per_s, staged_s, transfer_s
from engine.profiles import DeviceProfile, LinkProfile, ModelProfile
from pages._ui import fmt
from pages._ui.charts import log_ticks
from pages._ui.choosing import chosen
from pages._ui.words import Words

Sentence = tuple[str, dict[str, str]]
TOKENS = (1_024, 16_777_216)
LONG = 10_000_000
DEVICES = (1, 2, 4, 8, 16)
UTILISATIONS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
# The links of the chart, slowest first; and between host and GPU.
DRAWN = ("ethernet-10", "ethernet-100", "infiniband-ndr", "nvlink-4")
PCIE = "pcie-5-x16"
# A card's direct profile, and the same card through host memory.
STAGED = (("roce-100", "roce-100-staged"), ("infiniband-ndr", "infiniband-ndr-staged"))
PIECES = 64
FIRST = {"model": "llama-3-70b", "dtype": "bf16", "device": "h100-sxm", "devices": 4, "utilisation": 0.5, "tokens": 131_072}


@dataclass(frozen=True)
class Choice:
    """What the reader has chosen. dtype: of the KV on the way; devices: that prefill together; utilisation: of their peak."""

    model: ModelProfile
    dtype: str
    device: DeviceProfile
    devices: int
    utilisation: float
    tokens: int

    def size(self, tokens: int | None = None, dtype: str | None = None) -> int:
        """Bytes that go over the link: KV with its scales, and recurrent states."""
        kept = dtype or self.dtype
        return self.model.kv_bytes(tokens or self.tokens, kept).total + self.model.state_bytes(kept)

    def prefill_s(self, tokens: int | None = None) -> float | None:
        """Seconds of the prefill, the stall of whoever waits for it; None for a model whose operations are not counted here."""
        if not self.model.dense:
            return None
        flops = self.model.prefill_flops(tokens or self.tokens)
        return compute_s(flops, self.device.bf16_flops_per_s, utilisation=self.utilisation, devices=self.devices)


def choice_of(found: dict, models: dict, devices: dict) -> Choice:
    """From whatever a session or an address holds: what is not possible becomes the lesson's own."""

    def one(name: str, allowed) -> object:
        return chosen(found, name, allowed, FIRST)

    return Choice(
        model=models[one("model", tuple(models))],
        dtype=one("dtype", KV_DTYPES),
        device=devices[one("device", tuple(devices))],
        devices=one("devices", DEVICES),
        utilisation=one("utilisation", UTILISATIONS),
        tokens=one("tokens", range(TOKENS[0], TOKENS[1] + 1)),
    )


def between_machines(links: dict[str, LinkProfile]) -> list[LinkProfile]:
    """From the slowest up, without PCIe, which ends at the machine, and without the staged twins."""
    staged = {other for _, other in STAGED}
    return sorted((link for link in links.values() if link.kind != "pcie" and link.name not in staged), key=lambda link: link.bytes_per_s)


def over(choice: Choice, link: LinkProfile, tokens: int | None = None, dtype: str | None = None) -> float:
    """Seconds over a link at its full rate."""
    return transfer_s(choice.size(tokens, dtype), link.bytes_per_s, link.latency_s or 0.0)


def headline(choice: Choice, links: dict[str, LinkProfile]) -> list[Sentence]:
    """How much goes, over the slowest and the quickest link; and which link is enough."""
    known = between_machines(links)
    slow, quick = known[0], known[-1]
    facts = {
        "model": choice.model.title,
        "tokens": fmt.count(choice.tokens),
        "format": choice.dtype,
        "bytes": fmt.bytes_(choice.size()),
        "slow": slow.title,
        "slow_s": fmt.seconds(over(choice, slow)),
        "quick": quick.title,
        "quick_s": fmt.seconds(over(choice, quick)),
    }
    return [("calc.headline", facts), *worth(choice, known)]


def worth(choice: Choice, known: list[LinkProfile]) -> list[Sentence]:
    """Below which link the transfer takes longer than the stall it spares the others."""
    stall = choice.prefill_s()
    if stall is None:
        return [("calc.no_prefill", {"model": choice.model.title})]
    rate = least_bytes_per_s(choice.size(), stall)
    facts = {
        "devices": f"{choice.devices} × {choice.device.title}" if choice.devices > 1 else choice.device.title,
        "share": fmt.share(choice.utilisation),
        "stall": fmt.seconds(stall),
        "rate": fmt.bytes_per_s(rate),
        "bits": bits_per_s(rate),
        "bytes": fmt.bytes_(choice.size()),
    }
    losing = [link.title for link in known if link.bytes_per_s < rate]
    if not losing:
        return [("calc.all_enough", {**facts, "slowest": known[0].title})]
    if len(losing) == len(known):
        return [("calc.none_enough", facts)]
    return [("calc.limit", {**facts, "losing": losing[-1], "enough": known[len(losing)].title})]


def bits_per_s(rate: float) -> str:
    """As networks are sold: ``1.25e9`` bytes per second -> ``10 Gb/s``."""
    for limit, unit in ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s")):
        if rate * 8 >= limit:
            return f"{rate * 8 / limit:.3g} {unit}"
    return f"{rate * 8 / 1e3:,.3g} kb/s"


def rdma(choice: Choice, links: dict[str, LinkProfile], words: Words) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a card that reaches GPU memory, and the same one through the memory of both hosts."""
    head = [words(f"calc.col_{name}") for name in ("link", "direct", "staged", "pieces", "saves")]
    pcie, rows = links[PCIE].bytes_per_s, []
    for direct, staged in STAGED:
        here = over(choice, links[direct])
        apart, piped = (staged_s(choice.size(), links[staged].bytes_per_s, pcie, links[staged].latency_s or 0.0, pieces=n) for n in (1, PIECES))
        saves = words("calc.from_to", low=fmt.seconds(piped - here), high=fmt.seconds(apart - here))
        rows.append([links[direct].title, *map(fmt.seconds, (here, apart, piped)), saves])
    return head, rows


def table(choice: Choice, links: dict[str, LinkProfile], words: Words) -> tuple[list[str], list[list[str]]]:
    """Head and rows: every link, this prompt in the chosen format and in 16 bits, ten million tokens, and against the prefill."""
    length = words("calc.tokens", n=fmt.count(choice.tokens))
    head = [
        words("calc.col_link"),
        words("calc.col_rate"),
        f"{length}, {choice.dtype}",
        *([] if choice.dtype == "bf16" else [f"{length}, bf16"]),
        f"{words('calc.tokens', n=fmt.count(LONG))}, {choice.dtype}",
        words("calc.col_verdict"),
    ]
    stall = choice.prefill_s()
    rows = []
    for link in between_machines(links):
        taken = over(choice, link)
        against = fmt.DASH if stall is None else words(f"calc.verdict_{'loses' if taken > stall else 'enough'}", share=_of(taken / stall))
        more = [] if choice.dtype == "bf16" else [fmt.seconds(over(choice, link, dtype="bf16"))]
        rows.append([link.title, fmt.bytes_per_s(link.bytes_per_s), fmt.seconds(taken), *more, long(over(choice, link, LONG)), against])
    return head, rows


def _of(ratio: float) -> str:
    """A part of the stall: small ones with a digit, large ones as times."""
    return f"{ratio * 100:.1f} %" if ratio < 0.0995 else fmt.share(ratio) if ratio < 9.995 else f"{ratio * 100:,.0f} %"


def long(seconds: float) -> str:
    """``4213`` -> ``70 min``; as seconds below two minutes."""
    return fmt.seconds(seconds) if seconds < 120 else fmt.duration(seconds) if seconds < 7200 else f"{seconds / 3600:.1f} h"


def lengths(choice: Choice) -> list[int]:
    """Where the lines have points: powers of two, the chosen length and ten million."""
    return sorted({2**n for n in range(10, 24)} | {choice.tokens, LONG})


def spec(choice: Choice, links: dict[str, LinkProfile], words: Words) -> dict:
    """The chart: seconds by prompt length, a line for each link and one for the prefill; both axes logarithmic."""
    at = lengths(choice)
    drawn = [(_short(links[name]), [over(choice, links[name], n) for n in at], style, False) for style, name in enumerate(DRAWN, 1)]
    if choice.model.dense:
        drawn.append((words("calc.prefill"), [choice.prefill_s(n) for n in at], 0, True))
    values = [value for _, found, *_ in drawn for value in found]
    low, high = min(values) / 1.5, max(values) * 1.8
    lines = []
    for name, found, style, solid in drawn:
        texts = [f"{name}\n{words('calc.at', n=fmt.count(n), value=long(value))}" for n, value in zip(at, found, strict=True)]
        points = [[n, value] for n, value in zip(at, found, strict=True)]
        lines.append({"name": name, "points": points, "texts": texts, "style": style, "width": 3.2 if solid else 2.2, "solid": solid, "label": "end"})
    ticks = (1_024, 8_192, 131_072, 1_048_576, LONG)
    return {
        "height": 400,
        "x": {"title": words("calc.axis_tokens"), "log": True, "range": [at[0], at[-1]], "ticks": [[n, fmt.count(n)] for n in ticks]},
        "y": {"title": words("calc.axis_seconds"), "log": True, "range": [low, high], "ticks": [[v, _tick(v)] for v in log_ticks(low, high) if low <= v <= high]},
        "lines": lines,
        "marks": [{"across": "x", "at": choice.tokens, "text": words("calc.tokens", n=fmt.count(choice.tokens))}],
    }


def _short(link: LinkProfile) -> str:
    """Beside its line there is no room for which GPU has it."""
    return link.title.split(",")[0]


def _tick(seconds: float) -> str:
    return fmt.tick(seconds) if seconds < 100 else f"{fmt.count(seconds)} s"


def alt(choice: Choice, links: dict[str, LinkProfile], words: Words) -> str:
    """The chart in words."""
    found = ", ".join(words("calc.alt_one", name=links[name].title, value=long(over(choice, links[name]))) for name in DRAWN)
    stall = choice.prefill_s()
    end = words("calc.alt_prefill", value=long(stall)) if stall is not None else ""
    return f"{words('calc.alt', tokens=fmt.count(choice.tokens))} {found}. {end}".strip()


def longer(choice: Choice) -> Sentence | None:
    """How the least link moves with the length: operations per token grow with it, bytes do not."""
    first, second = choice.prefill_s(), choice.prefill_s(LONG)
    if first is None or second is None or choice.tokens == LONG:
        return None
    rates = [least_bytes_per_s(choice.size(n), s) for n, s in ((choice.tokens, first), (LONG, second))]
    facts = {"bytes": fmt.bytes_(choice.size(LONG)), "prefill": long(second), "rate": bits_per_s(rates[1]), "before": bits_per_s(rates[0])}
    return ("calc.longer", facts) if math.isfinite(rates[1]) else None
