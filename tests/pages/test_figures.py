"""The figure as a plain dict: valid for Plotly, one trace per category and block, small, and without a colour array."""

import base64
import json
from array import array

import pytest

from pages._ui import lanes
from pages._ui.figures import timeline
from pages._ui.palette import CATEGORIES, palette
from pages._ui.words import Words
from tests.pages import small


def figure(mode="light", lang="en", **options):
    return timeline(lanes.view(small.result()), Words(lang), palette(mode), **options)


def floats(packed):
    return list(array("f", base64.b64decode(packed["bdata"])))


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("lang", ["ko", "en"])
def test_plotly_accepts_it_in_every_language_and_theme(mode, lang):
    import plotly.graph_objects as go

    go.Figure(**figure(mode, lang))


def test_one_bar_trace_per_category_and_block_never_shapes_per_step():
    drawn = figure()
    bars = [(t["name"], t["xaxis"]) for t in drawn["data"] if t["type"] == "bar"]
    assert len(bars) == len(set(bars)) <= 2 * len(CATEGORIES)
    assert len(drawn["layout"]["shapes"]) < 10
    assert all(isinstance(t["marker"]["color"], str) for t in drawn["data"] if t["type"] == "bar")


def test_bars_begin_and_last_as_measured():
    stall = next(t for t in figure()["data"] if t["type"] == "bar" and t["name"] == "Stall" and t["xaxis"] == "x")
    assert floats(stall["base"]) == pytest.approx([0.5]) and floats(stall["x"]) == pytest.approx([1.0])


def test_every_token_of_every_request_is_a_tick():
    ticks = next(t for t in figure()["data"] if t.get("mode") == "markers")
    assert len(floats(ticks["x"])) == 3 * (30 + 30 + 2)


def test_categories_differ_by_pattern_as_well():
    for mode in ("light", "dark"):
        shapes = [palette(mode).categories[c].shape for c in CATEGORIES]
        assert len(set(shapes)) == len(shapes)


def test_all_time_axes_zoom_together_and_begin_where_asked():
    view = lanes.view(small.result())
    layout = timeline(lanes.clip(view, view.focus), Words("en"), palette("light"))["layout"]
    axes = [layout[name] for name in layout if name.startswith("xaxis")]
    assert [a.get("matches") for a in axes] == [None, "x", "x", "x", "x"]
    assert layout["xaxis"]["range"] == list(view.focus)
    assert figure()["layout"]["xaxis"]["range"][0] == 0


def test_compact_has_the_lanes_only():
    drawn = figure(compact=True)
    assert {t["type"] for t in drawn["data"]} == {"bar"} and {t["xaxis"] for t in drawn["data"]} == {"x"}


def test_a_phone_can_scroll_past_it():
    assert figure(touch=True)["layout"]["dragmode"] is False


def test_many_requests_are_cut_and_that_is_said():
    result = small.result()
    for entry in result["schedules"].values():
        entry["trace"]["requests"] += [{**entry["trace"]["requests"][0], "id": f"more-{i}"} for i in range(60)]
    drawn = timeline(lanes.view(result), Words("en"), palette("light"))
    assert any("first 32 of 63" in a["text"] for a in drawn["layout"]["annotations"])
    assert drawn["layout"]["height"] < 2500


def test_a_long_run_stays_small():
    """Ten chats of 320 tokens under three schedules: about 10,000 ticks and 1,000 bars in far less than 150 kB."""
    result = small.result()
    for entry in result["schedules"].values():
        trace = entry["trace"]
        chat = trace["requests"][0]
        trace["requests"] += [
            {**chat, "id": f"more-{i}", "token_s": [0.1 + 0.05 * k for k in range(320)]} for i in range(10)
        ]
        step = trace["steps"][1]
        trace["steps"] += [{**step, "begin_s": 3 + 0.05 * k, "end_s": 3.04 + 0.05 * k} for k in range(320)]
    drawn = timeline(lanes.view(result), Words("ko"), palette("light"))
    assert len(json.dumps(drawn)) < 150_000
