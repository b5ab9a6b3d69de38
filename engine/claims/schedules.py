"""Claims on what the schedules cost: A6, A7, A8, A14, A15. What was measured of them is in measured.py."""

from __future__ import annotations

from engine import profiles
from engine.claims import measured
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import (
    BF16_BYTES,
    FP32_BYTES,
    bf16,
    bytes_per_s,
    chosen,
    flops_per_s,
    head_dim,
    heads,
    kv_shape,
    layers,
    matrices,
    parameters,
    said,
)
from engine.formulas.flops import compute_s

LESSONS = ("schedules",)
SCHEDULES, SWEEP = "schedules", "chunk-sweep"
# The sample scheduler of text A: a prompt, its chunks, the decodes beside it, and the width of its vectors.
LENGTH, CHUNK, DECODES, WIDTH = 32_768, 4_096, 10, 4_096
CHUNKS = LENGTH // CHUNK
TINY = 128
MODEL, DEVICE = "llama-3-8b", "h100-sxm"
PREFILL = "(2 × {N} × {L} + 2 × {L}² × {n_heads} × {d_head} × {n_layers}) ÷ {F}"
LAST_CHUNK = "(2 × {N} × {c} + 4 × {n_heads} × {d_head} × {n_layers} × ({c} × ({L} − {c}) + {c}² ÷ 2)) ÷ {F}"
READ_AGAIN = "(({n} − 1) × {b} × {N} + 2 × {n_layers} × {n_kv} × {d_head} × {b} × {c} × {n} × ({n} − 1) ÷ 2) ÷ {W}"
DECODE = "{b} × {P} ÷ {W}"


def a6() -> Claim:
    """The sample's chunks attend only to themselves, and its decode step reads nothing."""
    model = profiles.model(MODEL)
    given, sample = (_of_a("n", CHUNKS), _of_a("c", CHUNK, "tokens")), CHUNKS * CHUNK**2
    read = (bf16(), parameters(model))
    lines = (
        Line("whole", "({n} × {c})²", given, (CHUNKS * CHUNK) ** 2, "scores", (sample,)),
        Line("masked", "{n} × ({n} + 1) ÷ 2 × {c}²", given, CHUNKS * (CHUNKS + 1) // 2 * CHUNK**2, "scores", (sample,)),
        Line("decode", "{b} × {P}", read, model.weight_bytes(BF16_BYTES), "B", (DECODES * WIDTH * FP32_BYTES,)),
    )
    return Claim("A6", LESSONS, "wrong", lines, {SCHEDULES: measured.chunks_grow})


def a7() -> Claim:
    """What a chunk more costs: weights and the KV so far are read again."""
    lines = (
        _prefill("whole"),
        _read_again("large", _of_a("c", CHUNK, "tokens")),
        _read_again("tiny", chosen("tiny", "c", TINY, "tokens")),
    )
    return Claim("A7", LESSONS, "incomplete", lines, {SWEEP: measured.price_of_chunks})


def a8() -> Claim:
    """A decode that shares its step with a chunk takes as long as the chunk."""
    model, device = profiles.model(MODEL), profiles.device(DEVICE)
    pairs = CHUNK * (LENGTH - CHUNK) + CHUNK**2 / 2
    flops = model.matrix_flops(CHUNK) + 4 * model.heads * model.head_dim * model.layers * pairs
    given = (matrices(model), *_shape(), *_lengths(), _of_a("c", CHUNK, "tokens"), flops_per_s(device))
    lines = (
        _prefill("whole"),
        Line("chunk", LAST_CHUNK, given, compute_s(flops, device.bf16_flops_per_s), "s"),
        _decode("decode"),
    )
    return Claim("A8", LESSONS, "incomplete", lines, {SCHEDULES: measured.worst_gaps})


def a14() -> Claim:
    """Throughput: what riding along saves against what is read again."""
    model, device = profiles.model(MODEL), profiles.device(DEVICE)
    alone = _decode("alone")
    rows = (matrices(model), chosen("beside", "B", DECODES), flops_per_s(device))
    riding = compute_s(model.matrix_flops(DECODES), device.bf16_flops_per_s)
    saved = "{n} × ({b} × {P} ÷ {W} − 2 × {N} × {B} ÷ {F})"
    lines = (
        alone,
        Line("riding", "2 × {N} × {B} ÷ {F}", rows, riding, "s"),
        Line("saved", saved, (*alone.inputs, *rows, _of_a("n", CHUNKS)), CHUNKS * (alone.value - riding), "s"),
        _read_again("paid", _of_a("c", CHUNK, "tokens")),
        _read_again("paid_tiny", chosen("tiny", "c", TINY, "tokens")),
    )
    of_results = {SCHEDULES: measured.throughput_of_schedules, SWEEP: measured.throughput_of_chunks}
    return Claim("A14", LESSONS, "depends", lines, of_results)


def a15() -> Claim:
    """TPOT is a mean: one long stall hardly shows in it."""
    count, gap, stall = 100, 0.045, 2.2
    given = (chosen("answer", "T", count, "tokens"), chosen("gap", "t", gap, "s"), chosen("stall", "t_stall", stall, "s"))
    tpot = ((count - 2) * gap + stall) / (count - 1)
    mean = "(({T} − 2) × {t} + {t_stall}) ÷ ({T} − 1)"
    lines = (
        Line("tpot", mean, given, tpot, "s"),
        Line("tpot_ratio", f"{mean} ÷ {{t}}", given, tpot / gap, "x"),
        Line("itl_ratio", "{t_stall} ÷ {t}", given[1:], stall / gap, "x"),
    )
    return Claim("A15", LESSONS, "wrong", lines, {SCHEDULES: measured.mean_and_worst})


CLAIMS = (a6, a7, a8, a14, a15)


def _of_a(symbol: str, value: float, unit: str = "") -> Input:
    return said("A", symbol, value, unit)


def _lengths() -> tuple[Input, ...]:
    return (_of_a("L", LENGTH, "tokens"),)


def _shape() -> tuple[Input, ...]:
    model = profiles.model(MODEL)
    return layers(model), heads(model), head_dim(model)


def _prefill(name: str) -> Line:
    """The whole prompt at the device's full rate."""
    model, device = profiles.model(MODEL), profiles.device(DEVICE)
    seconds = compute_s(model.prefill_flops(LENGTH), device.bf16_flops_per_s)
    return Line(name, PREFILL, (matrices(model), *_shape(), *_lengths(), flops_per_s(device)), seconds, "s")


def _read_again(name: str, chunk: Input) -> Line:
    """Seconds to read the weights and the KV so far once more for every chunk after the first, if nothing hides it."""
    model, device = profiles.model(MODEL), profiles.device(DEVICE)
    size = int(chunk.value)
    n = -(-LENGTH // size)
    again = (n - 1) * BF16_BYTES * model.matrix_parameters + model.kv_bytes_per_token(BF16_BYTES) * size * n * (n - 1) / 2
    count = _of_a("n", n) if n == CHUNKS else chosen("pieces", "n", n)
    given = (matrices(model), *kv_shape(model), count, chunk, bytes_per_s(device))
    return Line(name, READ_AGAIN, given, again / device.memory_bytes_per_s, "s")


def _decode(name: str) -> Line:
    """A decode step of a few short chats: it cannot be quicker than reading the weights once."""
    model, device = profiles.model(MODEL), profiles.device(DEVICE)
    seconds = model.weight_bytes(BF16_BYTES) / device.memory_bytes_per_s
    return Line(name, DECODE, (bf16(), parameters(model), bytes_per_s(device)), seconds, "s")
