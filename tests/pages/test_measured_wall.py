"""The measured wall on its page: what is said follows the numbers, in both languages, and odd input never breaks it."""

import json
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from engine.experiments.wall_scenario import AMPLE, PAGED, RESERVED, VARIANTS, wall_for
from engine.formulas.admission import first_wave
from engine.service import client
from pages._ui import recordings
from pages._ui.palette import DARK, LIGHT
from pages._ui.words import Words, table
from pages.memory import measured_story as story
from tests.pages import lessons
from tests.pages.lessons import stored

pytestmark = pytest.mark.usefixtures("home")
lesson = partial(lessons.lesson, "memory", part="measured", lang="en")
EN = Words("en", "memory")


def metrics(**changes) -> dict:
    found = {metric.key: 1.0 for metric in story.METRICS} | {"waste_mean": 0.04, "waste_peak": 0.05, "blocks_most": 9, "preemptions": 0}
    return found | changes


def entry(variant: str, **changes) -> dict:
    """Requests of 20, 40 and 30 prompt tokens and 5 output tokens, in blocks of 16."""
    requests = [{"prompt_tokens": n, "output_tokens": 5} for n in (20, 40, 30)]
    used = {"at_s": [1.0, 2.0, 3.0, 4.0], "blocks": [2, 5, 5, 0], "tokens": [20, 60, 61, 0], "running": [1, 2, 2, 0], "waiting": [2, 1, 1, 0]}
    found = metrics(**changes)
    return {"metrics": found, "spread": {name: [value, value] for name, value in found.items()}, "usage": used, "trace": {"requests": requests, "duration_s": 4.0}}


def result(*, repeats=1, pool=6, ample=None, paged=None, reserved=None) -> dict:
    """A small wall: three requests, of which the pool holds two paged and one reserved."""
    numbers = {
        AMPLE: {"running_most": 3, "ttft_p50_s": 1.0, "throughput_tokens_per_s": 100.0} | (ample or {}),
        PAGED: {"running_most": 2, "ttft_p50_s": 2.0, "throughput_tokens_per_s": 80.0, "preemptions": 2, "computed_again_tokens": 70} | (paged or {}),
        RESERVED: {"running_most": 1, "ttft_p50_s": 4.0, "throughput_tokens_per_s": 40.0, "waste_mean": 0.6} | (reserved or {}),
    }
    waves = {AMPLE: (8, 0, 3), PAGED: (pool, 0, 2), RESERVED: (pool, 80, 1)}
    return {
        "kind": "wall",
        "manifest": {"scenario": {"repeats": repeats}},
        "schedules": {variant: entry(variant, **numbers[variant]) for variant in VARIANTS},
        "prediction": {
            variant: {"first_wave": wave, "measured": [wave] * repeats, "blocks": blocks, "block_tokens": 16, "reserve_tokens": reserve}
            for variant, (blocks, reserve, wave) in waves.items()
        },
    }


def said(found: dict) -> list[str]:
    return [key.removeprefix("measured.") for key, _ in story.headline(found)]


def test_the_headline_follows_the_numbers():
    """Change a number, and another sentence comes: a lesson that always says the same teaches nothing."""
    assert said(result()) == ["waste", "waiting", "preempted"]
    assert story.headline(result())[0][1] == {"reserve": "80", "reserved": "60 %", "paged": "4 %", "few": "1", "many": "2"}
    assert said(result(reserved={"waste_mean": 0.08}))[0] == "no_waste"
    assert said(result(reserved={"running_most": 2}))[0] == "waste_only"
    assert said(result(paged={"preemptions": 1}))[2] == "preempted_one"
    assert said(result(paged={"preemptions": 0}))[2] == "nobody_preempted"
    assert said(result(pool=8)) == ["no_wall", "waste"]
    assert said(result(reserved={"tpot_p50_s": 0.5})) == ["waste", "waiting", "each", "preempted"]
    assert "each" not in said(result(reserved={"tpot_p50_s": 1.5})) + said(result(reserved={"tpot_p50_s": 0.99}))


def test_a_price_that_is_lost_in_noise_is_not_claimed():
    """On a busy machine paging may come out slower: then that is what is said."""
    assert said(result(reserved={"throughput_tokens_per_s": 79.0}))[1] == "waiting_partly"
    assert said(result(reserved={"throughput_tokens_per_s": 95.0, "ttft_p50_s": 1.0}))[1] == "waiting_unclear"
    assert said(result(reserved={"throughput_tokens_per_s": 79.0, "ttft_p50_s": 2.01}))[1] == "waiting_unclear"
    wide = result(repeats=3)
    for variant in (PAGED, RESERVED):
        wide["schedules"][variant]["spread"] |= {"ttft_p50_s": [0.5, 9.0], "throughput_tokens_per_s": [10.0, 99.0]}
    assert said(wide)[1] == "waiting_unclear", "ranges over repeats that overlap"


