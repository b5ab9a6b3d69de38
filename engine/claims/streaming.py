"""Claims on what eviction costs: A11, A12, B5, B12. What was measured of them is in measured_streaming.py."""

from __future__ import annotations

from engine import profiles
from engine.claims import measured_streaming as measured
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import chosen, kv_shape, of_table, said
from engine.claims.memory import KV
from engine.profiles import PublishedTable

LESSONS = ("sinks",)
STREAMING, NEEDLE = "streaming", "needle"
# The cache holds S entries, sinks included, however long the text is.
KV_OF_CACHE = "2 × {n_layers} × {n_kv} × {d_head} × {S} × {b}"
STREAM, MILLION = 4_000_000, 1_000_000
DEVICES_OF_B = 16
TENFOLD = (10,)


def a11() -> Claim:
    """An endless stream in constant memory: but nothing outside the cache can be recalled."""
    model, table = profiles.model("llama-2-7b"), profiles.table("streamingllm-table-7")
    sinks, recent, near, far = 4, 2044, 1840, 2300
    cache = {"sinks": sinks, "recent": recent}
    slots = of_table(table, "S", sinks + recent, "tokens")
    accuracy = [table.value("accuracy", distance=distance, **cache) for distance in (near, far)]
    of = table.conditions["model"]
    asked = [of_table(table, symbol, value, "share", of) for symbol, value in zip(("a_near", "a_far"), accuracy, strict=True)]
    stream, distance = chosen("stream", "L", STREAM, "tokens"), of_table(table, "D_far", far, "tokens")
    lines = (
        Line("cache", KV_OF_CACHE, (*kv_shape(model), slots), model.kv_bytes(sinks + recent).total, "B"),
        Line("whole", KV, (*kv_shape(model), stream), model.kv_bytes(STREAM).total, "B"),
        Line("forgotten", "{L} − {S}", (stream, slots), STREAM - sinks - recent, "tokens"),
        Line("beyond", "{D_far} − {S}", (distance, slots), far - sinks - recent, "tokens"),
        Line("found", "{a_far} ÷ {a_near}", tuple(asked), accuracy[1] / accuracy[0], "share"),
    )
    of_results = {STREAMING: measured.memory_and_speed, NEEDLE: measured.needle_found}
    return Claim("A11", LESSONS, "incomplete", lines, of_results)


def a12() -> Claim:
    """Without the first tokens perplexity explodes: by how much depends on the model."""
    first, second = profiles.table("streamingllm-table-1"), profiles.table("streamingllm-table-2")
    model = "Llama-2-13B"
    none, original, newlines = (first.value("perplexity", first_tokens=tokens) for tokens in ("none", "original", "newlines"))

    def of(symbol: str, value: float) -> Input:
        return of_table(first, symbol, value, "perplexity", model)

    lines = (
        Line("window", "{p_window} ÷ {p_sinks}", (of("p_window", none), of("p_sinks", original)), none / original, "x"),
        Line("newlines", "{p_lines} ÷ {p_sinks}", (of("p_lines", newlines), of("p_sinks", original)), newlines / original, "x"),
        _window_over_sinks("falcon", second, "Falcon-7B"),
    )
    return Claim("A12", LESSONS, "depends", lines, {STREAMING: measured.perplexity_after_eviction})


def b5() -> Claim:
    """Tenfold and more: from half as much again to hundreds of times, in the very paper that the text cites."""
    table = profiles.table("streamingllm-table-2")
    lines = (
        _window_over_sinks("llama", table, "Llama-2-7B"),
        _window_over_sinks("mpt", table, "MPT-7B"),
        _window_over_sinks("pythia", table, "Pythia-12B", TENFOLD),
        _window_over_sinks("falcon", table, "Falcon-7B", TENFOLD),
    )
    return Claim("B5", LESSONS, "depends", lines, {STREAMING: measured.perplexity_after_eviction})


def b12() -> Claim:
    """All three together for a million tokens: eviction gives up what such a context is for."""
    model, table = profiles.model("llama-3-8b"), profiles.table("streamingllm-table-2")
    largest = max(table.find(model="Llama-2-7B", sinks=4), key=lambda row: row["recent"])
    held = int(largest["sinks"] + largest["recent"])
    length, devices = said("B", "L", MILLION, "tokens"), said("B", "G", DEVICES_OF_B)
    slots = of_table(table, "S", held, "tokens")
    whole = model.kv_bytes(MILLION).total
    lines = (
        Line("whole", KV, (*kv_shape(model), length), whole, "B"),
        Line("ring", KV + " ÷ {G}", (*kv_shape(model), length, devices), whole / DEVICES_OF_B, "B"),
        Line("sinks", KV_OF_CACHE, (*kv_shape(model), slots), model.kv_bytes(held).total, "B"),
        Line("forgotten", "{L} − {S}", (length, slots), MILLION - held, "tokens"),
    )
    of_results = {STREAMING: measured.memory_against_dense, NEEDLE: measured.needle_found}
    return Claim("B12", LESSONS, "depends", lines, of_results)


CLAIMS = (a11, a12, b5, b12)


def _window_over_sinks(name: str, table: PublishedTable, model: str, said: tuple[float, ...] = ()) -> Line:
    """Perplexity of window attention over that with four sinks in a cache of the same size."""
    window, sinks = (table.value("perplexity", model=model, sinks=count) for count in (0, 4))
    given = (of_table(table, "p_window", window, "perplexity", model), of_table(table, "p_sinks", sinks, "perplexity", model))
    return Line(name, "{p_window} ÷ {p_sinks}", given, window / sinks, "x", said)
