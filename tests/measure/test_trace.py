"""From records to a trace: the stamps of each request's life, steps, transfers and KV in use."""

import pytest

from engine.measure.trace import build_trace, output_tokens
from tests.measure.traces import REFUSAL, REQUESTS, RECORDS, at, fetch, kv, noted, small_trace, step


def stamps(request):
    return [request[f"{name}_s"] for name in ("arrival", "prefill_begin", "prefill_end", "transfer_begin", "transfer_end", "decode_begin", "decode_end")]


def test_the_seven_stamps_of_a_life():
    """Seconds from the start, not of the clock; prefill ends with token 1; a transfer begins when layers are published."""
    chat, long, refused = small_trace()["requests"]
    assert stamps(chat) == [0.001, 0.002, 0.010, 0.010, 0.012, 0.020, 0.070]
    assert stamps(long) == [0.015, 0.016, 0.060, 0.030, 0.064, 0.064, 0.075]
    assert stamps(refused) == [0.016, None, None, None, None, None, None]
    assert chat["token_s"] == [0.010, 0.025, 0.040, 0.070] and long["token_s"] == [0.060, 0.070, 0.075]
    assert [r["status"] for r in (chat, long, refused)] == ["finished", "finished", "refused"]
    assert refused["reason"] == REFUSAL and chat["reason"] is None
    assert chat["id"] == "chat-0" and chat["kind"] == "chat" and chat["prompt_tokens"] == 4


def test_chunks_are_one_prefill_and_no_tokens():
    """A gap between chunks taken for a gap between tokens would show stalls that nobody saw."""
    records = [
        RECORDS[0], RECORDS[1],
        step("e", 2, 4, [[0, 0, 3]], []),
        step("e", 6, 9, [[0, 3, 1]], [0]),  # the last chunk, of one token
        step("e", 9, 12, [[0, 4, 1]], [0], decodes=1),
    ]  # fmt: skip
    chat = build_trace("chunked", REQUESTS, records, block_tokens=4)["requests"][0]
    assert stamps(chat)[1:3] == [0.002, 0.009] and stamps(chat)[5:] == [0.009, 0.012]
    assert chat["token_s"] == [0.009, 0.012]


def test_a_recompute_is_no_decode():
    """Preempted before its first decode, a request is prefilled again: decode begins when it really decodes."""
    records = [
        RECORDS[0], RECORDS[1],
        step("e", 2, 4, [[0, 0, 4]], [0]),
        noted("preempted", 0, 5, "e"),
        step("e", 6, 9, [[0, 0, 5]], [0]),
        step("e", 10, 12, [[0, 5, 1]], [0], decodes=1),
    ]  # fmt: skip
    trace = build_trace("unified", REQUESTS, records, block_tokens=4)
    chat = trace["requests"][0]
    assert stamps(chat)[1:3] == [0.002, 0.004] and stamps(chat)[5:] == [0.010, 0.012]
    assert chat["preemptions"] == 1 and len(chat["token_s"]) == 3
    assert [event["type"] for event in trace["events"]] == ["preempted"]


def test_a_transfer_is_the_copies_of_one_prompt():
    """A speed computed from the last part alone, or bytes of two transfers in one, would be far off."""
    first, second = small_trace()["transfers"]
    assert first == {
        "request": 0, "from": "prefill-0", "to": "decode-0", "begin_s": 0.010, "end_s": 0.012, "bytes": 200,
        "parts": [[0.011, 0.012, 2]], "complete": True, "quantise_s": 0.0, "move_s": 0.0, "dequantise_s": 0.0, "checksum_s": 0.0,
    }  # fmt: skip
    assert second["bytes"] == 200 and second["parts"] == [[0.031, 0.033, 1], [0.062, 0.064, 1]]
    assert (second["begin_s"], second["end_s"]) == (0.030, 0.064)


def test_what_was_done_to_a_transfer_s_bytes_adds_up():
    """Of the last part alone, quantising would look as if it cost nothing."""
    parts = [{**fetch(0, 10, 11, 12, 1, last=False), "quantise_s": 0.25, "move_s": 0.5}, {**fetch(0, 10, 12, 13, 1, last=True), "quantise_s": 0.25, "checksum_s": 1.0}]
    (transfer,) = build_trace("disaggregated", REQUESTS, [*RECORDS[:2], *parts], block_tokens=4)["transfers"]
    assert [transfer[f"{name}_s"] for name in ("quantise", "move", "dequantise", "checksum")] == [0.5, 0.5, 0.0, 1.0]


