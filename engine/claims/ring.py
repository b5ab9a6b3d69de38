"""Claims on Ring Attention: B8, B9, B10. What was measured of them is in measured_ring.py. G devices are the ranks of the ring."""

from __future__ import annotations

from engine import profiles
from engine.claims import measured_ring as measured
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import (
    BF16_BYTES,
    FP32_BYTES,
    bf16,
    chosen,
    flops_per_s,
    head_dim,
    heads,
    kv_heads,
    kv_shape,
    layers,
    matrices,
    of_link,
    said,
    width,
)
from engine.claims.memory import KV
from engine.claims.prefill import CAUSAL, MATRICES
from engine.formulas import ring
from engine.formulas.flops import compute_s
from engine.profiles import ModelProfile

LESSONS = ("ring",)
RING = "ring"
MILLION, RANKS = 1_000_000, 16
# Two receive buffers, each with room for keys and values of one layer.
BUFFERS = "2 × 2 × {n_kv} × {d_head} × ({L} ÷ {G}) × {b}"
# Of one layer: q, k, v, turned q and k, a block's output; the merged output and the two sums of the softmax in fp32.
WORKED_ON = "({L} ÷ {G}) × ((3 × {n_heads} + 3 × {n_kv}) × {d_head} × {b} + {n_heads} × ({d_head} + 2) × {b_merge})"
ROUND = "2 × ({L} ÷ {G}) × {n_kv} × {d_head} × {b}"
LEAST = "{F} × {b} × {n_kv} ÷ ({n_heads} × {W_link})"


def b8() -> Claim:
    """The score matrix: counted right, but no attention of today stores it; what a rank must hold is K, V and outputs."""
    model = profiles.model("llama-3-8b")
    shape, share = _shape(model), MILLION // RANKS
    length, ranks, value = _length(), _ranks(), bf16()
    of_layer = (heads(model), kv_heads(model), head_dim(model), length, ranks, value)
    lines = (
        Line("matrix", "{L}² × {b}", (length, value), MILLION**2 * BF16_BYTES, "B", (2e12,)),
        Line("block", "({L} ÷ {G})² × {b}", (length, ranks, value), share**2 * BF16_BYTES, "B", (8e9,)),
        Line("kv", KV + " ÷ {G}", (*kv_shape(model), length, ranks), ring.kv_bytes(share, model.layers, shape), "B"),
        Line("buffers", BUFFERS, of_layer[1:], ring.buffer_bytes([share] * RANKS, shape), "B"),
        Line("worked_on", WORKED_ON, (*of_layer, chosen("merge", "b_merge", FP32_BYTES, "B")), ring.activation_bytes(share, shape), "B"),
    )
    return Claim("B8", LESSONS, "incomplete", lines, {RING: measured.kv_of_a_rank})


def b9() -> Claim:
    """Traffic of a round: K and V, of KV heads, in every layer; and it hides only from a certain share of tokens on."""
    gqa, mha, device = profiles.model("llama-3-8b"), profiles.model("llama-2-7b"), profiles.device("h100-sxm")
    by_text = MILLION // RANKS * gqa.hidden_size
    length, ranks = _length(), _ranks()

    def one_round(name: str, model: ModelProfile) -> Line:
        value = MILLION // RANKS * _shape(model).kv_bytes_per_token
        return Line(name, ROUND, (length, ranks, kv_heads(model), head_dim(model), bf16()), value, "B", (by_text,))

    def least(name: str, model: ModelProfile, link_name: str) -> Line:
        link = profiles.link(link_name)
        given = (flops_per_s(device), bf16(), kv_heads(model), heads(model), of_link(link))
        value = ring.least_tokens_to_hide(_shape(model), device.bf16_flops_per_s, link.bytes_per_s)
        return Line(name, LEAST, given, value, "tokens")

    whole = ring.sent_bytes([MILLION // RANKS] * RANKS, 0, gqa.layers, _shape(gqa))
    lines = (
        Line("own", "({L} ÷ {G}) × {d}", (length, ranks, width(gqa)), by_text, "B"),
        one_round("gqa", gqa),
        one_round("mha", mha),
        Line("whole", ROUND + " × {n_layers} × ({G} − 1)", (length, ranks, *kv_shape(gqa)), whole, "B", (by_text,)),
        least("nvlink", gqa, "nvlink-4"),
        least("infiniband", gqa, "infiniband-ndr"),
        least("ethernet", gqa, "ethernet-10"),
    )
    return Claim("B9", LESSONS, "incomplete", lines, {RING: measured.bytes_on_the_ring})


def b10() -> Claim:
    """No use in inference: none on one device; but a prompt that one cannot hold or not read in time is read by many."""
    model, device = profiles.model("llama-3-8b"), profiles.device("h100-sxm")
    length, ranks, rate = _length(), _ranks(), flops_per_s(device)
    shape = (heads(model), head_dim(model), layers(model), matrices(model), length, rate)
    prefill, kv = model.prefill_flops(MILLION), model.kv_bytes(MILLION).total
    lines = (
        Line("kv", KV, (*kv_shape(model), length), kv, "B"),
        Line("kv_rank", KV + " ÷ {G}", (*kv_shape(model), length, ranks), kv / RANKS, "B"),
        Line("alone", f"({CAUSAL} + {MATRICES}) ÷ {{F}}", shape, compute_s(prefill, device.bf16_flops_per_s), "s"),
        Line(
            "together",
            f"({CAUSAL} + {MATRICES}) ÷ ({{F}} × {{G}})",
            (*shape, ranks),
            compute_s(prefill, device.bf16_flops_per_s, devices=RANKS),
            "s",
        ),
    )
    return Claim("B10", LESSONS, "depends", lines, {RING: measured.against_one_process})


CLAIMS = (b8, b9, b10)


def _shape(model: ModelProfile) -> ring.AttentionShape:
    return ring.AttentionShape(model.heads, model.kv_heads, model.head_dim, BF16_BYTES)


def _length() -> Input:
    return said("B", "L", MILLION, "tokens")


def _ranks() -> Input:
    return said("B", "G", RANKS)
