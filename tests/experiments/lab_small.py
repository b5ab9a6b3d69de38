"""A model like the lab model on disk, but tiny and random: a BOS before everything, a short trained length, recall words."""

from pathlib import Path

from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing

from engine.formulas.recall import KEYS, MARK, VALUES
from engine.model.tokenizer import byte_tokenizer
from tests.model.checkpoints import write_directory

TRAINED, BOS = 64, 256
SETTINGS = {"max_position_embeddings": TRAINED, "vocab_size": 300, "head_dim": 8}


def lab_model(folder: Path, **settings) -> str:
    """Its directory."""
    write_directory(folder, settings={**SETTINGS, **settings})
    core = byte_tokenizer("small")._core
    core.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in ("<bos>", MARK, *KEYS, *VALUES)])
    assert core.token_to_id("<bos>") == BOS
    core.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BOS)])
    core.save(str(folder / "tokenizer.json"))
    return str(folder)
