"""The Roofline lesson without a browser: what is said follows from the numbers, the picture has every point, formulas give
the counts they claim, and no result or input breaks the page."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from engine import profiles
from engine.errors import LabError
from engine.formulas.kv import Attention, Latent, Recurrent
from engine.formulas.roofline import compute_bound_batch, decode_attention_intensity
from pages._ui import errors, fmt, plot, recordings
from pages._ui.words import PAGES, Words, table
from pages.roofline import batch, decode, form, picture, point, story
from tests.pages import lessons
from tests.pages import roofline_small as small
from tests.pages.lessons import stored

pytestmark = pytest.mark.usefixtures("home")
lesson = partial(lessons.lesson, "roofline")
EN, KO = Words("en", "roofline"), Words("ko", "roofline")
H100 = profiles.device("h100-sxm")
LLAMA = profiles.model("llama-3-8b")


def by_id(result: dict) -> dict[str, dict]:
    return {p["id"]: p for p in result["points"]}


def keys(sentences) -> list[str]:
    return [key for key, _ in sentences]


# ---------------------------------------------------------------- numbers as people read them


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        (fmt.flops, 999.4e6, "999 MFLOP"),
        (fmt.flops, 999.6e6, "1,000 MFLOP"),
        (fmt.flops, 2.7e9, "2.7 GFLOP"),
        (fmt.flops, 12, "12 FLOP"),
        (fmt.flops, 4.5e18, "4.50 × 10¹⁸ FLOP"),
        (fmt.flops, None, "–"),
        (fmt.flops_per_s, 989.5e12, "990 TFLOP/s"),
        (fmt.bytes_per_s, 3.35e12, "3.35 TB/s"),
        (fmt.bytes_per_s, 864e9, "864 GB/s"),
        (fmt.intensity, 0.4972, "0.5 FLOP/B"),
        (fmt.intensity, 295.4, "295 FLOP/B"),
        (fmt.number, 1234.5, "1,234"),
        (fmt.number, 0, "0"),
    ],
)
def test_rates_and_counts_have_their_unit_and_never_an_exponent_of_a_computer(shown, value, text):
    assert shown(value) == text


# ---------------------------------------------------------------- what the points say


def test_the_roof_is_the_best_matmul_in_the_runs_own_format():
    """Not the best of all formats, and not the smallest size: a point under another format's roof looks slow for nothing."""
    found = story.roof(small.result())
    assert (found.flops_per_s, found.bytes_per_s, found.ridge) == (small.PEAK, small.MEMORY, small.RIDGE)
    assert found.at(1.0) == 10e9 and found.at(10.0) == found.at(500.0) == 100e9
    assert story.ceilings(small.result()) == {"float32": 100e9, "bfloat16": 200e9}


def test_the_headline_has_the_best_prefill_and_the_smallest_decode():
    result = small.result()
    key, facts = story.headline(result)
    best = max((p for p in result["points"] if p["phase"] == "prefill" and p["part"] == "all"), key=lambda p: p["flops_per_s"])
    first = by_id(result)["decode-1x64-all"]
    assert key == "story.headline" and facts["tokens"] == fmt.count(best["tokens"]) and facts["batch"] == "1"
    assert facts["prefill"] == fmt.share(best["flops_per_s"] / small.PEAK)
    assert facts["read"] == fmt.share(first["bytes"] / first["seconds"] / small.MEMORY)


@pytest.mark.parametrize(
    ("factor", "key"),
    [(1.0, "story.headline"), (5.0, "story.headline_slack"), (0.01, "story.headline_busy")],
)
def test_nothing_is_said_to_wait_for_memory_that_does_not(factor, key):
    """A decode far below both limits, or near the matmul rate, tells another story than the textbook's."""
    result = small.result()
    for p in result["points"]:
        if p["phase"] == "decode":
            p["seconds"] *= factor
            p["flops_per_s"] /= factor
    assert story.headline(result)[0] == key


@pytest.mark.parametrize(
    ("prefills", "key"),
    [((8, 512), "said.prefill_both"), ((512,), "said.prefill_right"), ((8,), "said.prefill_left")],
)
def test_on_which_side_of_the_crossing_the_prefills_lie(prefills, key):
    facts = dict(story.sentences(small.result(prefills=prefills)))
    assert key in facts
    if key == "said.prefill_both":
        assert facts[key]["left"] == "8" and facts[key]["right"] == "512"


