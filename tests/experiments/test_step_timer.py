"""The timer runs the steps of serving itself, and stamps every matrix and every layer's attention once."""

import pytest
import torch

from engine.errors import LabError
from engine.experiments.step_timer import StepTimer
from engine.kv.attention import BatchAttention
from engine.kv.storage import KVStorage
from engine.model.catalog import CATALOG
from engine.model.transformer import Transformer

CONFIG = CATALOG["random-tiny"].config


@pytest.fixture(params=["plain", "packed"])
def model(request):
    made = Transformer.random(CONFIG, seed=1)
    return made.pack() if request.param == "packed" else made


@pytest.fixture
def timer(model):
    return StepTimer(model, KVStorage(CONFIG, 40, 16))


@pytest.fixture
def seen(monkeypatch):
    """The spans of every step's attention."""
    spans = []
    build = BatchAttention.__init__

    def watched(self, storage, asked, slots):
        spans.append([(span.start, span.length) for span in asked])
        build(self, storage, asked, slots)

    monkeypatch.setattr(BatchAttention, "__init__", watched)
    return spans


@pytest.mark.parametrize("batch, new, context, expected", [(1, 30, 0, [(0, 30)]), (5, 1, 50, [(50, 1)] * 5), (1, 1, 1, [(1, 1)]), (2, 9, 0, [(0, 9)] * 2)])
def test_a_step_is_what_was_asked_for_however_often(timer, seen, batch, new, context, expected):
    """A decode that grows with every repeat is another step than the one whose operations were counted."""
    run = timer.prepare(batch, new, context)
    for _ in range(3):
        times = run()
        assert 0 < times["linear"] and 0 < times["attention"] and times["linear"] + times["attention"] < times["seconds"]
        assert len(timer.stamps.pairs["linear"]) == 4 * CONFIG.n_layers + 1 and len(timer.stamps.pairs["attention"]) == CONFIG.n_layers
    assert seen == [expected] * 3


def test_the_cache_is_filled(model):
    """Memory that was never written is one page of zeros, read from the nearest cache: decodes would look twice as quick."""
    storage = KVStorage(CONFIG, 3000, 16)
    StepTimer(model, storage)
    assert storage.memory.count_nonzero() > 0.999 * storage.memory.numel() and torch.isfinite(storage.memory).all()


def test_what_does_not_fit_is_not_run_half(timer):
    """Half the batch under the whole batch's name would be twice as quick."""
    with pytest.raises(MemoryError):
        timer.prepare(11, 1, 63)
    with pytest.raises(LabError) as caught:
        timer.prepare(1, 641, 0)
    assert caught.value.code == "request-never-fits"
    timer.prepare(10, 1, 63)()
    timer.prepare(1, 640, 0)()


def test_what_the_stamps_enclose_changes_no_result():
    """Timed, the model must still be the model."""
    model = Transformer.random(CONFIG, seed=1)
    ids, positions = torch.arange(9), torch.arange(9)
    from engine.model.transformer import causal_attend

    before = model(ids, positions, causal_attend)
    timer = StepTimer(model, KVStorage(CONFIG, 4, 16))
    assert torch.equal(timer.runner.model(ids, positions, causal_attend, None), before)
