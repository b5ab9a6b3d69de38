"""The attention scenario: presets load, bad input is one sentence, equal ones have one key."""

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import attention_scenario
from engine.experiments.attention_scenario import MOST_TOKENS, AttentionScenario, attention_for, attention_presets
from engine.experiments.wall_scenario import wall_for

CPU = attention_for("cpu")
DIGITS = 10**5000


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_preset_loads(device_class):
    """The default model's own language, 512 tokens, with texts in both languages."""
    scenario = attention_for(device_class)
    assert scenario.kind == scenario.workload == "attention" and (scenario.text, scenario.tokens, scenario.first_k) == ("kjv", 512, 4)
    (preset,) = attention_presets().values()
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())


BAD = [
    *(({name: value}, name) for name in ("tokens", "offset", "first_k", "threads", "seed") for value in (-1, 1.5, True, None, "5", [5], DIGITS)),
    ({"tokens": 1}, "tokens"), ({"tokens": MOST_TOKENS + 1}, "tokens"), ({"first_k": 0}, "first_k"), ({"first_k": 17}, "first_k"),
    ({"exact_layer": -2}, "exact_layer"), ({"exact_head": 3}, "exact_head"), ({"exact_layer": 3}, "exact_head"), ({"exact_layer": 1.0, "exact_head": 1}, "exact_layer"),
    ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": " "}, "model"), ({"model": 5}, "model"), ({"text": ""}, "text"), ({"text": None}, "text"),
]  # fmt: skip


@pytest.mark.parametrize("changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(changes, field):
    """From a form or a command line: never a traceback, never a run that fails later."""
    with pytest.raises(LabError) as caught:
        CPU.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    json.dumps(caught.value.as_dict(), allow_nan=False)


@pytest.mark.parametrize("record", [None, 5, [], "text"])
def test_what_is_no_scenario_is_told(record):
    """From an old page or another program."""
    with pytest.raises(LabError) as caught:
        AttentionScenario.from_dict(record)
    assert caught.value.code == "scenario-value"


def test_an_unknown_setting_is_told():
    """Misspelt on a command line it would silently change nothing."""
    for make in (lambda: CPU.changed({"token": 5}), lambda: AttentionScenario.from_dict({"token": 5})):
        with pytest.raises(LabError) as caught:
            make()
        assert caught.value.code == "scenario-field" and "tokens" in caught.value.facts["known"]


@given(st.fixed_dictionaries({}, optional={"tokens": st.integers(2, 1024), "offset": st.integers(0, 10**8), "first_k": st.integers(1, 16), "seed": st.integers(0, 9)}))
def test_there_and_back(changes):
    """The store finds a result by the key; a scenario read back from JSON must be the same."""
    scenario = CPU.changed(changes)
    again = AttentionScenario.from_dict(json.loads(json.dumps(scenario.as_dict())))
    assert again == scenario and again.key() == scenario.key() and (scenario.key() == CPU.key()) == (scenario == CPU)
    assert scenario.total_tokens == scenario.tokens + 4 * min(scenario.tokens, 200)


def test_every_setting_is_in_the_key():
    """One that is not would have another run's result handed out for it."""
    other = {"tokens": 100, "text": "korean", "offset": 7, "first_k": 2, "model": "random-tiny", "device": "cpu", "dtype": "float32", "threads": 1, "seed": 5}
    pair = {"exact_layer": 1, "exact_head": 2}
    keys = {CPU.key(), wall_for("cpu").key(), *(CPU.changed({name: value}).key() for name, value in other.items())}
    keys |= {CPU.changed(pair).key(), CPU.changed({**pair, "exact_head": 1}).key(), CPU.changed({**pair, "exact_layer": 2}).key()}
    assert {*other, *pair} == {field.name for field in fields(CPU)} and len(keys) == 2 + len(other) + 3


def test_a_broken_preset_is_told(tmp_path, monkeypatch):
    """By its file name, instead of a page that does not open."""
    (tmp_path / "x.toml").write_text('name = "attention"\n[title]\nko="가"\nen="a"\n[summary]\nko="가"\nen="a"\n[cpu]\ntokens = 0\n', encoding="utf-8")
    monkeypatch.setattr(attention_scenario, "ATTENTION_DIR", tmp_path)
    attention_presets.cache_clear()
    with pytest.raises(LabError) as caught:
        attention_for("cpu")
    assert caught.value.code == "workload-broken" and caught.value.facts["path"] == "x.toml"
    attention_presets.cache_clear()
