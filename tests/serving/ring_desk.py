"""What a rank's process does in tests: attention over random tensors, and whole tiny models. `python -m tests.serving.ring_desk`.

Everybody draws the same from the seed; a rank computes its own tokens on the ring, and all of them alone in plain float64.
"""

from engine.experiments.child import serve
from engine.experiments.ring_worker import _Rank


class Desk(_Rank):
    def load(self, **_settings) -> dict:
        import os

        import torch

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        self.worker = type("NoModel", (), {"device": "cpu"})
        return {"type": "loaded", "pid": os.getpid()}

    def join(self, **ring) -> dict:
        import torch.distributed as dist

        if dist.is_initialized():  # of the case before
            dist.destroy_process_group()
        return super().join(**ring)

    def attend(self, seed: int, parts: list, heads: int, kv_heads: int, head_dim: int, causal: bool, layers: int) -> dict:
        """How far this rank's output is from that of one process, and what it sent and kept."""
        import torch

        from engine.serving.ring import Passed, RingAttention, bytes_of

        parts = [tuple(map(tuple, part)) for part in parts]
        self.link.passed = Passed()
        attend, tokens = RingAttention(self.link, parts, causal), sum(end - begin for part in parts for begin, end in part)
        mine = torch.tensor([at for begin, end in parts[self.link.rank] for at in range(begin, end)], dtype=torch.int64)
        generator, worst = torch.Generator().manual_seed(seed), 0.0
        for layer in range(layers):
            q, k, v = (torch.randn(tokens, n, head_dim, generator=generator) for n in (heads, kv_heads, kv_heads))
            q *= 3  # scores that spread: a key too many or too few shows
            found = attend(layer, q[mine], k[mine], v[mine])
            worst = max(worst, float((found - plain(q, k, v, causal)[mine]).abs().max()) if len(mine) else 0.0)
            kept = torch.stack((k[mine], v[mine]))
            worst = worst if torch.equal(attend.kv[layer], kept) else float("inf")
        passed = self.link.passed
        return {
            "type": "attended",
            "difference": worst,
            "sent": passed.sent_bytes,
            "received": passed.received_bytes,
            "kv": bytes_of(*attend.kv),
            "buffers": bytes_of(*attend.buffers),
            "pairs": [r.pairs for r in attend.rounds],
            "in_order": all(r.compute_ns[0] <= r.compute_ns[1] <= r.waited_until_ns for r in attend.rounds)
            and all(r.communication_ns[0] <= r.compute_ns[0] for r in attend.rounds if r.communication_ns),
        }

    def model(self, seed: int, config: dict, tokens: int, layout: str) -> dict:
        """Logits of a random model: largest difference to those of one process, their spread."""
        import torch

        from engine.formulas.ring import pieces
        from engine.model.config import ModelConfig
        from engine.model.transformer import Transformer, causal_attend
        from engine.serving.ring import RingAttention

        model = Transformer.random(ModelConfig(**config), seed=seed)
        ids = torch.randint(0, config["vocab_size"], (tokens,), generator=torch.Generator().manual_seed(seed))
        parts = pieces(tokens, self.link.ranks, layout)
        mine = torch.tensor([at for begin, end in parts[self.link.rank] for at in range(begin, end)])
        wanted = model(ids, torch.arange(tokens), causal_attend)
        found = model(ids[mine], mine, RingAttention(self.link, parts))
        return {"type": "computed", "difference": float((found - wanted[mine]).abs().max()), "std": float(wanted.std())}

    def wait_for_nothing(self) -> dict:
        """As a rank that is in the middle of a layer when its neighbour never comes."""
        import torch

        self.tell({"type": "waiting"})
        self.link.begin(torch.zeros(4), torch.zeros(4), tag=77)
        self.link.end()
        return {"type": "never"}

    def sleep(self) -> dict:
        import time

        self.tell({"type": "waiting"})
        time.sleep(600)
        return {"type": "never"}


def plain(q, k, v, causal: bool):
    """Attention as it is written down (Vaswani et al. 2017, section 3.2.1), in float64."""
    import torch

    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1).double() for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).float()


if __name__ == "__main__":
    serve(Desk)
