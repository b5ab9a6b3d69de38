"""Quizzes as files: what is written is read back equal, is read by a parser that is not ours, and files of others do no harm."""

from __future__ import annotations

import csv
import io
import re
import sys
import types
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.quiz import anki, csv_table, gift, judge, load, pose, sentence
from engine.quiz.flat import choices, flat, same, steps
from engine.quiz.foreign import harmless
from engine.quiz.item import Choice, Number, Open, Order, Slip

PAGES = Path(__file__).parents[2] / "pages"
ITEMS = [item for path in sorted(PAGES.glob("*/quiz.toml")) for item in load(path)]
LANGS = ("ko", "en")

# Texts as people write them and as nobody should: marks of every format, other scripts, quotes, several lines.
MARKS = "~=#{}:\\%[]()<>'\"`*_,;\t\n->/$!&@+0aZ가힣é漢😀 "
TEXTS = st.text(st.sampled_from(MARKS) | st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40)


def plain(text: str) -> bool:
    """Whether reading leaves it as it is: what a page would act on is changed, and what has only spaces is empty."""
    return bool(text) and harmless(text, 1, []) == text


TEXT = TEXTS.map(lambda text: text.replace("\r", "").strip()).filter(plain).map(same)
NUMBERS = st.floats(min_value=-1e29, max_value=1e29).map(lambda value: value + 0.0)
WITHIN = st.floats(min_value=0, max_value=1e9)
IDS = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,5}){0,2}", fullmatch=True)


@st.composite
def flat_items(draw, unit: bool, ordering: bool):
    """Flat items of all kinds a format has, ids different."""
    items = []
    for id_ in draw(st.lists(IDS, unique=True, min_size=1, max_size=4)):
        common = {"id": id_, "lesson": draw(IDS), "part": "", "text": draw(TEXT), "explain": draw(TEXT)}
        kind = draw(st.sampled_from(["number", "choice", "open", *(["order"] if ordering else [])]))
        texts = [draw(TEXT).en for _ in range(draw(st.integers(2, 5)))]
        if kind == "number":
            slips = tuple(Slip("", draw(TEXT), value=draw(NUMBERS)) for _ in texts[2:])
            name = draw(st.sampled_from(["GiB", "x", "requests", ""])) if unit else ""
            items.append(Number(**common, unit=name, within=draw(WITHIN), value=draw(NUMBERS), slips=slips))
        elif kind == "choice":
            options = choices([(text, draw(TEXT).en if draw(st.booleans()) else "") for text in texts])
            items.append(Choice(**common, options=options, right=draw(st.sampled_from(options)).id))
        elif kind == "order":
            items.append(Order(**common, steps=steps(texts)))
        elif unit:
            items.append(Open(**common, rubric=tuple(same(text) for text in texts), model_answer=draw(TEXT)))
        else:
            items.append(Open(**{**common, "explain": common["text"]}, rubric=(), model_answer=common["text"]))
    return tuple(items)


@given(flat_items(unit=False, ordering=False))
def test_gift_gives_back_what_was_written(items):
    found = gift.read("".join(gift._written(items)).encode())
    assert (tuple(found.items), found.notes) == (items, [])


@given(flat_items(unit=True, ordering=True))
def test_a_table_gives_back_what_was_written(items):
    text, lost = csv_table.write(items, "en", 0)
    found = csv_table.read(text.encode())
    assert (tuple(found.items), found.notes) == (flat(items, "en", 0, csv_table.HOLDS)[0], [])
    assert not lost


NASTY = (
    *("C:\\new\\tab", "\\", "a\\", "%50% of it", "%-50%x", "[html]x", "[markdown]"),
    *("~=#{}:", "#### x", "// no comment", "::t:: x", "T", "a -> b", "a\nb"),
)


@pytest.mark.parametrize("form", [gift, csv_table])
def test_what_looks_like_a_mark_of_the_format_comes_back(form):
    """As the text, as an option and as what is said to it; chance would seldom write these."""
    texts = [text for text in NASTY if plain(text)]
    options = choices([(text, text) for text in texts])
    items = [
        Choice(id=f"a-{at}", lesson="a", part="", text=same(text), explain=same(text), options=options, right=options[at].id)
        for at, text in enumerate(texts)
    ]
    assert len(items) == len(NASTY)
    assert form.read(form.write(items, "en", 0)[0].encode()).items == items


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("form", [gift, csv_table])
def test_our_own_items_come_back_and_are_judged_alike(form, lang):
    text, lost = form.write(ITEMS, lang, "teacher")
    found = form.read(text.encode())
    assert (tuple(found.items), found.notes) == (flat(ITEMS, lang, "teacher", form.HOLDS)[0], [])
    left = {entry.item for entry in lost if entry.whole}
    assert [item.id for item in found.items] == [item.id for item in ITEMS if item.id not in left]
    assert all(entry.sentence(lang) for entry in lost)
    for item in found.items:
        posed = pose(item, 5, lang)
        if item.kind == "choice":
            assert [entry.id for entry in posed.entries if judge(posed, entry.id).state == "right"] == [item.right]
        elif item.kind == "number":
            assert judge(posed, posed.right).state == "right"
            assert all(judge(posed, f"{slip.value!r} {item.unit}").feedback == slip.feedback[lang] for slip in item.slips)


