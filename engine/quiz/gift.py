"""Quizzes in Moodle's GIFT: written, and read back (docs.moodle.org, "GIFT format"). Pure.

    $CATEGORY: $course$/memory                   ::memory-fit::[markdown]How many fit? (requests) {#
                                                     =%100%3:0
    ::memory-two-limits::[markdown]Why …? {          =%0%4:0#That leaves no room for the weights.
        =Weights are read once.#Yes.                 ####Capacity less weights …
        ~They share a cache.#No: …               }
        ####A decode step reads …
    }

It has numbers with a tolerance, choices, and essays; so no ordering, no units, no other numbers for each learner, no hints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from engine.quiz import foreign
from engine.quiz.flat import LeftOut, choices, flat, same
from engine.quiz.foreign import Imported, Refused
from engine.quiz.item import Choice, Item, Number, Open, Slip

HOLDS = ("feedback",)
# What a backslash stands before, and what stands for both while a question is taken apart.
_ESCAPES = {"\\\\": "\\", "\\~": "~", "\\=": "=", "\\#": "#", "\\{": "{", "\\}": "}", "\\:": ":", "\\n": "\n"}
_HIDDEN = {chr(0xE000 + at): written for at, written in enumerate(_ESCAPES.values())}
_HIDE = {escape: chr(0xE000 + at) for at, escape in enumerate(_ESCAPES)}
_ESCAPE = re.compile(r"\\[\\~=#{}:n]")
_FORMAT = re.compile(r"\s*\[(html|moodle|plain|markdown)\]")
_TITLE = re.compile(r"\s*::(.*?)::", re.S)
_WEIGHT = re.compile(r"\s*%(-?[0-9]{1,3}(?:\.[0-9]{1,5})?)%")
_TRUTH = re.compile(r"\s*(T|TRUE|F|FALSE)\s*", re.I)
_TRUE, _FALSE = "True", "False"


def write(items: Iterable[Item], lang: str, seed: str | int) -> tuple[str, tuple[LeftOut, ...]]:
    """The file, and what it lacks of the items."""
    kept, lost = flat(items, lang, seed, HOLDS)
    return "".join(_written(kept)), lost


def _written(items: Iterable[Item]) -> Iterator[str]:
    """Of flat items."""
    lesson = None
    for item in items:
        if item.lesson != lesson:
            lesson = item.lesson
            yield f"$CATEGORY: $course$/{lesson}\n\n"
        yield f"// [id:{item.id}]\n::{item.id}::[markdown]{_escaped(item.text.en)} {{{_answers(item)}}}\n\n"


def _answers(item: Item) -> str:
    general = f"####{_begun(item.explain.en)}"
    if isinstance(item, Open):
        return general
    if isinstance(item, Number):
        lines = [f"=%100%{_decimal(item.value)}:{_decimal(item.within)}"]
        lines += [f"=%0%{_decimal(slip.value)}:{_decimal(item.within)}#{_begun(slip.feedback.en)}" for slip in item.slips]
        return "#\n" + "".join(f"\t{line}\n" for line in [*lines, general])
    lines = []
    for option in item.options:
        right = option.id == item.right
        weight = ("%100%" if right else "%0%") if option.text.en.startswith("%") else ""
        feedback = f"#{_begun(option.feedback.en)}" if option.feedback else ""
        lines.append(f"{'=' if right else '~'}{weight}{_begun(option.text.en)}{feedback}")
    return "\n" + "".join(f"\t{line}\n" for line in [*lines, general])


def _begun(text: str) -> str:
    """A text that is not a question's: one that seems to begin with a format is given one."""
    return f"[markdown]{_escaped(text)}" if _FORMAT.match(text) else _escaped(text)


def _escaped(text: str) -> str:
    return re.sub(r"[\\~=#{}:]", lambda found: f"\\{found[0]}", text).replace("\n", "\\n")


def _decimal(value: float) -> str:
    """Exactly, without an exponent, which some readers do not know."""
    return f"{Decimal(repr(float(value))):f}"


