"""Perplexity and needles by length: what the sentences say follows from the numbers, and nothing breaks the page."""

from __future__ import annotations

import json
from functools import partial

import pytest

from pages._ui.words import Words
from pages.rope import lengths_story, methods, published_story, retrieval_story
from tests.pages import lessons
from tests.pages import rope_small as small
from tests.pages.lessons import complete, stored

pytestmark = pytest.mark.usefixtures("home")
lesson = partial(lessons.lesson, "rope")
EN, KO = Words("en", "rope"), Words("ko", "rope")
LANGUAGES = pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])


def keys_of(sentences: list) -> list[str]:
    return [key.partition(".")[2] for key, _ in sentences]


def facts_of(sentences: list, key: str) -> dict:
    return next(facts for found, facts in sentences if found.endswith(f".{key}"))


# ---------------------------------------------------------------- perplexity


def test_the_usual_headline():
    """Ratios are to the model as it is within its trained length, never to another method or another length."""
    said = lengths_story.headline(small.lengths(), EN)
    assert keys_of(said) == ["plain_breaks", "stretch_holds", "stretch_far", "stretch_worst", "seeds_all", "streaming_best"]
    assert facts_of(said, "plain_breaks") == {"length": "1,024", "of": "8", "trained": "128", "base": "20.0", "value": "90.0", "ratio": "4.5"}
    assert facts_of(said, "stretch_holds") == {"length": "512", "of": "4", "best": "YaRN", "more": "12 %", "ratio": "1.12"}
    assert facts_of(said, "stretch_worst")["worst"] == "Llama 3"


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"none": (20.0, 22.0, 25.0, 28.0)}, "plain_rises"),
        ({"none": (20.0, 20.0, 20.1, 20.2)}, "plain_level"),
        ({"none": (20.0, 20.0, 20.1, 20.2)}, "stretch_useless"),
        ({"yarn": (20.0, 25.0, 30.0, 50.0), "by-parts": (20.0, 25.0, 31.0, 50.0)}, "stretch_best"),
        ({"yarn": (20.0, 20.0, 20.5, 21.0)}, "stretch_far_holds"),
        ({"streaming": (20.0, 21.0, 22.6, 22.0)}, "streaming_level"),
        ({"streaming": (20.0, 21.0, 30.0, 40.0)}, "streaming_behind"),
    ],
)
def test_what_was_not_measured_is_not_said(changed, key):
    """A page that says "explodes", "rescues" and "looks best" whatever was measured teaches what is not so."""
    assert key in keys_of(lengths_story.headline(small.lengths({**small.PERPLEXITY, **changed}), EN))


def test_seeds_that_disagree_are_told():
    """With one seed of three the other way round, "the best" may be chance."""
    result = small.lengths()
    lengths_story.cell(result, "by-parts", 512)["by_seed"][1] = 21.0
    said = lengths_story.headline(result, EN)
    assert facts_of(said, "seeds_some")["wins"] == "2" and "seeds_all" not in keys_of(said)
    assert not [key for key in keys_of(lengths_story.headline(small.lengths(seeds=(1.0,)), EN)) if key.startswith("seeds")]


def test_a_fixed_factor_has_its_price_in_range():
    fixed = {"none": (8.0, 30.0, 1000.0), "linear": (19.0, 36.0, 41.0), "yarn": (8.2, 8.7, 11.9)}
    result = small.lengths(fixed, at=(8192, 12288, 16384), trained=8192, factor=2.0, seeds=(1.0,))
    said = lengths_story.headline(result, EN)
    assert facts_of(said, "fixed_costs") == {"factor": "2", "length": "8,192", "few": "YaRN", "many": "Linear (PI)", "by_few": "1.02", "by_many": "2.4"}
    assert lengths_story.in_range(result)["method"] == "none", "a stretched cell within the trained length is no base"


def test_equal_methods_share_a_line_and_others_do_not():
    """With a factor of its own for each length dynamic NTK is NTK-aware: two lines on each other hide one of them."""
    def drawn(result: dict) -> list[str]:
        return [line["name"] for line in lengths_story.spec(result, EN)["lines"] if line["name"]]

    assert "NTK-aware = Dynamic NTK" in drawn(small.lengths()) and len(drawn(small.lengths())) == 7
    assert len(drawn(small.lengths({**small.PERPLEXITY, "dynamic": (20.0, 23.0, 42.0, 70.0)}))) == 8
    styles = {line["style"] for line in lengths_story.spec(small.lengths(), EN)["lines"]}
    assert len(styles) == 7, "a colour and a dash for each"


