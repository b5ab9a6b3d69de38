"""The process with attention and without: `python -m engine.experiments.recurrent_worker`. It loads no model.

    {"type": "load", ...} as a worker's                  ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "forms", "heads", "dim", "tokens", ...}     ->  {"type": "compared", "differences"}
    {"type": "hold", "mechanism", "tokens", ...}         ->  {"type": "held", "bytes", "rss_bytes"}
    {"type": "step", "mechanism", "steps"}               ->  {"type": "stepped", "ms"}
    {"type": "drop"}                                     ->  {"type": "dropped"}
    {"type": "ask", "mechanism", "pairs", "key_dim",     ->  {"type": "asked", "right", "by_age"}
     "rewritten", ...}

A mechanism holds what decoding after so many tokens needs: softmax the keys and values of them all, the others a state. Keys,
values and queries are drawn; the tokens are really written, piece by piece, as a prefill would.
"""

import os
import time
from statistics import median

import psutil

from engine.experiments.child import Desk, serve
from engine.experiments.recurrent_scenario import DECAY, DELTA, SOFTMAX, VALUES
from engine.serving.worker import YIELDING

CHUNK = 64
# So many tokens are drawn, and written again and again until the length is reached: drawing takes longer than writing.
_PIECE = 2048
_WARM_STEPS = 3
AGES = 4


class _Bench(Desk):
    def load(self, cores: list[int], device: str, dtype: str, threads: int, **_of_a_model) -> dict:
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)  # before torch starts its threads, which inherit it
        os.nice(YIELDING)
        import torch

        self.tell({"type": "loading"})
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch, self.device, self.dtype, self.held = torch, device, getattr(torch, dtype), {}
        on_gpu = device.startswith("cuda")
        self.sync = torch.cuda.synchronize if on_gpu else lambda: None
        name = torch.cuda.get_device_name() if on_gpu else None
        return {"type": "loaded", "pid": os.getpid(), "load_s": 0.0, "threads": threads, "torch": torch.__version__, "device_name": name}

    def forms(self, heads: int, dim: int, tokens: int, decay: float, seed: int) -> dict:
        """Of each rule how far its recurrent and its chunked form are from the parallel one, over the outputs' deviation; fp32."""
        from engine.model.linear_attention import chunked, parallel, recurrent

        found = {}
        for rule in ("sum", DECAY, DELTA):
            q, k, v = self._drawn(heads, tokens, dim, seed)
            how = self._rule(rule, heads, tokens, decay)
            whole = parallel(q, k, v, how)
            others = {"recurrent": recurrent(q, k, v, how)[0], "chunked": chunked(q, k, v, how, chunk=CHUNK)[0]}
            found[rule] = {name: float((one - whole).abs().max() / whole.std()) for name, one in others.items()}
        return {"type": "compared", "differences": found}

    def hold(self, mechanism: str, tokens: int, layers: int, heads: int, kv_heads: int, dim: int, decay: float, seed: int) -> dict:
        before = self._memory()
        made = _Cache if mechanism == SOFTMAX else _State
        self.held[mechanism] = made(self, mechanism, tokens, layers, heads, kv_heads, dim, decay, seed)
        return {"type": "held", "bytes": self.held[mechanism].bytes, "rss_bytes": max(0, self._memory() - before)}

    def step(self, mechanism: str, steps: int) -> dict:
        """The median of so many decode steps of all layers, in milliseconds."""
        cache, taken = self.held[mechanism], []
        for _ in range(_WARM_STEPS):
            cache.step()
        for _ in range(steps):
            self.sync()
            begin = time.perf_counter_ns()
            cache.step()
            self.sync()
            taken.append((time.perf_counter_ns() - begin) / 1e6)
        return {"type": "stepped", "ms": median(taken)}

    def drop(self) -> dict:
        self.held.clear()
        if self.device.startswith("cuda"):
            self.torch.cuda.empty_cache()
        return {"type": "dropped"}

    def ask(self, mechanism: str, pairs: int, key_dim: int, rewritten: bool, trials: int, decay: float, seed: int) -> dict:
        """Write pairs of a key and one of VALUES values, then ask for every key: how many answers are right, in all and from
        the oldest part of the pairs to the newest. Keys have length 1; an answer is the value nearest to what comes out.

        rewritten: each key gets a value first that is replaced later, and the later one is asked for.
        """
        from engine.model.linear_attention import chunked

        torch, f = self.torch, self.torch.nn.functional
        make = torch.Generator().manual_seed(seed)
        keys = f.normalize(torch.randn(trials, pairs, key_dim, generator=make), dim=-1).to(self.device)
        values = f.normalize(torch.randn(VALUES, VALUES, generator=make), dim=-1).to(self.device)
        wanted = torch.randint(VALUES, (trials, pairs), generator=make).to(self.device)
        asked, written = keys, values[wanted]
        if rewritten:
            former = torch.randint(VALUES, (trials, pairs), generator=make).to(self.device)
            keys, written = torch.cat([keys, keys], 1), torch.cat([values[former], written], 1)
        if mechanism == SOFTMAX:
            # A model's own scale: keys and queries of numbers around 1 make scores of about the root of key_dim.
            attend = f.scaled_dot_product_attention
            # One trial after another: the scores of all of them at once are gigabytes where many pairs are asked for.
            parts = [attend(*(part[at : at + 1] for part in (asked, keys, written)), scale=key_dim**0.5) for at in range(trials)]
            answers = torch.cat(parts)
        else:
            _, state = chunked(keys, keys, written, self._rule(mechanism, trials, keys.shape[1], decay), chunk=CHUNK)
            answers = asked @ state
        right = ((answers @ values.T).argmax(-1) == wanted).float()
        ages = [part.mean().item() for part in right.tensor_split(AGES, dim=1)] if pairs >= AGES else None
        return {"type": "asked", "right": int(right.sum()), "by_age": ages}

    def _drawn(self, heads: int, tokens: int, dim: int, seed: int) -> list:
        """q, k, v [heads, tokens, dim] in float32; keys of length 1."""
        make = self.torch.Generator().manual_seed(seed)
        q, k, v = (self.torch.randn(heads, tokens, dim, generator=make).to(self.device) for _ in range(3))
        return [q, self.torch.nn.functional.normalize(k, dim=-1), v]

    def _rule(self, mechanism: str, heads: int, tokens: int, decay: float):
        from engine.model.linear_attention import Rule

        size = {"size": (heads, tokens), "device": self.device}
        logs = self.torch.full(fill_value=decay, **size).log() if mechanism == DECAY else None
        return Rule(logs, self.torch.full(fill_value=1.0, **size) if mechanism == DELTA else None)

    def _memory(self) -> int:
        """Bytes that the process has (resident), or that torch has taken of the GPU."""
        if self.device.startswith("cuda"):
            return self.torch.cuda.memory_allocated()
        return psutil.Process().memory_info().rss


