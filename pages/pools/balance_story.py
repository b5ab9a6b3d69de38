"""How many prefill instances a workload needs for one that decodes. Pure: profiles and a choice in, sentences, bars, a chart and a
table out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

from engine.formulas import pools
from engine.profiles import DeviceProfile, ModelProfile
from pages._ui import fmt, parts
from pages._ui.choosing import chosen
from pages._ui.words import Words
from pages.pools.instance import Decoding, Instance

Sentence = tuple[str, dict[str, str]]
# Prompt and answer tokens. The first two are the medians of two services (Splitwise, section III, figure 3), the others our examples.
WORKLOADS = {"chat": (1_020, 129), "coding": (1_500, 13), "documents": (32_768, 256), "reasoning": (1_024, 8_192)}
OWN = "own"
PROMPT, OUTPUT = (16, 1_048_576), (2, 131_072)
TOTALS = (2, 3, 4, 6, 8, 12, 16)
DEVICES = (1, 2, 4, 8)
TARGETS = (0.02, 0.03, 0.05, 0.1, 0.2)
FIRST = {"model": "llama-3.1-8b", "workload": "chat", "prefill": "h100-sxm", "decode": "h100-sxm", "devices": 1, "total": 8, "target": 0.05, "prompt": 2_048, "output": 256}
OUTPUTS = (16, 128, 1_024, 8_192)
# Lines nearer than this factor to the reader's own would lie on it.
APART = 1.6
# Splits whose rates differ by less than this share are called level.
LEVEL = 0.03


@dataclass(frozen=True)
class Choice:
    """total: instances of both pools together, of `devices` GPUs each; target_s: seconds that a token may take."""

    model: ModelProfile
    prefill_device: DeviceProfile
    decode_device: DeviceProfile
    devices: int
    total: int
    target_s: float
    prompt: int
    output: int

    @property
    def prefill(self) -> Instance:
        return Instance(self.model, self.prefill_device, self.devices)

    @property
    def decode(self) -> Instance:
        return Instance(self.model, self.decode_device, self.devices)

    @property
    def prefill_rate(self) -> float:
        """Requests a second of one instance; 0 where the model does not fit."""
        return 1 / self.prefill.prompt_s(self.prompt) if self.prefill.room > 0 else 0.0

    @property
    def decoding(self) -> Decoding:
        return self.decode.decoding(self.prompt, self.output, self.target_s)

    @property
    def possible(self) -> bool:
        return self.prefill_rate > 0 and self.decoding.rate > 0


def choice_of(found: dict, models: dict, devices: dict) -> Choice:
    """From whatever a session or an address holds: what is not possible becomes the lesson's own."""

    def one(name: str, allowed) -> object:
        return chosen(found, name, allowed, FIRST)

    workload = one("workload", (*WORKLOADS, OWN))
    own = one("prompt", range(PROMPT[0], PROMPT[1] + 1)), one("output", range(OUTPUT[0], OUTPUT[1] + 1))
    prompt, output = WORKLOADS.get(workload, own)
    return Choice(
        models[one("model", tuple(models))],
        devices[one("prefill", tuple(devices))],
        devices[one("decode", tuple(devices))],
        one("devices", DEVICES),
        one("total", TOTALS),
        one("target", TARGETS),
        prompt,
        output,
    )


def ratio(value: float) -> str:
    """Prefill instances for one decode instance, the smaller side as 1: ``2.94`` -> ``2.9 : 1``; ``0.0086`` -> ``1 : 116``."""
    return f"{fmt.number(value)} : 1" if value >= 1 else f"1 : {fmt.number(1 / value)}"


def rate(value: float) -> str:
    """Requests a second, without their unit, which languages write apart."""
    return fmt.number(value) if value < 1000 else fmt.count(value)


def headline(choice: Choice) -> list[Sentence]:
    """The ratio, the best split, an even one, and what goes between the pools; or why nothing can be served."""
    if problem := impossible(choice):
        return [problem]
    decoding, prompt_s = choice.decoding, 1 / choice.prefill_rate
    facts = {
        "prompt": fmt.count(choice.prompt),
        "output": fmt.count(choice.output),
        "prefill": fmt.seconds(prompt_s),
        "decode": fmt.seconds(1 / decoding.rate),
        "batch": fmt.count(decoding.batch),
        "step": fmt.seconds(decoding.step_s),
        "ratio": ratio(pools.ratio(choice.prefill_rate, decoding.rate)),
    }
    return [("balance.ratio", facts), *_split(choice), _limit(decoding, choice), _traffic(choice)]


