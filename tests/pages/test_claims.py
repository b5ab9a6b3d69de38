"""The claims as pages show them: words for everything in both languages, nothing unescaped, and a page that bears any address."""

import copy
import json
import re
import string
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.claims import claims
from engine.errors import LabError
from engine.paths import runs_dir
from engine.service import client, files
from engine.service.store import Store
from pages._ui import claim_card, recordings, session
from pages._ui import claims as shared
from pages._ui.language import LANGUAGES
from pages._ui.words import PAGES, Words, table
from tests.claims.test_measured import EXAMPLES, KINDS, RECORDED, sweep
from tests.pages import rope_small, small

ALL = claims()
ME = "a-browser-of-these-tests"
FINDINGS = {
    ("A5", "roofline"): {"rises", "flat"},
    ("A6", "schedules"): {"grows", "level"},
    ("A7", "chunk-sweep"): {"straight", "bent", "free"},
    ("A8", "schedules"): {"shorter", "not_shorter"},
    ("A14", "schedules"): {"level", "higher", "lower"},
    ("A14", "chunk-sweep"): {"level", "higher", "lower", "differs"},
    ("A15", "schedules"): {"hides", "shows"},
    ("A17", "wall"): {"capped", "room"},
    ("A9", "pools"): {"decode_holds", "prefill_holds", "alike"},
    ("A10", "transfer"): {"slower", "level", "sooner", "half"},
    ("A11", "streaming"): {"flat", "slower", "grows"},
    ("A11", "needle"): {"lost", "kept", "blind"},
    ("A12", "streaming"): {"explodes", "rises", "level"},
    ("B5", "streaming"): {"explodes", "rises", "level"},
    ("B12", "streaming"): {"smaller", "level"},
    ("B12", "needle"): {"lost", "kept", "blind"},
    ("A13", "lengths"): {"holds", "helps", "useless"},
    ("A16", "lengths"): {"within", "holds", "helps", "useless"},
    ("A16", "retrieval"): {"found", "some", "lost", "blind"},
    ("B6", "lengths"): {"explodes", "breaks", "rises", "level"},
    ("B7", "lengths"): {"within", "holds", "helps", "useless"},
    ("B8", "ring"): {"shared", "uneven"},
    ("B9", "ring"): {"as_formula", "differs"},
    ("B10", "ring"): {"faster", "level", "slower", "crowded"},
    ("B11", "lengths"): {"holds", "helps", "useless"},
}


def named(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.fixture(autouse=True, scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(session, "browser", lambda: ME)
        yield


# ------------------------------------------------------------------ words


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("claim", ALL.values(), ids=lambda claim: claim.id)
def test_a_claim_has_all_its_words_and_they_name_only_what_it_has(lang, claim):
    """A missing word would show its key, a fact nobody computes would break the page."""
    words, texts = Words(lang, "claims"), table(lang, "claims")
    known = claim_card.facts(claim, words)
    for key in ("title", "place", "sum", "why", "right"):
        assert named(texts[f"{claim.id}.{key}"]) <= set(known), key
    for line in claim.lines:
        assert named(texts[f"{claim.id}.line.{line.id}"]) <= {given.symbol for given in line.inputs}, line.id
        for given in line.inputs:
            assert f"symbol.{given.symbol}" in texts
            assert given.source.kind != "chosen" or f"chosen.{given.source.text}" in texts
    assert f"verdict.{claim.verdict}.name" in texts
    assert all(f"nav.{lesson}" in words for lesson in claim.lessons)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_words_are_left_of_claims_or_lines_that_are_gone(lang):
    lines = {f"{claim.id}.line.{line.id}" for claim in ALL.values() for line in claim.lines}
    assert {key for key in table(lang, "claims") if ".line." in key} == lines
    findings = {f"{claim}.{kind}.{finding}" for (claim, kind), found in FINDINGS.items() for finding in found}
    assert {key for key in table(lang, "claims") if re.match(rf"[AB]\d+\.({'|'.join(KINDS)})\.", key)} == findings


def test_every_finding_has_a_sentence_that_names_only_what_was_read():
    assert set(FINDINGS) == {(claim.id, kind) for claim in ALL.values() for kind in claim.measured}
    for (claim, kind), findings in FINDINGS.items():
        found = ALL[claim].measure(EXAMPLES[kind])
        read = {reading.id for reading in found.readings}
        assert found.finding in findings
        for finding in findings:
            assert named(table("en", "claims")[f"{claim}.{kind}.{finding}"]) <= read


@pytest.mark.parametrize("lang", LANGUAGES)
def test_sentences_hold_no_size_that_a_profile_knows(lang):
    """Sizes, times and rates in a sentence come from the claim; typed in, they would stay when a profile changes."""
    sizes = re.compile(r"\d (?:GB|GiB|MB|TB|s|ms|FLOP|tok/s|%)(?![A-Za-z])")
    found = {key: text for key, text in table(lang, "claims").items() if re.match(r"[AB]\d", key) and sizes.search(text)}
    assert {key for key, text in found.items() if "80 GB" not in text} == set(), "the name of a card apart"


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2**31, "B", "2.15 GB (2.00 GiB)"),
        (62.5 * 2**30, "B", "67.1 GB (62.5 GiB)"),
        (163_840, "B", "163,840 B"),
        (131_072, "B/token", "131,072 B"),
        (1.342e14, "FLOP", "1.34 × 10¹⁴ FLOP"),
        (989.5e12, "FLOP/s", "989.5 TFLOP/s"),
        (864e9, "B/s", "864 GB/s"),
        (0.2097, "share", "21 %"),
        (1, "tokens", "1 token"),
        (128_000, "tokens", "128,000 tokens"),
        (0, "sequences", "0 requests"),
        (2.147, "x", "2.1×"),
        (1.035, "x", "1.03×"),
        (651.9, "turns", "652 turns"),
        (0.0753, "turns", "0.075 turns"),
        (82_684.6, "count", "82,685"),
        (1.3466, "times", "1.35"),
        (0.25, "x", "0.25×"),
        (0, "x", "0×"),
        (8, "x", "8×"),
        (241.8, "FLOP/B", "242 FLOP/B"),
        (5158.07, "perplexity", "5,158.07"),
        (5.4, "perplexity", "5.40"),
        (32, "", "32"),
    ],
)
def test_numbers_with_their_units(value, unit, text):
    assert claim_card.shown(value, unit, Words("en", "claims")) == text


