"""Tables of papers: the figures the papers print, each file with its source, and a broken file is one sentence."""

import re

import pytest

from engine import profiles
from engine.errors import LabError
from engine.profiles.published import UNITS

TABLES = profiles.tables()


def test_the_first_table_of_the_streaming_paper():
    table = profiles.table("streamingllm-table-1")
    assert {(row["first_tokens"], row["sinks"], row["recent"]): row["perplexity"] for row in table.rows} == {
        ("none", 0, 1024): 5158.07,
        ("original", 4, 1020): 5.40,
        ("newlines", 4, 1020): 5.60,
    }
    assert {row["model"] for row in table.rows} == {"Llama-2-13B"} and "PG19" in table.conditions["data"]


def test_the_second_table_over_the_number_of_sinks():
    """A row slipped by one would give a model another's collapse."""
    table = profiles.table("streamingllm-table-2")
    printed = {
        "Llama-2-7B": [3359.95, 11.88, 10.51, 9.59, 9.54],
        "Falcon-7B": [17.90, 12.12, 12.12, 12.12, 12.12],
        "MPT-7B": [460.29, 14.99, 15.00, 14.99, 14.98],
        "Pythia-12B": [21.62, 11.95, 12.09, 12.09, 12.02],
    }
    for model, values in printed.items():
        assert [table.value("perplexity", model=model, sinks=sinks) for sinks in (0, 1, 2, 4, 8)] == values
        cache = 4096 if model == "Llama-2-7B" else 2048
        assert {row["sinks"] + row["recent"] for row in table.find(model=model)} == {cache}
    assert len(table.rows) == 20


def test_tables_of_one_paper_agree_where_they_overlap():
    """Tables 2 and 6 measured the same caches: a digit mistyped in either shows. For Falcon the paper itself prints two
    values."""
    by_sinks, by_size = profiles.table("streamingllm-table-2"), profiles.table("streamingllm-table-6")
    both = {}
    for model, recent in (("Llama-2-7B", 4092), ("Falcon-7B", 2044), ("MPT-7B", 2044), ("Pythia-12B", 2044)):
        both[model] = {table.value("perplexity", model=model, sinks=4, recent=recent) for table in (by_sinks, by_size)}
    assert both == {"Llama-2-7B": {9.59}, "Falcon-7B": {12.12, 12.84}, "MPT-7B": {14.99}, "Pythia-12B": {12.09}}


def test_nothing_is_found_beyond_the_cache():
    """The seventh table: 0 from the first distance that is more than the cache, and from there on, and nowhere before."""
    table = profiles.table("streamingllm-table-7")
    for row in table.rows:
        assert (row["accuracy"] == 0) == (row["distance"] > row["sinks"] + row["recent"])
        assert row["distance"] % 23 == 0, "lines of 23 tokens"
    assert table.value("accuracy", distance=1840, recent=2044) == 0.7530
    assert table.value("accuracy", distance=13_800, recent=16_380) == 0.2850


def test_how_much_quicker_the_papers_say_they_are():
    assert profiles.table("streamingllm-speed").value("most") == 22.2
    h2o = profiles.table("h2o-speed")
    assert [row["most"] for row in h2o.find(measure="throughput")] == [29, 29, 3] and h2o.value("most", measure="latency") == 1.9
    snapkv = profiles.table("snapkv-speed")
    assert [row["factor"] for row in snapkv.rows] == [3.6, 8.2]


def test_the_tables_of_position_interpolation():
    """The seven billion model: as it is, fine-tuned without PI, and with it."""
    table = profiles.table("pi-table-1")
    rows = {(row["method"], row["window"], row["tokens"]): row.get("perplexity") for row in table.rows}
    assert [rows["PI", 32_768, tokens] for tokens in (2048, 4096, 8192, 16_384, 32_768)] == [7.23, 7.04, 6.91, 6.80, 6.77]
    assert [rows["fine-tuning", 8192, tokens] for tokens in (2048, 4096, 8192)] == [7.21, 7.34, 7.69]
    assert [row["above"] for row in table.find(method="none") if "above" in row] == [1000] * 4
    steps = profiles.table("pi-table-3")
    assert steps.value("perplexity", window=16_384, steps=0) == 112.13 and steps.value("perplexity", window=8192, steps=0) == 16.10


def test_tables_of_position_interpolation_agree_where_they_overlap():
    """After 1,000 steps and at the window's own length Tables 1 and 3 print the same."""
    by_length, by_steps = profiles.table("pi-table-1"), profiles.table("pi-table-3")
    for window in (8192, 16_384):
        last = by_steps.value("perplexity", window=window, steps=1000)
        assert last == by_length.value("perplexity", method="PI", window=window, tokens=window)
    short = profiles.table("pi-table-2")
    assert short.value("perplexity", method="none", tokens=2048) == 2.77
    assert short.value("perplexity", method="PI", window=32_768, tokens=32_768) == 2.48


def test_yarn_without_and_with_fine_tuning():
    """Dynamic scaling takes at each length what the fixed scale of that length gives: the table contains itself."""
    table = profiles.table("yarn-table-5")
    for method in ("PI", "NTK-aware", "NTK-by-parts", "YaRN"):
        for scale in (2, 4, 8, 16):
            own = table.find(method=method, steps=0, scaling="fixed", scale=scale, tokens=2048 * scale)[0]
            dynamic = table.find(method=method, steps=0, scaling="dynamic", tokens=2048 * scale)[0]
            assert {own.get("perplexity"), own.get("above")} == {dynamic.get("perplexity"), dynamic.get("above")}, (method, scale)
        assert table.value("perplexity", method=method, scaling="dynamic", tokens=2048) == 4.05
    tuned = table.find(method="NTK-aware", steps=400)
    assert [row["perplexity"] for row in tuned] == [4.39, 3.92, 3.73, 3.21, 8.49]