class _Cache:
    """Keys and values of every token, as decoding with softmax needs them."""

    def __init__(self, bench: _Bench, _mechanism: str, tokens: int, layers: int, heads: int, kv_heads: int, dim: int, _decay: float, seed: int):
        from engine.model.attention import decode_attention

        self.attend = decode_attention
        place = {"dtype": bench.dtype, "device": bench.device}
        q, k, v = (part.to(bench.dtype) for part in bench._drawn(kv_heads, min(tokens, _PIECE), dim, seed))
        self.q = q.new_ones(heads, dim)
        self.memory = bench.torch.empty(layers, 2, kv_heads, tokens, dim, **place)
        for begin in range(0, tokens, _PIECE):
            end = min(begin + _PIECE, tokens)
            self.memory[:, 0, :, begin:end] = k[:, : end - begin]
            self.memory[:, 1, :, begin:end] = v[:, : end - begin]

    @property
    def bytes(self) -> int:
        return self.memory.untyped_storage().nbytes()

    def step(self) -> None:
        """The newest token takes the place of the last one, so that every step is of the same length."""
        for layer in self.memory:
            layer[:, :, -1] = 1.0
            self.attend(self.q, layer[0], layer[1])


class _State:
    """One matrix for each layer and KV head, into which all tokens have been written."""

    def __init__(self, bench: _Bench, mechanism: str, tokens: int, layers: int, heads: int, kv_heads: int, dim: int, decay: float, seed: int):
        from engine.model.linear_attention import chunked, step

        self.write = step
        q, k, v = bench._drawn(kv_heads, min(tokens, _PIECE), dim, seed)
        rule, state = bench._rule(mechanism, kv_heads, min(tokens, _PIECE), decay), None
        for begin in range(0, tokens, _PIECE):
            n = min(_PIECE, tokens - begin)
            _, state = chunked(q[:, :n], k[:, :n], v[:, :n], rule.part(0, n), chunk=CHUNK, state=state)
        # Every layer is given the same tokens: what the numbers are does not change what a step costs.
        self.memory = state.to(bench.dtype).expand(layers, *state.shape).clone()
        self.q = q[:, :1].to(bench.dtype).expand(kv_heads, heads // kv_heads, dim).contiguous()
        self.k, self.v = k[:, 0].to(bench.dtype), v[:, 0].to(bench.dtype)
        self.decay = None if rule.log_decay is None else rule.log_decay[:, 0].exp().to(bench.dtype)
        self.beta = None if rule.beta is None else rule.beta[:, 0].to(bench.dtype)

    @property
    def bytes(self) -> int:
        return self.memory.untyped_storage().nbytes()

    def step(self) -> None:
        for layer in self.memory:
            self.write(layer, self.q, self.k, self.v, self.decay, self.beta)


if __name__ == "__main__":
    serve(_Bench)
