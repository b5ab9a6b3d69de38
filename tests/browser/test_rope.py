"""The clock hands in a real browser: their formulas are Python's, they follow what is moved, and both languages tell it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from engine.formulas import rope
from pages.rope import heads
from tests.browser.checks import wide
from tests.browser.harness import Harness

SHAPES = ((4, 10_000.0, 16), (32, 10_000.0, 128), (64, 100_000.0, 8192), (128, 500_000.0, 8192), (80, 10_000.0, 2048))
FACTORS = (1.0, 1.5, 2.0, 4.0, 16.0, 40.0)
TIMES = (0, 0.5, 1, 3, 16)


@pytest.fixture(scope="module")
def blank(browser):
    """A page that can import our modules."""
    harness = Harness("plot")
    harness.mount({"spec": {"height": 100, "x": {"ticks": [], "range": [0, 1]}, "y": {"ticks": [], "range": [0, 1]}}, "alt": "", "picked": None})
    page = browser.new_page()
    page.goto(harness.address)
    yield page
    page.close()
    harness.close()


def test_the_formulas_of_the_hands_are_those_of_the_engine(blank):
    """Twice written is twice wrong sooner or later: every method, both ramps, over a grid of heads, factors and lengths."""
    grid = list(product(SHAPES, rope.METHODS, FACTORS, rope.RAMPS, TIMES))
    theirs = blank.evaluate(
        """async (grid) => {
          const r = await import("/static/js/rope/rope.js");
          return grid.map(([[d, base, trained], method, s, ramp, times]) => {
            const scaling = r.scalingFor(method, s, trained, ramp);
            const found = r.turning(scaling, d, base, times ? times * trained : null);
            return [...found.frequencies, found.attention_factor, ...(scaling ? r.kept(scaling, d, base) ?? [] : [])];
          });
        }""",
        grid,
    )
    for case, found in zip(grid, theirs, strict=True):
        (d, base, trained), method, s, ramp, times = case
        scaling = rope.scaling_for(method, s, trained, ramp=ramp)
        turning = rope.turning(scaling, d, base, times * trained if times else None)
        bands = rope.kept(scaling, d, base) if scaling and method in ("by-parts", "yarn", "llama3") else []
        np.testing.assert_allclose(found, [*turning.frequencies, turning.attention_factor, *bands], rtol=1e-12, atol=1e-12, err_msg=str(case))


@pytest.mark.parametrize("head", heads.HEADS, ids=lambda head: head.name)
def test_a_hand_is_outside_exactly_where_its_angle_never_came_up(blank, head):
    """A hand called "seen" that is not (or the other way round) would teach the opposite of the lesson."""
    positions = [0, head.trained - 1, head.trained, 2 * head.trained, 5 * head.trained + 7, 16 * head.trained]
    cases = [{"method": m, "factor": s, "ramp": "dimensions", "position": p} for m in rope.METHODS for s in (2, 8) for p in positions]
    data = {"head": {"head_dim": head.head_dim, "base": head.base, "trained": head.trained}, "cases": cases}
    theirs = blank.evaluate(
        """async ({ head, cases }) => {
          const { picture } = await import("/static/js/clock/hands.js");
          return cases.map((c) => picture(head, c).hands.map((hand) => hand.inside));
        }""",
        data,
    )
    plain = rope.frequencies(head.head_dim, head.base)
    for case, found in zip(cases, theirs, strict=True):
        scaling = rope.scaling_for(case["method"], case["factor"], head.trained)
        now = rope.turning(scaling, head.head_dim, head.base, case["position"] + 1).frequencies
        angles, turned = np.mod(case["position"] * now, 2 * math.pi), head.trained * plain >= 2 * math.pi
        expected = turned | (angles <= (head.trained - 1) * plain + 1e-9)
        assert found == expected.tolist(), case
        inside = case["position"] < head.trained * case["factor"] and case["method"] in ("linear", "by-parts", "yarn")
        assert not inside or case["position"] > (head.trained - 1) * case["factor"] or all(found), "what these methods promise"


def test_the_hands_follow_the_slider_and_the_method(visit):
    """Dragging must not wait for the server, and what is chosen must outlive a change of language."""
    watched = visit()
    page = watched.open("/rope")
    said = page.locator(".rc .lab-headline")
    said.wait_for()
    assert "every hand stands at an angle" in said.inner_text()
    sent: list[int] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(len(frame))))
    slider = page.get_by_role("slider", name="Position (distance)")
    slider.evaluate("(box) => { box.value = 256; box.dispatchEvent(new Event('input', { bubbles: true })); }")
    assert "9 of 16 hands" in said.inner_text(), "at once, without the server"
    assert page.locator(".rc-face.rc-outside").count() == 9
    assert page.locator(".rc-face.rc-outside small", has_text="new angle").count() == 9, "not by colour alone"
    page.get_by_label("Method", exact=True).select_option("linear")
    assert "every hand" in said.inner_text()
    watched.see("14.3° (was 57.3°)")
    page.get_by_label("Method", exact=True).select_option("yarn")
    watched.see("57.3° a token")
    page.get_by_label("Ramp", exact=True).select_option("rotations")
    watched.see("no pair stays untouched")
    page.get_by_label("Head of", exact=True).select_option(heads.PRETRAINED.name)
    assert page.locator(".rc-face").count() == 32
    page.get_by_role("radio", name="한국어").click()
    watched.see("16,384 = 훈련 길이의 2배")
    assert page.get_by_label("방법", exact=True).input_value() == "yarn"


def test_play_turns_the_hands_and_pause_stops_them(visit):
    watched = visit(locale="ko-KR", width=390, height=800)
    page = watched.open("/rope")
    number = page.get_by_label("위치를 숫자로")
    number.wait_for()
    page.get_by_role("button", name="재생").click()
    watched.until("Number(document.querySelector('.rc-where input[type=number]').value) > 129")
    page.get_by_role("button", name="멈춤").click()
    stopped = number.input_value()
    page.wait_for_timeout(500)
    assert number.input_value() == stopped
    assert not wide(page), "on a phone nothing hangs out"


def test_the_workbench_computes_and_tells_bad_numbers(visit):
    watched = visit(locale="ko-KR")
    page = watched.open("/rope?part=workbench")
    watched.see("82,684.6")
    page.get_by_label("s(몇 배로)").fill("아주 많이")
    page.keyboard.press("Enter")
    watched.see("수로 읽을 수 없습니다")
    page.get_by_label("s(몇 배로)").fill("2")
    page.keyboard.press("Enter")
    watched.see("20,221")
