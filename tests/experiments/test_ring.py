"""The ring experiment: real runs of a tiny model, bytes against the formulas; killed, cancelled, left behind by its runner."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments import ring
from engine.experiments.ring import compared_rows, plan_ring, run_ring, shared_out
from engine.experiments.ring_scenario import RingScenario, ring_for
from engine.formulas import ring as formulas
from engine.formulas.rope import RopeScaling
from engine.lock import device_lock
from engine.serving.cluster import Cancelled

TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32", "text": "pydoc"}
SMALL = RingScenario(331, 2, **TINY)
LONG = RingScenario(8000, 2, compare=False, **TINY)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Data and temporary files of this test's own, so that what is left behind shows."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def children() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if ring.MODULE in " ".join(p.cmdline())]


def nothing_is_left(home):
    assert children() == [] and list((home / "tmp").iterdir()) == []
    with device_lock("cpu", "next", wait=False):
        pass


def test_a_model_whose_positions_follow_the_length_is_refused(home, monkeypatch):
    """A rank holds a part of the text, and would turn it as if it were a shorter one."""
    card = plan_ring(SMALL).setup.card
    config = replace(card.config, rope_scaling=RopeScaling("dynamic", 2.0, original_context=128))
    monkeypatch.setattr("engine.experiments.plan.describe", lambda name: replace(card, config=config))
    with pytest.raises(LabError) as told:
        plan_ring(SMALL)
    assert told.value.code == "scenario-value" and told.value.facts["field"] == "model"


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_real_run_agrees_with_one_process_and_with_the_formulas(home, ranks):
    """Everything that the result claims: bytes, pairs, whose tokens, the order of times; with more ranks than cores, too."""
    told = []
    result = run_ring(SMALL.changed({"ranks": ranks}), progress=lambda phase, done, **facts: told.append((phase, done, facts)))
    assert json.loads(json.dumps(result)) == result and result["kind"] == "ring" and result["run_id"]
    assert result["agreement"]["std"] >= 1 and result["agreement"]["largest_difference"] < 1e-4
    assert result["agreement"]["last_token"] <= result["agreement"]["largest_difference"] == max(result["agreement"]["by_layout"].values())
    shape = formulas.AttentionShape(4, 2, 8, 4)
    assert result["shape"] == {"layers": 2, **vars(shape)}
    alone = result["alone"]
    assert alone["kv_bytes"] == formulas.kv_bytes(331, 2, shape) and alone["activation_bytes"] == formulas.alone_activation_bytes(331, shape)
    for layout in formulas.LAYOUTS:
        some, parts = result["layouts"][layout], formulas.pieces(331, ranks, layout)
        counts = [formulas.held(part) for part in parts]
        assert sum(rank["kv_bytes"] for rank in some["ranks"]) == alone["kv_bytes"]
        for number, rank in enumerate(some["ranks"]):
            assert [tuple(piece) for piece in rank["pieces"]] == list(parts[number]) and rank["tokens"] == counts[number]
            assert rank["sent_bytes"] == formulas.sent_bytes(counts, number, 2, shape)
            assert rank["received_bytes"] == formulas.received_bytes(counts, number, 2, shape)
            assert rank["kv_bytes"] == formulas.kv_bytes(counts[number], 2, shape)
            assert rank["activation_bytes"] == formulas.activation_bytes(counts[number], shape)
            assert rank["buffer_bytes"] == formulas.buffer_bytes(counts, shape)
            assert [(r["layer"], r["round"]) for r in rank["rounds"]] == [(i, s) for i in range(2) for s in range(ranks)]
            assert [r["pairs"] for r in rank["rounds"]] == 2 * formulas.pairs(331, ranks, layout)[number]
            for r in rank["rounds"]:
                assert rank["begin_s"] <= r["compute"][0] <= r["compute"][1] <= rank["end_s"] <= some["seconds"]
                assert (r["communication"] is None) == (r["round"] == ranks - 1)
                assert not r["communication"] or r["communication"][0] <= r["compute"][0]
            assert rank["busy_s"] + rank["waited_s"] == pytest.approx(rank["end_s"] - rank["begin_s"], abs=1e-5)
            assert (rank["hidden_share"] is None) == (ranks == 1)
    shares = [done for phase, done, _ in told if phase == "measuring"]
    assert shares == sorted(shares) and shares[-1] == 1.0 and {f["policy"] for p, _, f in told if p == "measuring"} == {"alone", *formulas.LAYOUTS}
    nothing_is_left(home)


def at(hit_phase, then):
    """A progress that calls `then` once, when the ring has begun to compute."""
    done = []

    def see(phase, share, **facts):
        if phase == hit_phase and not done:
            done.append(phase)
            then()

    return see


@pytest.mark.parametrize("phase", ["loading", "measuring"])
def test_a_killed_rank_fails_the_run_by_its_name_and_leaves_nothing(home, phase):
    """The other rank would wait in gloo for minutes and then be the one that is named, and the next run would wait for it."""
    with pytest.raises(LabError) as caught:
        run_ring(LONG, progress=at(phase, lambda: children()[1].kill()))
    assert caught.value.code == "worker-died" and caught.value.facts["exit"] == "signal 9"
    assert caught.value.facts["worker"].startswith("rank-")
    nothing_is_left(home)


def test_cancelling_ends_all_ranks_in_the_middle_of_a_layer(home):
    stop, family = threading.Event(), []

    def cancel():
        family.extend(children())
        stop.set()

    with pytest.raises(Cancelled):
        run_ring(LONG, progress=at("measuring", cancel), cancelled=stop.is_set)
    assert len(family) == 2 and not any(process.is_running() for process in family)
    nothing_is_left(home)


def test_ranks_end_when_their_runner_is_killed(home):
    """kill -9 leaves it no time to clean up: they notice that their stdin has ended."""
    code = "\n".join(
        (
            "from engine.experiments.ring import run_ring",
            "from engine.experiments.ring_scenario import RingScenario",
            f"scenario = RingScenario.from_dict({LONG.as_dict()!r})",
            "run_ring(scenario, progress=lambda phase, done, **facts: print(phase, flush=True))",
        )
    )
    runner = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert any(line.strip() == "measuring" for line in runner.stdout)
        family = psutil.Process(runner.pid).children(recursive=True)
        os.kill(runner.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(family, timeout=120)
        assert len(family) == 2 and [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        runner.kill()
        runner.wait()
        runner.stdout.close()


def test_cores_are_shared_out_evenly():
    """A rank with a core more would be the faster one; with too few, they take turns and the result says so."""
    assert shared_out((0, 1, 2, 3), 2) == [(0, 1), (2, 3)] and shared_out((0, 1, 2, 3), 3) == [(0,), (1,), (2,)]
    assert shared_out((4, 6), 4) == [(4,), (6,), (4,), (6,)]


@pytest.mark.parametrize("tokens", [16, 64, 65, 4096])
def test_compared_rows_end_with_the_last_token(tokens):
    """The last token's logits are what a prefill is for."""
    rows = compared_rows(tokens)
    assert rows[-1] == tokens - 1 and len(set(rows)) == len(rows) == min(tokens, 64) and list(rows) == sorted(rows) and rows[0] >= 0


def test_one_process_has_the_threads_of_all_ranks(home):
    """Otherwise the ring would be measured against less than it was given itself."""
    plan = plan_ring(SMALL)
    assert plan.whole.threads == sum(spec.threads for spec in plan.specs) or not plan.own_cores
    crowd = plan_ring(SMALL.changed({"ranks": 4, "threads": 1}))
    assert not crowd.own_cores and crowd.whole.threads == 1 and [spec.threads for spec in crowd.specs] == [1] * 4


def test_a_text_that_is_too_short_is_told(home):
    with pytest.raises(LabError) as caught:
        plan_ring(SMALL.changed({"text": "korean", "tokens": 65_536}))
    assert caught.value.code == "text-too-short"


def test_the_default_model_agrees_on_a_real_text(default_model_path, kjv):
    """Thirty layers of a trained model, in which attention sinks make logits and sums large."""
    found = run_ring(ring_for("cpu", tokens=200))["agreement"]
    assert found["std"] > 1 and found["largest_difference"] / found["std"] < 1e-4
