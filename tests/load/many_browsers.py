"""A class at work: many browsers read and drag while the machine measures. A bounded script, run by hand.

    python -m tests.load.many_browsers [--clients 30] [--workload quick] [--seconds 60]

Starts the app with a folder of its own, measures a workload in peace, then the same again while the clients are busy: a
third of them watch the run, the others move sliders, change language and walk between pages. Prints how long the
server took for an interaction (from the request to the end of the script), and how far the second run's numbers are
from the first one's. Exit code 1 if the 95th percentile is over 300 ms, or if the numbers are more than 15 % apart
and the run was not flagged as disturbed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from engine.measure.metrics import percentile
from engine.paths import data_dir

ROOT = Path(__file__).resolve().parents[2]
SLOWEST_S = 0.3
FARTHEST = 0.15
COMPARED = ("itl_max_s", "ttft_s", "throughput_tokens_per_s")
RUN_LIMIT_S = 400


class Tab:
    """One browser tab as Streamlit's server sees it: a websocket, the widgets it was sent, and reruns."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = address, name
        self.widgets: dict[str, str] = {}  # user key -> id
        self.fragments: dict[str, str] = {}  # user key -> fragment
        self.query, self.page, self.received_bytes = "", "", 0

    async def __aenter__(self) -> Tab:
        headers = {"Cookie": f"lab-browser={self.name}", "Origin": self.address}
        url = self.address.replace("http", "ws") + "/_stcore/stream"
        self.socket = await websockets.connect(url, additional_headers=headers, subprotocols=["streamlit"], max_size=None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()

    async def open(self, page: str, query: str = "") -> float:
        """Go to a page; seconds until its script had run."""
        self.page, self.query = page, query
        self.widgets.clear()
        return await self.rerun()

    async def rerun(self, widget: str | None = None, fragment: str = "", auto: bool = False, **value: object) -> float:
        """Run the page's script (or one fragment) again, with one widget changed; seconds until it had run."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_name = self.query, self.page
        state.fragment_id = fragment
        state.is_auto_rerun = auto
        if widget:
            changed = state.widget_states.widgets.add(id=self.widgets[widget])
            for field, content in value.items():
                if isinstance(content, list):
                    getattr(changed, field).data.extend(content)
                else:
                    setattr(changed, field, content)
        begun = time.perf_counter()
        await self.socket.send(message.SerializeToString())
        await self._until_finished()
        return time.perf_counter() - begun

    async def drag(self, widget: str, index: int) -> float:
        """Let a slider go at an index."""
        return await self.rerun(widget, self.fragments.get(widget, ""), double_array_value=[index])

    async def press(self, widget: str) -> float:
        """Press a button."""
        return await self.rerun(widget, self.fragments.get(widget, ""), trigger_value=True)

    async def _until_finished(self) -> None:
        while True:
            data = await asyncio.wait_for(self.socket.recv(), timeout=60)
            self.received_bytes += len(data)
            message = ForwardMsg()
            message.ParseFromString(data)
            kind = message.WhichOneof("type")
            if kind == "delta" and message.delta.WhichOneof("type") == "new_element":
                self._note(message.delta)
            elif kind == "page_info_changed":
                self.query = message.page_info_changed.query_string
            elif kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                return

    def _note(self, delta) -> None:
        element = delta.new_element
        inner = getattr(element, element.WhichOneof("type"))
        if (found := getattr(inner, "id", "")) and "-" in found:
            key = found.split("-", 2)[-1]
            self.widgets[key] = found
            self.fragments[key] = delta.fragment_id


async def measure(address: str, workload: str, again: bool) -> dict:
    """Start a run as a reader would, wait for it, and give its result."""
    async with Tab(address, "teacher-of-this-class-0") as tab:
        await tab.open("schedules")
        if again:
            await tab.open("schedules", f"run={again}")
            await tab.press("again-run")
        else:
            await tab.rerun("workload", tab.fragments["workload"], string_value=workload)
            await tab.press("go")
        job = dict(pair.split("=", 1) for pair in tab.query.split("&"))["run"]
        return await asyncio.to_thread(_finished, address, job)


def _finished(address: str, job: str) -> dict:
    end = time.monotonic() + RUN_LIMIT_S
    while time.monotonic() < end:
        state = json.load(urllib.request.urlopen(f"{address}/lab/live/{job}?have=unified,chunked,disaggregated"))["state"]
        if state == "done":
            return json.load(urllib.request.urlopen(f"{address}/lab/runs/{job}/result.json"))
        if state not in ("queued", "running"):
            raise RuntimeError(f"the run ended as {state}")
        time.sleep(0.5)
    raise RuntimeError("the run did not end")


async def reader(address: str, number: int, job: asyncio.Future, stop: asyncio.Event, seconds: dict[str, list[float]]) -> None:
    """One of the class: watches the run, or reads and drags."""
    choose = random.Random(number)
    async with Tab(address, f"reader-{number:04d}-of-this-class") as tab:
        await tab.open("schedules", ("lang=ko" if number % 2 else "lang=en") + "&part=waiting")
        while not stop.is_set():
            what = choose.random()
            if number % 3 == 0 and job.done() and what < 0.9:
                seconds["watch"].append(await tab.open("schedules", f"run={job.result()}"))
                for _ in range(10):  # a watching page asks for no more than this
                    await asyncio.to_thread(urllib.request.urlopen, f"{address}/lab/live/{job.result()}")
                    await asyncio.sleep(1)
            elif what < 0.75 and "slo-ttft" in tab.widgets:
                seconds["drag"].append(await tab.drag(choose.choice(["slo-ttft", "slo-itl"]), choose.randrange(12)))
            elif what < 0.85:
                page = choose.choice(["", "schedules"])
                seconds["walk"].append(await tab.open(page, choose.choice(["lang=ko", "lang=en"]) + "&part=waiting"))
            await asyncio.sleep(choose.uniform(0.3, 1.7))


async def busy_class(address: str, clients: int, quiet: dict) -> tuple[dict, dict[str, list[float]]]:
    """The second run, with everybody at work."""
    seconds: dict[str, list[float]] = {"drag": [], "walk": [], "watch": []}
    stop, job = asyncio.Event(), asyncio.get_running_loop().create_future()
    readers = [asyncio.create_task(reader(address, n, job, stop, seconds)) for n in range(clients)]
    await asyncio.sleep(3)
    for kind in seconds.values():
        kind.clear()  # first visits compile and cache
    try:
        async with Tab(address, "teacher-of-this-class-0") as tab:
            await tab.open("schedules", f"run={quiet['run_id']}")
            await tab.press("again-run")
            job.set_result(dict(pair.split("=", 1) for pair in tab.query.split("&"))["run"])
        return await asyncio.to_thread(_finished, address, job.result()), seconds
    finally:
        stop.set()
        await asyncio.gather(*readers, return_exceptions=True)


def compare(quiet: dict, busy: dict) -> float:
    """The largest relative difference of the compared metrics over the schedules."""
    worst = 0.0
    for name, entry in quiet["schedules"].items():
        for metric in COMPARED:
            before, after = entry["metrics"][metric], busy["schedules"][name]["metrics"][metric]
            if before and after:
                print(f"  {name:14} {metric:26} {before:10.3f} {after:10.3f} {after / before - 1:+7.1%}")
                worst = max(worst, abs(after / before - 1))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--workload", default="Quick look", help="the title the selectbox shows")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for shared in ("models", "texts", "locks"):
            (Path(folder) / shared).symlink_to(data_dir() / shared)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port), "--server.headless", "true"]
        command += ["--browser.serverAddress", "localhost"]
        app = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "LAB_HOME": folder}, stdout=subprocess.DEVNULL)
        try:
            return asyncio.run(_all(f"http://localhost:{port}", arguments))
        finally:
            app.terminate()
            app.wait(timeout=30)


async def _all(address: str, arguments: argparse.Namespace) -> int:
    for _ in range(100):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health").read()
            break
        except OSError:
            await asyncio.sleep(0.2)
    quiet = await measure(address, arguments.workload, again=False)
    quiet = await measure(address, arguments.workload, again=quiet["run_id"])  # with warm workers, as the busy one
    print(f"quiet: disturbed {quiet['disturbance']['disturbed']}")
    busy, seconds = await busy_class(address, arguments.clients, quiet)
    everything = [s for kind in seconds.values() for s in kind]
    slow = percentile(everything, 0.95)
    for kind, found in {**seconds, "all": everything}.items():
        if found:
            shares = " ".join(f"{name} {percentile(found, share) * 1e3:.0f} ms" for name, share in (("median", 0.5), ("p95", 0.95), ("max", 1.0)))
            print(f"{arguments.clients} clients, {kind:6} {len(found):4} interactions: {shares}")
    print("metric                                             quiet       busy")
    apart, flagged = compare(quiet, busy), busy["disturbance"]["disturbed"]
    print(f"farthest apart {apart:.0%}; flagged as disturbed: {flagged} ({busy['disturbance']})")
    return int(slow > SLOWEST_S or (apart > FARTHEST and not flagged))


if __name__ == "__main__":
    sys.exit(main())