def test_a_batch_raises_the_matrices_and_not_attention():
    facts = dict(story.sentences(small.result()))
    points = by_id(small.result())
    assert facts["said.batch"]["low"] == fmt.intensity(points["decode-1x64-linear"]["intensity"])
    assert facts["said.batch"]["high"] == fmt.intensity(points["decode-16x64-linear"]["intensity"])
    assert facts["said.attention_flat"]["few"] == "1" and facts["said.attention_flat"]["many"] == "16"
    assert facts["said.context"]["long"] == "1,024"


def test_attention_that_moved_is_not_called_flat():
    result = small.result()
    for p in result["points"]:
        if p["phase"] == "decode" and p["part"] == "attention" and p["batch"] == 16:
            p["intensity"] *= 2
    assert "said.attention_moves" in keys(story.sentences(result)) and "said.attention_flat" not in keys(story.sentences(result))


def test_batches_are_compared_at_one_context():
    """The largest batch may have been measured at one context alone: two contexts would be mixed into one ratio."""
    result = small.result()
    result["points"] = [p for p in result["points"] if not (p["phase"] == "decode" and p["batch"] == 16 and p["context"] == 64)]
    points = by_id(result)
    few, many = points["decode-1x1024-all"], points["decode-16x1024-all"]
    ratio = (16 / many["seconds"]) / (1 / few["seconds"])
    assert dict(story.sentences(result))["said.batch"]["ratio"] == fmt.ratio(ratio)


def test_points_above_the_roof_are_explained_and_only_those():
    result = small.result()
    assert "said.above" not in keys(story.sentences(result))
    p = by_id(result)["decode-1x64-attention"]  # at half the roof
    p["flops_per_s"] *= 2.04
    assert "said.above" not in keys(story.sentences(result))  # 2 % are noise
    p["flops_per_s"] *= 2
    assert dict(story.sentences(result))["said.above"] == {"n": "1"}


def test_what_a_step_does_beside_its_parts():
    assert dict(story.sentences(small.result()))["said.rest"]["rest"] == "33 %"


# ---------------------------------------------------------------- partial and odd results


ODD = {
    "no points": {"points": []},
    "no calibration": {"calibration": {}},
    "a calibration of nothing": {"calibration": {"matmul": {"float32": []}, "read_bytes_per_s": 1e9}},
    "no shape": {"shape": None},
    "a shape of another version": {"shape": {"layers": 2}},
    "another model's shape": {"shape": {**small.SHAPE, "layers": 3}},
    "points of another version": {"points": [{"id": "x"}, {"id": "y", "phase": "train", "part": "all", "seconds": 1}]},
    "skipped": {
        "skipped": [
            {"phase": "decode", "batch": 64, "context": 2048, "tokens": 64, "reason": "pool", "needed_bytes": 6 << 30, "kv_bytes": 1 << 30},
            {"phase": "prefill", "batch": 1, "context": 0, "tokens": 9000, "reason": "model", "max_context_tokens": 8192},
        ]
    },
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])
def test_an_odd_result_has_a_headline_and_breaks_nothing(name, words):
    result = small.result(**ODD[name])
    key, facts = story.headline(result)
    assert words(key, **facts) != key
    for key, facts in story.sentences(result):
        assert "{" not in words(key, **facts) and words(key, **facts) != key
    head, rows = story.rows(result, words)
    assert all(len(row) == len(head) for row in rows)
    for view in picture.VIEWS:
        spec = picture.spec(result, view, [H100], words)
        assert (spec is None) == (story.roof(result) is None)
        assert picture.alt(result, view, [H100], words)
        json.dumps(spec, allow_nan=False)


def test_one_point_alone_can_be_drawn_and_compared_with_nothing():
    for p in small.result()["points"]:
        alone = small.result(points=[p])
        spec = picture.spec(alone, p["part"], [], EN)
        assert [q["id"] for q in spec["points"]] == [p["id"]]
        assert "story.partial" == story.headline(alone)[0]
        assert not {"said.batch", "said.attention_flat", "said.context", "said.rest"} & set(keys(story.sentences(alone)))


def test_what_was_left_out_says_why():
    texts = story.skipped(small.result(**ODD["skipped"]), EN)
    assert texts[0] == "Decode, batch 64, context 2,048: its KV needs 6 GiB, and the pool has 1 GiB."
    assert texts[1] == "Prefill of 9,000 tokens: longer than the model's context of 8,192 tokens."
    assert all("{" not in text and "–" not in text for text in story.skipped(small.result(**ODD["skipped"]), KO))


