"""Arrivals against capacity: a queue with equal servers and fixed times of service. Pure.

The load is the utilisation rho of queueing theory (Little 1961; Kleinrock 1975, vol. 1, chapter 2); above 1 nothing settles.
"""


def load(arrivals_per_s: float, service_s: float, *, servers: int = 1) -> float:
    """Offered work over capacity (the utilisation rho of queueing theory). Above 1 the queue grows as long as it lasts."""
    return arrivals_per_s * service_s / servers


def highest_rate_per_s(service_s: float, *, servers: int = 1) -> float:
    """Arrivals per second at a load of 1: nothing that arrives faster for good can be served."""
    return servers / service_s


def wait_growth_s(spacing_s: float, service_s: float, *, servers: int = 1) -> float:
    """How much longer each arrival waits than the one before, once all servers are busy: spacing x (load - 1), at
    least 0."""
    return spacing_s * max(0.0, load(1 / spacing_s, service_s, servers=servers) - 1)
