"""The roofline on a CUDA device: events in the stream instead of the clock, the paged kernel, and the roof of the GPU."""

import pytest

from engine.experiments.roofline import run_roofline
from engine.experiments.roofline_scenario import roofline_for
from engine.measure.calibration import best_flops_per_s, run_calibration

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_run_on_the_gpu(dtype):
    """Every part timed by events, within the whole, under a roof that the GPU was measured to have."""
    changes = {"prefill_tokens": [16, 1024], "decode_batches": [1, 8], "decode_contexts": [300], "kv_bytes": 1 << 30}
    result = run_roofline(roofline_for("gpu", device="cuda", dtype=dtype, **changes))
    points = {point["id"]: point for point in result["points"]}
    for name in ("prefill-16", "prefill-1024", "decode-1x300", "decode-8x300"):
        whole, linear, attention = (points[f"{name}-{part}"] for part in ("all", "linear", "attention"))
        assert 0 < linear["seconds"] and 0 < attention["seconds"]
        assert linear["spread"][0] + attention["spread"][0] < whole["spread"][1] and 0 < whole["share_of_roof"] < 2
    assert result["manifest"]["device"]["class"] == "gpu"


def test_calibration_of_the_gpu():
    """In bf16 a GPU multiplies quicker than in fp32; its memory is read quicker than one copies between processes."""
    figures = run_calibration("cuda")
    assert best_flops_per_s(figures, "bfloat16") > best_flops_per_s(figures, "float32") > 0
    assert figures["read_bytes_per_s"] > (figures["copy_bytes_per_s"] or 0) and figures["call_overhead_s"] < 1e-3
