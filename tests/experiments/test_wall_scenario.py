"""Wall scenarios: presets load, lengths follow the seed, bad input is one sentence, equal scenarios have one key."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import wall_scenario
from engine.experiments.wall_scenario import VARIANTS, WallScenario, wall_for, walls
from engine.formulas.admission import first_wave
from engine.kv.blocks import BLOCK_TOKENS, blocks_for
from engine.service.estimate import work_of

PRESET = wall_for("cpu")
DIGITS = 10**5000


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_every_preset_hits_the_wall(device_class):
    """A pool that holds everything, or a reservation that costs nothing, would teach nothing."""
    scenario, size = wall_for(device_class), BLOCK_TOKENS[device_class]
    prompts, outputs = zip(*scenario.lengths)
    blocks = scenario.pool_tokens // size
    all_of_them = sum(blocks_for(p + o - 1, size) for p, o in scenario.lengths)
    assert 1.3 < all_of_them / blocks < 3
    paged, reserved = (first_wave(prompts, outputs, blocks, size, 64, reserve) for reserve in (0, scenario.reserve_tokens))
    assert 2 <= reserved <= paged / 2 and paged < scenario.count
    longest = scenario.prompt_tokens_max + scenario.output_tokens_max
    assert longest <= scenario.reserve_tokens <= longest + size, "what is reserved is the longest request there may be"
    preset = walls()["wall"]
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())


def test_lengths_come_from_the_seed():
    """The same requests in all three servings and in every repetition of the run, elsewhere too; another seed, others."""
    assert PRESET.lengths == wall_for("cpu").lengths != wall_for("cpu", seed=1).lengths
    assert wall_for("cpu", repeats=3, pool_tokens=999).lengths == PRESET.lengths
    assert [(g.kind, g.prompt_tokens, g.output_tokens, g.arrival_s) for g in PRESET.base.groups] == [
        (f"request-{n}", prompt, output, 0.0) for n, (prompt, output) in enumerate(PRESET.lengths)
    ]


@given(st.integers(1, 5000), st.integers(0, 5000), st.integers(0, 2**31 - 1))
def test_lengths_stay_within_their_bounds(low, more, seed):
    """Rounded beyond the longest, a request would need more than is reserved for it."""
    scenario = wall_for("cpu", prompt_tokens_min=low, prompt_tokens_max=low + more, seed=seed, count=40)
    assert all(low <= prompt <= low + more for prompt, _ in scenario.lengths)
    if more > 10 * low:
        assert len({prompt for prompt, _ in scenario.lengths}) > 5, "mixed"


BAD = [
    *(({name: value}, name) for name in ("count", "prompt_tokens_min", "output_tokens_max", "pool_tokens", "reserve_tokens", "repeats", "max_prefill_tokens")
      for value in (0, -1, 1.5, "x", None, True, math.nan, DIGITS)),
    ({"seed": -1}, "seed"), ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": ""}, "model"), ({"text": 5}, "text"),
    ({"prompt_tokens_min": 400}, "prompt_tokens_min"), ({"output_tokens_min": 57}, "output_tokens_min"),
]  # fmt: skip


@pytest.mark.parametrize("changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(changes, field):
    """From a form or a command line: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        PRESET.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    json.dumps(caught.value.as_dict(), allow_nan=False)


def test_too_much_is_told():
    with pytest.raises(LabError) as caught:
        PRESET.changed({"count": 256, "prompt_tokens_min": 500_000, "prompt_tokens_max": 500_000})
    assert caught.value.code == "scenario-too-much"


@pytest.mark.parametrize("changes", [{"nonsense": 1}, {"kv_bytes": 1 << 30}, {"schedules": []}, {"base": {}}], ids=str)
def test_an_unknown_setting_is_told(changes):
    """A misspelt setting that is silently ignored measures something else than was asked for."""
    for make in (PRESET.changed, lambda record: WallScenario.from_dict({**PRESET.as_dict(), **record})):
        with pytest.raises(LabError) as caught:
            make(changes)
        assert caught.value.code == "scenario-field"


@pytest.mark.parametrize("record", [None, [], "x", {}, {"count": 3}], ids=str)
def test_what_is_no_scenario(record):
    with pytest.raises(LabError) as caught:
        WallScenario.from_dict(record)
    assert caught.value.code == "scenario-value"


def test_there_and_back_again():
    """Through JSON, as the service and the manifest have it; and only equal scenarios share a key."""
    assert WallScenario.from_dict(json.loads(json.dumps(PRESET.as_dict()))) == PRESET
    assert WallScenario.from_dict(PRESET.as_dict()).key() == PRESET.key()
    changed = [PRESET.changed({name: value}) for name, value in (("seed", 1), ("pool_tokens", 1537), ("reserve_tokens", 441), ("repeats", 2))]
    assert len({scenario.key() for scenario in [PRESET, *changed]}) == 5 and PRESET.key() != PRESET.base.key()


def test_the_work_counts_every_serving():
    """The estimate of how long a run takes, and the room it is given in the store, hang on it."""
    tokens = sum(prompt + output for prompt, output in PRESET.lengths)
    assert work_of(PRESET.changed({"repeats": 2})) == tokens * len(VARIANTS) * 2


def test_a_broken_preset_is_told(tmp_path, monkeypatch):
    (tmp_path / "wall.toml").write_text('name = "wall"\n[title]\nen="a"\nko="b"\n[summary]\nen="a"\nko="b"\n[cpu]\ncount = 0\n')
    monkeypatch.setattr(wall_scenario, "WALLS_DIR", tmp_path)
    walls.cache_clear()
    with pytest.raises(LabError) as caught:
        wall_for("cpu")
    walls.cache_clear()
    assert caught.value.code == "workload-broken"
