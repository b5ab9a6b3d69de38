"""`run pools --listen` and `pool --join` as they are typed: three hosts, in network namespaces where the system allows them."""

import json
import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--model", "random-tiny", "--dtype", "float32"]
SMALL += [f"--set={setting}" for setting in ("arrangements=unified,1:1", "kv_bytes=4194304", "text={text}")]
GROUPS = {"chat.prompt_tokens": 60, "chat.output_tokens": 12, "chat.count": 3}


class Network:
    """Three hosts that reach each other: `prefix` is before a command on a host, `address` is the coordinator's."""

    def __init__(self) -> None:
        self.name = f"lcl{os.getpid()}"
        self.made: list[str] = []
        self.address, self.apart = "127.0.0.1", False

    def lay(self) -> None:
        """Three namespaces with a switch in the first. Raises OSError or CalledProcessError where that is not allowed."""
        for number in range(3):
            self._ip("netns", "add", self._host(number))
            self.made.append(self._host(number))
            self._in(number, "link", "set", "lo", "up")
        self._in(0, "link", "add", "switch", "type", "bridge")
        self._in(0, "address", "add", "10.79.0.1/24", "dev", "switch")
        self._in(0, "link", "set", "switch", "up")
        for number in (1, 2):
            self._in(0, "link", "add", f"port{number}", "type", "veth", "peer", "name", "net", "netns", self._host(number))
            self._in(0, "link", "set", f"port{number}", "master", "switch", "up")
            self._in(number, "address", "add", f"10.79.0.{number + 1}/24", "dev", "net")
            self._in(number, "link", "set", "net", "up")
        self.address, self.apart = "10.79.0.1", True

    def prefix(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", self._host(number)] if self.apart else []

    def close(self) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def _host(self, number: int) -> str:
        return f"{self.name}-{number}"

    def _in(self, number: int, *words: str) -> None:
        self._ip("-n", self._host(number), *words)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def network():
    made = Network()
    try:
        made.lay()
    except (OSError, subprocess.CalledProcessError) as error:
        warnings.warn(f"no network namespaces here ({getattr(error, 'stderr', None) or error}): over loopback instead", stacklevel=1)
    yield made
    made.close()


def test_a_run_over_three_hosts(network, tmp_path, monkeypatch):
    """What a user types, and nothing else: the printed line joins, the result is of the usual shape, has the tokens of one
    engine, names the hosts, and is never taken for the answer to the same scenario on this machine."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    text, out = tmp_path / "text.txt", tmp_path / "out.json"
    text.write_text("Now there was a day when the sons of God came to present themselves. " * 30)
    settings = [word.replace("{text}", str(text)) for word in SMALL] + [f"--set={name}={value}" for name, value in GROUPS.items()]

    def start(number: int, *words: str, **options) -> subprocess.Popen:
        return subprocess.Popen([*network.prefix(number), sys.executable, "-m", "engine", *words], cwd=ROOT, text=True, **options)

    started = [start(0, "run", "pools", *settings, "--listen", f"{network.address}:0", "--json", str(out), stderr=subprocess.PIPE)]
    try:
        lines = []
        for line in started[0].stderr:
            lines.append(line)
            if found := re.search(r"python -m engine (pool --role (prefill|decode) .*)", line):
                started.append(start(1 if found[2] == "prefill" else 2, *found[1].split(), "--cores", _a_core(), stderr=subprocess.PIPE))
            if len(started) == 3:
                break
        assert len(started) == 3, lines
        reading = threading.Thread(target=lambda: lines.extend(started[0].stderr), daemon=True)
        reading.start()
        assert started[0].wait(timeout=200) == 0, lines
        for joined in started[1:]:
            _, words = joined.communicate(timeout=30)
            assert joined.returncode == 0 and words.splitlines()[-1] == "the run has ended"
    finally:
        for process in started:
            process.kill()
            process.wait()
    result = json.loads(out.read_text())
    assert list(result["arrangements"]) == ["unified", "1:1"]
    pools = result["arrangements"]["1:1"]
    assert {request["status"] for request in pools["trace"]["requests"]} == {"finished"}
    assert all(found["1:1"] is None or found["1:1"]["near_tie"] for found in result["agreement"].values())
    addresses = [worker["host"]["address"] for worker in pools["resources"]]
    assert addresses == (["10.79.0.2", "10.79.0.3"] if network.apart else ["127.0.0.1"] * 2)
    assert all(worker["cores"] == [int(_a_core())] and worker["threads"] == 1 for worker in pools["resources"])
    assert pools["processes_at_most_cores"] is False, "these two hosts are one machine, and have the same core"
    assert pools["transfer"]["bytes"] > 0 and all(len(t["parts"]) == 2 for t in pools["trace"]["transfers"])
    assert "host" not in result["arrangements"]["unified"]["resources"][0]
    _no_answer_for_others(result)


def _a_core() -> str:
    from engine.measure.device import usable_cores

    return str(usable_cores()[0])


def _no_answer_for_others(result: dict) -> None:
    from engine.experiments.pools_scenario import PoolsScenario
    from engine.service.store import Store

    assert Store().load(result["run_id"])["run_id"] == result["run_id"]
    scenario = PoolsScenario.from_dict(result["manifest"]["scenario"])
    assert result["manifest"]["scenario_key"] != scenario.key()
