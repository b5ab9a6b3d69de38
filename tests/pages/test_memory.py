"""The memory-wall lesson without a browser: what it computes, what it says, and odd input everywhere."""

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from engine import profiles
from engine.formulas.kv import kv_bytes
from pages._ui import session
from pages._ui.words import PAGES, Words, table
from pages.memory import calculator, choices, models
from pages.memory.calculator import Choice

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "num_hidden_layers": 22,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def choice(model: str = "llama-3.1-8b", device: str = "h100-sxm", **changes: object) -> Choice:
    settings = {"devices": 1, "weights": "bf16", "kv": "bf16", "reserve": 0.1, "length": 131_072, "batch": 8} | changes
    return Choice(model=profiles.model(model), device=profiles.device(device), **settings)


@pytest.mark.parametrize("name", profiles.models())
def test_every_model_can_be_drawn_and_told(name):
    """A new profile must not break the page: its data are small, its formula and its tables complete, in both languages."""
    for lang in ("ko", "en"):
        words = Words(lang, "memory")
        chosen = choice(name, length=100_001, kv="int4")
        data = calculator.payload(chosen, [profiles.model("llama-2-7b"), profiles.model(name)], words)
        assert len(json.dumps(data, ensure_ascii=False)) < 20_000
        assert [m["title"] for m in data["compare"]] == ([profiles.model("llama-2-7b").title] if name != "llama-2-7b" else [])
        texts = [*calculator.formula(chosen, words), *sum(calculator.designs(chosen, words)[1], []), *sum(calculator.formats(chosen, words)[1], [])]
        assert texts and not [text for text in texts if re.search(r"\{\w*\}|^[a-z_]+\.[a-z_0-9]+$", text)]


def test_the_formula_has_the_numbers_of_the_model():
    words = Words("en", "memory")
    assert calculator.formula(choice(), words) == ["32 layers × 2 (K and V) × 8 KV heads × 128 × 131,072 tokens × 2 bytes = 17.2 GB."]
    assert calculator.formula(choice("deepseek-v3", length=1000), words) == ["61 layers × (512 latent + 64 rotary) × 1,000 tokens × 2 bytes = 70.3 MB."]
    gemma = calculator.formula(choice("gemma-3-27b", length=100_000), words)
    assert any("1,024 tokens × 2 bytes" in line and "A layer with a window keeps the last 1,024 of 100,000 tokens" in line for line in gemma)
    assert gemma[-1].startswith("Together ")


def test_what_other_attention_would_cost():
    """Llama 3.1 8B with a key for each of its 32 query heads: four times the cache, and nothing fits (claims A3, A4)."""
    head, rows = calculator.designs(choice(), Words("en", "memory"))
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert found["As it is"]["Fit"] == "3" and found["As it is"]["Against the real one"] == "1×"
    mha = found["A key and a value for every query head (MHA)"]
    assert (mha["KV per token"], mha["Against the real one"], mha["Fit"]) == ("524 kB", "4×", "0")
    assert found["One KV head for all (MQA)"]["Against the real one"] == "0.12×"
    assert [name for name, _ in calculator.variants(profiles.model("llama-2-7b"))] == ["as_is", "mqa", "windows"]
    latent, without = (groups for _, groups in calculator.variants(profiles.model("deepseek-v3")))
    # 61 layers x 128 heads x (192 + 128) x 2 bytes against 61 x 576 x 2.
    assert [kv_bytes(groups, 1, "bf16").total for groups in (without, latent)] == [4_997_120, 70_272]
    assert "no_window" in dict(calculator.variants(profiles.model("gemma-3-27b")))


def test_what_the_exercises_say_is_so():
    """The text calls numbers by name: 3 at 131,072 tokens, more than six at half of that, 80 times the parameters."""

    def fit(**settings) -> str:
        head, rows = calculator.designs(choice(**settings), Words("en", "memory"))
        return dict(zip(head, rows[0], strict=True))["Fit"]

    assert (fit(length=131_072), fit(length=65_536)) == ("3", "7")
    large, small = profiles.model("deepseek-v3"), profiles.model("llama-3.1-8b")
    assert large.parameters > 80 * small.parameters and large.kv_bytes_per_token() < small.kv_bytes_per_token()


def test_fewer_bits_in_the_table_are_those_of_the_layouts():
    head, rows = calculator.formats(choice("smollm2-135m-instruct", length=32), Words("en", "memory"))
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert found["int8 + scales"]["Keys and values"] == "369 kB" and found["int8 + scales"]["Scales"] == "11.5 kB"  # 32 x 11,520 and 360
    assert found["int4 + scales"]["Keys and values"] == "184 kB" and found["int4 + scales"]["Scales"] == "34.6 kB"  # 32 x 5,760 and 1,080


