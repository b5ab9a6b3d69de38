"""What machine this is, with the machine's files and tools replaced."""

import pytest

from engine.errors import LabError
from engine.measure import device
from engine.measure.clock import clock_offset_ns, now_ns
from engine.measure.device import Device, choose, choose_dtype

PLAIN_CPU = Device("cpu", "Some CPU", 4, 2**34, fast_bf16=False)


@pytest.fixture(autouse=True)
def no_memory(monkeypatch):
    """Each test sees a machine of its own, not what an earlier one found."""
    names = ("cpu", "gpu", "usable_cores", "_cpuinfo")
    for name in names:
        getattr(device, name).cache_clear()
    yield
    monkeypatch.undo()
    for name in names:
        getattr(device, name).cache_clear()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Files instead of /proc and /sys: machine({"proc/cpuinfo": ...}, cores={0, 1})."""

    def make(files, cores=(0,)):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        monkeypatch.setattr(device, "Path", lambda name: tmp_path / name.lstrip("/"))
        monkeypatch.setattr(device.os, "sched_getaffinity", lambda pid: set(cores), raising=False)

    return make


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    def make(script):
        (tmp_path / "bin").mkdir(exist_ok=True)
        path = tmp_path / "bin" / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return make


def siblings(pairs):
    return {f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list": text for core, text in pairs.items()}


class TestCores:
    def test_only_those_this_process_may_use(self, machine):
        """Threads for cores outside the affinity would share the few there are."""
        machine({}, cores={2, 3, 5, 7})
        assert device.usable_cores() == (2, 3, 5, 7)

    def test_hyperthreads_count_once(self, machine):
        """Two threads on one core slow each other down, and a pool of each would not be half the machine."""
        machine(siblings({0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}), cores={0, 1, 4, 5})
        assert device.usable_cores() == (0, 1)

    @pytest.mark.parametrize(
        "quota, expected",
        [("max 100000", 6), ("200000 100000", 2), ("350000 100000", 2), ("150000 100000", 1), ("50000 100000", 1),
         ("garbage", 6), ("", 6), ("a b", 6), ("1600000 100000", 6)],
    )  # fmt: skip
    def test_a_containers_quota_counts(self, machine, quota, expected):
        """A container sees all cores of its host: threads beyond its quota are put to sleep in the middle of a step."""
        machine({"sys/fs/cgroup/cpu.max": quota + "\n"}, cores=range(6))
        assert len(device.usable_cores()) == expected

    def test_an_even_number_that_two_pools_can_share_and_not_more_than_useful(self, machine):
        """Half a core more for one pool, or 64 threads for a small model, would be measured as the schedule's doing."""
        machine({}, cores=range(7))
        assert device.usable_cores() == tuple(range(6))
        device.usable_cores.cache_clear()
        machine({}, cores=range(64))
        assert len(device.usable_cores()) == 8
        device.usable_cores.cache_clear()
        machine({}, cores={3})
        assert device.usable_cores() == (3,)


class TestCpu:
    def test_its_name_and_whether_it_multiplies_bf16(self, machine):
        """bfloat16 where the CPU only converts is slower than float32."""
        machine({"proc/cpuinfo": "model name\t: Big CPU @ 3 GHz\nflags\t\t: fpu avx512f avx512_bf16\n"})
        assert device.cpu().name == "Big CPU @ 3 GHz" and device.cpu().fast_bf16 and device.cpu().num_gpus == 0
        assert device.cpu().as_dict()["class"] == "cpu" and "device_class" not in device.cpu().as_dict()

    def test_without_cpuinfo_it_still_has_a_name(self, machine):
        """There is no /proc on other systems: no name is no reason to fail."""
        machine({})
        assert isinstance(device.cpu().name, str) and not device.cpu().fast_bf16 and device.cpu().memory_bytes > 0

    def test_a_cpu_with_avx512_alone_is_not_fast_in_bf16(self, machine):
        """A search for "avx512" alone would choose the slower format."""
        machine({"proc/cpuinfo": "flags : avx512f avx512_vnni\n"})
        assert not device.cpu().fast_bf16


