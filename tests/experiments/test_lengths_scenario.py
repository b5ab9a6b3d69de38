"""The scenarios of lengths and retrieval: presets load, bad input is one sentence, equal ones have one key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import lengths_scenario, retrieval_scenario
from engine.experiments.lengths_scenario import LengthsScenario, lengths, lengths_for
from engine.experiments.needle_scenario import needle_for
from engine.experiments.retrieval_scenario import RetrievalScenario, retrieval_for, retrievals
from engine.experiments.stretched import STRETCHES

LENGTHS, RETRIEVAL = lengths_for("cpu"), retrieval_for("cpu")
BOTH = pytest.mark.parametrize("scenario", [LENGTHS, RETRIEVAL], ids=lambda scenario: scenario.kind)
DIGITS = 10**5000


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_presets_load(device_class):
    """For both device classes, with texts in both languages; enough trials, three seeds, and the trained length itself."""
    scenario, needles = lengths_for(device_class), retrieval_for(device_class)
    assert (scenario.kind, needles.kind) == (scenario.workload, needles.workload) == ("lengths", "retrieval")
    assert scenario.methods == STRETCHES and scenario.seeds == 3 and min(scenario.lengths) == scenario.scored == 128
    assert needles.trials == 100 and min(needles.lengths) == 128 and max(needles.lengths) >= 512 and len(needles.depths) >= 5
    for preset in (*lengths().values(), *retrievals().values()):
        assert all(set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values()) for texts in (preset.title, preset.summary))


def test_the_preset_is_that_of_the_model():
    """The lab model's lengths are all within what the default model was trained on: nothing would break."""
    chosen = lengths_for("cpu", model="smollm2-135m-instruct")
    assert chosen == lengths_for("cpu", "lengths-smollm2") and max(chosen.lengths) == 16_384 and chosen.factor == 2.0
    assert lengths_for("cpu", "lengths-smollm2", samples=2).samples == 2
    assert lengths_for("cpu", model="random-tiny").changed({"model": LENGTHS.model}) == LENGTHS == lengths_for("cpu", "lengths")
    with pytest.raises(LabError) as caught:
        lengths_for("cpu", "nonsense")
    assert caught.value.code == "workload-unknown" and "lengths-smollm2" in str(caught.value)


SHARED = [
    *(({"methods": value}, "methods") for value in ([], ["dense"], [1], [True], None, {"a": 1}, 5.0, "x", ["yarn", "yarn"], [["yarn"]])),
    *(({"lengths": value}, "lengths") for value in ([], [15], [65_537], [256.0], [True], None, "x", [256, 256], 1.5, [DIGITS])),
    *(({name: value}, name) for name in ("sinks", "threads", "seed") for value in (-1, 1.5, True, None, "x", DIGITS)),
    *(({"factor": value}, "factor") for value in (-1, 0.5, 1025, float("nan"), float("inf"), True, None, "x", DIGITS)),
    ({"ramp": "pairs"}, "ramp"), ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": ""}, "model"), ({"text": 5}, "text"),
]  # fmt: skip
BAD = [
    *((scenario, *case) for scenario in (LENGTHS, RETRIEVAL) for case in SHARED),
    *((LENGTHS, {name: value}, name) for name in ("scored", "samples", "seeds") for value in (0, 1.5, True, None, "x", 10_000)),
    (LENGTHS, {"scored": 129}, "lengths"),
    *((RETRIEVAL, {"trials": value}, "trials") for value in (0, 1001, 1.5, True, None, "x")),
    *((RETRIEVAL, {"depths": value}, "depths") for value in ([], [-0.1], [1.1], [True], ["x"], None, "x", [0.5, 0.5], [0, 0.0], [float("nan")], [n / 16 for n in range(17)], [[0.5]], DIGITS)),
]  # fmt: skip


