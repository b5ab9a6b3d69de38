"""The retrieval experiment: what is made of the answers (a process that answers at once), and real runs of everything."""

import json

import pytest
import torch

from engine.errors import LabError
from engine.experiments import retrieval_worker
from engine.experiments.retrieval import plan_retrieval, run_retrieval
from engine.experiments.retrieval_scenario import RetrievalScenario
from engine.experiments.retrieval_text import questions, write
from engine.experiments.stretched import STRETCHES, stretched
from engine.formulas.intervals import wilson
from engine.kv.eviction import Sinks
from engine.kv.losses import read
from engine.kv.masked import memory
from engine.model.load import load_model
from engine.model.transformer import causal_attend
from tests.experiments.lab_small import TRAINED, lab_model
from tests.experiments.stand_in import StandIn


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


@pytest.fixture
def small(tmp_path):
    return scenario_in(tmp_path / "lab")


def scenario_in(folder) -> RetrievalScenario:
    """20 texts of the trained length and of four times that, needles at both ends and in the middle."""
    return RetrievalScenario(
        lengths=(TRAINED, 4 * TRAINED), depths=(0.0, 0.5, 1.0), trials=20, text="pydoc", model=lab_model(folder), device="cpu", dtype="float32"
    )


class Desk(StandIn):
    """Stands in for the asked process: `finds(question, trial, depth)` tells whether the right value is chosen. It tells of
    seven texts at a time; which value is right it reads in the text."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.finds = lambda question, trial, depth: True
        self.free = True

    def answer(self, record, on_other):
        if record["type"] == "open":
            self.opened = record
            return {}
        numbers = range(len(self.opened["texts"]))
        for begin in range(0, len(numbers), 7):
            chosen = [self.chosen(record, number) for number in numbers[begin : begin + 7]]
            on_other({"type": "found", "chosen": chosen, "free": [[self.free] * len(row) for row in chosen]})
        return {"seconds": 2.0}

    def chosen(self, record, number):
        text, values, found = self.opened["texts"][number], self.opened["values"], []
        for depth, (mark, key) in enumerate(self.opened["questions"][number]):
            (place,) = [at for at in range(len(text) - 2) if text[at : at + 2] == [mark, key]]
            answer = values.index(text[place + 2])
            found.append(answer if self.finds(record, number, depth) else (answer + 1) % 16)
        return found


@pytest.fixture
def desk(monkeypatch):
    return Desk(monkeypatch)


def test_the_result_is_small_json_and_names_what_was_run(desk, small):
    """A NaN breaks browsers, a missing setting makes it unrepeatable."""
    text = json.dumps(run_retrieval(small, run_id="promised"), allow_nan=False)
    result = json.loads(text)
    assert len(text) < 200_000 and (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "retrieval", "promised", "measured")
    assert RetrievalScenario.from_dict(result["manifest"]["scenario"]) == small and result["manifest"]["scenario_key"] == small.key()
    assert (result["trained"], result["guess"], result["lengths"], result["depths"]) == (TRAINED, 1 / 16, [64, 256], [0.0, 0.5, 1.0])
    places = sorted((cell["length"], cell["method"], cell["depth"]) for cell in result["cells"])
    assert places == sorted((n, m, d) for n in (64, 256) for m in STRETCHES for d in (0.0, 0.5, 1.0))
    assert len(result["seconds"]) == 16 and desk.ended and result["disturbance"]["schedules"]["retrieval"]


def test_cells_count_what_was_right(desk, small):
    """By depth and method, with Wilson's interval; an answer that is not the likeliest of all tokens is told apart."""
    desk.finds = lambda question, trial, depth: depth == 1 or (depth == 2 and trial < 5 and question["policy"]["kind"] == "sinks")
    desk.free = False
    found = {(cell["method"], cell["length"], cell["depth"]): cell for cell in run_retrieval(small)["cells"]}
    assert (found["yarn", 256, 0.5]["right"], found["yarn", 256, 0.5]["rate"], found["yarn", 256, 0.5]["rate_free"]) == (20, 1.0, 0.0)
    cell = found["streaming", 256, 1.0]
    assert (cell["trials"], cell["right"], cell["rate"]) == (20, 5, 0.25) and cell["interval"] == pytest.approx(wilson(5, 20), abs=1e-6)
    assert found["none", 64, 0.0]["rate"] == found["none", 256, 1.0]["rate"] == 0.0
    desk.free = True
    assert {cell["rate_free"] == cell["rate"] for cell in run_retrieval(small)["cells"]} == {True}


