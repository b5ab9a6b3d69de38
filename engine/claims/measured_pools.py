"""What pools results have to say to the claims. Pure functions of a result, as in measured.py; see `engine.experiments.pools`."""

from __future__ import annotations

from statistics import fmean

from engine.claims.claim import Measurement, Reading

# Of the arrangements of a result the one with a worker in each pool: neither has more room than the other by its number.
PAIR = "1:1"
# Pools that hold the same up to this share are alike.
LEVEL = 0.1


def memory_of_pools(result: dict) -> Measurement | None:
    """A9: what each pool held of KV at most, and what share of the time its workers computed."""
    pools = ((result.get("arrangements") or {}).get(PAIR) or {}).get("pools") or {}
    readings = []
    for pool in ("prefill", "decode"):
        workers = (pools.get(pool) or {}).get("workers") or []
        if not workers or any(worker.get("kv_peak_bytes") is None for worker in workers):
            return None
        readings.append(Reading(f"{pool}_kv", sum(worker["kv_peak_bytes"] for worker in workers), "B"))
        readings.append(Reading(f"{pool}_busy", fmean(worker["busy_share"] for worker in workers), "share"))
    prefill, _, decode, _ = (reading.value for reading in readings)
    finding = "decode_holds" if decode > (1 + LEVEL) * prefill else "prefill_holds" if prefill > (1 + LEVEL) * decode else "alike"
    return Measurement(tuple(readings), finding)