def test_a_point_without_time_is_not_drawn():
    """A logarithmic axis has no place for it, and a division none either."""
    result = small.result()
    by_id(result)["decode-1x64-all"]["seconds"] = 0
    assert "decode-1x64-all" not in {p["id"] for p in picture.shown(result, "all")}


# ---------------------------------------------------------------- the picture


@pytest.mark.parametrize("view", picture.VIEWS)
def test_every_point_is_in_the_picture_under_words_of_its_own(view):
    result = small.result()
    spec = picture.spec(result, view, [], EN)
    wanted = {p["id"] for p in result["points"] if p["part"] in picture.VIEWS[view]}
    assert {p["id"] for p in spec["points"]} == wanted
    assert len({p["text"] for p in spec["points"]}) == len(wanted)
    for axis in ("x", "y"):
        low, high = spec[axis]["range"]
        assert all(low <= p[axis] <= high for p in spec["points"])
        assert len(spec[axis]["ticks"]) >= 2 and all(low <= v <= high for v, _ in spec[axis]["ticks"])


def test_phase_and_part_can_be_told_apart_without_colour():
    spec = picture.spec(small.result(), "apart", [], EN)
    looks = {(p["id"].partition("-")[0], p["id"].rpartition("-")[2]): (p["shape"], p["filled"]) for p in spec["points"]}
    assert len(looks) == len(set(looks.values())) == 4
    assert {(entry["shape"], entry["filled"]) for entry in spec["legend"]} == set(looks.values())


def test_published_roofs_are_called_so_and_have_room():
    plain, beside = picture.spec(small.result(), "all", [], EN), picture.spec(small.result(), "all", [H100], EN)
    added = [line for line in beside["lines"] if line["name"] not in {line["name"] for line in plain["lines"]}]
    assert len(added) == 1 and "published" in added[0]["name"] and added[0]["quiet"] and not added[0].get("solid")
    ridge = H100.bf16_flops_per_s / H100.memory_bytes_per_s
    assert [ridge, H100.bf16_flops_per_s] in added[0]["points"]
    assert beside["x"]["range"][1] > ridge and beside["y"]["range"][1] > H100.bf16_flops_per_s > plain["y"]["range"][1]
    assert H100.title in picture.alt(small.result(), "all", [H100], EN) not in picture.alt(small.result(), "all", [], EN)


def test_the_measured_roof_is_solid_and_bends_at_the_marked_crossing():
    spec = picture.spec(small.result(), "all", [], EN)
    roof = next(line for line in spec["lines"] if line.get("solid"))
    assert [10.0, 100e9] in roof["points"] and spec["marks"][0]["at"] == 10.0
    for x, y in roof["points"]:
        assert y == pytest.approx(min(100e9, 10e9 * x))
    other = next(line for line in spec["lines"] if line["name"] == "bfloat16")
    assert other["points"][0] == [20.0, 200e9]  # where its own ceiling begins


# ---------------------------------------------------------------- one point


@pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])
def test_the_formulas_give_the_numbers_of_the_point(words):
    """The numbers that are put in are multiplied out here again: a formula that shows others than were used is a lie."""
    result = small.result(batches=(1, 4), contexts=(64,))
    for p in result["points"]:
        texts = [words(key, **facts) for key, facts in point.formulas(result, p)]
        assert len(texts) == (4 if p["part"] == "all" else 2)
        facts = dict(point.formulas(result, p))
        flops = moved = 0
        for key, values in facts.items():
            numbers = {name: int(v.replace(",", "")) for name, v in values.items() if re.fullmatch(r"[\d,]+", v)}
            if key == "formula.linear_flops":
                flops += 2 * numbers["weights"] * numbers["rows"]
            elif key == "formula.linear_flops_split":
                flops += 2 * numbers["early"] * numbers["rows"] + 2 * numbers["late"] * numbers["wanted"]
            elif key == "formula.attention_flops":
                flops += 4 * numbers["layers"] * numbers["heads"] * numbers["head_dim"] * numbers["pairs"]
            elif key == "formula.linear_bytes":
                moved += (numbers["weights"] + numbers["between"]) * numbers["size"]
            else:
                moved += (numbers["read"] + numbers["new"] + numbers["queries"]) * numbers["size"]
        assert (flops, moved) == (p["flops"], p["bytes"]), p["id"]


