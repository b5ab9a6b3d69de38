"""The needle's scenario: the preset loads, bad input is one sentence, equal ones have one key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import needle_scenario
from engine.experiments.needle_scenario import POLICIES, NeedleScenario, needle_for, needles

CPU = needle_for("cpu")
DIGITS = 10**5000


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_preset_loads(device_class):
    """For both device classes, with texts in both languages, enough trials, and a window that has passed the needle."""
    scenario = needle_for(device_class)
    assert scenario.kind == scenario.workload == "needle" and scenario.policies == POLICIES and scenario.trials >= 60
    assert scenario.window * 2 < scenario.length * (1 - scenario.depth)
    (preset,) = needles().values()
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())


@pytest.mark.parametrize("trials, distractors, texts", [(64, 3, 16), (1, 3, 1), (5, 3, 2), (7, 0, 7)])
def test_a_text_serves_several_trials(trials, distractors, texts):
    """So many trials at least."""
    assert CPU.changed({"trials": trials, "distractors": distractors}).texts == texts


BAD = [
    *(({"policies": value}, "policies") for value in ([], ["recompute"], [1], [True], None, {"a": 1}, 5.0, "x", ["dense", "dense"], [["dense"]])),
    *(({name: value}, name) for name in ("trials", "length", "window", "sinks", "distractors", "seed") for value in (-1, 1.5, True, None, "x", DIGITS)),
    ({"trials": 0}, "trials"), ({"length": 95}, "length"), ({"window": 63}, "window"), ({"sinks": 0}, "sinks"), ({"distractors": 8}, "distractors"), ({"window": 64, "sinks": 33}, "sinks"),
    *(({"depth": value}, "depth") for value in (-0.1, 1.1, float("nan"), float("inf"), True, None, "x", DIGITS)),
    ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": ""}, "model"), ({"text": 5}, "text"),
]  # fmt: skip


@pytest.mark.parametrize("changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(changes, field):
    """From a form or a command line: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        CPU.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    json.dumps(caught.value.as_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["nonsense", "workload", "kind", "repeats"])
def test_an_unknown_setting_is_told(name):
    """A misspelt setting that is silently ignored measures something else than was asked for."""
    with pytest.raises(LabError) as caught:
        CPU.changed({name: 1})
    assert caught.value.code == "scenario-field" and "distractors" in str(caught.value)


def test_too_much_in_all_is_told():
    """Each setting may be allowed and all of them together take a day."""
    with pytest.raises(LabError) as caught:
        CPU.changed({"trials": 2000, "length": 32_768})
    assert caught.value.code == "scenario-too-much"


@pytest.mark.parametrize("record", [None, 5, [], "x", {}, {"trials": 5}, {**CPU.as_dict(), "x": 1}, {**CPU.as_dict(), "policies": "dense"}], ids=str)
def test_what_is_no_scenario_is_refused(record):
    """Stored and sent scenarios can be damaged: one sentence."""
    with pytest.raises(LabError) as caught:
        NeedleScenario.from_dict(record)
    assert caught.value.code in ("scenario-value", "scenario-field")


@given(st.integers(1, 300), st.integers(96, 3000), st.floats(0, 1), st.lists(st.sampled_from(POLICIES), unique=True, min_size=1))
def test_equal_scenarios_have_one_key_and_survive_json(trials, length, depth, policies):
    """Found again in the store after a way over JSON, with a depth of 1 as with 1.0."""
    changed = CPU.changed({"trials": trials, "length": length, "depth": depth, "policies": policies, "seed": 7})
    again = NeedleScenario.from_dict(json.loads(json.dumps(changed.as_dict())))
    assert again == changed and again.key() == changed.key() != CPU.key()
    assert CPU.changed({"depth": 1}).key() == CPU.changed({"depth": 1.0}).key()


def test_a_broken_preset_is_named(tmp_path, monkeypatch):
    """Whoever edits a preset is told which file and why."""
    (tmp_path / "1-x.toml").write_text('name = "needle"\n[title]\nko="a"\nen="a"\n[summary]\nko="a"\nen="a"\n[cpu]\ntrials=0\nlength=5\nwindow=5\n')
    monkeypatch.setattr(needle_scenario, "NEEDLE_DIR", tmp_path)
    needles.cache_clear()
    try:
        with pytest.raises(LabError) as caught:
            needle_for("cpu")
        assert caught.value.code == "workload-broken" and caught.value.facts["path"] == "1-x.toml"
    finally:
        needles.cache_clear()
