"""What ring results say to the claims, on results made by hand: right numbers, or silence where there is no ring."""

import copy

import pytest

from engine.claims import Measurement, claims
from tests.pages import ring_small as small


def measured(claim: str, result: dict) -> Measurement | None:
    return claims()[claim].measure(result)


def readings(found: Measurement) -> dict[str, float]:
    return {reading.id: reading.value for reading in found.readings}


def test_what_a_rank_holds():
    """The fullest rank over one process: not the mean, which is 1/N whatever the layout."""
    found = measured("B8", small.ring(4, 256))
    assert found.finding == "shared" and readings(found)["share"] == 0.25
    assert readings(found)["scores"] == 256 * 256 * 4
    uneven = measured("B8", small.ring(4, 17))
    assert uneven.finding == "uneven" and readings(uneven)["share"] == 5 / 17


def test_a_rank_that_sends_too_much_is_told():
    """A sum over all ranks would hide one that sends twice and one that sends nothing."""
    result = small.ring(3, 256)
    found = measured("B9", result)
    assert found.finding == "as_formula"
    # 86 tokens at most, keys and values of 3 heads of 64 numbers of 4 bytes.
    assert readings(found)["round"] == 86 * 2 * 3 * 64 * 4
    wrong = copy.deepcopy(result)
    first, second, _ = wrong["layouts"]["zigzag"]["ranks"]
    first["sent_bytes"], second["sent_bytes"] = first["sent_bytes"] * 2, 0
    assert measured("B9", wrong).finding == "differs"


@pytest.mark.parametrize(("alone", "finding"), [(1.0, "faster"), (0.01, "slower"), (None, "level")])
def test_against_one_process(alone, finding):
    quickest = min(layout["seconds"] for layout in small.ring()["layouts"].values())
    found = measured("B10", small.ring(alone_s=alone or quickest))
    assert found.finding == finding and readings(found)["ring"] == quickest
    crowded = small.ring(alone_s=alone or quickest, processes_at_most_cores=False)
    assert measured("B10", crowded).finding == "crowded", "times of ranks that share a core are no evidence"


@pytest.mark.parametrize("claim", ["B8", "B9", "B10"])
def test_without_a_ring_nothing_is_said(claim):
    assert measured(claim, small.ring(1)) is None, "one rank"
    assert measured(claim, {"kind": "ring"}) is None
    alone = measured(claim, small.ring(alone=None))
    assert (alone is None) == (claim != "B9"), "bytes need nobody to be compared with"
