"""The claims of the source texts: all there, the values of the shared table, computed anew from the profiles each time."""

import re
from dataclasses import replace
from math import ceil, floor, log, pi

import pytest

from engine import profiles
from engine.claims import LESSONS, TEXTS, VERDICTS, claims
from engine.claims.claim import SOURCES, Line, written
from engine.formulas.kv import Attention
from engine.model.catalog import CATALOG

# The rows of all lessons that are there, with the table's verdicts in the words of the closed set.
ROWS = {
    "A1": "wrong", "A2": "wrong", "A3": "wrong", "A4": "wrong", "A5": "depends", "A6": "wrong", "A7": "incomplete", "A8": "incomplete",
    "A9": "depends", "A10": "incomplete", "A11": "incomplete", "A12": "depends", "A13": "incomplete", "A14": "depends", "A15": "wrong", "A16": "incomplete",
    "A17": "depends", "B1": "wrong", "B2": "wrong",
    "B3": "wrong", "B4": "wrong", "B5": "depends", "B6": "depends", "B7": "incomplete", "B8": "incomplete", "B9": "incomplete", "B10": "depends",
    "B11": "wrong", "B12": "depends",
}  # fmt: skip
ALL = claims()
LINES = [(claim.id, line) for claim in ALL.values() for line in claim.lines]


def line(claim: str, name: str) -> Line:
    return next(found for found in claims()[claim].lines if found.id == name)


def computed(formula: str) -> float:
    """What a formula with its numbers comes to, worked out from nothing but its text."""
    text = formula.translate(str.maketrans("×÷−", "*/-")).replace(",", "").replace("^", "**")
    text = re.sub(r"max\((\d) ", r"max(\1, ", text)
    powers = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda found: "**" + found[0].translate(powers), text)
    for left, right, name in (("⌊", "⌋", "floor"), ("⌈", "⌉", "ceil")):
        text = text.replace(left, f"{name}(").replace(right, ")")
    return eval(text, {"__builtins__": {}, "floor": floor, "ceil": ceil, "max": max, "ln": log, "π": pi})


def test_every_row_of_these_lessons_is_there_in_order():
    """A row that is forgotten, or one shown in an order nobody can follow."""
    assert {name: claim.verdict for name, claim in ALL.items()} == ROWS
    assert list(ALL) == list(ROWS)


def test_everything_is_of_a_closed_set():
    """A misspelt lesson or source would show nowhere."""
    for claim in ALL.values():
        assert claim.text in TEXTS and claim.verdict in VERDICTS
        assert claim.lessons and set(claim.lessons) <= set(LESSONS)
        assert len({line.id for line in claim.lines}) == len(claim.lines) > 0
        for given in (given for line in claim.lines for given in line.inputs):
            assert given.source.kind in SOURCES and given.source.text.strip()
            assert (given.source.kind == "published") == bool(given.source.title)
            assert given.source.kind != "text" or given.source.text in TEXTS


@pytest.mark.parametrize(("claim", "line"), LINES, ids=lambda x: x if isinstance(x, str) else x.id)
def test_the_formula_with_its_numbers_gives_our_value(claim, line):
    """A formula on the page that is not the one computed, or an input that the list of inputs lacks."""
    assert "{" not in line.with_numbers and "{" not in line.with_symbols
    assert computed(line.with_numbers) == pytest.approx(line.value, rel=1e-8)
    symbols = set(re.findall(r"\{(\w+)\}", line.formula))
    assert symbols == {given.symbol for given in line.inputs} and len(symbols) == len(line.inputs)


