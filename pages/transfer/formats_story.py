"""What the rows of a transfer result say: bytes, seconds and quality of each format, in sentences, bars and a table. Pure.

A sentence is (key of a text, facts) and follows from the numbers. Formats are compared with 16 bits (bf16) where a result has
them, since that is what servers keep, else with the first format. A link is (name, bytes per second): None is the one that was
measured; over another one only the way itself is computed, from the same bytes. See `engine.experiments.transfer` for the
form of a result; one that is still growing has fewer rows, and no quality yet.
"""

from __future__ import annotations

from html import escape

from engine.formulas.kv import KV_DTYPES
from engine.formulas.transfer import pays_below, transfer_s
from pages._ui import fmt, parts
from pages._ui.words import Words, model_title

Sentence = tuple[str, dict[str, str]]
BASE, SPOKEN = "bf16", "fp8"
STAGES = ("quantise", "move", "dequantise")
# Times that differ by less than this share are called level; perplexities by less than that.
LEVEL, SAME = 0.1, 0.005


def lengths(result: dict) -> list[int]:
    return sorted({row["tokens"] for row in result["rows"]})


def at(result: dict, tokens: int) -> list[dict]:
    """The rows of one length, the widest format first."""
    return sorted((row for row in result["rows"] if row["tokens"] == tokens), key=lambda row: KV_DTYPES.index(row["format"]))


def base_of(rows: list[dict]) -> dict | None:
    return next((row for row in rows if row["format"] == BASE), rows[0] if rows else None)


def stages(row: dict, bytes_per_s: float | None) -> tuple[float, float, float]:
    """Seconds to quantise, to move (as measured, or over such a link) and to dequantise."""
    moved = row["move_s"] if bytes_per_s is None else transfer_s(row["bytes"]["total"], bytes_per_s)
    return row["quantise_s"], moved, row["dequantise_s"]


def ratio(row: dict, base: dict, bytes_per_s: float | None = None) -> float:
    """How many times as long as the base a format takes, all three stages."""
    return sum(stages(row, bytes_per_s)) / sum(stages(base, bytes_per_s))


def spoken_of(rows: list[dict]) -> dict | None:
    """fp8, of which the texts speak; else the smallest format beside the base."""
    base = base_of(rows)
    others = [row for row in rows if base and row["bytes"]["total"] < base["bytes"]["total"]]
    return next((row for row in others if row["format"] == SPOKEN), others[-1] if others else None)


def headline(result: dict) -> list[Sentence]:
    """Of the longest prompt: fewer bytes, but the time; then what was lost."""
    rows = at(result, lengths(result)[-1]) if result["rows"] else []
    base, row = base_of(rows), spoken_of(rows)
    if row is None:
        return [("formats.partial", {})]
    times, key = ratio(row, base), "level"
    if times > 1 + LEVEL:
        key = "slower"
    elif times < 1 - LEVEL:
        key = "faster"
    facts = {
        "format": row["format"],
        "base": base["format"],
        "tokens": fmt.count(row["tokens"]),
        "share": fmt.share(row["bytes"]["total"] / base["bytes"]["total"]),
        "ratio": fmt.times(times),
        "time_share": fmt.share(times),
        "work": fmt.seconds(row["quantise_s"] + row["dequantise_s"]),
        "move": fmt.seconds(row["move_s"]),
    }
    return [(f"formats.{key}", facts), *quality(rows)]


def quality(rows: list[dict]) -> list[Sentence]:
    """Which format loses least and which most, of those with fewer bits than the base; nothing before it is known."""
    base = base_of(rows)
    known = [row for row in rows if row["kl"] is not None and row["bytes"]["total"] < base["bytes"]["total"]]
    if not known:
        return []
    best, worst = min(known, key=lambda row: row["kl"]), max(known, key=lambda row: row["kl"])
    if best is worst:
        return [(f"formats.quality_{_judged(best)}", {"format": best["format"], "kl": kl(best["kl"]), "more": change(best)})]
    facts = {
        "best": best["format"],
        "worst": worst["format"],
        "kl_best": kl(best["kl"]),
        "kl_worst": kl(worst["kl"]),
        "ratio": fmt.times(worst["kl"] / best["kl"]) if best["kl"] else fmt.DASH,
        "more": change(worst),
    }
    return [(f"formats.qualities_{_judged(worst)}", facts)]


