"""The needle experiment: what is made of the scores (a process that answers at once), and real runs of everything."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from engine.errors import LabError
from engine.experiments import needle, needle_worker
from engine.experiments.child import load_record, started
from engine.experiments.needle import margin, plan_needle, run_needle
from engine.experiments.needle_scenario import POLICIES, NeedleScenario
from engine.experiments.needle_text import in_window, stays
from engine.formulas.intervals import wilson
from engine.kv.eviction import Sinks
from engine.lock import device_lock
from engine.model.catalog import named
from engine.model.transformer import Transformer
from engine.serving.cluster import Cancelled
from tests.experiments.stand_in import StandIn

TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32", "text": "pydoc"}
SMALL = NeedleScenario(8, 700, 320, distractors=1, **TINY)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


class Desk(StandIn):
    """Stands in for the asked process: `knows(policy, near)` tells whether the right word is the likeliest, by 2 nats.

    Which word is right it reads in the text.
    """

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.number = 0
        self.knows = lambda policy, near: policy == "dense" or near
        self.plan = None
        planned = needle.plan_needle

        def plan(scenario):
            self.plan = planned(scenario)
            return self.plan

        monkeypatch.setattr(needle, "plan_needle", plan)

    def answer(self, record, on_other):
        if record["type"] == "open":
            self.number = 0
        if record["type"] == "ask":
            text, self.number = self.plan.texts[self.number], self.number + 1
            assert record["ids"] == text.ids
            for policy in record["policies"]:
                on_other({"type": "scores", "policy": policy, "scores": self.scores(text, record["questions"], policy, False)})
        if record["type"] == "near":
            for text, told in zip(self.plan.near, record["texts"], strict=True):
                assert (*record["ids"], *told["ids"]) == text.ids
                on_other({"type": "scores", "policy": record["policy"], "scores": self.scores(text, told["questions"], record["policy"], True)})
        return {}

    def scores(self, text, questions, policy, near):
        found = []
        for asked, (question, lead) in zip(text.needles, questions, strict=True):
            assert (question, lead) == (asked.question, asked.lead)
            right = self.knows(policy, near)
            found.append([-1.0 if (number == asked.answer) == right else -3.0 for number in range(len(self.plan.writer.words))])
        return found


@pytest.fixture
def desk(monkeypatch):
    return Desk(monkeypatch)


def test_the_result_is_small_json_and_names_what_was_run(desk):
    """A NaN breaks browsers, a missing setting makes it unrepeatable."""
    text = json.dumps(run_needle(SMALL, run_id="promised"), allow_nan=False)
    result = json.loads(text)
    assert len(text) < 300_000 and (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "needle", "promised", "measured")
    assert NeedleScenario.from_dict(result["manifest"]["scenario"]) == SMALL and result["manifest"]["scenario_key"] == SMALL.key()
    assert result["manifest"]["text"]["name"] == "pydoc" and result["manifest"]["text"]["repeated"] is False
    assert [cell["policy"] for cell in result["cells"]] == [*POLICIES, "sinks"] and desk.ended
    assert result["guess"] == 1 / len(result["choices"]) and (result["texts"], result["needles"]) == (4, 2)


def test_cells_count_what_was_right(desk):
    """With Wilson's interval, the mean margin, and what they say against guessing."""
    result = run_needle(SMALL)
    cells = {(cell["policy"], cell["in_window"]): cell for cell in result["cells"]}
    dense, sinks, near = cells["dense", False], cells["sinks", False], cells["sinks", True]
    assert (dense["trials"], dense["right"], dense["rate"], dense["margin_mean"]) == (8, 8, 1.0, 2.0)
    assert dense["interval"] == pytest.approx(wilson(8, 8), abs=1e-6) and dense["against_guess"] == near["against_guess"] == "above"
    assert (sinks["right"], sinks["rate"], sinks["margin_mean"], sinks["against_guess"]) == (0, 0.0, -2.0, "level")
    assert near["right"] == 8 and not any(cell["in_sinks"] for cell in cells.values()) and result["excluded"] == 0


def test_a_tie_is_not_right():
    """A model that likes all words equally knows nothing."""
    assert margin([-1.0, -1.0, -5.0], 0) == 0.0 and margin([-1.0, -2.0, -5.0], 0) == 1.0 and margin([-1.0, -2.0], 1) == -1.0


