"""The ring lesson without a browser: sentences that follow from a result, tracks and tables that show it, and when a ring hides."""

import copy

import pytest

from engine import profiles
from engine.formulas import ring as formulas
from pages._ui import recordings
from pages._ui.words import Words
from pages.ring import calculator, steps
from pages.ring import measured_story as story
from pages.ring.calculator import FIRST, RANKS, Choice
from tests.pages import ring_small as small

EN, KO = Words("en", "ring"), Words("ko", "ring")
LANGUAGES = pytest.mark.parametrize("words", [EN, KO], ids=["en", "ko"])


def keys(result: dict) -> list[str]:
    found = [*story.headline(result), *story.time_said(result), *story.bytes_said(result), *filter(None, [story.times_note(result)])]
    return [key.removeprefix("measured.") for key, _ in found]


def whole(result: dict, words: Words) -> str:
    """Everything that the page says of a result."""
    sentences = [*story.headline(result), *story.time_said(result), *story.bytes_said(result), *filter(None, [story.times_note(result)])]
    tables = [cell for table in (story.time_table, story.bytes_table) for row in table(result, words)[1] for cell in row]
    told = [words(key, **facts) for key, facts in sentences] + [value for _, value in story.figures(result, words)]
    for name in result["layouts"]:
        spec = story.tracks_spec(result, name, 0, words)
        told += [story.tracks_alt(result, name, 0, words), spec["x"]["title"], *labels(spec)]
        told += [text for line in spec["lines"] for text in (line["name"], *line["texts"])]
    return " ".join([*told, *tables, story.about(result, words), story.time_bars(result, words)])


def labels(spec: dict) -> list[str]:
    return [label for axis in "xy" for _, label in spec[axis]["ticks"]]


RESULTS = {
    "two": small.ring(2),
    "four": small.ring(4),
    "one": small.ring(1),
    "uneven": small.ring(3, 17),
    "slow-link": small.ring(2, transfer_s=0.5),
    "nobody-compared": small.ring(2, alone=None, agreement=None),
    "crowded": small.ring(4, processes_at_most_cores=False),
}


@LANGUAGES
@pytest.mark.parametrize("name", RESULTS)
def test_whatever_comes_of_a_run_can_be_told(name, words):
    """A key instead of a sentence, a fact without a value, or a traceback for one rank or a run without comparison."""
    told = whole(RESULTS[name], words)
    assert not [bad for bad in ("{", "measured.", "nan", "None", "e-0") if bad in told]
    head, rows = story.bytes_table(RESULTS[name], words)
    assert all(len(row) == len(head) for row in rows)


def test_the_headline_says_whether_the_ring_computes_the_same():
    """Against the spread of the logits: 0.01 is rounding in bf16 and an error where all logits are alike."""
    result = small.ring(4)
    assert keys(result)[0] == "head_same" and story.headline(result)[0][1]["share"] == "25 %"

    def apart(difference: float) -> str:
        return keys(small.ring(4, agreement=result["agreement"] | {"largest_difference": difference}))[0]

    assert apart(0.1) == "head_near" and apart(1.0) == "head_apart"
    assert keys(small.ring(1))[0] == "head_one"
    assert keys(small.ring(2, alone=None, agreement=None))[0] == "head_unchecked"


def test_imbalance_is_counted_not_timed():
    """Two ranks in order: one triangle, and one triangle with a square under it. Rank 1 has three times the pairs."""
    found = dict(story.time_said(small.ring(2)))
    assert "measured.even_zigzag" in found
    assert found["measured.uneven_contiguous"]["ratio"] == "3.0" and found["measured.uneven_contiguous"]["most"] == "1"
    assert found["measured.uneven_contiguous"]["balance"] == "67 %"


def test_waiting_is_told_as_it_was_measured():
    """That one layout should wait longer is no reason to say that it did."""
    result = small.ring(2)

    def waiting(contiguous: float, zigzag: float) -> str:
        changed = copy.deepcopy(result)
        for name, value in (("contiguous", contiguous), ("zigzag", zigzag)):
            for rank in changed["layouts"][name]["ranks"]:
                rank["waited_s"] = value
        return next(key for key in keys(changed) if key.startswith("waits"))

    assert waiting(0.03, 0.01) == "waits_longer"
    assert waiting(0.01, 0.01) == waiting(0.01, 0.03) == "waits_alike"


@pytest.mark.parametrize(("alone", "key"), [(1.0, "one_faster"), (0.01, "one_slower")])
def test_the_ring_beside_one_process(alone, key):
    assert key in keys(small.ring(2, alone_s=alone))
    crowded = keys(small.ring(2, alone_s=alone, processes_at_most_cores=False))
    assert "one_crowded" in crowded and key not in crowded and crowded[-1] == "crowded", "ranks that share cores prove nothing"


def test_bytes_are_set_against_the_formula():
    """Also those of the layout that the table does not show."""
    result = small.ring(3)
    assert "sent_exact" in keys(result)
    wrong = copy.deepcopy(result)
    wrong["layouts"]["contiguous"]["ranks"][1]["sent_bytes"] += 4
    assert "sent_differs" in keys(wrong)


