"""The same promises on a CUDA device, and what only exists there: the paged kernel and the pools sharing a GPU."""

import pytest
import torch

from engine.experiments.scenarios import scenario_for
from engine.experiments.schedules import run_schedules
from engine.model.load import load_model
from engine.model.transformer import Transformer
from tests.serving.in_process import serve_in_process
from tests.serving.test_schedules_agree import TINY, requests_of, worst_difference

pytestmark = pytest.mark.gpu

CASES = {
    "unified": dict(schedule="unified"),
    "chunk 7": dict(schedule="chunked", chunk=7),
    "disaggregated": dict(schedule="disaggregated", mirror=True),
    "layer by layer": dict(schedule="disaggregated", mirror=True, layerwise=True),
}


@pytest.mark.parametrize("case", CASES)
def test_fp32_schedules_agree(case, monkeypatch, tmp_path):
    """A CUDA forward of any schedule equals one whole forward on the CPU (TF32 off, sums in another order)."""
    torch.backends.cuda.matmul.allow_tf32 = False
    on_cpu = Transformer.random(TINY, seed=3)
    model = Transformer(TINY, {name: tensor.cuda() for name, tensor in on_cpu.state_dict().items()})
    requests, forced = requests_of((41, 17, 29), (60, 40, 40), TINY.vocab_size)
    found, _ = serve_in_process(
        model, requests=requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, block_tokens=4, blocks=64, **CASES[case]
    )
    assert worst_difference(on_cpu, requests, forced, found) < 1e-3


@pytest.mark.parametrize("case", CASES)
def test_bf16_paged_kernel(case, default_model_path, kjv, monkeypatch, tmp_path):
    """In bf16 the paged kernel serves; its logits stay near those of fp32 on the CPU, chunk or no chunk."""
    from engine.model.load_tokenizer import load_tokenizer

    on_cpu = load_model("smollm2-135m-instruct", dtype=torch.float32).transformer
    model = load_model("smollm2-135m-instruct", device="cuda", dtype=torch.bfloat16).transformer
    ids = load_tokenizer("smollm2-135m-instruct").encode(kjv.text[:6000])
    requests, forced = requests_of((1, 1), (4, 4), 10)
    requests = [type(r)(r.index, tuple(ids[300 * r.index : 300 * r.index + 300]), 4) for r in requests]
    found, _ = serve_in_process(
        model, requests=requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, block_tokens=256, blocks=8, **CASES[case]
    )
    assert worst_difference(on_cpu, requests, forced, found) < 0.3


@pytest.mark.parametrize("transfer", ["after", "layerwise"])
def test_quick_workload(transfer, default_model_path, kjv):
    """The whole experiment with real worker processes on the GPU."""
    result = run_schedules(scenario_for("quick", "gpu", transfer=transfer))
    for schedule, entry in result["schedules"].items():
        assert entry["metrics"]["finished"] == entry["metrics"]["requests"], schedule
    assert result["schedules"]["disaggregated"]["metrics"]["transfer_bytes"] > 0
    assert result["manifest"]["device"]["class"] == "gpu"
