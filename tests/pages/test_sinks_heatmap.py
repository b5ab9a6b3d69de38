"""The heatmaps of the attention-sink lesson without a browser: what is said follows from the numbers, the chosen head's map and
no other travels, and no address or input breaks the page."""

import base64
import json
import re
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from pages._ui import recordings
from pages._ui.words import PAGES, Words, table
from pages.sinks import heatmap_payload as payload
from pages.sinks import heatmap_story as story
from pages.sinks.ramp import RAMP
from pages.sinks.shares import share
from tests.pages import attention_small as small
from tests.pages import lessons
from tests.pages.lessons import stored
from tests.pages.test_palette import VISION, oklab, seen

pytestmark = pytest.mark.usefixtures("home")
lesson = partial(lessons.lesson, "sinks")
NAME = "attention-cpu"
EN, KO = Words("en", "sinks"), Words("ko", "sinks")
ODD = {
    "one token": {"tokens": 1},
    "two tokens": {"tokens": 2},
    "one layer, one head": {"layers": 1, "heads": 1, "onset": 0},
    "no sink": {"onset": None},
    "groups, and no head one by one": {"width": 3, "exact": None},
    "groups, and one head one by one": {"width": 3},
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
    [([0.01, 0.02, 0.5, 0.4, 0.6], 2), ([0.1, 0.5], 1), ([0.3, 0.31, 0.29, 0.3], None), ([0.3, 0.3, 0.4, 0.4], None), ([0.5, 0.4, 0.1, 0.1], None), ([0.4], None), ([0, 0, 0], None), ([0.02, 0.3, 0.02, 0.02, 0.5, 0.5], 4)],
)  # fmt: skip
def test_where_it_begins(values, layer):
    """One early layer above its neighbours is not the beginning, and a fall is none."""
    assert story.onset(values) == layer


def test_the_strongest_head(whole):
    assert story.strongest(whole) == (small.ONSET, small.HEADS - 1)


def test_the_page_begins_with_a_head_that_shows_sink_and_text(whole):
    """The strongest head gives token 0 all: its map is one line and says nothing of the rest."""
    layer, head = story.telling(whole)
    assert layer >= small.ONSET and 0.45 < story.rows(whole)[layer][head] < 0.55
    assert story.telling(small.result(onset=None)) == story.strongest(small.result(onset=None)) == (0, 0)


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


def test_the_head_that_is_kept_token_by_token_is_shown_so_in_parts(monkeypatch):
    """Rows of a part begin behind what is not drawn: taken from their beginning, every part would show token 0."""
    monkeypatch.setattr(payload, "WINDOW", 16)
    result, at = small.result(width=3), (small.LAYERS - 1, small.HEADS - 1)
    assert payload.windows(result, at) == [0, 16, 32]
    for other, whose in ((result, (0, 0)), (small.result(), at), ({**result, "exact": None}, at)):
        assert payload.windows(other, whose) == []
    for first, size in ((0, 16), (16, 16), (32, 8)):
        found = payload.payload(result, at, "first", EN, first)["map"]
        assert found["size"] == size and [b[0] for b in found["bins"]] == list(range(first, first + size))
        wanted = [small.row(*at, q)[first : q + 1] for q in range(first, first + size)]
        assert [v for line in cells(found) for v in line] == pytest.approx([v for line in wanted for v in line], abs=0.005)
    before = sum(sum(small.row(*at, q)[:16]) for q in range(16, 32)) / 16
    said = payload.window_map(result, 16, EN)["note"]
    assert share(before) in said or share(before - 0.01) in said or share(before + 0.01) in said


def test_a_head_that_was_asked_for_is_the_one_to_begin_with():
    result = small.result(width=3)
    result["manifest"]["scenario"] |= {"exact_layer": small.LAYERS - 1, "exact_head": small.HEADS - 1}
    assert payload.chosen(None, result) == (small.LAYERS - 1, small.HEADS - 1)


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
    assert payload.chosen(found, whole) == story.telling(whole)


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
    source = "".join(path.read_text(encoding="utf-8") for path in (*folder.glob("*.py"), *(PAGES / "_ui").glob("*.py"), *(PAGES / "static/js/heat").glob("*.js"), *(PAGES / "static/js/cells").glob("*.js")))
    made = tuple(re.findall(r'[f`]"?([a-z_]+\.(?:[a-z]+_)?)\$?\{', source)) + ("field.", "part.", "start.", "run.help_")
    unused = [key for key in table("en", "sinks") if key not in source and not key.startswith(made)]
    assert not unused


