"""The transfer lesson: what its sentences say follows from the numbers, and nothing a reader gives breaks the page."""

from __future__ import annotations

import re

import pytest

from engine import profiles
from engine.service.store import Store
from pages._ui import recordings
from pages._ui.words import Words, policy_name
from pages.transfer import calculator_story as calc
from pages.transfer import formats_story as formats
from pages.transfer import overlap_story as overlap
from tests.pages import transfer_small as small
from tests.pages.lessons import complete, html, left_open, lesson, said

EN, KO = Words("en", "transfer"), Words("ko", "transfer")
LANGUAGES = pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])
pytestmark = pytest.mark.usefixtures("empty_home")


# ------------------------------------------------------------------ formats


@pytest.mark.parametrize(
    ("work", "key"), [((0.02, 0.08), "slower"), ((0.0055, 0.0055), "level"), ((0.004, 0.004), "faster"), ((0.0, 0.0), "faster")]
)
@LANGUAGES
def test_the_headline_follows_from_the_seconds(words, work, key):
    """A page that says "half the bytes, half the time" whatever was measured teaches what is not so."""
    result = small.transfer(work={"fp8": work})
    first, *_ = formats.headline(result)
    assert first[0] == f"formats.{key}" and first[1]["share"] == "50 %"
    said(formats.headline(result), words)


@pytest.mark.parametrize(("perplexity", "key"), [(7.14, "worse"), (7.01, "same"), (6.9, "better")])
@LANGUAGES
def test_what_was_lost_is_judged_by_the_perplexity(words, perplexity, key):
    """A perplexity that fell by chance must not read like a gain, nor one within noise like a loss."""
    found = formats.headline(small.transfer(perplexity={"int4": perplexity}))
    assert found[1][0] == f"formats.qualities_{key}"
    assert (found[1][1]["best"], found[1][1]["worst"], found[1][1]["ratio"]) == ("int8", "int4", "60")
    one = formats.headline(small.transfer(("bf16", "int4"), perplexity={"int4": perplexity}))
    assert one[1][0] == f"formats.quality_{key}"
    said([*found, *one], words)


def test_only_the_way_is_computed_over_another_link():
    """Quantising does not get slower with the network; a ratio of all three stages would say so."""
    result = small.transfer()
    row = formats.at(result, 200)[2]
    assert formats.stages(row, 1e6) == (row["quantise_s"], row["bytes"]["total"] / 1e6, row["dequantise_s"])
    assert formats.stages(row, None)[1] == row["move_s"]
    rows = formats.at(result, 200)
    assert formats.over_link(rows, "a wire", 1e5)[0] == "formats.over_faster"
    assert formats.over_link(rows, "a bus", 1e12)[0] == "formats.over_slower"
    assert formats.over_link(formats.at(small.transfer(work={"fp8": (0.005, 0.005)}), 200), "a bus", 1e12)[0] == "formats.over_level"


@LANGUAGES
def test_quantising_pays_below_the_link_on_which_both_take_equally_long(words):
    rows = formats.at(small.transfer(), 200)
    base, row = formats.base_of(rows), formats.spoken_of(rows)
    key, facts = formats.limit(rows)
    rate = (base["bytes"]["total"] - row["bytes"]["total"]) / (2 * 0.1 - 2 * 0.01)
    assert formats.ratio(row, base, rate) == pytest.approx(1.0)
    assert key == "formats.pays_below" and facts["rate"] == f"{rate / 1e6:.3g} MB/s"
    always = formats.limit(formats.at(small.transfer(work={"fp8": (0.001, 0.001)}), 200))
    said([(key, facts), always], words)
    assert always[0] == "formats.pays_always"


@LANGUAGES
@pytest.mark.parametrize("chosen", [("fp32",), ("int4",), ("fp32", "bf16"), ("fp8", "int8")])
def test_any_choice_of_formats_has_a_page(words, chosen):
    """A run may leave out those the sentences usually speak of."""
    result = small.transfer(chosen)
    said(formats.headline(result), words)
    rows = formats.at(result, 100)
    assert formats.bars(rows, None, words).count("class='kt-row'") == len(chosen)
    assert [len(row) for row in formats.table(rows, 1e9, words)[1]] == [len(formats.table(rows, 1e9, words)[0])] * len(chosen)
    assert said(filter(None, [formats.limit(rows), *formats.headline(result)]), words)


