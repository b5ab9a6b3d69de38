"""The timeline component by itself, on a small page: it draws, plays, zooms, tells, follows a live run, and fails politely."""

from __future__ import annotations

import random
import re

import pytest

from pages._ui import fmt, payload
from pages._ui.timeline import spoken
from pages._ui.words import Words
from tests.browser.checks import wide
from tests.browser.harness import Harness
from tests.pages import partial, small

@pytest.fixture(scope="module")
def harness():
    made = Harness("timeline")
    yield made
    made.close()


@pytest.fixture
def opened(browser, harness):
    """opened(answers, ...) shows the component; at the end the console must have been silent."""
    contexts, complaints = [], []

    def new(answers: list, *, width=1280, height=900, live=False, compact=False, lang="en", failing=False, **options):
        data = {"src": "./data", "alt": "Three lanes.", "words": spoken(Words(lang)), "live": live, "compact": compact}
        harness.mount(data, lang=lang)
        harness.answers["/data"] = answers
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" and not failing else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(harness.address)
        if not failing:
            page.wait_for_selector(".tl-canvas")
            page.wait_for_function(
                "document.querySelector('.tl-head')?.style.top && document.querySelector('.tl').labStats.span"
            )
        return page

    yield new
    for context in contexts:
        context.close()
    assert not complaints


def with_pieces() -> dict:
    """The small result, and a text that came in pieces: one a token, the first of them trying to be HTML."""
    result = small.result()
    result["texts"] = {"chat-0": {"prompt": "Tell me of Noah"}}
    for request, n in (("chat-0", 30), ("chat-1", 30), ("long-0", 2)):
        words = ["<img src=x onerror=alert(1)>"] + [f" w{i}" for i in range(1, n)]
        result["pieces"] = (result.get("pieces") or {}) | {
            request: {"unified": words, "chunked": None, "disaggregated": None}
        }
    return result


def stats(page) -> dict:
    return page.evaluate("document.querySelector('.tl').labStats")


def seek(page, t: float) -> None:
    page.locator(".tl-scrub").evaluate("(range, t) => { range.value = t; range.dispatchEvent(new Event('input')) }", t)
    page.wait_for_function("t => Math.abs(document.querySelector('.tl').labStats.at - t) < 0.002", arg=t)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def colours(page, x0: float, y0: float, x1: float, y1: float, canvas: int = 0) -> list[int]:
    """How often each colour is in a part of the picture, the most frequent first."""
    return page.evaluate(
        """([x0, y0, x1, y1, n]) => {
            const canvas = document.querySelectorAll('.tl-canvas')[n], found = {};
            const { data } = canvas.getContext('2d').getImageData(x0, y0, x1 - x0, y1 - y0);
            for (let i = 0; i < data.length; i += 4) {
              const key = [data[i], data[i + 1], data[i + 2]].join();
              found[key] = (found[key] ?? 0) + 1;
            }
            return Object.entries(found).sort((a, b) => b[1] - a[1]);
        }""",
        [round(v) for v in (x0, y0, x1, y1)] + [canvas],
    )


def lane_tops(page) -> list[float]:
    return page.evaluate("[...document.querySelectorAll('.tl-head')].map((head) => parseFloat(head.style.top))")


def text_of(page, lane: int, role: str) -> str:
    return page.locator(".tl-card").nth(lane).locator(f".tl-{role} p").inner_text()


def test_every_lane_is_drawn_in_both_themes_and_follows_a_switch(opened):
    """Blank lanes, or colours that stay those of the day after the theme was switched."""
    page = opened([payload.timeline(small.result())], color_scheme="light")
    seen = {}
    for scheme in ("light", "dark"):
        # As Streamlit's own switch does it; the browser's wish stays light.
        page.evaluate("scheme => { document.documentElement.style.colorScheme = scheme }", scheme)
        page.wait_for_timeout(250)
        seen[scheme] = [colours(page, 200, top + 36, 1200, top + 96) for top in lane_tops(page)]
        assert len(seen[scheme]) == 3
        for lane in seen[scheme]:
            assert len(lane) > 8 and lane[0][1] < 0.9 * 1000 * 60  # several colours, none of them nearly everywhere
    assert all(light[0][0] != dark[0][0] for light, dark in zip(seen["light"], seen["dark"]))
    label = page.get_by_role("img", name="Three lanes.")
    assert label.count() == 1
    assert page.locator(".tl-gap b").all_inner_texts() == ["1.10 s", "300 ms", "100 ms"]


