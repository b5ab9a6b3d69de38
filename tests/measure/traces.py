"""A small trace written down by hand: two chats and a long prompt on two pools, one chat refused."""

from engine.measure.trace import build_trace

MS = 1_000_000
START = 5_000 * MS  # the clock does not begin at zero
BLOCK_TOKENS = 4
REQUESTS = [
    {"id": "chat-0", "kind": "chat", "prompt_tokens": 4, "output_tokens": 4},
    {"id": "long-0", "kind": "long", "prompt_tokens": 40, "output_tokens": 3},
    {"id": "chat-1", "kind": "chat", "prompt_tokens": 400, "output_tokens": 5},
]


def at(ms: float) -> int:
    return START + int(ms * MS)


def step(worker, begin, end, slices, tokens, decodes=0) -> dict:
    computed = sum(length for _, _, length in slices)
    return {
        "type": "step", "worker": worker, "begin_ns": at(begin), "end_ns": at(end), "slices": slices,
        "prefill_tokens": computed - decodes, "decode_tokens": decodes, "tokens": [[i, 7, 0.5] for i in tokens],
    }  # fmt: skip


def fetch(index, published, begin, end, layers, last) -> dict:
    return {
        "type": "fetch", "worker": "decode-0", "index": index, "source": "prefill-0", "published_ns": [at(published), at(begin)],
        "begin_ns": at(begin), "end_ns": at(end), "layers": layers, "bytes": layers * 100, "last": last,
    }  # fmt: skip


def kv(worker, ms, blocks) -> dict:
    return {"type": "kv", "worker": worker, "at_ns": at(ms), "blocks": blocks}


def noted(kind, index, ms, worker) -> dict:
    return {"type": "Noted", "kind": kind, "index": index, "at_ns": at(ms), "worker": worker}


REFUSAL = {"code": "request-never-fits", "facts": {"tokens": 404}, "message": "too long"}
RECORDS = [
    {"type": "start", "at_ns": START},
    {"type": "arrive", "index": 0, "at_ns": at(1)},
    noted("admitted", 0, 2, "prefill-0"),
    step("prefill-0", 2, 10, [[0, 0, 4]], [0]),
    kv("prefill-0", 10, 1),
    fetch(0, 10, 11, 12, 2, last=True),
    kv("decode-0", 12, 2),
    {"type": "arrive", "index": 1, "at_ns": at(15)},
    {"type": "arrive", "index": 2, "at_ns": at(16)},
    {"type": "Refused", "index": 2, "error": REFUSAL, "at_ns": at(16)},
    step("decode-0", 20, 25, [[0, 4, 1]], [0], decodes=1),
    step("prefill-0", 16, 60, [[1, 0, 40]], [1]),
    fetch(1, 30, 31, 33, 1, last=False),
    step("decode-0", 33, 40, [[0, 5, 1]], [0], decodes=1),
    fetch(1, 61, 62, 64, 1, last=True),
    kv("decode-0", 64, 13),
    step("decode-0", 64, 70, [[0, 6, 1], [1, 40, 1]], [0, 1], decodes=2),
    {"type": "Finished", "index": 0, "at_ns": at(70), "worker": "decode-0"},
    kv("decode-0", 70, 11),
    step("decode-0", 70, 75, [[1, 41, 1]], [1], decodes=1),
    {"type": "Finished", "index": 1, "at_ns": at(75), "worker": "decode-0"},
    kv("decode-0", 75, 0),
    {"type": "Offer", "index": 9},
    {"type": "pong", "now_ns": 1},
]


def small_trace() -> dict:
    return build_trace("disaggregated", REQUESTS, RECORDS, block_tokens=BLOCK_TOKENS)


def small_result() -> dict:
    """As much of a result as the exports need."""
    resources = [{"worker": name} for name in ("prefill-0", "decode-0")]
    return {
        "run_id": "run-of-a-test-000",
        "kind": "schedules",
        "manifest": {},
        "schedules": {"disaggregated": {"trace": small_trace(), "resources": resources}},
    }
