"""What a method does at a length, and in which order they are measured."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments.stretched import STRETCHES, as_record, check_sinks, from_record, measuring_order, stretched
from engine.formulas.rope import turning
from engine.kv.eviction import Full, Sinks

OPTIONS = {"factor": 0.0, "ramp": "dimensions", "sinks": 4}


@pytest.mark.parametrize("method", [m for m in STRETCHES if m not in ("none", "streaming")])
def test_a_length_has_its_own_factor(method):
    """With a factor that is not the length's, a method looks worse than it is."""
    assert [stretched(method, length, 128, **OPTIONS).factor for length in (64, 128, 256, 2048)] == [1.0, 1.0, 2.0, 16.0]
    assert stretched(method, 128, 128, **OPTIONS).scaling is None, "the model as it is"
    assert stretched(method, 512, 128, **OPTIONS).policy == Full()


@pytest.mark.parametrize("method", ["linear", "ntk", "by-parts", "yarn", "llama3"])
def test_a_fixed_factor_holds_at_every_length(method):
    """Also within the trained length, where it costs something: that is what it is fixed for."""
    found = [stretched(method, length, 128, **{**OPTIONS, "factor": 2.0}) for length in (64, 128, 2048)]
    assert [cell.factor for cell in found] == [2.0] * 3 and all(cell.scaling.factor == 2.0 for cell in found)


def test_what_has_no_factor():
    """Streaming is the model as it is, within a window as long as it was trained on."""
    plain, streaming = (stretched(method, 512, 128, **{**OPTIONS, "factor": 2.0}) for method in ("none", "streaming"))
    assert (plain.factor, plain.scaling, plain.policy) == (None, None, Full())
    assert (streaming.factor, streaming.scaling, streaming.policy) == (None, None, Sinks(4, 128))


@pytest.mark.parametrize("factor", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("length", [100, 128, 129, 512])
def test_dynamic_in_one_forward(length, factor):
    """It follows the length whatever the factor is; read in pieces it must turn every token as one forward would."""
    cell = stretched("dynamic", length, 128, **{**OPTIONS, "factor": factor})
    assert cell.factor == max(1.0, length / 128)
    once = turning(cell.at_once(), 32, 1e4)
    assert (once.frequencies == turning(cell.scaling, 32, 1e4, length).frequencies).all() and once.attention_factor == 1.0
    ntk = stretched("ntk", length, 128, **OPTIONS)
    assert cell.reading == ntk.reading


def test_methods_that_differ_are_read_apart():
    """One reading for two methods that turn differently would tell of the one what is true of the other."""
    assert len({stretched(method, 512, 128, **OPTIONS).reading for method in STRETCHES}) == len(STRETCHES) - 1, "dynamic is ntk"
    assert len({stretched(method, 128, 128, **OPTIONS).reading for method in STRETCHES}) == 2
    ramps = {stretched("yarn", 512, 128, **{**OPTIONS, "ramp": ramp}).reading for ramp in ("dimensions", "rotations")}
    assert len(ramps) == 2


@pytest.mark.parametrize("method", STRETCHES)
def test_a_scaling_survives_json(method):
    """On its way to the process and into the result."""
    scaling = stretched(method, 512, 128, **OPTIONS).scaling
    assert from_record(json.loads(json.dumps(as_record(scaling)))) == scaling


@given(st.lists(st.integers(16, 4096), min_size=1, max_size=6, unique=True), st.lists(st.sampled_from(STRETCHES), min_size=1, unique=True), st.integers(0, 99))
def test_everything_is_measured_once_and_another_method_first(lengths, methods, seed):
    """The first of a length pays for what the others find warm."""
    order = measuring_order(tuple(lengths), tuple(methods), seed)
    assert sorted(order) == sorted((length, method) for length in lengths for method in methods)
    assert [length for length, _ in order] == sorted(length for length, _ in order)
    first = [order[n * len(methods)][1] for n in range(len(lengths))]
    assert len(set(first)) == min(len(lengths), len(methods))
    assert measuring_order(tuple(lengths), tuple(methods), seed + 1)[0][1] != order[0][1] or len(methods) == 1


def test_sinks_leave_room():
    """A window of sinks alone has no place for the token that comes."""
    check_sinks(64, 128)
    with pytest.raises(LabError) as caught:
        check_sinks(65, 128)
    assert caught.value.facts["field"] == "sinks"