@pytest.mark.parametrize("scenario, changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(scenario, changes, field):
    """From a form or a command line: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        scenario.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    json.dumps(caught.value.as_dict(), allow_nan=False)


@BOTH
@pytest.mark.parametrize("name", ["nonsense", "workload", "kind", "repeats", "preset"])
def test_an_unknown_setting_is_told(scenario, name):
    """A misspelt setting that is silently ignored measures something else than was asked for."""
    with pytest.raises(LabError) as caught:
        scenario.changed({name: 1})
    assert caught.value.code == "scenario-field" and "factor" in str(caught.value)


@pytest.mark.parametrize("scenario, changes", [(LENGTHS, {"samples": 256}), (RETRIEVAL, {"lengths": [4096], "trials": 1000})])
def test_too_much_in_all_is_told(scenario, changes):
    """Each setting may be allowed and all of them together take a day."""
    with pytest.raises(LabError) as caught:
        scenario.changed(changes)
    assert caught.value.code == "scenario-too-much"


@pytest.mark.parametrize("record", [None, 5, [], "x", {"x": 1}, {"lengths": 4}, {"methods": [["none"]]}, {"depths": "0.5"}], ids=str)
def test_what_is_no_scenario_is_refused(record):
    """Stored and sent scenarios can be damaged: one sentence."""
    for cls in (LengthsScenario, RetrievalScenario):
        with pytest.raises(LabError) as caught:
            cls.from_dict(record)
        assert caught.value.code in ("scenario-value", "scenario-field")


@given(st.lists(st.integers(128, 2000), min_size=1, max_size=5, unique=True), st.lists(st.sampled_from(STRETCHES), min_size=1, unique=True), st.integers(1, 4), st.integers(0, 9))
def test_equal_scenarios_have_one_key_and_survive_json(some, methods, factor, seed):
    """Found again in the store after a way over JSON; 2 and 2.0 are one scenario."""
    for scenario in (LENGTHS, RETRIEVAL):
        changed = scenario.changed({"lengths": some, "methods": methods, "factor": factor, "seed": seed})
        again = type(scenario).from_dict(json.loads(json.dumps(changed.as_dict())))
        assert again == changed == changed.changed({"factor": float(factor)}) and again.key() == changed.key() != scenario.key()
        assert changed.total_tokens >= sum(some) * len(methods)


def test_values_from_a_command_line_and_keys_of_other_experiments():
    """--set lengths=128,512 --set depths=0,0.5,1; answered with another experiment's result a page would break."""
    assert LENGTHS.changed({"lengths": "128, 512", "methods": "none,yarn"}) == LENGTHS.changed({"lengths": [128, 512], "methods": ["none", "yarn"]})
    assert RETRIEVAL.changed({"depths": "0,0.5,1"}).depths == (0.0, 0.5, 1.0) == RETRIEVAL.changed({"depths": [0, 0.5, 1]}).depths
    assert RETRIEVAL.changed({"depths": 0.5}).depths == (0.5,)
    assert len({scenario.key() for scenario in (LENGTHS, RETRIEVAL, needle_for("cpu"))}) == 3


@pytest.mark.parametrize("content", ["", "name = 5", '[cpu]\nscored = 16', 'name = "lengths"\ntitle = {ko = "a", en = "b"}\nsummary = {ko = "a", en = "b"}\n[cpu]\nscored = 1'], ids=range(4))  # fmt: skip
@pytest.mark.parametrize("module, folder, load", [(lengths_scenario, "LENGTHS_DIR", lengths), (retrieval_scenario, "RETRIEVAL_DIR", retrievals)])
def test_a_broken_preset_is_told(module, folder, load, content, tmp_path, monkeypatch):
    """A student edits the file: one sentence with its name."""
    (tmp_path / "1-mine.toml").write_text(content)
    monkeypatch.setattr(module, folder, tmp_path)
    load.cache_clear()
    try:
        with pytest.raises(LabError) as caught:
            load()
    finally:
        load.cache_clear()
    assert caught.value.code == "workload-broken" and "1-mine.toml" in str(caught.value)
