"""The heatmaps of the attention-sink lesson without a browser: what is said follows from the numbers, the chosen head's map and
no other travels, and no address or input breaks the page."""

import base64
import json
import re

import pytest

from pages._ui import recordings
from pages._ui.words import PAGES, Words, table
from pages.sinks import heatmap_payload as payload
from pages.sinks import heatmap_story as story
from pages.sinks.ramp import RAMP
from pages.sinks.shares import share
from tests.pages import attention_small as small
from tests.pages.test_palette import VISION, oklab, seen

NAME = "attention-cpu"
EN, KO = Words("en", "sinks"), Words("ko", "sinks")
ODD = {
    "one token": {"tokens": 1},
    "two tokens": {"tokens": 2},
    "one layer, one head": {"layers": 1, "heads": 1, "onset": 0},
    "no sink": {"onset": None},
    "no starts": {"starts": [], "starts_on": None},
    "starts of another version": {"starts": [{"name": "backwards", "first": 0.1}]},
    "no profile of each head": {"profile": {**small.result()["profile"], "by_head": None}},
    "a text that was shorter": {"text": {"tokens": 40, "asked": 512, "offset": 0, "characters": 200, "more": False}},
    "one start": {"starts": small.result()["starts"][:1]},
}


@pytest.fixture(scope="module")
def whole() -> dict:
    return small.result()


# ---------------------------------------------------------------- numbers and colours


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.434, "43 %"), (0.0996, "10 %"), (0.0994, "9.9 %"), (0.00996, "1.0 %"), (0.0026, "0.26 %"), (0.00004, "< 0.01 %"), (0, "0 %"), (1, "100 %"), (None, "–")],
)
def test_a_share_has_digits_where_they_matter(value, text):
    """0.26 % shown as 0 % would make the even share, what everything is held against, disappear."""
    assert share(value) == text


@pytest.mark.parametrize("mode", RAMP)
@pytest.mark.parametrize("vision", VISION)
def test_lightness_says_how_much_without_colour(mode, vision):
    """More must never look like less: not in greyscale, not to anybody's eyes."""
    lightness = [oklab(seen(color, vision))[0] for color in RAMP[mode]]
    steps = [b - a for a, b in zip(lightness, lightness[1:])]
    assert all(step < -0.03 for step in steps) if mode == "light" else all(step > 0.03 for step in steps)
    assert abs(lightness[-1] - lightness[0]) > 0.6


# ---------------------------------------------------------------- what is said


def test_the_headline_counts_heads_and_names_the_layer(whole):
    key, facts = story.headline(whole)
    after = small.LAYERS - small.ONSET
    assert key == "story.begins" and facts["heads"] == str(small.LAYERS * small.HEADS)
    assert facts["many"] == str(after * small.HEADS)
    # Parts of 0.4, 0.5 and 0.6, and an even share of the rest: two of them are above a half.
    assert facts["most"] == str(after * 2) and facts["layer"] == str(small.ONSET)
    assert facts["even"] == share(sum(1 / (q + 1) for q in range(20, 40)) / 20) == facts["before"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"onset": None}, "story.none"), ({"onset": 0}, "story.throughout"), ({"tokens": 12}, "story.short"), ({"tokens": 1}, "story.short")],
)
def test_no_beginning_is_named_where_there_is_none(changes, key):
    assert story.headline(small.result(**changes))[0] == key


@pytest.mark.parametrize(
    ("values", "layer"),
    [([0.01, 0.02, 0.5, 0.4, 0.6], 2), ([0.1, 0.5], 1), ([0.3, 0.31, 0.29, 0.3], None), ([0.5, 0.4, 0.1, 0.1], None), ([0.4], None), ([0, 0, 0], None), ([0.02, 0.3, 0.02, 0.02, 0.5, 0.5], 4)],
)  # fmt: skip
def test_where_it_begins(values, layer):
    """One early layer above its neighbours is not the beginning, and a fall is none."""
    assert story.onset(values) == layer


def test_the_strongest_head(whole):
    assert story.strongest(whole) == (small.ONSET, small.HEADS - 1)


def test_what_makes_a_sink_follows_from_the_numbers(whole):
    assert [key for key, _ in story.starts_said(whole)] == ["starts.any", "starts.split"]
    for entry in whole["starts"]:
        if entry["name"] == "word":
            weak = {**entry, "first": 0.02}
    others = [entry for entry in whole["starts"] if entry["name"] != "word"]
    assert [key for key, _ in story.starts_said({**whole, "starts": [*others, weak]})] == ["starts.not_any", "starts.split"]
    four = {**whole["starts"][-1], "first": 0.4}
    assert story.starts_said({**whole, "starts": [whole["starts"][0], four]})[0][0] == "starts.four"


@pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])
@pytest.mark.parametrize("name", ODD)
def test_an_odd_result_breaks_nothing(name, words):
    result = small.result(**ODD[name])
    sentences = [story.headline(result), *story.starts_said(result)]
    texts = [words(key, **facts) for key, facts in sentences] + [story.about(result, words), story.starts_alt(result, words)]
    assert all("{" not in text and "." in text for text in texts)
    for measure in story.MEASURES:
        json.dumps(payload.payload(result, payload.chosen(None, result), measure, words), allow_nan=False)
        head, rows = story.overview_table(result, measure, words)
        assert all(len(row) == len(head) for row in rows)
    json.dumps(story.starts_spec(result, words), allow_nan=False)
    head, rows = story.starts_table(result, words)
    assert all(len(row) == len(head) for row in rows)
    assert len(story.figures(result, words)) == 4


# ---------------------------------------------------------------- what travels


def cells(found: dict) -> list[list[float]]:
    """Row by row up to the diagonal, as the browser reads them."""
    data = base64.b64decode(found["cells"])
    n = found["size"]
    assert len(data) == n * (n + 1) // 2
    return [[(byte / 255) ** 2 for byte in data[q * (q + 1) // 2 : (q + 1) * (q + 2) // 2]] for q in range(n)]


@pytest.mark.parametrize("width", [1, 3], ids=["whole", "reduced"])
def test_the_map_is_the_chosen_heads_and_its_rows_add_up_to_one(width):
    """Another head's bytes, or rows for columns, would look just as plausible."""
    result = small.result(width=width)
    for at in ((0, 1), (small.ONSET, 0), (small.LAYERS - 1, small.HEADS - 1)):
        found = payload.payload(result, at, "first", EN)["map"]
        assert all(sum(row) == pytest.approx(1, abs=0.04) for row in cells(found))
        first, last, *_ = found["bins"][-1]
        keys = found["bins"][0][1] + 1
        wanted = [sum(small.row(*at, q)[:keys]) for q in range(first, last + 1)]
        assert cells(found)[-1][0] == pytest.approx(sum(wanted) / len(wanted), abs=0.01)
        assert found["reduced"] == (width > 1)


def test_every_token_is_in_one_bin():
    for width in (1, 3, 7, 40):
        found = payload.bins(small.result(width=width))
        assert [n for first, last in found for n in range(first, last + 1)] == list(range(40))


def test_a_choice_costs_little_to_send():
    """What the recording of 512 tokens sends for the strongest head, and what twice as many tokens would."""
    result = recordings.load(NAME)
    found = payload.payload(result, payload.chosen(None, result), "first", KO)
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 30_000
    found["profile"] |= {name: found["profile"][name] * 2 for name in ("head", "layer", "even")}
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 60_000


@pytest.mark.parametrize("found", [None, [], [0], [-1, 0], [99, 0], [0, 99], ["0", "0"], [True, 0], [1.5, 0], {"layer": 1}, "12", [[0], 0]], ids=str)
def test_a_browser_may_ask_for_any_head(found, whole):
    assert payload.chosen(found, whole) == story.strongest(whole)


def test_a_head_that_is_there_is_shown(whole):
    assert payload.chosen([1, 2], whole) == (1, 2)


def test_the_profile_is_the_heads(whole):
    found = payload.payload(whole, (small.ONSET, 1), "first", EN)["profile"]
    assert found["head"][0] == pytest.approx(whole["overview"]["first"][small.ONSET][1], rel=0.01)
    assert found["layer"][0] == pytest.approx(story.by_layer(whole)[small.ONSET], rel=0.01)
    assert found["even"][0] == pytest.approx(story.even(whole), rel=0.01)


def test_the_overview_is_of_the_measure_asked_for(whole):
    found = payload.payload(whole, (0, 0), "first_k", EN)["overview"]
    assert found["rows"][0][0] == pytest.approx(whole["overview"]["first_k"][0][0], abs=1e-4)
    assert found["even"] == whole["overview"]["uniform_k"] and found["k"] == 4


# ---------------------------------------------------------------- words


def test_every_text_of_the_heatmaps_is_used():
    folder = PAGES / "sinks"
    source = "".join(path.read_text(encoding="utf-8") for path in (*folder.glob("*.py"), *(PAGES / "_ui").glob("*.py"), *(PAGES / "static/js/heat").glob("*.js")))
    made = tuple(re.findall(r'[f`]"?([a-z_]+\.(?:[a-z]+_)?)\$?\{', source)) + ("field.", "part.", "start.", "run.help_")
    unused = [key for key in table("en", "sinks") if key not in source and not key.startswith(made)]
    assert not unused
