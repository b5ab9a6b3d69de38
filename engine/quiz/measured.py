"""What a learner's own result has to say to a prediction or a "measure it yourself" item. Pure functions of a result.

Each takes the result of one kind of experiment (what the item draws or gives comes after it, by name) and gives a number in
the unit of who asks, an option's id, or steps' ids in order; None where the result lacks what it takes. Those that are called
computed take no result: predictions of what a lesson computes. Those that give a truth value say whether a result came out
as its lesson expects; they are asked only where there is a value.
"""

from __future__ import annotations

from engine import profiles
from engine.formulas import pools, ring
from engine.formulas.kv import Recurrent
from engine.formulas.memory import request_bytes, requests_that_fit, room_bytes
from engine.formulas.roofline import decode_attention_intensity
from engine.formulas.rope import frequencies, turns
from engine.formulas.state import crossing_tokens
from engine.quiz import answers

WHOLE = 0  # a chunk sweep's value for the prompt that is not cut
# A gap this many times the usual one is a freeze.
FREEZES = 5
# Models whose caches are of different kinds: grouped heads, a key and a value for every head, windows, a latent.
CACHES = ("llama-3.1-8b", "llama-2-7b", "gemma-3-27b", "deepseek-v3")


def wave_ratio(result: dict) -> float | None:
    """Of a measured wall: how many times as many requests were let in at first, paged against reserved."""
    first = [((result.get("schedules") or {}).get(pool) or {}).get("metrics", {}).get("first_wave") for pool in ("paged", "reserved")]
    return first[0] / first[1] if all(first) else None

# ------------------------------------------------------------------ schedules, and their sweeps


def last_first_token(result: dict) -> str | None:
    """The schedule under which the long prompt waited longest for its first token."""
    waits = {name: _metric(result, name, "ttft_s") for name in result.get("schedules") or {}}
    return max(waits, key=waits.__getitem__) if len(waits) > 1 and all(waits.values()) else None


def tpot_rise(result: dict) -> float | None:
    """Under unified serving, a chat's time per output token as a multiple of its usual gap; None if no chat froze."""
    usual, mean, worst = (_metric(result, "unified", name) for name in ("itl_p50_s", "tpot_p50_s", "itl_max_s"))
    return mean / usual if usual and mean and worst and worst >= FREEZES * usual else None


def worst_gap_ratio(result: dict) -> float | None:
    """A chat's worst gap under unified serving as a multiple of that under chunked; None without a long prompt."""
    whole, cut = (_metric(result, name, "itl_max_s") for name in ("unified", "chunked"))
    return whole / cut if whole and cut and _metric(result, "unified", "ttft_s") else None


def smallest_chunks_price(result: dict) -> float | None:
    """Of a chunk sweep: the first token's wait in the smallest chunks as a multiple of that of the uncut prompt."""
    waits = {point["value"]: (point.get("metrics") or {}).get("ttft_s") for point in result.get("points") or ()}
    whole = waits.pop(WHOLE, None)
    smallest = waits[min(waits)] if waits else None
    return smallest / whole if smallest and whole else None


def queue_grows_from(result: dict) -> int | None:
    """Of a backlog: the shortest prompts (tokens) at which the queue grew; None if it never did, or always."""
    points = result.get("points") or ()
    grown = [point["prompt_tokens"] for point in points if point.get("grows")]
    return min(grown) if 0 < len(grown) < len(points) else None


def queue_grows_above_load_one(result: dict) -> bool:
    """Whether the queue grew where the load was well above 1, and only where it was not well below."""
    return all(point["load"] > 0.8 if point["grows"] else point["load"] < 1.25 for point in result["points"])


# ------------------------------------------------------------------ roofline


def step_of_eight(result: dict) -> float | None:
    """A decode step of 8 requests as a multiple of one of a single request, at the shortest context that has both."""
    seconds = {
        (point["context"], point["batch"]): point["seconds"]
        for point in result.get("points") or ()
        if point["phase"] == "decode" and point["part"] == "all"
    }
    both = [context for context, batch in sorted(seconds) if batch == 1 and (context, 8) in seconds]
    return seconds[both[0], 8] / seconds[both[0], 1] if both else None


