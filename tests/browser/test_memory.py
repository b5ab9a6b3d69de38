"""The memory wall in a real browser: its formulas equal Python's, it follows a dragged slider, and what is chosen is kept."""

from __future__ import annotations

from statistics import median

import pytest

from engine import profiles
from engine.formulas import memory
from engine.formulas.kv import KV_DTYPES, kv_bytes, state_bytes
from pages._ui import fmt
from pages.memory import calculator
from tests.browser.checks import wide
from tests.browser.harness import Harness

LENGTHS = (1, 31, 32, 33, 127, 4095, 4096, 4097, 131_072, 1_000_003)
ROOMS = (-5, 0, 10**6, 60_000_000_000, 10**13)
BATCHES = (1, 3, 64)


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


def test_the_formulas_of_the_slider_are_those_of_the_engine(blank):
    """Twice written is twice wrong sooner or later: every model, every format, over a grid of lengths, rooms and requests."""
    models = list(profiles.models().values())
    data = {
        "groups": [calculator.groups_as_data(model.groups) for model in models],
        "weights": [calculator._weights(_choice(model)) for model in models],
        "dtypes": KV_DTYPES,
        "lengths": LENGTHS,
        "rooms": ROOMS,
        "batches": BATCHES,
    }
    theirs = blank.evaluate(
        """async (d) => {
          const kv = await import("/static/js/memory/kv.js");
          return d.groups.map((g, i) => ({
            bytes: d.dtypes.map((t) => d.lengths.map((n) => { const f = kv.kvBytes(g, n, t); return [f.payload, f.scales, kv.stateBytes(g, t)]; })),
            longest: d.dtypes.map((t) => d.rooms.map((r) => d.batches.map((b) => kv.longestContext(g, t, r, b)))),
            fit: d.lengths.map((n) => d.rooms.map((r) => kv.requestsThatFit(r, kv.requestBytes(g, n, "bf16")))),
            read: d.weights[i] && d.batches.map((b) => kv.weightBytesRead(d.weights[i], b)),
          }));
        }""",
        data,
    )
    for model, found in zip(models, theirs, strict=True):
        groups = model.groups
        kept = [[(kv_bytes(groups, n, t), state_bytes(groups, t)) for n in LENGTHS] for t in KV_DTYPES]
        assert found["bytes"] == [[[one.payload, one.scales, state] for one, state in row] for row in kept], model.name
        longest = [[[memory.longest_context(groups, t, room, b) for b in BATCHES] for room in ROOMS] for t in KV_DTYPES]
        assert found["longest"] == longest, model.name
        fit = [[memory.requests_that_fit(room, memory.request_bytes(groups, n, "bf16")) for room in ROOMS] for n in LENGTHS]
        assert found["fit"] == fit, model.name
        assert found["read"] == pytest.approx([model.weight_bytes_read(b) for b in BATCHES], rel=1e-9), model.name


def _choice(model) -> calculator.Choice:
    return calculator.Choice(model, profiles.device("h100-sxm"), 1, "bf16", "bf16", 0.1, 1000, 1)


def test_numbers_read_the_same_in_both(blank):
    values = [0, 5, 1023, 1024, 2**20 * 1.5, 2**30 * 15.625, 2**30 * 1234.5, 2**40]
    script = "async (v) => {{ const n = await import('/static/js/shared/numbers.js'); return v.map(n.{}); }}"
    assert blank.evaluate(script.format("binaryBytes"), values) == [fmt.binary_bytes(value) for value in values]
    halves = [2_125_000_000, 16_250, 1_345_000]
    assert blank.evaluate(script.format("bytes"), halves) == [fmt.bytes_(value) for value in halves]
    rates = [0.04, 3.25, 9.94, 151.9, 62_345.6]
    assert blank.evaluate(script.format("rate"), rates) == [fmt.rate(value) for value in rates]


def test_the_picture_follows_the_slider_without_the_server(visit):
    """A page that asked the server for every step of a drag would stutter, and a class would stop it altogether."""
    watched = visit()
    sent: list[int] = []
    watched.page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sent.append(len(frame))))
    page = watched.open("/memory?model=llama-3.1-8b&length=32768&batch=8")
    said = page.locator(".mw .lab-said")
    said.wait_for()
    assert "All 8 requests of 32,768 tokens fit" in said.inner_text()
    page.wait_for_timeout(500)
    sent.clear()
    slider = page.get_by_role("slider", name="Tokens in each request")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2, steps=8)
    assert "fit" in said.inner_text() and "32,768" not in said.inner_text(), "it moved while it was held"
    assert not sent, "and nobody was asked"
    page.mouse.up()
    page.wait_for_url("**length=*")
    watched.settle()
    watched.until("!location.search.includes('length=32768')")
    page.wait_for_timeout(300)
    assert 0 < sum(sent) < 60_000, "what an update costs in bytes"
    # From the input to the new picture; the bar is far above what it takes.
    waits = page.evaluate(
        """async () => {
          const slider = document.querySelector("#mw-length"), waits = [];
          for (let i = 0; i < 15; i++) {
            const begin = performance.now();
            slider.value = String(10 + i);
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 0)));
            waits.push(performance.now() - begin);
          }
          return waits;
        }"""
    )
    assert median(waits) < 120


def test_what_is_chosen_is_found_again(visit):
    watched = visit(locale="ko-KR")
    page = watched.open("/memory?model=llama-2-7b&device=h100-sxm")
    watched.see("KV 헤드 32개")
    slider = page.get_by_role("slider", name="동시 요청 수")
    slider.focus()
    page.keyboard.press("End")
    watched.until("location.search.includes('batch=1024')")
    page.reload()
    watched.settle()
    watched.see("동시에 1,024개, 모두")
    page.get_by_role("radio", name="English").click()
    watched.see("32 KV heads")
    assert "batch=1024" in page.url and "model=llama-2-7b" in page.url


def test_decode_is_never_said_to_be_quicker_than_the_arithmetic(visit):
    """With short requests bandwidth alone would allow more tokens per second than the matrices can compute."""
    watched = visit()
    watched.open("/memory?model=llama-3.1-8b&device=h100-sxm&length=256&batch=1024")
    watched.see("Decode at most, 1,024 at once")
    most = profiles.device("h100-sxm").bf16_flops_per_s / (2 * profiles.model("llama-3.1-8b").parameters)
    watched.see(fmt.rate(most))


def test_a_config_is_pasted_and_a_broken_one_is_told(visit):
    watched = visit()
    page = watched.open("/memory")
    page.get_by_role("button", name="Your own model").click()
    area = page.get_by_label("config.json").first
    area.fill('{"model_type": "llama"')
    page.get_by_role("button", name="Use this model").click()
    watched.see("This configuration cannot be used")
    area.fill(
        '{"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 5632,'
        ' "num_hidden_layers": 22, "vocab_size": 32000, "max_position_embeddings": 2048, "tie_word_embeddings": false}'
    )
    page.get_by_role("button", name="Use this model").click()
    watched.see("22 layers × 2 (K and V) × 4 KV heads × 64")
    assert "model=" not in page.url


def test_on_a_phone_nothing_hangs_out(visit):
    watched = visit(width=390, height=800)
    page = watched.open("/memory")
    page.locator(".mw-stack").wait_for()
    assert not wide(page)
    assert page.locator(".mw-stack").bounding_box()["width"] <= 390