def test_points_and_seeds_stand_where_they_were_measured():
    """Points are moved a little apart along the length, never along the perplexity, and never to a neighbour."""
    spec = lengths_story.spec(small.lengths(), EN)
    point = next(p for p in spec["points"] if p["id"] == "yarn-512")
    assert point["y"] == 22.4 and 512 / 1.1 < point["x"] < 512 * 1.1 and "1.12× in-range" in point["text"]
    (_, low), (_, high) = next(line["points"] for line in spec["lines"] if not line["name"] and line["style"] == point["style"] and line["points"][0][0] == point["x"])
    assert (low, high) == (pytest.approx(22.4 * 0.9), pytest.approx(22.4 * 1.11))


def test_the_spread_of_ratios_is_by_seed_against_its_own_texts():
    """The perplexities of seeds differ by a fifth here, their ratios not at all."""
    assert "1.12× (1.12–1.12)" in lengths_story.table(small.lengths(), EN)


ODD_LENGTHS = {
    "no length in range": small.lengths({"none": (30.0, 40.0), "yarn": (20.0, 21.0)}, at=(256, 512)),
    "nothing beyond": small.lengths({"none": (20.0,), "yarn": (20.0,)}, at=(128,)),
    "plain alone": small.lengths({"none": small.PERPLEXITY["none"]}),
    "streaming alone": small.lengths({"streaming": small.PERPLEXITY["streaming"]}),
    "without plain": small.lengths({"yarn": small.PERPLEXITY["yarn"], "linear": small.PERPLEXITY["linear"]}),
    "beyond all bounds": small.lengths({**small.PERPLEXITY, "none": (20.0, 1e9, 1e300, 1.01e304)}),
    "one value": small.lengths({"none": (5.0,), "yarn": (5.0,)}, at=(256,), seeds=(1.0,)),
}


@LANGUAGES
@pytest.mark.parametrize("name", ODD_LENGTHS)
def test_odd_lengths_break_nothing(name, words):
    result = ODD_LENGTHS[name]
    texts = [words(key, **facts) for key, facts in lengths_story.headline(result, words)]
    texts += [lengths_story.about(result, words), lengths_story.alt(result, words), lengths_story.table(result, words)]
    assert len(texts) > 3 and all("{" not in text and not text.startswith(("lengths.", "method.")) for text in texts)
    json.dumps(lengths_story.spec(result, words), allow_nan=False)


def test_lines_are_drawn_while_they_grow():
    """What is known of a run under way has fewer cells, and no model yet."""
    whole = small.lengths()
    known = {**whole, "cells": [], "manifest": {"scenario": whole["manifest"]["scenario"]}}
    assert lengths_story.spec(known, EN) is None
    assert len(lengths_story.spec({**known, "cells": whole["cells"][1:2]}, EN)["points"]) == 1


# ---------------------------------------------------------------- needles


def test_the_usual_needles():
    said = retrieval_story.headline(small.retrieval(), EN)
    assert keys_of(said) == ["rescued", "others", "far", "streaming_lost"]
    facts = facts_of(said, "rescued")
    assert [facts[name] for name in ("length", "of", "plain", "best", "rate", "low", "guess")] == ["512", "4", "16 %", "YaRN", "99 %", "98 %", "6 %"]
    far = facts_of(said, "far")
    assert (far["length"], far["of"]) == ("1,024", "8") and far["list"].startswith("YaRN 97 %, NTK by parts 91 %") and far["list"].endswith("As trained 6 %")
    assert {name: facts_of(said, "streaming_lost")[name] for name in ("seen", "gone")} == {"seen": "99 %", "gone": "6 %"}


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"none": ((7, 6, 5), (5, 5, 5), (6, 6, 6), (5, 6, 7))}, "blind"),
        ({"none": ((99, 99, 99),) * 4}, "not_better"),
        ({"streaming": ((99, 98, 99), (40, 97, 99), (30, 33, 99), (30, 30, 98))}, "streaming_kept"),
        ({"streaming": ((99, 98, 99), (6, 97, 99), (5, 7, 99), (8, 4, 98))}, "streaming_lost"),
    ],
)
def test_what_needles_do_not_show_is_not_said(changed, key):
    """A model that cannot find a needle within its trained length proves nothing about stretching."""
    assert key in keys_of(retrieval_story.headline(small.retrieval({**small.RIGHT, **changed}), EN))


