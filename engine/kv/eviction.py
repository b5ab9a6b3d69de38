"""Which tokens' KV a cache of fixed size keeps. Pure bookkeeping, no tensors.

    Full            everything; the cache grows with the text
    Window(W)       the last W tokens: window attention as in Longformer (Beltagy et al. 2020)
    Sinks(S, W)     the first S tokens and the last W - S: StreamingLLM (Xiao et al. 2023, arXiv 2309.17453, section 3.2)

The token that comes is one of the W. Sinks never move; the others lie in a ring, and the token that comes takes the
place of the oldest. Text positions count from the start of the text; a *slot* is a place in the cache's memory; a
*cache position* is where a token stands among those kept, the oldest first: rotary angles are counted by it, so that
no angle and no distance ever exceeds W - 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Full:
    """Nothing is evicted."""

    def slots(self, tokens: int) -> int:
        """Slots that a text of `tokens` tokens owns."""
        return tokens

    def slot(self, position: int) -> int:
        """The slot of the token at a text position."""
        return position

    def kept(self, tokens: int) -> tuple[int, ...]:
        """Text positions still in the cache after `tokens` tokens, in order."""
        return tuple(range(tokens))

    def cache_positions(self, tokens: int) -> tuple[int, ...]:
        """For every owned slot: the place, among all that is kept, of the token that lies there."""
        return tuple(range(tokens))


@dataclass(frozen=True)
class Sinks:
    """The first `sinks` tokens and the latest others, `window` slots in all: 4 + 252 is Sinks(4, 256).

    The first eviction comes with the token at position `window`. Raises ValueError unless 0 <= sinks < window.
    """

    sinks: int
    window: int

    def __post_init__(self) -> None:
        if not 0 <= self.sinks < self.window:
            raise ValueError(f"a cache of {self.window} slots cannot keep {self.sinks} sinks and the token that comes")

    @property
    def recent(self) -> int:
        """Slots of the ring."""
        return self.window - self.sinks

    def slots(self, tokens: int) -> int:
        """As `Full.slots`; never more than `window`."""
        return min(tokens, self.window)

    def slot(self, position: int) -> int:
        """As `Full.slot`."""
        return position if position < self.sinks else self.sinks + (position - self.sinks) % self.recent

    def kept(self, tokens: int) -> tuple[int, ...]:
        """As `Full.kept`."""
        if tokens <= self.window:
            return tuple(range(tokens))
        return (*range(self.sinks), *range(tokens - self.recent, tokens))

    def cache_positions(self, tokens: int) -> tuple[int, ...]:
        """As `Full.cache_positions`."""
        if tokens <= self.window:
            return tuple(range(tokens))
        oldest = self.slot(tokens - self.recent)
        newer = self.window - oldest
        before = range(self.sinks + newer, self.window)
        return (*range(self.sinks), *before, *range(self.sinks, self.sinks + newer))


@dataclass(frozen=True)
class Window(Sinks):
    """The last `window` tokens, no sinks. Raises ValueError for a window of no tokens."""

    sinks: int = field(default=0, init=False)


Eviction = Full | Sinks


def as_dict(policy: Eviction) -> dict[str, object]:
    """A policy for results and messages: {"kind": "full"}, {"kind": "sinks", "sinks": 4, "window": 256}."""
    match policy:
        case Full():
            return {"kind": "full"}
        case Window(window=window):
            return {"kind": "window", "window": window}
        case Sinks(sinks=sinks, window=window):
            return {"kind": "sinks", "sinks": sinks, "window": window}


def from_dict(facts: Mapping[str, object]) -> Eviction:
    """The policy that `as_dict` described. Raises KeyError or ValueError for anything else."""
    match facts["kind"]:
        case "full":
            return Full()
        case "window":
            return Window(facts["window"])
        case "sinks":
            return Sinks(facts["sinks"], facts["window"])
    raise ValueError(f"no eviction of kind {facts['kind']!r}")