def _judged(row: dict) -> str:
    over = row["perplexity"] / row["exact_perplexity"] - 1
    return "same" if abs(over) < SAME else "worse" if over > 0 else "better"


def limit(rows: list[dict]) -> Sentence | None:
    """Below which link the format that is spoken of pays, with both sides' work as measured."""
    base, row = base_of(rows), spoken_of(rows)
    if row is None:
        return None
    extra = row["quantise_s"] + row["dequantise_s"] - base["quantise_s"] - base["dequantise_s"]
    rate = pays_below(base["bytes"]["total"] - row["bytes"]["total"], extra)
    facts = {"format": row["format"], "base": base["format"]}
    if rate is None:
        return "formats.pays_always", facts
    saved = fmt.bytes_(base["bytes"]["total"] - row["bytes"]["total"])
    return "formats.pays_below", {**facts, "rate": fmt.bytes_per_s(rate), "saved": saved, "extra": fmt.seconds(extra)}


def over_link(rows: list[dict], title: str, bytes_per_s: float) -> Sentence | None:
    """What the format that is spoken of saves or costs over a slower link."""
    base, row = base_of(rows), spoken_of(rows)
    if row is None:
        return None
    times = ratio(row, base, bytes_per_s)
    key = "level" if abs(times - 1) <= LEVEL else "slower" if times > 1 else "faster"
    bytes_share = fmt.share(row["bytes"]["total"] / base["bytes"]["total"])
    facts = {"link": title, "format": row["format"], "base": base["format"], "time_share": fmt.share(times), "share": bytes_share, "ratio": fmt.times(times)}
    return f"formats.over_{key}", facts


def kl(value: float | None) -> str:
    """Nats, two digits: ``0.00379`` -> ``0.0038``; less than a hundred-thousandth says so."""
    if value is None:
        return fmt.DASH
    if value == 0:
        return "0"
    return f"{value:.2g}" if value >= 1e-4 else f"{value:.5f}" if value >= 1e-5 else "< 0.00001"


def change(row: dict) -> str:
    """Of the perplexity, against the exact cache's: ``+1.7 %``."""
    if not row["perplexity"] or not row["exact_perplexity"]:
        return fmt.DASH
    return f"{(row['perplexity'] / row['exact_perplexity'] - 1) * 100:+.1f} %".replace("-", "−").replace("+0.0", "±0.0").replace("−0.0", "±0.0")


def about(result: dict, words: Words) -> str:
    """What was sent, over what."""
    scenario, link = result["manifest"]["scenario"], result["link"]
    facts = {
        "model": model_title(result["manifest"]["model"], words),
        "scored": fmt.count(scenario["scored"]),
        "rate": fmt.bytes_per_s(link["bytes_per_s"]),
        "asked": fmt.bytes_per_s(link["asked_bytes_per_s"]),
        "measured": fmt.bytes_per_s(link["measured_bytes_per_s"]),
    }
    over = words(f"formats.about_{link['name']}", **facts)
    return f"{words('formats.about', **facts)} {over}"


# ------------------------------------------------------------------ bars and table


def bars(rows: list[dict], bytes_per_s: float | None, words: Words) -> str:
    """A row for each format: its bytes, three bars one behind the other on one scale of seconds, KL. HTML."""
    most = max(sum(stages(row, bytes_per_s)) for row in rows)
    widest = max(row["bytes"]["total"] for row in rows)
    legend = "".join(f"<li><i class='kt-{stage}' aria-hidden='true'></i>{escape(words(f'stage.{stage}'))}</li>" for stage in STAGES)
    head = "".join(f"<span>{escape(words(f'formats.col_{name}'))}</span>" for name in ("format", "bytes", "time", "kl"))
    made = "".join(_bar(row, bytes_per_s, most, widest, words) for row in rows)
    return f"<ul class='lab-legend kt-legend'>{legend}</ul><div class='kt-bars'><div class='kt-row kt-head' aria-hidden='true'>{head}</div>{made}</div>"