# Worked out from the table and by hand, not by the engine's formulas: (claim, line, value, what the text says).
TABLE = [
    ("A1", "own", 2 * 2**30, 1e9),
    ("A2", "own", 62.5 * 2**30, 32e9),
    ("A2", "power", 64 * 2**30, None),
    ("A3", "kv_heads", 8, 32),
    ("A3", "token", 131_072, 524_288),
    ("A3", "short", 0.5 * 2**30, 1e9),
    ("A3", "long", 15.625 * 2**30, 32e9),
    ("A4", "share_gqa", 0.2097, 0.5),
    ("A4", "share_mha", 0.8389, 0.5),
    ("A4", "total_gqa", 32.84e9, None),
    ("A4", "total_mha", 80.59e9, None),
    ("A4", "fit_gqa", 3, None),
    ("A4", "fit_mha", 0, None),
    ("A5", "ridge", 295.4, None),
    ("A5", "batch", 296, None),
    ("A5", "prompt_older", 154, None),
    ("A5", "attention_mha", 1, None),
    ("A5", "attention_gqa", 4, None),
    ("A5", "attention_mla", 241.8, None),
    ("A6", "whole", 32_768**2, 8 * 4_096**2),
    ("A6", "masked", 36 * 4_096**2, 8 * 4_096**2),
    ("A6", "decode", 16.06e9, 10 * 4_096 * 4),
    ("A7", "whole", 0.7467, None),
    ("A7", "large", 0.03366, None),
    ("A7", "tiny", 1.2260, None),
    ("A8", "chunk", 0.12445, None),
    ("A8", "decode", 0.004794, None),
    ("A9", "wide_a100", 864 / 2039, None),
    ("A9", "wide_h100", 864 / 3350, None),
    ("A9", "wide_older", 2039 / 3350, None),
    ("A9", "room", 48.306 / 85.899, None),
    ("A9", "fit_l40s", 1, None),
    ("A9", "fit_a100", 3, None),
    ("A9", "speed_l40s", 864e9 / (16.0605e9 + 16.7772e9), None),
    ("A9", "speed_a100", 3 * 2039e9 / (16.0605e9 + 3 * 16.7772e9), None),
    ("A9", "even", 0.28574, None),
    ("A10", "bytes", 0.5, 0.5),
    ("A10", "int4", 148 / 512, None),
    ("A10", "over", 0.33554, None),
    ("A10", "ethernet", 0.50112, 0.5),
    ("A10", "infiniband", 0.54478, 0.5),
    ("A10", "nvlink", 0.90299, 0.5),
    ("A11", "cache", 2**30, None),
    ("A11", "whole", 524_288 * 4e6, None),
    ("A11", "forgotten", 3_997_952, None),
    ("A11", "beyond", 252, None),
    ("A11", "found", 0, None),
    ("A12", "window", 5158.07 / 5.40, None),
    ("A12", "newlines", 5.60 / 5.40, None),
    ("A12", "falcon", 17.90 / 12.12, None),
    ("A13", "base", 82_684.6, None),
    ("A13", "first", 1, None),
    ("A13", "middle", 2.8755, None),
    ("A13", "last", 8, None),
    ("A13", "literal", 8.26846, None),
    ("A13", "grown", 20_221.3, None),
    ("A13", "lab", 43_873.0, None),
    ("A14", "saved", 8 * (0.0047942 - 0.00014107), None),
    ("A15", "tpot", 0.06677, None),
    ("A16", "other", 8.49 / 2.77, None),
    ("A16", "tuning", 3.45 / 2.77, None),
    ("A16", "short", 4.19 / 4.05, None),
    ("A16", "tokens", 1_677_721_600, None),
    ("A16", "temperature", 1.34657, None),
    ("A17", "long_fit", 3, None),
    ("A17", "short_fit", 113, None),
    ("A17", "shorter_fit", 453, None),
    ("A17", "long_one", 102.0, None),
    ("A17", "long_all", 151.4, None),
    ("B1", "own", 1.342e14, 1.3e15),
    ("B1", "power", 1.407e14, 1.3e15),
    ("B1", "attention", 4.504e16, 1.3e15),
    ("B1", "causal", 2.252e16, 1.3e15),
    ("B1", "matrices", 1.794e16, None),
    ("B2", "own", 4.167, 4),
    ("B2", "attention", 144.3, None),
    ("B2", "causal", 72.17, None),
    ("B2", "matrices", 57.51, None),
    ("B2", "total", 129.7, 4),
    ("B3", "own", 34.36e9, 26e9),
    ("B3", "sequence", 42.95e9, None),
    ("B3", "batch", 343.6e9, 26e9),
    ("B4", "weights", 137.95e9, None),
    ("B4", "one", 0, 3),
    ("B4", "four_all", 4, None),
    ("B4", "four_reserve", 3, None),
    ("B4", "own", 24, 3),
    ("B5", "llama", 3359.95 / 9.59, None),
    ("B5", "mpt", 460.29 / 14.99, None),
    ("B5", "pythia", 21.62 / 12.09, 10),
    ("B5", "falcon", 17.90 / 12.12, 10),
    ("B6", "llama", 1000 / 7.20, 32),
    ("B6", "pi", 8.07 / 3.34, 32),
    ("B6", "ntk", 6.24 / 3.59, 32),
    ("B6", "yarn", 6.04 / 3.35, 32),
    ("B7", "first", 20, None),
    ("B7", "last", 46, None),
    ("B7", "by_index", 0.5, None),
    ("B7", "by_turns", 0.14985, None),
    ("B7", "factor", 0.515625, None),
    ("B7", "temperature", 1.34657, None),
    ("B7", "scores", 1.81326, None),
    ("B7", "fixed", 4.61 / 4.05 - 1, 0.02),
    ("B7", "tuned", 4.19 / 4.05 - 1, 0.02),
    ("B7", "dynamic", 0, None),
    ("B8", "matrix", 2e12, 2e12),
    ("B8", "block", 7.8125e9, 8e9),
    ("B8", "kv", 131_072 * 62_500, None),
    ("B8", "buffers", 2 * 4_096 * 62_500, None),
    ("B8", "worked_on", 62_500 * (30_720 + 16_640), None),
    ("B9", "own", 256e6, None),
    ("B9", "gqa", 256e6, 256e6),
    ("B9", "mha", 1.024e9, 256e6),
    ("B9", "whole", 122.88e9, 256e6),
    ("B9", "nvlink", 1_099.4, None),
    ("B9", "infiniband", 9_895, None),
    ("B9", "ethernet", 395_800, None),
    ("B10", "kv", 131.072e9, None),
    ("B10", "kv_rank", 8.192e9, None),
    ("B10", "alone", 279.03, None),
    ("B10", "together", 17.44, None),
    ("B11", "turns_first", 651.899, None),
    ("B11", "turns_last", 0.0752801, None),
    ("B11", "llama", 18, None),
    ("B11", "lab", 10, None),
    ("B11", "smollm2", 12, None),
    ("B11", "pairs_llama", 64, None),
    ("B11", "pairs_lab", 16, None),
    ("B11", "pairs_smollm2", 32, None),
    ("B12", "whole", 131.072e9, None),
    ("B12", "ring", 8.192e9, None),
    ("B12", "sinks", 2**29, None),
    ("B12", "forgotten", 995_904, None),
]


