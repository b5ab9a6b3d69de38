"""Links between devices and between machines by their specifications."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.profiles.read import check_names, check_numbers, check_sources, check_words

KINDS = ("nvlink", "pcie", "infiniband", "roce", "ethernet")


@dataclass(frozen=True)
class LinkProfile:
    """bytes_per_s: one direction, of the whole link as titled. gpudirect_rdma: whether a network card reads GPU memory
    without a copy through the host; None where that is no question. latency_s: None where no source says."""

    name: str
    title: str
    kind: str
    bytes_per_s: float
    sources: Mapping[str, str]
    gpudirect_rdma: bool | None = None
    latency_s: float | None = None


def link_of(table: Mapping) -> LinkProfile:
    """From a TOML table. Raises ValueError with what is wrong."""
    check_names(table, ("name", "title", "kind", "bytes_per_s", "sources"), ("gpudirect_rdma", "latency_s"))
    check_words(table, ("name", "title"))
    if table["kind"] not in KINDS:
        raise ValueError(f"kind must be one of: {', '.join(KINDS)}")
    if not isinstance(table.get("gpudirect_rdma", False), bool):
        raise ValueError("gpudirect_rdma must be true or false")
    check_numbers(table, whole=(), other=("bytes_per_s", "latency_s"))
    check_sources(table, ("bytes_per_s", "latency_s"))
    return LinkProfile(**table)
