"""A Hugging Face config.json, pasted by somebody, as a ModelProfile: for models without a file in profiles/.

Only architectures whose caches are known exactly; any other is refused by name. What is pasted may be anything, so every
fault is a LabError with a code "config-...", and nothing in it is run or fetched.
"""

import json
import re

from engine.errors import LabError
from engine.formulas.kv import Recurrent
from engine.profiles import hf_attention, hf_hybrids
from engine.profiles.hf_fields import Fields, shown
from engine.profiles.models import ModelProfile

LIMIT_BYTES = 1_000_000
READERS = {**hf_attention.READERS, **hf_hybrids.READERS}
# Models with images have their language model in text_config; where that does not say what it is, it is this.
_TEXT_OF = {
    "gemma3": "gemma3_text",
    "mistral3": "mistral",
    "llama4": "llama4_text",
    "kimi_k25": "deepseek_v3",
}
_WITHOUT_CACHE = (
    "albert", "bert", "camembert", "clip", "convbert", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm",
    "eurobert", "fnet", "ibert", "longformer", "modernbert", "mpnet", "nomic_bert", "roberta", "siglip", "siglip2", "vit",
    "wav2vec2", "xlm-roberta",
)  # fmt: skip
_WITHOUT_ATTENTION = {"mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"}


def parse_config(text: str | bytes) -> dict:
    """The object in a config.json. Raises LabError: "config-too-large", "config-not-json", "config-too-deep" or
    "config-not-object"."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > LIMIT_BYTES:
        raise LabError("config-too-large", size_bytes=size, limit_bytes=LIMIT_BYTES)
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        config = json.loads(decoded.removeprefix("\ufeff"))  # a mark that some editors put in front
    except RecursionError as error:
        raise LabError("config-too-deep") from error
    except json.JSONDecodeError as error:
        raise LabError("config-not-json", line=error.lineno, column=error.colno) from error
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        raise LabError("config-not-json", line=1, column=1) from error
    if not isinstance(config, dict):
        raise LabError("config-not-object", found=shown(config))
    return config


def profile_from_config(config: dict, name: str = "pasted") -> ModelProfile:
    """The profile of a parsed config.json.

    Of a model with images it is the language model's. parameters and active_parameters are counted from the shape, exactly
    as Hugging Face builds the model; None for hybrids and others for which that is not simple.
    Raises LabError with a code "config-...".
    """
    if not isinstance(config, dict):
        raise LabError("config-not-object", found=shown(config))
    fields = _text_fields(config)
    numbers = READERS[fields.model_type](fields)
    repo = config.get("_name_or_path")
    repo = repo if isinstance(repo, str) and re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", repo) else ""
    return ModelProfile(
        name=name, title=repo or name, repo=repo, model_type=fields.model_type, sources=_sources(numbers), **numbers
    )


def _sources(numbers: dict) -> dict[str, str]:
    counted = ("parameters", "active_parameters")
    stated = [field for field, value in numbers.items() if value is not None and field != "groups"]
    states = any(isinstance(group, Recurrent) for group in numbers["groups"])
    layers = f"config.json, as given{'; states as Hugging Face transformers keeps them' if states else ''}"
    return {field: "counted from the shape" if field in counted else "config.json, as given" for field in stated} | {"layers": layers}


def _text_fields(config: dict) -> Fields:
    """Of the language model, whose architecture is known."""
    model_type = _model_type(config)
    if model_type not in READERS and (model_type in _TEXT_OF or "text_config" in config):
        text = config.get("text_config")
        if not isinstance(text, dict):
            raise LabError("config-missing", field="text_config", model_type=model_type)
        outer = {field: config[field] for field in ("tie_word_embeddings",) if field in config}
        config = {**outer, "model_type": _TEXT_OF.get(model_type), **text}
        model_type = _model_type(config)
    if config.get("is_encoder_decoder") is True:
        raise LabError("config-encoder-decoder", model_type=model_type)
    if model_type in _WITHOUT_CACHE or config.get("use_bidirectional_attention") is True:
        raise LabError("config-no-cache", model_type=model_type)
    if model_type in _WITHOUT_ATTENTION:
        raise LabError("config-no-attention", model_type=model_type)
    if model_type not in READERS:
        raise LabError("config-unknown", model_type=shown(model_type), known=", ".join(sorted(READERS)))
    return Fields(config, model_type)


def _model_type(config: dict) -> str:
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise LabError("config-no-model-type")
    return model_type
