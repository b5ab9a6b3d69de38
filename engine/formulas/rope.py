"""Rotary positions, and how they are stretched beyond the length a model was trained on. Pure NumPy, float64.

A head's vector is read as d/2 pairs, and at position p pair i is turned by the angle p x f_i, f_i = base^(-2i/d), i = 0 ..
d/2 - 1 (Su et al. 2021, arXiv 2104.09864, section 3.2.2). 2 pi / f_i is the pair's wavelength: the tokens of a full turn.
Pairs that made many turns within the trained length T have seen every angle; those that never made one meet, behind T,
angles that are new to them. Every method below changes the f_i only, so that a text s times as long fits:

    linear     f_i / s for all: position interpolation (Chen et al. 2023, arXiv 2306.15595)
    ntk        the base becomes base x s^(d/(d-2)), which leaves the first f_i as it is and divides the last by exactly s:
               "NTK-aware" (u/bloc97, reddit r/LocalLLaMA, June 2023)
    dynamic    the same with an s that follows the length of the text, and is 1 up to T (u/emozilla, July 2023; YaRN, section
               3.3). A key that was turned when it came is wrong as soon as s has grown: keep keys as they are before rotation
    by-parts   f_i where a pair makes many turns within T, f_i / s where it makes less than one, a ramp between
               ("NTK-by-parts", u/bloc97, July 2023; YaRN, section 3.2)
    yarn       by-parts, and attention sharpened: cosines and sines times 0.1 ln s + 1, scores times its square (Peng et al.
               2023, arXiv 2309.00071, sections 3.2-3.4)
    llama3     by-parts, with the ramp linear in the number of turns from 1 to 4 and no temperature (the Llama 3.1 release)
    factors    a divisor for each pair, as GGUF files store them

YaRN's ramp comes in two forms. The paper's (section 3.2) is linear in the turns r within T, from beta_slow (its alpha, 1) to
beta_fast (its beta, 32). Its authors' code, and Hugging Face's after it, is linear in the pair's index between the two pairs
that make so many turns. They agree at the ends and not between, and with a short T they differ by up to a factor of two.
"""

import math
from dataclasses import dataclass

import numpy as np

METHODS = ("none", "linear", "ntk", "dynamic", "by-parts", "yarn", "llama3")
KINDS = ("linear", "ntk", "dynamic", "by-parts", "yarn", "llama3", "factors")
RAMPS = ("dimensions", "rotations")
_LONGEST = 1 << 31


class UnfitScaling(ValueError):
    """Numbers that cannot stretch anything: `field` as configuration files call it, its `value`, and `why`."""

    def __init__(self, field: str, value: object, why: str) -> None:
        super().__init__(f"{field} = {value!r}: {why}")
        self.field, self.value, self.why = field, value, why


@dataclass(frozen=True)
class RopeScaling:
    """How frequencies are stretched. `kind` is one of KINDS; what a kind does not name below it ignores.

    factor                             s; of "dynamic": how fast s grows (1: s = length / original_context)
    original_context                   T in tokens: dynamic, by-parts, yarn, llama3
    low_freq_factor, high_freq_factor  turns within T: llama3's ramp
    divisors                           one per pair: factors
    beta_fast, beta_slow, ramp         by-parts and yarn: turns within T, and in what the ramp is linear (RAMPS)
    truncate                           the ends of the ramp "dimensions" go outwards to whole pairs
    attention_factor                   yarn: what cosines and sines are multiplied by; None: 0.1 ln s + 1, or from
    mscale, mscale_all_dim             both, (0.1 mscale ln s + 1) / (0.1 mscale_all_dim ln s + 1), as in DeepSeek-V2
    """

    kind: str
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192
    divisors: tuple[float, ...] = ()
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: str = "dimensions"
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def check(self, head_dim: int) -> None:
        """Raises UnfitScaling for numbers that cannot stretch the frequencies of heads so wide."""
        if self.kind not in KINDS:
            raise UnfitScaling("rope_type", self.kind, f"it must be one of {', '.join(KINDS)}")
        if self.ramp not in RAMPS:
            raise UnfitScaling("ramp", self.ramp, f"it must be one of {', '.join(RAMPS)}")
        for field in ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"):
            _check_number(field, getattr(self, field))
        for field in ("attention_factor", "mscale", "mscale_all_dim"):
            if getattr(self, field) is not None:
                _check_number(field, getattr(self, field))
        context = self.original_context
        if isinstance(context, bool) or not isinstance(context, int) or not 1 <= context <= _LONGEST:
            raise UnfitScaling("original_max_position_embeddings", context, f"it must be a whole number between 1 and {_LONGEST}")
        if self.high_freq_factor <= self.low_freq_factor:
            raise UnfitScaling("high_freq_factor", self.high_freq_factor, "it must be above low_freq_factor")
        if self.beta_fast <= self.beta_slow:
            raise UnfitScaling("beta_fast", self.beta_fast, "it must be above beta_slow")
        if self.kind in ("ntk", "dynamic") and head_dim < 4:
            raise UnfitScaling("head_dim", head_dim, "with a single pair there is no base to change: it must be at least 4")
        if self.kind == "factors":
            if len(self.divisors) != head_dim // 2:
                raise UnfitScaling("rope_freqs", len(self.divisors), f"there must be one divisor for each of {head_dim // 2} pairs")
            for divisor in self.divisors:
                _check_number("rope_freqs", divisor)