def test_needles_in_the_window_say_so(desk):
    """At the end of the text, nothing is lost: taken for a lost needle that was found, it would say that streaming remembers."""
    late = run_needle(SMALL.changed({"depth": 1.0}))["cells"]
    early = run_needle(SMALL.changed({"depth": 0.0}))["cells"]
    assert all(cell["in_window"] for cell in late) and [cell["in_window"] for cell in early] == [False] * 5 + [True]


def test_the_control_is_there_only_where_it_is_one(desk):
    """All of it in the window to the last token that is read before the answer; a window too small for that has none."""
    run_needle(SMALL)
    asked = sum(map(len, desk.plan.writer.ask(desk.plan.writer.places[0])))
    policy = Sinks(4, 320)
    assert all(stays(n, policy, 700 + asked) for text in desk.plan.near for n in text.needles)
    assert not any(in_window(n, policy, 700) for text in desk.plan.texts for n in text.needles)
    assert [cell["policy"] for cell in run_needle(SMALL.changed({"window": 128}))["cells"]] == list(POLICIES)
    assert [cell["policy"] for cell in run_needle(SMALL.changed({"policies": ["dense", "snapkv"]}))["cells"]] == ["dense", "snapkv"]


def test_the_example_shows_a_trial(desk):
    """The sentence, the question and the words, as the page prints them."""
    example = run_needle(SMALL)["example"]
    assert example["needle"] in example["text"] and example["needle"].endswith(f"is {example['right']}.") and example["right"] in example["answers"]
    place = example["needle"].removeprefix("The secret word of the ").split()[0]
    assert example["question"] == f"Question: What is the secret word of the {place}?\nAnswer: The secret word of the {place} is"
    assert example["text"].startswith("… ") and example["text"].endswith(" …") and example["length"] == 700 and example["position"] > 4


def test_what_cannot_run_is_told_before_a_process_starts(desk):
    """After seconds of loading it would be the same news."""
    cases = [
        ({"model": "nonsense"}, "model-unknown"), ({"threads": 200}, "scenario-value"), ({"model": "smollm2-135m-instruct"}, "model-missing"),
        ({"text": "nonsense"}, "text-unknown"), ({"length": 8150}, "model-too-long"), ({"length": 96}, "scenario-value"), ({"text": "own:" + "0" * 64}, "text-unknown"),
    ]  # fmt: skip
    for changes, code in cases:
        with pytest.raises(LabError) as caught:
            run_needle(SMALL.changed(changes))
        assert caught.value.code == code and not desk.asked and "{" not in str(caught.value)


def test_progress_goes_from_nothing_to_all_and_never_back(desk):
    """A bar that jumps back is not believed again; the facts are what the page says beside it."""
    seen = []
    run_needle(SMALL, progress=lambda phase, done, **facts: seen.append((phase, done, facts)))
    measuring = [(done, facts) for phase, done, facts in seen if phase == "measuring"]
    shares = [done for done, _ in measuring]
    assert seen[0][0] == "starting-workers" and shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == pytest.approx(1.0)
    assert all(set(facts) == {"policy", "trials", "of"} and facts["trials"] <= facts["of"] == 8 for _, facts in measuring)
    assert {facts["policy"] for _, facts in measuring} == set(POLICIES)


def test_cancelling_gives_the_device_back(desk):
    """A lock kept after a cancel stops everybody."""
    with pytest.raises(Cancelled):
        run_needle(SMALL, cancelled=lambda: len(desk.asked) > 3)
    assert desk.ended
    with device_lock("cpu", "next", wait=False):
        pass


def test_a_real_run():
    """The whole way on a tiny model, which knows nothing: every cell counted, every number usable."""
    result = run_needle(SMALL)
    json.dumps(result, allow_nan=False)
    assert [(cell["policy"], cell["trials"], cell["in_window"]) for cell in result["cells"]] == [*((p, 8, False) for p in POLICIES), ("sinks", 8, True)]
    margins = {(cell["policy"], cell["in_window"]): cell["margin_mean"] for cell in result["cells"]}
    assert len(set(margins.values())) == len(margins), "each policy sees something of its own"


@contextmanager
def asking(scenario):
    """A plan, and the real process as a function: scores of each policy for a question about some text."""
    plan = plan_needle(scenario)
    worker = plan.setup.deployment.entry("unified")[0]
    with started(needle.MODULE, worker, lambda: False) as child:
        child.ask(load_record(plan.setup, worker), "loaded")
        child.ask({"type": "open", "budget": scenario.window, "sinks": scenario.sinks, "choices": plan.writer.choices}, "opened")

        def scores(record):
            found = []
            child.ask(record, "asked", lambda told: found.append((told["policy"], told["scores"])))
            return found

        yield plan, scores


