"""A model with stretched frequencies computes what Hugging Face's does, and the comparison would notice if it did not."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import LabError
from engine.formulas.rope import METHODS, RopeScaling, scaling_for
from engine.model.config import ModelConfig
from engine.model.rope import Rope, rotate
from engine.model.transformer import Transformer, causal_attend
from tests.model.checkpoints import SETTINGS, tensors_of, write_gguf
from tests.model.reference import TOLERANCE, difference, hf_logits_of, hf_random, logits_of, ours_from_hf

TRAINED = 40
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": TRAINED}
ROPES = {
    "linear": {"rope_type": "linear", "factor": 2.5},
    "linear, the old key": {"type": "linear", "factor": 2.5},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "dynamic, s = length / trained": {"rope_type": "dynamic", "factor": 1.0},
    "yarn": YARN,
    "yarn, whole range": {**YARN, "truncate": False, "beta_fast": 4.0, "beta_slow": 0.5},
    "yarn, mscale": {**YARN, "mscale": 1.3, "mscale_all_dim": 0.4},
    "yarn, attention factor": {**YARN, "attention_factor": 0.8},
    "yarn, factor from the lengths": {**YARN, "factor": None},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": TRAINED,
    },
}  # fmt: skip


def hf_settings(rope: dict, **settings) -> dict:
    longest = TRAINED if "dynamic" in rope.values() else 3 * TRAINED
    return {
        "vocab_size": 120, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size": 64, "max_position_embeddings": longest,
        "rope_parameters": {"rope_theta": 1e4, **rope}, **settings,
    }  # fmt: skip


def ids_of(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 120, (length,), generator=torch.Generator().manual_seed(seed))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(ROPES)), st.sampled_from([4, 6, 16, 64]), st.sampled_from([100.0, 1e4, 5e5]), st.integers(1, 160),
    st.integers(0, 2**31),
)  # fmt: skip
def test_random_models_with_stretched_frequencies(name, head_dim, base, length, seed):
    """Each kind with its parameters, in one forward of a text shorter or longer than the trained length."""
    rope = {**ROPES[name], "rope_theta": base}
    theirs = hf_random(seed, **hf_settings(rope, head_dim=head_dim))
    ids = ids_of(length, seed)
    reference = hf_logits_of(theirs, ids)
    assert reference.std() >= 1
    assert difference(logits_of(ours_from_hf(theirs), ids), reference) < TOLERANCE


WRONG = {
    "temperature": {"attention_factor": 1.0},
    "temperature, unsquared": {"attention_factor": 1.0675},  # sqrt(0.1 ln 4 + 1)
    "ramp": {"ramp": "rotations"},
    "ends of the ramp": {"beta_slow": 0.3},
    "trained length": {"original_context": 3 * TRAINED},
    "factor": {"factor": 4.2},
    "interpolated everywhere": {"kind": "linear"},
}


@pytest.mark.parametrize("wrong", [*WRONG, "base"])
def test_comparison_notices_a_wrong_yarn(wrong):
    """The property test above has power: each mistake is at least a hundred times over its tolerance."""
    theirs = hf_random(3, **hf_settings(YARN))
    ids = ids_of(120)
    reference, ours = hf_logits_of(theirs, ids), ours_from_hf(theirs)
    assert reference.std() >= 1
    assert difference(logits_of(ours, ids), reference) < TOLERANCE
    if wrong == "base":
        ours.rope = Rope(dataclasses.replace(ours.config, rope_theta=1.02e4))
    else:
        ours = ours.scaled(dataclasses.replace(ours.config.rope_scaling, **WRONG[wrong]))
    assert difference(logits_of(ours, ids), reference) > 100 * TOLERANCE


@pytest.mark.parametrize("wrong", [{"factor": 2.1}, {"original_context": TRAINED + 1}, {"kind": "ntk"}])
def test_comparison_notices_a_wrong_dynamic(wrong):
    theirs = hf_random(3, **hf_settings(ROPES["dynamic"]))
    ids = ids_of(120)
    reference, ours = hf_logits_of(theirs, ids), ours_from_hf(theirs)
    assert difference(logits_of(ours, ids), reference) < TOLERANCE
    ours = ours.scaled(dataclasses.replace(ours.config.rope_scaling, **wrong))
    assert difference(logits_of(ours, ids), reference) > 100 * TOLERANCE


def test_dynamic_comes_back_for_a_shorter_text():
    """The base that never shrinks back: a short text after a long one must be read as trained."""
    model = Transformer.random(ModelConfig.from_hf({**SETTINGS, "rope_scaling": {"type": "dynamic", "factor": 2.0}}), seed=1)
    short, plain = ids_of(100), model.scaled(None)
    before = logits_of(model, short)
    assert difference(logits_of(model, ids_of(300)), logits_of(plain, ids_of(300))) > 0.05
    assert torch.equal(logits_of(model, short), before) and torch.equal(before, logits_of(plain, short))


def test_dynamic_refuses_a_part_of_a_text():
    """The length was taken from the highest position: a rank with a middle part turned it as if nothing came after."""
    model = Transformer.random(ModelConfig.from_hf({**SETTINGS, "rope_scaling": {"type": "dynamic", "factor": 2.0}}), seed=1)
    ids = ids_of(8)
    for positions in (torch.arange(3, 11), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])):
        with pytest.raises(ValueError, match="all of it"):
            model(ids, positions, causal_attend)
        model.scaled(None)(ids, positions, causal_attend)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pack", [False, True], ids=["plain", "packed for the CPU"])
def test_scaled_is_a_model_built_so(method, pack):
    """The same weights, in the same memory, under another rotation; the model it comes from stays as it is."""
    config, scaling = ModelConfig.from_hf(SETTINGS), scaling_for(method, 4.0, 64)
    model = Transformer.random(config, seed=1)
    model = model.pack() if pack else model
    ids = ids_of(200)
    before = logits_of(model, ids)
    scaled = model.scaled(scaling)
    built = Transformer.random(dataclasses.replace(config, rope_scaling=scaling), seed=1)
    built = built.pack() if pack else built
    assert torch.equal(logits_of(scaled, ids), logits_of(built, ids))
    assert scaled.config == built.config and scaled.norm.data_ptr() == model.norm.data_ptr()
    assert scaled.layers is model.layers and scaled.head is model.head
    assert torch.equal(logits_of(model, ids), before) and model.config == config
    assert (difference(logits_of(scaled, ids), before) > 0.05) == (method != "none")
    assert torch.equal(logits_of(scaled.scaled(None), ids), before)


def test_scaled_refuses_what_a_checkpoint_may_not_say():
    model = Transformer.random(ModelConfig.from_hf(SETTINGS), seed=1)
    with pytest.raises(LabError) as caught:
        model.scaled(RopeScaling("yarn", factor=-1.0))
    assert caught.value.code == "checkpoint-config" and caught.value.facts["field"] == "factor"


def test_what_went_through_position_0_is_turned_without_a_second_temperature():
    """Caches that keep keys unturned get them at position 0. The attention factor in those tables, again in these, would
    sharpen the scores by its fourth power."""
    rope = Rope(dataclasses.replace(ModelConfig.from_hf(SETTINGS), rope_scaling=scaling_for("yarn", 4.0, 64)))
    rows = torch.randn(7, 3, 16, generator=torch.Generator().manual_seed(0))
    places = torch.arange(50, 57)
    at_0 = rotate(rows, *rope.tables(torch.zeros_like(places), torch.float32))
    direct = rotate(rows, *rope.tables(places, torch.float32))
    assert rope.attention_factor > 1.1
    torch.testing.assert_close(rope.turned(at_0.transpose(0, 1), places).transpose(0, 1), direct)
    torch.testing.assert_close(direct.norm(dim=-1), rows.norm(dim=-1) * rope.attention_factor)


def test_config_keys_of_hugging_face():
    """Where the trained length and the factor may stand, and which of two tables counts."""

    def scaling(**settings):
        return ModelConfig.from_hf({**SETTINGS, "max_position_embeddings": 512, **settings}).rope_scaling

    yarn = {"rope_type": "yarn", "factor": 4.0}
    assert scaling(rope_scaling=yarn) == RopeScaling("yarn", factor=4.0, original_context=512)
    assert scaling(rope_scaling={**yarn, "original_max_position_embeddings": 128}).original_context == 128
    outside = scaling(rope_scaling={**yarn, "original_max_position_embeddings": 128}, original_max_position_embeddings=64)
    assert outside.original_context == 64
    from_lengths = scaling(rope_scaling={"type": "yarn", "factor": None, "original_max_position_embeddings": 128})
    assert from_lengths == RopeScaling("yarn", factor=4.0, original_context=128)
    assert scaling(rope_scaling={"type": "linear", "factor": 2.0}, rope_parameters=yarn) == RopeScaling("linear", factor=2.0)
    dynamic = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 128}
    assert scaling(rope_scaling=dynamic) == RopeScaling("dynamic", factor=2.0, original_context=512)
    assert scaling(rope_scaling={"rope_type": "default", "original_max_position_embeddings": "?"}) is None


def test_yarn_in_a_gguf_file(tmp_path):
    from engine.model.load import load_model

    config = ModelConfig.from_hf(SETTINGS)
    keys = {"type": "yarn", "factor": 4.0, "original_context_length": 32}
    fields = {f"llama.rope.scaling.{key}": value for key, value in keys.items()}
    path = write_gguf(tmp_path / "model.gguf", config, tensors_of(config), fields=fields)
    assert load_model(str(path)).config.rope_scaling == RopeScaling("yarn", factor=4.0, original_context=32)
