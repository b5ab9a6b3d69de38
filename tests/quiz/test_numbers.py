"""What learners type is read in the item's unit, or refused with the reason; nothing else happens."""

from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.quiz.judge import SENTENCES
from engine.quiz.numbers import Unreadable, digits, read, shown
from engine.quiz.units import UNITS, find

READ = [
    ("1,5 GiB", "GiB", 1.5),
    ("16.8GB", "GB", 16.8),
    ("16.8 GB", "GiB", 16.8e9 / 2**30),
    ("16 gb", "GB", 16),
    ("16 Gb", "GB", 2),
    ("１２.5", "x", 12.5),
    ("３．５　ＧｉＢ", "GiB", 3.5),
    ("3e9 B/s", "GB/s", 3),
    ("3 × 10^9 B / s", "GB/s", 3),
    ("4.5 × 10¹⁶ FLOP", "PFLOP", 45),
    ("2·10⁻³ s", "ms", 2),
    ("400 Gbit/s", "GB/s", 50),
    ("-2", "tokens", -2),
    ("− 2 s", "s", -2),
    ("50 %", "share", 0.5),
    ("0.5", "share", 0.5),
    ("0.5 %", "%", 0.5),
    ("2.2 s", "ms", 2200),
    ("2200ms", "s", 2.2),
    ("2,200 ms", "s", 2.2),
    ("30 µs", "ms", 0.03),
    ("30us", "ms", 0.03),
    ("1,500.5", "x", 1500.5),
    ("1.500,5", "x", 1500.5),
    ("1,234,567", "tokens", 1_234_567),
    ("1.234.567", "tokens", 1_234_567),
    ("131 072 tokens", "tokens", 131_072),
    ("131\u202f072", "tokens", 131_072),
    ("0,500", "x", 0.5),
    ("1234,5", "x", 1234.5),
    (".5", "x", 0.5),
    ("5.", "x", 5),
    ("~ 5 GiB.", "GiB", 5),
    ("약 13만 토큰", "tokens", 130_000),
    ("1.5억", "tokens", 150_000_000),
    ("5천만 토큰", "tokens", 50_000_000),
    ("3백", "tokens", 300),
    ("5 ㎇", "GB", 5),
    ("20㎳", "s", 0.02),
    ("8배", "x", 8),
    ("8x", "x", 8),
    ("3초", "s", 3),
    ("12 토큰/초", "tokens/s", 12),
    ("12 tokens per second", "tokens/s", 12),
    ("5개", "requests", 5),
    ("9" * 60, "x", float("9" * 60)),
]
REFUSED = [
    ("", "x", "empty"),
    (" \u3000 ", "x", "empty"),
    ("9" * 61, "x", "too_long"),
    ("1" * 10_000, "GiB", "too_long"),
    (" " * 10_000 + "1", "x", "too_long"),
    ("1e999", "x", "not_finite"),
    ("1 × 10^9999", "x", "not_finite"),
    ("1e308 TB", "B", "not_finite"),
    ("nan", "x", "no_number"),
    ("inf", "x", "no_number"),
    ("GiB", "GiB", "no_number"),
    ("GiB 5", "GiB", "no_number"),
    ("two", "x", "no_number"),
    ("<b>5</b>", "x", "no_number"),
    ("1.2.3", "x", "no_number"),
    ("1,2,3", "x", "no_number"),
    ("1,5.5", "x", "no_number"),
    ("2-3", "x", "no_number"),
    ("3/4", "x", "no_number"),
    ("10²", "x", "no_number"),
    ("4 × 10⁻", "x", "no_number"),
    ("4 × 10¹⁻ B", "B", "no_number"),
    ("½", "x", "no_number"),
    ("5", "GiB", "no_unit"),
    ("50", "%", "no_unit"),
    ("50", "share", "share_or_percent"),
    ("5 parsecs", "GiB", "unknown_unit"),
    ("5 <script>", "x", "unknown_unit"),
    ("3 GB", "s", "other_dimension"),
    ("3 GB/s", "GB", "other_dimension"),
    ("3 GB", "GB/s", "other_dimension"),
    ("3 tokens", "requests", "other_dimension"),
    ("5 %", "x", "other_dimension"),
    ("3 gb/s", "GB/s", "which_unit"),
    ("3 GB", "", "unit_unwanted"),
    ("3 parsecs", "perplexity", "unit_unwanted"),
    ("0.5 GB", "share", "unit_unwanted"),
]


@pytest.mark.parametrize(("text", "unit", "value"), READ)
def test_it_is_read(text, unit, value):
    assert read(text, unit).value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("text", "unit", "reason"), REFUSED)
def test_it_is_refused_with_the_reason(text, unit, reason):
    with pytest.raises(Unreadable) as refused:
        read(text, unit)
    assert refused.value.reason == reason
    assert "<" not in "".join(refused.value.facts.values())


def test_a_comma_that_may_have_been_meant_otherwise_is_said():
    """1,500 GiB and 1.500 GiB are a thousand apart; of tokens there are no halves."""
    assert (read("1,500 GiB", "GiB").value, read("1,500 GiB", "GiB").doubtful) == (1500, True)
    assert not read("1,500 tokens", "tokens").doubtful
    assert not any(read(text, "x").doubtful for text in ("1,5", "1,5000", "0,500", "1,234,567", "1500", "1.500"))


@given(st.text(max_size=80), st.sampled_from(sorted(UNITS)))
def test_anything_is_read_as_a_finite_number_or_refused_with_a_sentence(text, unit):
    try:
        assert math.isfinite(read(text, unit).value)
    except Unreadable as error:
        with open(SENTENCES, "rb") as file:
            sentences = tomllib.load(file)[error.reason]
        assert all(sentences[lang].format(**error.facts) for lang in ("ko", "en"))


@given(
    st.floats(min_value=1e-12, max_value=1e18),
    st.sampled_from([unit for unit in sorted(UNITS) if unit != "share"]),
    st.sampled_from(["ko", "en"]),
    st.booleans(),
)
def test_what_is_shown_is_read_as_the_same_number(value, unit, lang, negative):
    """The right answer, copied from the page, must be right."""
    value = -value if negative else value
    assert read(shown(value, unit, lang), unit).value == pytest.approx(value, rel=5.1e-4)


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_whole_numbers_are_shown_in_full(value):
    assert read(digits(value), "tokens").value == value


@pytest.mark.parametrize("unit", UNITS)
def test_every_name_of_a_unit_means_that_unit(unit):
    """A second unit of the dimension under the same name would make it unreadable."""
    for name in (unit, *UNITS[unit].others):
        if name:
            assert {found.factor for found in find(name, UNITS[unit])} == {UNITS[unit].factor}, name
