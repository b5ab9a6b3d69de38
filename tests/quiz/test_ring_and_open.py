"""What the quizzes of the ring and of the open questions are answered with: worked by hand, and what is said against the profiles."""

from __future__ import annotations

import pytest

from engine import profiles
from engine.quiz import answers_open, answers_ring, measured
from pages._ui import recordings
from pages.course import evidence
from pages.open import ten_story
from tests.quiz.test_items import ITEMS


def test_numbers_that_stand_in_a_text_are_those_of_the_profile():
    """A shape typed into an item that its answer does not use would be noticed by learners alone."""
    state = lambda case: profiles.model(case["model_state"]).groups
    said = {
        "layers": lambda case: profiles.model(case["model"]).layers,
        "dim": lambda case: profiles.model(case["model"]).head_dim,
        "state_layers": lambda case: sum(group.layers for group in state(case)),
        "state_values": lambda case: state(case)[0].state_values,
    }
    cases = [(item, case) for item in ITEMS.values() if item.lesson in ("ring", "open") for case in item.cases if "model" in case]
    found = [(item, name, case) for item, case in cases for name in said if name in case]
    assert {name for _, name, _ in found} == set(said)
    for item, name, case in found:
        assert case[name] == said[name](case), (item.id, name, case)


def test_how_much_longer_in_order_takes():
    """2N - 1 halves of a round against N."""
    for ranks in (2, 5, 16):
        assert answers_ring.in_order_times(ranks) == pytest.approx((2 * ranks - 1) / ranks, rel=1e-3)


def test_what_a_rank_sends_and_how_much_it_must_have():
    """By hand: Llama 3.1 8B, 62,500 tokens a rank, 4,096 B a token and layer, 15 transfers in 32 layers; H100s over 400 Gb/s."""
    assert answers_ring.sent_gb("llama-3.1-8b", 1_000_000, 16) == pytest.approx(62_500 * 4_096 * 15 * 32 / 1e9)
    by_hand = 989.5e12 * 2 * 8 / (32 * 50e9)
    assert answers_ring.least_share("llama-3.1-8b", "h100-sxm", "infiniband-ndr") == pytest.approx(by_hand)
    assert answers_ring.least_share_no_mask("llama-3.1-8b", "h100-sxm", "infiniband-ndr") == pytest.approx(by_hand / 2)


def test_why_a_rank_waited_needs_a_ring_that_says_so():
    """Equal waiting, unequal tokens or a ring that waits in zigzag as well must not be explained by the layout."""

    def ring(in_order=(4.0, 0.1), zigzag=(0.1, 0.1), tokens=(8, 8)) -> dict:
        def layout(waits):
            return {"ranks": [{"waited_s": wait, "tokens": n, "sent_bytes": 9} for wait, n in zip(waits, tokens, strict=True)]}

        return {"layouts": {"contiguous": layout(in_order), "zigzag": layout(zigzag)}}

    assert answers_ring.why_it_waited(ring()) == "early"
    for other in (ring(in_order=(4.0, 3.0)), ring(zigzag=(3.0, 0.1)), ring(tokens=(8, 9)), ring(in_order=(0.1, 4.0))):
        assert answers_ring.why_it_waited(other) is None


def test_what_a_rank_of_an_own_ring_sent():
    """Half of the whole KV with two ranks, two thirds with three; with one nothing goes round."""
    rank = {"kv_bytes": 30, "sent_bytes": 60}
    assert measured.sent_of_cache(recordings.load("ring-cpu")) == pytest.approx(50)
    assert measured.sent_of_cache({"layouts": {"zigzag": {"ranks": [rank] * 3}}}) == pytest.approx(200 / 3)
    assert measured.sent_of_cache({"layouts": {"zigzag": {"ranks": [{**rank, "sent_bytes": 0}]}}}) is measured.sent_of_cache({}) is None


def test_a_state_and_ten_million_tokens():
    """By hand: 64 x 1,089,536 numbers over 2 x 80 x 8 x 128 of a token; 131,072 B x 10,000,000 over 50 GB/s."""
    assert answers_open.state_crossing("codestral-mamba-7b", "llama-3-70b") == -(-64 * 1_089_536 // (2 * 80 * 8 * 128))
    assert answers_open.ten_million_s("llama-3.1-8b", "infiniband-ndr") == pytest.approx(131_072 * 1e7 / 50e9)


def test_reading_ten_million_tokens_takes_longer_than_any_of_these_links():
    """The explanation says so of whatever was drawn: more than an hour on eight H100s at 40 %."""
    for case in ITEMS["open-ten-link"].cases:
        model = profiles.model(case["model"])
        prefill_s = ten_story.prefill_flops(model, case["tokens"]) / (8 * 0.4 * profiles.device("h100-sxm").bf16_flops_per_s)
        assert prefill_s > 3600 > 10 * answers_open.ten_million_s(case["model"], case["link"]), case


def test_who_answers_best_only_where_it_leads_by_far():
    """The whole cache does not count, nor a needle within the window; a lead that chance could give is none."""

    def needle(**rates: float) -> dict:
        cells = [{"policy": policy, "rate": rate, "in_sinks": False, "in_window": False} for policy, rate in rates.items()]
        return {"cells": [*cells, {"policy": "window", "rate": 1.0, "in_sinks": False, "in_window": True}]}

    assert answers_open.best_outside(needle(dense=0.9, snapkv=0.7, h2o=0.3)) == "snapkv"
    assert answers_open.best_outside(needle(dense=0.9, snapkv=0.4, h2o=0.3)) is None


def test_what_a_recall_and_a_growing_cache_say():
    """At the most pairs and the longest text alone; without one of the two sides there is nothing to compare."""
    recall = [{"mechanism": "sum", "key_dim": dim, "pairs": n, "rate": rate} for dim, n, rate in ((64, 9, 0.2), (64, 4, 1.0), (16, 99, 0.1))]
    assert answers_open.still_right({"recall": recall}, "sum", 64) == pytest.approx(20)
    decode = [{"mechanism": m, "tokens": n, "bytes": size} for m, n, size in (("softmax", 2, 8), ("softmax", 9, 36), ("sum", 9, 4), ("sum", 2, 4))]
    assert measured.cache_against_state({"decode": decode}) == 9
    assert measured.cache_against_state({"decode": decode[:2]}) is measured.cache_against_state({}) is None


def test_the_axes_are_those_of_the_closing_table():
    """What the quiz says a remedy relieves must not differ from the course's table."""
    axes = {"kept": {"compute", "memory"}, "reach": {"position"}, "share": {"compute", "memory"}, "turn": {"turn"}}
    names = {"StreamingLLM": "streaming", "YaRN": "yarn", "Ring Attention": "ring", "Chunked prefill": "chunked", "Disaggregation": "disaggregated"}
    drawn = {case["remedy"] for case in ITEMS["course-which-axis"].cases}
    assert drawn == set(answers_open.RELIEVED) and {names[remedy] for remedy in drawn} == set(evidence.REMEDIES)
    for remedy in drawn:
        effects = dict(zip(evidence.AXES, evidence.ON_AXES[names[remedy]], strict=True))
        gains = {axis for axis, effect in effects.items() if effect == evidence.GAIN}
        assert gains == axes[answers_open.what_it_relieves(remedy)], remedy