def batch_gain(result: dict) -> float | None:
    """Tokens per second of the largest decode batch as a multiple of those of the smallest, at the context whose batches are
    farthest apart (the shortest of equals): the two that the lesson compares."""
    lines: dict[int, list[dict]] = {}
    for point in result.get("points") or ():
        if point["phase"] == "decode" and point["part"] == "all":
            lines.setdefault(point["context"], []).append(point)
    ends = [(min(line, key=_batch), max(line, key=_batch)) for _, line in sorted(lines.items())]
    few, many = max(ends, key=lambda pair: _batch(pair[1]) / _batch(pair[0]), default=(None, None))
    return (many["batch"] / many["seconds"]) / (few["batch"] / few["seconds"]) if few is not many else None


def most_used_cache() -> str:
    """Computed: the model whose attention makes most operations of each byte of its cache when it decodes."""
    found = {name: profiles.model(name) for name in CACHES}
    used = {
        name: max(decode_attention_intensity(group, model.heads, 2) for group in model.groups if not isinstance(group, Recurrent))
        for name, model in found.items()
    }
    return max(used, key=used.__getitem__)


# ------------------------------------------------------------------ memory


def requests_of_half_length() -> int:
    """Computed: requests of 65,536 tokens that fit into one H100 beside Llama 3.1 8B, with the usual reserve."""
    return answers.requests_fit("llama-3.1-8b", "h100-sxm", 65_536)


def reserved_waste(result: dict) -> float | None:
    """Of a measured wall: the share of reserved memory that never held a token, in percent."""
    share = _metric(result, "reserved", "waste_mean")
    return None if share is None else 100 * share


def reserving_wastes(result: dict) -> bool:
    """Whether reserving left clearly more of its memory without a token than paging."""
    return _metric(result, "reserved", "waste_mean") > _metric(result, "paged", "waste_mean") + 0.05


# ------------------------------------------------------------------ sinks


def start_without_sink(result: dict) -> str | None:
    """The beginning under which token 0 lost at least half of what it gets in the text as it is; "none" if none did."""
    first = {start["name"]: start["first"] for start in result.get("starts") or ()}
    usual = first.pop("as_is", None)
    if not usual or not first:
        return None
    least = min(first, key=first.__getitem__)
    return least if first[least] < usual / 2 else "none"


def window_against_dense(result: dict) -> float | None:
    """Behind the first eviction, the perplexity of the window alone as a multiple of that of the whole cache."""
    after = [((result.get("curves") or {}).get(name) or {}).get("perplexity_after") for name in ("window", "dense")]
    return after[0] / after[1] if all(after) else None


def still_answers(result: dict) -> str | None:
    """Who answers better than guessing when the needle is neither among the sinks nor in the window."""
    outside = {c["policy"]: c["against_guess"] == "above" for c in result.get("cells") or () if not (c["in_sinks"] or c["in_window"])}
    if not {"dense", "sinks", "snapkv", "h2o"} <= set(outside):
        return None
    if outside["sinks"]:
        return "sinks"
    if not outside["dense"]:
        return "nobody"
    return "choosing" if outside["snapkv"] or outside["h2o"] else "dense"


# ------------------------------------------------------------------ rope


def first_hands_to_leave() -> str:
    """Computed: of the lab model, whether the hands that leave what they have seen at its trained length are its fast or its slow ones."""
    seen = turns(frequencies(32, 10_000.0), 128)
    leaving = [pair for pair, made in enumerate(seen) if made < 1]
    return "slow" if leaving == list(range(leaving[0], len(seen))) and leaving[0] > 0 else "all" if len(leaving) == len(seen) else "fast"


# Methods that are one answer: the same base for all hands, or each hand by the turns it made.
ALIKE = {"dynamic": "ntk", "by-parts": "by-hand", "yarn": "by-hand", "llama3": "by-hand"}


