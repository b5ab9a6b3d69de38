"""Everything about one point: its numbers, and the formulas its operations and bytes come from, with the numbers put in. Pure."""

from __future__ import annotations

from engine.formulas.roofline import Shape, step_cost
from pages._ui import fmt
from pages._ui.words import Words
from pages.roofline import story
from pages.roofline.story import Roof, Sentence


def find(shown: list[dict], wanted: str | None) -> dict | None:
    """The point of that id; without one the smallest decode, which is the lesson's surprise; None if there is no point."""
    chosen = next((p for p in shown if p["id"] == wanted), None)
    return chosen or min(shown, key=lambda p: (p["phase"] != "decode", p["batch"], p["context"], p["tokens"]), default=None)


def figures(point: dict, roof: Roof, words: Words) -> list[tuple[str, str]]:
    """(what, value) of a point."""
    return [
        (words("column.flops"), fmt.flops(point["flops"])),
        (words("column.bytes"), fmt.bytes_(point["bytes"])),
        (words("column.intensity"), fmt.intensity(point["intensity"])),
        (words("column.time"), fmt.seconds(point["seconds"])),
        (words("column.rate"), fmt.flops_per_s(point["flops_per_s"])),
        (words("column.read"), fmt.bytes_per_s(story.read_per_s(point))),
        (words("column.share"), story.small_share(story.share(point, roof))),
    ]


def says(point: dict, roof: Roof) -> Sentence:
    """Which limit is above the point, how it is computed, and what was reached of it."""
    facts = {
        "intensity": fmt.intensity(point["intensity"]),
        "memory": fmt.bytes_per_s(roof.bytes_per_s),
        "peak": fmt.flops_per_s(roof.flops_per_s),
        "roof": fmt.flops_per_s(roof.at(point["intensity"])),
        "rate": fmt.flops_per_s(point["flops_per_s"]),
        "share": story.small_share(story.share(point, roof)),
        "busy": story.small_share(point["flops_per_s"] / roof.flops_per_s),
    }
    return f"picked.{story.limit(point, roof)}", facts


def formulas(result: dict, point: dict) -> list[Sentence]:
    """Where the operations and bytes are from; empty if the model's shape is not known, or gives other numbers than the
    result has (which was then counted by another version of the lab)."""
    shape = shape_of(result)
    if shape is None:
        return []
    batch = max(1, point["batch"])
    slices = [(point["context"], point["tokens"] // batch, True)] * batch
    cost = step_cost(shape, slices)
    named = {"all": (sum(c[0] for c in cost.values()), sum(c[1] for c in cost.values())), **cost}
    if named[point["part"]] != (point["flops"], point["bytes"]):
        return []
    found: list[Sentence] = []
    if point["part"] != "attention":
        found += _linear(shape, point["tokens"], batch, cost["linear"])
    if point["part"] != "linear":
        found += _attention(shape, point["context"], point["tokens"] // batch, batch, cost["attention"])
    return found


def shape_of(result: dict) -> Shape | None:
    """The shape of the model that was measured; None if the result does not say it."""
    try:
        return Shape(**result["shape"])
    except (KeyError, TypeError):
        return None


def _linear(shape: Shape, rows: int, wanted: int, cost: tuple[int, int]) -> list[Sentence]:
    """Matrices: 2 operations per weight and row; in the last layer and the head only the rows whose next token is wanted."""
    early = sum(i * o for i, o in shape.matrices_before_attention) * shape.layers
    early += sum(i * o for i, o in shape.matrices_after_attention) * (shape.layers - 1)
    weights = sum(i * o for i, o in shape.matrices)
    facts = {"weights": fmt.count(weights), "rows": fmt.count(rows), "flops": fmt.flops(cost[0])}
    if rows == wanted:
        found = [("formula.linear_flops", facts)]
    else:
        split = {"early": fmt.count(early), "late": fmt.count(weights - early), "wanted": fmt.count(wanted)}
        found = [("formula.linear_flops_split", {**split, "rows": facts["rows"], "flops": facts["flops"]})]
    between = cost[1] // shape.bytes_per_value - weights
    sizes = {"weights": facts["weights"], "between": fmt.count(between), "size": str(shape.bytes_per_value), "bytes": fmt.bytes_(cost[1])}
    return [*found, ("formula.linear_bytes", sizes)]


def _attention(shape: Shape, start: int, length: int, batch: int, cost: tuple[int, int]) -> list[Sentence]:
    """Attention: 4 operations per query head, channel and (query, key) pair; K and V read once for each sequence."""
    pairs = batch * (length * start + length * (length + 1) // 2)
    width = {"layers": fmt.count(shape.layers), "heads": fmt.count(shape.heads), "head_dim": fmt.count(shape.head_dim)}
    each = batch * shape.layers * shape.head_dim
    moved = {
        "read": fmt.count(2 * each * shape.kv_heads * (start + length)),
        "new": fmt.count(4 * each * shape.kv_heads * length),
        "queries": fmt.count(2 * each * shape.heads * length),
        "size": str(shape.bytes_per_value),
        "bytes": fmt.bytes_(cost[1]),
    }
    return [("formula.attention_flops", {**width, "pairs": fmt.count(pairs), "flops": fmt.flops(cost[0])}), ("formula.attention_bytes", moved)]