def test_the_sums_are_those_of_the_formula():
    """What is written out must give the number beside it; a prompt of 32 would need a third block for its first decode."""
    paged, reserved, last = story.sums(result())
    assert paged == ("measured.sum_paged", {"n": "2", "sum": "2 + 3", "used": "5", "blocks": "6", "free": "1", "next": "2"})
    assert reserved == ("measured.sum_reserved", {"n": "1", "sum": "5", "used": "5", "blocks": "6", "free": "1", "next": "5"})
    assert last[0] == "measured.exact"
    other = result()
    other["prediction"][PAGED]["measured"] = [2, 3]
    assert story.sums(other)[-1][0] == "measured.inexact"
    assert [row[-1] for row in story.prediction(other, EN)[1]] == ["3", "2, 3", "1"]
    everything = result(pool=20)
    everything["prediction"][PAGED]["first_wave"] = 3
    assert story.sums(everything)[0][0] == "measured.sum_paged_all" and story.sums(everything)[0][1]["used"] == "7"


def test_stairs_hold_until_the_next_value():
    """A slope from one count to the next would show blocks that nobody owned."""
    assert story.stairs([0.0, 1.0, 2.0, 3.0, 5.0], [2, 2, 4, 4, 0]) == ((0.0, 2.0, 2.0, 5.0, 5.0), (2, 2, 4, 4, 0))
    assert story.stairs([0.0, 1.0], [2, 2]) == ((0.0, 1.0), (2, 2)), "the line goes on to the end"
    assert story.stairs([], []) == ((), ())


def test_the_figures():
    """Three lines with the pool across; and for one serving, what is owned above what is in it."""
    used = {variant: found["usage"] for variant, found in result()["schedules"].items()}
    for touch in (False, True):
        figure = story.over_time(used, "blocks", 6, EN, LIGHT, touch)
        assert [line["name"] for line in figure["data"]] == ["Room for all", "Paged", "Reserved"]
        assert len({(line["line"]["color"], line["line"]["dash"]) for line in figure["data"]}) == 3
        assert figure["layout"]["shapes"][0]["y0"] == 6 and max(figure["data"][0]["y"]) == 5
    owned, held = story.slots(result(), RESERVED, EN, DARK, False)["data"]
    assert max(owned["y"]) == 80 and max(held["y"]) == 61
    assert not story.over_time(used, "running", None, EN, LIGHT, False)["layout"]["shapes"]


def test_the_figures_in_words():
    text = story.alt(result(), "blocks", EN)
    assert "has 6" in text and "Reserved: 5 at most, all done after 4.00 s." in text
    assert "60 %" in story.alt_slots(result(), RESERVED, EN)
    head, rows = story.moments(result(), EN)
    assert len(head) == 6 and len(rows) == 3 * story.MOMENTS and rows[0] == ["Room for all", "1.00 s", "2", "20", "1", "2"]
    assert rows[-1] == ["Reserved", "3.00 s", "5", "61", "2", "1"]


def test_what_is_known_of_a_run_that_goes_on():
    step = {"begin_s": 1.0, "end_s": 2.0, "slices": [[0, 0, 20]]}
    trace = {
        "duration_s": 2.0, "steps": [step], "kv": [{"at_s": 1.0, "tokens": 32}], "events": [{"at_s": 1.0, "type": "admitted", "request": 0}],
        "requests": [{"arrival_s": 0.5, "status": "unfinished", "token_s": [2.0]}],
    }  # fmt: skip
    served = {"trace": trace, "resources": [{"kv_block_tokens": 16, "kv_capacity_bytes": 6 * 16 * 10}]}
    nothing = {**served, "trace": {**trace, "steps": []}}
    live = {"manifest": {"model": {"kv_bytes_per_token": 10}}, "schedules": {AMPLE: served, PAGED: nothing}}
    assert list(story.usage_so_far(live)) == [AMPLE] and story.usage_so_far(live)[AMPLE]["blocks"] == [2, 2]
    assert story.pool_so_far(live) == 6 and story.usage_so_far(None) == {}
    del live["schedules"][PAGED]
    assert story.pool_so_far(live) is None, "the ample pool is no wall"


