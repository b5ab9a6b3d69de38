"""The benchmark: this engine against Hugging Face's Llama with the same weights, and against the machine's limits.

Both run in this process, in turns (A B, B A, ...), so that a machine whose speed drifts treats them alike. What is
quoted is the median of the ratios pair by pair, with its spread. Our side is the real step of the serving engine:
batch building, paged KV, sampling included. The reference is used at its best: SDPA attention, logits for the last
position only, no generate() around it, and for decoding the quicker of its dynamic and its preallocated cache.
"""

import json
import os
import time
from collections.abc import Callable
from statistics import median

from engine.errors import LabError
from engine.lock import device_lock
from engine.measure.device import choose, choose_dtype, usable_cores
from engine.measure.limits import matmul_flops_per_s, read_bytes_per_s, synchroniser
from engine.measure.threads import OPENMP_SETTINGS

MODEL = "smollm2-135m-instruct"
PREFILL_TOKENS = (512, 1024, 2048, 4096)
DECODE_BATCHES = (1, 10)
DECODE_CONTEXT_TOKENS = 512
_DECODE_STEPS = 8


def run_bench(
    *,
    device: str = "auto",
    dtype: str = "auto",
    pairs: int = 7,
    progress: Callable[..., None] = lambda phase, done, **facts: None,
    wait: bool = True,
) -> dict:
    """Measure everything; returns the figures with units in their names.

    Raises LabError("bench-no-reference") without the `transformers` package, and whatever loading the model raises.
    """
    if pairs < 1:
        raise LabError("scenario-value", field="pairs", value=pairs, expected="at least 1")
    chosen = choose(device)
    dtype = choose_dtype(dtype, chosen)
    where = "cpu" if chosen.device_class == "cpu" else "cuda:0"
    threads = len(usable_cores())
    os.environ.update(OPENMP_SETTINGS)
    with device_lock(
        "cpu" if where == "cpu" else "cuda",
        "bench",
        wait=wait,
        on_wait=lambda holder: progress("waiting", 0.0, holder=holder),
    ):
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        progress("loading", 0.0)
        ours, reference, config = _both(where, dtype)
        difference = _logit_difference(ours, reference, where)
        progress("limits", 0.05)
        limits = {"matmul_flops_per_s": matmul_flops_per_s(where, dtype), "read_bytes_per_s": read_bytes_per_s(where)}
        figures = []
        jobs = [("prefill", n, 1) for n in PREFILL_TOKENS] + [("decode", DECODE_CONTEXT_TOKENS, b) for b in DECODE_BATCHES]
        for number, (kind, tokens, batch) in enumerate(jobs):
            progress(kind, 0.1 + 0.8 * number / len(jobs), tokens=tokens, batch=batch)
            pair = _prefill if kind == "prefill" else _decode
            figures.append(pair(ours, reference, config, limits, tokens, batch, pairs, where, chosen.device_class, dtype))
        progress("recorder", 0.95)
        decode_step_s = next(f["ours_s"] for f in figures if f["kind"] == "decode" and f["batch"] == max(DECODE_BATCHES))
        event_s = recorder_seconds_per_step(max(DECODE_BATCHES))
        progress("done", 1.0)
    return {
        "model": MODEL,
        "device": chosen.as_dict(),
        "dtype": dtype,
        "threads": threads,
        "pairs": pairs,
        "logit_difference_in_std": difference,
        "limits": limits,
        "figures": figures,
        "recorder": {
            "seconds_per_step": event_s,
            "step_s": decode_step_s,
            "share_of_step": event_s / decode_step_s,
        },
    }


def report(figures: dict) -> str:
    """The figures as lines a person reads."""
    limits, recorder = figures["limits"], figures["recorder"]
    lines = [
        f"{figures['model']} in {figures['dtype']} on {figures['device']['name']}, {figures['threads']} threads, "
        f"median of {figures['pairs']} alternated pairs",
        f"the two models' logits differ by at most {figures['logit_difference_in_std']:.1e} standard deviations",
        f"limits here: matmul {limits['matmul_flops_per_s'] / 1e9:.0f} GFLOP/s, reading {limits['read_bytes_per_s'] / 1e9:.1f} GB/s",
    ]
    for f in figures["figures"]:
        what = f"prefill {f['tokens']:5}" if f["kind"] == "prefill" else f"decode batch {f['batch']:2} at {f['tokens']}"
        share = (
            f"{f['share_of_matmul']:4.0%} of the matmul rate"
            if f["kind"] == "prefill"
            else f"{f['share_of_read']:4.0%} of the read rate"
        )
        low, high = f["ratio_spread"]
        lines.append(
            f"{what:24} {f['ours_s'] * 1e3:9.1f} ms, reference {f['reference_s'] * 1e3:9.1f} ms ({f['reference']}), "
            f"{f['ratio']:.2f} times its speed ({low:.2f} to {high:.2f}), {share}"
        )
    lines.append(
        f"recorder: {recorder['seconds_per_step'] * 1e9:.0f} ns a step of {recorder['step_s'] * 1e3:.1f} ms, "
        f"{recorder['share_of_step']:.3%}"
    )
    return "\n".join(lines)


