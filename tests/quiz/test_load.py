"""A file of items is checked as it is read: what would fail or mislead a learner is one sentence to who wrote it."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path

import pytest

from engine.errors import LabError
from engine.quiz import Choice, Number, Open, Order, load
from engine.quiz.load import item_of

MEMORY = Path(__file__).parents[2] / "pages" / "memory" / "quiz.toml"
TABLES = {table["id"]: table for table in tomllib.loads(MEMORY.read_text(encoding="utf-8"))["item"]}
NUMBER, CHOICE, ORDER, OPEN = "memory-kv-total", "memory-two-limits", "memory-token-order", "memory-why-wall"
FIGURE, MEASURE = "memory-read-wall", "memory-own-wave"


def changed(id_: str, **changes: object) -> dict:
    """An item's table with other values; None takes one away."""
    table = {**copy.deepcopy(TABLES[id_]), **changes}
    return {name: value for name, value in table.items() if value is not None}


def both(text: str) -> dict:
    return {"ko": text, "en": text}


WRONG = [
    (NUMBER, {"kind": "riddle"}, "kind must be one of"),
    (NUMBER, {"id": "sinks-kv-total"}, "must begin with memory-"),
    (NUMBER, {"id": "memory-<b>"}, "is not possible"),
    (NUMBER, {"text": None}, "text is missing"),
    (NUMBER, {"colour": "red"}, "no colour"),
    (NUMBER, {"text": {"en": "Only English?"}}, "text.ko and text.en"),
    (NUMBER, {"text": both("What of {modle}?")}, "{modle}, which is neither drawn nor given"),
    (NUMBER, {"text": both("It is {answer}, isn't it?")}, "{answer}, which is neither"),
    (NUMBER, {"text": both("x^{2}")}, "brace that is not around a name"),
    (NUMBER, {"text": both("<img src=x>")}, "HTML"),
    (NUMBER, {"text": both("a\x07b")}, "control character"),
    (NUMBER, {"text": both("a" * 4001)}, "4001 characters"),
    (NUMBER, {"hints": {"ko": ["하나"], "en": ["one", "two"]}}, "as many texts in both languages"),
    (NUMBER, {"about": ["C1"]}, "about"),
    (NUMBER, {"answer": None}, "answer must name a function"),
    (NUMBER, {"answer": "_fit"}, "no function _fit"),
    (NUMBER, {"answer": "replace"}, "no function replace"),
    (NUMBER, {"answer": "requests_fit"}, "cannot be called with what is drawn and given"),
    (NUMBER, {"unit": "furlong"}, "unit must be one of"),
    (NUMBER, {"draw": {name: list(range(50)) for name in "abcdefghijkl"}}, "244140625000000000000 cases"),
    (NUMBER, {"tolerance": None}, "either tolerance"),
    (NUMBER, {"within": 1}, "either tolerance"),
    (NUMBER, {"tolerance": 2}, "share below 1"),
    (NUMBER, {"draw": {"model": [], "tokens": [1]}}, "a list of values"),
    (NUMBER, {"draw": [{"model": "llama-3.1-8b", "tokens": 1}, {"model": "llama-3.1-8b"}]}, "same names"),
    (NUMBER, {"draw": {"model": ["llama-3.1-8b"] * 2, "tokens": [1]}}, "same case twice"),
    (NUMBER, {"draw": {"model": ["llama-3.1-8b"], "tokens": list(range(1001))}}, "1001 cases"),
    (NUMBER, {"given": {"tokens": 5}}, "drawn or given once"),
    (NUMBER, {"draw": {"model": ["llama-3.1-8b", "lama"], "tokens": [5]}}, "lama"),
    (NUMBER, {"draw": {"model": ["llama-3.1-8b"], "tokens": ["many"]}}, "cannot be called"),
    (NUMBER, {"slips": [{"answer": "kv_gib_keys_only"}]}, "feedback is missing"),
    (NUMBER, {"slips": [{"answer": "nothing", "feedback": both("a")}]}, "no function nothing"),
    (CHOICE, {"options": TABLES[CHOICE]["options"][:2]}, "at least 3 options"),
    (CHOICE, {"options": TABLES[CHOICE]["options"][1:]}, "one option must be right"),
    (CHOICE, {"options": [*TABLES[CHOICE]["options"], TABLES[CHOICE]["options"][0]]}, "same id"),
    (CHOICE, {"options": [*TABLES[CHOICE]["options"], {"id": "e", "text": both("e")}]}, "option e needs a feedback"),
    (CHOICE, {"answer": "smallest_token_first"}, "none where the right one is computed"),
    (ORDER, {"steps": TABLES[ORDER]["steps"][:2]}, "at least 3 steps"),
    (ORDER, {"steps": [*TABLES[ORDER]["steps"], TABLES[ORDER]["steps"][0]]}, "same id"),
    (OPEN, {"answer": "smallest_token_first"}, "no answer to compute"),
    (OPEN, {"rubric": {"ko": [], "en": []}}, "at least one"),
    (FIGURE, {"figure": {"recording": "wall-cpu", "view": "film"}}, "view must be one of"),
    (FIGURE, {"figure": {"recording": "../secret", "view": "lines"}}, "recording"),
    (MEASURE, {"answer": "running_most"}, "with measure there is no answer"),
    (MEASURE, {"measure": {"kind": "wall", "value": "nothing"}}, "no function nothing"),
    (MEASURE, {"figure": {"recording": "wall-cpu", "view": "lines"}}, "not both"),
]