def test_a_cell_tells_its_trials_and_where_its_needle_lies():
    grids = {grid["title"]: grid["rows"] for grid in retrieval_story.grids(small.retrieval(), EN)["grids"]}
    gone, kept = grids["Sinks + window"][0][2], grids["Sinks + window"][2][2]
    assert (gone["text"], gone["mark"], gone["low"]) == ("5", "gone", True) and (kept["mark"], kept["low"]) == ("window", False)
    assert "5 of 100 right: 5 %" in gone["told"] and "95 % interval 2–11 %" in gone["told"] and "needle evicted" in gone["told"]
    assert all(cell["mark"] is None for row in grids["YaRN"] for cell in row), "only what evicts has places to tell apart"
    sinks = small.retrieval()
    sinks["cells"][-1]["in_sinks"] = 0.5
    assert retrieval_story.mark(sinks["cells"][-1]) == "sinks"
    assert "gd-key-sinks" in retrieval_story.keys(sinks, EN) and "gd-key-sinks" not in retrieval_story.keys(small.retrieval(), EN)


def test_perplexity_beside_retrieval():
    """The lesson in one picture: the first by perplexity is not the first by retrieval; and where it is, nobody says so."""
    length, rows = retrieval_story.beside(small.lengths(), small.retrieval())
    assert length == 512 and [row.method for row in rows][:2] == ["streaming", "yarn"]
    (key, facts), *_ = retrieval_story.beside_said(length, rows, small.TRAINED, EN)
    assert key == "retrieval.beside_contrast" and (facts["place"], facts["n"], facts["first_rate"], facts["most"]) == ("7", "8", "37 %", "YaRN")
    without = [row for row in rows if row.method != "streaming"]
    assert retrieval_story.beside_said(length, without, small.TRAINED, EN)[0][0] == "retrieval.beside_agree"
    assert "width:0.80%" in retrieval_story.beside_rows(length, rows, small.GUESS, EN), "below in-range is no negative bar"


def test_perplexity_misleads_without_a_window_too():
    """A better perplexity with clearly fewer needles is told; a rate that chance explains is not, nor a perplexity that is level."""

    def said(plain: int, ratio: float) -> list[str]:
        right = {"none": ((99, 98, 99), (0, 0, 0), (plain, plain, plain), (0, 0, 0)), "linear": ((99, 98, 99), (0, 0, 0), (5, 5, 5), (0, 0, 0))}
        perplexity = {"none": (20.0, 30.0, 100.0, 300.0), "linear": (20.0, 30.0, 100.0 * ratio, 300.0)}
        at = (128, 256, 512, 1024)
        length, rows = retrieval_story.beside(small.lengths(perplexity, at=at), small.retrieval(right, at=at))
        return [EN(key, **facts) for key, facts in retrieval_story.beside_said(length, rows, small.TRAINED, EN) if key == "retrieval.beside_pair"]

    assert said(40, 0.6) == [
        "It misleads without sinks + window too: Linear (PI) looks better than As trained (3.0× against 5.0× in-range) and finds less, 5 % against 40 %."
    ]
    assert said(7, 0.6) == [] and said(40, 0.99) == [] and said(40, 1.5) == []


def test_the_paper_is_quoted_as_printed():
    """A row that slips by a factor or a fine-tune quotes a number the paper does not have there."""
    head, rows = published_story.rows(EN)
    assert head[-1] == "s = 16, 32,768 tokens, after 400 steps"
    assert [row[0] for row in rows] == ["As trained", "Linear (PI)", "NTK-aware", "NTK by parts", "YaRN"]
    assert rows[0][1:] == ["4.05", *["–"] * 4]
    assert rows[1][1:] == ["7.09", "6.39", "6.18", "> 100", "3.57"] and rows[2][1:] == ["4.27", "3.84", "> 10", "> 10", "8.49"]
    assert rows[4][1:] == ["4.19", "3.77", "3.65", "3.45", "2.77"] and "Table 5" in published_story.source(EN)


def test_results_that_cannot_stand_beside_each_other():
    """Perplexities of one model beside the needles of another would be compared as if they were of one."""
    other = small.lengths(manifest=small.manifest_of("smollm2-135m-instruct"))
    assert retrieval_story.beside(other, small.retrieval()) is None
    assert retrieval_story.beside(ODD_LENGTHS["nothing beyond"], small.retrieval()) is None
    assert retrieval_story.beside(small.lengths({"yarn": small.PERPLEXITY["yarn"]}), small.retrieval()) is None


ODD_NEEDLES = {
    "no trials": small.retrieval(trials=0, right={"none": ((0, 0, 0),) * 4}),
    "nothing beyond": small.retrieval({"none": ((99, 98, 97),), "streaming": ((99, 98, 97),)}, at=(128,)),
    "streaming alone": small.retrieval({"streaming": small.RIGHT["streaming"]}),
    "all evicted": small.retrieval({"streaming": ((5, 6, 7),)}, at=(512,), cells=[c | {"in_window": 0.0} for c in small.retrieval()["cells"] if c["method"] == "streaming"]),
    "no cells": small.retrieval({}),
    "no example": small.retrieval(example=None),
}