def test_no_formula_is_shown_that_gives_other_numbers():
    """A result of another version of the lab may have been counted differently."""
    result = small.result()
    p = by_id(result)["decode-4x64-linear"]
    assert point.formulas(result, p)
    assert not point.formulas(result, {**p, "flops": p["flops"] + 2})
    assert not point.formulas(small.result(**ODD["another model's shape"]), p)


def test_a_picked_point_is_found_and_else_the_smallest_decode():
    shown = picture.shown(small.result(), "attention")
    assert point.find(shown, "prefill-64-attention")["id"] == "prefill-64-attention"
    assert point.find(shown, "prefill-64-all")["id"] == point.find(shown, None)["id"] == "decode-1x64-attention"
    assert point.find([], "x") is None


@pytest.mark.parametrize("sent", [[1], {"a": 1}, 1, None, True, "no-such-point"], ids=ascii)
def test_what_a_browser_says_it_picked_may_be_anything(sent, monkeypatch):
    """A list has no hash: the page must not break over what somebody sends in place of a point's name."""
    given = {}

    def component(_name):
        return lambda *, data, **_: given.update(data) or SimpleNamespace(picked=sent)

    monkeypatch.setattr(plot.script, "component", component)
    monkeypatch.setattr(plot.st, "session_state", {"a-plot": {"picked": sent}})
    assert plot.show({"points": [{"id": "x"}]}, alt="", key="a-plot") is None and given["picked"] is None


@pytest.mark.parametrize(("name", "key"), [("decode-1x64-all", "picked.memory"), ("prefill-512-linear", "picked.arithmetic")])
def test_which_limit_is_above_a_point(name, key):
    result = small.result()
    p = by_id(result)[name]
    found, facts = point.says(p, story.roof(result))
    assert found == key and facts["share"] == fmt.share(p["share_of_roof"])
    assert EN(found, **facts) != found and "{" not in KO(found, **facts)


# ---------------------------------------------------------------- the batch


def machine(**changes) -> decode.Machine:
    return replace(decode.Machine(H100.title, picture.published(H100), H100.capacity_bytes), **changes)


def test_a_dense_models_matrices_cross_where_the_formula_says():
    """Found here by search over what a step reads; the closed formula is for dense models only."""
    for m in (m for m in profiles.models().values() if m.dense):
        assert decode.compute_bound_from(m, machine()) == compute_bound_batch(machine().roof.ridge, 2)


def test_attention_does_not_move_with_the_batch_and_matrices_do():
    one, many = (decode.step(LLAMA, machine(), b, 8192) for b in (1, 64))
    assert one.attention_intensity == many.attention_intensity == LLAMA.heads / LLAMA.kv_heads == 4
    assert many.linear_intensity == 64 * one.linear_intensity == 64
    assert many.idle_share < one.idle_share < 1


def test_a_step_computed_by_hand():
    """Llama 3 8B in 16 bits: 16.06 GB of weights, 131,072 B of KV a token."""
    step = decode.step(LLAMA, machine(), 8, 1000)
    assert step.linear_bytes == 2 * 8_030_261_248 and step.linear_flops == 16 * 8_030_261_248
    assert step.attention_bytes == 8 * 1000 * 131_072 and step.attention_flops == 4 * step.attention_bytes
    assert step.seconds == pytest.approx((step.linear_bytes + step.attention_bytes) / 3.35e12)
    assert step.idle_share == pytest.approx(1 - (step.linear_flops + step.attention_flops) / 989.5e12 / step.seconds)


def test_experts_are_computed_for_few_tokens_and_read_for_many():
    """A mixture's intensity grows slower than the batch: with every token other experts must be read."""
    m = profiles.model("mixtral-8x7b")
    one, many = (decode.step(m, machine(), b, 1000) for b in (1, 64))
    assert one.linear_flops == 2 * m.active_parameters < 2 * m.parameters and one.linear_intensity == pytest.approx(1)
    assert one.linear_bytes < many.linear_bytes <= 2 * m.parameters and many.linear_intensity < 64


def test_how_many_requests_fit_by_hand():
    """85.5 GB of which a tenth stays free, 16.06 GB of weights, 131,072 B of KV a token."""
    assert decode.requests(LLAMA, machine(), 8192) == int((0.9 * 85_520_809_984 - 2 * 8_030_261_248) / (8192 * 131_072)) == 56


