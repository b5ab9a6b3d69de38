"""The experiment with a state: its settings, one real run with a tiny shape, and what must come out of it whatever the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine.errors import LabError
from engine.experiments import recurrent
from engine.experiments.recurrent import plan_recurrent, run_recurrent
from engine.experiments.recurrent_scenario import (
    DECAY,
    DELTA,
    MECHANISMS,
    SOFTMAX,
    SUM,
    RecurrentScenario,
    recurrent_for,
    recurrent_presets,
)
from engine.experiments.recurrent_worker import _Bench
from engine.model.catalog import CATALOG
from engine.service import files

ROOT = Path(__file__).resolve().parents[2]
TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32"}
SMALL = RecurrentScenario((16, 100, 2100), (2, 32, 256), (8, 64), layers=2, steps=3, trials=8, **TINY)
CONFIG = CATALOG["random-tiny"].config
CPU = recurrent_for("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(result, what was told on the way)."""
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        result = run_recurrent(SMALL, run_id="a-promised-run-id", progress=lambda phase, done, **facts: told.append((phase, done, facts)))
    return result, told


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_the_preset_loads(device_class):
    """For both device classes, with texts in both languages, and the same after a way through JSON."""
    scenario = recurrent_for(device_class)
    assert scenario.kind == scenario.workload == "recurrent" and scenario.text == ""
    assert RecurrentScenario.from_dict(json.loads(json.dumps(scenario.as_dict()))) == scenario
    (preset,) = recurrent_presets().values()
    for texts in (preset.title, preset.summary):
        assert set(texts) == {"ko", "en"} and all(text.strip() for text in texts.values())


LISTS = ("lengths", "pairs", "key_dims")
BAD = [
    *(({name: value}, name) for name in ("layers", "steps", "trials", "threads", "seed") for value in (-1, 1.5, True, None, "x", [2])),
    *(({name: value}, name) for name in LISTS for value in ((), (0,), (64, 32), (32, 32), (32, 64.0), (True,), "x", None, (10**30,))),
    *(({"decay": value}, "decay") for value in (0, -1, 1.01, "x", None, True)),
    ({"device": "tpu"}, "device"), ({"dtype": "int4"}, "dtype"), ({"model": ""}, "model"), ({"trials": 0}, "trials"), ({"steps": 2}, "steps"),
]  # fmt: skip


@pytest.mark.parametrize("changes, field", BAD, ids=range(len(BAD)))
def test_a_bad_value_is_one_sentence_that_names_the_setting(changes, field):
    """From a form or a command line: never a traceback, never a run that fails minutes later."""
    with pytest.raises(LabError) as caught:
        CPU.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == field and len(str(caught.value)) < 400


def test_what_the_machine_or_the_model_cannot_do_is_refused_before_anything_starts(monkeypatch):
    """More layers than the shape has, pairs for hours, and a cache larger than the memory."""
    with pytest.raises(LabError) as caught:
        plan_recurrent(SMALL.changed({"layers": CONFIG.n_layers + 1}))
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == "layers"
    with pytest.raises(LabError) as caught:
        CPU.changed({"trials": 64, "pairs": tuple(range(4000, 4012)), "key_dims": tuple(range(4, 16))})
    assert caught.value.code == "scenario-too-much"
    _, shape = plan_recurrent(SMALL)
    monkeypatch.setattr(recurrent, "_MEMORY_SHARE", (shape.kv_bytes(2099) + 1) / plan_recurrent(SMALL)[0].device.memory_bytes)
    with pytest.raises(LabError) as caught:
        plan_recurrent(SMALL)
    assert caught.value.facts["field"] == "lengths" and "2099 tokens" in caught.value.facts["expected"]


