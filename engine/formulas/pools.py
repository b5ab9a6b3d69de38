"""How many devices prefill and decode need of each other, and what a device is worth to either. Pure.

    prefill   computes: an instance (one device, or several that serve as one) reads FLOP/s / (FLOP of a prompt) prompts a second
    decode    reads: a step of b requests makes b tokens and takes the longer of
                  (weights + b x KV of one) / (bytes/s)   and   b x FLOP of a token / (FLOP/s)
              where b is as large as memory allows and as a token's time may be (roofline; Pope et al. 2022, arXiv 2211.05102, section 2)
    balance   both pools must serve the same requests, so instances stand as the instance-seconds that a request takes in each:
              P : D = (1 / prefill rate) : (1 / decode rate) (DistServe: Zhong et al. 2024, arXiv 2401.09670, section 4.1, algorithm 1)
    split     of n instances, p prefill and n - p decode serve min(p x prefill rate, (n - p) x decode rate); the other pool idles
    unified   n instances that do both serve at most n / (1/prefill rate + 1/decode rate): what no split can exceed, since that
              is a split into fractions. What a split gains is not in this count: nobody's decode waits for a prefill, and the
              pools may be of different devices
    price     per PFLOP/s buys prefill; per TB/s and per GB buys decode

Rates are upper bounds under even load: requests that come in bursts queue before they are reached.
"""

from math import floor, inf

from engine.formulas.flops import attention_flops, matrix_flops

PFLOP, TB, GB = 1e15, 1e12, 1e9
SECONDS_PER_HOUR = 3600


def token_flops(parameters: int, layers: int, heads: int, head_dim: int, context: float) -> float:
    """Operations for one token over so long a context: every parameter of a matrix once, and attention to all before it.

    parameters: of all matrices that a token is multiplied with, the head included.
    """
    return matrix_flops(parameters, 1) + attention_flops(layers, heads, head_dim, 1, causal=False) * context


def decode_step_s(batch: int, weight_bytes: float, kv_bytes: float, flops: float, bytes_per_s: float, flops_per_s: float) -> float:
    """Seconds of a step: the longer of reading and computing. kv_bytes, flops: of one request; rates: of the instance."""
    return max((weight_bytes + batch * kv_bytes) / bytes_per_s, batch * flops / flops_per_s)


def batch_within(step_s: float, weight_bytes: float, kv_bytes: float, flops: float, bytes_per_s: float, flops_per_s: float) -> int:
    """The largest batch whose step takes at most so long; 0 if reading the weights alone takes longer."""
    by_reading = (step_s * bytes_per_s - weight_bytes) / kv_bytes
    by_computing = step_s * flops_per_s / flops
    return max(0, floor(min(by_reading, by_computing) + 1e-9))


def decode_rate_per_s(batch: int, step_s: float, output_tokens: int) -> float:
    """Requests a second of one instance that always has so many. The first token of each comes from the prefill; without
    others decode has nothing to do (inf)."""
    steps = output_tokens - 1
    return inf if steps == 0 else batch / (step_s * steps)


def ratio(prefill_rate: float, decode_rate: float) -> float:
    """Prefill instances for one decode instance. inf: decode has nothing to do; 0: it serves nothing."""
    return decode_rate / prefill_rate


def split_rate_per_s(prefill: int, decode: int, prefill_rate: float, decode_rate: float) -> float:
    """What so many prefill and decode instances serve: what the slower pool does."""
    return min(prefill * prefill_rate, decode * decode_rate)


def busy_shares(prefill: int, decode: int, prefill_rate: float, decode_rate: float) -> tuple[float, float]:
    """The share of each pool's capacity that is used when the slower pool is full."""
    served = split_rate_per_s(prefill, decode, prefill_rate, decode_rate)
    return served / (prefill * prefill_rate), (served / (decode * decode_rate) if decode_rate else 0.0)


def best_split(total: int, prefill_rate: float, decode_rate: float) -> tuple[int, int]:
    """Of all ways to cut `total` (at least 2) instances into two pools the one that serves most; of equals that with more decode."""
    found = [(split_rate_per_s(p, total - p, prefill_rate, decode_rate), -p) for p in range(1, total)]
    return -max(found)[1], total + max(found)[1]


def unified_rate_per_s(total: int, prefill_rate: float, decode_rate: float) -> float:
    """What as many instances that do both can serve at most, as if neither phase ever hindered the other."""
    return total / (1 / prefill_rate + 1 / decode_rate) if decode_rate else 0.0


def price_of(price_per_hour: float, amount: float, unit: float) -> float:
    """Per hour for one `unit` of something of which a device has `amount`: PFLOP for FLOP/s, TB for bytes/s, GB for bytes."""
    return price_per_hour * unit / amount


def price_per_million(price_per_hour: float, per_s: float) -> float:
    """For a million of what an instance makes `per_s` of each second."""
    return price_per_hour / SECONDS_PER_HOUR / per_s * 1e6


def break_even_price(other_price: float, amount: float, other_amount: float) -> float:
    """Below this a device with so much is cheaper for the same amount than the other one at its price."""
    return other_price * amount / other_amount