def test_what_a_format_lacks_is_listed():
    """Whoever exports must learn what students will not get."""
    memory = [item for item in ITEMS if item.lesson == "memory"]
    in_gift = {(entry.item, entry.what, entry.whole) for entry in gift.write(memory, "en", 1)[1]}
    in_table = {(entry.item, entry.what, entry.whole) for entry in csv_table.write(memory, "en", 1)[1]}
    for both in (("memory-read-wall", "figure", True), ("memory-own-wave", "measure", True), ("memory-fit", "draw", False)):
        assert both in in_gift & in_table
    assert ("memory-token-order", "ordering", True) in in_gift - in_table
    assert ("memory-fit", "unit", False) in in_gift - in_table
    assert ("memory-why-wall", "rubric", False) in in_gift - in_table


# ---------------------------------------------------------------- parsers that are not ours


def _their_parser():
    """pygiftparser reads; what it shows HTML with is old and not needed for that."""
    for name in ("markdown", "yattag"):
        sys.modules.setdefault(name, types.ModuleType(name))
    from pygiftparser import parser

    return parser


def _meant(text: str) -> str:
    """It leaves the backslashes in."""
    return re.sub(r"\\([~=#{}:\\])", r"\1", text.replace("\\n", "\n"))


@pytest.mark.parametrize("lang", LANGS)
def test_another_parser_of_gift_reads_the_same(lang):
    text, _ = gift.write(ITEMS, lang, "teacher")
    items = flat(ITEMS, lang, "teacher", gift.HOLDS)[0]
    theirs = _their_parser().parseFile(io.StringIO(text))
    assert [(question.title, question.valid) for question in theirs] == [(item.id, True) for item in items]
    for item, question in zip(items, theirs, strict=True):
        assert _meant(question.text) == item.text.en and _meant(question.generalFeedback) == item.explain.en
        assert question.cat == f"$course$/{item.lesson}"
        kind = type(question.answers).__name__
        if isinstance(item, Number):
            assert kind == "NumericAnswerSet"
            right, *slips = question.answers.answers
            assert (right.value, right.tolerance, right.fraction) == (item.value, item.within, 100)
            assert [(a.value, a.fraction, _meant(a.feedback)) for a in slips] == [(s.value, 0, s.feedback.en) for s in item.slips]
        elif isinstance(item, Choice):
            assert kind == "SelectSet"
            found = [(_meant(a.answer), _meant(a.feedback), a.fraction) for a in question.answers.answers]
            said = [option.feedback.en if option.feedback else "" for option in item.options]
            wanted = zip(item.options, said, strict=True)
            assert found == [(option.text.en, text, 100 if option.id == item.right else 0) for option, text in wanted]
        else:
            assert kind == "Essay"