def test_all_models_are_compared_the_leanest_first():
    head, rows = models.table(choice(), list(profiles.models().values()), Words("en", "memory"))
    assert len(rows) == len(profiles.models()) and len(head) == len(rows[0])
    names = [row[0] for row in rows]
    assert names.index("Mistral 7B v0.1") < names.index("Llama 3.1 8B") < names.index("Llama 2 7B")
    assert dict(zip(names, rows, strict=True))["DeepSeek-V3"][head.index("Fit")] == "weights do not fit"


def test_the_component_says_only_words_that_exist():
    """A missing word would show its key in the middle of a picture."""
    code = "".join(path.read_text(encoding="utf-8") for path in (PAGES / "static" / "js" / "memory").glob("*.js"))
    asked = set(re.findall(r"""words\(\s*["'`](wall\.[a-z_]+)["'`]""", code)) | set(re.findall(r"""["'](wall\.said_[a-z]+)["']""", code))
    known = {key for key in table("en", "memory") if key.startswith("wall.")}
    filled = {"wall.length", "wall.batch", "wall.exact_length", "wall.exact_batch", *(f"wall.part_{k}" for k in ("weights", "reserve", "kv", "beyond"))}
    assert len(asked) > 25 and asked | filled == known


# ---------------------------------------------------------------- the page itself


def page(**query: str) -> AppTest:
    made = AppTest.from_file(str(PAGES / "memory" / "page.py"), default_timeout=60)
    for name, value in {"lang": "en", **query}.items():
        made.query_params[name] = value
    return made.run()


def shown(made: AppTest) -> str:
    return "\n".join(block.proto.body for block in made.get("html")) + "\n".join(block.value for block in made.markdown)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    monkeypatch.setattr(session, "browser", lambda: "a-browser-of-these-tests")


@pytest.mark.parametrize("part", ["wall", "models", "details"])
@pytest.mark.parametrize("lang", ["ko", "en"])
def test_every_part_opens_in_both_languages(lang, part):
    made = page(lang=lang, part=part)
    assert not made.exception and len(shown(made)) > 500


IN_THE_ADDRESS = ("model", "device", "devices", "kv", "weights", "reserve", "length", "batch")
HOSTILE = ("", "x", "-1", "0", "1e400", "nan", "10**9", "9" * 5000, "<script>alert(1)</script>", "\x00", "pasted", "²", "True")
# Each name by itself, then all of them with each value.
ADDRESSES = [{name: value} for name in IN_THE_ADDRESS for value in ("0", "9" * 5000)] + [dict.fromkeys(IN_THE_ADDRESS, value) for value in HOSTILE]


@pytest.mark.parametrize("query", ADDRESSES, ids=lambda query: ascii(query)[:40])
def test_whatever_is_in_the_address_the_page_opens(query):
    """An address can be put together by hand: what is no choice is left out, never a traceback."""
    made = page(**query)
    assert not made.exception
    assert "<script>alert" not in shown(made)


def test_choices_are_in_the_address_and_come_from_it():
    """A teacher sends a class to a case; a reload loses nothing."""
    made = page(model="deepseek-v3", device="h200-sxm" if "h200-sxm" in profiles.devices() else "a100-80gb-sxm", devices="8", length="1000", kv="fp8")
    assert "61 layers" in shown(made) and "1,000 tokens × 1 byte" in shown(made)
    box = next(box for box in made.selectbox if box.label == "KV format")
    box.select("int4").run()
    assert not made.exception and made.query_params["kv"] == "int4"
    assert "½ byte" in shown(made)


def paste(made: AppTest, text: str) -> AppTest:
    made.text_area(key="memory-config").set_value(text)
    made.button(key="memory-config-use").click()
    return made.run()


def test_a_pasted_config_becomes_the_model():
    made = paste(page(), json.dumps(LLAMA))
    assert not made.exception
    assert "22 layers × 2 (K and V) × 4 KV heads × 64" in shown(made)
    assert "model" not in made.query_params, "what somebody pasted is not in the address he passes on"
    assert made.session_state["memory-model"] == choices.PASTED


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model_type": "bert"}', "null", "<script>", json.dumps(LLAMA | {"num_hidden_layers": -3})])
def test_a_broken_config_is_one_sentence_and_nothing_is_lost(text):
    made = paste(page(lang="ko"), text)
    assert not made.exception
    assert "이 설정은 쓸 수 없습니다" in shown(made) and "Traceback" not in shown(made)
    assert made.text_area(key="memory-config").value == text, "what was typed is still there"
    made = paste(made, json.dumps(LLAMA))
    assert "이 설정은 쓸 수 없습니다" not in shown(made)


@pytest.mark.parametrize("at", [None, 5, [], {}, {"length": "x"}, {"length": -1, "batch": 10**9}, {"length": True}, {"length": 1e300}, {"batch": float("nan")}])
def test_a_browser_may_send_anything_as_the_sliders_place(at):
    made = page()
    made.session_state["memory-wall"] = {"at": at}
    made.run()
    assert not made.exception and "131,072 tokens" in shown(made)
