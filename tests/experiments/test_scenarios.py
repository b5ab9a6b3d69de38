"""Scenarios: every preset loads, every bad input is one sentence, and equal scenarios have one key."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import MESSAGES, LabError
from engine.experiments import scenarios
from engine.experiments.scenarios import SCHEDULES, RequestGroup, SchedulesScenario, parse_changes, scenario_for, workloads

DIGITS = 10**5000  # more digits than Python turns into text


def small(**changes) -> SchedulesScenario:
    base = SchedulesScenario("test", (RequestGroup("long", 1, 100, 5, arrival_s=1.0), RequestGroup("chat", 2, 10, 20)))
    return base.changed(changes)


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize("name", ["one-long-among-chats", "quick", "two-long", "all-short", "bursty"])
def test_every_preset_loads(name, device_class):
    """The presets of the issue, for both device classes, with texts in both languages."""
    scenario = scenario_for(name, device_class)
    assert scenario.workload == name and scenario.num_requests > 1 and scenario.schedules == SCHEDULES
    preset = workloads()[name]
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())
    assert set(preset.settings) == {"cpu", "gpu"}


def test_there_is_no_other_preset_and_the_default_is_first():
    """Presets are named in links and lessons; a vanished one breaks them."""
    assert list(workloads()) == ["one-long-among-chats", "quick", "two-long", "all-short", "bursty"]
    assert scenarios.DEFAULT_WORKLOAD == "one-long-among-chats"


def test_an_unknown_device_class_gets_the_first_settings():
    """A preset made for one class must still load on another machine."""
    assert scenario_for("quick", "tpu") == scenario_for("quick", "cpu")


NUMBERS = ["chunk_tokens", "kv_bytes", "max_batch_requests", "max_prefill_tokens", "repeats", "lease_s",
           "long.prompt_tokens", "long.output_tokens"]  # fmt: skip
ZERO_ALLOWED = ["threads", "seed", "temperature", "chat.count", "long.arrival_s", "chat.spacing_s"]
NO_NUMBERS = [-1, -0.5, math.nan, math.inf, -math.inf, "5", "", "many", True, False, None, [], [5], {}, 2**63, 10**400, DIGITS, -DIGITS]
BAD = [
    *((name, value) for name in NUMBERS + ZERO_ALLOWED for value in NO_NUMBERS),
    *((name, 0) for name in NUMBERS),
    *((name, 1.5) for name in ("chunk_tokens", "kv_bytes", "threads", "repeats", "seed", "long.count", "long.prompt_tokens")),
    ("kv_bytes", 1000), ("lease_s", 0.01), ("temperature", 5.1), ("repeats", 21), ("chat.count", 257), ("long.arrival_s", 601),
    ("chat.spacing_s", 601), ("long.prompt_tokens", 2_000_001),
    *(("schedules", value) for value in ([], (), "unified", ["unified", "unified"], ["nonsense"], ["unified", "x"], [1], [None], [["unified"]],
                                         [{}], 5, None, True, {}, {"unified": 1}, "", ["통합"], [DIGITS])),
    *((name, value) for name in ("transfer", "device", "dtype") for value in ("", "nonsense", None, 1, True, [], {}, ["cpu"], "CPU", "자동", DIGITS)),
    *((name, value) for name in ("model", "text") for value in ("", "  ", None, 5, True, [], {}, DIGITS)),
    *(("decompose", value) for value in (0, 1, "true", None, [], DIGITS)),
]  # fmt: skip


def label(value):
    try:
        return repr(value)[:30]
    except ValueError:
        return "huge"


@pytest.mark.parametrize("name, value", BAD, ids=label)
def test_a_bad_value_is_one_sentence_that_names_the_setting(name, value):
    """Whatever comes from a form, a command line or a file: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        small(**{name: value})
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == name
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 400 and name in sentence
    json.dumps(caught.value.as_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["", "nonsense", "long", "long.", ".count", "long.nonsense", "short.count", "groups", "workload",
                                  "device_class", "long.prompt_tokens.x", "청크", "\ud800", "x" * 10_000])  # fmt: skip