class _Balanced(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("lang", LANGS)
def test_anki_cards_have_an_id_two_sides_and_only_our_marks(lang):
    text, lost = anki.write(ITEMS, lang, "teacher")
    lines = text.split("\n")
    assert lines[:2] == ["#separator:Comma", "#html:true"]
    rows = list(csv.reader(io.StringIO("\n".join(line for line in lines if not line.startswith("#")))))
    left = {entry.item for entry in lost if entry.whole}
    assert [row[0] for row in rows] == [item.id for item in ITEMS if item.id not in left]
    for row, item in zip(rows, (item for item in ITEMS if item.id not in left), strict=True):
        assert item.lesson in row[3].split()
        for side in row[1:3]:
            seen = _Balanced()
            seen.feed(side)
            assert not seen.open and seen.seen <= {"div", "span", "b", "ul", "ol", "li", "br"}
        if item.kind == "choice":
            assert row[1].count("<li>") == len(item.options)


@given(TEXTS)
@example("<script>alert(1)</script>\n<b>x &amp; </div>")
def test_nothing_in_a_card_is_a_mark(text):
    if text.strip():
        item = Open(id="a", lesson="b", part="", text=same(text), explain=same(text), rubric=(same(text),), model_answer=same(text))
        seen = _Balanced()
        row = next(csv.reader(io.StringIO(anki.write([item], "en", 0)[0].split("column:4\n")[1])))
        seen.feed("".join(row[1:3]))
        assert not seen.open and seen.seen <= {"div", "span", "b", "ul", "ol", "li", "br"}


# ---------------------------------------------------------------- files of others

EXAMPLES = """// a comment
$CATEGORY: $course$/top/Default for Roofs

::Grant:: Who is buried in
Grant's tomb? {
 ~Grant # No one is.
 =nobody # Yes!
 ~Jefferson
}

// true or false
The sun rises in the west.{F#It does not.#Right.}

::a number::What is pi? {#3.1415:0.0005 #Nearly.}

What is a number from 1 to 5? {#1..5}

When was he born? {#
 =1822:0 #Right.
 =%50%1822:2
}

::born::When? {# =%100%1822:0#Right. =%0%1823:0#A year late. ####He was.}

Write about yourself. {}

Two plus {=two =2} is four.

Match. { =cat -> food =dog -> bone }

A description only.

Grant is {~buried =entombed ~living} in a tomb.

Which are even? {~%50%two ~%50%four ~%-100%five}

::esc\\::aped::[html]<b>1 \\= 1\\: \\{set\\}</b> &lt;script&gt; {=a\\~b ~c\\nd}
"""


def test_the_kinds_of_gift_are_read_and_the_others_named_by_line():
    found = gift.read(("\ufeff" + EXAMPLES.replace("\n", "\r\n")).encode())
    items = {item.id: item for item in found.items}
    assert [item.kind for item in found.items] == ["choice", "choice", "number", "number", "number", "open", "choice", "choice"]
    assert len(items) == len(found.items)
    assert items["grant"].text.en == "Who is buried in\nGrant's tomb?" and items["grant"].right == "o2"
    assert items["grant"].options[0].feedback.en == "No one is." and items["grant"].lesson == "imported"
    true, false = found.items[1].options
    assert (found.items[1].right, true.feedback.en, false.feedback.en) == (false.id, "It does not.", "Right.")
    assert (items["a-number"].value, items["a-number"].within) == (3.1415, 0.0005)
    assert (found.items[3].value, found.items[3].within) == (3, 2)
    assert [(slip.value, slip.feedback.en) for slip in items["born"].slips] == [(1823, "A year late.")]
    assert found.items[6].text.en == "Grant is _____ in a tomb." and found.items[6].right == "o2"
    last = found.items[7]
    assert last.text.en == "1 = 1: {set} ‹script>" and [o.text.en for o in last.options] == ["a~b", "c\nd"]
    lines = EXAMPLES.split("\n")
    named = {lines[line - 1].split(" {")[0][:20]: reason for line, reason in found.notes}
    assert named == {
        "When was he born?": "partly_right",
        "Two plus": "kind_short",
        "Match.": "kind_matching",
        "A description only.": "kind_description",
        "Which are even?": "partly_right",
        lines[-2].split(" {")[0][:20]: "made_plain",
    }
    assert all(sentence(reason, lang) for _, reason in found.notes for lang in LANGS)


def test_a_table_of_others_is_read_with_its_mistakes_named_by_line():
    text = (
        "kind;text;answer;option_1;option_2;said_1\n"
        'choice;"Two\nlines";2;a;b;no\n'
        "\n"
        "number;1 + 1;2;3;;add\n"
        "number;no number;two;;;\n"
        "riddle;what?;x;;;\n"
        "choice;which?;3;a;b;\n"
        "order;;;a;b;\n"
        "choice;<b>bold</b> ![](http://x/y.png) [l](javascript:a);1;a;b;\n"
    )
    found = csv_table.read(text.encode())
    assert [item.kind for item in found.items] == ["choice", "number", "choice"]
    assert found.items[0].text.en == "Two\nlines" and found.items[0].right == "o2"
    assert [(slip.value, slip.feedback.en) for slip in found.items[1].slips] == [(3, "add")]
    assert set(found.notes) == {(6, "no_number"), (7, "kind_unknown"), (8, "several_right"), (9, "no_text"), (10, "made_plain")}
    assert found.items[2].text.en == "‹b>bold‹/b> ! [](http://x/y.png) [l] (javascript:a)"


def test_a_row_that_ends_early_is_one_with_empty_cells():
    """It ended the page with a KeyError."""
    found = csv_table.read(b"text,answer,kind\nalone\nq,,number\n,,\n1 + 1?,2,number\n")
    assert found.notes == [(2, "kind_unknown"), (3, "no_number")] and [item.value for item in found.items] == [2]


@pytest.mark.parametrize(("answer", "reason"), [("five", "no_answers"), ("Trondheim", "no_answers"), ("~%100%alone", "several_right")])
def test_a_word_that_begins_like_true_or_false_is_neither(answer, reason):
    """{five} was read as false. And one answer alone is no choice."""
    found = gift.read(f"q {{{answer}}}".encode())
    assert (found.items, found.notes) == ([], [(1, reason)])


HOSTILE = [
    (b"", 1, "empty"),
    (b"a" * ((1 << 20) + 1), 1, "limit"),
    (b"ok {}\n\n\xff\xfe", 3, "UTF-8"),
    (b"ok {}\n\nnul \x00 {}", 3, "control"),
    ("ok {}\n\n\u202eevil {}".encode(), 3, "control"),
    ("\n\n\ue000 {}".encode(), 3, "control"),
]
HOSTILE_GIFT = [
    (b"ok {}\n\na\n{ =b { ~c }", 4, "braces"),
    (b"ok {}\n\na { =b\n\n~c }", 3, "braces"),
    (b"// c\na\n// c\n{ =b { ~c }", 4, "braces"),
    (b"{" * 100_000, 1, "braces"),
    (b"}{", 1, "braces"),
    (b"a {}\n\n" * 501, 1001, "more than 500"),
    (b"a" * 4001 + b" {}", 1, "4001"),
]
HOSTILE_TABLE = [
    (b"a,b,c\n1,2,3", 1, "columns"),
    (b"kind,text,answer,text\n", 1, "columns"),
    (b'kind,text,answer\nopen,"never closed,x\n', 2, "no table"),
    (b'kind,text,answer\nopen,"a"b,x\n', 2, "no table"),
    (b"kind,text,answer\nopen,a,b,c\n", 2, "more cells"),
    (b"kind,text,answer\n" + b"open,a,b\n" * 501, 502, "more than 500"),
    (b"kind,text,answer\nopen," + b"a" * 200_000 + b",b\n", 2, "no table"),
    (b"kind,text,answer\nopen," + b"a" * 5_000 + b",b\n", 2, "5000"),
]


@pytest.mark.parametrize(
    ("form", "raw", "line", "why"),
    [
        *((form, *case) for form in (gift, csv_table) for case in HOSTILE),
        *((gift, *case) for case in HOSTILE_GIFT),
        *((csv_table, *case) for case in HOSTILE_TABLE),
    ],
)
def test_a_hostile_file_is_refused_with_the_line(form, raw, line, why):
    with pytest.raises(LabError) as refused:
        form.read(raw)
    assert refused.value.code == "quiz-import" and why in str(refused.value)
    assert refused.value.facts["line"] == line


@given(st.binary(max_size=300) | TEXTS.map(str.encode) | st.text("{}~=#:%T\n\\ ", max_size=80).map(str.encode))
def test_any_gift_is_read_or_refused(raw):
    _read_or_refused(gift, raw)


@given(st.binary(max_size=300) | st.text('",;\n\r\'=kindtextanswer123 ', max_size=80).map(lambda t: f"kind,text,answer\n{t}".encode()))
def test_any_table_is_read_or_refused(raw):
    _read_or_refused(csv_table, raw)


def _read_or_refused(form, raw: bytes) -> None:
    try:
        found = form.read(raw)
    except LabError as error:
        assert error.code == "quiz-import" and error.facts["line"] >= 1
        return
    for item in found.items:
        assert pose(item, 1, "en").text
    assert len({item.id for item in found.items}) == len(found.items)


@given(TEXTS)
def test_no_cell_is_a_formula(text):
    """A spreadsheet that opens the file must not compute what a question says."""
    said = text.strip() or "?"
    item = Open(id="a", lesson="b", part="", text=same(said), explain=same(said), rubric=(same(said),), model_answer=same(said))
    table = csv_table.write([item], "en", 0)[0].removeprefix("\ufeff")
    for row in csv.reader(io.StringIO(table)):
        assert not any(cell[:1] in tuple("=+-@\t\r＝＋－＠") and cell for cell in row)


@pytest.mark.parametrize("cell", ["=1+1", "+1", "@a", "-a", "'=1", "''@", "－1"])
def test_a_cell_with_an_apostrophe_before_it_comes_back_as_it_was(cell):
    assert csv_table._safe(cell) == f"'{cell}" and csv_table._as_meant(csv_table._safe(cell)) == cell


def test_a_negative_number_is_no_formula():
    assert csv_table._safe("-2.5e-05") == "-2.5e-05" and csv_table._as_meant("'tis") == "'tis"