@LANGUAGES
@pytest.mark.parametrize("name", ODD_NEEDLES)
def test_odd_needles_break_nothing(name, words):
    result = ODD_NEEDLES[name]
    texts = [words(key, **facts) for key, facts in retrieval_story.headline(result, words)]
    texts += [retrieval_story.about(result, words), retrieval_story.alt(result, words), retrieval_story.keys(result, words)]
    assert len(texts) > 3 and all("{" not in text and not text.startswith(("retrieval.", "method.")) for text in texts)
    json.dumps(retrieval_story.grids(result, words), allow_nan=False)
    head, rows = retrieval_story.table(result, words)
    assert all(len(row) == len(head) for row in rows)


def test_the_example_is_shown_as_text():
    found = retrieval_story.example(small.retrieval(), EN)
    assert "<mark>NOTE harbor lion</mark>" in found and "<b>lion</b>" in found and "<script>" not in found and "<b>that" not in found


@LANGUAGES
def test_every_method_has_a_name_and_looks_of_its_own(words):
    assert all(not methods.title(method, words).startswith("method.") for method in methods.ORDER)
    assert len({methods.style(method) for method in methods.ORDER}) == len(methods.ORDER)


# ---------------------------------------------------------------- the page, as Streamlit runs it


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_runs_in_the_address(lang):
    """Three runs on one page: each in its place, perplexity beside needles from the two that belong together."""
    address = {"lengths": stored(small.lengths(), "lengths"), "retrieval": stored(small.retrieval(), "retrieval"), "pretrained": stored(ODD_LENGTHS["plain alone"], "plain")}
    found = complete(lesson(part="lengths", lang=lang, **address))
    assert found.count("lab-badge-measured") == 2 and found.count("rl-table") == 2 and found.count("lab-headline") == 2
    found = complete(lesson(part="retrieval", lang=lang, **address))
    assert found.count("lab-badge-measured") == 3 and "rb-guess" in found and "<mark>" in found


@pytest.mark.parametrize("name", ["no length in range", "beyond all bounds"])
def test_an_odd_run_of_lengths_in_the_address(name):
    assert "lab-headline" in complete(lesson(part="lengths", lengths=stored(ODD_LENGTHS[name], name), lang="ko"))


@pytest.mark.parametrize("name", ["no trials", "no cells"])
def test_an_odd_run_of_needles_in_the_address(name):
    assert "lab-headline" in complete(lesson(part="retrieval", retrieval=stored(ODD_NEEDLES[name], f"needles {name}"), lang="en"))


@pytest.mark.parametrize("value", ["../../etc/passwd", "<script>alert(1)</script>"], ids=["path", "script"])
@pytest.mark.parametrize("slot", ["lengths", "pretrained", "retrieval"])
def test_an_address_nobody_gave_out(slot, value):
    assert "lab-notice-info" in complete(lesson(part="retrieval" if slot == "retrieval" else "lengths", **{slot: value}))


@pytest.mark.parametrize(("slot", "other"), [("lengths", small.retrieval()), ("pretrained", small.retrieval()), ("retrieval", small.lengths())], ids=["lengths", "pretrained", "retrieval"])
def test_a_run_of_another_kind_in_the_address(slot, other):
    assert "lab-notice-info" in complete(lesson(part="retrieval" if slot == "retrieval" else "lengths", **{slot: stored(other, f"other-{slot}")}))


REFUSED = "These numbers do not work"
NUMBERS = [("lengths", name) for name in ("samples", "seeds", "factor", "sinks", "seed")]
NUMBERS += [("retrieval", name) for name in ("trials", "factor", "sinks", "seed")]


@pytest.mark.parametrize(("part", "field"), NUMBERS, ids=lambda v: v)
def test_a_number_that_may_not_work(part, field):
    app = lesson(part=part, lang="en")
    fine = app.number_input(key=f"{part}-{field}").value
    for value in (-1, 10**12):
        app.number_input(key=f"{part}-{field}").set_value(value).run()
        assert REFUSED in complete(app), value
    app.number_input(key=f"{part}-{field}").set_value(fine).run()
    assert REFUSED not in complete(app)


@pytest.mark.parametrize(("part", "field"), [("lengths", "methods"), ("lengths", "lengths"), ("retrieval", "depths")], ids=lambda v: v)
def test_an_emptied_list_is_refused_in_words(part, field):
    app = lesson(part=part, lang="en")
    app.multiselect(key=f"{part}-{field}").set_value([]).run()
    assert REFUSED in complete(app)