def test_what_the_text_says_keeps_its_roundness():
    words = {lang: Words(lang, "claims") for lang in LANGUAGES}
    of = {claim.id: {line.id: line for line in claim.lines} for claim in ALL.values()}
    assert claim_card.said(of["A1"]["own"], words["en"]) == "1 GB"
    assert claim_card.said(of["B1"]["total"], words["en"]) == "1.3 × 10¹⁵ FLOP"
    assert claim_card.said(of["B2"]["total"], words["en"]) == "4 s"
    assert claim_card.said(of["B4"]["own"], words["en"]) == "2–3 requests"
    assert claim_card.said(of["B4"]["own"], words["ko"]) == "요청 2–3개"


# ------------------------------------------------------------------ HTML


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_card_shows_formula_inputs_both_values_and_the_verdict(lang):
    words = Words(lang, "claims")
    html = claim_card.card(ALL["A1"], [], words)
    text = re.sub(r"<[^>]+>", "", html).replace("\u00a0", " ")
    for part in ("2 × 2 × 32 × 32 × 128 × 4,096 × 1", "2.15 GB (2.00 GiB)", "1 GB", words("verdict.wrong.name"), words("card.inputs")):
        assert part in text
    assert "n<sub>layers</sub>" in html and "<details>" in html


def test_what_a_run_brings_along_is_escaped():
    """A run of another machine may be called anything."""
    result = copy.deepcopy(small.result())
    result["manifest"]["device"]["name"] = "<script>alert(1)</script>"
    html = claim_card.card(ALL["A8"], shared.measurements(ALL["A8"], {"schedules": result}), Words("en", "claims"))
    assert "&lt;script&gt;" in html and "<script" not in html


def test_the_range_of_the_repeats_is_shown_where_there_is_one():
    words = Words("en", "claims")
    several = claim_card.card(ALL["A8"], shared.measurements(ALL["A8"], RECORDED), words)
    assert "5.51\u00a0s to 5.69\u00a0s" in several and words("card.repeats", n=3) in several
    one = claim_card.card(ALL["A8"], shared.measurements(ALL["A8"], {"schedules": small.result()}), words)
    assert "Medians" not in one


def test_a_disturbed_measurement_says_so():
    words = Words("en", "claims")
    result = copy.deepcopy(small.result()) | {"disturbance": {"disturbed": True, "waited_share": 0.25, "others_cpu_share": 0.5}}
    assert "25\u00a0%" in claim_card.card(ALL["A8"], shared.measurements(ALL["A8"], {"schedules": result}), words)


