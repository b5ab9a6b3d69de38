"""Text to token ids and back, exactly as the model was trained.

A Hugging Face directory brings its whole tokenizer as ``tokenizer.json``. A
GGUF file brings only the vocabulary and the merges of its byte-pair encoding
(Sennrich et al. 2016) and the *name* of the rule that cuts text into words
before them; a rule we have not held against llama.cpp is refused rather than guessed,
since wrong cuts give a model that merely seems stupid. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from engine.errors import LabError
from engine.model.chat import render_chat
from engine.model.files import inside, read_json, read_text

# The rules that turn text into words, by the name GGUF files give them (tokenizer.ggml.pre).
_PRE_TOKENIZERS = {
    "smollm": lambda: [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
}
_CONTROL, _USER_DEFINED = 3, 4  # token types of GGUF
_BROKEN = "\ufffd"


class Tokenizer:
    """A model's tokenizer.

    name: the model's, for messages; core: the ``tokenizers`` object;
    eos_ids: the ids that end an answer; chat_template: Jinja text or None.
    """

    def __init__(
        self, name: str, core: tokenizers.Tokenizer, *, eos_ids: Sequence[int] = (), bos_id: int | None = None, chat_template: str | None = None, add_bos: bool = False
    ) -> None:
        self.name = name
        self.eos_ids = tuple(eos_ids)
        self.bos_id = bos_id
        self.chat_template = chat_template
        self._core = core
        self._add_bos = add_bos

    @property
    def vocab_size(self) -> int:
        """Ids lie in 0 .. vocab_size - 1."""
        return self._core.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Text -> ids.

        add_special: begin as the model expects a text to begin (a BOS token, where
        it has one); False for a piece from the middle. parse_special: whether
        "<|im_end|>" and the like in the text mean the special token (in a filled-in
        chat template they do) or are just characters (in a user's text they are).
        """
        self._core.encode_special_tokens = not parse_special
        ids = self._core.encode(text, add_special_tokens=add_special).ids
        if add_special and self._add_bos and self.bos_id is not None:
            ids = [self.bos_id, *ids]
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """Ids -> text. Bytes that are no whole character (an answer cut within one) become U+FFFD."""
        return self._core.decode(list(ids), skip_special_tokens=skip_special)

    def token(self, token_id: int) -> str:
        """A token as the vocabulary writes it, for messages; "" for an id that it has not."""
        return self._core.id_to_token(token_id) or ""

    def pieces(self) -> Pieces:
        """A fresh incremental decoder, for one answer as it comes."""
        return Pieces(self)

    def chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Chat messages -> ids, through the model's own template.

        Raises LabError("chat-template-missing") or LabError("chat-template-broken").
        """
        bos = "" if self.bos_id is None else self._core.id_to_token(self.bos_id) or ""
        eos = "" if not self.eos_ids else self._core.id_to_token(self.eos_ids[0]) or ""
        text = render_chat(self.chat_template, messages, name=self.name, bos=bos, eos=eos, add_generation_prompt=add_generation_prompt)
        return self.encode(text, add_special=False, parse_special=True)


class Pieces:
    """The text that each new token of one answer adds; all of it together is what `decode` makes of all ids.

    A character can be spread over several tokens (a Hangul syllable, an emoji): the
    token that completes it brings it, those before bring nothing of it. Only the tokens
    since the last but one border between characters are decoded again, so a token costs
    some microseconds however long the answer is. (A decoder that judges a whole run of
    byte tokens at once, as SentencePiece's byte fallback does, must be given UTF-8.)
    """

    _MOST, _KEPT = 32, 8  # ids decoded again without a border, and then; 8 tokens are at least 8 bytes

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._border = 0  # before this many ids lies the last border between characters
        self._given = 0  # characters of the ids' text that are out

    def add(self, token_id: int) -> str:
        """What this token adds; "" while it completes no character."""
        self._ids.append(token_id)
        text = self._tokenizer.decode(self._ids)
        piece = self._give(text.rstrip(_BROKEN))
        if not text.endswith(_BROKEN):
            self._ids = self._ids[self._border :]
            self._border = len(self._ids)
            self._given = len(self._tokenizer.decode(self._ids))
        elif len(self._ids) > self._MOST:
            piece += self._give(_without_half_a_character(text))
            self._ids, self._border = self._ids[-self._KEPT :], 0
            self._given = len(_without_half_a_character(self._tokenizer.decode(self._ids)))
        return piece

    def rest(self) -> str:
        """What is still held back when the answer ends: bytes that never became a character, as U+FFFD."""
        return self._give(self._tokenizer.decode(self._ids))

    def _give(self, text: str) -> str:
        piece = text[self._given :]
        self._given = max(self._given, len(text))
        return piece


def _without_half_a_character(text: str) -> str:
    """At most three U+FFFD at the end can be the first bytes of a character that goes on in the next token."""
    return text[:-3] + text[-3:].rstrip(_BROKEN)


def tokenizer_from_gguf(fields: Mapping[str, object], *, name: str, path: str) -> Tokenizer:
    """Rebuild the tokenizer of a GGUF file from its settings.

    Raises LabError("tokenizer-missing") or LabError("tokenizer-unsupported").
    """
    tokens, merges = fields.get("tokenizer.ggml.tokens"), fields.get("tokenizer.ggml.merges")
    kind, pre = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise LabError("tokenizer-missing", path=path, why="it has no list of tokens")
    if kind != "gpt2" or pre not in _PRE_TOKENIZERS:
        raise LabError("tokenizer-unsupported", path=path, why=f"its kind is {kind} with the pre-tokenizer {pre}")
    if not isinstance(merges, list) or not all(isinstance(merge, str) and merge.count(" ") == 1 for merge in merges):
        raise LabError("tokenizer-missing", path=path, why="its list of merges is missing or malformed")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    with _refusals(path):
        core = tokenizers.Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    core.pre_tokenizer = pre_tokenizers.Sequence(_PRE_TOKENIZERS[pre]())
    core.decoder = decoders.ByteLevel()
    types = fields.get("tokenizer.ggml.token_type")
    if isinstance(types, list) and len(types) == len(tokens):
        core.add_special_tokens([_exact(t, True) for t, kind in zip(tokens, types) if kind == _CONTROL])
        core.add_tokens([_exact(t, False) for t, kind in zip(tokens, types) if kind == _USER_DEFINED])
    ends = [fields.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom")]
    ends += [vocabulary.get(token) for token in ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "</s>")]
    template = fields.get("tokenizer.chat_template")
    bos = fields.get("tokenizer.ggml.bos_token_id")
    return Tokenizer(
        name,
        core,
        eos_ids=_known_ids(ends, len(tokens)),
        bos_id=bos if _known_ids([bos], len(tokens)) else None,
        chat_template=template if isinstance(template, str) else None,
        add_bos=fields.get("tokenizer.ggml.add_bos_token") is True,
    )


def tokenizer_from_directory(directory: Path, *, name: str) -> Tokenizer:
    """The tokenizer of a Hugging Face model directory.

    Raises LabError("tokenizer-missing"), LabError("tokenizer-unsupported") or LabError("checkpoint-unreadable").
    """
    if not (directory / "tokenizer.json").exists():
        raise LabError("tokenizer-missing", path=str(directory), why="there is no tokenizer.json")
    path = inside(directory, "tokenizer.json")
    content = read_text(path)
    with _refusals(str(path)):
        core = tokenizers.Tokenizer.from_str(content)
    settings = _optional(directory, "tokenizer_config.json")
    ids: list[object] = []
    for file in ("generation_config.json", "config.json"):
        ends = _optional(directory, file).get("eos_token_id")
        ids += ends if isinstance(ends, list) else [ends]
    ids.append(core.token_to_id(_token_text(settings.get("eos_token"))))
    size = core.get_vocab_size(with_added_tokens=True)
    return Tokenizer(
        name,
        core,
        eos_ids=_known_ids(ids, size),
        bos_id=core.token_to_id(_token_text(settings.get("bos_token"))),
        chat_template=_template_of(directory, settings),
    )


def byte_tokenizer(name: str) -> Tokenizer:
    """One token per byte of UTF-8, for models with random weights and nothing to say."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(sorted(alphabet))}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    return Tokenizer(name, core)


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    """What the library refuses, it refuses with a bare Exception, or with a Rust panic that is not even one."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise LabError("tokenizer-unsupported", path=path, why=str(error)[:200] or type(error).__name__) from error


def _template_of(directory: Path, settings: Mapping[str, object]) -> str | None:
    if (directory / "chat_template.jinja").exists():
        return read_text(inside(directory, "chat_template.jinja"), most_bytes=1 << 20)
    template = settings.get("chat_template")
    if isinstance(template, list):  # several under names; the plain one is called default
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _optional(directory: Path, file: str) -> Mapping[str, object]:
    if not (directory / file).exists():
        return {}
    table = read_json(inside(directory, file))
    return table if isinstance(table, dict) else {}


def _token_text(value: object) -> str:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _exact(token: str, special: bool) -> tokenizers.AddedToken:
    return tokenizers.AddedToken(token, special=special, normalized=False)


def _known_ids(ids: Sequence[object], size: int) -> tuple[int, ...]:
    known = [i for i in ids if isinstance(i, int) and not isinstance(i, bool) and 0 <= i < size]
    return tuple(dict.fromkeys(known))