# ---------------------------------------------------------------- the page, as Streamlit runs it


def complete(app: AppTest) -> str:
    """The page is all there, with what the result says; gives its HTML."""
    found = lessons.complete(app)
    assert "lab-headline" in found
    return found


@pytest.mark.parametrize(("lang", "headline"), [("en", "138 of 270 heads"), ("ko", "헤드 270개 가운데 138개")])
def test_the_recording_is_there_at_once(lang, headline):
    found = complete(lesson(lang=lang))
    assert "lab-badge-recorded" in found and headline in found and "result.json" in found


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_details(lang):
    app = lesson(lang=lang, part="details")
    assert not app.exception and any("softmax" in m.value or "소프트맥스" in m.value for m in app.markdown)


ADDRESSES = [{"attention": v} for v in ("../../etc/passwd", "a" * 5000, "", "<script>alert(1)</script>", "\x00abc", "recorded:attention-cpu", "{0.__class__}")]
ADDRESSES += [{"part": v} for v in ("", "run", "<b>", "heatmap\x00")] + [{"run": "x", "attention": "y", "part": "z", "lang": "<b>"}]


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda a: ascii(a)[:60])
def test_an_address_nobody_gave_out(address):
    found = complete(lesson(**address))
    if address.get("attention", "").strip():
        assert "lab-notice-info" in found  # "this run is not here"


@pytest.mark.parametrize("name", ODD)
def test_an_odd_result_in_the_address(name):
    run = stored(small.result(**ODD[name]), name)
    for lang in ("en", "ko"):
        assert "lab-badge-measured" in complete(lesson(attention=run, lang=lang))


def test_a_run_of_another_kind_in_the_address():
    assert "lab-notice-info" in complete(lesson(attention=stored(recordings.load("chunk-sweep-cpu"), "of-another-kind")))


@pytest.fixture(scope="module")
def page(home) -> AppTest:
    return lesson(lang="en")


REFUSED = "These numbers do not work"


@pytest.mark.parametrize("value", [0, 1, -1, 1025, 10**12, 2**53 - 1, None], ids=str)
@pytest.mark.parametrize("field", ["tokens", "offset", "first_k"])
def test_a_number_that_may_not_work(page, field, value):
    fine = page.number_input(key=f"attention-{field}").value
    page.number_input(key=f"attention-{field}").set_value(value).run()
    allowed = {"tokens": (None,), "offset": (None, 0, 1, 1025), "first_k": (None, 1)}[field]
    assert (REFUSED in complete(page)) == (value not in allowed)  # an emptied field keeps its number
    page.number_input(key=f"attention-{field}").set_value(fine).run()
    assert REFUSED not in complete(page)


TYPED = ["", " \n\t", "\x00", "🙂" * 2000, "<img src=x onerror=alert(1)>" * 50, "\u202eabc" * 500, "{} {0} %s $x$ " * 200, "same " * 20_000]


@pytest.mark.parametrize("typed", TYPED, ids=lambda t: ascii(t)[:24])
def test_a_text_of_ones_own(page, typed):
    """What is not a text is refused in words; every other may be run."""
    page.selectbox(key="attention-text").set_value("own").run()
    page.text_area(key="own-text").set_value(typed).run()
    assert (REFUSED in complete(page)) == (not typed.strip(" \n\t\x00"))
    page.selectbox(key="attention-text").set_value("pydoc").run()
    assert REFUSED not in complete(page)


def test_one_heads_tokens_one_by_one():
    run = stored(small.result(width=3), "one-by-one")
    app = lesson(attention=run, lang="en")
    assert any("token by token" in b.label for b in app.button), "another head can be read so"
    result = small.result(width=3)
    result["manifest"]["scenario"] |= {"exact_layer": small.LAYERS - 1, "exact_head": small.HEADS - 1}
    app = lesson(attention=stored(result, "one-by-one-asked"), lang="en")
    box = app.selectbox(key="sinks-window-39")
    box.set_value(0).run()
    complete(app)


def test_the_other_measure_and_the_table(page):
    page.segmented_control(key="sinks-measure").set_value("first_k").run()
    complete(page)
