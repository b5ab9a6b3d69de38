"""The rooms of the house and who may import whom, read from the source with ast.

Rooms import one way only: model <- kv <- measure <- serving <- experiments <- service.
Pages see frozen data, traces, metrics, formulas, profiles and the client, and never
load torch. Imports inside functions and those by ``importlib`` count like any other,
so a circle cannot hide there.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

VISIBLE_TO_PAGES = (
    "engine.claims",
    "engine.errors",
    "engine.experiments.attention_scenario",
    "engine.experiments.lengths_scenario",
    "engine.experiments.needle_scenario",
    "engine.experiments.pools_scenario",
    "engine.experiments.recurrent_scenario",
    "engine.experiments.retrieval_scenario",
    "engine.experiments.ring_scenario",
    "engine.experiments.roofline_scenario",
    "engine.experiments.scenarios",
    "engine.experiments.streaming_scenario",
    "engine.experiments.sweep_scenarios",
    "engine.experiments.transfer_scenario",
    "engine.experiments.wall_scenario",
    "engine.formulas",
    "engine.measure.export",
    "engine.measure.metrics",
    "engine.measure.pools",
    "engine.measure.trace",
    "engine.measure.usage",
    "engine.profiles",
    "engine.quiz",
    "engine.service.client",
)
# A room may import the rooms of lower rank; rooms of rank 0 may import each other.
RANKS = {
    "errors": 0,
    "paths": 0,
    "lock": 0,
    "profiles": 0,
    "claims": 0,
    "formulas": 0,
    "quiz": 0,
    "model": 1,
    "packages": 0,
    "texts": 0,
    "kv": 2,
    "measure": 3,
    "serving": 4,
    "experiments": 5,
    "training": 5,
    "service": 6,
    "bench": 7,
    "pool_command": 7,
    "cli": 8,
    "__main__": 9,
}
PAGES_LIBRARIES = {"streamlit", "plotly"}


def sources(root: Path, folder: str) -> list[Path]:
    return sorted(path for path in (root / folder).rglob("*.py") if "__pycache__" not in path.parts)


def module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import in a file, relative ones resolved.

    ``from a import b`` is a.b if that is a module of the tree or one pages may see, else a.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    name = module_name(root, path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                is_module = _exists(root, inner) or inner in VISIBLE_TO_PAGES
                yield node.lineno, inner if is_module else base
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def _exists(root: Path, module: str) -> bool:
    place = root.joinpath(*module.split("."))
    return place.with_suffix(".py").is_file() or place.is_dir()


def _is_within(module: str, outer: str) -> bool:
    return module == outer or module.startswith(outer + ".")


def _room(module: str) -> str:
    return module.split(".")[1] if module.count(".") else ""


def _broken_by_page(target: str) -> str | None:
    if _is_within(target, "torch"):
        return "pages never import torch"
    if _is_within(target, "engine") and target != "engine":
        if not any(_is_within(target, seen) for seen in VISIBLE_TO_PAGES):
            return f"pages do not see {target}"
    return None


def _broken_by_engine(name: str, target: str) -> str | None:
    room = _room(name)
    if target.split(".")[0] in PAGES_LIBRARIES:
        return f"the engine never imports {target.split('.')[0]}"
    if _is_within(target, "pages") or target in ("app", "lab"):
        return "the engine knows nothing of what stands above it"
    if not _is_within(target, "engine") or not room:
        return None
    other = _room(target)
    if room == "formulas":
        return None if other == room else "formulas import nothing else of the engine"
    if room not in RANKS:
        return f"engine/{room} has no place in RANKS yet: give it one"
    if not other or other == room:
        return None
    if RANKS.get(other, 99) > RANKS[room] or RANKS.get(other) == RANKS[room] != 0:
        return f"{room} may not import {other}"
    return None


def violations(root: Path) -> list[str]:
    """Every import under a tree that breaks a rule, as "file:line: which rule"."""
    found = []
    top = [path for path in [root / "app.py"] if path.exists()]
    for path in top + sources(root, "pages"):
        for line, target in imported(root, path):
            if broken := _broken_by_page(target):
                found.append(f"{path.relative_to(root)}:{line}: {broken}")
    for path in sources(root, "engine"):
        for line, target in imported(root, path):
            if broken := _broken_by_engine(module_name(root, path), target):
                found.append(f"{path.relative_to(root)}:{line}: {broken}")
    return found


def test_the_rooms_import_one_way():
    assert sources(ROOT, "engine"), "nothing to read: the engine has moved and this test has not"
    assert violations(ROOT) == []


def test_every_kind_of_wrong_import_is_seen(tmp_path):
    """The reader itself, on a tree with one wrong import of each kind and its right twin."""
    files = {
        "app.py": "from engine.service import client\nimport torch\n",
        "pages/router.py": (
            "import streamlit as st\nfrom engine import errors, serving\nfrom engine.measure import trace, clocks\n"
            "from engine.formulas.rope import angle\ndef late():\n    import torch.nn as nn\n"
            "import importlib\nimportlib.import_module('engine.kv.blocks')\n"
        ),
        "engine/__init__.py": "",
        "engine/errors.py": "import os\n",
        "engine/formulas/__init__.py": "from . import rope\nfrom engine.errors import LabError\n",
        "engine/formulas/rope.py": "import numpy\n",
        "engine/model/__init__.py": "from ..errors import LabError\nfrom ..kv import blocks\nimport torch\n",
        "engine/kv/blocks.py": "from engine.model import config\nimport plotly.graph_objects as go\n",
        "engine/measure/clocks.py": "def f():\n    from engine.serving import loop\n",
        "engine/serving/loop.py": "from engine.measure import clocks\nfrom engine.kv.blocks import Block\n",
        "engine/attic/thing.py": "from engine.errors import LabError\n",
        "engine/service/client.py": "from engine.experiments import scenarios\nfrom pages import router\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert sorted(violations(tmp_path)) == sorted(
        [
            "app.py:2: pages never import torch",
            "pages/router.py:2: pages do not see engine.serving",
            "pages/router.py:3: pages do not see engine.measure.clocks",
            "pages/router.py:6: pages never import torch",
            "pages/router.py:8: pages do not see engine.kv.blocks",
            "engine/formulas/__init__.py:2: formulas import nothing else of the engine",
            "engine/model/__init__.py:2: model may not import kv",
            "engine/kv/blocks.py:2: the engine never imports plotly",
            "engine/measure/clocks.py:2: measure may not import serving",
            "engine/attic/thing.py:1: engine/attic has no place in RANKS yet: give it one",
            "engine/service/client.py:2: the engine knows nothing of what stands above it",
        ]
    )


def test_what_pages_import_exists():
    """A misspelt module would satisfy every rule above. (A room without a single file is not built yet.)"""
    missing = [
        f"{path.relative_to(ROOT)}:{line}: {target}"
        for path in sources(ROOT, "pages")
        for line, target in imported(ROOT, path)
        if _is_within(target, "engine") and not _exists(ROOT, target) and sources(ROOT, f"engine/{_room(target)}")
    ]
    assert missing == []


@pytest.mark.parametrize("module", [name for name in VISIBLE_TO_PAGES if _exists(ROOT, name)])
def test_what_pages_see_does_not_load_torch(module):
    """A page that loads torch costs every browser seconds and the server a gigabyte."""
    assert "torch" not in _loaded_by(f"import {module}")


def test_the_libraries_of_the_pages_do_not_load_torch():
    standard = sys.stdlib_module_names
    libraries = {
        target.split(".")[0] for path in sources(ROOT, "pages") for _, target in imported(ROOT, path) if target
    }
    libraries -= {"engine", "pages", "torch", *standard}
    assert "torch" not in _loaded_by(f"import {', '.join(sorted(libraries | {'sys'}))}")


def _loaded_by(statement: str) -> set[str]:
    """Names of the modules loaded after one statement in a fresh interpreter."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())
