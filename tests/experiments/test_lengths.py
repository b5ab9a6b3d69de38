"""The lengths experiment: what is made of the losses (a process that answers at once), and real runs of everything."""

import json
import math

import pytest
import torch
from torch.nn import functional as F

from engine.errors import LabError
from engine.experiments import lengths_worker
from engine.experiments.lengths import plan_lengths, run_lengths
from engine.experiments.lengths_scenario import LengthsScenario
from engine.experiments.stretched import STRETCHES, from_record
from engine.model.load import load_model
from engine.model.transformer import causal_attend
from tests.experiments.lab_small import BOS, TRAINED, lab_model
from tests.experiments.stand_in import StandIn

SMALL = LengthsScenario(
    lengths=(64, 256), scored=32, samples=2, seeds=3, text="pydoc", model="random-tiny", device="cpu", dtype="float32", factor=2.0
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


@pytest.fixture
def small(tmp_path):
    """For a model with a BOS, 64 tokens long in training; factors by length."""
    return SMALL.changed({"model": lab_model(tmp_path / "lab"), "factor": 0, "lengths": [TRAINED, 4 * TRAINED]})


class Desk(StandIn):
    """Stands in for the reading process: text n has the mean loss `loss(question, n)`."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.loss = lambda question, n: 1.0 + n / 10

    def answer(self, record, on_other):
        if record["type"] == "open":
            self.texts = record["texts"]
            return {}
        for _ in self.texts:
            on_other({"type": "part", "tokens": record["length"]})
        return {"losses": [self.loss(record, n) for n in range(len(self.texts))], "seconds": 2.0}

    @property
    def read(self):
        return [record for record in self.asked if record["type"] == "read"]


@pytest.fixture
def desk(monkeypatch):
    return Desk(monkeypatch)


def test_the_result_is_small_json_and_names_what_was_run(desk, small):
    """A NaN breaks browsers, a missing setting makes it unrepeatable."""
    text = json.dumps(run_lengths(small, run_id="promised"), allow_nan=False)
    result = json.loads(text)
    assert len(text) < 100_000 and (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "lengths", "promised", "measured")
    assert LengthsScenario.from_dict(result["manifest"]["scenario"]) == small and result["manifest"]["scenario_key"] == small.key()
    assert (result["trained"], result["scored"], result["texts"], result["lengths"], result["seeds"]) == (TRAINED, 32, 6, [64, 256], [0, 1, 2])
    assert sorted((cell["length"], cell["method"]) for cell in result["cells"]) == sorted((n, m) for n in (64, 256) for m in STRETCHES)
    assert desk.ended and result["disturbance"]["schedules"]["lengths"] and result["manifest"]["text"]["name"] == "pydoc"


def test_a_cell_keeps_what_every_seed_said(desk, small):
    """A mean alone hides whether two methods differ at all."""
    desk.loss = lambda question, n: [1.0, 2.0, 1.0, 1.0, 3.0, 3.0][n]
    cells = run_lengths(small)["cells"]
    for cell in cells:
        assert cell["by_seed"] == pytest.approx([math.exp(1.5), math.exp(1.0), math.exp(3.0)], rel=1e-5)
        assert cell["perplexity"] == pytest.approx(math.exp(11 / 6), rel=1e-5) and (cell["tokens"], cell["seconds"]) == (6 * 32, 2.0)


def test_every_method_is_asked_with_its_own_stretching(desk, small):
    """And the result says which; what turns alike is read once and told of twice."""
    desk.loss = lambda question, n: {None: 1.0, "linear": 2.0, "ntk": 3.0, "by-parts": 4.0, "yarn": 5.0, "llama3": 6.0}[
        (question["scaling"] or {}).get("kind")
    ] + (question["policy"]["kind"] == "sinks") / 2
    found = {(cell["method"], cell["length"]): cell for cell in run_lengths(small)["cells"]}
    at_long = {method: round(math.log(found[method, 256]["perplexity"]), 3) for method in STRETCHES}
    assert at_long == {"none": 1, "linear": 2, "ntk": 3, "dynamic": 3, "by-parts": 4, "yarn": 5, "llama3": 6, "streaming": 1.5}
    assert [found[method, 256]["factor"] for method in STRETCHES] == [None, *[4.0] * 6, None]
    assert found["dynamic", 256]["scaling"]["kind"] == "dynamic" and found["yarn", 64]["scaling"] is None and found["yarn", 64]["factor"] == 1.0
    assert from_record(found["yarn", 256]["scaling"]).original_context == TRAINED
    assert len(desk.read) == 2 + 7, "all but streaming are one at the trained length, dynamic is ntk beyond it"
    assert {record["policy"]["window"] for record in desk.read if record["policy"]["kind"] == "sinks"} == {TRAINED}


def test_progress_and_cells_as_they_come(desk, small):
    """From 0 to 1 without a step back, and every cell is told of once, as the result has it."""
    told, records, plans = [], [], []
    result = run_lengths(
        small,
        progress=lambda phase, done, **facts: told.append((phase, done, facts)),
        on_plan=plans.append,
        on_record=lambda name, repeat, record: records.append((name, record)),
    )
    shares = [done for phase, done, _ in told if phase == "measuring"]
    assert shares == sorted(shares) and (shares[0], shares[-1]) == (0.0, 1.0)
    assert [record for _, record in records] == [{"type": "cell", **cell} for cell in result["cells"]]
    assert len({name for name, _ in records}) == len(records) and plans[0]["lengths"] == [64, 256] and plans[0]["trained"] == TRAINED
    assert {(facts["method"], facts["length"]) for phase, _, facts in told if phase == "measuring"} == {(m, n) for m in STRETCHES for n in (64, 256)}


def test_seeds_draw_texts_of_their_own(small):
    """Three times the same text is one measurement, not three; the next seed's first texts are this one's second ones."""
    plan, again, later = (plan_lengths(scenario) for scenario in (small, small, small.changed({"seed": 1})))
    assert plan.texts == again.texts and len(set(plan.texts)) == 6 and plan.bos == (BOS,)
    assert later.texts[:4] == plan.texts[2:] and {len(text) for text in plan.texts} == {257}


@pytest.mark.parametrize(
    "changes, code", [({"text": "korean", "lengths": [65_000]}, "text-too-short"), ({"sinks": 33}, "scenario-value"), ({"model": "nonsense"}, "model-unknown")]
)
def test_what_cannot_be_read_is_told_before_a_process_starts(desk, small, changes, code):
    """Not by a traceback from a process minutes later."""
    with pytest.raises(LabError) as caught:
        run_lengths(small.changed(changes))
    assert caught.value.code == code and desk.asked == []


def naive(model, text: torch.Tensor, length: int, scored: int, bos: int) -> float:
    """The mean loss of the last tokens, from one plain forward over `length` tokens."""
    ids = text[-(length + 1) :].clone()
    ids[0] = bos
    logits = model(ids[:-1], torch.arange(length), causal_attend)
    return float(F.cross_entropy(logits, ids[1:], reduction="none")[-scored:].double().mean())


def test_a_real_run_is_what_plain_forwards_say(small):
    """In a process of its own, with every method: the same targets at every length, BOS first, dynamic in one forward."""
    result, plan = run_lengths(small), plan_lengths(small)
    model = load_model(small.model, pack=False).transformer
    texts = torch.tensor(plan.texts)
    for cell in result["cells"]:
        if cell["method"] == "streaming" and cell["length"] > TRAINED:
            continue
        stretched = model.scaled(from_record(cell["scaling"]))
        losses = [naive(stretched, text, cell["length"], 32, BOS) for text in texts]
        assert cell["perplexity"] == pytest.approx(math.exp(sum(losses) / 6), rel=1e-4), cell["method"]
        assert cell["by_seed"][1] == pytest.approx(math.exp((losses[2] + losses[3]) / 2), rel=1e-4)
    found = {(cell["method"], cell["length"]): cell["perplexity"] for cell in result["cells"]}
    assert len({found[method, 256] for method in ("none", "linear", "ntk", "yarn", "streaming")}) == 5


def test_a_large_model_is_read_alone_and_in_pieces(monkeypatch, small):
    """Which bounds its memory, and changes no number."""
    desk, told = lengths_worker._Reader(lambda record: told.append(record)), []
    desk.load(model=small.model, device="cpu", dtype="float32", threads=1, cores=[], once=True)
    plan = plan_lengths(small)
    desk.open(texts=plan.texts, bos=list(plan.bos), scored=32)
    question = {"length": 256, "scaling": None, "policy": {"kind": "full"}}
    whole = desk.read(**question)["losses"]
    told.clear()
    monkeypatch.setattr(lengths_worker, "_NUMBERS_AT_ONCE", 100 * 32)
    pieces = desk.read(**question)["losses"]
    assert pieces == pytest.approx(whole, abs=1e-5) and [part["tokens"] for part in told] == [100, 100, 56] * 6