@pytest.mark.parametrize("name", [name for name, m in profiles.models().items() if decode.usable(m)])
def test_every_model_has_sentences_and_a_picture_in_both_languages(name):
    """Hybrid, sliding, latent, experts: a kind of layer without words would show a key or divide by nothing."""
    m = profiles.model(name)
    for words in (EN, KO):
        for size, context in ((1, 128), (4096, 1 << 20)):
            for here in (machine(), machine(capacity_bytes=10**6), machine().times(64)):
                texts = [words(key, **facts) for key, facts in batch.sentences(m, here, size, context, words)]
                texts += [batch.alt(m, here, context, words), *(v for _, v in batch.figures(m, here, size, context, words))]
                assert all(text and "{" not in text and not text.startswith("batch.") for text in texts)
                spec = batch.spec(m, here, size, context, words)
                json.dumps(spec, allow_nan=False)
                assert all(0 < y < math.inf for line in spec["lines"] for _, y in line["points"])


def test_why_attention_has_its_intensity_follows_the_layers():
    def why(*groups, heads=32):
        return batch._why(replace(LLAMA, heads=heads, groups=groups), EN)

    plain = Attention(32, 8, 128, 128)
    assert why(plain) == "4 query heads share each key and value"
    assert why(replace(plain, kv_heads=32)) == EN("batch.why_mha")
    assert "all 32" in why(replace(plain, kv_heads=1)) and "exception" in why(Latent(60, 512, 64), heads=128)
    assert "state of fixed size" in why(plain, Recurrent(4, 1000))
    assert why(plain, replace(plain, kv_heads=4)) == EN("batch.why_mixed")


def test_absorbed_mla_may_pass_the_crossing_where_gqa_cannot():
    """The exception that A5 of the claims speaks of: hundreds of operations per byte."""
    latent = replace(LLAMA, heads=128, groups=(Latent(60, 512, 64),))
    assert decode.step(latent, machine(), 1, 4096).attention_intensity == decode_attention_intensity(latent.groups[0], 128, 2) > 240
    slow = machine(roof=story.Roof(312e12, 2.039e12, "bfloat16"))  # an A100's: 153 FLOP per byte
    key, _ = batch._attention(latent, slow, 1, 4096, EN)
    assert key == "batch.attention_high" and batch._attention(LLAMA, slow, 1, 4096, EN)[0] == "batch.attention_low"


@pytest.mark.parametrize(
    ("capacity", "context", "size", "expected"),
    [
        (10**9, 8192, 1, ["batch.too_large"]),
        (18 * 10**9, 1 << 20, 1, ["batch.no_request"]),
        (80 * 10**9, 8192, 1, ["batch.wall"]),
        (80 * 10**9, 8192, 4096, ["batch.wall", "batch.over"]),
        (2000 * 10**9, 128, 1, ["batch.room"]),
    ],
)
def test_what_ends_the_batch(capacity, context, size, expected):
    assert keys(batch._memory(LLAMA, machine(capacity_bytes=capacity), size, context)) == expected


def test_the_machine_that_measured_can_be_chosen_in_its_own_format():
    found = batch.machines_for(small.result())[batch.HERE]
    assert found.measured and found.bytes_per_value == 4 and found.kv_dtype == "fp32" and found.capacity_bytes == 16 * 10**9
    assert batch.HERE not in batch.machines_for(None) and batch.HERE not in batch.machines_for(small.result(calibration={}))


# ---------------------------------------------------------------- words


def test_korean_expectations_are_korean():
    """The scenario's own words for what may not work were left in English, and those of a pool that is too small."""
    for expected in ("at least 16", "up to 16 different whole numbers from 1 to 1024", "1 to 16 different whole numbers", "such that there are 1 to 80 steps, prefills included"):
        error = LabError("scenario-value", field="decode_batches", value="x", expected=expected)
        assert not re.search("[a-z]{3,}", errors.sentence(error, KO))


def test_a_list_that_does_not_work_is_said_as_it_was_written():
    """Readers saw a Python tuple, brackets and quotes included."""
    error = LabError("scenario-value", field="decode_batches", value=(1, "x"), expected="1 to 16 different whole numbers")
    for words in (KO, EN):
        assert "= 1, x" in errors.sentence(error, words) and "= 1, x" in errors.sentence(error.as_dict(), words)


