"""The two commands of pools on other hosts: `engine run pools --listen` waits for them and measures, `engine pool` is one."""

import hashlib
import socket
from collections.abc import Callable

import psutil

from engine.errors import LabError
from engine.experiments.pools import run_pools
from engine.experiments.pools_scenario import PoolsScenario
from engine.measure.device import usable_cores
from engine.service.store import Store
from engine.serving.cluster import Cluster
from engine.serving.deployment import Deployment
from engine.serving.remote import JOIN_S, ROLES, Gate, address_of, written

Say = Callable[[str], None]


def run_listening(scenario: PoolsScenario, address: str, *, progress: Callable[..., None], say: Say, wait: bool, join_s: float = JOIN_S) -> dict:
    """Measure pools whose workers join at `address` ("host:port", port 0 for any); the engine of "unified" is this host's.

    The result is stored like any other, but never as the answer to the same scenario on this machine alone. say(words): what
    the user must be told. Raises as `run_pools` does, and LabError as `Gate` does.
    """
    clusters: list[Cluster] = []
    with Gate(address, scenario.model, on_note=lambda words: say(f"refused {words}")) as gate:

        def cluster_for(deployment: Deployment) -> Cluster:
            for role in ROLES:
                count = sum(worker.group == role for worker in deployment.workers)
                if count:
                    say(f"on {count} other host{'s' if count > 1 else ''}: {join_line(gate, role)}")
            clusters.append(
                gate.cluster(deployment, on_missing=lambda missing: progress("joining", 0.0, missing=missing), limit_s=join_s)
            )
            return clusters[-1]

        try:
            result = run_pools(scenario, progress=progress, wait=wait, cluster_for=cluster_for)
        finally:
            for cluster in clusters:
                cluster.stop()
    hosts = sorted({worker["host"]["name"] for entry in result["arrangements"].values() for worker in entry["resources"] if "host" in worker})
    manifest = result["manifest"]
    manifest["hosts"] = [socket.gethostname(), *hosts]
    manifest["scenario_key"] = hashlib.sha256(f"{manifest['scenario_key']} {hosts} {result['run_id']}".encode()).hexdigest()
    Store().save(result)
    return result


def join_line(gate: Gate, role: str) -> str:
    """What is to be typed on the other host."""
    return f"python -m engine pool --role {role} --join {reachable(gate.address)} --code {gate.code}"


def reachable(address: str) -> str:
    """An address under which others find this host, where it listens at all of them."""
    host, port = address_of(address)
    if host not in ("0.0.0.0", "::"):
        return address
    family = socket.AF_INET if host == "0.0.0.0" else socket.AF_INET6
    found = [entry.address for entries in psutil.net_if_addrs().values() for entry in entries if entry.family == family]
    outside = [name for name in found if not name.startswith(("127.", "fe80:")) and name != "::1"]
    return written((outside or found or [host])[0], port)


def join_as(role: str, address: str, code: str, cores: str | None, device: str | None, model: str | None, say: Say) -> None:
    """Be a worker of somebody's pools until the run has ended. cores: "0,1", of this host. Raises LabError."""
    from engine.serving.relay import join

    join(address, code, role, _cores(cores), device=device, model=model, say=say)


def _cores(text: str | None) -> tuple[int, ...]:
    here = usable_cores()
    if text is None:
        return here
    allowed = set(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else set(here)
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 and int(part) in allowed for part in parts):
        raise LabError("scenario-value", field="--cores", value=text[:80], expected=f"some of {', '.join(map(str, sorted(allowed)))}, as in 0,1")
    return tuple(sorted({int(part) for part in parts}))