def read(raw: bytes) -> Imported:
    """The questions of a file that there are kinds for here; the others in the notes. Raises LabError("quiz-import")."""
    text = _ESCAPE.sub(lambda found: _HIDE[found[0]], foreign.text_of(raw))
    found, taken, lesson = Imported(), set(), "imported"
    for line, block in _blocks(text):
        if block.startswith("$CATEGORY:"):
            lesson = foreign.lesson_of(_shown(block.removeprefix("$CATEGORY:")).strip().split("/")[-1])
            continue
        if len(found.items) >= foreign.MOST_ITEMS:
            raise foreign.refuse(line, f"it has more than {foreign.MOST_ITEMS} questions")
        try:
            found.items.append(_question(line, block, lesson, taken, found.notes))
        except Refused as error:
            found.notes.append((line, str(error)))
    return found


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each question and category; comments left out, their lines counted."""
    begin, lines = 0, []
    for at, line in enumerate([*text.split("\n"), ""], 1):
        if line.lstrip().startswith("//"):
            line = None
        elif line.startswith("$CATEGORY:"):
            if lines:
                yield begin, "\n".join(lines)
                lines = []
            yield at, line
            line = None
        elif not line.strip():
            if any(part.strip() for part in lines):
                yield begin, "\n".join(lines)
            lines, line = [], None
        if line is not None:
            begin = begin if lines else at
            lines.append(line)
        elif lines:
            lines.append("")


def _question(line: int, block: str, lesson: str, taken: set[str], notes: list) -> Item:
    opened, closed = block.count("{"), block.count("}")
    if (opened, closed) not in ((0, 0), (1, 1)) or block.find("}") < block.find("{"):
        at = re.search(r"[{}]", block)
        raise foreign.refuse(line + block.count("\n", 0, at.start()), "its braces do not match; an answer may have no blank line")
    title = _TITLE.match(block)
    rest = block[title.end() :] if title else block
    form = _FORMAT.match(rest)
    rest, is_html = (rest[form.end() :], form[1] == "html") if form else (rest, False)
    if not opened:
        raise Refused("kind_description")
    head, _, behind = rest.partition("{")
    inner, _, tail = behind.partition("}")

    def plain(part: str) -> str:
        found = _FORMAT.match(part)
        part, of_html = (part[found.end() :], found[1] == "html") if found else (part, is_html)
        return foreign.harmless(_shown(part), line, notes, is_html=of_html)

    blank = " _____ " if tail.strip() else ""
    text = foreign.harmless(_shown(f"{head.strip()}{blank}{tail.strip()}"), line, notes, is_html=is_html)
    if not text:
        raise Refused("no_text")
    answers, _, general = inner.partition("####")
    explain = same(plain(general))
    kept = set(taken)
    common = {
        "id": foreign.id_of(_shown(title[1]).strip() if title else "", line, kept),
        "lesson": lesson,
        "part": "",
        "text": same(text),
        "explain": explain,
    }
    if not answers.strip():
        item = Open(**common, rubric=(), model_answer=explain)
    elif answers.lstrip().startswith("#"):
        item = _numeric(answers.lstrip()[1:], common, plain)
    elif truth := _TRUTH.fullmatch(answers.partition("#")[0]):
        item = _truth(truth[1].upper().startswith("T"), answers.split("#")[1:], common, plain)
    else:
        item = _choice(answers, common, plain)
    taken |= kept
    return item


def _entries(answers: str) -> list[tuple[str, float | None, str, str | None]]:
    """(sign, weight, text, feedback) of each."""
    parts = re.split(r"([=~])", answers)
    if parts[0].strip():
        raise Refused("no_answers")
    if len(parts) // 2 > foreign.MOST_OPTIONS:
        raise Refused("many_options")
    found = []
    for sign, part in zip(parts[1::2], parts[2::2], strict=True):
        weight = _WEIGHT.match(part)
        text, mark, feedback = part[weight.end() if weight else 0 :].partition("#")
        found.append((sign, float(weight[1]) if weight else None, text, feedback if mark else None))
    return found


def _numeric(answers: str, common: dict, plain) -> Number:
    if "=" in answers or "~" in answers:
        entries = _entries(answers)
    else:
        text, mark, feedback = answers.partition("#")
        entries = [("=", None, text, feedback if mark else None)]
    right, slips = [], []
    for sign, weight, text, feedback in entries:
        share = weight if weight is not None else 100 if sign == "=" else 0
        if share not in (0, 100):
            raise Refused("partly_right")
        value, within = _range(_shown(text))
        if share == 100:
            right.append((value, within))
        else:
            slips.append(Slip("", same(plain(feedback or "")), value=value))
    if len(right) != 1:
        raise Refused("several_right")
    return Number(**common, unit="", within=right[0][1], value=right[0][0], slips=tuple(slips))


def _range(text: str) -> tuple[float, float]:
    """``3:0.5`` and ``2.5..3.5``: a number, and how far off one may be."""
    if ".." in text:
        low, high = (foreign.number(part) for part in text.split("..", 1))
        if low > high:
            raise Refused("no_number")
        return (low + high) / 2, (high - low) / 2
    value, mark, within = text.partition(":")
    off = foreign.number(within) if mark else 0.0
    if off < 0:
        raise Refused("no_number")
    return foreign.number(value), off


def _truth(true: bool, feedbacks: list[str], common: dict, plain) -> Choice:
    """{T#said if it was wrong#said if it was right}"""
    wrong, right = ([plain(text) for text in feedbacks[:2]] + ["", ""])[:2]
    options = choices([(_TRUE, right if true else wrong), (_FALSE, wrong if true else right)])
    return Choice(**common, options=options, right=options[0 if true else 1].id)


def _choice(answers: str, common: dict, plain) -> Choice:
    entries = _entries(answers)
    if all(sign == "=" for sign, *_ in entries):
        raise Refused("kind_matching" if all("->" in text for _, _, text, _ in entries) else "kind_short")
    weights = [weight if weight is not None else 100 if sign == "=" else 0 for sign, weight, *_ in entries]
    if not set(weights) <= {0, 100}:
        raise Refused("partly_right")
    if weights.count(100) != 1 or len(weights) < 2:
        raise Refused("several_right")
    texts = [(plain(text), plain(feedback or "")) for _, _, text, feedback in entries]
    if not all(text for text, _ in texts):
        raise Refused("no_text")
    options = choices(texts)
    return Choice(**common, options=options, right=options[weights.index(100)].id)


def _shown(text: str) -> str:
    return "".join(_HIDDEN.get(character, character) for character in text)
