"""Line charts: every series can be told apart without colour, ticks carry units, labels do not cover each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages._ui import charts, fmt
from pages._ui.palette import DARK, LIGHT

SECONDS = charts.Axis("wait", fmt.seconds, log=True)
COUNT = charts.Axis("chunk", fmt.count, log=True)


def series(n: int, y=(0.1, 0.2, 0.4)) -> list[charts.Series]:
    return [charts.Series(f"line {i}", (1.0, 2.0, 4.0), tuple(v * (1 + i / 1000) for v in y), i) for i in range(n)]


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=lambda p: p.mode)
def test_lines_differ_in_colour_dash_and_marker(colors):
    """In print and for colour-blind readers the colour is not enough."""
    data = charts.lines(series(5), COUNT, SECONDS, colors)["data"]
    for look in (lambda t: t["line"]["color"], lambda t: t["line"]["dash"], lambda t: t["marker"]["symbol"]):
        assert len({look(t) for t in data}) == 5


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("y", [(0.1, 0.2, 0.4), (5.0, 5.0, 5.0)])
def test_end_labels_of_close_lines_are_moved_apart_and_stay_within_the_axis(log, y):
    """In the figure's own pixels: an axis from zero leaves lines that are nearly level no room of their own."""
    figure = charts.lines(series(4, y), COUNT, charts.Axis("wait", fmt.seconds, log=log), LIGHT, height=340)
    labels, layout = figure["layout"]["annotations"], figure["layout"]
    low, high = layout["yaxis"]["range"]
    pixels = (340 - layout["margin"]["t"] - layout["margin"]["b"]) / (high - low)
    places = sorted(a["y"] * pixels + a["yshift"] for a in labels)
    assert all(b - a >= charts.LABEL_PX - 1 for a, b in zip(places, places[1:]))
    assert all(low <= a["y"] <= high for a in labels)


def test_a_phone_gets_a_legend_instead_of_end_labels_and_leaves_dragging_to_the_page():
    layout = charts.lines(series(3), COUNT, SECONDS, LIGHT, touch=True)["layout"]
    assert layout["showlegend"] and not layout["annotations"] and layout["dragmode"] is False


def test_ticks_have_units_and_hover_has_both_numbers():
    figure = charts.lines(series(1), COUNT, SECONDS, LIGHT)
    assert all(text.endswith("s") for text in figure["layout"]["yaxis"]["ticktext"])
    assert figure["data"][0]["text"][0] == "1: <b>100 ms</b>"


def test_a_range_over_repeats_is_drawn_from_the_value():
    s = charts.Series("a", (1.0,), (2.0,), low=(1.5,), high=(3.0,))
    error = charts.lines([s], COUNT, SECONDS, LIGHT)["data"][0]["error_y"]
    assert error["array"] == [1.0] and error["arrayminus"] == [0.5]


def test_a_mark_on_a_log_axis_stands_where_its_value_is():
    """Plotly wants the logarithm for a word and the value for a line."""
    figure = charts.lines(series(1), COUNT, SECONDS, LIGHT, marks=(charts.Mark("here", 100.0),))
    assert figure["layout"]["shapes"][0]["x0"] == 100.0
    assert figure["layout"]["annotations"][0]["x"] == 2.0


@given(st.floats(1e-6, 1e6), st.floats(1.0001, 1e6))
def test_log_ticks_lie_near_the_range(low, factor):
    high = low * factor
    ticks = charts.log_ticks(low, high)
    assert ticks and all(low * 0.79 <= t <= high * 1.26 for t in ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_even_ticks_are_few_and_inside(low, width):
    ticks = charts.even_ticks(low, low + width)
    assert len(ticks) <= 8
    assert all(low - width * 1e-6 <= t <= low + width * (1 + 1e-6) for t in ticks)


@pytest.mark.parametrize("touch", [False, True])
def test_plotly_accepts_the_figure(touch):
    """A misspelt property would only show in a browser's console."""
    import plotly.graph_objects as go

    s = charts.Series("a", (1.0, 2.0), (2.0, 3.0), low=(1.5, 2.5), high=(3.0, 4.0))
    figure = charts.lines([s], COUNT, SECONDS, DARK, touch=touch, marks=(charts.Mark("at", 1.0), charts.Mark("over", 2.0, "y")))
    go.Figure(figure)


def test_nothing_to_draw_is_an_empty_figure_and_no_error():
    assert charts.lines([], COUNT, SECONDS, LIGHT)["data"] == []