def near(a, b) -> bool:
    return all(abs(x - y) < 2e-4 for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True))


def test_what_is_shared_changes_no_score():
    """A text read once for several questions and policies, and one beginning for several texts: each score is that of the
    whole text, read for it alone."""
    scenario = SMALL.changed({"trials": 4})
    with asking(scenario) as (plan, scores):
        text = plan.texts[0]
        questions = [(n.question, n.lead) for n in text.needles]
        together = dict(scores({"type": "ask", "ids": text.ids, "questions": questions, "policies": list(POLICIES)}))
        for policy in POLICIES:
            alone = [dict(scores({"type": "ask", "ids": text.ids, "questions": [q], "policies": [policy]}))[policy][0] for q in questions]
            assert near(together[policy], alone), policy
        texts = [{"ids": t.ids[plan.shared :], "questions": questions} for t in plan.near]
        shared = [found for _, found in scores({"type": "near", "ids": plan.near[0].ids[: plan.shared], "texts": texts, "policy": "sinks"})]
        for found, whole in zip(shared, plan.near, strict=True):
            assert near(found, dict(scores({"type": "ask", "ids": whole.ids, "questions": questions, "policies": ["sinks"]}))["sinks"])


def test_the_needle_is_seen_exactly_where_it_is_kept():
    """Another word in the needle, in a model of so few layers that no neighbour can have passed it on: with everything kept
    the scores change, behind the window they do not. A policy that leaked would look as if it remembered."""
    scenario = SMALL.changed({"trials": 2, "length": 1500, "depth": 0.0})
    with asking(scenario) as (plan, scores):
        text = plan.texts[0]
        needle_, other = text.needles[0], plan.writer.choices
        changed = list(text.ids)
        at = next(place for place in range(needle_.end - 1, needle_.begin, -1) if changed[place] == other[needle_.answer])
        changed[at] = other[(needle_.answer + 1) % len(other)]
        question = {"type": "ask", "questions": [(needle_.question, needle_.lead)], "policies": ["dense", "sinks", "window"]}
        before, after = dict(scores({**question, "ids": text.ids})), dict(scores({**question, "ids": changed}))
    assert before["dense"] != after["dense"]
    assert before["sinks"] == after["sinks"] and before["window"] == after["window"]


def test_a_budget_that_holds_everything_is_dense():
    """No policy may change anything where it evicts nothing: else what it costs would be laid to eviction."""
    scenario = SMALL.changed({"length": 400, "window": 800, "trials": 2, "policies": list(POLICIES)})
    with asking(scenario) as (plan, scores):
        text = plan.texts[0]
        found = dict(scores({"type": "ask", "ids": text.ids, "questions": [(n.question, n.lead) for n in text.needles], "policies": list(POLICIES)}))
    for policy in POLICIES:
        assert near(found[policy], found["dense"]), policy


def test_a_prompt_is_compressed_between_question_and_answer():
    """The question votes and stays, nothing of the prompt beyond the budget does, and the answer is read from what is left.
    Compressed before the question, the vote would be that of some filler."""
    desk = needle_worker._Asked(lambda record: None)
    desk.worker = SimpleNamespace(loaded=SimpleNamespace(transformer=Transformer.random(named("random-tiny").config, seed=1)))
    desk.open(64, 4, [1, 2])
    text, question, lead = list(range(200)), list(range(20)), list(range(5))
    memory = desk._read(desk._compressing(len(text), len(question)), text)
    assert {layer.keys.shape[1] for layer in memory.layers} == {200}
    desk._scores(memory, question, lead)
    for layer in memory.layers:
        for kept in layer.positions.tolist():
            assert len(kept) == 64 + 5 and kept[-25:] == list(range(200, 225)) and kept[0] < 200





@pytest.mark.parametrize("odd", ["a" * 100_000, "😀👩‍👩‍👧‍👦", "שלום עולם", "\x01\x1b[31m\x7f"], ids=["same", "emoji", "right to left", "control"])
def test_odd_texts(odd, tmp_path):
    """Pasted by somebody: filler like any other, and the result is JSON."""
    text = tmp_path / "odd.txt"
    text.write_text(odd, encoding="utf-8")
    result = run_needle(SMALL.changed({"text": str(text), "trials": 2, "policies": ["sinks"]}))
    json.dumps(result, allow_nan=False)
    assert result["cells"][0]["trials"] == 2 and result["manifest"]["text"]["repeated"] == (len(odd) < 100)
