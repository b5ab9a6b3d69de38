"""Profiles: published numbers, each with its source; a broken file is one sentence."""

from dataclasses import fields

import pytest

from engine import profiles
from engine.errors import LabError
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


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "missing"),
        ("nonsense", "expected"),
        (GOOD.replace("864e9", "-1"), "memory_bytes_per_s"),
        (GOOD.replace("864e9", "nan"), "memory_bytes_per_s"),
        (GOOD.replace("864e9", "true"), "memory_bytes_per_s"),
        (GOOD.replace("864e9", '"fast"'), "memory_bytes_per_s"),
        (GOOD.replace("48_000_000_000", "48e9"), "nominal_bytes must be a whole number"),
        (GOOD.replace('name = "l40s"', 'name = "l40"'), "name"),
        (GOOD.replace("NVIDIA L40S 48GB", " "), "title"),
        (GOOD.replace("[sources]", "[sources]\nprice = \"a shop\""), "sources"),
        (GOOD.replace('usable_bytes = "', 'used_bytes = "'), "sources"),
        (GOOD[: GOOD.index("[sources]")], "sources"),
        (GOOD.replace("[sources]", "colour = 5\n[sources]"), "colour"),
        (GOOD[: GOOD.rindex("memory_bytes_per_s")] + 'memory_bytes_per_s = " "', "a source must be a sentence"),
        ("\udcff", "utf-8"),
    ],
    ids=range(15),
)
def test_a_broken_file_is_one_sentence_that_names_it(text, why, tmp_path, monkeypatch):
    """Whoever adds a device must be told which file and what is wrong, not see a page without devices."""
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "l40s.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setattr(profiles, "PROFILES_DIR", tmp_path)
    profiles.devices.cache_clear()
    try:
        with pytest.raises(LabError) as caught:
            profiles.devices()
    finally:
        profiles.devices.cache_clear()
    assert caught.value.code == "profile-broken" and caught.value.facts["path"] == "devices/l40s.toml"
    assert why.lower() in str(caught.value).lower() and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ALL)
def test_profiles_cannot_be_changed(name):
    """They are read once and shared: a page that changed one would change it for everybody."""
    with pytest.raises(AttributeError):
        ALL[name].name = "x"
