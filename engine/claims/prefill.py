"""Claims on what a prefill costs: B1, B2."""

from __future__ import annotations

from engine import profiles
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import TOKENS_A, TOKENS_B, chosen, flops_per_s, head_dim, heads, layers, matrices, said, tokens
from engine.formulas.flops import compute_s

LESSONS = ("memory", "roofline")
ATTENTION = "4 × {L}² × {n_heads} × {d_head} × {n_layers}"
CAUSAL = "2 × {L}² × {n_heads} × {d_head} × {n_layers}"
MATRICES = "2 × {N} × {L}"
FLOPS_OF_B = 1.3e15
WIDTH_OF_B = 8192


def b1() -> Claim:
    """Operations of a prefill: a factor of ten, the layers and a factor of four are missing."""
    model = profiles.model("llama-2-70b")
    length, shape = tokens("B", TOKENS_B), _shape()
    causal, all_matrices = model.attention_flops(TOKENS_B), model.matrix_flops(TOKENS_B)
    lines = (
        _own("own", chosen("thousands", "L", TOKENS_A, "tokens")),
        _own("power", length),
        Line("attention", ATTENTION, (*shape, length), model.attention_flops(TOKENS_B, causal=False), "FLOP", (FLOPS_OF_B,)),
        Line("causal", CAUSAL, (*shape, length), causal, "FLOP", (FLOPS_OF_B,)),
        Line("matrices", MATRICES, (matrices(model), length), all_matrices, "FLOP"),
        Line("total", f"{CAUSAL} + {MATRICES}", (*shape, matrices(model), length), causal + all_matrices, "FLOP", (FLOPS_OF_B,)),
    )
    return Claim("B1", LESSONS, "wrong", lines)


def b2() -> Claim:
    """Seconds of that on an A100 at its full rate."""
    model, device = profiles.model("llama-2-70b"), profiles.device("a100-80gb-sxm")
    length, shape, rate, text = tokens("B", TOKENS_B), _shape(), flops_per_s(device), (4.0,)
    causal, all_matrices = model.attention_flops(TOKENS_B), model.matrix_flops(TOKENS_B)

    def line(name: str, formula: str, given: tuple[Input, ...], flops: float, said: tuple[float, ...] = ()) -> Line:
        return Line(name, formula + " ÷ {F}", (*given, rate), compute_s(flops, device.bf16_flops_per_s), "s", said)

    lines = (
        line("own", "{X}", (said("B", "X", FLOPS_OF_B, "FLOP"),), FLOPS_OF_B, text),
        line("attention", ATTENTION, (*shape, length), model.attention_flops(TOKENS_B, causal=False)),
        line("causal", CAUSAL, (*shape, length), causal),
        line("matrices", MATRICES, (matrices(model), length), all_matrices),
        line("total", f"({CAUSAL} + {MATRICES})", (*shape, matrices(model), length), causal + all_matrices, text),
    )
    return Claim("B2", LESSONS, "wrong", lines)


CLAIMS = (b1, b2)


def _shape() -> tuple[Input, ...]:
    model = profiles.model("llama-2-70b")
    return layers(model), heads(model), head_dim(model)


def _own(name: str, length: Input) -> Line:
    """The text's own formula."""
    value = int(length.value) ** 2 * WIDTH_OF_B
    return Line(name, "{L}² × {d}", (length, said("B", "d", WIDTH_OF_B)), value, "FLOP", (FLOPS_OF_B,))
