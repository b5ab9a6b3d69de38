"""The attention experiment: its numbers against Hugging Face's, what is put first, odd texts, and real runs of everything."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments.attention import EXACT_TOKENS, NEW_TOKENS, SHORTEST, first_tokens, other_starts, plan_attention, result_of, run_attention
from engine.experiments.attention_scenario import START_TOKENS, STARTS, AttentionScenario, attention_for
from engine.experiments.attention_worker import FIRST_KEYS, _Reader, _read
from engine.formulas import attention as formulas
from engine.model.load import load_model
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import byte_tokenizer
from engine.texts import keep_own_text

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported

from tests.model.reference import hf_from_gguf, hf_random, ours_from_hf

ROOT = Path(__file__).resolve().parents[2]
TINY = AttentionScenario(40, "korean", model="random-tiny", device="cpu", dtype="float32")
TOLERANCE = 1e-4


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


def hf_attentions(model, ids) -> np.ndarray:
    """[layers, heads, n, n] of Hugging Face's own attention."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(torch.tensor([ids]), output_attentions=True).attentions
    return torch.stack(found)[:, 0].numpy()


def reader_of(transformer) -> tuple[_Reader, list]:
    """The process's desk without a process, with the model given; and what it tells."""
    told = []
    reader = _Reader(told.append)
    reader.worker = SimpleNamespace(loaded=SimpleNamespace(config=transformer.config, transformer=transformer))
    return reader, told


def ask(transformer, ids, *, starts=None, width=1, exact=(-1, -1), first_k=4, queries_from=None, start_tokens=None):
    reader, told = reader_of(transformer)
    start_tokens = len(ids) if start_tokens is None else start_tokens
    answer = reader.compute(
        ids=list(ids),
        queries_from=formulas.first_query(len(ids)) if queries_from is None else queries_from,
        first_k=first_k,
        edges=formulas.bin_edges(len(ids), width),
        exact=exact,
        starts=starts or {},
        start_tokens=start_tokens,
        start_from=formulas.first_query(start_tokens),
    )
    return json.loads(json.dumps(answer, allow_nan=False)), told


def check_against(answer: dict, p: np.ndarray, *, width: int, first_k: int, queries_from: int) -> None:
    """Everything that the process answers of a text, against other probabilities [layers, heads, n, n]."""
    layers, heads, n, _ = p.shape
    shares = p[:, :, queries_from:].mean(axis=2)
    assert np.abs(np.array(answer["first"]) - shares[..., 0]).max() < TOLERANCE
    assert np.abs(np.array(answer["first_k"]) - shares[..., :first_k].sum(-1)).max() < TOLERANCE
    assert np.abs(np.array(answer["profile"]["by_layer"]) - shares.mean(axis=1)).max() < TOLERANCE
    edges = formulas.bin_edges(n, width)
    maps = {"size": len(edges) - 1, "data": answer["maps"]}
    profile = answer["profile"]
    for layer in range(layers):
        wanted = formulas.reduced(p[layer], edges)
        for head in range(heads):
            found = formulas.as_shares(formulas.head_map(maps, layer * heads + head))
            assert np.abs(np.sqrt(found) - np.sqrt(wanted[head])).max() < 0.5 / 255 + 0.01, "half a level, and rounding near 0"
            assert np.abs(found - wanted[head]).max() < 0.004 + TOLERANCE
            assert np.abs(formulas.head_profile(profile, layer * heads + head) - shares[layer, head]).max() < 0.004 + TOLERANCE


@pytest.fixture(scope="module")
def real_text(default_model_path, kjv):
    """The default model and 150 tokens of the default text; what the process answers of them (and tells on the way), and what
    Hugging Face's own reader and attention make of them."""
    model = load_model("smollm2-135m-instruct", pack=False)
    ids = model.tokenizer.encode(kjv.text[:2000], add_special=False)[:150]
    theirs = hf_from_gguf(
        default_model_path, vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, head_dim=64, max_position_embeddings=8192, rms_norm_eps=9.999999747378752e-06, rope_theta=100000.0,
        tie_word_embeddings=True,
    )  # fmt: skip
    starts = other_starts(model.tokenizer, tuple(ids), 0)
    return model.transformer, ids, hf_attentions(theirs, ids), ask(model.transformer, ids, starts=starts, width=3, first_k=2)


