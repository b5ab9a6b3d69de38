"""When the transfers of a ring hide behind its computing: numbers of a model, a device and a link in, tables and sentences out.

Pure: profiles in, plain data out; the formulas are those of `engine.formulas.ring`. A round of a balanced ring: attention of a
rank's queries over the keys of another, half of all pairs under the causal mask, while keys and values go over the link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine import profiles
from engine.formulas import ring
from engine.formulas.flops import compute_s
from engine.profiles import DeviceProfile, LinkProfile, ModelProfile
from pages._ui import fmt
from pages._ui.charts import log_ticks
from pages._ui.words import Words

BYTES_PER_VALUE = 2  # bf16
RANKS = (2, 4, 8, 16, 32, 64, 128)
UTILISATIONS = (1.0, 0.7, 0.5, 0.3)
TOKENS = (1_000, 100_000_000)
FIRST = {"model": "llama-3.1-8b", "device": "h100-sxm", "link": "infiniband-ndr", "ranks": 16, "tokens": 1_000_000, "utilisation": 1.0}
COMPUTE, TRANSFER = 0, 3

Sentence = tuple[str, dict[str, str]]


@dataclass(frozen=True)
class Choice:
    """tokens: of the whole text; utilisation: the share of its peak that a device reaches in attention."""

    model: ModelProfile
    device: DeviceProfile
    link: LinkProfile
    ranks: int
    tokens: int
    utilisation: float

    @property
    def shape(self) -> ring.AttentionShape:
        return ring.AttentionShape(self.model.heads, self.model.kv_heads, self.model.head_dim, BYTES_PER_VALUE)

    @property
    def share(self) -> int:
        """Tokens of the rank that has most."""
        return -(-self.tokens // self.ranks)

    @property
    def flops_per_s(self) -> float:
        return self.device.bf16_flops_per_s * self.utilisation

    @property
    def round_bytes(self) -> int:
        return self.share * self.shape.kv_bytes_per_token

    @property
    def compute_s(self) -> float:
        """Of one round of one layer."""
        return ring.round_compute_s(self.share, self.model.heads, self.model.head_dim, self.flops_per_s)

    @property
    def transfer_s(self) -> float:
        """Of one round of one layer."""
        return ring.round_transfer_s(self.share, self.shape, self.link.bytes_per_s)

    @property
    def least(self) -> float:
        """Tokens of a rank from which on a transfer hides."""
        return ring.least_tokens_to_hide(self.shape, self.flops_per_s, self.link.bytes_per_s)

    @property
    def hides(self) -> bool:
        return self.ranks == 1 or self.compute_s >= self.transfer_s

    @property
    def exposed_s(self) -> float:
        """What of the transfers of a whole prefill nobody can compute behind."""
        return self.model.layers * (self.ranks - 1) * max(0.0, self.transfer_s - self.compute_s)

    @property
    def prefill_s(self) -> float:
        """At least: matrices and attention shared evenly, and what is not hidden."""
        return compute_s(self.model.prefill_flops(self.tokens), self.flops_per_s, devices=self.ranks) + self.exposed_s

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of one rank: weights (every rank has them all), its KV, its receive buffers, one layer's attention."""
        counts = [self.share] * self.ranks
        working = ring.alone_activation_bytes if self.ranks == 1 else ring.activation_bytes
        return {
            "weights": self.model.weight_bytes(BYTES_PER_VALUE),
            "kv": ring.kv_bytes(self.share, self.model.layers, self.shape),
            "buffers": ring.buffer_bytes(counts, self.shape),
            "activations": working(self.share, self.shape),
        }

    @property
    def needed_bytes(self) -> int:
        return sum(self.memory.values())


def models() -> dict[str, ModelProfile]:
    """Those whose layers all have the same full attention: of others the condition has no single number."""
    return {name: model for name, model in profiles.models().items() if model.dense and model.parameters}


def said(choice: Choice) -> list[Sentence]:
    """Whether it hides, from where on it would, and whether it fits."""
    facts = {
        "share": fmt.count(choice.share),
        "least": fmt.count(choice.least),
        "context": fmt.count(choice.least * choice.ranks),
        "ranks": fmt.count(choice.ranks),
        "compute": fmt.seconds(choice.compute_s),
        "transfer": fmt.seconds(choice.transfer_s),
        "link": choice.link.title,
        "device": choice.device.title,
        "exposed": fmt.seconds(choice.exposed_s),
        "prefill": fmt.seconds(choice.prefill_s),
    }
    one = replace(choice, ranks=1)
    memory = {
        "needed": fmt.bytes_(choice.needed_bytes),
        "capacity": fmt.bytes_(choice.device.capacity_bytes),
        "one": fmt.bytes_(one.needed_bytes),
        "device": choice.device.title,
        "ranks": fmt.count(choice.ranks),
        "tokens": fmt.count(choice.tokens),
    }
    fits, alone = (c.needed_bytes <= choice.device.capacity_bytes for c in (choice, one))
    key = "fits_alone" if alone else "fits" if fits else "fits_not"
    return [("calc.hides" if choice.hides else "calc.shows", facts), (f"calc.{key}", memory)]


