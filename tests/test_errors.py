"""The table of errors is complete: every code that is raised has a sentence, and every sentence gets its facts."""

from __future__ import annotations

import ast
import pickle
import string
from pathlib import Path

import pytest

from engine.errors import MESSAGES, LabError

ENGINE = Path(__file__).parent.parent / "engine"


def _raised():
    """Every LabError("code", fact=...) in the engine: (place, code, names of facts or None if they are spread)."""
    for path in sorted(ENGINE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None)) == "LabError" and node.args:
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    names = {keyword.arg for keyword in node.keywords}
                    yield f"{path.relative_to(ENGINE)}:{node.lineno}", code.value, None if None in names else names


def test_every_code_has_a_sentence_with_its_facts():
    found = list(_raised())
    assert len(found) > 40
    for place, code, facts in found:
        assert code in MESSAGES, f"{place} raises '{code}', which is not in the table"
        wanted = {name for _, name, _, _ in string.Formatter().parse(MESSAGES[code]) if name}
        assert facts is None or wanted <= facts, f"{place}: '{code}' lacks {wanted - facts}"


def test_no_code_is_defined_twice_or_never_raised():
    """Of two sentences for one code the reader gets whichever came last; one that nobody raises is maintained for nothing."""
    tree = ast.parse((ENGINE / "errors.py").read_text(encoding="utf-8"))
    defined = [key.value for node in tree.body if isinstance(node, ast.Assign) for key in getattr(node.value, "keys", ()) if key]
    assert sorted(defined) == sorted(set(defined)) == sorted(MESSAGES)
    mentioned = {
        node.value
        for path in ENGINE.rglob("*.py")
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(MESSAGES) <= mentioned


@pytest.mark.parametrize("code", MESSAGES)
def test_a_sentence_is_one_line_and_ends(code):
    assert "\n" not in MESSAGES[code] and len(MESSAGES[code]) > 30
    assert code == code.lower() and " " not in code


def test_errors_survive_the_way_between_processes():
    error = LabError("model-missing", name="x", path=Path("/a"))
    again = pickle.loads(pickle.dumps(error))
    assert again.as_dict() == error.as_dict() == {"code": "model-missing", "facts": {"name": "x", "path": "/a"}, "message": str(error)}


def test_reporting_an_error_never_fails():
    assert str(LabError("never-heard-of", a=1)) == "never-heard-of (a=1)"
    assert "model-missing" not in str(LabError("model-missing"))
    assert "\n" not in str(LabError("checkpoint-unreadable", path="a\nb", why="{x} {0}"))
