"""Our JavaScript as text: the timeline says only words that exist, and nothing has a way to turn text into code or markup."""

import re
from pathlib import Path

import pytest

from pages._ui import script, timeline
from pages._ui.words import Words

FILES = sorted((script.FOLDER / "timeline").glob("*.js"))
ALL = sorted(script.FOLDER.rglob("*.js"))
# What is asked for with a name put in: `schedule.${lane.schedule}.name`.
FILLED = re.compile(r"\$\{[^}]+\}")
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("lang", ["ko", "en"])
def test_every_word_it_says_exists_and_every_fact_is_given(lang):
    spoken = timeline.spoken(Words(lang))
    asked = set()
    for path in FILES:
        code = path.read_text(encoding="utf-8")
        for key in re.findall(r"""\bwords\(\s*(?:\w[\w.]* \? )?["'`]([a-z_.${}A-Z?": ]+?)["'`]""", code):
            asked.add(key)
        asked |= set(re.findall(r"""["'](timeline\.\w+|play\.\w+|diagram\.\w+)["']""", code))
    assert len(asked) > 30
    for key in asked:
        pattern = re.compile(re.sub(r"\\\$\\\{.*?\\\}", r"[\\w-]+", re.escape(FILLED.sub("${x}", key))) + "$")
        assert any(pattern.match(known) for known in spoken), key
    # And none of its own words is said nowhere.
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    for key in spoken:
        if key.startswith(("timeline.", "play.", "diagram.", "hover.", "mark.", "rows.", "lanes.", "kv.")):
            name = key.partition(".")[2]
            assert key in text or name in ("focus", "whole", "chat", "long", "prefill_pool", "decode_pool"), key


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_text_can_never_become_markup_or_code(path):
    """What a model wrote is shown by this code: one careless line would let it run."""
    code = path.read_text(encoding="utf-8").replace(SVG_NAMESPACE, "")
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http://",
        "https://",
        "javascript:",
    ):
        assert forbidden not in code


def test_the_version_changes_with_the_code_and_not_with_the_place(tmp_path, monkeypatch):
    """A browser keeps a version for ever: it must be another one as soon as any module is."""
    for path in ALL:
        copy = tmp_path / path.relative_to(script.FOLDER)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    before = script.version()
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    assert script.version.__wrapped__() == before
    Path(tmp_path / "timeline" / "scale.js").write_text("// changed", encoding="utf-8")
    assert script.version.__wrapped__() != before
