"""The lesson on open questions: what its sentences say follows from the numbers, and nothing a reader gives breaks the page."""

from __future__ import annotations

import json

import pytest

from engine import profiles
from engine.experiments.recurrent_scenario import DECAY, DELTA, MECHANISMS, SOFTMAX, SUM
from engine.formulas.memory import request_bytes
from pages._ui import recordings
from pages._ui.words import Words
from pages.open import meaning_story as meaning
from pages.open import recurrent, run_form
from pages.open import recurrent_story as story
from pages.open import state_story as state
from pages.open import ten_story as ten
from tests.pages import streaming_small
from tests.pages.lessons import complete, html, left_open, lesson, said, stored
from tests.pages.recurrent_small import recurrent as result_of

EN, KO = Words("en", "open"), Words("ko", "open")
LANGUAGES = pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])
pytestmark = pytest.mark.usefixtures("empty_home")
MODELS, DEVICES, LINKS = profiles.models(), profiles.devices(), profiles.links()


def drawn(spec: dict) -> dict:
    """A chart that a browser can draw: finite points within its axes, JSON without NaN."""
    json.dumps(spec, allow_nan=False)
    for line in spec["lines"]:
        assert len(line["points"]) == len(line["texts"])
        for x, y in line["points"]:
            assert spec["x"]["range"][0] <= x <= spec["x"]["range"][1] and spec["y"]["range"][0] <= y <= spec["y"]["range"][1]
    return spec


# ------------------------------------------------------------------ state


@pytest.mark.parametrize("own", state.with_state(MODELS))
@LANGUAGES
def test_every_model_with_a_state_has_sentences_a_chart_and_a_row(words, own):
    """Against a large cache, a small one and latents, at both ends of the lengths: whichever is larger, it is said so."""
    for reference in ("llama-3.1-8b", "llama-2-7b", "deepseek-v3", "smollm2-135m-instruct"):
        for tokens in (state.TOKENS[0], state.LONG):
            choice = state.choice_of({"models": [own], "reference": reference, "tokens": tokens, "dtype": "int8"}, MODELS)
            assert (choice.models[0].name, choice.reference.name, choice.tokens) == (own, reference, tokens)
            (_, (second, _)) = found = state.said(choice)
            said(found, words)
            smaller = choice.size(choice.models[0]) < choice.size(choice.reference)
            assert (second in ("state.crosses", "state.always")) == smaller
            drawn(state.spec(choice, words))
            head, rows = state.table(choice, words)
            assert all(len(row) == len(head) for row in rows) and [row[0] for row in rows] == [choice.reference.title, choice.models[0].title]


def test_the_headline_by_hand():
    """Codestral Mamba: 64 layers of 128 x 64 x 128 states and 4 x 10,240 of the convolution, 16 bits each; Llama 3.1 8B keeps
    131,072 bytes per token, so 1,063.99 of them."""
    (first, facts), (second, _) = state.said(state.choice_of({}, MODELS))
    assert (first, second) == ("state.constant", "state.crosses")
    assert facts["state"] == "139 MB" and facts["crossing"] == "1,064" and facts["kv"] == "17.2 GB" and facts["ratio"] == "123"


@pytest.mark.parametrize("value", [None, [], ["no such model"], "llama-3.1-8b", 7, [["nested"]], ["codestral-mamba-7b"] * 50, {"a": 1}, True])
def test_a_choice_nobody_offered_becomes_the_lessons_own(value):
    """A session can hold anything: an old version's name, a reader's own hand."""
    everything = {name: value for name in ("models", "reference", "dtype", "tokens", "model", "other", "device", "devices", "utilisation")}
    own = state.choice_of(everything, MODELS)
    assert 1 <= len(own.models) <= state.MOST_MODELS and own.tokens in state.TOKENS
    assert ten.choice_of(everything, MODELS, DEVICES).devices in ten.DEVICES
    assert len(state.choice_of({"models": state.with_state(MODELS)}, MODELS).models) == state.MOST_MODELS


# ------------------------------------------------------------------ measured


@pytest.mark.parametrize(("ms", "key"), [({}, "quicker"), ({SOFTMAX: 0.14}, "level"), ({SOFTMAX: 0.01}, "slower")])
@LANGUAGES
def test_the_headline_follows_from_the_times(words, ms, key):
    """"A state is quicker" whatever was measured would be a slogan."""
    found = story.headline(result_of(ms=ms))
    assert found[0][0] == f"recurrent.{key}"
    assert any("short" in name for name, _ in found) == (key == "quicker")  # "only a long text gives it the lead"
    said(found, words)


