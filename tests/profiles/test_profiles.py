"""Profiles: published numbers, each with its source; a broken file is one sentence."""

from dataclasses import fields

import pytest

from engine import profiles
from engine.errors import LabError
from engine.formulas.kv import Attention, Latent, Recurrent
from engine.model.catalog import CATALOG

ALL = {**profiles.models(), **profiles.devices(), **profiles.links()}
WORDS = {"name", "title", "repo", "model_type", "kind", "gpudirect_rdma", "sources", "groups"}


@pytest.mark.parametrize("name", ALL)
def test_every_number_has_a_source_one_can_look_up(name):
    """A number without a source cannot be checked, and the page shows the source beside it."""
    profile = ALL[name]
    numbers = {field.name for field in fields(profile) if getattr(profile, field.name) is not None} - WORDS
    assert set(profile.sources) >= numbers | ({"layers"} if hasattr(profile, "groups") else set())
    lookups = ("https://", "arXiv", "counted from the shape", "GGUF", "transformers")
    assert all(any(way in source for way in lookups) for source in profile.sources.values())


@pytest.mark.parametrize("name", [name for name, model in profiles.models().items() if model.dense])
def test_the_parameters_are_those_of_the_shape(name):
    """A mistyped layer count or width would shift every computed size. Norms and biases are under 0.1 %."""
    m = profiles.model(name)
    tables = [m.matrix_parameters + n * m.vocab_size * m.hidden_size for n in (1, 2)]  # embedding and head are one table or two
    assert any(m.parameters == pytest.approx(counted, rel=1e-3) for counted in tables)
    if m.model_type == "llama":
        assert m.parameters - (2 * m.layers + 1) * m.hidden_size in tables, "no biases: exact"
    assert m.heads % m.kv_heads == 0


def test_published_sizes():
    """The claim table: 131,072 B of KV per token of Llama-3-8B (not 524,288), 327,680 of 70B; weights about 16 and 141 GB."""
    small, large = profiles.model("llama-3-8b"), profiles.model("llama-3-70b")
    assert small.kv_bytes_per_token() == 131_072 and large.kv_bytes_per_token() == 327_680
    assert 131_072 * large.kv_bytes_per_token() == pytest.approx(42.9e9, rel=0.002), "claim B3"
    assert small.weight_bytes() == pytest.approx(16.06e9, rel=0.001) and large.weight_bytes() == pytest.approx(141.1e9, rel=0.001)
    assert small.kv_bytes_per_token(1) == 65_536


def test_the_default_model_is_the_one_in_the_catalog():
    """Computed and measured would otherwise speak of two models."""
    m, c = profiles.model("smollm2-135m-instruct"), CATALOG["smollm2-135m-instruct"].config
    assert (m.layers, m.hidden_size, m.heads, m.kv_heads, m.head_dim) == (c.n_layers, c.hidden_size, c.n_heads, c.n_kv_heads, c.head_dim)
    assert (m.ffn_size, m.vocab_size, m.max_context_tokens) == (c.ffn_size, c.vocab_size, c.max_context)
    assert m.parameters == c.parameter_count() and m.kv_bytes_per_token() == c.kv_bytes_per_token(2)


def test_published_devices():
    """Dense figures: with sparsity they are twice as high, the usual mistake. H100 reports 85.5e9 bytes."""
    h100, a100, l40s = (profiles.device(name) for name in ("h100-sxm", "a100-80gb-sxm", "l40s"))
    assert (h100.bf16_flops_per_s, a100.bf16_flops_per_s, l40s.bf16_flops_per_s) == (989.5e12, 312e12, 362.05e12)
    assert (h100.memory_bytes_per_s, a100.memory_bytes_per_s, l40s.memory_bytes_per_s) == (3.35e12, 2.039e12, 864e9)
    assert h100.usable_bytes == pytest.approx(85.5e9, rel=0.001)
    rates = [device.bf16_flops_per_s for device in profiles.devices().values()]
    assert rates == sorted(rates, reverse=True), "quickest first"
    sizes = [model.parameters for model in profiles.models().values()]
    assert sizes == sorted(sizes), "smallest first"


@pytest.mark.parametrize("ask", [profiles.model, profiles.device, profiles.link])
@pytest.mark.parametrize("name", ["", "h100", "../x", None, 5, "x" * 1000])
def test_an_unknown_profile_is_told_with_the_known_ones(ask, name):
    with pytest.raises(LabError) as caught:
        ask(name)
    assert caught.value.code == "profile-unknown" and len(str(caught.value)) < 1500