def test_the_tracks_show_every_block_and_transfer():
    """Compared with the result: one bar for each block that has pairs, one for each transfer, and none that ends too early."""
    result = small.ring(2, transfer_s=0.5)
    spec = story.tracks_spec(result, "contiguous", 1, EN)
    by_style = {style: [line for line in spec["lines"] if line["style"] == style] for style in (story.COMPUTE, story.TRANSFER, story.WAIT)}
    # Rank 0 has its own block only, rank 1 two; one transfer each; on a slow link both wait.
    assert [len(lines) for lines in by_style.values()] == [3, 2, 2]
    rounds = [entry for rounds in story.of_layer(result, "contiguous", 1) for entry in rounds]
    ends = [entry["communication"][1] - entry["communication"][0] for entry in rounds if entry["communication"]]
    assert [line["points"][-1][0] - line["points"][0][0] for line in by_style[story.TRANSFER]] == pytest.approx(ends)
    assert [label for _, label in spec["y"]["ticks"]] == ["0: compute", "0: receive", "1: compute", "1: receive"]
    heights = [at for at, _ in spec["y"]["ticks"]]
    assert heights == sorted(heights, reverse=True), "rank 0 on top"
    assert all(0 <= x <= spec["x"]["range"][1] + 1e-12 for line in spec["lines"] for x, _ in line["points"])
    assert sum(line["label"] == "legend" for line in spec["lines"]) == 3


def test_the_parts_of_the_time_are_all_of_it():
    for layout in small.ring(4)["layouts"].values():
        for rank in layout["ranks"]:
            assert sum(value for _, value in story.parts_of(rank)) == pytest.approx(story.lasted(rank))


@pytest.mark.skipif("ring-cpu" not in recordings.names("ring"), reason="no recording of a ring ships")
@LANGUAGES
def test_the_recording_is_told(words):
    result = recordings.load("ring-cpu")
    assert "sent_exact" in keys(result) and keys(result)[0] == "head_same"
    assert "measured." not in whole(result, words)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (6.5e-5, "0.000065"), (1e-8, "< 0.000001"), (0.012, "0.012"), (1.5, "1.5"), (4e-4, "0.0004")])
def test_small_differences_have_no_exponent(value, text):
    assert story.small(value) == text


# ------------------------------------------------------------------ when it hides


def choice(**changes: object) -> Choice:
    found = FIRST | changes
    named = {"model": profiles.model, "device": profiles.device, "link": profiles.link}
    return Choice(**{name: named[name](value) if name in named else value for name, value in found.items()})


def test_hidden_is_where_the_two_times_are_equal():
    """Worked out by hand: an H100 at its full rate, 8 KV heads for 32 heads, 2 bytes, 50 GB/s."""
    least = 989.5e12 * 2 * 8 / (32 * 50e9)
    assert choice().least == pytest.approx(least)
    above, below = (choice(ranks=1_000_000 // round(least) + shift) for shift in (-3, 3))
    assert above.hides and not below.hides
    assert above.exposed_s == 0 and below.exposed_s == pytest.approx(32 * (below.ranks - 1) * (below.transfer_s - below.compute_s))
    assert calculator.said(above)[0][0] == "calc.hides" and calculator.said(below)[0][0] == "calc.shows"
    assert choice(utilisation=0.5).least == pytest.approx(least / 2), "a slower device hides sooner"


def test_the_memory_of_a_rank():
    """A million tokens of Llama 3.1 8B over 16 ranks: 62,500 tokens of 131,072 bytes; weights are not divided."""
    found = choice().memory
    assert found["kv"] == 62_500 * 131_072 and found["buffers"] == 2 * 62_500 * 4_096
    assert found["weights"] == choice(ranks=128).memory["weights"] == 2 * 8_030_261_248
    assert choice(ranks=16, tokens=1_000_001).share == 62_501, "the rank that has most"


@pytest.mark.parametrize(
    ("changes", "key"),
    [({}, "calc.fits"), ({"tokens": 100_000}, "calc.fits_alone"), ({"model": "llama-3.1-405b", "ranks": 128}, "calc.fits_not")],
)
def test_what_fits_is_said(changes, key):
    assert calculator.said(choice(**changes))[1][0] == key


@LANGUAGES
def test_every_choice_gives_a_page(words):
    """Whatever can be chosen: no exponent, no key, no traceback."""
    for model in calculator.models():
        for corner in ({}, {"tokens": 1_000, "ranks": 128, "link": "nvlink-5"}, {"tokens": 100_000_000, "ranks": 2, "link": "ethernet-10"}):
            one = choice(model=model, **corner)
            spec = calculator.spec(one, words)
            told = [words(key, **facts) for key, facts in calculator.said(one)] + calculator.formula(one, words) + [calculator.alt(one, words)]
            told += [cell for head, rows in (calculator.by_ranks(one, words), calculator.by_link(one, words)) for row in rows for cell in row]
            text = " ".join([*told, *labels(spec)])
            assert not [bad for bad in ("{", "calc.", "nan", "inf ", "e+", "e-0") if bad in text], (model, corner)
            low, high = spec["y"]["range"]
            assert all(low <= y <= high for line in spec["lines"] for _, y in line["points"])
            assert 2 <= len(spec["y"]["ticks"]) <= 6


def test_the_table_of_ranks_is_the_choice_for_each():
    head, rows = calculator.by_ranks(choice(), EN)
    assert [row[0] for row in rows] == ["1", *map(str, RANKS)]
    assert all(len(row) == len(head) for row in rows)
    hides = head.index("Hides")
    assert [row[hides] for row in rows] == ["–"] + ["yes"] * 6 + ["no"]


# ------------------------------------------------------------------ step by step


@LANGUAGES
def test_the_steps_have_their_words(words):
    found = steps.payload(words)
    assert found["chosen"] in found["ranks"]
    for layout in formulas.LAYOUTS:
        assert f"steps.title_{layout}" in found["words"]