@dataclass(frozen=True, eq=False)
class Turning:
    """What a model does to queries and keys: pair i turns by frequencies[i] radians a token (float64 [head_dim / 2]), and
    cosines and sines are multiplied by `attention_factor`, so that scores get its square."""

    frequencies: np.ndarray
    attention_factor: float = 1.0


def frequencies(head_dim: int, base: float) -> np.ndarray:
    """[head_dim / 2]: radians a token, from 1 down to base^(-(d-2)/d)."""
    return float(base) ** (-np.arange(0, head_dim, 2) / head_dim)


def wavelengths(frequencies: np.ndarray) -> np.ndarray:
    """Tokens of a full turn."""
    return 2 * math.pi / frequencies


def turns(frequencies: np.ndarray, length: float) -> np.ndarray:
    """Full turns within so many tokens."""
    return length * frequencies / (2 * math.pi)


def turning(scaling: RopeScaling | None, head_dim: int, base: float, length: int | None = None) -> Turning:
    """The rotation of a model with this base and scaling (None: as trained).

    length: the tokens of the text so far, of which only "dynamic" takes notice; None: not more than it was trained on.
    """
    plain = frequencies(head_dim, base)
    if scaling is None:
        return Turning(plain)
    match scaling.kind:
        case "linear":
            return Turning(plain / scaling.factor)
        case "ntk":
            return Turning(frequencies(head_dim, ntk_base(base, scaling.factor, head_dim)))
        case "dynamic":
            return Turning(frequencies(head_dim, ntk_base(base, dynamic_factor(scaling, length), head_dim)))
        case "factors":
            return Turning(plain / np.asarray(scaling.divisors))
    share = kept(scaling, head_dim, base)
    temperature = _attention_factor(scaling) if scaling.kind == "yarn" else 1.0
    return Turning(share * plain + (1 - share) * plain / scaling.factor, temperature)


def ntk_base(base: float, factor: float, head_dim: int) -> float:
    """The base with which the lowest frequency is that of `base` divided by `factor`; head_dim must be above 2.

    The lowest is base^(-(d-2)/d). With base x k it is divided by k^((d-2)/d), which is s for k = s^(d/(d-2)).
    """
    return base * factor ** (head_dim / (head_dim - 2))


def dynamic_factor(scaling: RopeScaling, length: int | None) -> float:
    """The s of a "dynamic" scaling for a text of `length` tokens: 1 up to T, then factor x length / T - (factor - 1)."""
    beyond = max(length or 0, scaling.original_context) / scaling.original_context
    return scaling.factor * beyond - (scaling.factor - 1)


def yarn_temperature(factor: float) -> float:
    """0.1 ln s + 1: what YaRN multiplies cosines and sines by (section 3.4, its sqrt(1/t)); 1 unless s is above 1."""
    return _mscale(factor, 1.0)


def kept(scaling: RopeScaling, head_dim: int, base: float) -> np.ndarray:
    """[head_dim / 2]: the share of each pair's frequency that stays as it is, 1 untouched .. 0 divided by s.

    For by-parts, yarn and llama3; raises ValueError for others, which have no bands.
    """
    within = turns(frequencies(head_dim, base), scaling.original_context)
    if scaling.kind == "llama3":
        return _ramp(within, scaling.low_freq_factor, scaling.high_freq_factor)
    if scaling.kind not in ("by-parts", "yarn"):
        raise ValueError(f"scaling {scaling.kind!r} has no bands")
    if scaling.ramp == "rotations":
        return _ramp(within, scaling.beta_slow, scaling.beta_fast)
    first, last = correction_range(scaling, head_dim, base)
    if first == last:
        last += 0.001  # as they do
    return 1 - _ramp(np.arange(head_dim // 2), first, last)


def correction_range(scaling: RopeScaling, head_dim: int, base: float) -> tuple[float, float]:
    """The ramp "dimensions" of by-parts and yarn: the last pair that stays and the first that is divided by s.

    Solves T f_i / (2 pi) = beta for i, for both betas. The upper bound is d - 1 and not d/2 - 1, in the authors' code as in
    Hugging Face's, and nothing sees to it that the ends do not cross (every pair beyond beta_fast, or none above
    beta_slow); checkpoints were tuned with it, so it is kept.
    """

    def pair(wanted: float) -> float:
        return head_dim * math.log(scaling.original_context / (wanted * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    return max(first, 0), min(last, head_dim - 1)


def scaling_for(method: str, factor: float, original_context: int, *, ramp: str = "dimensions") -> RopeScaling | None:
    """A method of METHODS with its usual parameters; None for "none" and where nothing is to be stretched (factor <= 1).

    "dynamic" takes s from the length and from nothing else.
    """
    if method not in METHODS:
        raise ValueError(f"no method {method!r}")
    if method == "none" or factor <= 1:
        return None
    if method == "dynamic":
        return RopeScaling("dynamic", original_context=original_context)
    return RopeScaling(method, factor=factor, original_context=original_context, ramp=ramp)


def _attention_factor(scaling: RopeScaling) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return _mscale(scaling.factor, scaling.mscale) / _mscale(scaling.factor, scaling.mscale_all_dim)
    return yarn_temperature(scaling.factor)


def _mscale(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def _ramp(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """0 at `low`, 1 at `high`, and so on beyond them."""
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def _check_number(field: str, value: float) -> None:
    if not (math.isfinite(value) and 0.0 < value < 1e9):
        raise UnfitScaling(field, value, "it must lie between 0 and 1e+09")
