"""What the quizzes of transfer and pools are answered with: worked by hand, and what is said in items against the profiles."""

from __future__ import annotations

import pytest

from engine import profiles
from engine.formulas import transfer
from engine.quiz import answers, answers_pools, answers_transfer
from tests.quiz.test_items import ITEMS


def test_numbers_that_stand_in_a_text_are_those_of_the_profile():
    """Bytes, rates and requests typed into an item that its answer does not use would be noticed by learners alone."""
    other = lambda case: profiles.device(case["device_other"])
    said = {
        "gb": lambda case: profiles.device(case["device"]).capacity_bytes / 1e9,
        "tbps_other": lambda case: other(case).memory_bytes_per_s / 1e12,
        "gb_other": lambda case: other(case).capacity_bytes / 1e9,
        "tflops_other": lambda case: other(case).bf16_flops_per_s / 1e12,
        "weights_gb": lambda case: profiles.model(case["model"]).weight_bytes() / 1e9,
        "kv_gb": lambda case: profiles.model(case["model"]).kv_bytes(case["tokens"]).total / 1e9,
        "fit_other": lambda case: answers.requests_fit(case["model"], case["device_other"], case["tokens"]),
    }
    found = [(item, name, case) for item in ITEMS.values() if item.lesson == "pools" for case in item.cases for name in said if name in case]
    assert {name for _, name, _ in found} == set(said)
    for item, name, case in found:
        assert case[name] == pytest.approx(said[name](case), rel=0.005), (item.id, case)


def test_who_computes_with_the_numbers_in_the_text_gets_the_right_whole_number():
    """Rounded bytes must not tip a request over the edge."""
    for case in ITEMS["pools-fit-small"].cases:
        by_hand = int((0.9 * case["gb"] - case["weights_gb"]) / case["kv_gb"])
        assert by_hand == answers_pools.fit_on_small(case["model"], case["device"], case["tokens"]), case


def test_numbers_of_the_model_answers():
    """131,072 tokens of Llama 3.1 8B over two links; the cards that the chapter names."""
    size = profiles.model("llama-3.1-8b").kv_bytes(131_072).total
    slow, quick = (transfer.transfer_s(size, profiles.link(name).bytes_per_s) for name in ("ethernet-10", "infiniband-ndr"))
    cards = [profiles.device(name).memory_bytes_per_s / 1e9 for name in ("l40s", "a100-80gb-sxm")]
    for lang in ("ko", "en"):
        sent, chosen = ITEMS["transfer-why-critical"].model_answer[lang], ITEMS["pools-why-unlike"].model_answer[lang]
        assert all(text in sent for text in (f"{size / 1e9:.1f} GB", f"{slow:.1f}", f"{quick:.2f}"))
        assert all(f"{rate:,.0f}" in chosen for rate in cards)
    assert profiles.device("a100-80gb-sxm").fp8_flops_per_s is None


def test_a_cache_in_fp8():
    """2 x 32 layers x 8 heads x 128 values of a byte each, 131,072 times, over 50 GB/s: 171.8 ms, and both stages."""
    args = ("llama-3.1-8b", 131_072, "infiniband-ndr")
    assert answers_transfer.fp8_there_ms(*args, 8, 9) == pytest.approx(171.8 + 17, abs=0.05)
    assert answers_transfer.fp8_there_ms_in_16_bits(*args) == 2 * answers_transfer.fp8_there_ms_way_only(*args)


def test_what_is_left_behind_the_prefill():
    """The first of eight parts goes after 0.5 s of 4, and from there the link needs 6 s."""
    assert answers_transfer.left_behind_s(6, 4, 8) == 0.5 + 6 - 4
    assert answers_transfer.left_behind_s(4, 4, 8) == answers_transfer.left_behind_s_quick_link(4, 8)


def test_which_format_was_first():
    """The sum of the three stages at the longest prompt; none if two were about as quick."""
    row = lambda tokens, name, move: {"tokens": tokens, "format": name, "quantise_s": 0.1, "move_s": move, "dequantise_s": 0.1}
    rows = [row(64, "int4", 0.0), row(128, "int4", 0.3), row(128, "bf16", 0.1)]
    assert answers_transfer.there_first({"rows": rows}) == "bf16"
    assert answers_transfer.there_first({"rows": [*rows, row(128, "fp8", 0.11)]}) is None


def test_how_many_of_each():
    """40 requests share 128 steps of 20 ms: 64 ms of decode each, beside 40 ms of prefill."""
    assert answers_pools.prefill_per_decode(40, 20, 40, 129) == pytest.approx(40 / 64)
    assert answers_pools.even_price_percent("l40s", "a100-80gb-sxm") == pytest.approx(86.4 / 2.039)


def test_which_pool_idled():
    """The mean of a pool's workers; neither where one worked more than half as long as the other."""

    def result(*shares: tuple[float, ...]) -> dict:
        named = zip(("prefill", "decode"), shares, strict=True)
        return {"arrangements": {"2:1": {"pools": {name: {"workers": [{"busy_share": share} for share in pool]} for name, pool in named}}}}

    assert answers_pools.idle_pool(result((0.9, 0.1), (0.2,)), "2:1") == "decode"
    assert answers_pools.idle_pool(result((0.9, 0.1), (0.3,)), "2:1") is None
    assert answers_pools.idle_pool(result((0.1, 0.1), (0.9,)), "2:1") == "prefill"