def test_an_unknown_setting_is_told_with_the_known_ones(name):
    """A misspelt setting that is silently ignored measures something else than was asked for."""
    for change in (lambda: small(**{name: 5}), lambda: scenario_for("quick", "cpu", **{name: 5})):
        with pytest.raises(LabError) as caught:
            change()
        assert caught.value.code == "scenario-field" and "chat.count" in caught.value.facts["known"]
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("workload", ["", "Quick", "../quick", "빠른", "x" * 10_000, None, 5])
def test_an_unknown_workload_is_told_with_the_known_ones(workload):
    """And a name of ten thousand letters does not fill the screen."""
    with pytest.raises(LabError) as caught:
        scenario_for(workload)
    assert caught.value.code == "workload-unknown" and "quick" in str(caught.value) and len(str(caught.value)) < 400


def test_no_request_at_all():
    """Nothing to serve would divide by no time and draw empty lanes."""
    with pytest.raises(LabError) as caught:
        small(**{"long.count": 0, "chat.count": 0})
    assert caught.value.code == "scenario-no-requests"
    with pytest.raises(LabError) as caught:
        SchedulesScenario("test", ())
    assert caught.value.code == "scenario-no-requests"
    assert small(**{"long.count": 0}).num_requests == 2, "one kind may be left out"


def test_more_tokens_than_anybody_wants_to_wait_for():
    """Each number may be fine alone while all together take hours."""
    with pytest.raises(LabError) as caught:
        small(**{"chat.count": 256, "chat.prompt_tokens": 100_000})
    assert caught.value.code == "scenario-too-much" and caught.value.facts["tokens"] > caught.value.facts["limit"]


def test_arrivals_after_the_end_of_the_run():
    """Each number alone is fine, but the run would be given up before the last request came."""
    with pytest.raises(LabError) as caught:
        small(**{"chat.count": 101, "chat.spacing_s": 10})
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == "chat.spacing_s"


@pytest.mark.parametrize("kinds", [["chat", "chat"], [""], ["a.b"], ["a b"], ["a=b"], ["x" * 33], ["\n"], ["\ud800"], [None], [5], [["chat"]], [{}]])
def test_kinds_name_a_group_each(kinds):
    """Two groups of one kind have the same request ids: prompts and texts of one would overwrite the other's."""
    with pytest.raises(LabError) as caught:
        SchedulesScenario("test", tuple(RequestGroup(kind, 1, 10, 5) for kind in kinds))
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == "kind"


def test_a_kind_in_any_language():
    """A teacher's own workload need not be English."""
    assert SchedulesScenario("test", (RequestGroup("대화", 1, 10, 5),)).changed({"대화.count": 2}).num_requests == 2


@pytest.mark.parametrize(
    "record",
    [None, 5, "text", [], ["workload"], {}, {"groups": []}, {"workload": "w"}, {"workload": "w", "groups": None}, {"workload": "w", "groups": 5},
     {"workload": "w", "groups": ["chat"]}, {"workload": "w", "groups": [{}]}, {"workload": "w", "groups": [{"kind": "chat"}]},
     {"workload": "w", "groups": {"chat": 1}}, {"workload": "w", "groups": [{"kind": "chat", "count": 1, "prompt_tokens": 1, "output_tokens": 1, "x": 1}]},
     {"workload": "w", "groups": [[]]}, {"workload": "w", "groups": [], "x": 1}, {5: 5}, {"workload": None, "groups": []}, {"workload": "", "groups": []},
     {"workload": "w", "groups": [{"kind": "chat", "count": DIGITS, "prompt_tokens": 1, "output_tokens": 1}]}, {"workload": DIGITS, "groups": "x"}],
    ids=label,
)  # fmt: skip
def test_what_is_no_scenario_is_told_as_that(record):
    """Records come from the app's own pages, from files and from older versions."""
    with pytest.raises(LabError) as caught:
        SchedulesScenario.from_dict(record)
    assert caught.value.code in ("scenario-value", "scenario-field", "scenario-no-requests")