@pytest.mark.parametrize(("claim", "name", "value", "text"), TABLE, ids=lambda x: str(x))
def test_the_values_of_the_table(claim, name, value, text):
    found = line(claim, name)
    assert found.value == pytest.approx(value, rel=1e-3)
    assert (max(found.said) if found.said else None) == text


def test_the_ratio_to_the_text():
    """Against a range the nearer end counts, and within it there is nothing to be off by."""
    assert line("A6", "whole").ratio == 8 and line("A6", "masked").ratio == 4.5, "n, and (n + 1) / 2"
    assert line("A1", "own").ratio == pytest.approx(2.147, rel=1e-3)
    assert line("B4", "own").ratio == 8 and line("B4", "one").ratio == 0
    assert line("B4", "weights").ratio is None
    assert Line("x", "", (), 2.5, "sequences", (2, 3)).ratio == 1


def test_128k_is_written_as_the_tokens_that_are_meant():
    lengths = {(claim, line.id): given.value for claim, line in LINES for given in line.inputs if given.symbol == "L"}
    assert lengths["A2", "own"] == lengths["A4", "share_gqa"] == 128_000
    assert lengths["B1", "attention"] == lengths["B3", "own"] == lengths["B4", "one"] == 131_072


def test_every_verdict_on_what_fits_states_usable_bytes_and_reserve():
    fitting = [line for _, line in LINES if line.formula.startswith("⌊max(0")]
    assert len(fitting) == 10
    for found in fitting:
        given = {g.symbol: g for g in found.inputs}
        assert given["M"].source.kind == "published" and "nvidia-smi" in given["M"].source.text
        assert given["r"].value in (0, 0.1) and given["P"].value > 0


def changed(monkeypatch, kind: str, name: str, **figures: object) -> None:
    """The profile of that name with other figures."""
    found = getattr(profiles, kind)
    other = replace(found(name), **figures)
    monkeypatch.setattr(profiles, kind, lambda wanted: other if wanted == name else found(wanted))


def edited(table: str, column: str, value: float, other: float) -> tuple[dict, ...]:
    """The rows of a paper's table with another number wherever the column has that one."""
    return tuple(row | {column: other} if row.get(column) == value else row for row in profiles.table(table).rows)


