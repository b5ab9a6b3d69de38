"""Claims on how large a KV cache is and how many fit a card: A1 to A4, B3, B4."""

from __future__ import annotations

from engine import profiles
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import (
    BF16_BYTES,
    GB,
    RESERVE,
    TOKENS_A,
    TOKENS_B,
    bf16,
    capacity_bytes,
    chosen,
    kv_heads,
    kv_shape,
    nominal_bytes,
    parameters,
    reserve,
    said,
    tokens,
)
from engine.formulas.kv import kv_bytes_per_token
from engine.formulas.memory import requests_that_fit, room_bytes
from engine.profiles import DeviceProfile, ModelProfile

LESSONS = ("memory",)
SHORT = 4_096
KV = "2 × {n_layers} × {n_kv} × {d_head} × {L} × {b}"
FITTING = "⌊max(0, {G} × {M} × (1 − {r}) − {b} × {P}) ÷ (" + KV + ")⌋"
# The shape of Llama 3 8B as text A gives it.
A_LAYERS, A_HEADS, A_HEAD_DIM = 32, 32, 128


def a1() -> Claim:
    """KV at 4,096 tokens by the text's own formula."""
    return Claim("A1", LESSONS, "wrong", (_by_formula_of_a("own", SHORT, said=(1 * GB,)),))


def a2() -> Claim:
    """The same at 128,000 tokens; and at 131,072, which text B means by 128K."""
    lines = (_by_formula_of_a("own", TOKENS_A, said=(32 * GB,)), _by_formula_of_a("power", TOKENS_B))
    return Claim("A2", LESSONS, "wrong", lines)


def a3() -> Claim:
    """The model has 8 KV heads, and KV heads are what the formula needs."""
    model = profiles.model("llama-3-8b")
    per_token = _per_token_by_a()
    lines = (
        Line("kv_heads", "{n_kv}", (kv_heads(model),), model.kv_heads, "heads", (A_HEADS,)),
        Line("token", "2 × {n_layers} × {n_kv} × {d_head} × {b}", kv_shape(model), model.kv_bytes_per_token(), "B/token", (per_token,)),
        _kv_of("short", model, tokens("A", SHORT), (1 * GB,)),
        _kv_of("long", model, tokens("A", TOKENS_A), (32 * GB,)),
    )
    return Claim("A3", LESSONS, "wrong", lines)


def a4() -> Claim:
    """A request of 128,000 tokens against an 80 GB card: with grouped queries, and with a model that has none."""
    card = profiles.device("h100-sxm")
    gqa, mha = profiles.model("llama-3-8b"), profiles.model("llama-2-7b")
    length = tokens("A", TOKENS_A)

    def share(name: str, model: ModelProfile) -> Line:
        given = (*kv_shape(model), length, nominal_bytes(card))
        return Line(name, KV + " ÷ {M}", given, model.kv_bytes(TOKENS_A).total / card.nominal_bytes, "share", (0.5,))

    def with_weights(name: str, model: ModelProfile) -> Line:
        total = model.weight_bytes(BF16_BYTES) + model.kv_bytes(TOKENS_A).total
        return Line(name, "{b} × {P} + " + KV, (*kv_shape(model), parameters(model), length), total, "B")

    lines = (
        share("share_gqa", gqa),
        share("share_mha", mha),
        with_weights("total_gqa", gqa),
        with_weights("total_mha", mha),
        _fitting("fit_gqa", gqa, card, length, RESERVE),
        _fitting("fit_mha", mha, card, length, RESERVE),
    )
    return Claim("A4", LESSONS, "wrong", lines)


def b3() -> Claim:
    """KV of eight sequences: the text's formula is one layer of a model without grouped queries."""
    model = profiles.model("llama-2-70b")
    width, batch, text = 8192, 8, (26 * GB,)
    own = (said("B", "B", batch), said("B", "L", TOKENS_B, "tokens"), said("B", "d", width), said("B", "b", BF16_BYTES, "B"))
    one = _kv_of("sequence", model, tokens("B", TOKENS_B))
    lines = (
        Line("own", "{B} × 2 × {L} × {d} × {b}", own, batch * 2 * TOKENS_B * width * BF16_BYTES, "B", text),
        one,
        Line("batch", "{B} × " + KV, (said("B", "B", batch), *one.inputs), batch * one.value, "B", text),
    )
    return Claim("B3", LESSONS, "wrong", lines)


def b4() -> Claim:
    """How many such sequences fit cards of 80 GB, weights included."""
    model, card = profiles.model("llama-2-70b"), profiles.device("a100-80gb-sxm")
    length, text = tokens("B", TOKENS_B), (2, 3)
    kv, batch, nominal = 26 * GB, 8, 80 * GB
    own = (said("B", "M", nominal, "B"), said("B", "KV", kv, "B"), said("B", "B", batch))
    weights = model.weight_bytes(BF16_BYTES)
    lines = (
        Line("weights", "{b} × {P}", (bf16(), parameters(model)), weights, "B"),
        _fitting("one", model, card, length, RESERVE, said=text),
        _fitting("four_all", model, card, length, 0.0, devices=4),
        _fitting("four_reserve", model, card, length, RESERVE, devices=4),
        Line("own", "⌊{M} ÷ ({KV} ÷ {B})⌋", own, nominal * batch // kv, "sequences", text),
    )
    return Claim("B4", LESSONS, "wrong", lines)


CLAIMS = (a1, a2, a3, a4, b3, b4)


def _per_token_by_a() -> int:
    return kv_bytes_per_token(A_LAYERS, A_HEADS, A_HEAD_DIM, bytes_per_value=BF16_BYTES)


def _by_formula_of_a(name: str, length: int, said: tuple[float, ...] = ()) -> Line:
    shape = {"n_layers": A_LAYERS, "n_heads": A_HEADS, "d_head": A_HEAD_DIM}
    given = (*(_of_a(symbol, value) for symbol, value in shape.items()), _length(length), _of_a("B", 1))
    formula = "2 × 2 × {n_layers} × {n_heads} × {d_head} × {L} × {B}"
    return Line(name, formula, given, _per_token_by_a() * length, "B", said)


def _of_a(symbol: str, value: float) -> Input:
    return said("A", symbol, value)


def _length(count: int) -> Input:
    """131,072 is not in text A, which means 128,000 by 128K."""
    return chosen("power", "L", count, "tokens") if count == TOKENS_B else tokens("A", count)


def _kv_of(name: str, model: ModelProfile, length: Input, said: tuple[float, ...] = ()) -> Line:
    return Line(name, KV, (*kv_shape(model), length), model.kv_bytes(int(length.value)).total, "B", said)


def _fitting(
    name: str, model: ModelProfile, device: DeviceProfile, length: Input, share: float, *, devices: int = 1, said: tuple = ()
) -> Line:
    """How many such requests fit, weights and reserve taken off."""
    room = room_bytes(devices * device.capacity_bytes, model.weight_bytes(BF16_BYTES), share)
    fit = requests_that_fit(room, model.kv_bytes(int(length.value)).total)
    given = (*kv_shape(model), length, parameters(model), capacity_bytes(device), chosen("cards", "G", devices), reserve(share))
    return Line(name, FITTING, given, fit, "sequences", said)
