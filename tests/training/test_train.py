"""The loop: it learns, it can be stopped anywhere, and it comes out the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.errors import LabError
from engine.training import checkpoint, train
from engine.training.train import MIXED, RECALL, Stopped
from tests.training.small import WORDS, corpus, recipe

pytestmark = pytest.mark.usefixtures("one_thread")


def run(folder, *, seed=0, made=None, resume=False, after=None):
    """A training in a folder, stopped after so many steps where that is given; the reports beside what it gave."""
    reports = []
    stopped = (lambda: len(reports) + 1 >= after) if after else (lambda: False)
    folder.mkdir(exist_ok=True)
    return train.train(made or recipe(), corpus(), WORDS, seed, folder, resume=resume, progress=reports.append, stopped=stopped), reports


def same(one, other) -> bool:
    return all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)


@pytest.mark.parametrize("after", [1, 2, 5, 9])
def test_stopped_and_resumed_is_as_straight_through(tmp_path, after):
    """In the first stage, at its end, and in the second: to the last bit, running means and step counts included."""
    straight, _ = run(tmp_path / "straight")
    with pytest.raises(Stopped):
        run(tmp_path / "stopped", after=after)
    resumed, reports = run(tmp_path / "stopped", resume=True)
    assert len(reports) == 10 - after and same(straight, resumed)
    assert (resumed.text_loss, resumed.recall_loss, resumed.recall_steps) == (straight.text_loss, straight.recall_loss, 2)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path):
    one, other, different = run(tmp_path / "a")[0], run(tmp_path / "b")[0], run(tmp_path / "c", seed=1)[0]
    assert same(one, other) and not same(one, different)


def test_what_it_says_on_the_way(tmp_path):
    """Two steps until recall counts as formed, eight of the mixed stage, and a time that is left until the last."""
    _, reports = run(tmp_path / "a")
    assert [(r.stage, r.step) for r in reports] == [(RECALL, 1), (MIXED, 0), *((MIXED, n) for n in range(1, 9))]
    assert [r.event for r in reports if r.event] == ["recall-formed"]
    assert reports[0].text_loss is None and all(r.text_loss > 0 for r in reports[2:])
    assert reports[-1].left_s == 0 < reports[3].left_s


def test_a_seed_without_recall_gives_way_to_the_next(tmp_path):
    """What recall did not form with is not kept, and it is said; when no seed is left the training has failed."""
    made = recipe(recall_goal=0.0, attempts=2)
    reports = []
    with pytest.raises(LabError) as caught:
        train.train(made, corpus(), WORDS, 7, tmp_path, progress=reports.append)
    assert caught.value.code == "training-no-recall" and caught.value.facts["seeds"] == 2
    assert [report.seed for report in reports if report.event == "recall-failed"] == [7, 8]


def test_a_model_that_does_not_recall_is_not_kept(tmp_path, monkeypatch):
    """The gate at the end: the first seed's model recalls too little, the second's enough."""
    shares = iter([0.5, 0.97, 0.97])
    monkeypatch.setattr(train, "pairs_recalled", lambda *_: next(shares))
    trained, reports = run(tmp_path / "a", made=recipe(recall_least=0.95))
    assert (trained.seed, trained.recalled) == (1, 0.97) and [r.seed for r in reports if r.event == "recall-failed"] == [0]
    straight, _ = run(tmp_path / "b", seed=1)
    assert same(trained, straight), "nothing of the first attempt is left in the second"


def test_a_resumed_second_seed_is_still_the_second(tmp_path, monkeypatch):
    """Resuming would otherwise count attempts anew, or go back to the first seed."""
    monkeypatch.setattr(train, "pairs_recalled", lambda network, *_: 0.0)
    with pytest.raises(Stopped):
        run(tmp_path / "a", made=recipe(recall_least=0.95, attempts=2), after=15)
    with pytest.raises(LabError) as caught:
        run(tmp_path / "a", made=recipe(recall_least=0.95, attempts=2), resume=True)
    assert caught.value.code == "training-no-recall"


@pytest.mark.parametrize("changes", [{"seed": 1}, {"made": recipe(steps=9)}])
def test_another_trainings_checkpoint_is_refused(tmp_path, changes):
    with pytest.raises(Stopped):
        run(tmp_path / "a", after=3)
    with pytest.raises(LabError) as caught:
        run(tmp_path / "a", resume=True, **changes)
    assert caught.value.code == "training-other-recipe"


def test_another_texts_checkpoint_is_refused(tmp_path):
    with pytest.raises(Stopped):
        run(tmp_path / "a", after=3)
    with pytest.raises(LabError) as caught:
        train.train(recipe(), replace(corpus(), sha256="another"), WORDS, 0, tmp_path / "a", resume=True)
    assert caught.value.code == "training-other-recipe"


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04cut off"])
def test_a_damaged_checkpoint_is_a_sentence(tmp_path, content):
    (tmp_path / checkpoint.NAME).write_bytes(content)
    with pytest.raises(LabError) as caught:
        run(tmp_path, resume=True)
    assert caught.value.code == "training-checkpoint"


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.pop("numbers"), lambda state: state["numbers"].pop("step"), lambda state: state.update(weights={}),
        lambda state: state.update(adam={}), lambda state: state.update(threads=None),
        lambda state: state["weights"].update({train.EMBEDDING: torch.zeros(3)}),
    ],
)
def test_a_checkpoint_with_something_missing_is_a_sentence(tmp_path, damage):
    """It was a KeyError."""
    with pytest.raises(Stopped):
        run(tmp_path, after=3)
    state = checkpoint.load(tmp_path)
    damage(state)
    checkpoint.save(tmp_path, state)
    with pytest.raises(LabError) as caught:
        run(tmp_path, resume=True)
    assert caught.value.code == "training-checkpoint"


def test_a_checkpoint_that_is_code_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path / "sprung").touch, ()

    torch.save({"recipe": Trap()}, tmp_path / checkpoint.NAME)
    with pytest.raises(LabError) as caught:
        checkpoint.load(tmp_path)
    assert caught.value.code == "training-checkpoint" and not (tmp_path / "sprung").exists()


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    """A full disk half way through the file: the older checkpoint is what --resume finds."""
    checkpoint.save(tmp_path, {"recipe": "old"})

    def full(state, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(LabError) as caught:
        checkpoint.save(tmp_path, {"recipe": "new"})
    assert caught.value.code == "output-unwritable"
    assert checkpoint.load(tmp_path) == {"recipe": "old"} and len(list(tmp_path.iterdir())) == 1


def test_it_saves_now_and_then(tmp_path, monkeypatch):
    """A machine that loses power loses a minute, not the training."""
    monkeypatch.setattr(train, "SAVE_EVERY_S", 0.0)
    saved = []
    monkeypatch.setattr(checkpoint, "save", lambda folder, state: saved.append((state["numbers"]["stage"], state["numbers"]["step"])))
    _, reports = run(tmp_path)
    assert saved == [(report.stage, report.step) for report in reports]


def test_batches_hold_what_the_recipe_says():
    """Prose, pairs and needles in their numbers; another step draws others."""
    made = recipe(batch=9, prose=4, pairs=3, needles=2)
    ids, kinds = train.batch_of(made, corpus(), WORDS, 0, MIXED, 5)
    assert ids.shape == kinds.shape == (9, 65)
    marks = (ids == WORDS.mark).sum(1)
    assert (marks[:4] == 0).all() and (marks[4:7] == 21).all() and (marks[7:] < 17).all() and (marks[7:] > 1).all()
    assert not torch.equal(ids, train.batch_of(made, corpus(), WORDS, 0, MIXED, 6)[0])
    assert train.batch_of(made, corpus(), WORDS, 0, RECALL, 5)[0].shape == (9, 64)
