"""Sweep scenarios: presets load, bad input is one sentence, equal sweeps have one key, a point is a scenario of its own."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import sweep_scenarios
from engine.experiments.scenarios import RequestGroup, SchedulesScenario, scenario_for
from engine.experiments.sweep_scenarios import KINDS, WHOLE, SweepScenario, sweep_for, sweeps

CHUNKS, BACKLOG = sweep_for("chunk-sweep"), sweep_for("backlog")
DIGITS = 10**5000


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_preset_loads(kind, device_class):
    """For both device classes, with texts in both languages."""
    scenario = sweep_for(kind, device_class)
    assert scenario.kind == kind and len(scenario.values) >= 5 and scenario.repeats == 1
    preset = sweeps()[kind]
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())
    assert set(preset.settings) == {"cpu", "gpu"} and list(sweeps()) == list(KINDS)


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_chats_outlast_the_slowest_point(device_class):
    """If the chats end before the prompt in its smallest chunks does, the last chunks are measured without them."""
    scenario = sweep_for("chunk-sweep", device_class)
    smallest = min(value for value in scenario.values if value)
    long, chat = scenario.base.group("long"), scenario.base.group("chat")
    assert chat.output_tokens > 1.2 * long.prompt_tokens / smallest and WHOLE in scenario.values


def test_a_point_is_the_base_with_one_thing_changed():
    """Anything else that differs between points would be measured as the effect of the chunk size or the length."""
    whole, small = CHUNKS.point(0), CHUNKS.point(64)
    assert whole.schedules == ("unified",) and small.schedules == ("chunked",) and small.chunk_tokens == 64
    same = {"chunk_tokens": 1, "schedules": ["unified"]}
    assert small.changed(same) == whole.changed(same)
    short, long = BACKLOG.point(100), BACKLOG.point(900)
    assert short.group("prompt").prompt_tokens == 100 and short.schedules == long.schedules == ("unified",)
    assert short.changed({"prompt.prompt_tokens": 900}) == long and short.max_prefill_tokens == 1


BAD = [
    *((CHUNKS, {"values": value}, "values") for value in ([], [64, 64], [-1], [1.5], ["x"], [True], [None], None, {}, 5.0, "", "64,x", list(range(1, 18)), [DIGITS])),
    *((BACKLOG, {"values": value}, "values") for value in ([0], [-5], [3_000_000], [DIGITS], ["512 "])),
    (CHUNKS, {"long.count": 0}, "long.count"), (CHUNKS, {"long.count": 2}, "long.count"), (BACKLOG, {"prompt.count": 2}, "prompt.count"),
    (BACKLOG, {"prompt.spacing_s": 0}, "prompt.spacing_s"), (BACKLOG, {"prompt.spacing_s": math.nan}, "prompt.spacing_s"),
    (BACKLOG, {"prompt.spacing_s": 500}, "prompt.spacing_s"), (CHUNKS, {"chat.output_tokens": 0}, "chat.output_tokens"), (CHUNKS, {"repeats": 21}, "repeats"),
]  # fmt: skip


@pytest.mark.parametrize("scenario, changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(scenario, changes, field):
    """From a form or a command line: never a traceback, never a sweep that fails minutes later."""
    with pytest.raises(LabError) as caught:
        scenario.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    json.dumps(caught.value.as_dict(), allow_nan=False)


@pytest.mark.parametrize("changes", [{"nonsense": 1}, {"value": [1]}, {"prompt.count": 3}, {"kind": "backlog"}, {"base": {}}], ids=str)
def test_an_unknown_setting_is_told(changes):
    """A misspelt setting that is silently ignored measures something else than was asked for."""
    with pytest.raises(LabError) as caught:
        CHUNKS.changed(changes)
    assert caught.value.code == "scenario-field"


def test_requests_must_fit_the_kind():
    """A backlog of two kinds has no one load; a sweep over chunks without a long prompt has nothing to cut."""
    chats = SchedulesScenario("test", (RequestGroup("chat", 3, 20, 4),))
    for kind, field in (("chunk-sweep", "long.count"), ("backlog", "kind"), ("nonsense", "kind"), (None, "kind"), ([], "kind")):
        with pytest.raises(LabError) as caught:
            SweepScenario(kind, chats, (8, 16))
        assert caught.value.facts["field"] == field
    with pytest.raises(LabError) as caught:
        SweepScenario("backlog", BACKLOG, (8, 16))
    assert caught.value.facts["field"] == "base"


def test_too_much_in_all_is_told():
    """Every point may be allowed and all of them together take a day."""
    with pytest.raises(LabError) as caught:
        BACKLOG.changed({"values": [30_000, 60_000, 90_000, 120_000], "prompt.count": 20})
    assert caught.value.code == "scenario-too-much"


@pytest.mark.parametrize("record", [None, 5, [], "x", {}, {"kind": "backlog"}, {"kind": "backlog", "values": [1], "base": 5},
                                    {"kind": "backlog", "values": 5, "base": BACKLOG.base.as_dict()}, {"kind": {}, "values": [64], "base": BACKLOG.base.as_dict()},
                                    {**BACKLOG.as_dict(), "more": 1}, {**BACKLOG.as_dict(), "base": {**BACKLOG.base.as_dict(), "x": 1}}], ids=str)  # fmt: skip
def test_what_is_no_sweep_is_refused(record):
    """Stored and sent scenarios can be damaged: one sentence."""
    with pytest.raises(LabError) as caught:
        SweepScenario.from_dict(record)
    assert caught.value.code in ("scenario-value", "scenario-field")


@given(st.data())
def test_equal_sweeps_have_one_key_and_survive_json(data):
    """Found again in the store: after a way over JSON it is the same sweep; a changed one is another."""
    scenario = data.draw(st.sampled_from([CHUNKS, BACKLOG]))
    values = data.draw(st.lists(st.integers(1, 3000), min_size=1, max_size=6, unique=True))
    seed = data.draw(st.integers(0, 5))
    changed = scenario.changed({"values": values, "seed": seed})
    again = SweepScenario.from_dict(json.loads(json.dumps(changed.as_dict())))
    assert again == changed and again.key() == changed.key()
    assert (changed.key() == scenario.key()) == (tuple(values) == scenario.values and seed == 0)


def test_keys_tell_the_experiments_apart():
    """A sweep answered from the store with a schedules result would break the page."""
    keys = {CHUNKS.key(), BACKLOG.key(), CHUNKS.base.key(), BACKLOG.base.key(), scenario_for("quick").key()}
    assert len(keys) == 5


def test_values_from_a_command_line():
    """--set values=64,128"""
    assert CHUNKS.changed({"values": "64, 128,0"}).values == (64, 128, 0)
    assert CHUNKS.changed({"values": 64}).values == CHUNKS.changed({"values": [64]}).values == (64,)


def test_totals_are_those_of_all_points():
    """The service estimates and limits by them."""
    two = BACKLOG.changed({"values": [100, 200], "prompt.count": 5})
    assert two.total_tokens == 5 * (101 + 201)
    assert (two.model, two.text, two.workload, two.repeats) == (two.base.model, two.base.text, "backlog", 1)


def test_a_broken_preset_is_named(tmp_path, monkeypatch):
    """Whoever edits a preset is told which file and why."""
    (tmp_path / "1-x.toml").write_text('name = "backlog"\n[title]\nko="a"\nen="a"\n[summary]\nko="a"\nen="a"\n[cpu]\nvalues=[1]\nrequests=[]\n')
    monkeypatch.setattr(sweep_scenarios, "SWEEPS_DIR", tmp_path)
    sweeps.cache_clear()
    try:
        with pytest.raises(LabError) as caught:
            sweep_for("backlog")
        assert caught.value.code == "workload-broken" and caught.value.facts["path"] == "1-x.toml"
    finally:
        sweeps.cache_clear()


@pytest.mark.parametrize("kind", ["", "schedules", None, 5, "x" * 10_000])
def test_an_unknown_kind_is_told_with_the_known_ones(kind):
    with pytest.raises(LabError) as caught:
        sweep_for(kind)
    assert caught.value.code == "workload-unknown" and "backlog" in str(caught.value) and len(str(caught.value)) < 400