@pytest.mark.parametrize(("id_", "changes", "why"), WRONG)
def test_what_is_wrong_is_said(id_, changes, why):
    with pytest.raises(ValueError, match="(?s).") as refused:
        item_of(changed(id_, **changes), "memory")
    assert why in str(refused.value)


def test_each_kind_is_read_as_it_is_written():
    items = {item.id: item for item in load(MEMORY)}
    assert [type(items[id_]) for id_ in (NUMBER, CHOICE, ORDER, OPEN)] == [Number, Choice, Order, Open]
    assert {len(case) for case in items[NUMBER].cases} == {2} and len(items[NUMBER].cases) == 16
    assert items[CHOICE].right == "weights" and items[CHOICE].options[1].feedback["en"].startswith("Other text")
    assert (items[FIGURE].figure["measure"], items[MEASURE].measure.kind) == ("running", "wall")
    assert items[FIGURE].needs_result and items[MEASURE].needs_result and not items[NUMBER].needs_result


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[item]\n", "line 1"),
        ("", "item is missing"),
        ("item = 3", "1 to 500"),
        ("item = []", "1 to 500"),
        ("[[item]]\nid = 'memory-a'\n", "kind must be"),
        ("[other]\n[[item]]\n", "no other"),
        ("a = " + "[" * 5000, ""),
        ("# " + "x" * (1 << 20), "the limit is"),
        ("\xff", "utf-8"),
        (MEMORY.read_bytes().decode("latin-1").replace('unit = "GiB"', 'unit = ["GiB"]'), "memory-kv-total: unhashable"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path, text, why):
    path = tmp_path / "memory" / "quiz.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(LabError) as refused:
        load(path)
    assert refused.value.code == "quiz-file" and why in str(refused.value) and "memory/quiz.toml" in str(refused.value)


def test_a_mark_that_an_editor_put_before_the_file_is_no_fault(tmp_path):
    """Windows' own editor begins UTF-8 files with a byte order mark."""
    path = tmp_path / "memory" / "quiz.toml"
    path.parent.mkdir()
    path.write_bytes(b"\xef\xbb\xbf" + MEMORY.read_bytes())
    assert load(path) == load(MEMORY)


def test_a_missing_file_and_an_id_that_is_there_twice(tmp_path):
    with pytest.raises(LabError, match="No such file"):
        load(tmp_path / "quiz.toml")
    path = tmp_path / "memory" / "quiz.toml"
    path.parent.mkdir()
    text = MEMORY.read_text(encoding="utf-8")
    path.write_text(text + text, encoding="utf-8")
    with pytest.raises(LabError, match="memory-kv-total: there are two"):
        load(path)
