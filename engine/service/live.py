"""What is known of a running job, as a partial result. Fed by one thread, looked at by many."""

import threading
import time
from dataclasses import dataclass, field

from engine.measure.clock import now_ns
from engine.measure.trace import build_trace

# The type of a record that is the whole of one curve so far, of an experiment that serves nothing.
CURVE = "curve"
# And of one that is one cell of such a result, as far as it is known.
CELL = "cell"
_ENDS = ("Finished", "Refused", "Failed")
# Building may take at most about this share of the time.
_BUILD_SHARE = 0.2


@dataclass
class _Served:
    """The records of one schedule, of its newest repeat."""

    repeat: int
    records: list[dict] = field(default_factory=list)
    start_ns: int = 0
    ended: int = 0
    over: bool = False
    built: tuple[int, dict] | None = None


class Live:
    """`view` is built when somebody asks, once per version, and not much more often than it can be built."""

    def __init__(self, run_id: str, kind: str, scenario: dict) -> None:
        self._head = {"run_id": run_id, "kind": kind}
        self._scenario = scenario
        self._plan: dict | None = None
        self._served: dict[str, _Served] = {}
        self._pieces: dict[str, dict[str, list[str]]] = {}
        self._curves: dict[str, dict] = {}
        self._cells: dict[str, dict] = {}
        self._version = 0
        self._feeding = threading.Lock()
        self._building = threading.Lock()
        self._view: dict | None = None
        self._rest_until = 0.0

    def plan(self, plan: dict) -> None:
        """What will be measured; before it nothing can be shown."""
        with self._feeding:
            self._plan = plan
            self._version += 1

    def add(self, records: list) -> None:
        """Records as they came, after the plan: [schedule, repeat, record] each. Trace records, or
        curves and cells as far as they go."""
        with self._feeding:
            for schedule, repeat, record in records:
                self._add(schedule, repeat, record)
            self._version += len(records)

    def view(self) -> dict | None:
        """The partial result (see `engine.service.client.live`); None before the plan is known."""
        with self._building:
            begun = time.monotonic()
            if self._plan is not None and (self._view is None or begun >= self._rest_until):
                if self._view is None or self._view["version"] != self._version:
                    self._view = self._build()
                    self._rest_until = time.monotonic() + (time.monotonic() - begun) / _BUILD_SHARE
            view = self._view
        return view and {**view, "schedules": {name: _timed(entry) for name, entry in view["schedules"].items()}}

    def _add(self, schedule: str, repeat: int, record: dict) -> None:
        if record["type"] in (CURVE, CELL):
            known = self._curves if record["type"] == CURVE else self._cells
            known[schedule] = {name: value for name, value in record.items() if name != "type"}
            return
        served = self._served.get(schedule)
        if served is None or served.repeat != repeat or record["type"] == "start":
            for other in self._served.values():
                other.over = True
            served = self._served[schedule] = _Served(repeat)
            for texts in self._pieces.values():
                texts.pop(schedule, None)
        served.records.append(record)
        if record["type"] == "start":
            served.start_ns = record["at_ns"]
        elif record["type"] in _ENDS:
            served.ended += 1
        for index, text in record.get("pieces") or ():
            request = _requests_of(self._plan, schedule)[index]["id"]
            self._pieces.setdefault(request, {}).setdefault(schedule, []).append(text)

    def _build(self) -> dict:
        with self._feeding:  # copies only: the feeding thread must not wait for the building
            version, plan = self._version, self._plan
            parts = {name: (served, list(served.records), served.over) for name, served in self._served.items()}
            pieces = {name: {s: list(texts) for s, texts in by.items()} for name, by in self._pieces.items()}
            shown = {"curves": dict(self._curves), "cells": list(self._cells.values())}
        if "requests" not in plan and "points" not in plan:  # nothing is served: no traces
            manifest = {"scenario": self._scenario}
            return {**plan, **self._head, "version": version, "manifest": manifest, "schedules": {}, **shown}
        return {
            **self._head,
            "version": version,
            "manifest": {"model": {"kv_bytes_per_token": plan["kv_bytes_per_token"]}, "scenario": self._scenario},
            "schedules": {
                name: self._entry(plan, name, served, records, over) for name, (served, records, over) in parts.items()
            },
            "pieces": pieces,
        }

    @staticmethod
    def _entry(plan: dict, name: str, served: _Served, records: list[dict], over: bool) -> dict:
        requests = _requests_of(plan, name)
        if served.built is None or served.built[0] != len(records):
            trace = build_trace(name, requests, records, block_tokens=plan["block_tokens"])
            served.built = len(records), {**trace, "repeat": served.repeat}
        trace = served.built[1]
        return {
            "trace": trace,
            "resources": plan["resources"].get(name, []),
            "complete": over or served.ended >= len(requests),
            "repeat": served.repeat,
            "now_s": trace["duration_s"],
            "start_ns": served.start_ns,
        }


def _requests_of(plan: dict, schedule: str) -> list[dict]:
    """What is served under a schedule; the points of a sweep may each have requests of their own."""
    points = {str(point["value"]): point["requests"] for point in plan.get("points", ())}
    return points.get(schedule, plan["requests"])


def _timed(entry: dict) -> dict:
    """The time until which nothing else is known to have happened: it passes between records, too."""
    timed = {name: value for name, value in entry.items() if name != "start_ns"}
    if not entry["complete"] and entry["start_ns"]:
        timed["now_s"] = round(max(entry["now_s"], (now_ns() - entry["start_ns"]) / 1e9), 6)
    return timed
