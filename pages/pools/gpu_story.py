"""Which GPU for which pool: what prefill and decode get of each for its price. Pure: profiles and the reader's prices in, bars,
sentences and tables out.

No price here is a fact: prices change with the seller, the place and the week. The examples are round numbers to begin with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape

from engine.formulas import pools
from engine.profiles import DeviceProfile, ModelProfile
from pages._ui import fmt
from pages._ui.words import Words
from pages.pools.instance import Decoding, Instance

Sentence = tuple[str, dict[str, str]]
# Dollars per hour, examples: nobody's offer.
EXAMPLE_PRICES = {
    "l4": 0.7, "a10": 0.8, "a30": 0.8, "a40": 0.8, "l40": 1.0, "l40s": 1.2, "rtx-3090": 0.3, "rtx-4090": 0.5, "rtx-5090": 0.8,
    "a100-40gb-sxm": 1.5, "a100-80gb-sxm": 2.0, "h100-pcie": 2.5, "h100-nvl": 2.8, "h100-sxm": 3.0, "h200-sxm": 3.8,
    "b200": 6.0, "gb200": 7.0, "mi300x": 3.0, "mi325x": 3.5, "mi355x": 4.5, "gaudi-3": 2.5, "tpu-v5e": 1.2, "tpu-v6e": 2.7,
}  # fmt: skip
ANY_PRICE = 1.0
PRICES = (0.01, 1000.0)
MOST = 6
TOKENS = (128, 1_048_576)
DEVICES = (1, 2, 4, 8)
OUTPUT, TARGET_S = 256, 0.1
FIRST = {"model": "llama-3.1-8b", "tokens": 32_768, "devices": 1, "chosen": ("l40s", "a100-80gb-sxm", "h100-sxm", "h200-sxm"), "against": "a100-80gb-sxm"}
# Measures of a card for its price: which amount, in which unit.
MEASURES = {
    "compute": (lambda device: device.bf16_flops_per_s, pools.PFLOP),
    "wide": (lambda device: device.memory_bytes_per_s, pools.TB),
    "room": (lambda device: device.capacity_bytes, pools.GB),
}


@dataclass(frozen=True)
class Card:
    """A device with the reader's price per hour, serving one model in instances of `devices` of them."""

    device: DeviceProfile
    price: float
    model: ModelProfile
    devices: int
    tokens: int

    @property
    def instance(self) -> Instance:
        return Instance(self.model, self.device, self.devices)

    @property
    def decoding(self) -> Decoding:
        return self.instance.decoding(self.tokens, OUTPUT, TARGET_S)

    def per(self, measure: str) -> float:
        """Dollars per hour for a unit of what a measure counts."""
        amount, unit = MEASURES[measure]
        return pools.price_of(self.price, amount(self.device), unit)

    @property
    def prompt_tokens_per_s(self) -> float:
        """0 where the model does not fit."""
        return self.tokens / self.instance.prompt_s(self.tokens) if self.instance.room > 0 else 0.0

    @property
    def output_tokens_per_s(self) -> float:
        """Of one instance; 0 where not one request has room, or is quick enough."""
        return self.decoding.batch / self.decoding.step_s if self.decoding.batch else 0.0

    def per_million(self, made: str) -> float | None:
        """Dollars for a million tokens, made: "prompt" or "output"; None where there are none."""
        per_s = self.prompt_tokens_per_s if made == "prompt" else self.output_tokens_per_s
        return pools.price_per_million(self.price * self.devices, per_s) if per_s else None


def price_of(name: str, prices: Mapping[str, object]) -> float:
    """The reader's price, else the example; what no price can be is not taken."""
    given = prices.get(name)
    fits = isinstance(given, int | float) and not isinstance(given, bool) and PRICES[0] <= given <= PRICES[1]
    return float(given) if fits else EXAMPLE_PRICES.get(name, ANY_PRICE)


def dollars(value: float | None) -> str:
    """``0.0372`` -> ``$0.037``; ``0.9`` -> ``$0.90``; ``12.34`` -> ``$12.3``; ``1234`` -> ``$1,234``."""
    if value is None:
        return fmt.DASH
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2 if value >= 0.0995 else 3 if value >= 0.00995 else 4
    return f"${value:,.{digits}f}"


def cheapest(cards: list[Card], made: str) -> Card | None:
    """For a million tokens; None if no card makes any."""
    able = [card for card in cards if card.per_million(made) is not None]
    return min(able, key=lambda card: card.per_million(made), default=None)


def headline(cards: list[Card]) -> list[Sentence]:
    """Which card is cheapest for each pool at these prices, and whether one pool of one kind would cost more."""
    best = {made: cheapest(cards, made) for made in ("prompt", "output")}
    if None in best.values():
        return [("gpu.none_fits", {"model": cards[0].model.title, "tokens": fmt.count(cards[0].tokens)})]
    facts = {
        "prefill": best["prompt"].device.title,
        "prefill_cost": dollars(best["prompt"].per_million("prompt")),
        "decode": best["output"].device.title,
        "decode_cost": dollars(best["output"].per_million("output")),
        "tokens": fmt.count(cards[0].tokens),
    }
    return [("gpu.same" if best["prompt"].device == best["output"].device else "gpu.apart", facts)]