def figures(choice: Choice, words: Words) -> list[tuple[str, str]]:
    return [
        (words("calc.figure_share"), fmt.count(choice.share)),
        (words("calc.figure_bytes"), fmt.bytes_(choice.round_bytes)),
        (words("calc.figure_compute"), fmt.seconds(choice.compute_s)),
        (words("calc.figure_transfer"), fmt.seconds(choice.transfer_s)),
        (words("calc.figure_least"), fmt.count(choice.least)),
    ]


def formula(choice: Choice, words: Words) -> list[str]:
    """The condition and both times, with the numbers put in."""
    facts = {
        "share": fmt.count(choice.share),
        "heads": choice.model.heads,
        "kv_heads": choice.model.kv_heads,
        "dim": choice.model.head_dim,
        "rate": fmt.flops_per_s(choice.flops_per_s),
        "link": fmt.bytes_per_s(choice.link.bytes_per_s),
        "compute": fmt.seconds(choice.compute_s),
        "transfer": fmt.seconds(choice.transfer_s),
        "least": fmt.count(choice.least),
    }
    return [words(f"calc.formula_{name}", **facts) for name in ("compute", "transfer", "least")]


def spec(choice: Choice, words: Words) -> dict:
    """Seconds of a round over a rank's tokens, both logarithmic; work rises as the square, bytes do not. See pages/_ui/plot.py."""
    middle = [choice.share, choice.least]
    low, high = 10 ** _floor(min(middle) / 8), 10 ** (_floor(max(middle) * 8) + 1)
    ends = [low, *sorted(middle), high]
    series = {
        COMPUTE: ("compute", lambda n: ring.round_compute_s(n, choice.model.heads, choice.model.head_dim, choice.flops_per_s)),
        TRANSFER: ("transfer", lambda n: ring.round_transfer_s(n, choice.shape, choice.link.bytes_per_s)),
    }
    values = [value(n) for _, value in series.values() for n in ends]
    bottom, top = min(values) / 2, max(values) * 2
    lines = [
        {
            "name": words(f"calc.line_{name}"),
            "points": [[n, value(n)] for n in ends],
            "texts": [f"{words(f'calc.line_{name}')}\n{words('calc.at', n=fmt.count(n), value=fmt.seconds(value(n)))}" for n in ends],
            "style": style,
            "label": "legend",
        }
        for style, (name, value) in series.items()
    ]
    return {
        "height": 320,
        "x": {"title": words("calc.axis_share"), "log": True, "range": [low, high], "ticks": [[n, _tokens(n)] for n in log_ticks(low, high)]},
        "y": {"title": words("calc.axis_time"), "log": True, "range": [bottom, top], "ticks": _every(bottom, top)},
        "lines": lines,
        "marks": [
            {"across": "x", "at": choice.share, "text": words("calc.mark_share", n=fmt.count(choice.share))},
            {"across": "x", "at": choice.least, "text": words("calc.mark_least", n=fmt.count(choice.least))},
        ],
    }


def _floor(value: float) -> int:
    """The power of ten below."""
    return len(str(max(1, int(value)))) - 1


def _tokens(value: float) -> str:
    return fmt.count(value) if value < 1e6 else f"{value / 1e6:g}M"


def _every(low: float, high: float) -> list[list]:
    """Seconds at powers of ten, so many that they can be read."""
    found = [10.0**n for n in range(-12, 8) if low <= 10.0**n <= high]
    step = max(1, -(-len(found) // 6))
    return [[value, _short(value)] for value in found[::step]]


def _short(value: float) -> str:
    return fmt.tick(value) if value >= 0.9e-6 else f"{value * 1e9:g} ns"


def alt(choice: Choice, words: Words) -> str:
    facts = {"share": fmt.count(choice.share), "compute": fmt.seconds(choice.compute_s), "transfer": fmt.seconds(choice.transfer_s), "least": fmt.count(choice.least)}
    return words("calc.alt", **facts)


def by_ranks(choice: Choice, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each number of ranks: tokens, memory of one, time of a round, and of the prefill."""
    names = ("ranks", "share", "kv", "activations", "buffers", "needed", "fits", "compute", "transfer", "hides", "prefill")
    rows = []
    for count in (1, *RANKS):
        one = replace(choice, ranks=count)
        memory = one.memory
        fits = one.needed_bytes <= choice.device.capacity_bytes
        rows.append(
            [
                fmt.count(count),
                fmt.count(one.share),
                *(fmt.bytes_(memory[name]) for name in ("kv", "activations", "buffers")),
                fmt.bytes_(one.needed_bytes),
                words("calc.yes" if fits else "calc.no"),
                fmt.seconds(one.compute_s),
                fmt.seconds(one.transfer_s) if count > 1 else fmt.DASH,
                words("calc.yes" if one.hides else "calc.no") if count > 1 else fmt.DASH,
                fmt.seconds(one.prefill_s),
            ]
        )
    return [words(f"calc.col_{name}") for name in names], rows


def by_link(choice: Choice, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each link, quickest first: the least share of a rank, the least text, and whether this one hides."""
    rows = []
    for link in profiles.links().values():
        other = replace(choice, link=link)
        least = [fmt.count(other.least), fmt.count(other.least * choice.ranks)]
        hides = words("calc.yes" if other.hides else "calc.no")
        rows.append([link.title, fmt.bytes_per_s(link.bytes_per_s), fmt.seconds(other.transfer_s), hides, *least, fmt.seconds(other.exposed_s)])
    names = ("link", "rate", "transfer", "hides", "least", "context", "exposed")
    return [words(f"calc.col_{name}") for name in names], rows
