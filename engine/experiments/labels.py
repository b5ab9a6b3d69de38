"""Tokens as labels that can be read: never half a character, never a box, nothing that is invisible. Pure, no torch.

A byte-level token can be a part of a character (of Hangul, of an emoji), and a character can be a part of what a reader sees
as one (a letter and its accent; the people of a family emoji). Neighbouring tokens that only together make whole graphemes
carry the same label, numbered: "한 (1/3)", "한 (2/3)", "한 (3/3)".
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.model.tokenizer import Tokenizer

MOST_CHARACTERS = 24
_SIGNS = {"\n": "⏎", "\r": "⏎", "\t": "⇥", " ": "␣", "\u3000": "␣"}
_ZWJ, _BASE = "\u200d", "\u25cc"
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
_MARKS = ("Mn", "Me", "Mc")


@dataclass(frozen=True)
class Part:
    """A token: `text` is that of all `parts` tokens that stand together, this one being number `part` of 1 to parts.

    text is "" for tokens at the end of a cut text that complete no character.
    """

    text: str
    part: int
    parts: int


def token_labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """A label for each token, all of one text."""
    stream = tokenizer.pieces()
    found = parts_of([stream.add(token) for token in ids])
    return [label(part) if part.text else _bytes_label(tokenizer.token(token)) for part, token in zip(found, ids, strict=True)]


def parts_of(pieces: Sequence[str]) -> list[Part]:
    """pieces: what text each token adds, "" while it completes no character. The texts of all first parts, one after another,
    are all pieces one after another."""
    text, borders = "".join(pieces), set(grapheme_borders("".join(pieces)))
    parts, begun, end, together = [], 0, 0, 0
    for piece in pieces:
        end += len(piece)
        together += 1
        if piece and end in borders:
            parts += [Part(text[begun:end], number, together) for number in range(1, together + 1)]
            begun, together = end, 0
    return parts + [Part(text[begun:], number, together) for number in range(1, together + 1)]


def label(part: Part) -> str:
    """What is shown of a token that completes a character, alone or with its neighbours."""
    borders = [0, *grapheme_borders(part.text)]
    clusters = [_shown(part.text[begin:end]) for begin, end in zip(borders, borders[1:], strict=False)]
    shown = "".join(clusters)
    if len(shown) > MOST_CHARACTERS:
        kept = ""
        for cluster in clusters:
            if len(kept) + len(cluster) >= MOST_CHARACTERS:
                break
            kept += cluster
        shown = (kept or clusters[0][: MOST_CHARACTERS - 1]) + "…"
    return shown if part.parts == 1 else f"{shown} ({part.part}/{part.parts})"


def grapheme_borders(text: str) -> Iterator[int]:
    """Where what a reader sees as one character ends: offsets, the last of them len(text).

    The rules of Unicode Standard Annex 29, section 3.1, without those for scripts whose letters stand before their base and
    for Indic conjuncts; a pictograph is any symbol of the categories that emoji have.
    """
    flags, picture = 0, False
    for at, (left, right) in enumerate(zip(text, text[1:], strict=False), start=1):
        flags = flags + 1 if _is_flag(left) else 0
        picture = _is_picture(left) or (picture and (_extends(left) or left == _ZWJ))
        if not _joined(left, right, flags, picture):
            yield at
    if text:
        yield len(text)


def _joined(left: str, right: str, flags: int, picture: bool) -> bool:
    """flags: how many letters of flags end here; picture: whether left belongs to a pictograph."""
    if left == "\r" and right == "\n":
        return True
    if _breaks(left) or _breaks(right):
        return False
    if _extends(right) or right == _ZWJ:
        return True
    if left == _ZWJ and picture and _is_picture(right):
        return True
    if _is_flag(left) and _is_flag(right):
        return flags % 2 == 1
    return _hangul(right) in {"L": ("L", "V", "LV", "LVT"), "V": ("V", "T"), "LV": ("V", "T"), "T": ("T",), "LVT": ("T",)}.get(_hangul(left), ())


def _breaks(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and not _extends(c) and c != _ZWJ


def _extends(c: str) -> bool:
    modifier = "\U0001f3fb" <= c <= "\U0001f3ff"
    return unicodedata.category(c) in _MARKS or modifier or c in "\u200c\uff9e\uff9f" or "\U000e0020" <= c <= "\U000e007f"


def _is_picture(c: str) -> bool:
    symbol = unicodedata.category(c) == "So" and c <= "\u3299" or "\U0001f000" <= c <= "\U0001faff"
    return symbol and not _extends(c) and not _is_flag(c)


def _is_flag(c: str) -> bool:
    return "\U0001f1e6" <= c <= "\U0001f1ff"


def _hangul(c: str) -> str:
    """L, V, T for the parts of a syllable; LV and LVT for whole ones."""
    if "\uac00" <= c <= "\ud7a3":
        return "LV" if (ord(c) - 0xAC00) % 28 == 0 else "LVT"
    for kind, ranges in (("L", "\u1100\u115f\ua960\ua97c"), ("V", "\u1160\u11a7\ud7b0\ud7c6"), ("T", "\u11a8\u11ff\ud7cb\ud7fb")):
        if ranges[0] <= c <= ranges[1] or ranges[2] <= c <= ranges[3]:
            return kind
    return ""


def _shown(cluster: str) -> str:
    """One grapheme: a sign for white space, its number for what is invisible, a ring under a mark that has no letter."""
    first, rest = cluster[0], cluster[1:]
    # What joins is a part of the picture; alone it would be invisible.
    signs = [_sign(first), *(c if _extends(c) or c == _ZWJ else _sign(c) for c in rest)]
    return (_BASE if unicodedata.category(first) in _MARKS else "") + "".join(signs)


def _sign(c: str) -> str:
    if c in _SIGNS:
        return _SIGNS[c]
    if unicodedata.category(c) in _HIDDEN or c == "\ufffd":
        return f"U+{ord(c):04X}"
    return c


def _bytes_label(token: str) -> str:
    """The bytes of a token that is a part of a character whose rest was cut off: "⟨EA B8⟩"."""
    if found := re.fullmatch("<0x([0-9A-Fa-f]{2})>", token):
        return f"⟨{found[1].upper()}⟩"
    if all(c in _BYTES for c in token):
        return f"⟨{' '.join(f'{_BYTES[c]:02X}' for c in token)}⟩"
    return "…"


def _byte_alphabet() -> dict[str, int]:
    """The character by which byte-level vocabularies write each byte: itself where it is printable, else 256 and up."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {**{chr(byte): byte for byte in own}, **{chr(256 + n): byte for n, byte in enumerate(others)}}


_BYTES = _byte_alphabet()
