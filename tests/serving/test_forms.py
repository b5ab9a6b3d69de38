"""What workers of other hosts may say: all that ours say, and nothing else."""

import dataclasses
import json

import pytest

from engine.errors import LabError
from engine.serving import messages
from engine.serving.forms import FORMS, fault, requests_in

ERROR = LabError("kv-memory", bytes=5, why="none").as_dict()
OF_A_STEP = {"slices": [[0, 0, 5], [2, 7, 1]], "prefill_tokens": 5, "decode_tokens": 1}
SAID = [
    {"type": "store", "key": "k", "value": "aGk="},
    {"type": "died", "exit": "signal 9", "last_words": ""},
    {"type": "failed", "error": ERROR},
    {"type": "loaded", "pid": 7, "load_s": 0.1, "threads": 1, "torch": "2.0", "device_name": None},
    {"type": "pong", "now_ns": -5},
    {"type": "begun", "at_ns": 5, **OF_A_STEP},
    {"type": "step", "begin_ns": 5, "end_ns": 6, **OF_A_STEP, "tokens": [[3, 9, 0.5]]},
    {"type": "kv", "at_ns": 5, "blocks": 3},
    {"type": "fetch", "index": 0, "attempt": 0, "source": "prefill-0", "published_ns": [1, 2], "begin_ns": 3, "end_ns": 4, "pulled_ns": [1, 2], "first_layer": 0,
     "layers": 2, "bytes": 10, "last": True, "quantise_s": 0.0, "move_s": 0.1, "checksum_s": 0, "dequantise_s": 0.0},
    *(
        json.loads(messages.encode(message))
        for message in (
            messages.Offer(0, 2, [1, 2], 5, 3, 0, "prefill-0", [4]),
            messages.Part(0, 0, 0, 2, (1, 2), 5, 99, 10, 7, 0.1, 0.2),
            messages.Ack(0, 0),
            messages.Return(0, [1, 2], "preempted"),
            messages.Finished(0),
            messages.Refused(0, ERROR),
            messages.Failed(0, ERROR),
            messages.Noted("no_room", 0, 5),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("record", SAID, ids=lambda record: record["type"])
def test_a_record_as_it_is_passes_and_with_any_field_changed_does_not(record):
    """Each field that nobody looks at is one that ends the run somewhere else, with a traceback."""
    assert fault(json.loads(json.dumps(record))) == ""
    for name in record.keys() - {"type"}:
        assert fault({key: value for key, value in record.items() if key != name}).endswith(f": {name}")
        for wrong in ({}, [[]], [[None, 1]], float("nan"), float("inf"), 10**400, -(10**400)):
            assert fault({**record, name: wrong}) == f"{record['type']}: {name}", wrong
        if record[name] is not None and not isinstance(record[name], str):
            assert fault({**record, name: "7"})
    assert fault({**record, "messages": []}) == f"{record['type']}: messages"


def test_every_form_is_tried_above():
    assert {record["type"] for record in SAID} == {kind for kind, form in FORMS.items() if form}
    for name in ("Offer", "Part", "Ack", "Return", "Finished", "Refused", "Failed", "Noted"):
        assert FORMS[name].keys() == {field.name for field in dataclasses.fields(getattr(messages, name))}


@pytest.mark.parametrize("kind", ["start", "arrive", "together", "Submit", "Step", "", None, 5, [], {}, "x" * 999])
def test_what_only_others_say_is_told(kind):
    """ "start" from a host would have moved the whole trace."""
    assert 0 < len(fault({"type": kind, "at_ns": 5, "index": 0})) <= 60


@pytest.mark.parametrize("error", [{**ERROR, "facts": {"self": 1}}, {**ERROR, "facts": {"code": 1}}, {**ERROR, "facts": {"x": []}}, {**ERROR, "code": 7}, {"code": "x"}])
def test_an_error_that_could_not_be_told_is_none(error):
    assert fault({"type": "failed", "error": error}) == "failed: error"


def test_whom_a_record_is_about():
    about = {record["type"]: requests_in(record) for record in SAID}
    assert about["step"] == {0, 2, 3} and about["begun"] == {0, 2} and about["Return"] == {0} and about["kv"] == set()