def test_rows_that_are_not_judged_yet_are_drawn():
    """While a run goes on, quality comes last."""
    result = small.transfer()
    for row in result["rows"]:
        row |= dict.fromkeys(("kl", "perplexity", "exact_perplexity", "continuation", "same_tokens"))
    rows = formats.at(result, 200)
    assert "–" in formats.bars(rows, None, EN) and formats.table(rows, None, EN)[1][0][-1] == "–"
    assert formats.texts(result, 200, EN) == "" and len(formats.headline(result)) == 1
    assert formats.headline({"rows": []}) == [("formats.partial", {})]


def test_texts_part_at_the_word_and_are_escaped():
    assert formats.parting("a bc de", "a bd") == 1 and formats.parting("ab", "ab") == 2 and formats.parting("x", "y") == 0
    html = formats.texts(small.transfer(), 200, EN)
    assert "<mark> done it.</mark>" in html and "fp32, bf16, fp8, int8" in html
    result = small.transfer()
    result["rows"][-1]["continuation"] = " thee <script>"
    assert "&lt;script&gt;" in formats.texts(result, 200, EN) and "<script" not in formats.texts(result, 200, EN)


def test_small_divergences_never_read_as_none():
    assert [formats.kl(v) for v in (None, 0.0, 1e-7, 1.2e-5, 0.00019, 0.0123)] == ["–", "0", "< 0.00001", "0.00001", "0.00019", "0.012"]


@LANGUAGES
def test_every_phase_of_a_run_has_a_name(words):
    for name in ("prefill", *small.WORK, "quality", "overlap"):
        assert not policy_name(name, words).startswith("policy."), name


# ------------------------------------------------------------------ overlap


@pytest.mark.parametrize(("layerwise", "key"), [(7.2, "much"), (10.0, "some"), (11.9, "none"), (13.0, "none")])
@LANGUAGES
def test_a_weak_overlap_is_called_weak(words, layerwise, key):
    found = small.overlap(layerwise=layerwise)
    first = overlap.headline(found)[0]
    assert first[0] == f"overlap.{key}" and not first[1]["share"].startswith("-")
    said(overlap.headline(found), words)


def test_what_could_be_hidden_is_all_but_the_last_part_where_the_link_keeps_up():
    assert overlap.possible(small.overlap()) == pytest.approx(5 / 6)
    assert overlap.possible(small.overlap(transfer=60.0, prefill=6.0)) == pytest.approx(5 / 60)


@pytest.mark.parametrize(("second", "key"), [(7.0, "slower"), (5.0, "faster"), (6.1, None)])
@LANGUAGES
def test_a_prefill_that_took_another_time_is_told(words, second, key):
    """Two prefills on a busy machine differ, and the difference is no merit of the overlap."""
    found = overlap.headline(small.overlap(layerwise_prefill=second))
    assert [k for k, _ in found if "prefill" in k] == ([f"overlap.prefill_{key}"] if key else [])
    said(found, words)


