"""The roofline as a chart: a result and published devices in, a spec for pages/_ui/plot out. Pure.

Both axes are logarithmic: the memory limit is then a straight slope, the arithmetic limit lies level, and the crossing is
a corner. Prefills are circles, decodes squares; attention is hollow. Only the roof of the machine that measured is filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.profiles import DeviceProfile
from pages._ui import charts, fmt
from pages._ui.words import Words
from pages.roofline import story
from pages.roofline.story import Roof

HEIGHT = 470
VIEWS = {"all": ("all",), "linear": ("linear",), "attention": ("attention",), "apart": ("linear", "attention")}
STYLE = {"prefill": 0, "decode": 2}
SHAPE = {"prefill": "circle", "decode": "square"}
HERE, OTHERS = 5, (3, 1, 4)  # of the measured roof; of published ones, in turn
# Room around the points on logarithmic axes, as factors.
ASIDE, BELOW, ABOVE = 2.0, 3.0, 2.5


def published(device: DeviceProfile) -> Roof:
    """The roof of a data sheet: 16-bit arithmetic without sparsity."""
    return Roof(device.bf16_flops_per_s, device.memory_bytes_per_s, "bfloat16")


def shown(result: dict, view: str) -> list[dict]:
    """The points of a view."""
    return [p for p in story.points(result) if p["part"] in VIEWS[view]]


def spec(result: dict, view: str, devices: Sequence[DeviceProfile], words: Words) -> dict | None:
    """The chart. view: one of VIEWS; devices: whose published roofs stand beside it. None without a roof of its own."""
    here = story.roof(result)
    if here is None:
        return None
    drawn = shown(result, view)
    others = [(_short(d.title), published(d)) for d in devices]
    x, y = _ranges(drawn, [here, *(roof for _, roof in others)], story.ceilings(result))
    return {
        "height": HEIGHT,
        "x": axis(words("axis.intensity"), x, plain),
        "y": axis(words("axis.rate"), y, fmt.flops_per_s),
        "areas": [{"points": [[at, y[0], here.at(at)] for at in _corners(here, x)], "style": HERE}],
        "lines": [
            *_ceilings(result, here, x, words),
            *(_published(name, roof, x, OTHERS[i % len(OTHERS)], words) for i, (name, roof) in enumerate(others)),
            *_paths(drawn),
        ],
        "points": [_point(p, here, words) for p in drawn],
        "marks": [{"across": "x", "at": here.ridge, "text": words("mark.ridge", ridge=fmt.intensity(here.ridge))}],
        "legend": _legend(drawn, words),
    }


def alt(result: dict, view: str, devices: Sequence[DeviceProfile], words: Words) -> str:
    """The chart in words, computed from the same numbers."""
    here = story.roof(result)
    if here is None:
        return words("alt.none")
    said = [words("alt.roof", peak=fmt.flops_per_s(here.flops_per_s), memory=fmt.bytes_per_s(here.bytes_per_s), ridge=fmt.intensity(here.ridge))]
    for phase in story.PHASES:
        for part in VIEWS[view]:
            if found := story.points(result, phase, part):
                shares = [story.share(p, here) for p in found]
                facts = {
                    "n": fmt.count(len(found)),
                    "what": words("point.name", what=words(f"phase_name.{phase}"), part=words(f"piece.{part}.name")),
                    "low": fmt.intensity(min(p["intensity"] for p in found)),
                    "high": fmt.intensity(max(p["intensity"] for p in found)),
                    "least": fmt.share(min(shares)),
                    "most": fmt.share(max(shares)),
                }
                said.append(words("alt.points", **facts))
    for device in devices:
        roof = published(device)
        said.append(words("alt.published", name=device.title, peak=fmt.flops_per_s(roof.flops_per_s), memory=fmt.bytes_per_s(roof.bytes_per_s)))
    return " ".join(said)


def _short(title: str) -> str:
    """A device's name without its maker, for the end of a line."""
    return title.partition(" ")[2] or title