def test_a_sweep_of_its_own_kind_is_found_for_its_claims_only():
    results = {"chunk-sweep": sweep({n: 1.0 + 0.1 * n for n in (1, 2, 4, 8)})}
    assert [found.finding for _, found in shared.measurements(ALL["A7"], results)] == ["straight"]
    assert shared.measurements(ALL["A8"], results) == [] and shared.measurements(ALL["A1"], results) == []


# ------------------------------------------------------------------ the page


def opened(**address: str) -> AppTest:
    app = AppTest.from_file(PAGES / "router.py", default_timeout=30)
    for name, value in address.items():
        app.query_params[name] = value
    app.run()
    app.switch_page(str(PAGES / "claims" / "page.py")).run()
    assert not app.exception
    return app


def html(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def cards(app: AppTest) -> list[str]:
    return re.findall(r"<article class='lab-claim' id='claim-(\w+)'", html(app))


def asked(app: AppTest, name: str) -> str:
    """A value of the address, which the test harness gives as a text or as a list of them."""
    value = app.query_params[name]
    return value if isinstance(value, str) else value[-1]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_shows_every_claim(lang):
    app = opened(lang=lang)
    assert cards(app) == list(ALL)
    assert Words(lang, "claims")("page.title") in html(app)
    assert re.search(r"[AB]\d+\.(title|sum|why|right|line)", html(app)) is None, "a key instead of a word"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ({"text": "B"}, ["B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11", "B12"]),
        ({"verdict": "incomplete"}, ["A7", "A8", "A10", "A11", "A13", "A16", "B7", "B8", "B9"]),
        ({"lesson": "ring"}, ["B8", "B9", "B10"]),
        ({"lesson": "rope"}, ["A13", "A16", "B6", "B7", "B11"]),
        ({"lesson": "sinks"}, ["A11", "A12", "B5", "B12"]),
        ({"lesson": "schedules"}, ["A6", "A7", "A8", "A14", "A15"]),
        ({"text": "A", "verdict": "wrong", "lesson": "memory"}, ["A1", "A2", "A3", "A4"]),
        ({"text": "B", "lesson": "schedules"}, []),
        ({"claim": "A4"}, ["A4"]),
    ],
)
def test_the_address_keeps_the_choice(address, shown):
    app = opened(lang="en", **address)
    assert cards(app) == shown
    assert {name: asked(app, name) for name in address} == address
    assert shown or Words("en", "claims")("page.none") in html(app)


def test_a_lesson_that_is_not_in_the_navigation_yet_has_no_link(monkeypatch):
    """The claims of a lesson may be there before its page."""
    two = {"A11": replace(ALL["A11"], lessons=("not-yet", "memory"))}
    monkeypatch.setattr("engine.claims.claims", lambda: two)
    app = opened(lang="en")
    assert cards(app) == ["A11"]
    assert [link.proto.label for link in app.get("page_link")] == ["Go to the lesson: Memory wall"]


def test_a_filter_goes_into_the_address_and_out_again():
    app = opened(lang="en")
    app.segmented_control(key="claims-verdict-en").set_value("depends").run()
    assert cards(app) == ["A5", "A9", "A12", "A14", "A17", "B5", "B6", "B10", "B12"] and asked(app, "verdict") == "depends"
    app.segmented_control(key="claims-verdict-en").set_value("any").run()
    assert cards(app) == list(ALL) and "verdict" not in app.query_params


def test_the_way_from_one_claim_to_all():
    app = opened(lang="en", claim="B1")
    app.button(key="everything").click().run()
    assert cards(app) == list(ALL) and "claim" not in app.query_params


HOSTILE = ["", " ", "<script>alert(1)</script>", "../../etc/passwd", "a" * 5000, "\x00", "{0.__class__}", "any", "None", "한글", "A4\x00", "🙂" * 300]
IN_THE_ADDRESS = ("text", "verdict", "lesson", "claim", "lang", *shared.SLOTS)
ADDRESSES = [{name: HOSTILE[2]} for name in IN_THE_ADDRESS] + [dict.fromkeys(IN_THE_ADDRESS, value) for value in HOSTILE]


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: ascii(address)[:40])
def test_an_address_nobody_gave_out(address):
    """Never a traceback, an unescaped word, or an empty page: what is not known does not filter. Each name by itself, then all
    of them with each value, since one that is bad can hide another only where the first was let through."""
    app = opened(**address)
    assert cards(app) == list(ALL)
    assert "<script>alert" not in html(app)


# ------------------------------------------------------------------ the reader's own run


def keep(name: str, run: str, **changes: object) -> dict:
    """A recording as a run of this machine."""
    result = copy.deepcopy(recordings.load(name)) | {"run_id": run, "provenance": "measured"} | changes
    Store().save(result)
    return result


