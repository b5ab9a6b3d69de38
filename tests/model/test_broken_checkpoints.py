"""Broken, truncated and hostile checkpoints: each one is a sentence, never a traceback, and never fills the memory."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from engine.errors import LabError
from engine.model.card import describe
from engine.model.config import ModelConfig
from engine.model.load import load_model
from tests.model.checkpoints import SETTINGS, tensors_of, write_directory, write_gguf
from tests.model.reference import logits_of

CONFIG = ModelConfig.from_hf(SETTINGS)


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))


def refusal(path) -> LabError:
    """Loading must fail with a LabError whose sentence is complete and on one line."""
    with pytest.raises(LabError) as caught:
        load_model(str(path))
    sentence = str(caught.value)
    assert "\n" not in sentence and "{" not in sentence.replace("{'", "") and len(sentence) > 40
    return caught.value


def header_of(file) -> tuple[int, dict, bytes]:
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return length, json.loads(data[8 : 8 + length]), data[8 + length :]


def rewrite_header(file, change) -> None:
    _, header, rest = header_of(file)
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + rest)


# ---------------------------------------------------------------- directories


def _drop(folder, name):
    (folder / name).unlink()


def _config(**changes):
    return lambda folder: (folder / "config.json").write_text(json.dumps({**SETTINGS, **changes}))


def _only_pickle(folder):
    _drop(folder, "model.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n(S'echo owned'\ntR.")


def _cut(file, keep):
    return lambda folder: os.truncate(folder / file, keep if keep >= 0 else (folder / file).stat().st_size + keep)


def _header(length):
    return lambda folder: (folder / "model.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}" + b"\0" * 64)


def _index(weight_map):
    def make(folder):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))

    return make


def _link_out(name, target):
    def make(folder):
        outside = folder.parent / "outside"
        outside.mkdir()
        (folder / name).replace(outside / name)
        (folder / name).symlink_to(target or outside / name)

    return make


def _entry(**changes):
    return lambda folder: rewrite_header(folder / "model.safetensors", lambda header: header["model.norm.weight"].update(changes))


def _tensors(change):
    def make(folder):
        tensors = tensors_of(CONFIG)
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return make


NORM, Q = "model.norm.weight", "model.layers.1.self_attn.q_proj.weight"
DIRECTORIES = {
    "no config": (lambda f: _drop(f, "config.json"), "checkpoint-not-a-model"),
    "config is not JSON": (lambda f: (f / "config.json").write_text("{oops"), "checkpoint-unreadable"),
    "config is binary": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"), "checkpoint-unreadable"),
    "config is a list": (lambda f: (f / "config.json").write_text("[1]"), "checkpoint-unreadable"),
    "config is nested beyond reason": (lambda f: (f / "config.json").write_text("[" * 100_000), "checkpoint-unreadable"),
    "config is far too long": (lambda f: (f / "config.json").write_text(" " * (2 << 20)), "checkpoint-unreadable"),
    "config is a directory": (lambda f: (_drop(f, "config.json"), (f / "config.json").mkdir()), "checkpoint-unreadable"),
    "another architecture": (_config(model_type="qwen2"), "checkpoint-architecture"),
    "an encoder": (_config(architectures=["LlamaForSequenceClassification"]), "checkpoint-architecture"),
    "another activation": (_config(hidden_act="gelu"), "checkpoint-architecture"),
    "packed by a quantiser": (_config(quantization_config={"quant_method": "gptq"}), "checkpoint-architecture"),
    "unknown rope scaling": (_config(rope_scaling={"rope_type": "longrope", "factor": 4.0}), "checkpoint-architecture"),
    "rope scaling without its factor": (_config(rope_scaling={"rope_type": "linear"}), "checkpoint-config"),
    "yarn without factor and trained length": (_config(rope_scaling={"rope_type": "yarn"}), "checkpoint-config"),
    "yarn from no trained length": (_config(rope_scaling={"rope_type": "yarn", "original_max_position_embeddings": 0}), "checkpoint-config"),
    "yarn to an endless length": (
        _config(rope_scaling={"rope_type": "yarn", "original_max_position_embeddings": 64}, max_position_embeddings=10**400),
        "checkpoint-config",
    ),
    "yarn with its betas the wrong way round": (
        _config(rope_scaling={"rope_type": "yarn", "factor": 2.0, "beta_fast": 1, "beta_slow": 32}), "checkpoint-config",
    ),
    "yarn with an attention factor of nothing": (
        _config(rope_scaling={"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.0}), "checkpoint-config",
    ),
    "dynamic with a single pair": (_config(rope_scaling={"type": "dynamic", "factor": 2.0}, head_dim=2), "checkpoint-config"),
    "rotation of half a head": (
        _config(rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.5}), "checkpoint-architecture",
    ),
    "negative layers": (_config(num_hidden_layers=-2), "checkpoint-config"),
    "no layers": (_config(num_hidden_layers=0), "checkpoint-config"),
    "a billion layers": (_config(num_hidden_layers=10**9), "checkpoint-config"),
    "an endless vocabulary": (_config(vocab_size=10**30), "checkpoint-config"),
    "a missing size": (_config(intermediate_size=None), "checkpoint-config"),
    "a size in words": (_config(hidden_size="big"), "checkpoint-config"),
    "a size that is true": (_config(hidden_size=True), "checkpoint-config"),
    "half a head": (_config(num_attention_heads=2.5), "checkpoint-config"),
    "no heads": (_config(num_attention_heads=0, head_dim=None), "checkpoint-config"),
    "heads that do not divide": (_config(num_key_value_heads=3), "checkpoint-config"),
    "an odd head_dim": (_config(head_dim=15), "checkpoint-config"),
    "theta is zero": (_config(rope_theta=0), "checkpoint-config"),
    "theta is not a number": (_config(rope_theta=float("nan")), "checkpoint-config"),
    "theta is infinite": (_config(rope_theta=float("inf")), "checkpoint-config"),
    "theta is a huge integer": (_config(rope_theta=10**400), "checkpoint-config"),
    "epsilon is negative": (_config(rms_norm_eps=-1e-5), "checkpoint-config"),
    "a switch in words": (_config(tie_word_embeddings="yes"), "checkpoint-config"),
    "more layers than weights": (_config(num_hidden_layers=3), "checkpoint-tensor-missing"),
    "another width than the weights": (_config(hidden_size=64), "checkpoint-tensor-shape"),
    "a head without weights": (_config(tie_word_embeddings=False), "checkpoint-tensor-missing"),
    "only a pickle": (_only_pickle, "checkpoint-pickle"),
    "no weights": (lambda f: _drop(f, "model.safetensors"), "checkpoint-not-a-model"),
    "weights are empty": (_cut("model.safetensors", 0), "checkpoint-unreadable"),
    "weights end in the header": (_cut("model.safetensors", 300), "checkpoint-unreadable"),
    "weights end in the data": (_cut("model.safetensors", -1000), "checkpoint-unreadable"),
    "header longer than the file": (_header(1000), "checkpoint-unreadable"),
    "header of 2^63 bytes": (_header(2**63), "checkpoint-unreadable"),
    "header is no table": (lambda f: (f / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]"), "checkpoint-unreadable"),
    "header is not JSON": (lambda f: (f / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{{"), "checkpoint-unreadable"),
    "an entry without shape": (_entry(shape=None), "checkpoint-unreadable"),
    "an entry of negative size": (_entry(shape=[-32]), "checkpoint-unreadable"),
    "an entry with a huge shape": (_entry(shape=[2**40, 2**40]), "checkpoint-unreadable"),
    "an entry beyond the end": (_entry(data_offsets=[0, 2**50]), "checkpoint-unreadable"),
    "an entry that runs backwards": (_entry(data_offsets=[128, 0]), "checkpoint-unreadable"),
    "an entry of unknown type": (_entry(dtype="F4_IMAGINARY"), "checkpoint-unreadable"),
    "integer weights": (_tensors(lambda t: t.update({NORM: torch.ones(32, dtype=torch.int32)})), "checkpoint-tensor-type"),
    "a missing tensor": (_tensors(lambda t: t.pop(Q)), "checkpoint-tensor-missing"),
    "a transposed tensor": (_tensors(lambda t: t.update({Q: t[Q].T.contiguous()})), "checkpoint-tensor-shape"),
    "index names no files": (_index({}), "checkpoint-unreadable"),
    "index is a list": (lambda f: (f / "model.safetensors.index.json").write_text("[]"), "checkpoint-unreadable"),
    "index names numbers": (_index({NORM: 3}), "checkpoint-unreadable"),
    "index names a missing shard": (_index({NORM: "model-00001-of-00002.safetensors"}), "checkpoint-unreadable"),
    "index lacks tensors": (_index({NORM: "model.safetensors"}), "checkpoint-tensor-missing"),
    "index climbs out": (_index({NORM: "../outside.safetensors"}), "checkpoint-outside"),
    "index names the root": (_index({NORM: "/etc/passwd"}), "checkpoint-outside"),
    "index names a subfolder": (_index({NORM: "a/b.safetensors"}), "checkpoint-outside"),
    "index names itself upwards": (_index({NORM: ".."}), "checkpoint-outside"),
    "index with a nul": (_index({NORM: "a\0b"}), "checkpoint-outside"),
    "weights link out": (_link_out("model.safetensors", None), "checkpoint-outside"),
    "config links out": (_link_out("config.json", None), "checkpoint-outside"),
    "weights link to a device": (_link_out("model.safetensors", "/dev/zero"), "checkpoint-outside"),
    "weights link to themselves": (_link_out("model.safetensors", "model.safetensors"), None),
    "no tokenizer": (lambda f: _drop(f, "tokenizer.json"), "tokenizer-missing"),
    "tokenizer is not JSON": (lambda f: (f / "tokenizer.json").write_text("x"), "tokenizer-unsupported"),
    "tokenizer is something else": (lambda f: (f / "tokenizer.json").write_text('{"model": {"type": "Magic"}}'), "tokenizer-unsupported"),
    "tokenizer larger than the model": (_config(vocab_size=200), "checkpoint-tensor-shape"),
}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_directories(tmp_path, name):
    breakage, code = DIRECTORIES[name]
    folder = write_directory(tmp_path / "model")
    breakage(folder)
    error = refusal(folder)
    assert code is None or error.code == code, str(error)


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path):
    """Its ids would reach past the embedding, in the middle of a run."""
    error = refusal(write_directory(tmp_path / "model", settings={"vocab_size": 200}))
    assert error.code == "tokenizer-unsupported"


def test_the_pickle_is_not_even_opened(tmp_path):
    """Describing and loading a directory with a hostile pickle beside safetensors runs nothing of it."""
    folder = write_directory(tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cposix\nsystem\n(S'touch " + str(tmp_path / "owned").encode() + b"'\ntR.")
    load_model(str(folder))
    assert not (tmp_path / "owned").exists()


def test_a_snapshot_of_the_hugging_face_cache_loads(tmp_path):
    """There, files are links into ../../blobs; that is the one way out of the directory that is followed."""
    real = write_directory(tmp_path / "real")
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in list(real.iterdir()):
        file.replace(blobs / f"hash-of-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/hash-of-{file.name}")
    assert load_model(str(snapshot)).config == CONFIG


def test_weights_that_are_not_numbers_load(tmp_path):
    """NaN is data, not damage: a lesson may want to show it."""
    tensors = tensors_of(CONFIG)
    tensors[NORM][0] = float("nan")
    model = load_model(str(write_directory(tmp_path / "model", tensors=tensors)))
    assert logits_of(model.transformer, torch.arange(3)).isnan().any()


# ---------------------------------------------------------------- GGUF files


def _number(kind, value):
    return struct.pack({"u4": "<I", "u8": "<Q"}[kind], value)


def _text(text):
    return _number("u8", len(text)) + text.encode()


def _raw(*, tensors=0, fields=0, body=b"", magic=b"GGUF", version=3):
    return magic + _number("u4", version) + _number("u8", tensors) + _number("u8", fields) + body


RAW_GGUF = {
    "empty": b"",
    "three bytes": b"GGU",
    "another format": b"PK\x03\x04" + b"\0" * 100,
    "version 1": _raw(version=1),
    "big-endian": b"GGUF\x00\x00\x00\x03" + b"\0" * 64,
    "2^60 settings": _raw(fields=2**60),
    "2^60 tensors": _raw(tensors=2**60),
    "fewer settings than claimed": _raw(fields=5),
    "a name of 2^62 bytes": _raw(fields=1, body=_number("u8", 2**62)),
    "a text of 2^40 bytes": _raw(fields=1, body=_text("general.name") + _number("u4", 8) + _number("u8", 2**40)),
    "a list of 2^50 texts": _raw(fields=1, body=_text("t") + _number("u4", 9) + _number("u4", 8) + _number("u8", 2**50)),
    "a list of 2^22 numbers in no space": _raw(fields=1, body=_text("t") + _number("u4", 9) + _number("u4", 12) + _number("u8", 2**22)),
    "a list of lists": _raw(fields=1, body=_text("t") + _number("u4", 9) + _number("u4", 9) + _number("u8", 1)),
    "a setting of unknown type": _raw(fields=1, body=_text("t") + _number("u4", 77)),
    "a tensor of 9 dimensions": _raw(tensors=1, body=_text("w") + _number("u4", 9)),
    "a tensor of 2^90 values": _raw(
        tensors=1, body=_text("w") + _number("u4", 2) + _number("u8", 2**45) * 2 + _number("u4", 0) + _number("u8", 0)
    ),
    "no settings at all": _raw(body=b"\0" * 64),
}


@pytest.mark.parametrize("name", RAW_GGUF)
def test_files_that_are_no_gguf(tmp_path, name):
    """Lengths that lie are found out before memory is taken for them."""
    path = tmp_path / "model.gguf"
    path.write_bytes(RAW_GGUF[name])
    tracemalloc.start()
    error = refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.code in ("checkpoint-unreadable", "checkpoint-architecture")
    assert peak < 30 << 20


def _gguf(**arguments):
    return lambda path: write_gguf(path, CONFIG, tensors_of(CONFIG), **arguments)


def _gguf_tensors(change):
    def make(path):
        tensors = tensors_of(CONFIG)
        change(tensors)
        write_gguf(path, CONFIG, tensors)

    return make


GGUF = {
    "another architecture": (_gguf(fields={"general.architecture": "qwen2"}), "checkpoint-architecture"),
    "experts": (_gguf(fields={"llama.expert_count": 8}), "checkpoint-architecture"),
    "one part of several": (_gguf(fields={"split.count": 4}), "checkpoint-not-a-model"),
    "longrope": (_gguf(fields={"llama.rope.scaling.type": "longrope"}), "checkpoint-architecture"),
    "yarn without its factor": (_gguf(fields={"llama.rope.scaling.type": "yarn"}), "checkpoint-config"),
    "yarn of another make": (
        _gguf(fields={"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2.0, "llama.rope.scaling.yarn_log_multiplier": 0.1}),
        "checkpoint-architecture",
    ),
    "negative layers": (_gguf(fields={"llama.block_count": -1}), "checkpoint-config"),
    "absurd layers": (_gguf(fields={"llama.block_count": 2**31}), "checkpoint-config"),
    "no heads": (_gguf(fields={"llama.attention.head_count": 0}), "checkpoint-config"),
    "heads in words": (_gguf(fields={"llama.attention.head_count": "many"}), "checkpoint-config"),
    "heads per layer": (_gguf(fields={"llama.attention.head_count_kv": [2, 1]}), "checkpoint-config"),
    "no context length": (_gguf(fields={"llama.context_length": None}), "checkpoint-config"),
    "half-turned heads": (_gguf(fields={"llama.rope.dimension_count": 8}), "checkpoint-config"),
    "values of another width": (_gguf(fields={"llama.attention.value_length": 8}), "checkpoint-config"),
    "theta is not a number": (_gguf(fields={"llama.rope.freq_base": float("nan")}), "checkpoint-config"),
    "more layers than tensors": (_gguf(fields={"llama.block_count": 3}), "checkpoint-tensor-missing"),
    "a missing tensor": (_gguf_tensors(lambda t: t.pop(NORM)), "checkpoint-tensor-missing"),
    "a tensor of another shape": (_gguf_tensors(lambda t: t.update({NORM: torch.ones(16)})), "checkpoint-tensor-shape"),
    "frequency divisors of another length": (_gguf(extra={"rope_freqs.weight": np.ones(3, np.float32)}), "checkpoint-config"),
    "frequency divisors of zero": (_gguf(extra={"rope_freqs.weight": np.zeros(8, np.float32)}), "checkpoint-config"),
    "integer weights": (_gguf(extra={"rope_freqs.weight": np.ones(8, np.int32)}), "checkpoint-tensor-type"),
    "no tokens": (_gguf(fields={"tokenizer.ggml.tokens": None, "tokenizer.ggml.token_type": None}), "tokenizer-missing"),
    "stretched by nothing": (_gguf(fields={"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 0.0}), "checkpoint-config"),
    "another tokenizer": (_gguf(fields={"tokenizer.ggml.model": "llama"}), "tokenizer-unsupported"),
    "another pre-tokenizer": (_gguf(fields={"tokenizer.ggml.pre": "llama-bpe"}), "tokenizer-unsupported"),
    "merges of unknown tokens": (_gguf(fields={"tokenizer.ggml.merges": ["zz yy"]}), "tokenizer-unsupported"),
    "merges without a space": (_gguf(fields={"tokenizer.ggml.merges": ["zz"]}), "tokenizer-missing"),
}


@pytest.mark.parametrize("name", GGUF)
def test_gguf_files(tmp_path, name):
    make, code = GGUF[name]
    make(tmp_path / "model.gguf")
    assert refusal(tmp_path / "model.gguf").code == code


def test_a_gguf_file_cut_off_anywhere_is_refused(tmp_path):
    """A download that stopped: in the settings, in the table of tensors, in the data, in the last byte."""
    whole = write_gguf(tmp_path / "whole.gguf", CONFIG, tensors_of(CONFIG)).read_bytes()
    path = tmp_path / "cut.gguf"
    for keep in [*range(0, len(whole) - 1, 997), len(whole) - 1]:
        path.write_bytes(whole[:keep])
        assert refusal(path).code == "checkpoint-unreadable"


def _loads_or_refuses(path) -> None:
    try:
        describe(str(path))
        load_model(str(path))
    except LabError as error:
        assert "\n" not in str(error)


@settings(max_examples=60)
@given(data=st.data())
def test_damaged_bytes_never_give_anything_but_a_labelled_error(tmp_path_factory, data):
    """Some bytes turned into others, in the tables or the data: the file loads, or one sentence says why not."""
    folder = tmp_path_factory.mktemp("damaged")
    kind = data.draw(st.sampled_from(["gguf", "safetensors", "config.json", "tokenizer.json"]))
    if kind == "gguf":
        victim = target = write_gguf(folder / "model.gguf", CONFIG, tensors_of(CONFIG))
    else:
        target = write_directory(folder / "model")
        victim = target / ("model.safetensors" if kind == "safetensors" else kind)
    content = bytearray(victim.read_bytes())
    # The tables stand at the beginning: most of the damage goes there.
    places = st.integers(0, min(len(content), 3000) - 1) | st.integers(0, len(content) - 1)
    for at in data.draw(st.lists(places, min_size=1, max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    victim.write_bytes(content)
    _loads_or_refuses(target)


@pytest.mark.parametrize("name", ["nothing-here", "", ".", "/dev/null", "a\0b", "x" * 5000, "weights.bin", "notes.txt"])
def test_names_that_are_no_models(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(LabError) as caught:
        describe(name)
    assert caught.value.code in ("model-unknown", "checkpoint-not-a-model", "checkpoint-pickle")
