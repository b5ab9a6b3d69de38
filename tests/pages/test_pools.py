"""The pools lesson: what its sentences and pictures say follows from the numbers, and nothing a reader gives breaks the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape

import pytest

from engine import profiles
from engine.experiments.pools_scenario import pools
from engine.formulas import pools as formulas
from pages._ui import recordings
from pages._ui.words import Words
from pages.pools import balance_story as balance
from pages.pools import gpu_story as gpu
from pages.pools import instance
from pages.pools import measured_story as measured
from tests.pages import pools_small as small
from tests.pages.lessons import complete, html, left_open, lesson, said, stored

EN, KO = Words("en", "pools"), Words("ko", "pools")
LANGUAGES = pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])
pytestmark = pytest.mark.usefixtures("empty_home")


def keys(found) -> list[str]:
    return [key for key, _ in found]


# ------------------------------------------------------------------ measured


def with_metrics(result: dict, unified: dict, pair: dict) -> dict:
    result["arrangements"]["unified"]["metrics"] |= unified
    result["arrangements"]["1:1"]["metrics"] |= pair
    return result


@pytest.mark.parametrize(
    ("gap", "end", "key"),
    [(0.5, 2.0, "wins"), (0.5, 3.0, "trades"), (2.0, 2.0, "level"), (2.0, 3.0, "loses"), (3.0, 2.0, "loses"), (3.0, 3.0, "loses")],
)
@LANGUAGES
def test_the_verdict_follows_from_gaps_and_ends(words, gap, end, key, monkeypatch):
    """A page that praises pools whatever was measured teaches what is not so. One engine: a gap of 2 s, done after 2 s."""
    monkeypatch.setattr(measured, "ttft_p50_s", lambda entry: 1.0)
    result = with_metrics(small.pools(), {"itl_max_s": 2.0, "makespan_s": 2.0}, {"itl_max_s": gap, "makespan_s": end})
    found = measured.headline(result, words)
    assert found[0][0] == f"measured.{key}"
    said(found, words)


def test_a_first_token_that_comes_later_is_no_win(monkeypatch):
    """Shorter gaps are easy for a pool that lets prompts wait."""
    result = with_metrics(small.pools(), {"itl_max_s": 2.0, "makespan_s": 2.0}, {"itl_max_s": 0.5, "makespan_s": 2.0})
    first = {id(entry): 1.0 if name == "unified" else 3.0 for name, entry in result["arrangements"].items()}
    monkeypatch.setattr(measured, "ttft_p50_s", lambda entry: first[id(entry)])
    assert measured.headline(result, EN)[0][0] == "measured.trades"


@LANGUAGES
def test_no_second_is_given_where_workers_share_cores(words):
    """Three processes on two cores take turns: a number of theirs would be read as what 2:1 does."""
    result = small.pools(cores=2)
    rows = {row[0]: row[1:] for row in measured.table(result, words)[1]}
    crowded = [words("schedule.pools", prefill=p, decode=d) for p, d in ((2, 1), (1, 2))]
    assert all(set(rows[name][1:5]) == {"–"} for name in crowded) and "–" not in rows[words("schedule.pools", prefill=1, decode=1)][1:5]
    for row in measured.workers_table(result, words)[1]:
        assert ("–" in row) == (row[0] in crowded)
    assert not any(name in measured.busy_bars(result, words) for name in crowded)
    pictures = measured.pictures(result["arrangements"], words)
    assert pictures.count("po-crowded") == 2 and pictures.count(words("measured.shared_cores")) == 4  # seen and read aloud
    key, facts = measured.crowded(result, words)
    assert (key, facts["processes"], facts["names"]) == ("measured.crowded", "3", ", ".join(crowded))
    roomy = small.pools(cores=4)
    assert measured.crowded(roomy, words) is None and "po-crowded" not in measured.pictures(roomy["arrangements"], words)
    alone = small.pools(("2:1", "1:2"))
    assert keys(measured.headline(alone, words))[0] == "measured.no_times"
    said([measured.crowded(result, words), *measured.headline(alone, words)], words)


@LANGUAGES
def test_the_balance_names_the_pool_that_works_more(words):
    longer = measured.headline(small.pools(("unified", "1:1"), prompt_s=3.0), words)
    shorter = measured.headline(small.pools(("unified", "1:1"), prompt_s=0.05), words)
    even = measured.headline(small.pools(("unified", "1:1"), prompt_s=0.5), words)
    assert "measured.leans_prefill" in keys(longer) and "measured.leans_decode" in keys(shorter) and "measured.even" in keys(even)
    said([*longer, *shorter, *even], words)


@LANGUAGES
def test_back_pressure_is_told_only_where_there_was_some(words):
    assert "measured.held" not in keys(measured.headline(small.pools(), words))
    full = measured.headline(small.pools(("unified", "1:1"), held=0.5), words)
    assert dict(full)["measured.held"]["requests"] == "4" and dict(full)["measured.held"]["longest"] == "500 ms"
    crowded = measured.headline(small.pools(("unified", "2:1"), held=0.5), words)
    assert "measured.held_crowded" in keys(crowded)
    said([*full, *crowded], words)


@LANGUAGES
def test_the_wait_for_the_link_is_from_the_prefills_end(words):
    """A copy alone would hide the wait before it."""
    facts = dict(measured.headline(small.pools(held=0.4, move_s=0.1), words))["measured.link_memory"]
    assert facts["each"] == "500 ms"
    result = small.pools()
    result["manifest"]["scenario"]["link_bytes_per_s"] = 1e7
    slow = measured.headline(result, words)
    assert dict(slow)["measured.link_slow"]["rate"] == "10 MB/s"
    assert "10 MB/s" in measured.about(result, "A case", words)
    said(slow, words)


TIE, APART = ({"first_difference": 3, "gap": gap, "near_tie": gap < 1} for gap in (0.001, 2.0))


@pytest.mark.parametrize(
    ("places", "kv_format", "key"), [({}, "exact", "same"), ({"2:1": TIE, "1:2": TIE}, "exact", "ties"), ({"2:1": APART, "1:2": TIE}, "int4", "differ"), ({"2:1": APART}, "exact", "wrong")]
)
@LANGUAGES
def test_tokens_that_differ_are_told(words, places, kv_format, key):
    """In requests, of which there are four: counted in every arrangement 8 of 4 would differ. Fewer bits are blamed only where
    there were fewer."""
    result = small.pools()
    result["manifest"]["scenario"]["kv_format"] = kv_format
    result["agreement"]["chat-1"] |= places
    found = measured.headline(result, words)
    assert found[-1][0] == f"measured.tokens_{key}"
    assert (found[-1][1]["n"], found[-1][1]["apart"]) == ("4", "1" if places else "0")
    one = measured.headline(small.pools(("unified",)), words)
    assert one[-1][0] == "measured.tokens_one"
    said([*found, *one], words)


@pytest.mark.parametrize("failing", [(1,), (0, 1, 2, 3)], ids=len)
@LANGUAGES
def test_an_arrangement_that_left_requests_unserved_wins_nothing(words, failing):
    """KV that came too late: pools that drop requests are done sooner, and tokens that nobody got are not the same."""
    result = small.pools(("unified", "1:1"))
    late = {"code": "transfer-late", "facts": {"late_s": 2.5, "bytes_per_s": 1000}, "message": "late"}
    for index in failing:
        result["arrangements"]["1:1"]["trace"]["requests"][index] |= {"status": "failed", "reason": late}
    found = measured.headline(result, words)
    assert found[0][0] == "measured.failed" and (found[0][1]["failed"], found[0][1]["all"]) == (str(len(failing)), "4")
    assert "2.5" in said(found, words)
    assert keys(found)[1:] == (["measured.tokens_rest"] if len(failing) == 1 else [])
    assert set(measured.table(result, words)[1][1][2:6]) == {"–"} and measured.outcomes(result) is None


@LANGUAGES
def test_kv_that_was_given_up_is_told(words):
    """A lease that ended while it waited: "none was lost" would be wrong, and a prefill that was done twice unseen."""
    result = small.pools(("unified", "1:1"), held=0.5)
    kept = said(measured.headline(result, words), words)
    result["arrangements"]["1:1"]["trace"]["events"].append({"type": "returned", "at_s": 1.0, "request": 1, "worker": "decode-0"})
    found = measured.headline(result, words)
    assert dict(found)["measured.given_up"]["times"] == "1"
    assert words("measured.kept") in kept and words("measured.kept") not in said(found, words)
    assert words("measured.link_room").strip() in kept, "the wait for room must not be taken for the link's"


@LANGUAGES
def test_pools_on_other_hosts_are_not_said_to_share_this_machine(words):
    """Their KV goes over a network, and "2 processes on 2 cores take turns" would be a riddle."""
    result = small.pools(("unified", "1:1"))
    for worker in result["arrangements"]["1:1"]["resources"]:
        worker["host"] = {"name": "far-away"}
    about = measured.about(result, "A case", words)
    assert "far-away" in about and words("measured.about_memory") not in about
    assert "measured.link_network" in keys(measured.headline(result, words))
    result["arrangements"]["1:1"]["processes_at_most_cores"] = False
    assert measured.crowded(result, words)[0] == "measured.crowded_hosts"
    said([measured.crowded(result, words), *measured.headline(result, words)], words)


@LANGUAGES
def test_requests_of_one_token_have_no_gap_to_compare(words):
    result = with_metrics(small.pools(), {"itl_max_s": None}, {"itl_max_s": None})
    found = measured.headline(result, words)
    assert found[0][0] == "measured.unfinished" and measured.cases_table({"a": result}, words)[1] == []
    said(found, words)


@LANGUAGES
def test_all_pictures_have_one_scale(words):
    """The slowest arrangement ends at the right edge, and no bar or queue goes beyond it."""
    result = small.pools(move_s=0.4, held=0.3)
    made = measured.pictures(result["arrangements"], words)
    ends = [float(left) + float(width) for left, width in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", made)]
    assert max(ends) == pytest.approx(100, abs=0.1) and made.count("role='img'") == 4
    heights = [int(h) for h in re.findall(r"height:(\d+)%", made)]
    assert max(heights) == 100 and min(heights) > 0
    assert not left_open(made)
    assert measured.pictures({}, words) == "" and measured.pictures({"1:1": {**result["arrangements"]["1:1"], "trace": {**result["arrangements"]["1:1"]["trace"], "steps": []}}}, words) == ""


def test_steps_are_joined_only_across_small_holes():
    assert measured.joined([(0.0, 1.0), (1.05, 2.0), (3.0, 4.0), (3.2, 3.5)], 0.1) == [[0.0, 2.0], [3.0, 4.0]]


@LANGUAGES
def test_cases_stand_below_each_other_with_their_verdicts(words):
    rows = measured.cases_table({"one": small.pools(), "two": small.pools(prompt_s=0.01)}, words)[1]
    assert [row[0] for row in rows] == ["one", "two"] and all(" → " in cell for row in rows for cell in row[1:4])
    assert rows[0][-1] == words(f"measured.word_{measured.judged(measured.outcomes(small.pools()))}")


# ------------------------------------------------------------------ how many of each


def choice(**changes: object) -> balance.Choice:
    return balance.choice_of({**balance.FIRST, **changes}, instance.models(), profiles.devices())


def test_the_chat_of_the_lesson_by_hand():
    """Llama 3.1 8B on an H100: 1,149 tokens of 131,072 B are 150.6 MB, so (85.52 GB x 0.9 - 16.06 GB) holds 404; a step reads
    16.06 + 404 x 0.1421 GB at 0.7 x 3.35 TB/s."""
    now = choice()
    found = now.decoding
    assert found.batch == found.fit == int((85_520_809_984 * 0.9 - 16_060_522_496) // (1_149 * 131_072)) == 404
    assert found.step_s == pytest.approx((16_060_522_496 + 404 * 1_084 * 131_072) / (0.7 * 3.35e12))
    assert found.rate == pytest.approx(404 / (found.step_s * 128))
    assert now.prefill_rate == pytest.approx(0.5 * 989.5e12 / profiles.model("llama-3.1-8b").prefill_flops(1_020))


@pytest.mark.parametrize("workload", balance.WORKLOADS)
@pytest.mark.parametrize("total", [2, 8, 16])
def test_the_best_split_is_marked_once_and_is_the_one_that_is_said(workload, total):
    """Picture, sentence and table must not disagree on one split."""
    now = choice(workload=workload, total=total)
    made = balance.bars(now, EN)
    (marked,) = re.findall(r"po-best'><b>(\d+) : (\d+)</b>", made)
    facts = dict(balance.headline(now))["balance.split"]
    assert marked == (facts["p"], facts["d"]) and made.count("po-split'") == total - 2
    row = next(row for row in balance.table(now, EN)[1] if row[0].startswith(EN(f"balance.work_{workload}")))
    assert row[6] == f"{marked[0]} : {marked[1]}"
    assert made.count("po-p></i>") == total * (total - 1) // 2


def test_long_prompts_want_prefill_and_long_answers_decode():
    """The chart's lines rise with the prompt, and the line of a longer answer lies lower."""
    spec = balance.spec(choice(), EN)
    low, high = spec["y"]["range"]
    for line in spec["lines"]:
        ratios = [y for _, y in line["points"]]
        assert all(b >= 0.99 * a for a, b in zip(ratios, ratios[1:], strict=False)), "whole batches make small steps"
        assert low <= ratios[0] and ratios[-1] <= high
    starts = [line["points"][0][1] for line in sorted(spec["lines"], key=lambda line: int(line["name"].split()[0].replace(",", "")))]
    assert starts == sorted(starts, reverse=True) and len(starts) == 4


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, "ratio"),
        ({"model": "llama-3.1-405b"}, "no_room"),
        ({"workload": "own", "prompt": 1_048_576, "output": 2}, "no_request"),
        ({"decode": "l4", "target": 0.02}, "no_target"),
        ({"target": 0.02, "model": "llama-3.2-1b"}, "ratio"),
        ({"workload": "reasoning", "decode": "l40s"}, "ratio"),
    ],
)
@LANGUAGES
def test_what_cannot_be_served_is_told(words, changes, key):
    """And whatever can be has all its sentences."""
    now = choice(**changes)
    found = balance.headline(now)
    assert found[0][0] == f"balance.{key}" and now.possible == (key == "ratio")
    said(found, words)
    balance.table(now, words)