def test_the_default_model_looks_where_hugging_face_says(real_text):
    """Probabilities, overview, profiles and maps, all 270 heads; a sink is there; rows sum to 1 before they become bytes."""
    transformer, ids, theirs, (answer, told) = real_text
    found = np.array(probabilities(transformer, ids))
    assert np.abs(found - theirs).max() < TOLERANCE and np.abs(found.sum(axis=-1) - 1).max() < 1e-5 and not np.triu(found, 1).any()
    check_against(answer, theirs, width=3, first_k=2, queries_from=75)
    assert np.mean(answer["first"]) > 20 * formulas.even_share(150, 75, 1)
    assert [record["done"] for record in told] == [(layer + 1) / 30 for layer in range(30)]
    strongest = np.unravel_index(np.array(answer["first"]).argmax(), (30, 9))
    exact = answer["exact"]
    assert (exact["layer"], exact["head"], exact["size"]) == (*strongest, 150)
    assert np.abs(formulas.as_shares(formulas.head_map(exact)) - theirs[strongest]).max() < 0.004 + TOLERANCE


@settings(max_examples=25)
@given(st.integers(1, 3), st.sampled_from([(1, 1), (2, 1), (2, 3)]), st.integers(1, 50), st.integers(1, 60), st.integers(1, 16), st.integers(0, 2**31), st.data())
def test_random_models_look_where_hugging_face_says(layers, heads, n, width, first_k, seed, data):
    """Any shape, any length from one token on, any reduction."""
    kv_heads, group = heads
    theirs = hf_random(
        seed, vocab_size=60, hidden_size=kv_heads * group * 8, num_hidden_layers=layers, num_attention_heads=kv_heads * group,
        num_key_value_heads=kv_heads, head_dim=8, intermediate_size=32, max_position_embeddings=512,
    )  # fmt: skip
    ids = torch.randint(0, 60, (n,), generator=torch.Generator().manual_seed(seed)).tolist()
    queries_from = data.draw(st.integers(0, n - 1))
    answer, _ = ask(ours_from_hf(theirs), ids, width=width, first_k=first_k, queries_from=queries_from)
    check_against(answer, hf_attentions(theirs, ids), width=width, first_k=first_k, queries_from=queries_from)


def probabilities(transformer, ids) -> list[np.ndarray]:
    """Of every layer, [heads, n, n]."""
    found = {}
    _read(SimpleNamespace(loaded=SimpleNamespace(transformer=transformer)), [(found.__setitem__, ids)])
    return [found[layer] for layer in range(transformer.config.n_layers)]


def test_a_start_is_what_its_tokens_give_alone():
    """All go through the model as one batch: none may see another. "as_is" is the beginning of the text itself."""
    theirs = hf_random(
        1, vocab_size=60, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=8, intermediate_size=32
    )
    ids = torch.randint(0, 60, (50,), generator=torch.Generator().manual_seed(1)).tolist()
    starts = {"special": [59, *ids[:29]], "newlines4": [7, 7, 7, 7, *ids[:26]]}
    answer, _ = ask(ours_from_hf(theirs), ids, starts=starts, start_tokens=30)
    assert list(answer["starts"]) == ["as_is", "special", "newlines4"]
    for name, found in answer["starts"].items():
        shares = hf_attentions(theirs, starts.get(name, ids[:30]))[:, :, 15:].mean(axis=(1, 2))
        assert found["by_layer"] == pytest.approx(shares[:, 0], abs=TOLERANCE) and found["by_layer_k"] == pytest.approx(shares[:, :4].sum(axis=1), abs=TOLERANCE)
        assert found["first"] == pytest.approx(shares[:, 0].mean(), abs=TOLERANCE) and found["first_k"] == pytest.approx(shares[:, :4].sum(axis=1).mean(), abs=TOLERANCE)
        assert found["by_position"] == pytest.approx(shares.mean(axis=0)[:FIRST_KEYS], abs=TOLERANCE)


def test_whatever_comes_first_becomes_the_sink(real_text):
    """The finding that the lesson is about, on the real model: a line break or a word gets as much as the text's own first
    token, and four line breaks share it."""
    found = real_text[-1][0]["starts"]
    usual, four = found["as_is"]["first"], found["newlines4"]["by_position"][:4]
    assert usual > 0.2 and all(found[name]["first"] > 0.7 * usual for name in ("special", "newline", "word"))
    assert max(four) < 0.6 * usual < sum(four)


def test_starts_put_first_what_their_names_say(default_model_path):
    """And the text behind it as it was, as long as before."""
    tokenizer = load_tokenizer("smollm2-135m-instruct")
    ids = tuple(tokenizer.encode("In the beginning God created the heavens and the earth. And the earth was without form", add_special=False))
    found = other_starts(tokenizer, ids, 3)
    assert list(found) == list(STARTS[1:]) and {len(start) for start in found.values()} == {len(ids)}
    assert found["special"] == (tokenizer.bos_id, *ids[:-1]) and tokenizer.decode(found["special"][:1]) == "<|im_start|>"
    assert tokenizer.decode(found["newline"]) == "\n" + tokenizer.decode(ids[1:])
    assert tokenizer.decode(found["newlines4"]) == "\n" * 4 + tokenizer.decode(ids[:-4]) and len(set(found["newlines4"][:4])) == 1
    word = tokenizer.decode(found["word"][:1]).strip()
    assert word.isalpha() and len(word) > 3 and found["word"][1:] == ids[1:] and found["word"][0] != ids[0]
    assert other_starts(tokenizer, ids, 3) == found and {other_starts(tokenizer, ids, seed)["word"] for seed in range(5)} != {found["word"]}
    assert set(NEW_TOKENS) == set(STARTS)