def lowest_at_the_longest(result: dict) -> str | None:
    """The method (see ALIKE) with the lowest perplexity at the longest length, if that is beyond the trained one."""
    longest = max(result.get("lengths") or (0,))
    found = {cell["method"]: cell["perplexity"] for cell in result.get("cells") or () if cell["length"] == longest and cell.get("perplexity")}
    if longest <= result.get("trained", longest) or len(found) < 2:
        return None
    lowest = min(found, key=found.__getitem__)
    return ALIKE.get(lowest, lowest)


def streaming_finds(result: dict) -> float | None:
    """Needles that sinks + window find at four times the trained length, over all depths, in percent."""
    length = 4 * result.get("trained", 0)
    cells = [cell for cell in result.get("cells") or () if cell["method"] == "streaming" and cell["length"] == length]
    trials = sum(cell["trials"] for cell in cells)
    return 100 * sum(cell["right"] for cell in cells) / trials if trials else None


# ------------------------------------------------------------------ transfer


def int8_against_bf16(result: dict) -> float | None:
    """Until the longest prompt's cache is there and unpacked: int8's time as a multiple of bf16's, with all three stages."""
    rows = result.get("rows") or ()
    longest = max((row["tokens"] for row in rows), default=0)
    taken = {row["format"]: row["quantise_s"] + row["move_s"] + row["dequantise_s"] for row in rows if row["tokens"] == longest}
    return taken["int8"] / taken["bf16"] if {"int8", "bf16"} <= set(taken) else None


def int8_gains_less_than_its_bytes(result: dict) -> bool:
    """Whether int8's time shrank clearly less than its bytes did."""
    rows = [row for row in result["rows"] if row["tokens"] == max(row["tokens"] for row in result["rows"])]
    held = {row["format"]: row["bytes"]["total"] for row in rows}
    return int8_against_bf16(result) > 1.2 * held["int8"] / held["bf16"]


def hidden_transfer(result: dict) -> float | None:
    """Of a transfer sent layer by layer, the share that hid behind the prefill, in percent."""
    share = (result.get("overlap") or {}).get("hidden_share")
    return None if share is None else 100 * max(0.0, share)


def slow_link_seconds() -> float:
    """Computed: the 16-bit cache of 131,072 tokens of Llama 3.1 8B over Ethernet of 10 Gb/s at its full rate."""
    return profiles.model("llama-3.1-8b").kv_bytes(131_072, "bf16").total / profiles.links()["ethernet-10"].bytes_per_s


# ------------------------------------------------------------------ pools


def gap_with_pools(result: dict) -> float | None:
    """A chat's longest gap with one prefill and one decode worker, as a multiple of one engine's; None where processes share
    cores, so that their times say nothing."""
    both = [(result.get("arrangements") or {}).get(name) or {} for name in ("1:1", "unified")]
    gaps = [entry.get("metrics", {}).get("itl_max_s") for entry in both if entry.get("processes_at_most_cores")]
    return gaps[0] / gaps[1] if len(gaps) == 2 and all(gaps) else None


def pool_a_chat_needs_more_of(prompt: int = 1_020, output: int = 129) -> str:
    """Computed: for Llama 3.1 8B on H100s at half of their arithmetic and 70 % of their bandwidth, where a request takes more
    seconds of an instance. A decode batch is as large as memory allows, up to 50 ms a token. Lengths: the median chat of
    Splitwise (section III)."""
    model, device = profiles.model("llama-3.1-8b"), profiles.device("h100-sxm")
    arithmetic, reading, mean = 0.5 * device.bf16_flops_per_s, 0.7 * device.memory_bytes_per_s, prompt + output // 2
    head = model.hidden_size * model.vocab_size
    flops = pools.token_flops(model.matrix_parameters + head, model.layers, model.heads, model.head_dim, mean)
    costs = (model.weight_bytes(), request_bytes(model.groups, mean, "bf16"), flops, reading, arithmetic)
    room = room_bytes(device.capacity_bytes, model.weight_bytes(), answers.RESERVE)
    batch = min(requests_that_fit(room, request_bytes(model.groups, prompt + output, "bf16")), pools.batch_within(0.05, *costs))
    decode_s = 1 / pools.decode_rate_per_s(batch, pools.decode_step_s(batch, *costs), output)
    return "prefill" if model.prefill_flops(prompt) / arithmetic > decode_s else "decode"


