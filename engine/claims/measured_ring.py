"""What ring results have to say to the claims. Pure functions of a result, as in measured.py; see `engine.experiments.ring`."""

from __future__ import annotations

from statistics import fmean

from engine.claims.claim import Measurement, Reading
from engine.claims.measured import LEVEL
from engine.formulas import ring


def kv_of_a_rank(result: dict) -> Measurement | None:
    """B8: what the fullest rank holds of K and V, and for one layer in receive buffers and in working memory, beside the
    scores of one head that nobody stores."""
    ranks, alone = _ranks(result), result.get("alone") or {}
    if ranks is None or not alone.get("kv_bytes"):
        return None
    most = max(ranks, key=lambda rank: rank["kv_bytes"])
    share = most["kv_bytes"] / alone["kv_bytes"]
    readings = (
        Reading("ranks", len(ranks), ""),
        Reading("tokens", result["tokens"], "tokens"),
        Reading("alone", alone["kv_bytes"], "B"),
        Reading("kv", most["kv_bytes"], "B"),
        Reading("share", share, "share"),
        Reading("buffers", most["buffer_bytes"], "B"),
        Reading("worked_on", most["activation_bytes"], "B"),
        Reading("scores", result["tokens"] ** 2 * result["shape"]["bytes_per_value"], "B"),
    )
    return Measurement(readings, "shared" if share <= (1 + LEVEL) / len(ranks) else "uneven")


def bytes_on_the_ring(result: dict) -> Measurement | None:
    """B9: what each rank sent against the formula, and how much of the time of the transfers was computed in."""
    ranks = _ranks(result)
    if ranks is None:
        return None
    layers, shape = result["shape"]["layers"], _shape(result)
    counts = [rank["tokens"] for rank in ranks]
    expected = [ring.sent_bytes(counts, number, layers, shape) for number in range(len(ranks))]
    hidden = [rank["hidden_share"] for rank in ranks if rank.get("hidden_share") is not None]
    readings = (
        Reading("ranks", len(ranks), ""),
        Reading("tokens", result["tokens"], "tokens"),
        Reading("round", max(counts) * shape.kv_bytes_per_token, "B"),
        Reading("sent", max(rank["sent_bytes"] for rank in ranks), "B"),
        Reading("formula", max(expected), "B"),
        Reading("hidden", fmean(hidden) if hidden else 0.0, "share"),
    )
    same = [rank["sent_bytes"] for rank in ranks] == expected
    return Measurement(readings, "as_formula" if same else "differs")


def against_one_process(result: dict) -> Measurement | None:
    """B10: seconds of the ring and of one process with the same cores, the better of the layouts."""
    ranks, alone = _ranks(result), result.get("alone") or {}
    if ranks is None or not alone.get("seconds"):
        return None
    seconds = min(layout["seconds"] for layout in result["layouts"].values())
    readings = (
        Reading("ranks", len(ranks), ""),
        Reading("tokens", result["tokens"], "tokens"),
        Reading("alone", alone["seconds"], "s"),
        Reading("ring", seconds, "s"),
        Reading("ratio", seconds / alone["seconds"], "x"),
    )
    if not result.get("processes_at_most_cores"):
        return Measurement(readings, "crowded")
    if seconds < (1 - LEVEL) * alone["seconds"]:
        return Measurement(readings, "faster")
    return Measurement(readings, "level" if seconds <= (1 + LEVEL) * alone["seconds"] else "slower")


def _ranks(result: dict) -> list[dict] | None:
    """The ranks of the layout that was asked for; None where there is no ring to speak of."""
    layouts = result.get("layouts") or {}
    found = next(iter(layouts.values()), {}).get("ranks") or []
    return found if len(found) > 1 and result.get("shape") and result.get("tokens") else None


def _shape(result: dict) -> ring.AttentionShape:
    return ring.AttentionShape(**{name: value for name, value in result["shape"].items() if name != "layers"})