def test_the_links_carry_the_kv_of_every_request():
    """202 requests a second of 1,020 x 131,072 B: without the rate it would be one request's."""
    facts = dict(balance.headline(choice()))["balance.traffic"]
    assert (facts["rate"], facts["bytes"], facts["all"]) == ("202", "134 MB", "26.9 GB/s")
    assert balance.table(choice(), EN)[1][0][-1] == "26.9 GB/s"


def test_unlike_gpus_are_not_set_against_one_engine():
    """A bound for one kind of GPU says nothing of two kinds."""
    assert "balance.unified" in keys(balance.headline(choice()))
    assert "balance.unified" not in keys(balance.headline(choice(decode="h200-sxm")))


def test_who_ends_the_batch():
    assert "balance.by_memory" in keys(balance.headline(choice()))
    assert "balance.by_target" in keys(balance.headline(choice(target=0.02)))


@pytest.mark.parametrize("value", ["", "<script>", -1, 0, 1.5, 10**30, float("nan"), None, True, [], {}, "한글"], ids=repr)
@pytest.mark.parametrize("name", list(balance.FIRST))
def test_a_choice_nobody_offered_becomes_the_lessons_own(name, value):
    """A browser may send anything; never a traceback."""
    assert choice(**{name: value}) == choice()


@LANGUAGES
@pytest.mark.parametrize("model", list(instance.models()))
def test_every_model_has_a_picture_or_a_reason(words, model):
    """On instances of eight H200 all fit."""
    now = choice(model=model, prefill="h200-sxm", decode="h200-sxm", devices=8)
    assert now.possible and said(balance.headline(now), words) and not left_open(balance.alt(now, words))
    assert all(line["points"] for line in balance.spec(now, words)["lines"])