def test_play_pause_speed_step_and_scrub(opened):
    page = opened([payload.timeline(small.result())])
    assert stats(page)["at"] is None
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("document.querySelector('.tl').labStats.at > 0.2")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("status").filter(has_text="Paused").wait_for(state="attached")
    stopped = stats(page)["at"]
    page.wait_for_timeout(150)
    assert stats(page)["at"] == stopped
    seek(page, 1.0)
    for name, at in (("One step forward", 1.1), ("One step forward", 1.2), ("One step back", 1.1)):
        page.get_by_role("button", name=name).click()
        page.wait_for_function("t => Math.abs(document.querySelector('.tl').labStats.at - t) < 0.0002", arg=at)
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    assert stats(page)["at"] == pytest.approx(1.2)
    page.keyboard.press("Shift+ArrowLeft")
    assert stats(page)["at"] == pytest.approx(0.2)
    page.get_by_role("button", name="Show the whole result").click()
    assert stats(page)["at"] is None
    seek(page, 1.0)
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.tl').labStats.at === null")  # all of it is seen: at rest
    # Four times as fast gets four times as far; the run's clock is measured against the frames it was played in.
    page.get_by_label("Speed").select_option("4")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("document.querySelector('.tl').labStats.at > 1")
    page.get_by_role("button", name="Pause").click()
    played = stats(page)
    assert played["at"] == pytest.approx(4 * played["seconds"], rel=0.1)


def test_keys_on_the_picture_work_and_those_of_other_parts_are_left_alone(opened):
    page = opened([payload.timeline(small.result())], reduced_motion="reduce")
    whole = stats(page)["span"]
    page.get_by_role("img").focus()
    page.keyboard.press("+")
    zoomed = stats(page)["span"]
    assert zoomed[1] - zoomed[0] < 0.7 * (whole[1] - whole[0])
    page.keyboard.press("Shift+ArrowRight")
    assert stats(page)["span"][0] > zoomed[0]
    page.keyboard.press("0")
    assert stats(page)["span"] == pytest.approx(whole)
    page.keyboard.press("ArrowRight")
    assert stats(page)["at"] is not None
    page.keyboard.press("Space")
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Space")  # once for the button, and not once more for the picture
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_role("button", name="Zoom in").click()
    before = stats(page)
    page.get_by_label("Speed").focus()
    page.keyboard.press("0")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert stats(page)["span"] == before["span"] and stats(page)["at"] == before["at"]


def test_drag_and_wheel_zoom_double_click_resets_and_the_page_still_scrolls(opened):
    page = opened([payload.timeline(small.result())], height=500, reduced_motion="reduce")
    whole = stats(page)["span"]
    box = page.locator(".tl-canvas").first.bounding_box()
    x, y = box["x"] + 500, box["y"] + 60
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 200, y, steps=4)
    page.mouse.up()
    zoomed = stats(page)["span"]
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) * 200 / (box["width"] - 190 - 12), rel=0.02)
    page.mouse.dblclick(x, y)
    assert stats(page)["span"] == pytest.approx(whole)
    page.mouse.wheel(0, 200)
    page.wait_for_function("scrollY > 100")
    assert stats(page)["span"] == pytest.approx(whole)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function(
        "whole => { const [a, b] = document.querySelector('.tl').labStats.span; return b - a < whole * 0.9 }",
        arg=whole[1] - whole[0],
    )


def test_the_two_spans_and_a_zoom_that_moves(opened):
    """The buttons show which span is seen; without a wish for stillness the way there takes several frames."""
    sent = payload.timeline(small.result())
    page = opened([sent])
    for name in ("Whole run", "Around the long prompt"):
        page.get_by_role("button", name=name).click()
        page.locator(".tl-choice[aria-pressed=true]", has_text=name).wait_for()
    length = 1e-5 * (sent["focus"][1] - sent["focus"][0])
    page.wait_for_function(
        "n => { const [a, b] = document.querySelector('.tl').labStats.span; return Math.abs(b - a - n) < 1e-6 }",
        arg=length,
    )
    lengths = page.evaluate(
        """() => new Promise((done) => {
            const seen = new Set(), end = performance.now() + 600;
            document.querySelector('[aria-label="Zoom in"]').click();
            const look = () => {
              const [a, b] = document.querySelector('.tl').labStats.span;
              seen.add(b - a);
              performance.now() < end ? requestAnimationFrame(look) : done([...seen]);
            };
            look();
        })"""
    )
    assert len(lengths) > 3 and lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == pytest.approx(length / 1.6)
    assert page.locator(".tl-choice[aria-pressed=true]").count() == 0


