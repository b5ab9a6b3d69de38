"""The quizzes: items as data, posed for a learner, judged, exported and imported. Pure, no torch.

    item.py       what an item is                     load.py      pages/<lesson>/quiz.toml -> items, checked
    posed.py      an item with a learner's numbers    judge.py     an answer -> right, wrong or unclear, and why
    numbers.py    "1,5 GiB" -> a number in a unit     answers*.py  what answers are computed with
    measured.py   what own results say                units.py     the units
    flat.py       items as files can hold them        foreign.py   files of others: limits, what is made harmless
    gift.py, csv_table.py, anki.py                    write(items, lang, seed) -> text and what it lacks; read(bytes) -> items and notes

How to write items (pages/<lesson>/quiz.toml; pages/memory/quiz.toml has one of each kind; `tests/quiz/test_items.py`
answers every item rightly and wrongly). Both languages side by side, in Markdown without HTML and without formulas in
dollars; braces are only around names of what is drawn or given:

    [[item]]
    id = "memory-kv-total"            # for ever: progress and exports refer to it; begins with the lesson (the folder)
    kind = "number"                   # number | choice | order | open
    part = "wall"                     # what to read again: a part of the lesson's page
    about = ["A1", "quiz-1"]          # optional: rows of the table of claims, the chapter's own five questions
    text.ko = "…{model}…{tokens}…"
    text.en = "How much KV does {model} keep of a request of {tokens} tokens, in 16 bits?"
    hints.ko = ["…"]                  # optional, shown one by one
    hints.en = ["Which heads keep keys and values?"]
    explain.ko = "…{answer}…"
    explain.en = "… {answer}."        # after the answer; only here may stand {answer}

What is drawn for a learner, for any kind. A table of lists is every combination, a list of tables each of its tables;
`given` are fixed values. Names of profiles are shown by their titles if the name is model, device or link, or begins with model_ …,
whole numbers with commas. A function gets those it takes, by name:

    draw = { model = ["llama-3.1-8b", "llama-2-7b"], tokens = [4096, 32768] }
    draw = [{ model = "llama-3.1-8b", tokens = 4096 }, { model = "llama-2-7b", tokens = 2048 }]
    given = { device = "h100-sxm" }

number:  answer = "kv_gib"            # a function of answers*.py, in the unit
         unit = "GiB"                 # one of units.UNITS; "" for a plain number, "x" for how many times
         tolerance = 0.02             # a share; or: within = 1, in the unit (0 for what is counted)
         [[item.slips]]               # typical wrong numbers, never within the tolerance of the right one
         answer = "kv_gib_query_heads"
         feedback.ko = "…"
         feedback.en = "That is with query heads. …"
         given = { dtype = "fp32" }   # optional: values for this slip in place of, or beside, the item's

choice:  [[item.options]]             # at least 3, shuffled; one is right
         id = "latent"
         right = true
         text.ko = "…"
         text.en = "…"
         feedback.ko = "…"            # why it is wrong (needed) or right
         feedback.en = "…"
         # or no right = true, but answer = "…": a function that gives the right option's id

order:   [[item.steps]]               # at least 3, in the right order (or answer = "…" gives the ids in order); shuffled
         id = "prefill"
         text.ko = "…"
         text.en = "…"

open:    rubric.ko = ["…"]            # what a good answer has; the learner ticks it off
         rubric.en = ["…"]
         model_answer.ko = "…"
         model_answer.en = "…"

A measured figure to read (number, choice or order). The answer's function gets the recording's result first:

    figure = { recording = "wall-cpu", view = "lines", measure = "running" }     # views: pages/quiz/figures.py
    answer = "running_most"

Measure it yourself: no answer, but a function of measured.py that gets the learner's own result of this kind first:

    measure = { kind = "wall", value = "wave_ratio" }

Who shows them: ``posed = pose(item, seed, lang, result, attempt)`` draws the learner's case (seed: the learner's; the next
attempt gives other numbers), ``judge(posed, answer)`` says right, wrong, unclear (no attempt) or open, and why.
"""

from engine.quiz.item import Choice, Item, Measure, Number, Open, Option, Order, Slip, Step, Text
from engine.quiz.judge import Verdict, judge, sentence
from engine.quiz.load import load
from engine.quiz.posed import Posed, Shown, pose

__all__ = [
    "Choice",
    "Item",
    "Measure",
    "Number",
    "Open",
    "Option",
    "Order",
    "Posed",
    "Shown",
    "Slip",
    "Step",
    "Text",
    "Verdict",
    "judge",
    "load",
    "pose",
    "sentence",
]