# ------------------------------------------------------------------ which GPU


def cards(**changes: object) -> list[gpu.Card]:
    return gpu.cards_of({**gpu.FIRST, **changes}, instance.models(), profiles.devices())


def test_every_device_has_an_example_price_and_no_other():
    assert set(gpu.EXAMPLE_PRICES) == set(profiles.devices())


@LANGUAGES
def test_the_cheapest_card_changes_with_the_readers_price(words):
    """The examples must decide nothing: a card that is given away is the cheapest for everything."""
    before = gpu.headline(cards())
    free = gpu.headline(cards(prices={"l40s": 0.01}))
    assert free[0][0] == "gpu.same" and "L40S" in free[0][1]["prefill"] and before[0][1]["decode"] != free[0][1]["decode"]
    apart = gpu.headline(cards(prices={"h100-sxm": 1.0, "h200-sxm": 1.1}))
    assert apart[0][0] == "gpu.apart"
    none = gpu.headline(cards(model="llama-3.1-405b"))
    assert none[0][0] == "gpu.none_fits"
    said([*before, *free, *apart, *none], words)


@LANGUAGES
def test_the_l40s_is_judged_by_its_break_even(words):
    """Just below the limit it is the cheaper one, just above the dearer; the costs of a million tokens must agree."""
    small_card, older = (card for card in cards() if card.device.name in ("l40s", "a100-80gb-sxm"))
    limit = formulas.break_even_price(older.price, small_card.output_tokens_per_s, older.output_tokens_per_s)
    for price, key in ((limit * 0.99, "pair_cheaper"), (limit * 1.01, "pair_dearer")):
        found = cards(prices={"l40s": price})
        sentence = gpu.sentence_of_l40s(found)
        assert sentence[0] == f"gpu.{key}"
        l40s, a100 = (next(card for card in found if card.device.name == name) for name in ("l40s", "a100-80gb-sxm"))
        assert (l40s.per_million("output") < a100.per_million("output")) == (key == "pair_cheaper")
        said([sentence], words)
    assert gpu.sentence_of_l40s(cards(chosen=("l4", "l40s"))) is None
    far = gpu.sentence_of_l40s(cards(tokens=1_048_576))
    assert far[0] == "gpu.pair_not" and said([far], words)


