"""What the lab model reads while it learns: the pinned King James text without its held-out books. No torch.

The vocabulary is made of the training text alone: 1,024 byte-pair tokens (Sennrich et al. 2016), then the words of needles.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors, trainers

from engine import texts
from engine.formulas.recall import BOS, KEYS, MARK, VALUES

PIECES = 1_024


@dataclass(frozen=True)
class Corpus:
    """ids: the training text as tokens, int64; held_out: the text that is kept from it, likewise; hashes of both texts."""

    ids: np.ndarray
    held_out: np.ndarray
    sha256: str
    held_out_sha256: str


def make_corpus(tokenizer: tokenizers.Tokenizer) -> Corpus:
    """Both halves of the text in a vocabulary. Raises what `load_text` raises."""
    kept, held_out = texts.kjv_for_training(), texts.load_text(texts.HELD_OUT_NAME)
    return Corpus(_ids(tokenizer, kept.text), _ids(tokenizer, held_out.text), kept.sha256, held_out.sha256)


def make_tokenizer(text: str) -> tokenizers.Tokenizer:
    """A vocabulary of PIECES byte-pair tokens of a text, then BOS, the mark, the keys and the values, ids in this order.

    The same text gives the same vocabulary. Every text that is encoded begins with BOS unless told otherwise.
    """
    core = tokenizers.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=PIECES, initial_alphabet=alphabet, show_progress=False)
    core.train_from_iterator(text.split("\n\n"), trainer)
    core.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in (BOS, MARK, *KEYS, *VALUES)])
    core.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, core.token_to_id(BOS))])
    return core


def tokenizer_sha256(tokenizer: tokenizers.Tokenizer) -> str:
    """Of its file, which is the same whenever the vocabulary is."""
    return hashlib.sha256(tokenizer.to_str(pretty=False).encode("utf-8")).hexdigest()


def _ids(tokenizer: tokenizers.Tokenizer, text: str) -> np.ndarray:
    return np.array(tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)
