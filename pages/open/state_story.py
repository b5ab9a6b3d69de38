"""A state beside a cache: models and a length in, sentences, a chart and a table out. Pure; the formulas are the engine's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.formulas.kv import KV_DTYPES, Recurrent
from engine.formulas.memory import request_bytes
from engine.formulas.state import crossing_tokens
from engine.profiles import ModelProfile
from pages._ui import fmt
from pages._ui.charts import log_ticks
from pages._ui.words import Words

Sentence = tuple[str, dict[str, str]]
LONG = 10_000_000
TOKENS = (4_096, 32_768, 131_072, 1_000_000, LONG)
MOST_MODELS = 5
FIRST = {
    "models": ("codestral-mamba-7b", "falcon-mamba-7b", "nemotron-h-8b"),
    "reference": "llama-3.1-8b",
    "dtype": "bf16",
    "tokens": 131_072,
}
_SHORTEST = 64


@dataclass(frozen=True)
class Choice:
    """models: with states, the first one is what the sentences are about; reference: what keeps a cache; dtype: of KV."""

    models: tuple[ModelProfile, ...]
    reference: ModelProfile
    dtype: str
    tokens: int

    def size(self, model: ModelProfile, tokens: int | None = None) -> int:
        """Bytes of one sequence: KV with its scales, and states."""
        return request_bytes(model.groups, self.tokens if tokens is None else tokens, self.dtype)

    def crossing(self, model: ModelProfile) -> int | None:
        """From so many tokens on it keeps no more than the reference."""
        return crossing_tokens(model.groups, self.reference.groups, self.dtype)


def with_state(known: Mapping[str, ModelProfile]) -> list[str]:
    """Models that keep a state in some layers, or in all."""
    return [name for name, model in known.items() if any(isinstance(group, Recurrent) for group in model.groups)]


def without(known: Mapping[str, ModelProfile]) -> list[str]:
    """Models that keep a cache only."""
    return [name for name in known if name not in with_state(known)]


def choice_of(found: Mapping, known: Mapping[str, ModelProfile]) -> Choice:
    """From whatever a session or an address holds: what is not possible becomes the lesson's own."""

    def one(name: str, allowed):
        value = found.get(name)
        return value if isinstance(value, int | str) and not isinstance(value, bool) and value in allowed else FIRST[name]

    asked = found.get("models") if isinstance(found.get("models"), list | tuple) else ()
    possible = with_state(known)
    models = list(dict.fromkeys(name for name in asked if isinstance(name, str) and name in possible))[:MOST_MODELS]
    return Choice(
        models=tuple(known[name] for name in models or FIRST["models"]),
        reference=known[one("reference", without(known))],
        dtype=one("dtype", KV_DTYPES),
        tokens=one("tokens", TOKENS),
    )


def said(choice: Choice) -> list[Sentence]:
    """The first model against the reference: what it keeps, from where on that is less, and how much less."""
    own = choice.models[0]
    kept, other, crossing = choice.size(own), choice.size(choice.reference), choice.crossing(own)
    facts = {
        "own": own.title,
        "reference": choice.reference.title,
        "state": fmt.bytes_(own.state_bytes(choice.dtype)),
        "kept": fmt.bytes_(kept),
        "kv": fmt.bytes_(other),
        "tokens": fmt.count(choice.tokens),
        "crossing": fmt.count(crossing),
    }
    first = "state.constant" if own.attention_kind == "state" else "state.grows_less"
    if crossing is None:
        second = "state.never"
    elif kept >= other:
        second = "state.not_yet"
    else:
        second, facts["ratio"] = "state.crosses" if crossing > 1 else "state.always", fmt.times(other / kept)
    return [(first, facts), (second, facts)]


def spec(choice: Choice, words: Words) -> dict:
    """Bytes by tokens, both logarithmic, a line for each model. See pages/_ui/plot.py."""
    at = sorted({2**n for n in range(6, 24)} | {choice.tokens, LONG})
    drawn = [(choice.reference, 0, True)] + [(model, style, False) for style, model in enumerate(choice.models, 1)]
    lines, values = [], []
    for model, style, solid in drawn:
        sizes = [choice.size(model, n) for n in at]
        points = [[n, size] for n, size in zip(at, sizes, strict=True)]
        texts = [f"{model.title}\n{words('state.at', n=fmt.count(n), value=fmt.bytes_(size))}" for n, size in points]
        line = {"name": model.title, "points": points, "texts": texts, "style": style}
        lines.append({**line, "width": 3.2 if solid else 2.2, "solid": solid, "label": "end"})
        values += sizes
    low, high = min(values) / 1.8, max(values) * 1.8
    across = [[n, fmt.count(n)] for n in (_SHORTEST, 1_024, 16_384, 131_072, 1_048_576, LONG)]
    up = [[v, fmt.bytes_(v)] for v in log_ticks(low, high) if low <= v <= high]
    return {
        "height": 400,
        "x": {"title": words("state.axis_tokens"), "log": True, "range": [_SHORTEST, LONG], "ticks": across},
        "y": {"title": words("state.axis_bytes"), "log": True, "range": [low, high], "ticks": up},
        "lines": lines,
        "marks": [{"across": "x", "at": choice.tokens, "text": words("state.tokens_mark", n=fmt.count(choice.tokens))}],
    }


def alt(choice: Choice, words: Words) -> str:
    """The chart in words."""
    told = ", ".join(f"{model.title} {fmt.bytes_(choice.size(model))}" for model in (choice.reference, *choice.models))
    return words("state.alt", tokens=fmt.count(choice.tokens), list=told)


def table(choice: Choice, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each model: what it keeps of layers, of a sequence, of a token."""
    head = [words(f"state.col_{name}") for name in ("model", "layers", "state", "token")]
    lengths = list(dict.fromkeys((choice.tokens, LONG)))
    head += [words("state.at_tokens", n=fmt.count(n)) for n in lengths]
    head.append(words("state.col_crossing", reference=choice.reference.title))
    return head, [_row(model, choice, lengths, words) for model in (choice.reference, *choice.models)]


def _row(model: ModelProfile, choice: Choice, lengths: list[int], words: Words) -> list[str]:
    state = sum(group.layers for group in model.groups if isinstance(group, Recurrent))
    layers = words("state.layers", cache=fmt.count(model.layers - state), state=fmt.count(state))
    token = choice.size(model, 2 * LONG) - choice.size(model, LONG)  # behind every window
    crossing = fmt.DASH if model is choice.reference else _crossing(choice.crossing(model), words)
    return [
        model.title,
        layers,
        fmt.bytes_(model.state_bytes(choice.dtype)) if state else fmt.DASH,
        fmt.bytes_(token / LONG) if token else words("state.nothing"),
        *(fmt.bytes_(choice.size(model, n)) for n in lengths),
        crossing,
    ]


def _crossing(tokens: int | None, words: Words) -> str:
    return words("state.never_short") if tokens is None else words("state.from_first") if tokens == 1 else words("state.from", n=fmt.count(tokens))