@LANGUAGES
def test_a_limit_and_the_bars_agree(words):
    """Where a card is called cheaper by a measure, its bar there is the shorter one."""
    found = cards()
    against = next(card for card in found if card.device.name == "a100-80gb-sxm")
    _, rows = gpu.even_prices(found, against, words)
    others = [card for card in found if card is not against]
    for card, row in zip(others, rows, strict=True):
        for measure, cell in zip(gpu.MEASURES, row[2:5], strict=True):
            cheaper = card.per(measure) < against.per(measure)
            assert (cell == words("gpu.cheaper", limit=cell.split(":")[0])) == cheaper, (card.device.name, measure)
    made = gpu.races(found, words)
    assert made.count("lab-best") == 3 and made.count("lab-race-row") == 12
    assert [len(row) for row in gpu.table(found, words)[1]] == [7] * 4


@LANGUAGES
def test_a_card_too_small_or_too_slow_is_not_priced(words):
    rows = gpu.table(cards(chosen=("l4", "h100-sxm"), model="llama-3-70b"), words)[1]
    assert all(row[2] == words("gpu.no_model") and row[-1] == "–" for row in rows)
    rows = gpu.table(cards(chosen=("l4",), tokens=1_024), words)[1]
    fit = cards(chosen=("l4",), tokens=1_024)[0].decoding
    assert fit.batch == fit.within < fit.fit and rows[0][2] == words("gpu.slow", fit=f"{fit.fit:,}", batch=f"{fit.batch:,}")


