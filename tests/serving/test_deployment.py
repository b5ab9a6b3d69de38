"""Who runs where: the same resources for every schedule, and no page may say otherwise."""

import pytest

from engine.serving.deployment import cpu_deployment, cuda_deployment, gpu_pools_deployment, has_pools, pools_deployment, ratio_of


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


PAIRS = [(1, 1), (2, 1), (1, 2), (4, 4)]


@pytest.mark.parametrize("cores", [(3,), (0, 1), (0, 2, 5), tuple(range(8))], ids=len)
@pytest.mark.parametrize("prefill,decode", PAIRS)
def test_an_arrangement_of_pools_has_the_cores_of_the_engine(cores, prefill, decode):
    """A core more, one less or one in two pools would be measured as the ratio's doing; more processes than cores must share."""
    deployment = pools_deployment("m", "float32", cores, PAIRS)
    name = f"{prefill}:{decode}"
    workers = deployment.entry(name) + deployment.decode(name)
    wanted = [f"prefill-{n}" for n in range(prefill)] + [f"decode-{n}" for n in range(decode)]
    assert [w.name for w in workers] == wanted and [w.group for w in deployment.decode(name)] == ["decode"] * decode
    if len(workers) <= len(cores):
        assert sorted(core for w in workers for core in w.cores) == sorted(cores)
        assert {w.threads - len(w.cores) for w in workers} == {0} and max(w.threads for w in workers) - min(w.threads for w in workers) <= 1
    else:
        assert {(w.cores, w.threads) for w in workers} == {(cores, 1)}
    assert [(w.name, w.cores, w.threads) for w in deployment.entry("unified")] == [("engine-0", cores, len(cores))]


def test_the_processes_of_all_arrangements_are_started_once():
    """A process for each arrangement would take minutes to load, and the memory of ten models."""
    names = [w.name for w in pools_deployment("m", "float32", (0, 1), [(1, 1), (2, 1), (1, 3)]).workers]
    assert names == ["engine-0", "prefill-0", "decode-0", "prefill-1", "decode-1", "decode-2"]
    assert [w.name for w in pools_deployment("m", "float32", (0, 1), []).workers] == ["engine-0"]


@pytest.mark.parametrize("num_gpus", [1, 2, 3, 4, 8])
def test_a_worker_keeps_its_gpu_in_every_arrangement(num_gpus):
    """Its process has the model there; on another one it would compute with nothing. And no two share one where there are
    enough: with three, 1:2 would leave one idle and be called too crowded to be timed."""
    pairs = [(p, d) for p in range(1, 5) for d in range(1, 5)]
    deployment = gpu_pools_deployment("m", "bfloat16", num_gpus, pairs)
    started = {w.name: w.device for w in deployment.workers}
    for name in (f"{p}:{d}" for p, d in pairs):
        workers = deployment.entry(name) + deployment.decode(name)
        assert all(started[w.name] == w.device for w in workers)
        if len(workers) <= num_gpus:
            assert len({w.device for w in workers}) == len(workers), name
    assert len(deployment.entry("unified")) == min(num_gpus, 2) and deployment.shared_device == (num_gpus == 1)


def test_what_is_a_ratio_and_what_has_pools():
    """0 workers would hang, and a word that looks like a ratio would start processes."""
    assert [ratio_of(name) for name in ("1:1", "4:3", "0:1", "5:1", "1:1:1", "1:1\n", "unified", 11, None)] == [(1, 1), (4, 3)] + [None] * 7
    assert [has_pools(name) for name in ("disaggregated", "2:1", "unified", "chunked")] == [True, True, False, False]