@LANGUAGES
def test_short_texts_give_no_lead_unless_they_do(words):
    alike, too = story.headline(result_of()), story.headline(result_of(ms={SOFTMAX: 50}))
    assert alike[1][0] == "recurrent.short_alike" and too[1][0] == "recurrent.short_too"
    said([*alike, *too], words)
    assert [key for key, _ in story.headline(result_of(lengths=(512,)))][1].startswith("recurrent.forgets")


@LANGUAGES
def test_the_price_is_said_where_there_is_one(words):
    """Few pairs lose nothing: a sentence about forgetting there would be false."""
    lost, kept = story.forgotten(result_of()), story.forgotten(result_of(pairs=(4, 8)))
    assert lost[0][0] == "recurrent.forgets" and lost[0][1]["best"] == "6 %" and lost[0][1]["softmax"] == "100 %"
    assert kept[0][0] == "recurrent.forgets_not"
    said([*lost, *kept], words)


@LANGUAGES
@pytest.mark.parametrize("changes", [{}, {"lengths": (512,), "pairs": (2,), "key_dims": (8,)}, {"pairs": (4096,)}, {"key_dims": (4, 512)}])
def test_any_run_has_a_page(words, changes):
    """One length, one pair, keys of any size: axes of no width, empty tables, a number that is not there."""
    result = result_of(**changes)
    texts = [story.about(result, words), story.bytes_said(result, words), story.forms_said(result, words)]
    texts += [story.time_alt(result, words), story.bytes_alt(result, words)]
    said(story.headline(result), words)
    for spec in (story.time_spec(result, words), story.bytes_spec(result, words)):
        drawn(spec)
    for dim in story.key_dims(result):
        said(story.recall_said(result, dim), words)
        drawn(story.recall_spec(result, dim, words))
        texts.append(story.recall_alt(result, dim, words))
        for head, rows in (story.recall_table(result, dim, words), story.ages_table(result, dim, words), story.rewrites_table(result, dim, words)):
            assert all(len(row) == len(head) for row in rows)
    assert not any(left_open(text) for text in texts), texts


@LANGUAGES
@pytest.mark.parametrize(
    ("ages", "key"),
    [
        ({SUM: (0.5, 0.5), DECAY: (0.1, 0.9), DELTA: (0.1, 0.9)}, "old_first"),
        ({SUM: (1.0, 1.0), DECAY: (0.95, 1.0), DELTA: (1.0, 1.0)}, "not_yet"),
        ({SUM: (0.5, 0.5), DECAY: (0.5, 0.5), DELTA: (0.1, 0.9)}, "unsorted"),
        ({SUM: (0.2, 0.8), DECAY: (0.1, 0.9), DELTA: (0.1, 0.9)}, "unsorted"),
    ],
)
def test_who_forgets_what_is_said_of_what_was_measured(words, ages, key):
    """With a decay of 1, which the lesson asks to try, half was forgotten and the page said there was nothing to forget."""
    result = result_of(key_dims=(64,))
    for row in result["recall"]:
        old, new = ages.get(row["mechanism"], (1.0, 1.0))
        row["by_age"] = [old, old, new, new]
    found = story.recall_said(result, 64)
    assert found[1][0] == f"recall.{key}"
    said(found, words)


def test_what_a_mechanism_knows_ends_at_the_first_failure():
    """A lucky rate behind a bad one must not count as knowing; none at all is said as a dash, not as a number."""
    result = result_of(pairs=(4, 64, 1024), key_dims=(64,))
    rates = {4: 1.0, 64: 0.5, 1024: 1.0}
    for row in result["recall"]:
        row["rate"] = rates[row["pairs"]]
    assert story.known_up_to(result, 64, SUM) == 4 and story.known_up_to(result, 64, SUM, 0.5) == 1024
    for row in result["recall"]:
        row["rate"] = 0.1
    assert story.known_up_to(result, 64, DELTA) is None
    assert story.recall_table(result, 64, EN)[1][0][2] == "–"


@LANGUAGES
def test_a_result_that_contradicts_itself_is_called_wrong(words):
    """Bytes off the formula, forms apart: the page must not praise them."""
    result = result_of()
    result["decode"][0]["bytes"] += 4
    result["forms"]["differences"][DECAY]["chunked"] = 0.5
    assert story.bytes_said(result, words) != story.bytes_said(result_of(), words)
    assert words("recurrent.forms_apart", tokens="256", worst="0.500000") == story.forms_said(result, words)


@LANGUAGES
def test_every_phase_setting_and_mechanism_has_a_name(words):
    for phase in recurrent.PHASES:
        assert f"phase.{phase}" in words
    for name in (*run_form.OFFERED, *run_form.NUMBERS, "decay"):
        assert f"field.{name}" in words and f"run.help_{name}" in words
    assert all(f"mechanism.{m}" in words for m in MECHANISMS) and all(f"policy.{p}" in words for p in ("forms", "decode", "recall"))