def _bar(row: dict, bytes_per_s: float | None, most: float, widest: int, words: Words) -> str:
    found = stages(row, bytes_per_s)
    spans = "".join(
        f"<i class='kt-{stage}' style='width:{100 * seconds / most:.2f}%' title='{escape(words(f'stage.{stage}'), quote=True)}: {fmt.seconds(seconds)}'></i>"
        for stage, seconds in zip(STAGES, found, strict=True)
    )
    size = row["bytes"]["total"]
    return (
        f"<div class='kt-row'><b>{escape(row['format'])}</b>"
        f"<span class='kt-bytes'><i aria-hidden='true' style='width:{100 * size / widest:.2f}%'></i><em>{parts.prose(fmt.bytes_(size))}</em></span>"
        f"<span class='kt-time'><span class='kt-track' aria-hidden='true'>{spans}</span><em>{parts.prose(fmt.seconds(sum(found)))}</em></span>"
        f"<span class='kt-kl'><small aria-hidden='true'>KL </small>{escape(kl(row['kl']))} <small>({escape(change(row))})</small></span></div>"
    )


def table(rows: list[dict], bytes_per_s: float | None, words: Words) -> tuple[list[str], list[list[str]]]:
    """Everything of one length as numbers."""
    columns = ("format", "payload", "scales", "quantise", "move", "dequantise", "checksum", "kl", "perplexity", "same")
    head = [words(f"formats.col_{name}") for name in columns]
    made = []
    for row in rows:
        size = row["bytes"]
        same = fmt.DASH if row["same_tokens"] is None else fmt.count(row["same_tokens"])
        scales = fmt.bytes_(size["scales"]) if size["scales"] else fmt.DASH
        times = [fmt.seconds(s) for s in (*stages(row, bytes_per_s), row["checksum_s"])]
        made.append([row["format"], fmt.bytes_(size["payload"]), scales, *times, kl(row["kl"]), f"{fmt.perplexity(row['perplexity'])} ({change(row)})", same])
    return head, made


# ------------------------------------------------------------------ texts


def texts(result: dict, tokens: int, words: Words) -> str:
    """How the exact cache goes on, and every format from where it parts from that. HTML; the texts are the model's."""
    known = (result["exact"].get("by_tokens") or {}).get(str(tokens)) or {}
    exact = known.get("continuation")
    rows = [row for row in at(result, tokens) if row["continuation"] is not None]
    if not exact or not rows:
        return ""
    made = f"<div class='kt-text'><b>{escape(words('texts.exact'))}</b><p lang='en'>{escape(exact)}</p></div>"
    if same := [row["format"] for row in rows if row["continuation"] == exact]:
        made += f"<div class='kt-text'><b>{escape(', '.join(same))}</b><p class='lab-quiet'>{escape(words('texts.same'))}</p></div>"
    return made + "".join(_text(row, exact, words) for row in rows if row["continuation"] != exact)


def _text(row: dict, exact: str, words: Words) -> str:
    same = parting(exact, row["continuation"])
    rest = row["continuation"][same:]
    told = words("texts.parts", n=fmt.count(row["same_tokens"]))
    return (
        f"<div class='kt-text'><b>{escape(row['format'])}<small>{escape(told)}</small></b>"
        f"<p lang='en'><span class='lab-quiet'>{escape(row['continuation'][:same])}</span><mark>{escape(rest)}</mark></p></div>"
    )


def parting(exact: str, other: str) -> int:
    """How many characters two texts share, cut back to the begin of the word in which they part."""
    same = next((n for n, (a, b) in enumerate(zip(exact, other, strict=False)) if a != b), min(len(exact), len(other)))
    return same if exact == other else max(exact.rfind(" ", 0, same + 1), 0)