def recorder_seconds_per_step(batch: int, steps: int = 2000) -> float:
    """What recording one decode step costs: building the record, JSON, and writing it into a pipe that is read."""
    import threading

    read_end, write_end = os.pipe()
    drain = threading.Thread(target=lambda: [None for _ in os.fdopen(read_end, "rb")], daemon=True)
    drain.start()
    out = os.fdopen(write_end, "w")
    begin = time.perf_counter()
    for step in range(steps):
        record = {
            "type": "step",
            "begin_ns": time.perf_counter_ns(),
            "end_ns": time.perf_counter_ns(),
            "slices": [[index, 500 + step, 1] for index in range(batch)],
            "prefill_tokens": 0,
            "decode_tokens": batch,
            "tokens": [[index, 12345, 3.2188] for index in range(batch)],
        }
        out.write(json.dumps(record, separators=(",", ":")) + "\n")
        out.flush()
    spent = time.perf_counter() - begin
    out.close()
    drain.join()
    return spent / steps


def _both(where: str, dtype: str):
    """Our transformer and the reference with the same weights in the same format."""
    import torch

    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        raise LabError("bench-no-reference") from error
    from engine.model.layout import fused_layout
    from engine.model.load import load_model

    number_format = getattr(torch, dtype)
    loaded = load_model(MODEL, device=where, dtype=number_format, pack=False)
    c = loaded.config
    settings = LlamaConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.hidden_size,
        intermediate_size=c.ffn_size,
        num_hidden_layers=c.n_layers,
        num_attention_heads=c.n_heads,
        num_key_value_heads=c.n_kv_heads,
        head_dim=c.head_dim,
        rms_norm_eps=c.norm_eps,
        max_position_embeddings=c.max_context,
        rope_theta=c.rope_theta,
        tie_word_embeddings=c.tie_embeddings,
        attn_implementation="sdpa",
    )
    fused = loaded.transformer.state_dict()
    parts = {}
    for name, pieces in fused_layout(c).items():
        for piece, tensor in zip(pieces, fused[name].split([p.shape[0] for p in pieces]), strict=True):
            parts[piece.name] = tensor.clone()
    with torch.device("meta"):
        reference = LlamaForCausalLM(settings)
    reference = reference.to_empty(device=where).to(number_format).eval()
    reference.load_state_dict(parts, strict=False)
    reference.tie_weights()
    reference.model.rotary_emb.__init__(settings)  # to_empty left its frequencies undefined
    reference.model.rotary_emb.to(where)
    return loaded.transformer.pack() if where == "cpu" else loaded.transformer, reference, c


def _logit_difference(ours, reference, where: str) -> float:
    """The largest difference of the two models' logits over 64 tokens, in standard deviations: are they one model?"""
    import torch

    from engine.model.transformer import causal_attend

    ids = torch.tensor(_ids(64, 3), device=where)
    our_logits = ours(ids, torch.arange(64, device=where), causal_attend).float()
    their_logits = reference(ids[None]).logits[0].float()
    return float((our_logits - their_logits).abs().max() / their_logits.std())


def _engine(ours, prompts: list[list[int]], where: str, device_class: str, dtype: str, room: int):
    """A runner and scheduler with these prompts waiting, as a worker builds them."""
    import torch

    from engine.kv.blocks import BLOCK_TOKENS, BlockPool, blocks_for
    from engine.kv.storage import KVStorage
    from engine.serving.policies import Limits, Unified
    from engine.serving.request import Request, Sequence
    from engine.serving.runner import TorchRunner
    from engine.serving.scheduler import Scheduler

    size = BLOCK_TOKENS[device_class]
    blocks = sum(blocks_for(len(prompt) + room, size) for prompt in prompts)
    storage = KVStorage(ours.config, blocks, size, device=where, dtype=getattr(torch, dtype))
    limits = Limits(max_prefill_tokens=sum(map(len, prompts)))
    scheduler = Scheduler(Unified(), BlockPool(blocks, size), limits)
    for index, prompt in enumerate(prompts):
        scheduler.submit(Sequence.begin(Request(index, tuple(prompt), room)))
    return TorchRunner(ours, storage), scheduler