@pytest.mark.parametrize("kind", ["streaming", "needle"])
def test_a_streaming_or_needle_run_in_the_address_is_found(kind):
    """The lesson keeps its runs under names of their own, which this page must know."""
    run = f"a-run-of-the-kind-{kind}"
    result = copy.deepcopy(small.result()) | {"schedules": {}} | EXAMPLES[kind] | {"run_id": run, "provenance": "measured"}
    Store().save(result)
    app = opened(lang="en", lesson="sinks", **{kind: run})
    measured = [part for part in html(app).split("<article")[1:] if "lab-badge-measured" in part]
    expected = [claim.id for claim in ALL.values() if kind in claim.measured]
    assert [re.search(r"claim-(\w+)'", part)[1] for part in measured] == expected


@pytest.mark.parametrize("kind", ["lengths", "retrieval"])
def test_a_run_of_the_lesson_on_rope_is_found(kind):
    run = f"a-run-of-the-kind-{kind}"
    Store().save(copy.deepcopy(small.result()) | {"schedules": {}} | EXAMPLES[kind] | {"run_id": run, "provenance": "measured"})
    app = opened(lang="en", lesson="rope", **{kind: run})
    measured = [part for part in html(app).split("<article")[1:] if "lab-badge-measured" in part]
    expected = [claim.id for claim in ALL.values() if kind in claim.measured]
    assert [re.search(r"claim-(\w+)'", part)[1] for part in measured] == expected


def test_lengths_of_each_model_stand_beside_the_claims(monkeypatch):
    """How much perplexity rises is not the same on all models; one alone would make it look like a law."""
    lab = rope_small.lengths(run_id="of-the-lab-model")
    other = rope_small.lengths(run_id="of-the-other", manifest=rope_small.manifest_of("other-model"))
    other["manifest"]["scenario"]["model"] = "other-model"
    stored = {"lengths": lab, "pretrained": other}
    monkeypatch.setattr(session, "run_id", lambda slot="run": slot if slot in stored else None)
    monkeypatch.setattr(shared, "_read", lambda run: stored.get(run))
    monkeypatch.setattr(recordings, "names", lambda kind="*", model=None: [])
    results = shared.results({"lengths"})
    assert [result["run_id"] for result in results.values()] == ["of-the-lab-model", "of-the-other"]
    assert [result["run_id"] for result, _ in shared.measurements(ALL["B6"], results)] == ["of-the-lab-model", "of-the-other"]
    del stored["pretrained"]
    assert len(shared.results({"lengths"})) == 1


def test_the_run_in_the_address_stands_beside_the_claims():
    keep("schedules-cpu", "a-run-that-is-shown")
    app = opened(lang="en", run="a-run-that-is-shown")
    measured = [part for part in html(app).split("<article")[1:] if "lab-badge-measured" in part]
    assert [re.search(r"claim-(\w+)'", part)[1] for part in measured] == ["A6", "A8", "A14", "A15"]
    assert "lab-badge-recorded" in html(app), "the chunk sweep is still the recording"


def test_a_run_of_another_kind_or_one_that_cannot_be_read_is_not_used():
    keep("chunk-sweep-cpu", "a-run-of-a-sweep")
    assert shared_results(run="a-run-of-a-sweep")["schedules"]["provenance"] == "recorded"
    assert shared_results(run="a-run-of-a-sweep")["chunk-sweep"]["provenance"] == "measured"
    files.write_atomically(runs_dir() / "a-run-that-is-cut.json", json.dumps({"kind": "schedules"})[:10])
    with pytest.raises(LabError):
        client.result("a-run-that-is-cut")
    assert shared_results(run="a-run-that-is-cut")["schedules"]["provenance"] == "recorded"


def shared_results(**address: str) -> dict[str, dict]:
    """What the page sets beside the claims, at an address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "run_id", lambda slot="run": address.get(slot))
        return shared.results({"schedules", "chunk-sweep"})


def test_without_a_run_in_the_address_the_newest_of_this_browser_counts(monkeypatch):
    result = keep("schedules-cpu", "a-run-of-this-browser")
    found = [type("Run", (), {"id": "a-run-of-this-browser"})]
    monkeypatch.setattr(client, "runs", lambda browser, limit, kind: found if (browser, kind) == (ME, "schedules") else [])
    assert shared_results()["schedules"]["run_id"] == result["run_id"]

    def busy(*_):
        raise LabError("store-busy")

    monkeypatch.setattr(client, "runs", busy)
    assert shared_results()["schedules"]["provenance"] == "recorded"