@pytest.mark.parametrize("lang", ["ko", "en"])
def test_every_sentence_has_words_in_both_languages(lang):
    words = Words(lang, "memory")
    cases = [
        result(), result(pool=8), result(reserved={"waste_mean": 0.05}), result(reserved={"running_most": 2, "throughput_tokens_per_s": 80.0}),
        result(paged={"preemptions": 1}, reserved={"ttft_p50_s": 2.0, "throughput_tokens_per_s": 80.0}), result(paged={"preemptions": 0}),
        result(reserved={"tpot_p50_s": 0.5}),
    ]  # fmt: skip
    for found in cases:
        for key, facts in [*story.headline(found), *story.sums(found)]:
            assert key in table(lang, "memory") and "{" not in words(key, **facts)
    for metric in story.METRICS:
        assert all(f"metric.{metric.key}.{part}" in words for part in ("name", "term", "what"))
    assert all(f"schedule.{variant}.{part}" in words for variant in VARIANTS for part in ("name", "short", "what"))


@pytest.mark.parametrize("name", recordings.names("wall"))
def test_the_recording_is_of_this_engine(name):
    """Its scenario can still be measured again, and what it says of the first wave still follows from its lengths."""
    found = recordings.load(name)
    scenario = wall_for("cpu").from_dict(found["manifest"]["scenario"])
    assert scenario.key() == found["manifest"]["scenario_key"]
    prompts, outputs = zip(*scenario.lengths)
    for pool in found["prediction"].values():
        wave = first_wave(prompts, outputs, pool["blocks"], pool["block_tokens"], scenario.max_batch_requests, pool["reserve_tokens"])
        assert set(pool["measured"]) == {wave} == {pool["first_wave"]}
    assert len(json.dumps(found)) < 400_000


# ------------------------------------------------------------------ the page


def whole(app: AppTest) -> str:
    """The part is all there: no exception, the headline, the figures and the table; gives its HTML."""
    found = lessons.complete(app)
    assert "lab-headline" in found and "lab-metrics" in found and len(app.get("plotly_chart")) == 3
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    return found


@pytest.fixture(scope="module")
def page(home) -> AppTest:
    """One page on which all fields are tried, one after another: what was refused must not stay."""
    return lesson()


@pytest.mark.parametrize("lang", ["ko", "en"])
def test_the_recording_is_there_at_once(lang):
    """Before anybody has measured anything, with where it comes from and its files."""
    found = whole(lesson(lang=lang))
    assert "lab-badge-recorded" in found and "./lab/runs/recorded:wall-cpu/result.json" in found
    assert "measured." not in found.replace("measured.json", ""), "a key without words"


@pytest.mark.parametrize("run", ["../../etc/passwd", "a" * 5000, "<script>alert(1)</script>", "\x00abc", "recorded:wall-cpu", "한글한글한글한글"], ids=ascii)
def test_an_address_nobody_gave_out(run):
    found = whole(lesson(wall=run))
    assert "lab-notice-info" in found and "<script>alert" not in found


def test_a_run_of_this_machine_and_one_of_another_kind():
    for name, kind in (("wall-cpu", "measured"), ("schedules-cpu", "recorded")):
        assert f"lab-badge-{kind}" in whole(lesson(wall=stored(recordings.load(name), name)))


REFUSED = "These numbers do not work"
NUMBERS = [(field, value) for field in ("count", "pool_tokens", "reserve_tokens", "prompt_tokens_min", "output_tokens_max", "seed") for value in (0, -1, 10**12, None)]


@pytest.mark.parametrize(("field", "value"), NUMBERS, ids=str)
def test_a_number_that_may_not_work(page, field, value):
    """A reason in words, the button blocked, and the way back."""
    widget = page.number_input(key=f"wall-{field}")
    fine = widget.value
    widget.set_value(value).run()
    assert (REFUSED in whole(page)) == (value is not None and (field, value) != ("seed", 0))
    page.number_input(key=f"wall-{field}").set_value(fine).run()
    assert REFUSED not in whole(page)


def test_each_serving_can_be_looked_at(page):
    """The figure of the waste follows the choice, and so do its words."""
    seen = set()
    for variant in VARIANTS:
        page.segmented_control(key="wall-variant").set_value(variant).run()
        found = whole(page)
        assert EN(f"schedule.{variant}.what") in found
        seen.add(json.loads(page.get("plotly_chart")[1].proto.spec)["data"][0]["y"][0])
    assert len(seen) > 1


def test_running_hands_over_what_was_chosen(page, monkeypatch):
    """The numbers of the form, and never those of the preset."""
    sent = []
    monkeypatch.setattr(client, "submit", lambda scenario, **_: sent.append(scenario) or "a-run-that-is-not-here")
    monkeypatch.setattr(client, "status", lambda run, **_: client.Status(state="unknown"))
    page.number_input(key="wall-pool_tokens").set_value(2048).run()
    page.button(key="go-wall").click().run()
    assert [scenario.pool_tokens for scenario in sent] == [2048] and sent[0].kind == "wall"