def test_a_vocabulary_without_words_has_fewer_starts():
    """Bytes: no special token and no word, and no endless search for one."""
    assert list(other_starts(byte_tokenizer("bytes"), tuple(range(65, 90)), 0)) == ["newline", "newlines4"]


@given(st.text(max_size=50), st.integers(2, 40), st.data())
def test_the_first_tokens_of_a_text(text, tokens, data):
    """From the character asked for; what they cover is counted in whole characters."""
    tokenizer = byte_tokenizer("bytes")
    offset = data.draw(st.integers(0, len(text)))
    ids, characters = first_tokens(tokenizer, text, offset, tokens)
    assert list(ids) == tokenizer.encode(text[offset:])[:tokens]
    whole = tokenizer.decode(ids).rstrip("\ufffd")
    assert text[offset:].startswith(whole) and characters == len(whole)


FAMILY = "👩\u200d👩\u200d👧"
ODD = {
    "one token": "a",
    "one character of several tokens": "가",
    "all the same": "a" * 500,
    "emoji": f"{FAMILY} 🇰🇷" * 30,
    "right to left": "مرحبا بالعالم " * 30,
    "control characters": "\x01\x02\x1b[31m\x7f\u202eabc\u2066\t" * 10,
    "white space with a letter": " " * 200 + "a" + "\n" * 200,
    "100,000 characters": "lorem ipsum " * 8334,
    "100,000 characters without a space": "ab" * 50_000,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_texts(name, home):
    """Whatever somebody types: a result that says what was read, with labels that can be read, and no hole in the numbers."""
    text = ODD[name]
    kept = keep_own_text(text.encode())
    scenario = TINY.changed({"text": kept, "tokens": 200})
    plan = plan_attention(scenario)
    n = len(plan.ids)
    assert n == min(len(text.encode()), 200), "a token is a byte here"
    answer, _ = ask(load_model("random-tiny", pack=False).transformer, plan.ids, starts=plan.starts, start_tokens=plan.start_tokens)
    result = json.loads(json.dumps(result_of(plan, scenario, answer), allow_nan=False))
    assert len(result["tokens"]) == n == result["text"]["tokens"] and result["text"]["asked"] == 200
    assert result["text"]["more"] == (result["text"]["characters"] < len(text)), "what was cut is said"
    assert not [label for label in result["tokens"] if "\ufffd" in label or any(ord(c) < 32 for c in label) or not label.strip()]
    assert (result["starts"] == []) == (result["starts_on"] is None) == (n < SHORTEST)
    shares = np.array(result["overview"]["first"])
    assert shares.shape == (2, 4) and (shares > 0).all() and (shares <= 1).all()
    if n == 1:
        assert (shares == 1).all() and result["overview"]["uniform"] == result["overview"]["uniform_k"] == 1


def test_an_empty_text_is_refused(home):
    """With a sentence, not a map of nothing."""
    for text in ("", " \n\t "):
        with pytest.raises(LabError) as caught:
            keep_own_text(text.encode())
        assert caught.value.code == "text-empty"


def test_what_cannot_be_is_told_before_a_process_starts(home):
    """After seconds of loading it would be the same news."""
    cases = [
        ({"model": "nonsense"}, "model-unknown"), ({"text": "nonsense"}, "text-unknown"), ({"text": "own:" + "0" * 64}, "text-unknown"),
        ({"model": "smollm2-135m-instruct"}, "model-missing"), ({"text": "kjv"}, "text-missing"), ({"threads": 200}, "scenario-value"),
        ({"offset": 5000}, "scenario-value"), ({"exact_layer": 2, "exact_head": 0}, "scenario-value"), ({"exact_layer": 0, "exact_head": 4}, "scenario-value"),
    ]  # fmt: skip
    for changes, code in cases:
        with pytest.raises(LabError) as caught:
            run_attention(TINY.changed(changes), progress=lambda phase, done: pytest.fail(phase))
        assert caught.value.code == code and "{" not in str(caught.value)
        if code == "scenario-value":
            assert caught.value.facts["field"] in changes


@pytest.mark.parametrize("tokens, model, most", [(1024, "smollm2-135m-instruct", 1_500_000), (512, "smollm2-135m-instruct", 1_400_000), (1024, "random-1b", 1_500_000)])
def test_a_result_stays_small(tokens, model, most, default_model_path):
    """The largest text, of the characters that take the most room, with numbers of all digits."""
    text = keep_own_text((f"{FAMILY}가" * 300).encode())
    scenario = attention_for("cpu", tokens=tokens, text=text, device="cpu", model=model)
    plan = plan_attention(scenario)
    c, n, bins = plan.setup.card.config, len(plan.ids), len(plan.edges) - 1
    heads = c.n_layers * c.n_heads
    share = 0.123456
    of_start = {"first": share, "first_k": share, "by_layer": [share] * c.n_layers, "by_layer_k": [share] * c.n_layers, "by_position": [share] * 8}
    answer = {
        "first": [[share] * c.n_heads] * c.n_layers,
        "first_k": [[share] * c.n_heads] * c.n_layers,
        "profile": {"by_layer": [[0.00123] * n] * c.n_layers, "by_head": base64.b64encode(bytes(heads * n)).decode()},
        "maps": base64.b64encode(bytes(heads * bins * (bins + 1) // 2)).decode(),
        "exact": plan.exact and {"layer": 0, "head": 0, "size": n, "data": base64.b64encode(bytes(n * (n + 1) // 2)).decode()},
        "starts": dict.fromkeys(STARTS, of_start),
    }
    text = json.dumps(result_of(plan, scenario, answer), ensure_ascii=False)
    assert n == tokens and (plan.exact is None) == (tokens > EXACT_TOKENS) and 400_000 < len(text.encode()) < most - 5_000


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """One real run: a process that loads and reads; and the phases it went through."""
    phases = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        scenario = TINY.changed({"tokens": 300, "offset": 10, "exact_layer": 1, "exact_head": 3})
        return run_attention(scenario, run_id="promised", progress=lambda phase, done: phases.append((phase, done))), phases


def test_a_real_run(real):
    """The whole way; the result is JSON and says what was read, from where, and what was done to it."""
    result, phases = real
    json.dumps(result, allow_nan=False)
    assert (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "attention", "promised", "measured")
    scenario = AttentionScenario.from_dict(result["manifest"]["scenario"])
    assert scenario.tokens == 300 and result["manifest"]["scenario_key"] == scenario.key() and result["manifest"]["text"]["name"] == "korean"
    assert result["manifest"]["threads"] >= 1 and result["manifest"]["model"]["name"] == "random-tiny"
    assert len(result["tokens"]) == 300 and result["text"] | {"characters": 0} == {"tokens": 300, "asked": 300, "offset": 10, "characters": 0, "more": True}
    assert (result["layers"], result["heads"]) == (2, 4) and result["overview"]["queries_from"] == 100
    assert result["maps"]["reduction"] is None and result["maps"]["edges"] == list(range(301)) and result["maps"]["size"] == 300
    assert (result["exact"]["layer"], result["exact"]["head"]) == (1, 3)
    assert np.array_equal(formulas.head_map(result["exact"]), formulas.head_map(result["maps"], 7))
    assert sum(result["profile"]["uniform"]) == pytest.approx(1, abs=0.01) and result["profile"]["uniform"][0] == pytest.approx(result["overview"]["uniform"], rel=0.01)
    for layer in range(2):
        assert sum(result["profile"]["by_layer"][layer]) == pytest.approx(1, abs=0.01)
        assert result["profile"]["by_layer"][layer][0] == pytest.approx(np.mean(result["overview"]["first"][layer]), abs=1e-4)
    assert [entry["name"] for entry in result["starts"]] == ["as_is", "newline", "newlines4"] and result["starts_on"]["tokens"] == START_TOKENS
    assert result["starts"][2]["labels"][:5] == ["⏎"] * 4 + result["tokens"][:1] and result["starts"][1]["labels"][1:] == result["tokens"][1:8]
    assert set(result["seconds"]) == {"starting", "loading", "computing"} and set(result["disturbance"]["schedules"]) == {"attention"}
    assert [phase for number, (phase, _) in enumerate(phases) if number == 0 or phases[number - 1][0] != phase] == ["starting-workers", "loading", "computing"]
    shares = [done for phase, done in phases if phase == "computing"]
    assert shares == sorted(shares) and (shares[0], shares[-1]) == (0.0, 1.0)


def test_the_same_again_gives_the_same_numbers(real, home):
    """Otherwise a recording and a run beside it would disagree, and nobody would know why."""
    again = run_attention(AttentionScenario.from_dict(real[0]["manifest"]["scenario"]))
    for part in ("tokens", "overview", "profile", "maps", "exact", "starts"):
        assert again[part] == real[0][part]






def test_the_process_does_not_load_what_it_does_not_need():
    """torch.compile takes a second to import, a fifth of what a class waits for."""
    code = "import sys, engine.model.load, engine.model.probabilities, engine.experiments.attention_worker; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