def races(cards: list[Card], words: Words) -> str:
    """Three measures side by side, the cheapest marked. HTML."""
    made, pill = "", f"<span class='lab-pill'>{escape(words('board.best'))}</span>"
    for measure in MEASURES:
        costs = [card.per(measure) for card in cards]
        rows = "".join(
            f"<div class='lab-race-row{' lab-best' if cost == min(costs) else ''}'><span class='lab-race-name'>{escape(short(card.device))}</span>"
            f"<span class='lab-race-bar'><span style='width:{100 * cost / max(costs):.1f}%'></span></span>"
            f"<span class='lab-race-value'>{escape(dollars(cost))}</span>"
            f"{pill if cost == min(costs) and len(cards) > 1 else ''}</div>"
            for card, cost in zip(cards, costs, strict=True)
        )
        title, quiet = words(f"gpu.measure_{measure}"), words(f"gpu.for_{measure}")
        made += f"<section class='lab-race'><h3>{escape(title)} <span class='lab-quiet'>{escape(quiet)}</span></h3>{rows}</section>"
    return f"<div class='lab-races po-races'>{made}</div>"


def short(device: DeviceProfile) -> str:
    """Beside a bar there is no room for the maker's name."""
    for maker in ("NVIDIA ", "AMD ", "Intel ", "Google "):
        device = replace(device, title=device.title.removeprefix(maker))
    return device.title


def table(cards: list[Card], words: Words) -> tuple[list[str], list[list[str]]]:
    """Whether the KV fits, how quick decode is, and dollars for a million tokens of either kind."""
    names = ("device", "price", "fit", "step", "speed", "prompt", "output")
    rows = []
    for card in cards:
        found = card.decoding
        fit = words("gpu.no_model") if card.instance.room <= 0 else words("gpu.no_request") if found.fit == 0 else fmt.count(found.fit)
        if found.batch < found.fit:
            fit = words("gpu.slow", fit=fit, batch=fmt.count(found.batch))
        speed = fmt.rate(card.output_tokens_per_s) if found.batch else fmt.DASH
        step = fmt.seconds(found.step_s) if found.batch else fmt.DASH
        costs = [dollars(card.per_million(made)) for made in ("prompt", "output")]
        rows.append([card.device.title, words("gpu.per_hour", price=dollars(card.price * card.devices)), fit, step, speed, *costs])
    return [words(f"gpu.col_{name}") for name in names], rows


def even_prices(cards: list[Card], against: Card, words: Words) -> tuple[list[str], list[list[str]]]:
    """For each other card the price per hour below which it is cheaper than `against` at its price, by each measure."""
    head = [words("gpu.col_device"), words("gpu.col_now"), *(words(f"gpu.even_{name}") for name in ("compute", "wide", "room", "output"))]
    rows = []
    for card in cards:
        if card.device == against.device:
            continue
        limits = [pools.break_even_price(against.price, amount(card.device), amount(against.device)) for amount, _ in MEASURES.values()]
        ours, theirs = card.output_tokens_per_s, against.output_tokens_per_s
        limits.append(pools.break_even_price(against.price, ours, theirs) if ours and theirs else None)
        shown = [fmt.DASH if limit is None else _judged(limit, card.price, words) for limit in limits]
        rows.append([card.device.title, dollars(card.price), *shown])
    return head, rows


def _judged(limit: float, price: float, words: Words) -> str:
    return words("gpu.cheaper" if price < limit else "gpu.dearer", limit=dollars(limit))


def sentence_of_l40s(cards: list[Card]) -> Sentence | None:
    """The text's own pair, if both are there: what the L40S may cost beside an A100 at its price."""
    known = {card.device.name: card for card in cards}
    if not {"l40s", "a100-80gb-sxm"} <= known.keys():
        return None
    small, older = known["l40s"], known["a100-80gb-sxm"]
    ours, theirs = small.output_tokens_per_s, older.output_tokens_per_s
    if not (ours and theirs):
        return "gpu.pair_not", {"tokens": fmt.count(small.tokens)}
    limit = pools.break_even_price(older.price, ours, theirs)
    facts = {
        "share": fmt.share(ours / theirs),
        "limit": dollars(limit),
        "older": dollars(older.price),
        "price": dollars(small.price),
        "small_fit": fmt.count(small.decoding.batch),
        "older_fit": fmt.count(older.decoding.batch),
        "tokens": fmt.count(small.tokens),
    }
    return "gpu.pair_cheaper" if small.price < limit else "gpu.pair_dearer", facts


def cards_of(found: Mapping[str, object], models: Mapping[str, ModelProfile], devices: Mapping[str, DeviceProfile]) -> list[Card]:
    """From whatever a session holds: {"model", "tokens", "devices", "chosen", "prices"}; what is not possible becomes the lesson's own."""
    model, tokens, count = found.get("model"), found.get("tokens"), found.get("devices")
    model = models[model if isinstance(model, str) and model in models else FIRST["model"]]
    tokens = tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and TOKENS[0] <= tokens <= TOKENS[1] else FIRST["tokens"]
    count = count if isinstance(count, int) and not isinstance(count, bool) and count in DEVICES else FIRST["devices"]
    asked = found.get("chosen")
    chosen = [name for name in asked if isinstance(name, str) and name in devices] if isinstance(asked, list | tuple) else []
    prices = found.get("prices")
    prices = prices if isinstance(prices, Mapping) else {}
    names = list(dict.fromkeys(chosen))[:MOST] or list(FIRST["chosen"])
    return [Card(devices[name], price_of(name, prices), model, count, tokens) for name in names]
