"""The settings of a transfer: what cannot be measured is refused in one sentence, before a process starts."""

import pytest

from engine.errors import LabError
from engine.experiments.transfer import plan_transfer
from engine.experiments.transfer_scenario import LONGEST, TransferScenario, transfer_for
from engine.formulas.kv import KV_DTYPES

TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32", "text": "pydoc"}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_preset_is_there_for_both_devices(device_class):
    """A file with a misspelt setting would be noticed by the first user."""
    scenario = transfer_for(device_class)
    assert scenario.formats == KV_DTYPES and scenario.layerwise and not scenario.link_bytes_per_s
    assert TransferScenario.from_dict(scenario.as_dict()) == scenario and scenario.key() != scenario.changed({"seed": 1}).key()


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"lengths": "31"}, ["lengths", "32"]), ({"lengths": [64, 64]}, ["lengths", "once"]), ({"lengths": []}, ["lengths"]),
        ({"lengths": [LONGEST + 1]}, ["lengths", str(LONGEST)]), ({"lengths": list(range(64, 71))}, ["lengths", "6"]),
        ({"formats": "int3"}, ["formats", "int4"]), ({"formats": []}, ["formats"]), ({"scored": 0}, ["scored", "1"]),
        ({"continue_tokens": 513}, ["continue_tokens", "512"]), ({"link_bytes_per_s": -1}, ["link_bytes_per_s"]),
        ({"layerwise": "yes"}, ["layerwise", "true"]), ({"colour": "red"}, ["colour", "formats"]), ({"threads": 1.5}, ["threads"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_reason(changes, words):
    """A traceback, or a run that fails after minutes."""
    with pytest.raises(LabError) as caught:
        transfer_for("cpu").changed(changes)
    assert all(word in str(caught.value) for word in words)


def test_changes_as_a_command_line_gives_them():
    """One length, several as words, a rate that is no whole number."""
    scenario = transfer_for("cpu", lengths=512, formats="int8,int4", link_bytes_per_s=1.25e8)
    assert scenario.lengths == (512,) and scenario.formats == ("int8", "int4") and scenario.link_bytes_per_s == 1.25e8


def test_lengths_end_at_the_same_token():
    """Else the perplexities of two lengths are of different tokens, and tell nothing of the length."""
    plan = plan_transfer(TransferScenario(lengths=(64, 300), scored=20, continue_tokens=4, **TINY))
    assert len(plan.ids) == 321 and plan.prompt(300) == list(plan.ids[:300]) and plan.prompt(64) == plan.prompt(300)[-64:]
    assert plan.specs[0].name != plan.specs[1].name and plan.exact == "fp32"
    later = plan_transfer(TransferScenario(lengths=(64, 300), scored=20, continue_tokens=4, seed=1, **TINY))
    assert later.ids != plan.ids


@pytest.mark.parametrize("changes,code", [({"lengths": [LONGEST]}, "prompt-exceeds-model"), ({"model": "smollm2-135m-instruct"}, "model-missing")])
def test_what_the_model_cannot_do_is_refused(changes, code):
    """Positions it never saw would be blamed on the format."""
    with pytest.raises(LabError) as caught:
        plan_transfer(TransferScenario(**{"lengths": (64,), **TINY}).changed(changes))
    assert caught.value.code == code
