"""Both languages say the same things: equal keys, equal facts, equal parts, and a Korean sentence for every error."""

import re
import string
from pathlib import Path

import pytest

from engine.errors import MESSAGES, LabError
from engine.model.catalog import CATALOG
from pages._ui import errors
from pages._ui.language import negotiate
from pages._ui.words import PAGES, Words, model_title, parts, quantization, table

# Names and signs that are the same in both languages; "first wave" is the English term beside a Korean one.
NAMES = {"Prefill vs Decode", "Ring Attention", "NTK-aware", "Llama 3", "config.json", "fp32", "bf16", "fp8", "first wave"}
FOLDERS = sorted(p.parent.name for p in PAGES.glob("*/ko.toml"))


def facts(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_tables_have_equal_keys_and_facts(folder):
    ko, en = table("ko", folder), table("en", folder)
    assert set(ko) == set(en)
    for key in ko:
        assert facts(ko[key]) == facts(en[key]), key
        assert ko[key].strip() and en[key].strip(), key


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_prose_has_equal_parts(folder):
    assert list(parts("ko", folder)) == list(parts("en", folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_key_a_page_asks_for_is_in_its_own_table_or_the_shared_one(folder):
    """A key that only another lesson's table has would be shown as it is. What is shared may ask for a page's words."""
    known = {key for name in (FOLDERS if folder == "_ui" else (folder, "_ui")) for key in table("en", name)}
    asked = set()
    for path in (PAGES / folder).rglob("*.py"):
        asked |= set(re.findall(r"""\bwords\(["']([a-z_.\-]+)["']""", path.read_text(encoding="utf-8")))
    asked -= set(FOLDERS)  # session.words("home") asks for a table, not for a text
    assert asked and asked <= known


def test_korean_has_a_sentence_for_every_error_with_the_same_facts():
    assert set(errors.korean()) == set(MESSAGES)
    for code, text in errors.korean().items():
        assert facts(text) == facts(MESSAGES[code]), code
        assert re.search("[가-힣]", text), code


def test_an_error_reads_in_the_readers_language_with_the_fields_name():
    error = LabError("scenario-value", field="chat.count", value="-1", expected="a whole number from 0 to 256")
    assert (
        errors.sentence(error, Words("ko", "schedules"))
        == "채팅: 수 = -1: 쓸 수 없는 값입니다. 0 이상 256 이하의 정수이어야 합니다."
    )
    assert errors.sentence(error.as_dict(), Words("en", "schedules")).startswith("Chats: how many = -1 is not possible")


def test_an_unknown_error_still_gives_a_sentence():
    assert errors.sentence({"code": "from-the-future", "message": "Something new."}, Words("ko")) == "Something new."
    assert errors.sentence(None, Words("ko"))


@pytest.mark.parametrize(
    ("asked", "header", "lang"),
    [
        ("ko", "en-US,en;q=0.9", "ko"),
        ("en", "ko-KR,ko;q=0.9", "en"),
        (None, "ko-KR,ko;q=0.9,en-US;q=0.8,en;q=0.7", "ko"),
        (None, "fr-FR,en;q=0.6,ko;q=0.9", "ko"),
        ("xx", "de-DE,de", "en"),
        ("<script>", "", "en"),
        (None, None, "en"),
        (None, "ko;q=0, en;q=0.1", "en"),
        (None, "ko;q=oops", "en"),
    ],
)
def test_which_language(asked, header, lang):
    assert negotiate(asked, header) == lang


def test_no_sentence_has_a_particle_that_must_guess():
    """Korean particles change with the sound before them; a text with both forms would look machine-made."""
    for folder, texts in {**{folder: table("ko", folder) for folder in FOLDERS}, "errors": errors.korean()}.items():
        for key, text in texts.items():
            assert not re.search(r"[을를이가은는과와]\([을를이가은는과와]\)|\((으|이)\)", text), (folder, key)


def test_fonts_and_licence_are_there():
    fonts = Path(PAGES, "static", "pretendard")
    css = (fonts / "pretendard.css").read_text()
    named = set(re.findall(r"url\((\d+\.woff2)\)", css))
    assert named == {p.name for p in fonts.glob("*.woff2")} and len(named) > 50
    assert "SIL OPEN FONT LICENSE" in (fonts / "LICENSE.txt").read_text().upper()


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_table_is_in_its_language(folder):
    """A text copied over and not translated, or put into the other table."""
    ko, en = table("ko", folder), table("en", folder)
    assert not [key for key, text in en.items() if re.search("[가-힣]", text)]
    copied = {key: text for key, text in ko.items() if not re.search("[가-힣]", text) and re.search("[a-z]{2}", re.sub(r"\{[^}]*\}", "", text))}
    assert not {key: text for key, text in copied.items() if text not in NAMES and not text.startswith("$$")}


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_what_the_catalogue_says_of_a_model_is_said_in_korean_where_it_is_no_name(name):
    model, words = {"name": name, "title": CATALOG[name].title, "quantization": CATALOG[name].quantization}, Words("ko")
    assert re.search("[가-힣]", quantization(model, words))
    assert bool(re.search("[가-힣]", model_title(model, words))) == name.startswith("random")
    assert model_title(model, Words("en")) == model["title"] and quantization(model, Words("en")) == model["quantization"]
