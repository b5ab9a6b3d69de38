"""What a quiz item is made of. Pure data, both languages side by side.

A text may hold the names of what was drawn for the learner in braces: "the KV cache of {model} at {tokens} tokens". Braces
are for nothing else. Explanations may also hold {answer}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LANGS = ("ko", "en")
KINDS = ("number", "choice", "order", "open")
VIEWS = ("timeline", "heatmap", "bars", "lines")
Value = str | int | float | bool


@dataclass(frozen=True)
class Text:
    """One text in both languages: ``text["ko"]``."""

    ko: str
    en: str

    def __getitem__(self, lang: str) -> str:
        return {"ko": self.ko, "en": self.en}[lang]


@dataclass(frozen=True)
class Measure:
    """An item that only an own run answers. kind: of the experiment; value: a function of engine/quiz/measured.py."""

    kind: str
    value: str


@dataclass(frozen=True)
class Slip:
    """A typical wrong number. answer: the function that gives it, from what is drawn and given, `given` here in their place;
    feedback: where it comes from. value: the number itself, of an imported item only."""

    answer: str
    feedback: Text
    given: Mapping[str, Value] = field(default_factory=dict)
    value: float | None = None


@dataclass(frozen=True)
class Option:
    """feedback: why it is wrong, or why it is right; None only where the right one says nothing more."""

    id: str
    text: Text
    feedback: Text | None = None


@dataclass(frozen=True)
class Step:
    id: str
    text: Text


@dataclass(frozen=True, kw_only=True)
class Item:
    """What all kinds have.

    id: stable, begins with the lesson. lesson, part: what to read again. about: rows of the table of claims ("A1") and the
    chapter's own questions ("quiz-1") that it goes with.
    cases: the values that may be drawn, one mapping per case, the fixed ones in each; one empty case if there are none.
    answer: a function that gives the right answer: a number, the right option's id, or the steps' ids in order; "" where it is
    written in the item itself. With a figure it is given the recording's result first; with a measure it is measure.value.
    figure: a measured figure to read: "recording" (a file of profiles/recordings without its ending), "view" (one of VIEWS)
    and what the view needs more (pages/quiz/figures.py); None if there is none.
    """

    id: str
    lesson: str
    part: str
    text: Text
    explain: Text
    hints: tuple[Text, ...] = ()
    about: tuple[str, ...] = ()
    cases: tuple[Mapping[str, Value], ...] = ({},)
    answer: str = ""
    figure: Mapping[str, object] | None = None
    measure: Measure | None = None

    kind = ""

    @property
    def needs_result(self) -> bool:
        """Whether it can be posed only with a result in hand: the figure's recording or the learner's own run."""
        return self.figure is not None or self.measure is not None


@dataclass(frozen=True, kw_only=True)
class Number(Item):
    """unit: one of engine.quiz.numbers.UNITS. An answer is right within a share of the true one (tolerance) or within a
    distance in the unit (within); one of them is None. value: the answer itself, of an imported item only: those of our own
    are computed."""

    unit: str
    tolerance: float | None = None
    within: float | None = None
    slips: tuple[Slip, ...] = ()
    value: float | None = None

    kind = "number"


@dataclass(frozen=True, kw_only=True)
class Choice(Item):
    """right: the right option's id; "" where `answer` or `measure` gives it."""

    options: tuple[Option, ...]
    right: str = ""

    kind = "choice"


@dataclass(frozen=True, kw_only=True)
class Order(Item):
    """steps: in the right order, unless `answer` or `measure` gives it."""

    steps: tuple[Step, ...]

    kind = "order"


@dataclass(frozen=True, kw_only=True)
class Open(Item):
    """Nobody judges it but the learner: by the rubric, beside the model answer, both hidden until the own one is written."""

    rubric: tuple[Text, ...]
    model_answer: Text

    kind = "open"