def narrowest_memory() -> str:
    """Computed: of the three cards that the chapter names, the one with the least memory bandwidth."""
    found = {name: profiles.device(name).memory_bytes_per_s for name in ("h100-sxm", "a100-80gb-sxm", "l40s")}
    return min(found, key=found.__getitem__)


# ------------------------------------------------------------------ open questions


def cache_outgrows_state() -> int:
    """Computed: from how many tokens on the cache of Llama 3.1 8B is larger than all of Codestral Mamba 7B's state."""
    return crossing_tokens(profiles.model("codestral-mamba-7b").groups, profiles.model("llama-3.1-8b").groups, "bf16")


def pairs_of_a_sum(result: dict) -> int | None:
    """The most pairs of which a state with keys of 64 numbers, written as a sum, still answered nine in ten rightly."""
    cells = [cell for cell in result.get("recall") or () if cell["mechanism"] == "sum" and cell["key_dim"] == 64]
    return max((cell["pairs"] for cell in cells if cell["rate"] >= 0.9), default=None)


def cache_against_state(result: dict) -> float | None:
    """Bytes of the cache after the longest text as a multiple of those of a state beside it."""
    cells = result.get("decode") or ()
    longest = max((cell["tokens"] for cell in cells), default=0)
    held = {cell["mechanism"]: cell["bytes"] for cell in cells if cell["tokens"] == longest}
    return held["softmax"] / held["sum"] if held.get("softmax") and held.get("sum") else None


def sinks_answer_outside(result: dict) -> float | None:
    """Of needles that are neither among the sinks nor in the window, those that sinks + window answer for rightly, in percent."""
    found = (c for c in result.get("cells") or () if c["policy"] == "sinks" and not (c["in_sinks"] or c["in_window"]))
    rate = next((cell["rate"] for cell in found), None)
    return None if rate is None else 100 * rate


def longest_at_ten_million() -> str:
    """Computed: ten million tokens of Llama 3.1 8B on eight H100s at 40 % of their arithmetic, 400 Gb/s between the pools."""
    model, device, tokens = profiles.model("llama-3.1-8b"), profiles.device("h100-sxm"), 10_000_000
    size = request_bytes(model.groups, tokens, "bf16")
    taken = {
        "prefill": model.prefill_flops(tokens) / (8 * 0.4 * device.bf16_flops_per_s),
        "transfer": size / profiles.links()["infiniband-ndr"].bytes_per_s,
        "step": size / (8 * device.memory_bytes_per_s),
    }
    return max(taken, key=taken.__getitem__)


# ------------------------------------------------------------------ ring


def in_order_against_zigzag() -> float:
    """Computed: four ranks that wait for their slowest in each round, in order as a multiple of zigzag."""
    lasts = {layout: sum(max(one) for one in zip(*ring.pairs(8_000, 4, layout), strict=True)) for layout in ring.LAYOUTS}
    return lasts["contiguous"] / lasts["zigzag"]


def ring_against_one(result: dict) -> float | None:
    """The ring's time as a multiple of one process's with the same cores; None for one rank, and where ranks share cores."""
    alone = (result.get("alone") or {}).get("seconds")
    layout = (result.get("layouts") or {}).get("zigzag") or {}
    fair = result.get("ranks", 1) > 1 and result.get("processes_at_most_cores")
    return layout["seconds"] / alone if alone and fair and layout.get("seconds") else None


def sent_of_cache(result: dict) -> float | None:
    """What the rank that sent most sent in the ring's prefill, in percent of the keys and values of the whole text."""
    ranks = next(iter((result.get("layouts") or {}).values()), {}).get("ranks") or ()
    whole = sum(rank["kv_bytes"] for rank in ranks)
    return 100 * max(rank["sent_bytes"] for rank in ranks) / whole if len(ranks) > 1 and whole else None


def _metric(result: dict, schedule: str, name: str) -> float | None:
    return (((result.get("schedules") or {}).get(schedule) or {}).get("metrics") or {}).get(name)


def _batch(point: dict) -> int:
    return point["batch"]