CHANGES = [
    ("model", "llama-3-8b", {"groups": (Attention(64, 8, 128, 128),)}, ("A3", "token")),
    ("model", "llama-3-8b", {"parameters": 1}, ("A4", "total_gqa")),
    ("model", "llama-2-7b", {"parameters": 1}, ("A4", "total_mha")),
    ("device", "h100-sxm", {"nominal_bytes": 1}, ("A4", "share_gqa")),
    ("device", "h100-sxm", {"usable_bytes": 10**12}, ("A4", "fit_mha")),
    ("model", "llama-3-8b", {"heads": 64}, ("A5", "attention_gqa")),
    ("device", "h100-sxm", {"bf16_flops_per_s": 1e15}, ("A5", "ridge")),
    ("model", "llama-3-8b", {"parameters": 1}, ("A6", "decode")),
    ("device", "h100-sxm", {"memory_bytes_per_s": 1e12}, ("A7", "large")),
    ("model", "llama-3-8b", {"ffn_size": 1}, ("A8", "chunk")),
    ("device", "h100-sxm", {"memory_bytes_per_s": 1e12}, ("A14", "saved")),
    ("device", "h100-sxm", {"usable_bytes": 10**12}, ("A17", "short_fit")),
    ("device", "h100-sxm", {"memory_bytes_per_s": 1e12}, ("A17", "long_all")),
    ("device", "l40s", {"memory_bytes_per_s": 1e12}, ("A9", "wide_a100")),
    ("device", "a100-80gb-sxm", {"usable_bytes": 10**11}, ("A9", "room")),
    ("model", "llama-3-8b", {"groups": (Attention(32, 2, 128, 128),)}, ("A9", "even")),
    ("model", "llama-2-70b", {"groups": (Attention(81, 8, 128, 128),)}, ("B1", "attention")),
    ("device", "a100-80gb-sxm", {"bf16_flops_per_s": 1e14}, ("B2", "total")),
    ("model", "llama-2-70b", {"groups": (Attention(80, 64, 128, 128),)}, ("B3", "batch")),
    ("device", "a100-80gb-sxm", {"usable_bytes": 10**11}, ("B4", "four_reserve")),
    ("model", "llama-2-7b", {"groups": (Attention(32, 8, 128, 128),)}, ("A11", "cache")),
    ("table", "streamingllm-table-7", {"rows": edited("streamingllm-table-7", "accuracy", 0.0, 0.1)}, ("A11", "found")),
    ("table", "streamingllm-table-1", {"rows": edited("streamingllm-table-1", "perplexity", 5.40, 5.0)}, ("A12", "window")),
    ("table", "streamingllm-table-1", {"rows": edited("streamingllm-table-1", "perplexity", 5.60, 5.0)}, ("A12", "newlines")),
    ("table", "streamingllm-table-2", {"rows": edited("streamingllm-table-2", "perplexity", 17.90, 18.0)}, ("A12", "falcon")),
    ("table", "streamingllm-table-2", {"rows": edited("streamingllm-table-2", "perplexity", 460.29, 18.0)}, ("B5", "mpt")),
    ("table", "streamingllm-table-2", {"rows": edited("streamingllm-table-2", "recent", 4092, 1020)}, ("B12", "sinks")),
    ("model", "llama-3-8b", {"groups": (Attention(64, 8, 128, 128),)}, ("B12", "ring")),
    ("model", "llama-2-7b", {"groups": (Attention(32, 32, 64, 64),)}, ("A13", "base")),
    ("model", "llama-2-7b", {"max_context_tokens": 2048}, ("A13", "grown")),
    ("table", "yarn-table-5", {"rows": edited("yarn-table-5", "perplexity", 8.49, 2.8)}, ("A16", "other")),
    ("table", "yarn-table-5", {"rows": edited("yarn-table-5", "perplexity", 3.45, 2.8)}, ("A16", "tuning")),
    ("table", "yarn-table-1", {"rows": edited("yarn-table-1", "scale", 32, 64)}, ("A16", "temperature")),
    ("table", "pi-table-1", {"rows": edited("pi-table-1", "above", 1000, 100)}, ("B6", "llama")),
    ("table", "yarn-v2-table-1", {"rows": edited("yarn-v2-table-1", "perplexity", 6.04, 3.4)}, ("B6", "yarn")),
    ("model", "llama-2-7b", {"groups": (Attention(32, 32, 64, 64),)}, ("B7", "last")),
    ("table", "yarn-table-5", {"rows": edited("yarn-table-5", "perplexity", 4.61, 4.1)}, ("B7", "fixed")),
    ("model", "llama-3-8b", {"heads": 64}, ("B8", "worked_on")),
    ("model", "llama-3-8b", {"groups": (Attention(32, 4, 128, 128),)}, ("B8", "buffers")),
    ("model", "llama-3-8b", {"hidden_size": 1024}, ("B9", "own")),
    ("model", "llama-2-7b", {"groups": (Attention(32, 8, 128, 128),)}, ("B9", "mha")),
    ("link", "nvlink-4", {"bytes_per_s": 1e9}, ("B9", "nvlink")),
    ("device", "h100-sxm", {"bf16_flops_per_s": 1e15}, ("B9", "ethernet")),
    ("model", "llama-3-8b", {"ffn_size": 1}, ("B10", "together")),
    ("model", "llama-2-7b", {"max_context_tokens": 2048}, ("B11", "llama")),
    ("model", "smollm2-135m-instruct", {"max_context_tokens": 2048}, ("B11", "smollm2")),
]