def test_every_text_of_the_lesson_is_used():
    source = "".join(path.read_text(encoding="utf-8") for folder in ("roofline", "_ui") for path in (PAGES / folder).glob("*.py"))
    made = tuple(re.findall(r'f"([a-z_]+\.(?:[a-z]+_)?)\{', source))
    unused = [key for key in table("en", "roofline") if key not in source and not key.startswith(made)]
    assert not unused


# ---------------------------------------------------------------- the page, as Streamlit runs it


def whole(app: AppTest) -> str:
    """The page is all there, with what the result says; gives its HTML."""
    found = lessons.complete(app)
    assert "lab-headline" in found
    return found


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("part", ["measured", "batch", "details"])
def test_each_part_in_each_language(lang, part):
    found = whole(lesson(lang=lang, part=part))
    assert "lab-badge-recorded" in found
    assert ("lab-picked" in found) == (part == "measured") and ("result.json" in found) == (part == "details")
    assert ("A17" in found) == (part == "details")  # the textbook's claims that concern this lesson


ADDRESSES = [{"roofline": v} for v in ("../../etc/passwd", "a" * 5000, "", "<script>alert(1)</script>", "\x00abc", "recorded:roofline-cpu", "{0.__class__}")]
ADDRESSES += [{"part": v} for v in ("", "run", "<b>", "batch\x00")] + [{"run": "x", "roofline": "y", "part": "z", "lang": "<b>"}]


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda a: ascii(a)[:60])
def test_an_address_nobody_gave_out(address):
    found = whole(lesson(**address))
    if address.get("roofline", "").strip():
        assert "lab-notice-info" in found  # "this run is not here"


def test_a_run_of_another_kind_in_the_address():
    run = stored(recordings.load("chunk-sweep-cpu"), "of-another-kind")
    assert "lab-notice-info" in whole(lesson(roofline=run))


def test_a_run_of_another_lesson_is_not_taken_for_one_of_this():
    """The address has a name for each lesson's run: coming here from Schedules must not say "this run is not here"."""
    run = stored(recordings.load("schedules-cpu"), "schedules")
    assert "this run is not here" not in whole(lesson(run=run, lang="en")).lower()


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("part", ["measured", "details"])
def test_an_odd_result_in_the_address(name, part):
    run = stored(small.result(**ODD[name]), name)
    found = whole(lesson(roofline=run, part=part, lang="en"))
    assert "lab-badge-measured" in found and "Measure again" in {b.label for b in lesson(roofline=run, lang="en").button}


REFUSED = "These numbers do not work"
LISTS = ["²", "1e3", "64,64", "64;128", "9" * 300, "-5", "NaN", "<script>", "0", ",".join(str(n) for n in range(1, 40)), "\u202e64", "1.5"]


@pytest.fixture(scope="module")
def page(home) -> AppTest:
    return lesson(lang="en")


@pytest.mark.parametrize("value", LISTS, ids=lambda v: ascii(v)[:30])
@pytest.mark.parametrize("field", ["batches", "contexts"])
def test_a_list_that_may_not_work(page, field, value):
    fine = page.text_input(key=f"roofline-{field}").value
    page.text_input(key=f"roofline-{field}").set_value(value).run()
    assert REFUSED in whole(page)
    page.text_input(key=f"roofline-{field}").set_value(fine).run()
    assert REFUSED not in whole(page)


@pytest.mark.parametrize("value", [0, -1, 10**12, 2**53 - 1, None], ids=str)
@pytest.mark.parametrize("field", ["prefill", "kv"])
def test_a_number_that_may_not_work(page, field, value):
    fine = page.number_input(key=f"roofline-{field}").value
    page.number_input(key=f"roofline-{field}").set_value(value).run()
    assert (REFUSED in whole(page)) == (value is not None)  # an emptied field keeps the preset's number
    page.number_input(key=f"roofline-{field}").set_value(fine).run()
    assert REFUSED not in whole(page)


def test_prefill_lengths_double_up_to_the_longest():
    assert form.lengths(100) == (16, 32, 64, 100) and form.lengths(64) == (16, 32, 64) and form.lengths(5) == (5,)


def test_views_and_published_devices_by_their_widgets(page):
    page.segmented_control(key="roofline-view").set_value("apart").run()
    page.multiselect(key="roofline-published").set_value(["h100-sxm"]).run()
    assert "lab-badge-published" in whole(page)