@pytest.mark.parametrize("value", ["", "<script>", -1, 0, 10**9, float("nan"), float("inf"), None, True, [], "3"], ids=repr)
def test_a_price_that_is_none_is_the_example(value):
    (card,) = cards(chosen=("l40s",), prices={"l40s": value})
    assert card.price == gpu.EXAMPLE_PRICES["l40s"]
    for name in ("model", "tokens", "devices", "chosen", "prices"):
        assert [c.device.name for c in cards(**{name: value})] == list(gpu.FIRST["chosen"])


def test_small_sums_keep_their_digits():
    assert [gpu.dollars(v) for v in (None, 0.0372, 0.9, 0.08, 3.03, 12.34, 1234.5)] == ["–", "$0.037", "$0.90", "$0.080", "$3.03", "$12.3", "$1,234"]


# ------------------------------------------------------------------ the page


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize(("part", "shown"), [("measured", "lab-notice"), ("balance", "po-best"), ("gpu", "lab-race"), ("details", "A9")])
def test_every_part_opens(lang, part, shown, monkeypatch):
    monkeypatch.setattr(recordings, "names", lambda kind="*", model=None: [])
    found = complete(lesson("pools", lang=lang, part=part))
    assert shown in found and Words(lang, "pools")("page.title") in found
    assert not left_open(found), "a key instead of a word"


