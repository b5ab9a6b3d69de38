"""Workers of other hosts in a result: where they were, and with what. Pure.

A result of pools on other hosts has the shape of any other; a worker's entry in "resources" has "host" {"name", "machine",
"address", "clock_offset_ns", "clock_uncertainty_ns"} besides, and its cores and threads are that host's.
"""

from collections.abc import Mapping

_OF_HOST = ("name", "machine", "address", "clock_offset_ns", "clock_uncertainty_ns")


def placed(resources: list[dict], facts: Mapping[str, dict]) -> list[dict]:
    """Resources of a plan with what the cluster knows of each worker: its clock, and its host if that is another one."""
    return [_placed(entry, facts[entry["worker"]]) for entry in resources]


def _placed(entry: dict, facts: dict) -> dict:
    host = facts.get("host")
    if host is None:
        return {**entry, "clock_offset_ns": facts["clock_offset_ns"]}
    own = {name: host[name] for name in ("threads", "cores")} | ({"device": host["device"]} if host["device"] else {})
    return {**entry, **own, "clock_offset_ns": host["clock_offset_ns"], "host": {name: host[name] for name in _OF_HOST}}


def apart(resources: list[dict]) -> bool:
    """Whether no two of these workers share a core, or a GPU, of one machine."""
    places = [
        (entry.get("host", {}).get("machine"), place) for entry in resources for place in entry["cores"] or (entry["device"],)
    ]
    return len(set(places)) == len(places)