@pytest.mark.parametrize(
    "pairs, changes",
    [
        ([], {}),
        (["long.prompt_tokens=2048"], {"long.prompt_tokens": 2048}),
        (["temperature=0.5", "decompose=false"], {"temperature": 0.5, "decompose": False}),
        (["text=/a/b=c.txt"], {"text": "/a/b=c.txt"}),
        ([" seed = 3"], {"seed": 3}),
        (["schedules=unified,chunked"], {"schedules": ["unified", "chunked"]}),
        (['schedules=["unified"]'], {"schedules": ["unified"]}),
        (["seed=1", "seed=2"], {"seed": 2}),
        (["seed="], {"seed": ""}),
        (["model=모델"], {"model": "모델"}),
        (["seed=" + "9" * 5000], {"seed": "9" * 5000}),
        (["seed=" + "[" * 100_000], {"seed": "[" * 100_000}),
    ],
    ids=label,
)
def test_changes_from_a_command_line(pairs, changes):
    """Words taken for numbers, a comma list for one word, an equals sign in a path for another setting."""
    assert parse_changes(pairs) == changes


@pytest.mark.parametrize("pair", ["", "seed", "--seed 5", "x" * 1000])
def test_a_change_without_a_value_is_told(pair):
    """Ignored, it would look as if it had been applied."""
    with pytest.raises(LabError) as caught:
        parse_changes([pair])
    assert caught.value.code == "scenario-value" and "key=value" in str(caught.value)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", "-0.1", '"5"', "null", "true", "{}", "0x10", "１２"])
def test_odd_numbers_from_a_command_line_are_refused(text):
    """JSON knows NaN and infinities; no count does."""
    with pytest.raises(LabError):
        small(**parse_changes([f"long.prompt_tokens={text}"]))


numbers = {
    "chunk_tokens": st.integers(1, 1000), "kv_bytes": st.integers(1 << 20, 1 << 30), "repeats": st.integers(1, 3), "seed": st.integers(0, 9),
    "temperature": st.sampled_from([0, 0.0, -0.0, 1, 1.0, 0.5]), "lease_s": st.sampled_from([1, 1.0, 60]),
    "transfer": st.sampled_from(["after", "layerwise"]), "decompose": st.booleans(), "threads": st.integers(0, 4),
    "schedules": st.lists(st.sampled_from(SCHEDULES), min_size=1, unique=True).map(tuple),
    "long.arrival_s": st.sampled_from([0, 0.0, -0.0, 2, 2.0]), "chat.spacing_s": st.sampled_from([0, 1, 1.0]),
    "chat.count": st.integers(0, 3), "text": st.sampled_from(["kjv", "한국어.txt"]),
}  # fmt: skip
some_scenarios = st.fixed_dictionaries({}, optional=numbers).map(lambda changes: small(**changes))


@given(some_scenarios)
def test_a_scenario_survives_its_record(scenario):
    """What a result's manifest holds must give the same scenario again, through JSON too."""
    record = scenario.as_dict()
    assert SchedulesScenario.from_dict(record) == scenario
    again = SchedulesScenario.from_dict(json.loads(json.dumps(record, allow_nan=False)))
    assert again == scenario and again.as_dict() == record and again.key() == scenario.key()


@given(some_scenarios, some_scenarios)
def test_equal_scenarios_and_only_those_have_one_key(one, other):
    """2 and 2.0 seconds are one scenario; a setting that is not in the key would mix up results."""
    assert (one.key() == other.key()) == (one == other)


