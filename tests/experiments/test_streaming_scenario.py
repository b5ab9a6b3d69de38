"""The streaming scenario: the preset loads, bad input is one sentence, equal ones have one key, every curve has its name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import streaming_scenario
from engine.experiments.needle_scenario import needle_for
from engine.experiments.streaming_scenario import LEAST_AFTER, POLICIES, StreamingScenario, streaming_for, streams

CPU = streaming_for("cpu")
DIGITS = 10**5000


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_preset_loads(device_class):
    """For both device classes, with texts in both languages, every policy, and enough tokens from a real cache."""
    scenario = streaming_for(device_class)
    assert scenario.kind == scenario.workload == "streaming" and scenario.policies == POLICIES
    assert scenario.counts == (0, 1, 2, 4, 8) and scenario.decode_tokens >= 200 and scenario.tokens > 3 * scenario.window
    (preset,) = streams().values()
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())


def test_which_curves_there_are():
    """No sinks are the window; either is there only if its policy is."""
    assert CPU.changed({"sinks": [8, 0, 2]}).counts == (0, 2, 8)
    assert CPU.changed({"sinks": [4], "policies": ["sinks"]}).counts == (4,)
    assert CPU.changed({"sinks": [], "policies": ["window", "h2o"]}).counts == (0,)
    assert CPU.changed({"policies": ["recompute"]}).counts == ()
    assert [CPU.changed({"sinks": sinks}).cached_sinks for sinks in ([1, 4, 8], [1, 2], [0])] == [4, 2, 0]
    assert CPU.changed({"policies": []}).cached_sinks is None


BAD = [
    *(({name: value}, name) for name in ("sinks", "policies") for value in ([-1], [1.5], [1.0], [True], [None], None, {"a": 1}, 5.0, "x", [DIGITS], "9" * 6000, [4, 4], [[4]])),
    ({"sinks": [65]}, "sinks"), ({"policies": ["full"]}, "policies"), ({"window": 16, "sinks": [9]}, "sinks"),
    *(({name: value}, name) for name in ("tokens", "window", "points", "threads", "seed") for value in (-1, 1.5, True, None, "x", DIGITS)),
    ({"tokens": 31}, "tokens"), ({"window": 15}, "window"), ({"points": 0}, "points"), ({"decode_tokens": 2001}, "decode_tokens"),
    ({"tokens": 512, "window": 512 - LEAST_AFTER + 1}, "window"),
    ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": ""}, "model"), ({"text": 5}, "text"), ({"text": " "}, "text"),
]  # fmt: skip


@pytest.mark.parametrize("changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(changes, field):
    """From a form or a command line: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        CPU.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    json.dumps(caught.value.as_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["nonsense", "workload", "kind", "sink", "repeats"])
def test_an_unknown_setting_is_told(name):
    """A misspelt setting that is silently ignored measures something else than was asked for."""
    with pytest.raises(LabError) as caught:
        CPU.changed({name: 1})
    assert caught.value.code == "scenario-field" and "decode_tokens" in str(caught.value)


def test_too_much_in_all_is_told():
    """Each setting may be allowed and all of them together take a day."""
    with pytest.raises(LabError) as caught:
        CPU.changed({"tokens": 32_768, "window": 16_384, "points": 512})
    assert caught.value.code == "scenario-too-much"


@pytest.mark.parametrize("record", [None, 5, [], "x", {}, {"tokens": 100}, {**CPU.as_dict(), "x": 1}, {**CPU.as_dict(), "sinks": 4}, {**CPU.as_dict(), "policies": [["dense"]]}], ids=str)  # fmt: skip
def test_what_is_no_scenario_is_refused(record):
    """Stored and sent scenarios can be damaged: one sentence."""
    with pytest.raises(LabError) as caught:
        StreamingScenario.from_dict(record)
    assert caught.value.code in ("scenario-value", "scenario-field")


@given(st.integers(64, 4000), st.lists(st.integers(0, 8), unique=True, max_size=6), st.lists(st.sampled_from(POLICIES), unique=True), st.integers(0, 5))
def test_equal_scenarios_have_one_key_and_survive_json(tokens, sinks, policies, seed):
    """Found again in the store after a way over JSON."""
    changed = CPU.changed({"tokens": tokens, "window": 16, "sinks": sinks, "policies": policies, "seed": seed})
    again = StreamingScenario.from_dict(json.loads(json.dumps(changed.as_dict())))
    assert again == changed and again.key() == changed.key() != CPU.key()
    assert changed.total_tokens >= tokens


def test_values_from_a_command_line_and_keys_of_other_experiments():
    """--set sinks=0,4 --set policies=sinks,h2o; answered with another experiment's result a page would break."""
    changed = CPU.changed({"sinks": "0, 4", "policies": "sinks,h2o"})
    assert (changed.sinks, changed.policies) == ((0, 4), ("sinks", "h2o")) and CPU.changed({"sinks": 4}).sinks == (4,)
    assert CPU.key() != needle_for().key()


def test_a_broken_preset_is_named(tmp_path, monkeypatch):
    """Whoever edits a preset is told which file and why."""
    (tmp_path / "1-x.toml").write_text('name = "streaming"\n[title]\nko="a"\nen="a"\n[summary]\nko="a"\nen="a"\n[cpu]\ntokens=5\nwindow=5\n')
    monkeypatch.setattr(streaming_scenario, "STREAMING_DIR", tmp_path)
    streams.cache_clear()
    try:
        with pytest.raises(LabError) as caught:
            streaming_for("cpu")
        assert caught.value.code == "workload-broken" and caught.value.facts["path"] == "1-x.toml"
    finally:
        streams.cache_clear()