def test_cells_say_what_streaming_can_see(desk, small):
    """A needle in a sink slot is found however long the text is: taken for a lost one it would say that streaming remembers."""
    found = {(cell["method"], cell["length"], cell["depth"]): (cell["in_sinks"], cell["in_window"]) for cell in run_retrieval(small)["cells"]}
    assert [found["streaming", 256, depth] for depth in (0.0, 0.5, 1.0)] == [(1.0, 0.0), (0.0, 0.0), (0.0, 1.0)]
    assert {seen for (method, *_), seen in found.items() if method != "streaming"} == {(0.0, 1.0)}


def test_what_turns_alike_is_read_once(desk, small):
    """And told of for each method. Dynamic is read for itself: its keys are turned anew when the question comes."""
    run_retrieval(small)
    asked = [(record["scaling"] or {}).get("kind") for record in desk.asked if record["type"] == "ask"]
    assert len(asked) == 2 + 8 and asked.count("dynamic") == 1 and asked.count("ntk") == 1
    opened = [len(record["texts"][0]) for record in desk.asked if record["type"] == "open"]
    assert opened == [TRAINED - 2, 4 * TRAINED - 2], "with its question a text is as long as it says"


def test_progress_and_cells_as_they_come(desk, small):
    """From 0 to 1 without a step back; a cell grows with its trials and ends as the result has it."""
    told, records = [], []
    result = run_retrieval(
        small,
        progress=lambda phase, done, **facts: told.append((phase, done, facts)),
        on_record=lambda name, repeat, record: records.append((name, record)),
    )
    shares = [done for phase, done, _ in told if phase == "measuring"]
    assert shares == sorted(shares) and (shares[0], shares[-1]) == (0.0, 1.0)
    assert [record["trials"] for name, record in records if name == "yarn 256 0.5"] == [7, 14, 20, 20]
    last = dict(records)
    assert list(last.values()) == [{"type": "cell", **cell} for cell in result["cells"]]


def test_the_example_can_be_read(desk, small):
    """What a learner sees: the needle in its text, the question, and the words to choose from."""
    example = run_retrieval(small)["example"]
    assert example["needle"] in example["text"] and example["needle"].startswith(example["question"]) and example["needle"].endswith(example["right"])
    assert len(example["answers"]) == 16 and example["right"] in example["answers"] and example["length"] == 256


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"model": "random-tiny"}, "recall-words"), ({"text": "korean", "lengths": [9000]}, "text-too-short"),
        ({"depths": [0.5, 0.501]}, "scenario-value"), ({"sinks": 33}, "scenario-value"), ({"lengths": [16], "depths": [0, 0.1, 0.9, 1]}, "scenario-value"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_told_before_a_process_starts(desk, small, changes, code):
    """Not by a traceback from a process minutes later."""
    with pytest.raises(LabError) as caught:
        run_retrieval(small.changed(changes))
    assert caught.value.code == code and desk.asked == []


def test_a_real_run_answers_what_one_text_at_a_time_answers(small):
    """In a process of its own: a question that is answered from another text, another depth or after another question would
    still be right at the rate of guessing."""
    result, plan = run_retrieval(small), plan_retrieval(small)
    model = load_model(small.model, pack=False).transformer
    found = {(cell["method"], cell["length"], cell["depth"]): cell["right"] for cell in result["cells"]}
    values = torch.tensor(plan.words.values)
    for method, length in [("none", 64), ("none", 256), ("yarn", 256), ("streaming", 256)]:
        cell = stretched(method, length, TRAINED, factor=0.0, ramp="dimensions", sinks=4)
        other = model.scaled(cell.scaling)
        for number, depth in enumerate(plan.depths):
            right = 0
            for trial in plan.trials:
                ids = [*write(trial, plan.words, length, plan.places[length], plan.bos), *questions(trial, plan.words)[number]]
                if isinstance(cell.policy, Sinks):
                    logits = read(other, ids, memory(other, cell.policy))
                else:
                    logits = other(torch.tensor(ids), torch.arange(length), causal_attend)[-1]
                right += int(logits[values].argmax()) == trial.answers[number]
            assert found[method, length, depth] == right


def test_no_question_hears_of_another(small):
    """Asked in the other order, every question has the same answer."""
    desk, told = retrieval_worker._Asked(lambda record: told.append(record)), []
    desk.load(model=small.model, device="cpu", dtype="float32", threads=1, cores=[], once=True)
    plan = plan_retrieval(small.changed({"trials": 200, "lengths": [16], "depths": [0, 0.5, 1]}))
    texts = [write(trial, plan.words, 16, plan.places[16], plan.bos) for trial in plan.trials]
    asked = [questions(trial, plan.words) for trial in plan.trials]
    answers = []
    for order in (asked, [some[::-1] for some in asked]):
        told.clear()
        desk.open(texts=texts, questions=order, values=list(plan.words.values))
        desk.ask(scaling=None, policy={"kind": "full"})
        answers.append([chosen for record in told for chosen in record["chosen"]])
    assert answers[0] == [some[::-1] for some in answers[1]] and len(answers[0]) == 200
