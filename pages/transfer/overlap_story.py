"""What the overlap of a transfer result says: how much of the transfer hid behind the prefill. Pure: sentences, two pictures."""

from __future__ import annotations

from html import escape

from engine.formulas.transfer import exposed_s
from pages._ui import fmt, parts
from pages._ui.charts import even_ticks
from pages._ui.words import Words

Sentence = tuple[str, dict[str, str]]
# From this share on the transfer is said to be hidden; below that to be hardly.
MUCH, LITTLE = 0.5, 0.1


def possible(found: dict) -> float:
    """The share that could hide on this link: all but the last part, and less where the link is slower than the prefill.

    As if every part took equally long to compute."""
    return 1 - exposed_s(found["transfer_s"], found["prefill_s"], len(found["parts"])) / found["transfer_s"]


def headline(found: dict) -> list[Sentence]:
    """How much was hidden, what could be, and what the copying cost the prefill."""
    share = found["hidden_share"]
    key = "much" if share >= MUCH else "some" if share >= LITTLE else "none"
    facts = {
        "tokens": fmt.count(found["tokens"]),
        "share": fmt.share(max(0.0, share)),
        "transfer": fmt.seconds(found["transfer_s"]),
        "whole": fmt.seconds(found["whole_s"]),
        "layerwise": fmt.seconds(found["layerwise_s"]),
        "left": fmt.seconds(max(0.0, found["layerwise_s"] - found["layerwise_prefill_s"])),
    }
    best = {"possible": fmt.share(possible(found)), "parts": fmt.count(len(found["parts"]))}
    said = [(f"overlap.{key}", facts), ("overlap.possible", best)]
    slower = found["layerwise_prefill_s"] / found["prefill_s"] - 1
    if abs(slower) > MUCH / 10:
        change = {"first": fmt.seconds(found["prefill_s"]), "second": fmt.seconds(found["layerwise_prefill_s"]), "change": fmt.percent(slower)}
        said.append(("overlap.prefill_slower" if slower > 0 else "overlap.prefill_faster", change))
    return said


def about(found: dict, words: Words) -> str:
    link = found["link"]
    facts = {"tokens": fmt.count(found["tokens"]), "format": found["format"], "asked": fmt.bytes_per_s(link["asked_bytes_per_s"]), "measured": fmt.bytes_per_s(link["measured_bytes_per_s"])}
    return words("overlap.about", **facts)


def timelines(found: dict, words: Words) -> str:
    """Two pictures on one scale of seconds: all behind the prefill, and layers during it. HTML."""
    end = max(found["whole_s"], found["layerwise_s"])
    prefill, transfer, layers = found["prefill_s"], found["whole_s"] - found["prefill_s"], found["parts"]
    whole = [("prefill", [(0.0, prefill, "")]), ("transfer", [(prefill, transfer, words("overlap.all_layers"))])]
    sent = [(part["moved"][0], part["moved"][1] - part["moved"][0], _layers(part)) for part in layers]
    packed = [(part["published"][0], part["published"][1] - part["published"][0]) for part in layers]
    during = [("prefill", [(0.0, found["layerwise_prefill_s"], "")]), ("transfer", sent)]
    return _picture("whole", whole, [], found["whole_s"], end, words) + _picture("layerwise", during, packed, found["layerwise_s"], end, words)


def _picture(name: str, lanes: list, packed: list, done: float, end: float, words: Words) -> str:
    title = words(f"overlap.{name}")
    label = words(f"overlap.alt_{name}", done=fmt.seconds(done), prefill=fmt.seconds(lanes[0][1][-1][1]), parts=fmt.count(len(lanes[1][1])))
    made = ""
    for lane, spans in lanes:
        bars = "".join(
            f"<i class='kt-{'prefill' if lane == 'prefill' else 'move'}' style='left:{100 * at / end:.2f}%;width:{100 * lasts / end:.2f}%'><em>{escape(text)}</em></i>"
            for at, lasts, text in spans
        )
        if lane == "prefill":
            bars += "".join(f"<i class='kt-packed' style='left:{100 * at / end:.2f}%;width:{max(100 * lasts / end, 0.3):.2f}%'></i>" for at, lasts in packed)
        made += f"<div class='kt-lane'><span>{escape(words(f'track.{lane}'))}</span><span class='kt-axis'>{bars}</span></div>"
    ticks = "".join(f"<span style='left:{100 * at / end:.2f}%'>{escape(fmt.tick(at))}</span>" for at in even_ticks(0, end, 6) if at <= 0.97 * end)
    made += f"<div class='kt-lane kt-ticks'><span></span><span class='kt-axis'>{ticks}</span></div>"
    return (
        f"<section class='kt-timeline'><h3>{escape(title)} <span class='lab-quiet'>{parts.prose(words('overlap.done', done=fmt.seconds(done)))}</span></h3>"
        f"<div role='img' aria-label='{escape(label, quote=True)}'>{made}</div></section>"
    )


def _layers(part: dict) -> str:
    first, end = part["layers"]
    return f"{first + 1}–{end}"


def table(found: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """The parts as numbers, seconds from the prefill's begin."""
    head = [words(f"overlap.col_{name}") for name in ("layers", "ready", "from", "to")]
    rows = [[_layers(part), *(fmt.seconds(s) for s in (part["published"][1], *part["moved"]))] for part in found["parts"]]
    return head, rows