def test_yarn_to_128k():
    table = profiles.table("yarn-table-1")
    rows = table.find(model="Llama-2-7B", scale=32)
    assert [row["perplexity"] for row in rows] == [3.56, 3.04, 2.70, 2.45, 2.37]
    assert [row["model"] for row in table.rows if "above" in row] == ["Llama-2-7B", "Llama-2-13B"]
    older = profiles.table("yarn-v2-table-1")
    assert [older.value("perplexity", method=m, tokens=10_240) for m in ("PI", "NTK-aware", "YaRN")] == [8.07, 6.24, 6.04]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_table_says_where_it_is_from_and_what_it_is_of(table):
    """A figure nobody can look up is a rumour; one without its model says nothing."""
    assert re.search(r"(Table|section) \d", table.source) and re.search(r"https://arxiv\.org/abs/\d{4}\.\d{5}$", table.source)
    place = table.title.partition(", ")[2]
    assert place and place in table.source
    assert "model" in table.columns or "model" in table.conditions


def test_a_value_that_is_not_there_once_is_not_given():
    """The first of several would be a silent mistake."""
    table = profiles.table("streamingllm-table-2")
    for where in ({}, {"sinks": 4}, {"model": "GPT-5"}):
        with pytest.raises(LookupError):
            table.value("perplexity", **where)
    with pytest.raises(LookupError):
        table.value("colour", model="Falcon-7B", sinks=4)
    assert len(table.find(sinks=4)) == 4 and table.find(sinks=3) == []


GOOD = """
name = "t"
title = "T, Table 1"
source = "T: https://arxiv.org/abs/0000.00000"
rows = [
    { method = "a", tokens = 4096, share = 0.5 },
    { method = "b", tokens = 0 },
]
[columns]
method = "word"
tokens = "tokens"
share = "share"
[conditions]
model = "M"
"""
BROKEN = [
    (GOOD.replace('source = "T: https://arxiv.org/abs/0000.00000"\n', ""), "source is missing"),
    (GOOD.replace('"T: https://arxiv.org/abs/0000.00000"', '" "'), "source must be a word"),
    (GOOD.replace('name = "t"', 'name = "u"'), "its name must be that of the file"),
    (GOOD.replace('share = "share"', 'share = "percent"'), "columns must give each column one of: word"),
    (GOOD.replace('share = "share"', 'share = ["share"]'), "columns must give each column one of: word"),
    ("columns = 3\n" + GOOD.partition("[columns]")[0], "columns must give"),
    (GOOD.replace("tokens = 0", "tokens = 0, colour = 5"), "there is no colour in such a file (row 2)"),
    (GOOD.replace("share = 0.5", "share = 50"), "share must be a number from 0 to 1 (row 1)"),
    (GOOD.replace("tokens = 0", "tokens = -1"), "tokens must be a number from 0"),
    (GOOD.replace("tokens = 0", "tokens = nan"), "tokens must be a number from 0"),
    (GOOD.replace("tokens = 0", "tokens = inf"), "tokens must be a number from 0"),
    (GOOD.replace("tokens = 0", "tokens = true"), "tokens must be a number from 0"),
    (GOOD.replace("tokens = 0", 'tokens = "many"'), "tokens must be a number from 0"),
    (GOOD.replace('method = "b"', "method = 2"), "method must be a word (row 2)"),
    (GOOD.replace('method = "b"', 'method = ""'), "method must be a word (row 2)"),
    (GOOD.replace(", tokens = 0", ""), "there must be a number (row 2)"),
    (GOOD.replace('{ method = "b", tokens = 0 }', '{ method = "a", tokens = 4096, share = 0.5 }'), "row 2 is there twice"),
    (GOOD.replace('share = "share"', 'share = "share"\ntime = "s"'), "no row has time"),
    (GOOD.replace("rows = [", "rows = [ 5,"), "rows must be a list of tables"),
    (GOOD[: GOOD.index("rows")] + "rows = []\n" + GOOD[GOOD.index("[columns]") :], "rows must be a list of tables"),
    (GOOD.replace('model = "M"', "model = 5"), "model must be a word"),
    ("conditions = 5\n" + GOOD.partition("[conditions]")[0], "conditions must be given as"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tables of our own in place of the real ones."""
    monkeypatch.setattr(profiles, "PROFILES_DIR", tmp_path)
    (tmp_path / "published").mkdir()

    def write(text: str):
        profiles.tables.cache_clear()
        (tmp_path / "published" / "t.toml").write_text(text, encoding="utf-8")
        return profiles.tables

    yield write
    profiles.tables.cache_clear()


@pytest.mark.parametrize("text, why", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_table_is_one_sentence_that_names_it(text, why, folder):
    with pytest.raises(LabError) as caught:
        folder(text)()
    assert caught.value.code == "profile-broken" and caught.value.facts["path"] == "published/t.toml"
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_the_table_that_is_broken_above_is_good_before(folder):
    """Else a test above could see another fault than its own. What a paper does not give is left out of its row."""
    (table,) = folder(GOOD)().values()
    assert list(table.columns) == ["method", "tokens", "share"] and set(table.columns.values()) <= set(UNITS)
    assert table.rows[1] == {"method": "b", "tokens": 0} and table.conditions == {"model": "M"}
    assert folder(GOOD.partition("[conditions]")[0])()["t"].conditions == {}


@pytest.mark.parametrize("name", ["", "streamingllm", "../x", None, 5, "x" * 1000])
def test_an_unknown_table_is_told_with_the_known_ones(name):
    with pytest.raises(LabError) as caught:
        profiles.table(name)
    assert caught.value.code == "profile-unknown" and "streamingllm-table-1" in str(caught.value)
