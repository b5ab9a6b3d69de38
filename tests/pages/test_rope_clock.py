"""The clock and the workbench without a browser: what is given to the page, what comes out, and what bad input becomes."""

import pytest

from engine.formulas import rope
from engine.model.catalog import CATALOG
from engine.model.config import ModelConfig
from pages._ui.words import Words
from pages.rope import clock, heads, stretching
from pages.rope.stretching import Bench

EN, KO = Words("en", "rope"), Words("ko", "rope")
GOOD = {"base": "10000", "head_dim": "128", "factor": "8", "trained": "4096"}
LLAMA = {
    "model_type": "llama", "vocab_size": 100, "hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 4, "intermediate_size": 64, "head_dim": 128, "tie_word_embeddings": False,
}


@pytest.mark.parametrize("head", [head for head in heads.HEADS if head.name in CATALOG], ids=lambda head: head.name)
def test_the_heads_are_those_of_the_models(head):
    """Hands with another base than the model's would show other pairs breaking than the measurements do."""
    config = CATALOG[head.name].config
    assert (head.head_dim, head.base, head.trained) == (config.head_dim, config.rope_theta, config.max_context)


@pytest.mark.parametrize(
    "at",
    [None, "x", [], {"head": []}, {"factor": True, "position": "9"}, {"head": "nobody", "method": "magic"}, {"position": 1e9}, {"factor": float("nan")}],
)
def test_what_a_browser_makes_up_is_not_believed(at):
    assert heads.checked(at) == heads.START


def test_what_a_reader_chose_is_kept():
    at = {"head": heads.PRETRAINED.name, "method": "yarn", "factor": 8, "ramp": "rotations", "position": 100_000}
    assert heads.checked(at) == at
    assert heads.checked({**at, "head": heads.LAB.name})["position"] == heads.START["position"], "too far for the other head"


@pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])
def test_every_method_has_its_sentence(words):
    found = clock.payload(None, words)
    for method in rope.METHODS:
        assert f"clock.about_{method.replace('-', '_')}" in found["words"] and found["words"][f"method.{method}"]
        assert f"workbench.about_{method.replace('-', '_')}" in words


@pytest.mark.parametrize(
    ("name", "typed", "key"),
    [
        ("base", "", "no_number"), ("base", "nan", "no_number"), ("factor", "inf", "no_number"), ("base", "1_0", "no_number"),
        ("factor", "0.5", "beyond"), ("head_dim", "2", "beyond"), ("trained", "-1", "beyond"), ("base", "1", "beyond"),
        ("trained", "100.5", "not_whole"), ("head_dim", "127", "odd"),
    ],
)
def test_bad_input_becomes_a_sentence(name, typed, key):
    bench, wrong = stretching.read({**GOOD, name: typed}, "ntk", "dimensions")
    assert bench is None and [found for found, _ in wrong] == [f"workbench.{key}"]
    for words in (EN, KO):
        sentence = words(wrong[0][0], **wrong[0][1])
        assert "{" not in sentence and wrong[0][1]["low"] in sentence


@pytest.mark.parametrize("method", rope.METHODS)
@pytest.mark.parametrize("corner", [{}, {"factor": "1"}, {"base": "2"}, {"base": "1e9", "head_dim": "1024"}, {"head_dim": "4", "trained": "16", "factor": "1,000"}])
def test_whatever_is_allowed_can_be_shown(method, corner):
    """A corner of the limits must give numbers, not a traceback."""
    for ramp in rope.RAMPS:
        bench, wrong = stretching.read({**GOOD, **corner}, method, ramp)
        assert not wrong
        head, rows = stretching.table(bench, EN, every=True)
        assert len(rows) == bench.head_dim // 2 and all(len(row) == len(head) for row in rows)
        said = " ".join(value for _, value in stretching.figures(bench, EN)) + " ".join(map(" ".join, rows))
        assert "nan" not in said and "inf" not in said and "e+" not in said


def test_the_new_base_divides_the_slowest_pair_by_exactly_s():
    bench = Bench(10_000.0, 128, 8.0, 4096, "ntk")
    assert dict(stretching.figures(bench, EN))["New base"] == "82,684.6"
    assert dict(stretching.figures(bench, EN))["Slowest pair's frequency"] == "÷ 8"
    rows = stretching.table(bench, EN, every=True)[1]
    assert rows[0][-1] == "as it was" and rows[-1][-1] == "÷ 8"


@pytest.mark.parametrize("method", rope.METHODS)
def test_the_settings_for_hugging_face_ask_for_the_same_rotation(method):
    """Settings that are copied and mean another thing would be worse than none."""
    bench = Bench(10_000.0, 128, 8.0, 4096, method)
    config = ModelConfig.from_hf({**LLAMA, **stretching.hf_settings(bench)})
    found = rope.turning(config.rope_scaling, 128, config.rope_theta, bench.length)
    assert found.frequencies == pytest.approx(bench.turning.frequencies, rel=1e-12)
    assert found.attention_factor == pytest.approx(bench.turning.attention_factor)