GOOD = (profiles.PROFILES_DIR / "devices" / "l40s.toml").read_text(encoding="utf-8")
MODEL = """
name = "m"
title = "M"
repo = "a/m"
model_type = "llama"
parameters = 1000
active_parameters = 600
experts = 8
experts_per_token = 2
hidden_size = 64
heads = 4
vocab_size = 100
max_context_tokens = 128

[[layers]]
count = 3
kind = "attention"
kv_heads = 2
key_dim = 16

[[layers]]
count = 2
kind = "latent"
rank = 8
rope_dim = 4

[[layers]]
count = 1
kind = "recurrent"
state_values = 5

[sources]
parameters = "x"
active_parameters = "x"
experts = "x"
experts_per_token = "x"
hidden_size = "x"
heads = "x"
vocab_size = "x"
max_context_tokens = "x"
layers = "x"
"""
LINK = """
name = "l"
title = "L"
kind = "nvlink"
bytes_per_s = 5e9
[sources]
bytes_per_s = "x"
"""
BROKEN = [
    ("devices/l40s", "", "missing"),
    ("devices/l40s", "nonsense", "expected"),
    ("devices/l40s", GOOD.replace("864e9", "-1"), "memory_bytes_per_s"),
    ("devices/l40s", GOOD.replace("864e9", "nan"), "memory_bytes_per_s"),
    ("devices/l40s", GOOD.replace("864e9", "true"), "memory_bytes_per_s"),
    ("devices/l40s", GOOD.replace("864e9", '"fast"'), "memory_bytes_per_s"),
    ("devices/l40s", GOOD.replace("48_000_000_000", "48e9"), "nominal_bytes must be a whole number"),
    ("devices/l40s", GOOD.replace('name = "l40s"', 'name = "l40"'), "name"),
    ("devices/l40s", GOOD.replace("NVIDIA L40S 48GB", " "), "title"),
    ("devices/l40s", GOOD.replace("[sources]", '[sources]\nprice = "a shop"'), "sources"),
    ("devices/l40s", GOOD.replace('usable_bytes = "', 'used_bytes = "'), "sources"),
    ("devices/l40s", GOOD[: GOOD.index("[sources]")], "sources"),
    ("devices/l40s", GOOD.replace("[sources]", "colour = 5\n[sources]"), "colour"),
    ("devices/l40s", GOOD[: GOOD.rindex("memory_bytes_per_s")] + 'memory_bytes_per_s = " "', "a source must be a sentence"),
    ("devices/l40s", "\udcff", "utf-8"),
    ("devices/l40s", GOOD.replace("fp8_flops_per_s = 733e12", "fp8_flops_per_s = 0"), "fp8_flops_per_s"),
    ("devices/l40s", "sources = 5\n" + GOOD[: GOOD.index("[sources]")], "sources"),
    ("models/m", MODEL.replace("count = 3", "count = 0"), "count must be a whole number above 0 (entry 1 of layers)"),
    ("models/m", MODEL.replace("kv_heads = 2", "kv_heads = 2.0"), "kv_heads"),
    ("models/m", MODEL.replace("key_dim = 16", ""), "key_dim is missing (entry 1 of layers)"),
    ("models/m", MODEL.replace("key_dim = 16", "key_dim = 16\nwindow = 0"), "window"),
    ("models/m", MODEL.replace("rank = 8", "rank = 8\nkv_heads = 2"), "there is no kv_heads"),
    ("models/m", MODEL.replace('"recurrent"', '"mamba"'), "kind must be one of: attention, latent, recurrent (entry 3 of layers)"),
    ("models/m", MODEL.replace('kind = "latent"', 'kind = ["latent"]'), "kind must be one of"),
    ("models/m", "layers = 3\n" + MODEL[: MODEL.index("[[layers]]")] + MODEL[MODEL.index("[sources]") :], "layers must be given as"),
    ("models/m", MODEL[: MODEL.index("[[layers]]")] + MODEL[MODEL.index("[sources]") :], "layers is missing"),
    ("models/m", MODEL.replace('layers = "x"', ""), "sources must name each of"),
    ("models/m", MODEL.replace('vocab_size = "x"', ""), "sources must name each of"),
    ("models/m", MODEL.replace("experts = 8\n", "").replace('experts = "x"\n', ""), "a mixture of experts needs each of"),
    ("models/m", MODEL.replace("experts_per_token = 2", "experts_per_token = 8"), "experts_per_token must be below experts"),
    ("models/m", MODEL.replace("active_parameters = 600", "active_parameters = 1000"), "active_parameters below parameters"),
    ("models/m", MODEL.replace('repo = "a/m"', ""), "repo is missing"),
    ("models/m", MODEL.replace("hidden_size = 64", "hidden_size = -64"), "hidden_size"),
    ("links/l", LINK.replace("nvlink", "string"), "kind must be one of: nvlink"),
    ("links/l", LINK.replace("5e9", "0"), "bytes_per_s"),
    ("links/l", LINK.replace("[sources]", 'gpudirect_rdma = "yes"\n[sources]'), "true or false"),
    ("links/l", LINK.replace("[sources]", "latency_s = 1e-6\n[sources]"), "sources must name each of: bytes_per_s, latency_s"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Profiles of our own in place of the real ones."""
    readers = {"models": profiles.models, "devices": profiles.devices, "links": profiles.links}
    monkeypatch.setattr(profiles, "PROFILES_DIR", tmp_path)
    for name, read in readers.items():
        (tmp_path / name).mkdir()
        read.cache_clear()

    def write(name: str, text: str):
        (tmp_path / f"{name}.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
        return readers[name.split("/")[0]]

    yield write
    for read in readers.values():
        read.cache_clear()


@pytest.mark.parametrize("name, text, why", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_one_sentence_that_names_it(name, text, why, folder):
    """Whoever adds a profile must be told which file and what is wrong, not see a page without profiles."""
    with pytest.raises(LabError) as caught:
        folder(name, text)()
    assert caught.value.code == "profile-broken" and caught.value.facts["path"] == f"{name}.toml"
    assert why.lower() in str(caught.value).lower() and "\n" not in str(caught.value)


def test_the_files_that_are_broken_above_are_good_before(folder):
    """Else a test above could see another fault than its own."""
    (model,) = folder("models/m", MODEL)().values()
    assert model.groups == (Attention(3, 2, 16, 16), Latent(2, 8, 4), Recurrent(1, 5)) and model.layers == 6
    assert folder("links/l", LINK)()["l"].gpudirect_rdma is None
    assert folder("devices/l40s", GOOD)()["l40s"].capacity_bytes == 48_305_799_168


def test_without_usable_bytes_the_nominal_ones_count(folder):
    text = "".join(line for line in GOOD.splitlines(True) if not line.startswith("usable_bytes"))
    found = folder("devices/l40s", text)()["l40s"]
    assert found.usable_bytes is None and found.capacity_bytes == found.nominal_bytes


def test_what_a_decode_step_reads_of_a_mixture():
    """All weights only once every expert has a token; one token reads its active ones. Mixtral: 8 experts, 2 per token."""
    m = profiles.model("mixtral-8x7b")
    assert m.weight_bytes_read(1) == pytest.approx(2 * m.active_parameters)
    assert m.weight_bytes_read(10_000) == pytest.approx(m.weight_bytes())
    experts = 32 * 8 * 3 * 4096 * 14_336
    assert m.weight_bytes_read(3) == pytest.approx(2 * (m.parameters - experts * 0.75**3))
    reads = [m.weight_bytes_read(batch) for batch in (1, 2, 4, 8, 64)]
    assert reads == sorted(reads) and m.weight_bytes_read(4, 1) == pytest.approx(m.weight_bytes_read(4) / 2)
    dense = profiles.model("llama-3-8b")
    assert {dense.weight_bytes_read(batch) for batch in (1, 64)} == {dense.weight_bytes()}


def test_kinds_of_attention():
    """The lesson groups models by them."""
    kinds = {
        "llama-2-7b": "mha", "llama-3-8b": "gqa", "falcon-7b": "mqa", "deepseek-v3": "mla", "mistral-7b-v0.1": "sliding",
        "jamba-v0.1": "hybrid", "recurrentgemma-2b": "hybrid",
    }  # fmt: skip
    assert {name: profiles.model(name).attention_kind for name in kinds} == kinds
    assert profiles.model("llama-3-8b").dense and not any(profiles.model(name).dense for name in list(kinds)[2:])


@pytest.mark.parametrize("name", ALL)
def test_profiles_cannot_be_changed(name):
    """They are read once and shared: a page that changed one would change it for everybody."""
    with pytest.raises(AttributeError):
        ALL[name].name = "x"