def impossible(choice: Choice) -> Sentence | None:
    """A model that does not fit, a request that does not, or a target that even one request misses."""
    for instance in (choice.prefill, choice.decode):
        if instance.room <= 0:
            facts = {
                "model": choice.model.title,
                "weights": fmt.bytes_(instance.weights),
                "device": instance.device.title,
                "devices": fmt.count(instance.devices),
                "least": fmt.count(instance.least_devices),
            }
            return "balance.no_room", facts
    decoding = choice.decoding
    if decoding.fit == 0:
        size = choice.decode.kv_bytes(choice.prompt + choice.output)
        return "balance.no_request", {"size": fmt.bytes_(size), "room": fmt.bytes_(choice.decode.room)}
    if decoding.within == 0:
        return "balance.no_target", {"target": fmt.seconds(choice.target_s), "least": fmt.seconds(decoding.step_s)}
    return None


def _split(choice: Choice) -> list[Sentence]:
    rates, total = (choice.prefill_rate, choice.decoding.rate), choice.total
    best = pools.best_split(total, *rates)
    served = pools.split_rate_per_s(*best, *rates)
    busy = pools.busy_shares(*best, *rates)
    facts = {
        "total": fmt.count(total),
        "p": fmt.count(best[0]),
        "d": fmt.count(best[1]),
        "rate": rate(served),
        "prefill_busy": fmt.share(busy[0]),
        "decode_busy": fmt.share(busy[1]),
        "unified": rate(pools.unified_rate_per_s(total, *rates)),
    }
    same = choice.prefill_device == choice.decode_device
    found = [("balance.split", facts), *([("balance.unified", facts)] if same else [])]
    if total % 2 == 0:
        half = total // 2
        halved = pools.split_rate_per_s(half, half, *rates)
        if halved < served * (1 - LEVEL):
            shares = pools.busy_shares(half, half, *rates)
            idle = "prefill" if shares[0] < shares[1] else "decode"
            found.append((f"balance.halves_{idle}", {"half": fmt.count(half), "rate": rate(halved), "idle": fmt.share(1 - min(shares))}))
    return found


def _limit(decoding: Decoding, choice: Choice) -> Sentence:
    """What ends the batch of decode, and what its step does most."""
    facts = {"batch": fmt.count(decoding.batch), "target": fmt.seconds(choice.target_s), "fit": fmt.count(decoding.fit), "within": fmt.count(decoding.within)}
    return ("balance.by_memory" if decoding.fit <= decoding.within else "balance.by_target"), facts


def _traffic(choice: Choice) -> Sentence:
    rates = choice.prefill_rate, choice.decoding.rate
    served = pools.split_rate_per_s(*pools.best_split(choice.total, *rates), *rates)
    one = choice.prefill.kv_bytes(choice.prompt)
    return "balance.traffic", {"rate": rate(served), "bytes": fmt.bytes_(one), "all": fmt.bytes_per_s(served * one)}


def bars(choice: Choice, words: Words) -> str:
    """Every split as a row: its instances as squares, what it serves as a bar, which pool is full. HTML."""
    rates, total = (choice.prefill_rate, choice.decoding.rate), choice.total
    best = pools.best_split(total, *rates)
    most = pools.split_rate_per_s(*best, *rates)
    made = ""
    for p in range(1, total):
        d = total - p
        served, busy = pools.split_rate_per_s(p, d, *rates), pools.busy_shares(p, d, *rates)
        full = "both" if min(busy) > 1 - LEVEL else "prefill" if busy[0] > busy[1] else "decode"
        squares = f"{'<i class=po-p></i>' * p}{'<i class=po-d></i>' * d}"
        mark = " po-best" if (p, d) == best else ""
        pill = f"<span class='lab-pill'>{escape(words('board.best'))}</span>" if mark else ""
        told = words(f"balance.full_{full}", prefill=fmt.share(busy[0]), decode=fmt.share(busy[1]))
        made += (
            f"<div class='po-split{mark}'><b>{p} : {d}</b><span class='po-squares' aria-hidden='true'>{squares}</span>"
            f"<span class='po-bar' aria-hidden='true'><i style='width:{max(100 * served / most, 0.6):.1f}%'></i></span>"
            f"<em>{parts.prose(words('balance.per_s', n=rate(served)))}</em><small>{parts.prose(told)}{pill}</small></div>"
        )
    legend = "".join(f"<li><i class='po-{kind[0]}' aria-hidden='true'></i>{escape(words(f'balance.one_{kind}'))}</li>" for kind in ("prefill", "decode"))
    return f"<ul class='lab-legend po-legend'>{legend}</ul><div class='po-splits'>{made}</div>"