def test_the_tooltip_tells_the_steps_facts(opened):
    page = opened([payload.timeline(small.result())])
    box = page.locator(".tl-canvas").first.bounding_box()
    span = stats(page)["span"]
    x = box["x"] + 190 + (1.0 - span[0]) / (span[1] - span[0]) * (box["width"] - 202)
    tops = lane_tops(page)
    page.mouse.move(x, box["y"] + tops[0] + 34 + 10)
    tip = page.locator(".tl-tip").first
    assert (
        re.sub(r"\s+", " ", tip.inner_text())
        == "Prefill from 0.500 s, for 1.00 s prompt tokens 100 · decodes 0 worker engine-0"
    )
    page.mouse.move(x, box["y"] + tops[0] + 34 + 30 + 14)
    assert "Stall" in tip.inner_text()
    page.mouse.move(x, box["y"] + tops[1] + 34 + 30 + 14)
    assert "Decode beside a chunk" in tip.inner_text() and "decodes 2" in tip.inner_text()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    assert not tip.is_visible()


def test_texts_appear_as_they_came_and_a_stall_is_felt(opened):
    """Text that runs ahead of its tokens, a stall that leaves no trace, or model output taken for HTML."""
    page = opened([payload.timeline(with_pieces())])
    assert "<img src=x onerror=alert(1)> w1" in text_of(page, 0, "chat").replace("\xa0", " ")
    assert page.locator(".tl-card img").count() == 0
    pills = page.locator(".tl-card").first.locator(".tl-chat .tl-pill:not(.tl-plain):not(.tl-waiting)")
    assert pills.all_inner_texts() == ["1.10 s"]
    seek(page, 0.35)
    assert text_of(page, 0, "chat").endswith("w2") and "w3" not in text_of(page, 0, "chat")
    assert "arrives at 0.50 s" in text_of(page, 0, "long")
    seek(page, 1.25)
    assert re.search(r"w4\s*waiting 0.8 s$", text_of(page, 0, "chat"))
    assert "waiting for the first token, 0.8 s" in text_of(page, 0, "long")
    assert re.search(r"w9|w10", text_of(page, 2, "chat")) and "waiting" not in text_of(page, 2, "chat")
    seek(page, 2.0)
    assert re.search(r"w4\s*1.10 s\s*w5", text_of(page, 0, "chat"))
    # Another chat, by its row in the picture below.
    rows = page.locator(".tl-canvas").nth(1)
    rows.scroll_into_view_if_needed()
    box = rows.bounding_box()
    page.mouse.click(box["x"] + 600, box["y"] + 28 + 16 + 11 + 5)
    page.wait_for_function("document.querySelector('.tl-pickers select').value === 'chat-1'")


def test_a_text_without_pieces_is_shown_whole_and_says_so(opened):
    result = small.result()
    result["texts"] = {
        "chat-0": {
            "prompt": "p",
            "unified": "All of it",
            "chunked": "All",
            "disaggregated": "All",
            "tokens_after_end": {},
        }
    }
    page = opened([payload.timeline(result)])
    page.get_by_text("did not note when each part").first.wait_for()
    seek(page, 0.2)
    assert "All of it" in text_of(page, 0, "chat")


def test_six_thousand_bars_play_at_thirty_frames(opened):
    """A frame must not draw bars: only copy what was drawn."""
    sent = payload.timeline(small.result())
    chance = random.Random(1)
    for lane in sent["lanes"]:
        lane["ends"] = [900] * 2000
        lane["end"] = 2000 * 900
        for row in lane["rows"]:
            row.update(tokens=[0, 2000], stalls=[])
        decode = lane["tracks"][-1]
        decode.update(
            c="2" * 2000,
            gap=[3] * 2000,
            long=[chance.randint(500, 1300) for _ in range(2000)],
            prefill=[],
            decode=[2] * 2000,
        )
    sent["span"], sent["focus"] = [0, 1_820_000], None
    page = opened([sent])
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("document.querySelector('.tl').labStats.seconds > 2")
    played = stats(page)
    assert played["frames"] / played["seconds"] >= 30


