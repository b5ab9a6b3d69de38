"""Was the machine busy with something else while we measured? Read at the beginning and the end, judged afterwards.

Two signs, each a share between 0 and about 1:

    waited_share      of the time that the workers' threads could have computed, how much they stood in the run queue,
                      because somebody else had their core (Linux: /proc/PID/task/*/schedstat)
    others_cpu_share  of the time of the workers' cores, how much somebody else used. Siblings of a core (two threads
                      of one physical core) count as that core, and time that a hypervisor took away (steal) counts too

Somebody else is everything but this process, its children and the workers; on a GPU the same rule holds, though there
it only tells that the host was late with its work.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.measure.device import siblings

# Chosen from the quick workload on two cores, beside a process that computes this share of the time (with workers of
# normal priority; since they yield, a neighbour takes more, and what is quiet stays quiet):
#   none        waited up to 0.012 (0.056 once, in a run of short bursts), others up to 0.015
#   one tenth   waited 0.03 to 0.05, others up to 0.03: the metrics are within their usual spread
#   half        waited 0.14 to 0.26, others 0.15 to 0.17: a prefill takes a quarter longer and more
#   all         waited 0.20 to 0.35, others 0.35 to 0.49
LIMITS = {"waited_share": 0.08, "others_cpu_share": 0.10}
# Workers that mostly idle also wait for our own coordinator. Where nobody else had this share of the cores, it was we.
_SOMEBODY = 0.04
SHORTEST_S = 0.5  # CPU times come in hundredths of a second: less than this tells nothing
_BUSY_FIELDS = ("user", "nice", "system", "irq", "softirq", "steal")  # guest time is in user already


@dataclass(frozen=True)
class Sample:
    """Totals so far, in seconds. None where this machine does not tell.

    num_cores: how many physical cores are watched. ran_s, waited_s: of the workers' threads. busy_s: of the watched
    cores, by anybody. own_s: CPU time of this process, its children and the workers.
    """

    at_s: float
    num_cores: int
    ran_s: float | None
    waited_s: float | None
    busy_s: float | None
    own_s: float | None


def take_sample(worker_pids: Iterable[int], cores: Iterable[int]) -> Sample:
    """Read the totals. cores: what the workers run on, one logical CPU of each physical core; none given means all."""
    pids, cores = list(worker_pids), set(cores)
    ran_s, waited_s = _run_queue_s(pids)
    num_cores = len(cores) or psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    return Sample(time.perf_counter(), num_cores, ran_s, waited_s, _busy_s(watched_cores(cores)), _own_s(pids))


def judge(begin: Sample, end: Sample) -> dict:
    """{"disturbed": True, False or None (nothing is known), "waited_share", "others_cpu_share": share or None}."""
    elapsed = end.at_s - begin.at_s
    waited = ran = others = None
    if elapsed < SHORTEST_S:
        return verdict(None, None)
    if None not in (begin.waited_s, end.waited_s):
        waited, ran = max(0.0, end.waited_s - begin.waited_s), max(0.0, end.ran_s - begin.ran_s)
    if None not in (begin.busy_s, end.busy_s, begin.own_s, end.own_s):
        others = max(0.0, (end.busy_s - begin.busy_s) - (end.own_s - begin.own_s)) / elapsed / begin.num_cores
    return verdict(waited / (waited + ran) if waited is not None and waited + ran > 0 else None, others)


def verdict(waited_share: float | None, others_cpu_share: float | None) -> dict:
    """Disturbed if either share is above its limit; waiting counts only if somebody else may have been the reason."""
    shares = {"waited_share": waited_share, "others_cpu_share": others_cpu_share}
    known = [share > LIMITS[name] for name, share in shares.items() if share is not None]
    if others_cpu_share is not None and others_cpu_share < _SOMEBODY:
        known = [False]
    rounded = {name: None if share is None else round(share, 4) for name, share in shares.items()}
    return {"disturbed": any(known) if known else None, **rounded}


def overall(by_schedule: dict[str, list[dict]]) -> dict:
    """The judgement of a whole result: the worst of all its runs, the limits, and every run's own."""
    runs = [run for several in by_schedule.values() for run in several]
    worst = {
        name: max((run[name] for run in runs if run[name] is not None), default=None)
        for name in ("waited_share", "others_cpu_share")
    }
    return {**worst, "disturbed": any_disturbed(runs), "limit": dict(LIMITS), "schedules": by_schedule}


def any_disturbed(runs: Iterable[dict]) -> bool | None:
    """Whether one of several servings was disturbed; None if nothing is known of any."""
    known = [run["disturbed"] for run in runs if run["disturbed"] is not None]
    return any(known) if known else None


def watched_cores(cores: Iterable[int]) -> set[int]:
    """The logical CPUs on which somebody else would be in the workers' way; empty stands for all."""
    return {sibling for core in cores for sibling in siblings(core)}


def _run_queue_s(pids: list[int]) -> tuple[float | None, float | None]:
    """Seconds that the threads of these processes ran, and that they were ready to run but did not."""
    ran = waited = 0
    try:
        for pid in pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                try:
                    on_cpu, in_queue, _ = (thread / "schedstat").read_text().split()
                except (FileNotFoundError, ProcessLookupError):
                    if not thread.exists():
                        continue  # the thread ended just now
                    raise
                ran += int(on_cpu)
                waited += int(in_queue)
    except (OSError, ValueError):
        return None, None
    # A kernel without these statistics shows zeros; a process that reads this has run.
    return (ran / 1e9, waited / 1e9) if ran else (None, None)


def _busy_s(cores: set[int]) -> float | None:
    try:
        per_core = psutil.cpu_times(percpu=True)
    except (OSError, NotImplementedError, RuntimeError, psutil.Error):
        return None
    chosen = [times for core, times in enumerate(per_core) if not cores or core in cores]
    return sum(getattr(times, name, 0.0) for times in chosen for name in _BUSY_FIELDS) if chosen else None


def _own_s(worker_pids: list[int]) -> float | None:
    try:
        me = psutil.Process()
        ours = {process.pid: process for process in (me, *me.children(recursive=True))}
        for pid in worker_pids:
            ours.setdefault(pid, psutil.Process(pid))
        total = 0.0
        for process in ours.values():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            # A child that ends meanwhile goes on counting with its parent, where the system keeps that.
            total += times.user + times.system + times.children_user + times.children_system
        return total
    except (psutil.Error, OSError):
        return None