# ------------------------------------------------------------------ over prompts and answers


def spec(choice: Choice, words: Words) -> dict:
    """The ratio by prompt length, a line for each length of answer; both axes logarithmic. See pages/_ui/plot.py."""
    at = sorted({2**n for n in range(7, 18)} | {choice.prompt})
    lines = []
    for style, output in enumerate((choice.output, *(n for n in OUTPUTS if not choice.output / APART < n < choice.output * APART))):
        points = []
        for prompt in at:
            other = replace(choice, prompt=prompt, output=output)
            if other.possible:
                points.append([prompt, pools.ratio(other.prefill_rate, other.decoding.rate)])
        name = words("balance.line", n=fmt.count(output))
        texts = [f"{name}\n{words('balance.at', n=fmt.count(x), ratio=ratio(y))}" for x, y in points]
        lines.append({"name": name, "points": points, "texts": texts, "style": style, "width": 3.2 if style == 0 else 2.0, "solid": style == 0, "label": "end"})
    values = [y for line in lines for _, y in line["points"]]
    low, high = min(values) / 1.6, max(values) * 1.6
    ticks = [v for v in (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0) if low <= v <= high]
    return {
        "height": 380,
        "x": {"title": words("balance.axis_prompt"), "log": True, "range": [at[0], at[-1]], "ticks": [[n, fmt.count(n)] for n in (128, 512, 2_048, 8_192, 32_768, 131_072)]},
        "y": {"title": words("balance.axis_ratio"), "log": True, "range": [low, high], "ticks": [[v, ratio(v).replace(".0", "")] for v in ticks]},
        "lines": lines,
        "marks": [{"across": "x", "at": choice.prompt, "text": words("balance.mark", n=fmt.count(choice.prompt))}],
    }


def alt(choice: Choice, words: Words) -> str:
    found = pools.ratio(choice.prefill_rate, choice.decoding.rate)
    return words("balance.alt", prompt=fmt.count(choice.prompt), output=fmt.count(choice.output), ratio=ratio(found))


def table(choice: Choice, words: Words) -> tuple[list[str], list[list[str]]]:
    """Head and rows: the named workloads (and the reader's own) on the same instances."""
    names = ("workload", "prefill", "decode", "batch", "step", "ratio", "split", "rate", "traffic")
    rows = []
    named = {words(f"balance.work_{name}"): sizes for name, sizes in WORKLOADS.items()}
    if (choice.prompt, choice.output) not in WORKLOADS.values():
        named[words("balance.work_own")] = (choice.prompt, choice.output)
    for title, (prompt, output) in named.items():
        one = replace(choice, prompt=prompt, output=output)
        label = words("balance.sizes", name=title, prompt=fmt.count(prompt), output=fmt.count(output))
        if not one.possible:
            rows.append([label, *[fmt.DASH] * (len(names) - 1)])
            continue
        rates, decoding = (one.prefill_rate, one.decoding.rate), one.decoding
        best = pools.best_split(one.total, *rates)
        served = pools.split_rate_per_s(*best, *rates)
        times = [fmt.seconds(1 / one.prefill_rate), fmt.seconds(1 / decoding.rate), fmt.count(decoding.batch), fmt.seconds(decoding.step_s)]
        ends = [ratio(pools.ratio(*rates)), f"{best[0]} : {best[1]}", rate(served), fmt.bytes_per_s(served * one.prefill.kv_bytes(prompt))]
        rows.append([label, *times, *ends])
    return [words(f"balance.col_{name}") for name in names], rows