def test_a_payload_that_cannot_be_fetched_is_said_and_tried_again(opened):
    page = opened([None, payload.timeline(small.result())], failing=True)
    page.get_by_text("could not be loaded").wait_for()
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".tl-canvas")


def test_a_live_run_grows_and_stops_asking_when_it_is_over(opened, harness):
    """The picture must not run ahead of what is known, lanes still to come stand empty, and the end is the end."""
    result = with_pieces()
    result["manifest"]["scenario"]["schedules"] = ["unified", "chunked", "disaggregated"]

    def news(state="running", **known):
        return payload.timeline(partial.cut(result, known)) | {"live": True, "state": state, "version": 1}

    answers = [news(unified=0.9), None, news(unified=None, chunked=1.0), news("done", chunked=None, disaggregated=None)]
    page = opened(answers, live=True, failing=True)
    page.wait_for_selector(".tl-card")
    assert page.locator(".tl-head").count() == 3
    early = text_of(page, 0, "chat")
    assert "w5" not in early
    page.wait_for_function("document.querySelector('.tl').labStats.at > 0.5")
    assert stats(page)["at"] <= 0.9 + 1e-6
    page.get_by_text("does not answer").wait_for(timeout=5000)
    page.wait_for_timeout(900)
    assert stats(page)["at"] == pytest.approx(0.9)  # the clock goes on, what is known does not
    page.wait_for_function("document.querySelectorAll('.tl-card')[0].innerText.includes('w29')", timeout=8000)
    page.wait_for_function("document.querySelectorAll('.tl-card')[2].innerText.includes('w29')", timeout=8000)
    assert any("have=unified" in asked for asked in harness.asked)
    asked = len(harness.asked)
    page.wait_for_timeout(1300)
    assert len(harness.asked) == asked


def test_a_phone_in_korean_has_everything_within_its_width(opened):
    page = opened(
        [payload.timeline(with_pieces())],
        width=390,
        height=844,
        lang="ko",
        is_mobile=True,
        has_touch=True,
        device_scale_factor=2,
    )
    assert not wide(page)
    page.get_by_role("button", name="재생").click()
    page.wait_for_function("document.querySelector('.tl').labStats.at > 0.1")
    box = page.locator(".tl-canvas").first.bounding_box()
    page.touchscreen.tap(box["x"] + 200, box["y"] + 46 + 34 + 10)
    page.locator(".tl-tip").first.wait_for(state="visible")
    assert "프리필(prefill)" in page.locator(".tl-tip").first.inner_text()


def test_play_brings_all_lanes_into_sight(opened):
    """On a projector the third lane lies below the edge; nobody should have to scroll in the middle of a sentence."""
    page = opened([payload.timeline(small.result())], height=680, reduced_motion="reduce")
    page.evaluate("document.getElementById('place').style.paddingTop = '400px'")
    assert page.evaluate("document.querySelector('.tl-sheet').getBoundingClientRect().bottom > innerHeight")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").wait_for()
    assert page.evaluate("document.querySelector('.tl-sheet').getBoundingClientRect().bottom <= innerHeight")


def test_numbers_read_as_on_the_rest_of_the_page(opened):
    """Two formatters for one page: they must not say "120.0 s" here and "120 s" there."""
    page = opened([payload.timeline(small.result())])
    values = [0, 4e-6, 0.0004, 0.0006, 0.0099, 0.00996, 0.42, 0.9994, 0.9996, 1, 9.994, 9.996, 42.06, 99.94, 99.96, 120, 1234.4]
    sizes = [0, 12, 999, 1000, 46_080, 999_400, 999_600, 121e6, 1.07e9, 2.5e12]
    found = page.evaluate(
        "async ([s, b]) => { const n = await import('/static/js/shared/numbers.js'); return [s.map(n.seconds), b.map(n.bytes)]; }",
        [values, sizes],
    )
    assert found == [[fmt.seconds(v) for v in values], [fmt.bytes_(v) for v in sizes]]


def test_taken_from_the_page_it_stops(opened):
    """Frames and questions that go on after the component is gone."""
    page = opened([payload.timeline(small.result())])
    page.get_by_role("button", name="Play").click()
    page.evaluate("window.clean()")
    assert page.locator(".tl").count() == 0
    frames = page.evaluate(
        """() => new Promise((done) => {
            let n = 0;
            const asked = window.requestAnimationFrame;
            window.requestAnimationFrame = (f) => { n += 1; return asked(f); };
            setTimeout(() => done(n), 200);
        })"""
    )
    assert frames == 0