def test_the_result_is_small_json_and_says_what_was_run(run, tmp_path):
    """A NaN breaks browsers, a missing setting makes it unrepeatable; the store must know it again."""
    result, told = run
    text = json.dumps(result, allow_nan=False)
    assert len(text) < 30_000 and (result["kind"], result["run_id"], result["provenance"]) == ("recurrent", "a-promised-run-id", "measured")
    assert RecurrentScenario.from_dict(result["manifest"]["scenario"]) == SMALL
    assert result["shape"] == {"layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "bytes_per_value": 4, "model_layers": 2}
    assert [(row["tokens"], row["mechanism"]) for row in result["decode"]] == [(n, m) for n in SMALL.lengths for m in MECHANISMS]
    assert files.read_result(files.write_result(tmp_path, result)) == json.loads(text)
    shares = [done for phase, done, _ in told if phase == "measuring"]
    assert shares == sorted(shares) and 0 <= shares[0] and shares[-1] < 1
    assert {facts["policy"] for phase, _, facts in told if phase == "measuring"} == {"forms", "decode", "recall"}


def test_the_three_forms_are_one_in_the_process_too(run):
    """Acceptance: 1e-4; and not exactly 0, which would mean that one was compared with itself."""
    found = [value for forms in run[0]["forms"]["differences"].values() for value in forms.values()]
    assert len(found) == 6 and all(0 < value < 1e-4 for value in found)


def test_a_cache_grows_and_a_state_does_not(run):
    """Bytes are those of the tensors: a state kept per token, or a cache cut off, shows against the formula."""
    by = {m: [row for row in run[0]["decode"] if row["mechanism"] == m] for m in MECHANISMS}
    assert [row["bytes"] for row in by[SOFTMAX]] == [2 * 2 * 2 * 8 * 4 * n for n in SMALL.lengths]
    for m in (SUM, DECAY, DELTA):
        assert {row["bytes"] for row in by[m]} == {2 * 2 * 8 * 8 * 4}
    for rows in by.values():
        assert all(row["bytes"] == row["computed_bytes"] and row["rss_bytes"] >= 0 for row in rows)
        assert all(row["spread"][0] <= row["ms"] <= row["spread"][1] and row["spread"][0] > 0 and row["runs"] == 3 for row in rows)


def test_a_full_state_forgets_and_attention_does_not(run):
    """Few pairs all of them answer; with many more than a key has numbers a state fails, least where the keys are longer, and
    softmax still knows. Drawn from a seed, so the same everywhere."""
    rate = {(row["mechanism"], row["key_dim"], row["pairs"]): row["rate"] for row in run[0]["recall"]}
    assert len(rate) == 4 * 2 * 3 and run[0]["values"] == 64
    assert all(rate[m, 64, 2] == 1 for m in MECHANISMS)
    assert rate[SOFTMAX, 64, 256] > 0.99
    for m in (SUM, DECAY, DELTA):
        assert rate[m, 64, 32] > 0.95 and 0.1 < rate[m, 64, 256] < 0.75 and rate[m, 8, 256] < rate[m, 64, 256]


def test_what_decays_or_corrects_forgets_the_old_and_a_sum_forgets_all_alike(run):
    """Ages the wrong way round would teach the opposite."""
    ages = {row["mechanism"]: row["by_age"] for row in run[0]["recall"] if (row["key_dim"], row["pairs"]) == (64, 256)}
    for m in (DECAY, DELTA):
        assert ages[m][0] < 0.2 and ages[m][-1] > 0.7
    assert max(ages[SUM]) - min(ages[SUM]) < 0.2
    assert all(row["by_age"] is None for row in run[0]["recall"] if row["pairs"] == 2)


def test_only_the_delta_rule_replaces_what_it_was_told_before(run):
    """Two values of one key weigh the same in attention and in a sum, so that the older one is answered half of the time."""
    rate = {row["mechanism"]: row["rate"] for row in run[0]["rewrites"] if row["key_dim"] == 64}
    assert rate[DELTA] > 0.95 and 0.3 < rate[SOFTMAX] < 0.7 and 0.3 < rate[SUM] < 0.7
    assert {row["pairs"] for row in run[0]["rewrites"]} == {1, 8}


def test_the_same_seed_draws_the_same(run, tmp_path, monkeypatch):
    """From the command line, as a process: what was not timed is the same to the last digit; a result that cannot be repeated is none."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    changes = {"lengths": "16", "pairs": "32,256", "key_dims": "64", "layers": 2, "steps": 3, "trials": 8}
    pairs = [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "engine", "run", "recurrent", "--model", "random-tiny", "--device", "cpu", "--dtype", "float32"]
    done = subprocess.run([*command, *pairs, "--json", "-"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    wanted = [row for row in run[0]["recall"] if row["key_dim"] == 64 and row["pairs"] != 2]
    assert again["recall"] == wanted


def test_recall_with_softmax_holds_the_scores_of_one_trial_at_a_time(monkeypatch):
    """64 trials of 4,096 pairs, which a page can ask for, were gigabytes of scores that no check of the memory saw."""
    bench, seen = _Bench(lambda record: None), []
    bench.torch, bench.device = torch, "cpu"
    attend = torch.nn.functional.scaled_dot_product_attention

    def watched(q, k, v, **rest):
        seen.append(q.shape[:-1].numel() * k.shape[-2])
        return attend(q, k, v, **rest)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    found = bench.ask(SOFTMAX, pairs=32, key_dim=64, rewritten=False, trials=8, decay=0.99, seed=0)
    assert seen == [32 * 32] * 8 and found["right"] == 8 * 32
