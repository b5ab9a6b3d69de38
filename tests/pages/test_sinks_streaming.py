"""Streaming, the needle and the papers' tables: what the sentences say follows from the numbers, and nothing breaks the page."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from math import log

import pytest

from engine import profiles
from pages._ui import fmt
from pages._ui.words import Words, policy_name
from pages.sinks import needle_story, policies, published_story, streaming_story
from tests.pages import lessons
from tests.pages import streaming_small as small
from tests.pages.lessons import complete, stored

pytestmark = pytest.mark.usefixtures("home")
lesson = partial(lessons.lesson, "sinks")
EN, KO = Words("en", "sinks"), Words("ko", "sinks")
LANGUAGES = pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])

# ---------------------------------------------------------------- names and numbers


@LANGUAGES
def test_every_policy_has_a_name(words):
    for name in ("dense", "window", "sinks", "sinks-4", "h2o", "recompute", "snapkv", "cache"):
        assert not policy_name(name, words).startswith("policy."), name
    assert "4" in policies.title("sinks-4", words)


def test_the_policy_that_is_spoken_of_is_the_papers_four_else_the_most():
    assert policies.with_sinks(["dense", "sinks-1", "sinks-4", "sinks-8"]) == "sinks-4"
    assert policies.with_sinks(["sinks-1", "sinks-16"]) == "sinks-16"
    assert policies.with_sinks(["dense", "window", "sinks-x", "sinks-"]) is None


def test_perplexities_read_with_three_digits_at_any_size():
    """"5e+03" and "1e304" have been on pages like this."""
    values = {9.648: "9.65", 9.996: "10.0", 23.61: "23.6", 99.96: "100", 5158.07: "5,158", 1.01e304: "1.01 × 10³⁰⁴", None: "–"}
    assert {value: fmt.perplexity(value) for value in values} == values
    assert [fmt.times(value) for value in (0.98, 1.04, 2.44, 955.2)] == ["0.98", "1.04", "2.4", "955"]


# ---------------------------------------------------------------- streaming


@pytest.mark.parametrize(
    ("window", "key", "paper"),
    [(15.0, "breaks", "not_as_paper"), (6.5, "rises", "not_as_paper"), (5.1, "level", "not_as_paper"), (4.0, "level", "not_as_paper"), (700.0, "breaks", "as_paper")],
)
def test_the_headline_follows_from_the_numbers(window, key, paper):
    """A page that says "breaks" whatever was measured, or calls threefold a thousandfold, teaches what is not so."""
    found = streaming_story.headline(small.streaming({**small.AFTER, "window": window}))
    assert [k for k, _ in found][:2] == [f"streaming.{key}", f"streaming.{paper}"]
    assert found[0][1]["ratio"] == fmt.times(window / 5.0) and found[0][1]["more"] == "1.04"


@pytest.mark.parametrize(("heavy", "key"), [(4.9, "lower"), (5.25, "level"), (6.0, "higher")])
def test_heavy_hitters_are_judged_against_sinks(heavy, key):
    assert streaming_story.headline(small.streaming({**small.AFTER, "h2o": heavy}))[2][0] == f"streaming.heavy_{key}"


def test_the_papers_figures_come_from_the_profiles():
    facts = streaming_story.headline(small.streaming())[1][1]
    assert facts == {"ratio": "3.0", "llama": "955", "falcon": "1.48"}


def test_above_dense_is_the_difference_of_losses():
    spec = streaming_story.spec(small.streaming(), "above", EN)
    lines = {line["name"]: line["points"] for line in spec["lines"]}
    window = lines[policies.title("window", EN)]
    assert {round(y, 4) for x, y in window if x > small.WINDOW} == {round(log(3), 4)}
    assert {y for x, y in window if x < small.WINDOW} == {0.0}
    assert policies.title("sinks-1", EN) not in lines, "of the many numbers of sinks the chart shows one"
    assert spec["marks"][0]["at"] == small.WINDOW
    assert len(spec["lines"]) == 3 + 1 + len(small.SAMPLED), "three policies, the line of dense, a tick for each sampled token"


def test_a_few_tokens_left_over_do_not_stand_out():
    """Seven tokens at the end of a real text looked like a policy that breaks down there."""
    bins = [[0, 6, 9.0], [6, 26, 2.0], [26, 46, 3.0], [46, 51, 8.0]]
    assert streaming_story.points(bins) == [(13.0, pytest.approx((6 * 9 + 20 * 2) / 26)), (38.5, pytest.approx((20 * 3 + 5 * 8) / 25))]
    assert streaming_story.points([[0, 20, 1.0], [20, 30, 2.0]]) == [(10.0, 1.0), (25.0, 2.0)]
    assert streaming_story.points([[0, 3, 1.0]]) == [(1.5, 1.0)]
    assert streaming_story.points([]) == []


def test_single_sampled_losses_are_no_curve():
    """Two dozen single tokens scatter by nats: as a line they would look like a policy that fails and recovers."""
    for view in streaming_story.VIEWS:
        names = [line["name"] for line in streaming_story.spec(small.streaming(), view, EN)["lines"]]
        assert policies.title("recompute", EN) not in names
    _, rows = streaming_story.policy_table(small.streaming(), EN)
    row = next(row for row in rows if row[0] == policies.title("recompute", EN))
    assert row[1:3] == ["–", "–"] and row[3] == fmt.perplexity(2.718281828**1.6)


def test_nothing_is_drawn_where_nothing_was_measured():
    """A line over the gap between both stretches would be drawn as if it had been measured."""
    spec = streaming_story.cost_spec(small.streaming(), "kv_bytes", EN)
    assert len(spec["lines"]) == 4
    for line in spec["lines"]:
        at = [x for x, _ in line["points"]]
        assert max(b - a for a, b in pairwise(at)) == 10
    assert [line["label"] for line in spec["lines"]] == ["legend", "none"] * 2


def test_one_stretch_stays_whole():
    assert streaming_story.spans([[1, 0], [11, 0], [21, 0]]) == [[[1, 0], [11, 0], [21, 0]]]
    assert streaming_story.spans([]) == [] and streaming_story.spans([[5, 1]]) == [[[5, 1]]]


def test_what_a_late_token_costs():
    (_, cost), (_, again) = streaming_story.cost_said(small.streaming())
    assert cost == {"tokens": "390", "ms_dense": "59 ms", "ms_sinks": "35 ms", "kv_dense": "390 kB", "kv_sinks": "100 kB"}
    assert again["ratio"] == "11.4"


def test_a_token_before_behind_and_long_after_the_first_eviction():
    head, rows = streaming_story.cost_table(small.streaming(), EN)
    assert rows[0][1:] == ["44 ms", "46 ms", "59 ms", "390 kB"] and rows[1][1:] == ["35 ms", "35 ms", "35 ms", "100 kB"]
    assert rows[2][1:] == ["–", "400 ms", "400 ms", "100 kB"] and all(len(row) == len(head) for row in rows)


def test_how_much_sinks_take_back():
    key, facts = streaming_story.sinks_said(small.streaming())[0]
    back = [(log(15) - log(p)) / (log(15) - log(5)) for p in (5.6, 5.2)]
    assert key == "streaming.sinks_more" and [facts["by_few"], facts["by_many"]] == [f"{b * 100:.0f} %" for b in back]
    assert streaming_story.sinks_said(small.streaming({**small.AFTER, "sinks-1": 5.21}))[0][0] == "streaming.sinks_enough"
    assert streaming_story.sinks_said(small.streaming({**small.AFTER, "window": 5.0})) == [], "nothing lost, nothing taken back"


ODD_STREAMS = {
    "dense alone": small.streaming({"dense": 5.0}, recompute=False, cost={}, agreement=None),
    "window alone": small.streaming({"dense": 5.0, "window": 9.0}, recompute=False),
    "no window": small.streaming({"dense": 5.0, "sinks-1": 5.1}),
    "sampled only": small.streaming({"dense": 5.0}),
    "beyond all bounds": small.streaming({**small.AFTER, "window": 1.01e304}),
    "nothing is hard": small.streaming(dict.fromkeys(small.AFTER, 1.0)),
    "an own text": small.streaming() | {"manifest": {**small.streaming()["manifest"], "scenario": {**small.streaming()["manifest"]["scenario"], "text": "own-0123456789abcdef"}}},
}


@LANGUAGES
@pytest.mark.parametrize("name", ODD_STREAMS)
def test_an_odd_stream_breaks_nothing(name, words):
    result = ODD_STREAMS[name]
    sentences = [*streaming_story.headline(result), *streaming_story.sinks_said(result), *streaming_story.cost_said(result)]
    sentences += filter(None, (streaming_story.sampled_note(result), streaming_story.agreement(result)))
    texts = [words(key, **facts) for key, facts in sentences] + [streaming_story.about(result, words), streaming_story.alt(result, words)]
    assert all("{" not in text and not text.startswith("streaming.") for text in texts)
    for view in streaming_story.VIEWS:
        json.dumps(streaming_story.spec(result, view, words), allow_nan=False)
    for what in ("ms_per_token", "kv_bytes"):
        json.dumps(streaming_story.cost_spec(result, what, words), allow_nan=False)
        streaming_story.cost_alt(result, what, words)
    for head, rows in (streaming_story.policy_table(result, words), streaming_story.sinks_table(result, words), streaming_story.cost_table(result, words)):
        assert all(len(row) == len(head) for row in rows)


def test_curves_are_drawn_while_they_grow():
    """What is known of a run under way has no table and no costs."""
    known = {"tokens": 400, "window": 100, "first_eviction": 100, "curves": {"dense": {"bins": [[0, 16, 2.0]], "perplexity_after": None}}}
    assert streaming_story.spec(known, "loss", EN)["lines"][0]["points"] == [[8.0, 2.0]]
    assert streaming_story.spec({**known, "curves": {}}, "loss", EN) is None


# ---------------------------------------------------------------- the needle


@pytest.mark.parametrize(
    ("cells", "keys"),
    [
        (small.CELLS, ["lost", "control_above", "snapkv_above", "h2o_level"]),
        ([small.cell("dense", 5), *small.CELLS[1:]], ["blind"]),
        ([small.CELLS[0], small.cell("sinks", 20)], ["kept"]),
        ([small.cell("dense", 40, in_window=True), small.cell("sinks", 40, in_window=True)], ["inside"]),
        ([small.cell("snapkv", 40)], ["partial", "snapkv_above"]),
        ([small.CELLS[0], small.CELLS[1], small.cell("sinks", 5, in_window=True)], ["lost", "control_level"]),
        ([small.cell("dense", 0, 0), small.cell("sinks", 0, 0)], ["partial"]),
        ([], ["partial"]),
    ],
    ids=["as hoped", "blind", "kept", "inside", "no dense", "control fails", "no trials", "no cells"],
)
@LANGUAGES
def test_what_is_said_of_the_needle_follows_from_the_intervals(cells, keys, words):
    """A model that cannot find the needle at all proves nothing about what a window forgets."""
    result = small.needle(cells)
    found = needle_story.headline(result)
    assert [key.removeprefix("needle.") for key, _ in found] == keys
    texts = [words(key, **facts) for key, facts in found] + [needle_story.about(result, words), needle_story.rows(result, words)]
    assert all("{" not in text for text in texts)
    head, rows = needle_story.table(result, words)
    assert len(rows) == sum(bool(c["trials"]) for c in cells) and all(len(row) == len(head) for row in rows)


def test_the_control_is_not_taken_for_the_policy():
    """Its needle lies within the window: as the cell of sinks + window it would say that nothing is forgotten."""
    result = small.needle(list(reversed(small.CELLS)))
    assert needle_story.main(result, "sinks")["right"] == 4
    assert [row[0] for row in needle_story.table(result, EN)[1]].count("Sinks + window, control") == 1


@LANGUAGES
@pytest.mark.parametrize(("right", "needles", "key"), [(21, 4, "named"), (40, 4, "above"), (21, 1, "above"), (4, 4, "level")])
def test_who_only_remembers_the_words_does_not_know_whose_they_are(right, needles, key, words):
    """One of four words of a text picked at random is right in 25 %, far above guessing among fifteen: "knows" said too much."""
    result = small.needle([*small.CELLS[:2], small.cell("h2o", right)], needles=needles)
    assert [found for found, _ in needle_story.headline(result)][1:] == [f"needle.h2o_{key}"]
    assert ("25 %" in needle_story.rates_note(result, words)) == (needles > 1)


def test_where_every_needle_is_within_the_window_there_is_no_control():
    """Two rows of one name and two rates stood below each other, with the needles put deep."""
    result = small.needle([small.cell(*cell, in_window=True) for cell in (("dense", 40), ("sinks", 39), ("h2o", 30), ("sinks", 35))])
    assert [(cell["policy"], cell["right"]) for cell in needle_story.cells(result)] == [("dense", 40), ("sinks", 39), ("h2o", 30)]


def test_excluded_needles_are_named():
    assert "(3)" in needle_story.about(small.needle(excluded=3), EN) and "3개" in needle_story.about(small.needle(excluded=3), KO)


def test_the_example_is_shown_as_text():
    found = needle_story.example(small.needle(), EN)
    assert "<mark>The secret word of the harbor is lion.</mark>" in found and "<b>lion</b>" in found
    assert "<script>" not in found and "<b>And" not in found
    assert needle_story.example(small.needle(example=None), EN) == ""


# ---------------------------------------------------------------- the papers


def test_a_row_for_each_model_with_all_its_numbers():
    head, rows = published_story.by_sinks(EN)
    assert rows[0] == ["Llama-2-7B", "4,096", "3,359.95", "11.88", "10.51", "9.59", "9.54", "350×"]
    assert len(rows) == 4 and all(len(row) == len(head) for row in rows)
    assert "Llama-2-7B 350×, MPT-7B 31×, Pythia-12B 1.79×, Falcon-7B 1.48×" in published_story.ratios(EN)


def test_nothing_is_found_beyond_the_cache():
    head, rows = published_story.by_distance(EN)
    assert all(len(row) == len(head) for row in rows) and len(rows) == 11
    by = {row[0]: row[1:] for row in rows}
    assert by["1,840"][0] == "75.30 %" and by["2,300"][0] == "0.00 %"


@LANGUAGES
def test_ours_stand_in_the_same_columns(words):
    result = small.streaming()
    head, rows = published_story.ours_by_sinks(result, words)
    assert head == published_story.by_sinks(words)[0]
    assert rows == [["Tiny", "100", "15.0", "5.60", "–", "5.20", "–", "2.9×"]]
    assert "3.0" in published_story.ours_said(result, words)
    assert published_story.ours_said(ODD_STREAMS["window alone"], words) is None
    assert all(len(row) == len(published_story.first_tokens(words)[0]) for row in published_story.first_tokens(words)[1])


def test_what_the_papers_gain_is_against_what_they_say():
    head, rows = published_story.speeds(EN)
    assert all(len(row) == len(head) and all(row) for row in rows) and len(rows) == 7
    assert rows[0][1:4] == ["tokens per second of a decode", "up to 22.2×", "sliding window with re-computation"]
    assert rows[-1][1:3] == ["longest input that fits, at 131,000 tokens", "8.2×"]


@LANGUAGES
def test_a_papers_place_and_data_are_named(words):
    found = published_story.source(profiles.table("streamingllm-table-2"), words)
    assert "Table 2" in found and "400K tokens" in found and "arxiv.org" in found


# ---------------------------------------------------------------- the page, as Streamlit runs it


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("part", ["streaming", "needle"])
def test_the_recording_is_there_at_once(part, lang):
    found = complete(lesson(part=part, lang=lang))
    assert "lab-badge-recorded" in found and "lab-headline" in found and "result.json" in found


@pytest.mark.parametrize("disturbed", [True, False])
def test_a_busy_machine_is_told_where_times_are(disturbed):
    """Above the perplexities it would cast doubt on numbers that do not depend on it."""
    busy = {"disturbed": disturbed, "waited_share": 0.35, "others_cpu_share": 0.39}
    found = complete(lesson(part="streaming", streaming=stored(small.streaming(disturbance=busy), f"busy-{disturbed}".lower()), lang="en"))
    assert (EN("disturbed.title") in found) == disturbed
    if disturbed:
        assert found.index(EN("streaming.section_cost")) < found.index(EN("disturbed.title"))


@pytest.mark.parametrize("name", ODD_STREAMS)
def test_an_odd_stream_in_the_address(name):
    found = complete(lesson(part="streaming", streaming=stored(ODD_STREAMS[name], name), lang="ko"))
    assert "lab-badge-measured" in found and "lab-headline" in found


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_needle_run_in_the_address(lang):
    found = complete(lesson(part="needle", needle=stored(small.needle(), "needle"), lang=lang))
    assert "lab-badge-measured" in found and "nd-guess" in found and "<mark>" in found


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_the_papers_and_ours(lang):
    found = complete(lesson(part="published", streaming=stored(small.streaming(), "ours"), lang=lang))
    assert found.count("lab-badge-published") == 4 and "lab-badge-measured" in found and "350×" in found


BAD = ("../../etc/passwd", "a" * 5000, "<script>alert(1)</script>", "\x00abc", "{0.__class__}")


@pytest.mark.parametrize("value", BAD, ids=lambda v: ascii(v)[:30])
@pytest.mark.parametrize("part", ["streaming", "needle"])
def test_an_address_nobody_gave_out(part, value):
    assert "lab-notice-info" in complete(lesson(part=part, **{part: value}))


@pytest.mark.parametrize(("part", "other"), [("streaming", small.needle()), ("needle", small.streaming())], ids=["streaming", "needle"])
def test_a_run_of_another_kind_in_the_address(part, other):
    assert "lab-notice-info" in complete(lesson(part=part, **{part: stored(other, f"other-{part}")}))


REFUSED = "These numbers do not work"
NUMBERS = [("streaming", name) for name in ("tokens", "window", "points", "decode_tokens", "seed")]
NUMBERS += [("needle", name) for name in ("trials", "length", "window", "sinks", "distractors", "depth", "seed")]


@pytest.mark.parametrize(("part", "field"), NUMBERS, ids=lambda v: v)
def test_a_number_that_may_not_work(part, field):
    app = lesson(part=part, lang="en")
    fine = app.number_input(key=f"{part}-{field}").value
    for value in (-1, 10**12):
        app.number_input(key=f"{part}-{field}").set_value(value).run()
        assert REFUSED in complete(app), value
    app.number_input(key=f"{part}-{field}").set_value(fine).run()
    assert REFUSED not in complete(app)


def test_no_sinks_at_all_may_be_chosen():
    app = lesson(part="streaming", lang="en")
    app.multiselect(key="streaming-sinks").set_value([]).run()
    assert REFUSED not in complete(app)


@pytest.mark.parametrize("typed", ["", " \n\t", "\x00", "🙂" * 2000, "<img src=x onerror=alert(1)>" * 50, "\u202eabc" * 500, "{} {0} %s $x$ " * 200], ids=lambda t: ascii(t)[:20])
def test_a_text_of_ones_own(typed):
    """What is not a text is refused in words; every other may be run."""
    app = lesson(part="streaming", lang="en")
    app.selectbox(key="streaming-text").set_value("own").run()
    app.text_area(key="own-text").set_value(typed).run()
    assert (REFUSED in complete(app)) == (not typed.strip(" \n\t\x00"))
