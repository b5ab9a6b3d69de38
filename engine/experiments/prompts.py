"""Prompts of an exact length, cut from a real text and framed as the model's chat template wants it. No torch."""

from dataclasses import dataclass

from engine.errors import LabError
from engine.experiments.scenarios import RequestGroup
from engine.model.chat import render_chat
from engine.model.tokenizer import Tokenizer

_PLACE = "\ue000"  # a private-use character that stands where the user's words go in the template
_TASKS = {"long": (None, "\n\nSummarise the text above in one sentence."), "chat": ("Write a long story that begins with: ", None)}
_SHOWN_CHARACTERS = 600


@dataclass(frozen=True)
class Prompt:
    """`token_ids` to compute, and `shown`: the user's words, shortened in the middle."""

    token_ids: tuple[int, ...]
    shown: str


class PromptWriter:
    """Cuts consecutive passages out of a text; once all of it was read it begins again (`repeated` tells).

    With a chat template a prompt is frame + task + passage + frame, else the passage alone. Passages are cut between
    tokens, so that every prompt has exactly the tokens asked for.
    """

    def __init__(self, tokenizer: Tokenizer, text: str, *, text_name: str = "own", seed: int = 0) -> None:
        self.tokenizer = tokenizer
        self.text = text
        self.text_name = text_name
        self.repeated = False
        self._place = seed * 1009 % max(1, len(text))
        self._unread = len(text)
        self._ids: list[int] = []
        self._ids_read = 0
        self._frame = self._split_template()

    def write(self, group: RequestGroup) -> Prompt:
        """The next prompt of a kind.

        Raises LabError("prompt-too-short") if the frame alone is longer, or LabError("text-too-short") if the text has
        no tokens in this vocabulary.
        """
        before_words, after_words = _TASKS.get(group.kind, _TASKS["chat"])
        if self._frame is None:
            passage = self._next_ids(group.prompt_tokens)
            return Prompt(tuple(passage), _shorten(self.tokenizer.decode(passage)))
        before, after = self._frame
        head = before + self._encode(before_words)
        tail = self._encode(after_words) + after
        room = group.prompt_tokens - len(head) - len(tail)
        if room < 1:
            raise LabError(
                "prompt-too-short",
                kind=group.kind,
                prompt_tokens=group.prompt_tokens,
                minimum=len(head) + len(tail) + 1,
            )
        passage = self._next_ids(room)
        words = (before_words or "") + self.tokenizer.decode(passage) + (after_words or "")
        return Prompt((*head, *passage, *tail), _shorten(words))

    def _split_template(self) -> tuple[list[int], list[int]] | None:
        if self.tokenizer.chat_template is None:
            return None
        messages = [{"role": "user", "content": _PLACE}]
        text = render_chat(self.tokenizer.chat_template, messages, name=self.tokenizer.name)
        before, place, after = text.partition(_PLACE)
        if not place:
            return None
        return tuple(self.tokenizer.encode(part, add_special=False, parse_special=True) for part in (before, after))

    def _encode(self, words: str | None) -> list[int]:
        return self.tokenizer.encode(words, add_special=False) if words else []

    def _next_ids(self, count: int) -> list[int]:
        while len(self._ids) < count:
            if not self._unread:
                if not self._ids_read:
                    raise LabError("text-too-short", name=self.text_name, tokens=0, needed=count)
                self._unread, self.repeated = len(self.text), True
            piece = self.text[self._place : self._place + min(self._unread, max(4096, 8 * count))]
            self._place = (self._place + len(piece)) % len(self.text)
            self._unread -= len(piece)
            ids = self._encode(piece)
            self._ids_read += len(ids)
            self._ids += ids
        taken, self._ids = self._ids[:count], self._ids[count:]
        return taken


def _shorten(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    half = _SHOWN_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"