# ------------------------------------------------------------------ meaning and ten million


@LANGUAGES
def test_meaning_says_what_both_results_say(words):
    """Perplexity alone, needles alone, both, none: each has its sentences, and no row is made up."""
    streaming, needle = streaming_small.streaming(), streaming_small.needle()
    for both in ((streaming, needle), (streaming, None), (None, needle), (None, None)):
        said(meaning.said(*both), words)
        head, rows = meaning.table(*both, words)
        assert all(len(row) == len(head) for row in rows)
    shipped = [recordings.load(name) for name in ("streaming-cpu", "needle-cpu")]
    keys = [key for key, _ in meaning.said(*shipped)]
    assert keys == ["meaning.perplexity_little", "meaning.needle_lost", "meaning.question_helps"], "what the recordings show"
    head, rows = meaning.published(words)
    assert len(rows) == 4 and all(len(row) == len(head) for row in rows) and rows[0][3] == "0 %"


@pytest.mark.parametrize("model", ten.growing(MODELS))
@LANGUAGES
def test_every_model_at_ten_million_tokens(words, model):
    """Latents, windows, mixtures, hybrids: bytes as the formula has them, times that are positive, a chart that can be drawn."""
    choice = ten.choice_of({"model": model, "other": "rwkv-4-14b"}, MODELS, DEVICES)
    said(ten.said(choice, LINKS), words)
    assert choice.size(choice.model) == request_bytes(MODELS[model].groups, ten.LONG, "bf16")
    assert choice.prefill_s() > 0 and choice.holders >= 1
    drawn(ten.spec(choice, LINKS, words))
    assert not left_open(ten.alt(choice, LINKS, words))
    head, rows = ten.table(choice, LINKS, words)
    assert len(rows) > 10 and all(len(row) == len(head) for row in rows)


def test_the_prefill_is_the_dense_formula_where_there_is_one():
    """Llama 3.1 8B: the count of the other lessons, plus the embedding that its parameters include; a square forgotten, or a
    layer too few, is off by more than that."""
    model = MODELS["llama-3.1-8b"]
    assert ten.prefill_flops(model, ten.LONG) == pytest.approx(model.prefill_flops(ten.LONG), rel=0.01)
    assert ten.prefill_flops(model, 4096) == pytest.approx(model.prefill_flops(4096), rel=0.2)


@LANGUAGES
def test_which_of_both_is_longer_is_computed(words):
    """A slow GPU in front of a quick link, and many quick ones in front of it: the sentence turns."""
    quick = ten.choice_of({"model": "jamba-v0.1", "device": "b200", "devices": 64, "utilisation": 0.8}, MODELS, DEVICES)
    usual = ten.choice_of({}, MODELS, DEVICES)
    assert ten.said(usual, LINKS)[1][0] == "ten.prefill_longer"
    slow = {**LINKS, ten.LINK: LINKS["ethernet-10"]}
    keys = {ten.said(quick, slow)[1][0], ten.said(usual, slow)[1][0]}
    assert keys == {"ten.link_longer", "ten.prefill_longer"}
    said(ten.said(quick, slow), words)
    heavier = ten.choice_of({"model": "deepseek-v2-lite", "other": "minimax-text-01", "dtype": "bf16"}, MODELS, DEVICES)
    assert ten.said(heavier, LINKS)[-1][0] == "ten.other_more"


# ------------------------------------------------------------------ the page


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize(
    ("part", "shown"),
    [("state", "139 MB"), ("recurrent", "lab-title"), ("meaning", "lab-badge-published"), ("ten-million", "493 GB"), ("details", "lab-title")],
)
def test_every_part_opens(lang, part, shown):
    found = complete(lesson("open", lang=lang, part=part))
    assert shown in found and Words(lang, "open")("page.title") in found
    assert not left_open(found), "a key instead of a word"


def test_a_run_in_the_address_is_shown_with_its_price():
    run = stored(result_of(), "a recurrent run")
    app = lesson("open", lang="en", part="recurrent", recurrent=run)
    found = complete(app)
    assert "lab-badge-measured" in found and "of 1,024 pairs" in found
    assert not left_open(found)


def test_without_any_result_the_page_says_so(monkeypatch):
    monkeypatch.setattr(recordings, "names", lambda kind="*", model=None: [])
    for part in ("recurrent", "meaning"):
        assert EN("source.none_title") in html(lesson("open", lang="en", part=part))


@pytest.mark.parametrize("value", ["", "../../etc/passwd", "<script>alert(1)</script>", "\x00"])
@pytest.mark.parametrize("name", ["recurrent", "part"])
def test_an_address_nobody_gave_out(name, value):
    complete(lesson("open", **{"lang": "en", "part": "recurrent", name: value}))
