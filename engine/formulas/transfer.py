"""How long a KV cache takes from the pool that prefills to the one that decodes, and when that is worth it. Pure.

    over a link     bytes / bytes_per_s + latency
    staged          where the network card cannot reach a GPU's memory (no GPUDirect RDMA), the cache also goes over PCIe into
                    the sender's host memory, and over PCIe out of the receiver's. One after another these times add up; cut
                    into pieces that follow each other, the slowest way alone counts
    layer by layer  a layer can go as soon as it is computed (Splitwise: Patel et al. 2024, arXiv 2311.18677, section IV-C;
                    Mooncake: Qin et al. 2024, arXiv 2407.00079, section 5.2), so what follows the prefill is the rest
    worth it        disaggregation spares the running chats the stall of a whole prefill, and makes the new request wait for
                    its cache. It loses where that wait is longer than the stall (DistServe: Zhong et al. 2024, arXiv
                    2401.09670, section 3.3, on what a link must be able to do)
    quantising      pays where the link needs longer for the bytes it saves than both sides need to save them
"""


def transfer_s(size: float, bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Seconds for `size` bytes. Raises ValueError for a link that moves nothing."""
    if not bytes_per_s > 0:
        raise ValueError(f"a link of {bytes_per_s} bytes per second moves nothing")
    return size / bytes_per_s + latency_s


def staged_s(size: float, bytes_per_s: float, pcie_bytes_per_s: float, latency_s: float = 0.0, *, pieces: int = 1) -> float:
    """Seconds through the memory of both hosts: three ways, each of `pieces` equal parts; a part takes a way when the one
    before it has left it. 1: one way after another; many: nearly the slowest way alone."""
    ways = [transfer_s(size / pieces, rate) for rate in (pcie_bytes_per_s, bytes_per_s, pcie_bytes_per_s)]
    return sum(ways) + (pieces - 1) * max(ways) + latency_s


def exposed_s(transfer: float, prefill: float, parts: int) -> float:
    """Seconds of a transfer that are left behind the prefill if it goes in `parts` while that is computed.

    The last part can only go when all is computed; and a link that is slower than the prefill falls behind from the first on:
    max(T / parts, T - P x (1 - 1 / parts)). One part is the whole cache behind the prefill.
    """
    return max(transfer / parts, transfer - prefill * (1 - 1 / parts))


def least_bytes_per_s(size: float, stall_s: float) -> float:
    """The link below which the transfer takes longer than the stall that it spares the others: bytes / stall.

    Layer by layer has the same limit: up to it all but the last part hides behind the prefill, below it the rest grows.
    """
    return size / stall_s


def pays_below(saved_bytes: float, extra_s: float) -> float | None:
    """The link below which quantising saves time: saved bytes / the seconds it takes both sides more. None: on any link."""
    return saved_bytes / extra_s if extra_s > 0 else None