def _ranges(drawn: list[dict], roofs: list[Roof], ceilings: dict[str, float]) -> tuple[list[float], list[float]]:
    """Both axes: room for all points, crossings and ceilings."""
    intensities = [p["intensity"] for p in drawn] + [roof.ridge for roof in roofs]
    x = [min(intensities) / ASIDE, max(intensities) * ASIDE]
    rates = [p["flops_per_s"] for p in drawn] or [roofs[0].at(x[0])]
    return x, [min(rates) / BELOW, max(*ceilings.values(), *(roof.flops_per_s for roof in roofs)) * ABOVE]


def axis(title: str, range_: list[float], show: Callable[[float], str]) -> dict:
    """A logarithmic axis with round ticks."""
    ticks = [[v, show(v)] for v in charts.log_ticks(*range_) if range_[0] <= v <= range_[1]]
    return {"title": title, "log": True, "range": range_, "ticks": ticks}


def plain(value: float) -> str:
    """A tick: ``0.1``, ``10``, ``1,000``."""
    return f"{value:,.10g}"


def _corners(roof: Roof, x: list[float]) -> list[float]:
    """Where a roof bends, between the ends of the axis."""
    return sorted({x[0], min(max(roof.ridge, x[0]), x[1]), x[1]})


def _ceilings(result: dict, here: Roof, x: list[float], words: Words) -> list[dict]:
    """The measured roof, and the level ceilings of the machine's other number formats under (or above) it."""
    found = [
        {
            "name": words("roof.here", dtype=here.dtype),
            "points": [[at, here.at(at)] for at in _corners(here, x)],
            "style": HERE,
            "width": 3,
            "label": "end",
            "solid": True,
        }
    ]
    for dtype, rate in story.ceilings(result).items():
        if dtype != here.dtype and (begin := rate / here.bytes_per_s) < x[1]:
            found.append(
                {"name": dtype, "points": [[max(begin, x[0]), rate], [x[1], rate]], "style": HERE, "width": 1.6, "label": "end", "quiet": True}
            )
    return found


def _published(name: str, roof: Roof, x: list[float], style: int, words: Words) -> dict:
    points = [[at, roof.at(at)] for at in _corners(roof, x)]
    return {"name": words("roof.published", name=name), "points": points, "style": style, "width": 2, "label": "end", "quiet": True}


def _paths(drawn: list[dict]) -> list[dict]:
    """Thin lines through the points: a prefill that grows, a batch that grows at one context."""
    found: dict[tuple, list] = {}
    for p in drawn:
        key = (p["phase"], p["part"], p["context"] if p["phase"] == "decode" else None)
        found.setdefault(key, []).append(p)
    return [
        {
            "name": "",
            "points": [[p["intensity"], p["flops_per_s"]] for p in sorted(line, key=lambda p: p["tokens"])],
            "style": STYLE[phase],
            "width": 1.3,
            "label": "none",
            "quiet": True,
        }
        for (phase, _, _), line in found.items()
        if len(line) > 1
    ]


def _point(p: dict, here: Roof, words: Words) -> dict:
    lines = [
        story.name(p, words),
        words("tip.share", share=story.small_share(story.share(p, here)), limit=words(f"limit.{story.limit(p, here)}")),
        f"{fmt.flops_per_s(p['flops_per_s'])} · {fmt.intensity(p['intensity'])}",
    ]
    return {
        "id": p["id"],
        "x": p["intensity"],
        "y": p["flops_per_s"],
        "style": STYLE[p["phase"]],
        "shape": SHAPE[p["phase"]],
        "filled": p["part"] != "attention",
        "text": "\n".join(lines),
    }


def _legend(drawn: list[dict], words: Words) -> list[dict]:
    """One entry for each kind of point there is."""
    seen = dict.fromkeys((p["phase"], p["part"]) for p in drawn)
    return [
        {
            "name": words("point.name", what=words(f"phase_name.{phase}"), part=words(f"piece.{part}.name")),
            "style": STYLE[phase],
            "shape": SHAPE[phase],
            "filled": part != "attention",
        }
        for phase, part in seen
    ]