@pytest.mark.parametrize(("kind", "name", "figures", "where"), CHANGES, ids=lambda x: str(x)[:30])
def test_a_changed_figure_of_a_profile_changes_the_claim(monkeypatch, kind, name, figures, where):
    """A value that was typed in instead of computed. (A1, A2, A15 and A6's scores have the text's or our own numbers only.)"""
    before = line(*where)
    changed(monkeypatch, kind, name, **figures)
    after = line(*where)
    assert after.value != before.value
    assert computed(after.with_numbers) == pytest.approx(after.value, rel=1e-8)


@pytest.mark.parametrize(
    ("number", "text"),
    [(8, "8"), (4096, "4,096"), (0.1, "0.1"), (0.045, "0.045"), (8_030_261_248, "8,030,261,248"), (989.5e12, "(9.895 × 10¹⁴)"), (3.35e12, "(3.35 × 10¹²)")],
)
def test_numbers_in_formulas(number, text):
    assert written(number) == text and computed(text) == pytest.approx(number, rel=1e-12)


def test_what_a_table_printed_is_said_with_table_and_model():
    """Two models stand in one table; a figure without its model could be of either."""
    given = {(name, g.symbol): g.source for name in ("window", "falcon") for g in line("A12", name).inputs}
    assert given["window", "p_window"].title == "StreamingLLM, Table 1, Llama-2-13B"
    assert given["falcon", "p_window"].title == "StreamingLLM, Table 2, Falcon-7B"
    assert all("arxiv.org/abs/2309.17453" in source.text for source in given.values())


@pytest.mark.parametrize(("line_id", "name"), [("lab", "lab-1m"), ("smollm2", "smollm2-135m-instruct")])
def test_the_hands_are_those_of_the_models_that_are_loaded(line_id, name):
    """Base and trained length are written down for the claims, which see no model; one that is changed would be told wrong."""
    config = CATALOG[name].config
    given = {g.symbol: g.value for g in line("B11", line_id).inputs}
    assert given == {"d_head": config.head_dim, "base": config.rope_theta, "L_train": config.max_context}


def test_which_pairs_never_turn_counted_one_by_one():
    """The slow ones, and none of the fast: the claim's turning point. Wavelengths are worked out here, pair by pair."""
    for name in ("llama", "lab", "smollm2"):
        d, base, trained = (g.value for g in line("B11", name).inputs)
        slow = [i for i in range(d // 2) if 2 * pi * base ** (2 * i / d) > trained]
        assert line("B11", name).value == len(slow) and slow == list(range(d // 2 - len(slow), d // 2))
        assert line("B11", f"pairs_{name}").value == d // 2


def test_a_greater_base_divides_each_pair_by_what_is_said():
    """The derivation: with the new base written out, the frequencies are the old ones over 1, 2.9 and exactly 8."""
    new, d = line("A13", "base").value, 128
    for name in ("first", "middle", "last"):
        i = next(g.value for g in line("A13", name).inputs if g.symbol == "i")
        assert 10_000 ** (-2 * i / d) / new ** (-2 * i / d) == pytest.approx(line("A13", name).value, rel=1e-9)


def test_what_was_not_printed_as_a_number_stays_a_bound():
    """"> 10^3" is no perplexity; the table gives it under another name, and the claim says "at least"."""
    table = profiles.table("pi-table-1")
    assert "perplexity" not in table.find(method="none", tokens=4096)[0]
    (given,) = (g for g in line("B6", "llama").inputs if g.symbol == "p_long")
    assert given.value == 1000 and line("B6", "llama").ratio > 1