def _step(runner, scheduler) -> None:
    plan = scheduler.next_plan()
    sampled, _ = runner.execute(plan, scheduler)
    scheduler.complete(plan, sampled)


def _ids(count: int, seed: int) -> list[int]:
    return [(17 * i + 1013 * seed) % 40_000 for i in range(count)]


def _prefill(ours, reference, config, limits, tokens, batch, pairs, where, device_class, dtype) -> dict:
    import torch

    prompt = _ids(tokens, 0)
    ids = torch.tensor([prompt], device=where)

    def our_step() -> float:
        runner, scheduler = _engine(ours, [prompt], where, device_class, dtype, 2)
        return _seconds(lambda: _step(runner, scheduler), where)

    def their_step() -> float:
        return _seconds(lambda: reference(ids, logits_to_keep=1, use_cache=True).logits[:, -1].argmax(-1).tolist(), where)

    flops = config.forward_flops(tokens)
    figure = _paired(our_step, {"dynamic cache": their_step}, pairs)
    return {
        "kind": "prefill",
        "tokens": tokens,
        "batch": batch,
        **figure,
        "flops": flops,
        "share_of_matmul": flops / figure["ours_s"] / limits["matmul_flops_per_s"],
    }


def _decode(ours, reference, config, limits, context, batch, pairs, where, device_class, dtype) -> dict:
    import torch
    from transformers import DynamicCache, StaticCache

    # A pair decodes a few steps on either side; room for all of them and the warm-up.
    room = (pairs + 2) * _DECODE_STEPS + 2
    prompts = [_ids(context, seed) for seed in range(batch)]
    runner, scheduler = _engine(ours, prompts, where, device_class, dtype, room)
    _step(runner, scheduler)
    ids = torch.tensor(prompts, device=where)

    def their_steps(cache) -> Callable[[], float]:
        state = {"next": reference(ids, cache=cache, logits_to_keep=1).logits[:, -1:].argmax(-1)}

        def some() -> None:
            for _ in range(_DECODE_STEPS):
                out = reference(state["next"], cache=cache, logits_to_keep=1)
                state["next"] = out.logits[:, -1:].argmax(-1)
                state["next"].tolist()  # the host needs the tokens, as ours does

        return lambda: _seconds(some, where) / _DECODE_STEPS

    def our_steps() -> float:
        return _seconds(lambda: [_step(runner, scheduler) for _ in range(_DECODE_STEPS)], where) / _DECODE_STEPS

    theirs = {
        "dynamic cache": their_steps(DynamicCache(config=reference.config)),
        "static cache": their_steps(StaticCache(config=reference.config, max_cache_len=context + room)),
    }
    figure = _paired(our_steps, theirs, pairs)
    value_bytes = getattr(torch, dtype).itemsize
    read = config.parameter_count() * value_bytes + batch * context * config.kv_bytes_per_token(value_bytes)
    return {
        "kind": "decode",
        "tokens": context,
        "batch": batch,
        **figure,
        "read_bytes": read,
        "share_of_read": read / figure["ours_s"] / limits["read_bytes_per_s"],
    }


def _paired(ours: Callable[[], float], theirs: dict[str, Callable[[], float]], pairs: int) -> dict:
    """Alternate; the ratio is reference time over our time, pair by pair, against the quickest reference."""
    ours()
    first = {name: run() for name, run in theirs.items()}
    name = min(first, key=first.get)
    our_s, their_s = [], []
    for number in range(pairs):
        if number % 2:
            their_s.append(theirs[name]())
            our_s.append(ours())
        else:
            our_s.append(ours())
            their_s.append(theirs[name]())
    ratios = [b / a for a, b in zip(our_s, their_s, strict=True)]
    return {
        "ours_s": median(our_s),
        "reference_s": median(their_s),
        "reference": name,
        "ratio": median(ratios),
        "ratio_spread": [min(ratios), max(ratios)],
    }


def _seconds(work: Callable[[], object], where: str) -> float:
    synchronise = synchroniser(where)
    synchronise()
    begin = time.perf_counter()
    work()
    synchronise()
    return time.perf_counter() - begin