@pytest.mark.parametrize("name, one, other", [("long.arrival_s", 2, 2.0), ("long.arrival_s", 0.0, -0.0), ("temperature", 1, 1.0), ("lease_s", 5, 5.0)])
def test_numbers_written_differently_are_one_scenario(name, one, other):
    """A form gives 2.0 where a file says 2: the stored result of one would not be found by the other."""
    assert small(**{name: one}) == small(**{name: other})
    assert small(**{name: one}).key() == small(**{name: other}).key()


def test_every_setting_is_in_the_key():
    """A setting that is not would let the store answer with another scenario's run."""
    changed = {
        "model": "random-tiny", "text": "korean", "schedules": ("chunked",), "chunk_tokens": 8, "kv_bytes": 1 << 21, "max_batch_requests": 3,
        "max_prefill_tokens": 9, "transfer": "layerwise", "lease_s": 5.0, "device": "cpu", "dtype": "float32", "threads": 1, "repeats": 2,
        "seed": 4, "temperature": 1.0, "decompose": False, "long.count": 2, "long.prompt_tokens": 7, "long.output_tokens": 7,
        "long.arrival_s": 0.5, "long.spacing_s": 0.5,
    }  # fmt: skip
    record = small().as_dict()
    group = {f"long.{name}" for name in record["groups"][0]} - {"long.kind"}
    assert set(changed) == (set(record) - {"groups", "workload"}) | group, "a new setting belongs here too"
    keys = {small(**{name: value}).key() for name, value in changed.items()}
    assert len(keys | {small().key()}) == len(changed) + 1


class TestWorkloadFiles:
    GOOD = """
name = "own"
[title]
en = "Own"
ko = "내 것"
[summary]
en = "..."
ko = "..."
[cpu]
seed = 3
[[cpu.requests]]
kind = "chat"
count = 1
prompt_tokens = 5
output_tokens = 5
"""

    @pytest.fixture
    def files(self, tmp_path, monkeypatch):
        monkeypatch.setattr(scenarios, "WORKLOADS_DIR", tmp_path)
        workloads.cache_clear()
        yield lambda content: (tmp_path / "own.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
        workloads.cache_clear()

    def test_a_teachers_own_file(self, files):
        """A file with settings for one device class only is a workload too."""
        files(self.GOOD)
        assert scenario_for("own", "gpu").seed == 3

    @pytest.mark.parametrize(
        "old, new",
        [("seed = 3", "sed = 3"), ("count = 1", "count = -1"), ("count = 1", ""), ("cpu", "tpu"), ('name = "own"', ""), ("ko = ", "fr = "),
         ("[[cpu.requests]]", "[cpu.requests]"), ("seed = 3", 'seed = "3"'), ('kind = "chat"', "kind = 5"), ("[title]", "title = 5\n[x]"),
         ("seed = 3", "seed = "), ('"own"', "[]"), ("prompt_tokens = 5", "prompt = 5"), ("[summary]", "")],
    )  # fmt: skip
    def test_a_broken_file_is_named_with_the_reason(self, files, old, new):
        """A slip in one file must not be a traceback on every page."""
        assert old in self.GOOD
        files(self.GOOD.replace(old, new))
        with pytest.raises(LabError) as caught:
            scenario_for("own")
        assert caught.value.code == "workload-broken" and caught.value.facts["path"] == "own.toml" and caught.value.facts["why"]

    def test_a_file_that_is_no_text(self, files):
        """A stray binary file in the folder must be named, not crash every page."""
        files(b"\xff\xfe\x00")
        with pytest.raises(LabError) as caught:
            workloads()
        assert caught.value.code == "workload-broken"


def test_the_codes_used_here_are_in_the_table():
    """A code without a sentence reaches the user as a bare word."""
    assert {"scenario-value", "scenario-field", "scenario-no-requests", "scenario-too-much", "workload-unknown", "workload-broken"} <= set(MESSAGES)
