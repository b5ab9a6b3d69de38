"""An instance of a pool: GPUs that serve one copy of a model together. What it prefills and decodes a second, from profiles. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine import profiles
from engine.formulas import pools
from engine.formulas.memory import request_bytes, requests_that_fit, room_bytes
from engine.profiles import DeviceProfile, ModelProfile

# Assumed, and said on the page: what of the peaks is reached, and what of the memory is left for activations and the runtime.
COMPUTE_SHARE, READ_SHARE, RESERVE = 0.5, 0.7, 0.1
BYTES_PER_VALUE, DTYPE = 2, "bf16"


@dataclass(frozen=True)
class Decoding:
    """Steady decode: `fit` requests have room, `within` meet the target; batch is the smaller one, rate its requests a second.
    step_s: a token's time, of one request alone where none is possible."""

    fit: int
    within: int
    step_s: float
    rate: float

    @property
    def batch(self) -> int:
        return min(self.fit, self.within)


@dataclass(frozen=True)
class Instance:
    model: ModelProfile
    device: DeviceProfile
    devices: int

    @property
    def flops_per_s(self) -> float:
        return self.device.bf16_flops_per_s * COMPUTE_SHARE * self.devices

    @property
    def bytes_per_s(self) -> float:
        return self.device.memory_bytes_per_s * READ_SHARE * self.devices

    @property
    def weights(self) -> int:
        return self.model.weight_bytes(BYTES_PER_VALUE)

    @property
    def room(self) -> int:
        """Bytes left for requests; 0 or less: the weights do not fit."""
        return room_bytes(self.device.capacity_bytes * self.devices, self.weights, RESERVE)

    @property
    def least_devices(self) -> int:
        """So many that weights and reserve fit, and some room is left."""
        return int(self.weights / (self.device.capacity_bytes * (1 - RESERVE))) + 1

    def kv_bytes(self, tokens: int) -> int:
        return request_bytes(self.model.groups, tokens, DTYPE)

    def prompt_s(self, tokens: int) -> float:
        return self.model.prefill_flops(tokens) / self.flops_per_s

    def costs(self, prompt: int, output: int) -> tuple[float, float, float, float, float]:
        """Of a decode step, as `engine.formulas.pools` takes them. What a request reads is the mean of its lengths: half of
        the answer is there."""
        mean, model = prompt + output // 2, self.model
        head = model.hidden_size * model.vocab_size
        flops = pools.token_flops(model.matrix_parameters + head, model.layers, model.heads, model.head_dim, mean)
        return self.weights, self.kv_bytes(mean), flops, self.bytes_per_s, self.flops_per_s

    def decoding(self, prompt: int, output: int, target_s: float) -> Decoding:
        """Each request has room for its whole length."""
        if self.room <= 0:
            return Decoding(0, 0, 0.0, 0.0)
        costs = self.costs(prompt, output)
        fit = requests_that_fit(self.room, self.kv_bytes(prompt + output))
        within = pools.batch_within(target_s, *costs)
        batch = min(fit, within)
        step = pools.decode_step_s(max(batch, 1), *costs)
        return Decoding(fit, within, step, pools.decode_rate_per_s(batch, step, output))


def models() -> dict[str, ModelProfile]:
    """Those whose operations are counted here: dense ones."""
    return {name: model for name, model in profiles.models().items() if model.dense and model.parameters}