@pytest.mark.parametrize("last", [False, True])
def test_a_failed_transfer_is_told_as_that(last):
    """Its reason, an event, and no complete transfer; what another attempt moves is another transfer."""
    failed = {"type": "Failed", "index": 0, "error": {"code": "transfer-cut"}, "at_ns": at(20), "worker": "decode-0"}
    records = [*RECORDS[:2], step("prefill-0", 2, 10, [[0, 0, 4]], [0]), fetch(0, 10, 11, 12, 1, last=last), failed]
    trace = build_trace("disaggregated", REQUESTS, records, block_tokens=4)
    request = trace["requests"][0]
    assert (request["status"], request["reason"], len(request["token_s"])) == ("failed", {"code": "transfer-cut"}, 1)
    assert trace["events"] == [{"at_s": 0.02, "type": "failed", "request": 0, "worker": "decode-0"}]
    assert [transfer["complete"] for transfer in trace["transfers"]] == [False]


def test_a_returned_request_is_transferred_anew():
    """The half that came before the lease ended is void: its bytes belong to no later transfer, its stamps to nothing."""
    records = [
        RECORDS[0], RECORDS[1],
        step("prefill-0", 2, 10, [[0, 0, 4]], [0]),
        fetch(0, 10, 11, 12, 1, last=False),
        {"type": "Return", "index": 0, "tokens": [], "reason": "lease_expired", "at_ns": at(30), "worker": "decode-0"},
        step("prefill-0", 40, 50, [[0, 0, 5]], [0]),
        fetch(0, 50, 51, 52, 2, last=True),
        step("decode-0", 52, 55, [[0, 5, 1]], [0], decodes=1),
    ]  # fmt: skip
    trace = build_trace("disaggregated", REQUESTS, records, block_tokens=4)
    assert [(t["bytes"], t["complete"]) for t in trace["transfers"]] == [(100, False), (200, True)]
    assert stamps(trace["requests"][0])[1:] == [0.002, 0.010, 0.050, 0.052, 0.052, 0.055]
    assert [event["type"] for event in trace["events"]] == ["returned"]


def test_steps_and_kv_points_are_in_order_of_time():
    """Workers report when they are done; drawn in that order, lanes would jump back."""
    trace = small_trace()
    assert [s["begin_s"] for s in trace["steps"]] == sorted(s["begin_s"] for s in trace["steps"])
    assert trace["steps"][1] == {
        "worker": "prefill-0", "begin_s": 0.016, "end_s": 0.060, "prefill_tokens": 40, "decode_tokens": 0, "slices": [[1, 0, 40]],
    }  # fmt: skip
    assert trace["kv"][0] == {"worker": "prefill-0", "at_s": 0.010, "tokens": 4}
    shuffled = build_trace("unified", REQUESTS, [RECORDS[0], kv("b", 9, 1), kv("a", 3, 2)], block_tokens=4)
    assert [point["worker"] for point in shuffled["kv"]] == ["a", "b"]
    assert trace["duration_s"] == 0.075
    assert trace["events"][0] == {"at_s": 0.002, "type": "admitted", "request": 0, "worker": "prefill-0"}
    assert trace["events"][1] == {"at_s": 0.016, "type": "refused", "request": 2, "worker": None}


def test_a_run_without_a_step_is_a_trace_too():
    """Everything refused: the page still has something to say."""
    trace = build_trace("unified", REQUESTS, RECORDS[:1], block_tokens=4)
    assert trace["duration_s"] == 0.0 and trace["steps"] == []
    assert {r["status"] for r in trace["requests"]} == {"unfinished"}


def test_output_tokens_with_their_gaps_in_order():
    """Tokens of two requests mixed up would decode to nonsense."""
    assert output_tokens(RECORDS)[1] == [(7, 0.5)] * 3 and len(output_tokens(RECORDS)[0]) == 4
    assert 2 not in output_tokens(RECORDS)


def test_a_step_that_has_begun_is_under_way_until_it_ends():
    """Whoever watches must see a prefill of seconds while it lasts; a whole trace has nothing under way."""
    begun = {"type": "begun", "worker": "e", "at_ns": at(2), "prefill_tokens": 4, "decode_tokens": 0, "slices": [[0, 0, 4]]}
    trace = build_trace("unified", REQUESTS, [RECORDS[0], RECORDS[1], begun], block_tokens=4)
    assert trace["under_way"] == [{"begin_s": 0.002, "worker": "e", "prefill_tokens": 4, "decode_tokens": 0, "slices": [[0, 0, 4]]}]
    assert trace["steps"] == [] and trace["duration_s"] == 0.0
    ended = build_trace("unified", REQUESTS, [RECORDS[0], RECORDS[1], begun, step("e", 2, 4, [[0, 0, 4]], [0])], block_tokens=4)
    assert "under_way" not in ended and len(ended["steps"]) == 1