def asked(app, name: str) -> str:
    found = app.query_params[name]
    return found[0] if isinstance(found, list) else found


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording of two cases."""
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    for case, prompt_s in (("balanced", 0.5), ("short-prompts", 0.02)):
        (tmp_path / f"pools-{case}-cpu.json").write_text(json.dumps(small.pools(case=case, prompt_s=prompt_s)))


def test_each_case_shows_its_recording_and_keeps_its_run(recorded):
    """A reader who looks at another case and comes back finds what he measured, not the recording."""
    title = {name: case.title["en"] for name, case in pools().items()}
    app = lesson("pools", lang="en")
    found = complete(app)
    assert "lab-badge-recorded" in found and f"{title['balanced']}: " in found and EN("measured.section_cases") in found
    run = stored(small.pools(("unified", "1:1")), "pools of mine")
    app = lesson("pools", lang="en", pools=run)
    assert "lab-badge-measured" in complete(app)
    app.segmented_control(key="pools-case-en").set_value("short-prompts").run()
    found = complete(app)
    assert "lab-badge-measured" not in found and f"{title['short-prompts']}: " in found and asked(app, "case") == "short-prompts"
    app.segmented_control(key="pools-case-en").set_value("slow-link").run()
    assert EN("measured.none") in complete(app)
    app.segmented_control(key="pools-case-en").set_value("balanced").run()
    assert "lab-badge-measured" in complete(app) and asked(app, "pools") == run


def test_a_case_in_the_address_is_opened_in_both_languages(recorded):
    for lang in ("en", "ko"):
        found = complete(lesson("pools", lang=lang, case="short-prompts"))
        assert pools()["short-prompts"].title[lang] + ":" in found


def test_prices_are_the_readers_and_said_to_be_examples():
    app = lesson("pools", lang="en", part="gpu")
    assert escape(EN("gpu.prices_what")) in complete(app)
    before = html(app)
    app.number_input(key="pools-price-l40s").set_value(0.05).run()
    after = complete(app)
    assert "is the cheaper one for decode" in after and "is the cheaper one for decode" not in before
    app.multiselect(key="pools-gpu-chosen").set_value(["l4"]).run()
    assert "NVIDIA L4" in complete(app)
    app.multiselect(key="pools-gpu-chosen").set_value([]).run()
    complete(app)


def test_own_numbers_of_a_workload():
    app = lesson("pools", lang="en", part="balance")
    app.selectbox(key="pools-workload").set_value("own").run()
    app.number_input(key="pools-output").set_value(4_000).run()
    assert "2,048 tokens in, 4,000 out" in complete(app)
    app.selectbox(key="pools-model").set_value("llama-3.1-405b").run()
    assert "does not fit" in complete(app)


@pytest.mark.parametrize("value", ["../../etc/passwd", "<script>alert(1)</script>", "\x00", "a" * 4000])
@pytest.mark.parametrize("name", ["pools", "case"])
def test_an_address_nobody_gave_out(name, value):
    complete(lesson("pools", lang="en", **{name: value}))


def test_a_result_of_a_case_that_is_gone_is_shown_with_its_own_name():
    result = small.pools(("unified", "1:1"))
    result["manifest"]["scenario"]["workload"] = "from-the-future"
    assert "from-the-future: " in complete(lesson("pools", lang="en", pools=stored(result, "pools of the future")))


def test_an_instance_of_several_gpus_shares_evenly():
    one, four = (instance.Instance(profiles.model("llama-3-8b"), profiles.device("h100-sxm"), n) for n in (1, 4))
    assert four.prompt_s(1_000) == pytest.approx(one.prompt_s(1_000) / 4) and four.room > 4 * one.room
    assert replace(one, model=profiles.model("llama-3-70b")).room < 0 and replace(one, model=profiles.model("llama-3-70b")).least_devices == 2
