"""The ring scenario: the preset loads, bad input is one sentence, what is measured follows from it."""

import json

import pytest

from engine.errors import LabError
from engine.experiments.ring_scenario import RingScenario, ring_for, rings
from engine.formulas.ring import CONTIGUOUS, ZIGZAG

CPU = ring_for("cpu")


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_preset_loads(device_class):
    """For both device classes, with texts in both languages; both layouts and one process are compared."""
    scenario = ring_for(device_class)
    assert scenario.kind == scenario.workload == "ring" and scenario.ranks == 2
    assert scenario.layouts == (ZIGZAG, CONTIGUOUS) and scenario.total_tokens == 3 * scenario.tokens
    (preset,) = rings().values()
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())


def test_what_is_measured():
    """The chosen layout first; without compare nothing else, and so much less work is announced."""
    other = CPU.changed({"layout": CONTIGUOUS})
    assert other.layouts == (CONTIGUOUS, ZIGZAG) and other.key() != CPU.key()
    bare = CPU.changed({"compare": False})
    assert bare.layouts == (ZIGZAG,) and bare.total_tokens == bare.tokens
    assert RingScenario.from_dict(json.loads(json.dumps(bare.as_dict()))) == bare


BAD = [
    *(({name: value}, name) for name in ("tokens", "ranks", "threads", "seed") for value in (-1, 1.5, True, None, "x", [2], 10**5000)),
    ({"ranks": 0}, "ranks"), ({"ranks": 5}, "ranks"), ({"tokens": 15}, "tokens"), ({"layout": "striped"}, "layout"),
    *(({"compare": value}, "compare") for value in (1, "yes", None)),
    ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": ""}, "model"), ({"text": 5}, "text"),
]  # fmt: skip


@pytest.mark.parametrize("changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(changes, field):
    """From a form or a command line: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        CPU.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_an_unknown_setting_is_told():
    with pytest.raises(LabError) as caught:
        CPU.changed({"rank": 2})
    assert caught.value.code == "scenario-field"
