"""The workbench's arithmetic: four numbers as a reader types them, checked, and what a method makes of them. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from engine.formulas import rope
from pages._ui import fmt
from pages._ui.words import Words

# Of each number: the least and the most; beyond, sentences and not pictures.
LIMITS = {"base": (2.0, 1e9), "head_dim": (4, 1024), "factor": (1.0, 1000.0), "trained": (16, 16_777_216)}
WHOLE = ("head_dim", "trained")
FEW = 9


@dataclass(frozen=True)
class Bench:
    """A model and how it is to be stretched. base: RoPE's; head_dim: d; factor: s; trained: T in tokens."""

    base: float
    head_dim: int
    factor: float
    trained: int
    method: str
    ramp: str = rope.RAMPS[0]

    @property
    def scaling(self) -> rope.RopeScaling | None:
        return rope.scaling_for(self.method, self.factor, self.trained, ramp=self.ramp)

    @property
    def length(self) -> int:
        """The tokens that are to fit: s x T."""
        return round(self.factor * self.trained)

    @property
    def turning(self) -> rope.Turning:
        """At the full length, of which only "dynamic" takes notice."""
        return rope.turning(self.scaling, self.head_dim, self.base, self.length)

    @property
    def new_base(self) -> float | None:
        """The base with the same effect; None for methods that no base has the effect of."""
        if self.method not in ("ntk", "dynamic"):
            return self.base if self.scaling is None else None
        return rope.ntk_base(self.base, self.factor, self.head_dim)


def read(typed: dict[str, str], method: str, ramp: str) -> tuple[Bench | None, list[tuple[str, dict[str, str]]]]:
    """What was typed as numbers, or what is wrong with it as sentences (key, facts)."""
    found, wrong = {}, []
    for name, (low, high) in LIMITS.items():
        value = _number(typed[name])
        limits = {"field": name, "value": typed[name].strip()[:40], "low": fmt.count(low), "high": fmt.count(high)}
        if value is None:
            wrong.append(("workbench.no_number", limits))
        elif not low <= value <= high:
            wrong.append(("workbench.beyond", limits))
        elif name in WHOLE and value != int(value):
            wrong.append(("workbench.not_whole", limits))
        elif name == "head_dim" and value % 2:
            wrong.append(("workbench.odd", limits))
        else:
            found[name] = int(value) if name in WHOLE else value
    return (None, wrong) if wrong else (Bench(**found, method=method, ramp=ramp), [])


def _number(text: str) -> float | None:
    """``10,000``, ``1e6`` and ``10 000`` are numbers; infinities and what only looks like one are not."""
    try:
        value = float(text.replace(",", "").replace(" ", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def figures(bench: Bench, words: Words) -> list[tuple[str, str]]:
    """The few numbers that come out."""
    slow = rope.frequencies(bench.head_dim, bench.base)[-1] / bench.turning.frequencies[-1]
    base = bench.new_base
    temperature = bench.turning.attention_factor
    return [
        (words("workbench.out_base"), words("workbench.none_base") if base is None else exact(base)),
        (words("workbench.out_length"), fmt.count(bench.length)),
        (words("workbench.out_slow"), f"÷ {exact(slow)}"),
        (words("workbench.out_temperature"), words("workbench.none_temperature") if temperature == 1 else f"{temperature:.4f}"),
    ]


def exact(value: float) -> str:
    """Six digits, without zeros that say nothing: ``82684.1`` -> ``82,684.6``; ``4.0`` -> ``4``."""
    whole = len(str(int(value)))
    text = f"{value:,.{max(0, 6 - whole)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def pairs(bench: Bench, *, every: bool) -> list[int]:
    """All pairs, or some of them from the first to the last."""
    count = bench.head_dim // 2
    return list(range(count)) if every or count <= FEW else sorted({round(i) for i in np.linspace(0, count - 1, FEW)})


def table(bench: Bench, words: Words, *, every: bool) -> tuple[list[str], list[list[str]]]:
    """Head and rows: wavelength and turns as trained, wavelength now, and by what the pair has become slower."""
    head = [words(f"workbench.col_{name}") for name in ("pair", "before", "turns", "now", "divisor")]
    plain, now = rope.frequencies(bench.head_dim, bench.base), bench.turning.frequencies
    before, after, within = rope.wavelengths(plain), rope.wavelengths(now), rope.turns(plain, bench.trained)
    rows = []
    for i in pairs(bench, every=every):
        slower = plain[i] / now[i]
        turned = exact3(within[i]) if within[i] >= 1 else words("workbench.never", n=exact3(within[i]))
        divisor = words("workbench.stays") if slower < 1.0005 else f"÷ {exact3(slower)}"
        rows.append([str(i), exact3(before[i]), turned, exact3(after[i]), divisor])
    return head, rows


def exact3(value: float) -> str:
    """Three digits that count, never an exponent: ``0.0204`` -> ``0.0204``; ``6.28`` -> ``6.28``; ``54410`` -> ``54,410``."""
    return f"{value:,.0f}" if value >= 100 else f"{float(f'{value:.3g}'):.12f}".rstrip("0").rstrip(".")


def hf_settings(bench: Bench) -> dict:
    """The part of a Hugging Face config.json (transformers 5) that asks for this; of older ones `rope_scaling` holds the same.

    NTK-aware is no type of theirs but another base; by-parts is YaRN without the temperature.
    """
    scaling = bench.scaling
    rows = {"rope_type": "default", "rope_theta": bench.base}
    if scaling is None:
        return {"max_position_embeddings": bench.trained, "rope_parameters": rows}
    trained = {"original_max_position_embeddings": bench.trained}
    match bench.method:
        case "ntk":
            rows = {**rows, "rope_theta": bench.new_base}
        case "linear":
            rows = {**rows, "rope_type": "linear", "factor": bench.factor}
        case "dynamic":  # theirs takes the trained length from max_position_embeddings; factor 1: s = length / trained
            return {"max_position_embeddings": bench.trained, "rope_parameters": {**rows, "rope_type": "dynamic", "factor": 1.0}}
        case "llama3":
            rows = {**rows, "rope_type": "llama3", "factor": bench.factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **trained}
        case "yarn" | "by-parts":
            rows = {**rows, "rope_type": "yarn", "factor": bench.factor, "beta_fast": 32.0, "beta_slow": 1.0, **trained}
            if bench.method == "by-parts":
                rows["attention_factor"] = 1.0
    return {"max_position_embeddings": bench.length, "rope_parameters": rows}


def hf_text(bench: Bench) -> str:
    return json.dumps(hf_settings(bench), indent=2)
