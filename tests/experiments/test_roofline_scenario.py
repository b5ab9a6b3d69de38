"""The roofline's scenario: presets load, bad input is one sentence, equal ones have one key, no step twice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import roofline_scenario
from engine.experiments.roofline_scenario import MOST_POINTS, MOST_VALUES, RooflineScenario, roofline_for, rooflines
from engine.experiments.scenarios import scenario_for
from engine.experiments.sweep_scenarios import sweep_for

CPU = roofline_for("cpu")
DIGITS = 10**5000


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_preset_loads(device_class):
    """For both device classes, with texts in both languages: prefills of 16 tokens and more, decodes of 1 to 64 sequences."""
    scenario = roofline_for(device_class)
    assert scenario.kind == scenario.workload == "roofline" and scenario.text == ""
    assert min(scenario.prefill_tokens) == 16 and max(scenario.prefill_tokens) >= 2048
    assert (min(scenario.decode_batches), max(scenario.decode_batches)) == (1, 64) and len(scenario.decode_contexts) >= 3
    (preset,) = rooflines().values()
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())


def test_steps_are_what_the_lists_say():
    """In the order of the result; a name stands for one step."""
    scenario = RooflineScenario((16, 512), (1, 8), (100, 2000))
    assert [step.name for step in scenario.steps] == ["prefill-16", "prefill-512", "decode-1x100", "decode-8x100", "decode-1x2000", "decode-8x2000"]
    assert scenario.steps[1].slices == [(0, 512, True)] and scenario.steps[3].slices == [(100, 1, True)] * 8
    assert scenario.steps[3].as_dict() == {"phase": "decode", "tokens": 8, "batch": 8, "context": 100}
    assert scenario.steps[1].as_dict() == {"phase": "prefill", "tokens": 512, "batch": 1, "context": 0}
    assert scenario.total_tokens == 16 + 512 + 2 * (1 + 8)


BAD = [
    *(({name: value}, name) for name in ("prefill_tokens", "decode_batches", "decode_contexts")
      for value in ([0], [-1], [1.5], [True], [None], None, {"a": 1}, 5.0, "x", "16,x", [16, 16], [DIGITS], "9" * 6000, list(range(1, MOST_VALUES + 2)))),
    ({"decode_batches": [1025]}, "decode_batches"), ({"prefill_tokens": [1_000_001]}, "prefill_tokens"),
    ({"prefill_tokens": [], "decode_batches": []}, "decode_batches"), ({"prefill_tokens": "", "decode_contexts": ""}, "decode_batches"),
    ({"decode_batches": list(range(1, 11)), "decode_contexts": list(range(1, 11))}, "decode_batches"),
    ({"kv_bytes": 0}, "kv_bytes"), ({"kv_bytes": DIGITS}, "kv_bytes"), ({"kv_bytes": 1e9}, "kv_bytes"), ({"repeats": 0}, "repeats"), ({"repeats": True}, "repeats"),
    ({"seed": -1}, "seed"), ({"threads": 257}, "threads"), ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": ""}, "model"), ({"model": 5}, "model"),
]  # fmt: skip


@pytest.mark.parametrize("changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(changes, field):
    """From a form or a command line: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        CPU.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    json.dumps(caught.value.as_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["nonsense", "workload", "text", "kind", "prefill", "steps"])
def test_an_unknown_setting_is_told(name):
    """A misspelt setting that is silently ignored measures something else than was asked for."""
    with pytest.raises(LabError) as caught:
        CPU.changed({name: 1})
    assert caught.value.code == "scenario-field" and "prefill_tokens" in str(caught.value)


def test_too_much_in_all_is_told():
    """Each prompt may be allowed and all of them together take a day."""
    with pytest.raises(LabError) as caught:
        CPU.changed({"prefill_tokens": [1_000_000 - i for i in range(5)]})
    assert caught.value.code == "scenario-too-much"


@pytest.mark.parametrize("record", [None, 5, [], "x", {}, {"prefill_tokens": [16]}, {**CPU.as_dict(), "x": 1}, {**CPU.as_dict(), "prefill_tokens": 16},
                                    {**CPU.as_dict(), "decode_batches": [[1]]}, {**CPU.as_dict(), "decode_batches": {"1": 1}}], ids=str)  # fmt: skip
def test_what_is_no_scenario_is_refused(record):
    """Stored and sent scenarios can be damaged: one sentence."""
    with pytest.raises(LabError) as caught:
        RooflineScenario.from_dict(record)
    assert caught.value.code in ("scenario-value", "scenario-field")


LISTS = st.lists(st.integers(1, 900), max_size=8, unique=True)


@given(LISTS, LISTS, LISTS, st.integers(1, 20), st.integers(0, 5))
def test_equal_scenarios_have_one_key_and_survive_json(prefill, batches, contexts, repeats, seed):
    """Found again in the store after a way over JSON; every step has a name of its own, and there are never too many."""
    changes = {"prefill_tokens": prefill, "decode_batches": batches, "decode_contexts": contexts, "repeats": repeats, "seed": seed}
    count = len(prefill) + len(batches) * len(contexts)
    if not 1 <= count <= MOST_POINTS:
        with pytest.raises(LabError):
            CPU.changed(changes)
        return
    changed = CPU.changed(changes)
    again = RooflineScenario.from_dict(json.loads(json.dumps(changed.as_dict())))
    assert again == changed and again.key() == changed.key() != CPU.key()
    assert len({step.name for step in changed.steps}) == len(changed.steps) == count


def test_keys_tell_the_experiments_apart():
    """Answered from the store with another experiment's result the page would break."""
    assert len({CPU.key(), roofline_for("gpu").key(), sweep_for("backlog").key(), scenario_for("quick").key()}) == 4


def test_values_from_a_command_line():
    """--set prefill_tokens=16,64 and --set decode_batches=4"""
    changed = CPU.changed({"prefill_tokens": "16, 64", "decode_batches": 4, "decode_contexts": "700"})
    assert (changed.prefill_tokens, changed.decode_batches, changed.decode_contexts) == ((16, 64), (4,), (700,))
    assert CPU.changed({"prefill_tokens": ""}).prefill_tokens == ()


def test_a_broken_preset_is_named(tmp_path, monkeypatch):
    """Whoever edits a preset is told which file and why."""
    (tmp_path / "1-x.toml").write_text('name = "roofline"\n[title]\nko="a"\nen="a"\n[summary]\nko="a"\nen="a"\n[cpu]\nprefill_tokens=[0]\ndecode_batches=[]\ndecode_contexts=[]\n')
    monkeypatch.setattr(roofline_scenario, "ROOFLINES_DIR", tmp_path)
    rooflines.cache_clear()
    try:
        with pytest.raises(LabError) as caught:
            roofline_for("cpu")
        assert caught.value.code == "workload-broken" and caught.value.facts["path"] == "1-x.toml"
    finally:
        rooflines.cache_clear()
