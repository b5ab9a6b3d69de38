"""From the text to the files: a small training through the real code, and what `train lab` refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.cli import main
from engine.errors import LabError
from engine.model.catalog import CATALOG
from engine.model.load import load_model
from engine.model.transformer import causal_attend
from engine.training import checkpoint, lab
from engine.training.recipe import Recipe

SMALL = Recipe(
    config=replace(CATALOG["lab-1m"].config, hidden_size=64, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=16, ffn_size=96),
    batch=8, prose=6, pairs=1, needles=1, recall_steps=20, recall_goal=99.0, recall_streak=2, steps=60, recall_least=0.0, warmup=5,
    muon_lr=0.05, adam_lr=0.02, lr_floor=0.3,
)


@pytest.fixture(scope="module")
def trained(kjv, tmp_path_factory):
    """The smoke training, and what it said of its losses."""
    folder, losses = tmp_path_factory.mktemp("lab") / "model", []
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    facts = lab.train_lab(folder, SMALL, progress=lambda report: losses.append(report.text_loss))
    torch.set_num_threads(before)
    return folder, facts, [loss for loss in losses if loss is not None]


def test_the_loss_falls(trained):
    """By more than 1.5 nats a token in 60 small steps, and on text it has not seen: it learnt the language, not the sample."""
    _, facts, losses = trained
    assert losses[0] > 6.5, "it begins by guessing, ln 1058"
    assert facts["held_out_loss"] < losses[0] - 1.5


def test_the_folder_is_a_model_for_everybody(trained):
    """The engine and Hugging Face read the same logits and the same tokens out of it, BOS first."""
    folder, facts, _ = trained
    assert not (folder / checkpoint.NAME).exists() and json.loads((folder / "training.json").read_text()) == facts | {
        "recipe": json.loads(json.dumps(facts["recipe"]))
    }
    loaded = load_model(str(folder))
    theirs, words = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)
    text = "And it came to pass <mark><fox><red> in those days"
    ids = loaded.tokenizer.encode(text, parse_special=True)
    assert ids == words(text)["input_ids"] and ids[0] == words.bos_token_id == loaded.tokenizer.bos_id
    with torch.inference_mode():
        reference = theirs(torch.tensor([ids])).logits[0]
    logits = loaded.transformer(torch.tensor(ids), torch.arange(len(ids)), causal_attend)
    assert (logits - reference).abs().max() < 1e-4 * reference.std() and reference.std() > 0.5
    assert (folder / "model.safetensors").stat().st_size < 2.2 * SMALL.config.parameter_count()


def test_what_is_said_of_it_is_measured(trained):
    _, facts, _ = trained
    assert facts["seed"] == facts["asked_seed"] == 0 and facts["held_out_text"]["books"] == ["Judges", "Ezekiel", "Acts"]
    assert facts["training_text"]["tokens"] + facts["held_out_text"]["tokens"] > 1_300_000 and facts["seconds"] > 0
    assert facts["recall_steps"] == 2 and 0 <= facts["pairs_recalled"] < 0.5 and facts["threads"] == 1


@pytest.mark.parametrize(
    "there, options, code",
    [
        ("model.safetensors", {}, "training-finished"), ("model.safetensors", {"resume": True}, "training-finished"),
        ("config.json", {}, "training-finished"), ("tokenizer.json", {}, "training-finished"),
        (checkpoint.NAME, {}, "training-begun"), (None, {"resume": True}, "training-not-begun"),
    ],
)
def test_nothing_is_overwritten(tmp_path, there, options, code):
    """A model of an hour, or half of one, is not lost to a command typed twice."""
    if there:
        (tmp_path / there).write_bytes(b"precious")
    with pytest.raises(LabError) as caught:
        lab.train_lab(tmp_path, SMALL, **options)
    assert caught.value.code == code and str(tmp_path) in str(caught.value)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([b"precious"] if there else [])


def test_a_mistyped_folder_is_not_made(tmp_path):
    with pytest.raises(LabError) as caught:
        lab.train_lab(tmp_path / "mistyped", SMALL, resume=True)
    assert caught.value.code == "training-not-begun" and not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize("place", ["file", "file/below", "long" * 100])
def test_a_place_that_is_no_folder(tmp_path, place):
    """A name that is too long was a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError) as caught:
        lab.train_lab(tmp_path / place, SMALL)
    assert caught.value.code == "output-unwritable"


def test_a_folder_that_nothing_can_be_written_to(tmp_path, monkeypatch):
    """It is told at once, and not with the first checkpoint a minute later."""

    def refused(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lab.tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(lab, "make_tokenizer", lambda text: pytest.fail("it began"))
    with pytest.raises(LabError) as caught:
        lab.train_lab(tmp_path, SMALL)
    assert caught.value.code == "output-unwritable" and caught.value.facts["why"] == "Permission denied"


@pytest.mark.parametrize("option", ["--steps=0", "--steps=x", "--threads=100000", "--threads=-1", "--seed=-1"])
def test_numbers_that_cannot_be(capsys, option):
    """No steps were all of the recipe's, and so many threads end the process."""
    with pytest.raises(SystemExit) as caught:
        main(["train", "lab", "--out", "/nowhere", option])
    assert caught.value.code == 2 and "it must be a whole number from" in capsys.readouterr().err


def test_ctrl_c_keeps_what_is_done(kjv, tmp_path):
    """The real command, interrupted in its first steps: one checkpoint, a sentence how to go on, no traceback, no model."""
    command = [sys.executable, "-m", "engine", "train", "lab", "--out", str(tmp_path / "model"), "--threads", "1"]
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        first = running.stderr.readline()
        assert first.startswith("stage 1 of 2, step 1 of 600: recall loss "), first + running.stderr.read()
        os.kill(running.pid, signal.SIGINT)
        out, error = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 130 and "--resume" in error and "not stored" not in error and "Traceback" not in error and out == ""
    assert [path.name for path in (tmp_path / "model").iterdir()] == [checkpoint.NAME]


def test_lines_of_progress():
    """One every few seconds, however quick the steps; always the last; and what happens in between."""
    from engine.training.command import Lines
    from engine.training.train import Report

    now, lines = [0.0], []
    told = Lines(lines.append, lambda: now[0])
    for step in range(1, 4):
        told(Report(0, 0, step, 600, None, 2.5, 61.0))
        now[0] += 3
    told(Report(0, 1, 0, 1900, None, 0.2, None, "recall-formed"))
    told(Report(0, 1, 1900, 1900, 2.5, 0.01, 0.0))
    told(Report(3, 0, 600, 600, None, 2.0, None, "recall-failed"))
    assert lines == [
        "stage 1 of 2, step 1 of 600: recall loss 2.500, at most 1 min 01 s left",
        "stage 1 of 2, step 3 of 600: recall loss 2.500, at most 1 min 01 s left",
        "recall has formed; prose joins in",
        "stage 2 of 2, step 1900 of 1900: text loss 2.500, recall loss 0.010, 0 s left",
        "seed 3 does not recall; the next one is tried",
    ]


def test_the_command_starts_without_torch():
    """`--help` and refusals of the arguments come at once."""
    program = "import sys; import engine.training.command; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
