"""Who runs where: the same resources for every schedule, and no page may say otherwise."""

import pytest

from engine.serving.deployment import cpu_deployment, cuda_deployment


@pytest.mark.parametrize("cores", [(0, 1), (2, 5), (0, 1, 2, 3), tuple(range(8))])
def test_the_cores_of_the_engine_are_shared_out_to_the_pools(cores):
    """A core in two pools, or one more for a schedule, would be measured as the schedule's doing."""
    deployment = cpu_deployment("m", "float32", cores)
    (engine,), (prefill,), (decode,) = deployment.entry("unified"), deployment.entry("disaggregated"), deployment.decode("disaggregated")
    assert engine.cores == cores and engine.threads == len(cores) == prefill.threads + decode.threads
    assert sorted(prefill.cores + decode.cores) == sorted(cores) and not deployment.shared_device
    assert deployment.entry("chunked") == deployment.entry("unified") and deployment.decode("unified") == deployment.decode("chunked") == []


def test_on_one_core_both_pools_share_it_and_say_so():
    """A pool without a core would not run; two on one must be called what they are."""
    deployment = cpu_deployment("m", "float32", (3,))
    assert deployment.shared_device
    assert [(w.cores, w.threads) for w in deployment.workers] == [((3,), 1)] * 3


def test_one_gpu_is_shared_and_said_so():
    """Two pools on one GPU disturb each other: shown as two GPUs it would be a lie."""
    deployment = cuda_deployment("m", "bfloat16", 1)
    assert deployment.shared_device and {w.device for w in deployment.workers} == {"cuda:0"}
    assert [w.name for w in deployment.entry("unified")] == ["engine-0"]


@pytest.mark.parametrize("num_gpus", [2, 8])
def test_two_gpus_are_two_replicas_or_a_pool_each(num_gpus):
    """One replica against two pools would give disaggregated twice the hardware."""
    deployment = cuda_deployment("m", "bfloat16", num_gpus)
    assert [w.device for w in deployment.entry("unified")] == ["cuda:0", "cuda:1"]
    assert [w.device for w in deployment.entry("disaggregated") + deployment.decode("disaggregated")] == ["cuda:0", "cuda:1"]
    assert not deployment.shared_device and len({w.name for w in deployment.workers}) == 4