@LANGUAGES
def test_both_timelines_are_on_one_scale_with_words(words):
    """The end of the slower one is the end of both, or the shorter would look as long."""
    made = overlap.timelines(small.overlap(), words)
    assert made.count("role='img'") == 2 and made.count("kt-packed") == 6
    assert "left:50.00%;width:50.00%" in made and "1–5" in made and "26–30" in made
    ends = [float(a) + float(b) for a, b in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", made)]
    assert max(ends) <= 100.01
    assert not left_open(made)


# ------------------------------------------------------------------ the calculator


def choice(**changes: object) -> calc.Choice:
    return calc.choice_of({**calc.FIRST, **changes}, profiles.models(), profiles.devices())


def test_the_prompt_of_the_lesson_by_hand():
    """Llama 3 70B: 80 layers x 8 heads x 128 x 2 x 2 B = 327,680 B a token; 43 GB at 131,072, so 34 s over 10 GbE."""
    now, links = choice(), profiles.links()
    assert now.size() == 327_680 * 131_072
    assert calc.over(now, links["ethernet-10"]) == pytest.approx(34.36, rel=1e-3)
    assert calc.over(now, links["nvlink-4"]) == pytest.approx(0.0954, rel=1e-3)
    flops = profiles.model("llama-3-70b").prefill_flops(131_072)
    assert now.prefill_s() == pytest.approx(flops / (989.5e12 * 0.5 * 4), rel=1e-3)


def test_a_link_is_said_to_lose_exactly_below_the_limit():
    """The table and the sentence must not disagree about one link."""
    links = profiles.links()
    for device, devices in (("h100-sxm", 1), ("b200", 16), ("l4", 1)):
        for length in (2_048, 131_072):
            now = choice(device=device, devices=devices, tokens=length)
            limit = calc.least_bytes_per_s(now.size(), now.prefill_s())
            for link, row in zip(calc.between_machines(links), calc.table(now, links, EN)[1], strict=True):
                assert ("loses" in row[-1]) == (link.bytes_per_s < limit), (device, link.name)


@pytest.mark.parametrize(
    ("changes", "key"),
    [({}, "limit"), ({"devices": 1}, "all_enough"), ({"devices": 16, "device": "b200", "model": "llama-2-7b"}, "limit"), ({"model": "deepseek-v3"}, "no_prefill")],
)
@LANGUAGES
def test_which_link_is_enough(words, changes, key):
    found = calc.headline(choice(**changes), profiles.links())
    assert f"calc.{key}" in [k for k, _ in found]
    said(found, words)
    slow = [link for link in calc.between_machines(profiles.links()) if link.name == "ethernet-10"]
    none = calc.worth(choice(model="llama-2-7b", device="b200", devices=16, tokens=1_024), slow)
    assert none[0][0] == "calc.none_enough" and said(none, words)


@LANGUAGES
@pytest.mark.parametrize("model", list(profiles.models()))
def test_every_model_has_a_chart_and_tables(words, model):
    """Hybrids keep a state that does not grow, and some models' prefill is not counted."""
    now, links = choice(model=model, dtype="int4"), profiles.links()
    spec = calc.spec(now, links, words)
    low, high = spec["y"]["range"]
    assert all(low <= y <= high and 0 < y for line in spec["lines"] for _, y in line["points"])
    assert len(spec["lines"]) == len(calc.DRAWN) + now.model.dense
    head, rows = calc.table(now, links, words)
    assert {len(row) for row in rows} == {len(head)} and len(calc.rdma(now, links, words)[1]) == len(calc.STAGED)
    assert not left_open(calc.alt(now, links, words))
    if sentence := calc.longer(now):
        said([sentence], words)


def test_rdma_saves_nothing_negative_and_two_ways_at_most():
    now, links = choice(), profiles.links()
    for direct, staged in calc.STAGED:
        assert links[direct].bytes_per_s == links[staged].bytes_per_s, "the same card"
        two_ways = 2 * now.size() / links[calc.PCIE].bytes_per_s
        saved = [calc.staged_s(now.size(), links[staged].bytes_per_s, links[calc.PCIE].bytes_per_s, pieces=n) - calc.over(now, links[direct]) for n in (1, calc.PIECES)]
        assert saved[0] == pytest.approx(two_ways) and 0 < saved[1] < saved[0] / 10


@pytest.mark.parametrize("value", ["", "<script>", -1, 0, 1.5, 10**30, float("nan"), None, True, [], {}, "한글"], ids=repr)
@pytest.mark.parametrize("name", list(calc.FIRST))
def test_a_choice_nobody_offered_becomes_the_lessons_own(name, value):
    """A browser may send anything; never a traceback."""
    assert choice(**{name: value}) == choice()


# ------------------------------------------------------------------ the page


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize(("part", "shown"), [("formats", "kt-bars"), ("overlap", "kt-timeline"), ("calculator", "lab-badge-computed"), ("details", "A10")])
def test_every_part_opens_with_the_recording(lang, part, shown):
    found = complete(lesson("transfer", lang=lang, part=part))
    assert shown in found and Words(lang, "transfer")("page.title") in found
    assert not left_open(found), "a key instead of a word"


@pytest.mark.parametrize("part", ["formats", "overlap"])
def test_without_a_recording_or_an_overlap_the_page_says_so(part, monkeypatch):
    monkeypatch.setattr(recordings, "names", lambda kind="*", model=None: [])
    assert EN("source.none_title") in complete(lesson("transfer", lang="en", part=part))
    Store().save(small.transfer(run_id=f"no-overlap-{part}", overlap=None))
    found = complete(lesson("transfer", lang="en", part=part, transfer=f"no-overlap-{part}"))
    assert (EN("overlap.none_title") in found) == (part == "overlap")


def test_a_run_in_the_address_is_shown_over_another_link():
    Store().save(small.transfer(run_id="a-transfer-of-mine"))
    app = lesson("transfer", lang="en", transfer="a-transfer-of-mine")
    assert "lab-badge-measured" in complete(app)
    app.selectbox(key="transfer-link").set_value("ethernet-10").run()
    assert not app.exception and "lab-badge-computed" in html(app) and "Ethernet 10 Gb/s" in html(app)


@pytest.mark.parametrize("value", ["", "../../etc/passwd", "<script>alert(1)</script>", "\x00", "a" * 4000])
@pytest.mark.parametrize("name", ["transfer", "part"])
def test_an_address_nobody_gave_out(name, value):
    complete(lesson("transfer", lang="en", **{name: value}))