class TestGpu:
    def test_name_memory_and_number(self, nvidia_smi):
        """A comma in the name would shift its memory; one line of two would hide a GPU."""
        nvidia_smi("echo 'NVIDIA H200, NVL, 143771'; echo 'NVIDIA H200, NVL, 143771'")
        found = device.gpu()
        assert (found.name, found.memory_bytes, found.num_gpus) == ("NVIDIA H200, NVL", 143771 * 2**20, 2)
        assert found.device_class == "gpu" and found.fast_bf16

    @pytest.mark.parametrize(
        "script",
        ["exit 9", "echo 'NVIDIA-SMI has failed'; exit 9", "echo 'No devices were found'", "", "echo 'GPU, [N/A]'", "echo ,",
         r"printf '\377\376, 12\n'", "echo 'GPU, nan'", "kill -9 $$"],
    )  # fmt: skip
    def test_whatever_a_broken_driver_says_is_no_gpu(self, nvidia_smi, script):
        """nvidia-smi without a driver, a device or sense: the lab runs on the CPU instead of failing at start."""
        nvidia_smi(script)
        assert device.gpu() is None
        assert choose("auto").device_class == "cpu"

    def test_no_nvidia_smi_is_no_gpu(self, monkeypatch, tmp_path):
        """The usual laptop must not meet a FileNotFoundError."""
        monkeypatch.setenv("PATH", str(tmp_path))
        assert device.gpu() is None

    @pytest.mark.parametrize(
        "visible, count", [("0", 1), ("1,0", 2), ("0,1,2", 2), ("", 0), ("-1", 0), ("0,-1,1", 1), (" 1 ", 1), ("GPU-8932f937", 1)]
    )
    def test_gpus_hidden_from_cuda_are_not_there(self, nvidia_smi, monkeypatch, visible, count):
        """nvidia-smi tells of all; a pool on a hidden one fails after minutes, as a broken installation."""
        nvidia_smi("echo 'GPU, 1000'; echo 'GPU, 1000'")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        found = device.gpu()
        assert (found.num_gpus if found else 0) == count


class TestChoice:
    @pytest.mark.parametrize("name", ["gpu", "", "CPU", "cuda:0", "mps"])
    def test_an_unknown_device_is_refused(self, name):
        """Taken for "auto", a typing error would measure another device than was asked for."""
        with pytest.raises(LabError) as caught:
            choose(name)
        assert caught.value.code == "device-unknown"

    def test_cuda_without_a_gpu_is_refused_and_auto_takes_the_cpu(self, monkeypatch):
        """Who asks for CUDA must not be given the CPU in silence."""
        monkeypatch.setattr(device, "gpu", lambda: None)
        with pytest.raises(LabError) as caught:
            choose("cuda")
        assert caught.value.code == "device-unknown" and "GPU" in str(caught.value)
        assert choose("auto").device_class == choose("cpu").device_class == "cpu"

    def test_the_number_format_follows_the_device(self):
        """A format the engine does not compute in would fail only in the workers."""
        assert choose_dtype("auto", PLAIN_CPU) == "float32"
        assert choose_dtype("auto", Device("gpu", "G", 4, 1, True, 1)) == "bfloat16"
        assert choose_dtype("bfloat16", PLAIN_CPU) == "bfloat16"
        for name in ("float16", "", "int8", "bf16"):
            with pytest.raises(LabError) as caught:
                choose_dtype(name, PLAIN_CPU)
            assert caught.value.code == "dtype-unknown"


class TestClock:
    def test_the_offset_is_that_of_the_quickest_answer(self, monkeypatch):
        """The slowest of several round trips says least about where in it the other clock was read."""
        ours = iter([0, 100, 1000, 1010, 2000, 2400])
        monkeypatch.setattr("engine.measure.clock.now_ns", lambda: next(ours))
        theirs = iter([500, 1505, 2100])
        assert clock_offset_ns(lambda: next(theirs), tries=3) == (500, 10)

    def test_our_own_clock_is_not_ahead_of_itself(self):
        """A wrong sign or half of the trip forgotten would refuse every worker."""
        offset, trip = clock_offset_ns(now_ns)
        assert abs(offset) <= trip
