"""What lengths and retrieval results say to the claims, on results made by hand: right numbers, or silence for want of a part."""

import copy

import pytest

from engine.claims import Measurement, claims
from tests.pages import rope_small

LENGTHS_CLAIMS = ("A13", "A16", "B6", "B7", "B11")


def measured(claim: str, result: dict) -> Measurement | None:
    return claims()[claim].measure(result)


def readings(found: Measurement) -> dict[str, float]:
    return {reading.id: reading.value for reading in found.readings}


def lengths(**methods: tuple[float, ...]) -> dict:
    """20 in range for all, at 128; then what is given at 256, 512 and 1,024."""
    return rope_small.lengths({name.replace("_", "-"): (20.0, *values) for name, values in methods.items()})


def without(result: dict, method: str) -> dict:
    return result | {"cells": [cell for cell in result["cells"] if cell["method"] != method]}


def test_plain_rope_over_in_range():
    """Over its own value at the trained length, not over the last or the best."""
    found = measured("B6", lengths(none=(30, 120, 90)))
    assert found.finding == "breaks"
    assert readings(found) == {"trained": 128, "base": 20, "first": 256, "near": 1.5, "last": 1024, "far": 4.5, "worst": 6.0}


@pytest.mark.parametrize(
    ("values", "finding"),
    [
        ((20, 20, 20.5), "level"),
        ((21, 22, 29.9), "rises"),
        ((20, 20, 30), "breaks"),
        ((20, 639, 20), "breaks"),
        ((20, 640, 20), "explodes"),
    ],
)
def test_thirty_two_times_is_what_the_text_says(values, finding):
    """At whichever length it is worst: a model that breaks at 4x and calms down at 8x has broken."""
    assert measured("B6", lengths(none=values)).finding == finding


@pytest.mark.parametrize(
    ("values", "finding"),
    [((20, 24, 99), "holds"), ((20, 24.1, 30), "helps"), ((60, 78, 99), "useless"), ((20, 99, 20), "useless")],
)
def test_a_base_that_follows_the_length(values, finding):
    """Four times the trained length is spoken of; the model as it is has 4x in range there."""
    found = measured("A13", lengths(none=(30, 80, 90), ntk=values))
    assert found.finding == finding
    assert readings(found) == {"trained": 128, "length": 512, "times": 4, "plain": 4.0, "ratio": values[1] / 20}


def test_dynamic_speaks_before_ntk_aware():
    """With a fixed factor they differ, and the text speaks of the dynamic one."""
    assert readings(measured("A13", lengths(none=(30, 80, 90), ntk=(20, 40, 40), dynamic=(20, 30, 40))))["ratio"] == 1.5


@pytest.mark.parametrize(
    ("values", "finding"),
    [
        ((20, 20.3, 20.3), "within"),
        ((20, 20.3, 21), "holds"),
        ((20, 21, 20.1), "holds"),
        ((20, 30, 99), "helps"),
        ((20, 80, 99), "useless"),
        ((20, 18, 19), "within"),
    ],
)
def test_two_percent_is_asked_at_every_length(values, finding):
    """A loss that is small at four times and large at the end is not the text's."""
    for claim in ("A16", "B7"):
        found = measured(claim, lengths(none=(30, 80, 90), yarn=values))
        assert found.finding == finding
        assert readings(found) | {"trained": 128} == {
            "trained": 128, "length": 512, "times": 4, "plain": 4.0, "ratio": values[1] / 20, "last": 1024, "far": values[2] / 20,
        }  # fmt: skip


@pytest.mark.parametrize(("parts", "finding"), [(22, "holds"), (40, "helps"), (90, "useless")])
def test_slow_pairs_divided_against_all_and_none(parts, finding):
    found = measured("B11", lengths(none=(30, 80, 90), linear=(25, 50, 60), by_parts=(20, parts, 40)))
    assert found.finding == finding and readings(found)["all"] == 2.5 and readings(found)["ratio"] == parts / 20


@pytest.mark.parametrize("claim", LENGTHS_CLAIMS)
def test_what_is_missing_says_nothing(claim):
    """A run of its own choice of methods and lengths; one cut off; one within the trained length only."""
    whole = rope_small.lengths()
    assert measured(claim, whole)
    assert measured(claim, without(whole, "none")) is None
    assert measured(claim, whole | {"cells": []}) is None
    within = [cell for cell in whole["cells"] if cell["length"] <= 128]
    assert measured(claim, whole | {"cells": within, "lengths": [128]}) is None
    beyond = [cell for cell in whole["cells"] if cell["length"] > 128]
    assert measured(claim, whole | {"cells": beyond, "lengths": [256, 512, 1024]}) is None
    needed = {"A13": ("ntk", "dynamic"), "A16": ("yarn",), "B7": ("yarn",), "B11": ("by-parts",)}.get(claim, ())
    for method in needed:
        whole = without(whole, method)
    assert (measured(claim, whole) is None) == bool(needed)
    assert measured("B11", without(rope_small.lengths(), "linear")) is None


def right(yarn: tuple[int, ...], none: tuple[int, ...] = (8, 9, 30), within: tuple[int, ...] = (99, 98, 99)) -> dict:
    """Of 100 at each of three depths: YaRN and the model as it is at 512, and the latter at 128."""
    return rope_small.retrieval({"none": (within, none), "yarn": (within, yarn)}, at=(128, 512))


def test_needles_of_all_depths_together_and_of_the_worst():
    found = measured("A16", right((99, 96, 100)))
    assert found.finding == "found"
    assert readings(found) == {
        "guess": 1 / 16, "length": 512, "times": 4, "trials": 300, "within": pytest.approx(296 / 300), "plain": pytest.approx(47 / 300),
        "yarn": pytest.approx(295 / 300), "worst": 0.96,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("yarn", "finding"), [((100, 94, 100), "some"), ((10, 30, 40), "some"), ((6, 7, 6), "lost"), ((95, 95, 95), "found")]
)
def test_perfect_is_asked_of_the_worst_depth(yarn, finding):
    """A mean over depths hides the middle of the text."""
    assert measured("A16", right(yarn)).finding == finding


def test_a_model_that_cannot_recall_shows_nothing():
    assert measured("A16", right((99, 99, 99), within=(7, 6, 8))).finding == "blind"


@pytest.mark.parametrize("method", ["none", "yarn"])
def test_needles_that_were_not_asked_for_say_nothing(method):
    assert measured("A16", without(right((99, 99, 99)), method)) is None
    unasked = copy.deepcopy(right((99, 99, 99)))
    for cell in unasked["cells"]:
        cell["trials"] = cell["right"] = 0
    assert measured("A16", unasked) is None
