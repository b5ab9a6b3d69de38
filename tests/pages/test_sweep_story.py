"""What the sweeps say follows their points: change a number, and another sentence comes."""

import pytest

from pages._ui.palette import LIGHT
from pages._ui.words import Words, table
from pages.schedules import million, sweep_story
from engine import profiles

EN = Words("en", "schedules")


def chunk_point(value: int, chunks: int, ttft: float, gap: float) -> dict:
    metrics = {"ttft_s": ttft, "prefill_s": ttft, "itl_max_s": gap, "itl_p50_s": 0.04, "throughput_tokens_per_s": 100.0}
    return {
        "value": value, "chunk_tokens": value or None, "chunks": chunks, "metrics": metrics, "alone_s": ttft * 0.9,
        "scheduling_cost_s": ttft * 0.1, "kernel_cost_s": 0.0, "spread": {"ttft_s": [ttft * 0.9, ttft * 1.1]},
    }  # fmt: skip


def chunk_sweep(price=lambda n: 0.05) -> dict:
    sizes = [(32, 32), (64, 16), (128, 8), (256, 4)]
    points = [chunk_point(size, n, 1.0 + n * price(n), 1.0 / n) for size, n in sizes]
    return {"kind": "chunk-sweep", "points": [chunk_point(0, 1, 1.0, 1.0), *points]}


def backlog_point(tokens: int, load: float, slope: float) -> dict:
    return {
        "value": tokens, "prompt_tokens": tokens, "prompts": 4, "spacing_s": 0.5, "alone_s": load * 0.5,
        "capacity_prompts_per_s": 2 / load, "load": load, "ttft_s": [load * 0.5 + slope * k for k in range(4)],
        "wait_slope_s": slope, "theory_slope_s": max(0.0, 0.5 * (load - 1)), "grows": slope > 0.05,
    }  # fmt: skip


def backlog(*points) -> dict:
    return {"kind": "backlog", "points": [backlog_point(*p) for p in points]}


def keys(result) -> list[str]:
    return [key for key, _ in sweep_story.tell(result, EN, LIGHT, False).sentences]


def test_a_constant_price_per_chunk_is_a_straight_line_and_another_is_not():
    """Claim A7 is tested on the machine, not asserted."""
    assert "chunks.straight" in keys(chunk_sweep())
    assert "chunks.bent" in keys(chunk_sweep(lambda n: 0.3 / n**0.8))
    assert "chunks.free" in keys(chunk_sweep(lambda n: -0.01))
    both = keys(chunk_sweep(lambda n: -0.01 if n == 4 else 0.05))  # one size lost in noise does not silence the rest
    assert "chunks.free" in both and "chunks.straight" in both


def test_the_small_chunk_is_told_with_its_numbers():
    key, facts = sweep_story.tell(chunk_sweep(), EN, LIGHT, False).sentences[0]
    assert key == "chunks.small"
    assert facts == {"size": "32", "n": "32", "ttft": "2.60 s", "ratio": "2.6", "gap": "31 ms", "whole_gap": "1.00 s"}


def test_chunks_are_drawn_by_size_with_the_whole_prompt_as_a_level():
    story = sweep_story.tell(chunk_sweep(), EN, LIGHT, False)
    first = story.figure["data"][0]
    assert first["x"] == [32.0, 64.0, 128.0, 256.0] and first["error_y"]
    assert story.figure["layout"]["shapes"][0]["y0"] == 1.0
    assert [row[0] for row in story.rows] == ["32", "64", "128", "256", "whole"]


def test_without_the_whole_prompt_nothing_is_compared_with_it():
    result = chunk_sweep()
    result["points"] = result["points"][1:]
    assert keys(result) == []


def test_the_wall_is_where_waits_begin_to_grow():
    result = backlog((128, 0.5, 0.0), (256, 0.9, 0.001), (512, 1.8, 0.4))
    story = sweep_story.tell(result, EN, LIGHT, False)
    assert [key for key, _ in story.sentences] == ["backlog.between", "backlog.wall_close"]
    assert story.sentences[0][1] == {"calm": "0.90", "growing": "1.80"}
    assert [row[-1] for row in story.rows] == ["no", "no", "yes"]


def test_points_that_noise_has_shuffled_get_no_wall_between_them():
    assert "backlog.between" not in keys(backlog((128, 0.5, 0.2), (256, 0.9, 0.0), (512, 1.8, 0.4)))


def test_a_disturbed_point_is_marked():
    result = backlog((128, 0.5, 0.0), (512, 1.8, 0.4))
    result["points"][1]["disturbed"] = True
    assert [row[0] for row in sweep_story.tell(result, EN, LIGHT, False).rows] == ["128", "512 (disturbed)"]


def test_a_growth_that_theory_does_not_tell_is_not_called_close():
    assert keys(backlog((512, 1.8, 0.1))) == ["backlog.wall"]


def test_no_wall_is_said_when_none_was_met():
    assert keys(backlog((128, 0.5, 0.0), (256, 0.9, 0.0))) == ["backlog.none"]


@pytest.mark.parametrize("lang", ["ko", "en"])
def test_every_sentence_has_words_in_both_languages(lang):
    words = Words(lang, "schedules")
    for result in (chunk_sweep(), chunk_sweep(lambda n: 0.3 / n**0.8), backlog((128, 0.5, 0.0), (512, 1.8, 0.4))):
        for key, facts in sweep_story.tell(result, words, LIGHT, True).sentences:
            assert key in table(lang, "schedules") and "{" not in words(key, **facts)


def test_a_million_tokens_as_the_claims_table_has_them():
    """B1/B2: 70B, 131,072 tokens, A100 at its peak: 72 s of causal attention and about 58 s of matrices."""
    model, device = profiles.model("llama-3-70b"), profiles.device("a100-80gb-sxm")
    found = million.prefill(model, device, 131_072, 1, 1.0)
    assert found.seconds == pytest.approx(72 + 57.5, rel=0.01)
    assert found.attention_share == pytest.approx(72 / 129.5, rel=0.01)
    assert million.prefill(model, device, 131_072, 4, 0.5).most_per_hour == pytest.approx(3600 * 2 / found.seconds)
