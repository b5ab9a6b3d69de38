"""The transfer experiment: KV that one process computed goes to another one, which goes on with it.

Two processes of this one (`transfer_worker`), as the pools of disaggregated serving have them: one prefills, one decodes, each
with its share of the cores, or a GPU. What is sent lies in memory that both see, in one of the formats of
`engine.kv.quantised`, with a checksum. The result, beside format, kind, run_id, provenance and manifest:

    rows      of each length and format {"tokens", "format", "bytes": {"payload", "scales", "total"} as sent, "quantise_s",
              "move_s", "dequantise_s", "checksum_s" of both sides, "kl" of the exact predictions from those made with what
              arrived, nats per token, "perplexity" of the real tokens behind the prompt, "exact_perplexity", "continuation",
              "same_tokens": how many of the first generated tokens are the exact cache's}. All lengths end at the same token
    exact     {"continuation" of the longest, "by_tokens": {length: {"prefill_s", "perplexity", "continuation"}}}: of the cache
              that was not sent
    link      of the rows: {"name": "memory" | "emulated", "bytes_per_s" of copies between the processes, "asked_bytes_per_s":
              None for memory, "measured_bytes_per_s" of the largest transfer}
    overlap   of the longest prompt, exact, {"tokens", "format", "link" as above, "prefill_s", "transfer_s": from the prefill's end
              until all is there, "whole_s" both one after the other, "layerwise_s": both at once, "layerwise_prefill_s",
              "hidden_share" of the transfer, "parts": [{"layers": [from, to), "published": [begin, end], "moved": [begin,
              end]}], seconds from the prefill's begin}; None without layerwise

An emulated link holds back what is faster than it would be: parts queue on it, and a copy is there when both say so.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.errors import LabError
from engine.experiments.child import Child, load_record, started
from engine.experiments.curves import perplexity
from engine.experiments.manifest import FORMAT, Begun, about_text, begin, origin
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.plan import Ground, ground
from engine.experiments.scenarios import new_run_id
from engine.experiments.streaming import tokens_from
from engine.experiments.transfer_scenario import TRANSFER, TransferScenario
from engine.formulas.kv import Attention, KvBytes, kv_bytes
from engine.lock import device_lock
from engine.measure import disturbance
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import Tokenizer
from engine.serving.cluster import shared_folder
from engine.serving.deployment import WorkerSpec
from engine.serving.process import measured_clock_offset_ns
from engine.texts import Text, load_text

MODULE = "engine.experiments.transfer_worker"
# Layer by layer means so many parts: as in serving.
LAYER_PARTS = 6
_EXACT = {"float32": "fp32", "bfloat16": "bf16"}


@dataclass(frozen=True)
class TransferPlan:
    """What will be sent, between whom. ids: the longest prompt, and behind it what is scored; specs: prefill, decode."""

    setup: Ground
    text: Text
    tokenizer: Tokenizer
    ids: tuple[int, ...]
    longest: int
    specs: tuple[WorkerSpec, WorkerSpec]

    @property
    def exact(self) -> str:
        """The format that the cache itself has."""
        return _EXACT[self.setup.dtype]

    def prompt(self, tokens: int) -> list[int]:
        """They all end at the same token, so that the same ones are foreseen from all."""
        return list(self.ids[self.longest - tokens : self.longest])

    def bytes(self, tokens: int, dtype: str) -> KvBytes:
        config = self.setup.card.config
        return kv_bytes([Attention(config.n_layers, config.n_kv_heads, config.head_dim, config.head_dim)], tokens, dtype)


def run_transfer(
    scenario: TransferScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Send prompts' KV in every format; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading and measuring; while measuring the facts are
    tokens (the prompt's) and policy: "prefill", a format, "quality" or "overlap".
    on_plan, on_record: told what there is while it grows (`engine.service.live`): {"lengths", "formats"}, then each row as a
    cell, without its quality (None) until that is known.
    cluster_for: as other experiments have it, unused.
    Raises LabError (what `ground` and `load_text` raise; "text-too-short", "prompt-exceeds-model", "kv-memory"; of a process
    "worker-died", "transfer-corrupted" and others), or `engine.serving.cluster.Cancelled`. No process is left then.
    """
    plan = plan_transfer(scenario)
    lock = {"wait": wait, "cancelled": cancelled, "on_wait": lambda holder: progress("waiting", 0.0, holder=holder)}
    with device_lock(plan.setup.lock_name, TRANSFER, **lock):
        begun = begin()
        with _sides(plan, scenario, progress, cancelled) as (sender, receiver, pids):
            on_plan({"lengths": sorted(scenario.lengths), "formats": list(scenario.formats)})
            run = _Run(plan, scenario, sender, receiver, progress, on_record)
            cores = {core for spec in plan.specs for core in spec.cores}
            before = disturbance.take_sample(pids, cores)
            found = run.everything()
            judged = disturbance.judge(before, disturbance.take_sample(pids, cores))
    return {**_head(plan, scenario, begun, run_id), **found, "disturbance": disturbance.overall({TRANSFER: [judged]})}


def plan_transfer(scenario: TransferScenario) -> TransferPlan:
    """Check everything that can be checked before a process starts. Raises LabError."""
    setup, text = ground(scenario), load_text(scenario.text)
    longest, behind = max(scenario.lengths), scenario.scored + 1
    most = setup.card.config.max_context
    if longest + max(behind, scenario.continue_tokens) > most:
        facts = {"prompt_tokens": longest, "output_tokens": max(behind, scenario.continue_tokens), "max_context": most}
        raise LabError("prompt-exceeds-model", kind=TRANSFER, **facts)
    tokenizer = load_tokenizer(scenario.model)
    ids = tokens_from(tokenizer, text.text, scenario.seed, longest + behind)
    if len(ids) < longest + behind:
        raise LabError("text-too-short", name=text.name, tokens=len(ids), needed=longest + behind)
    pools = setup.deployment.entry("disaggregated")[0], setup.deployment.decode("disaggregated")[0]
    return TransferPlan(setup, text, tokenizer, ids, longest, pools)


def _head(plan: TransferPlan, scenario: TransferScenario, begun: Begun, run_id: str | None) -> dict:
    return {
        "format": FORMAT,
        "kind": TRANSFER,
        "run_id": run_id or new_run_id(),
        "provenance": "measured",
        "manifest": {**origin(plan.setup, scenario, begun, seed=scenario.seed), "text": about_text(plan.text)},
    }


@contextmanager
def _sides(plan: TransferPlan, scenario: TransferScenario, progress: Progress, cancelled: Callable[[], bool]) -> Iterator[tuple]:
    """The process that prefills and the one that decodes, ready, with memory that both see; and their ids."""
    with started(MODULE, plan.specs[0], cancelled) as sender, started(MODULE, plan.specs[1], cancelled) as receiver:
        progress("starting-workers", 0.0)
        pids = []
        receiver.process.send(load_record(plan.setup, plan.specs[1]))  # both at once
        pids.append(sender.ask(load_record(plan.setup, plan.specs[0]), "loaded", lambda _: progress("loading", 0.0))["pid"])
        pids.append(_heard(receiver, "loaded")["pid"])
        for side in (sender, receiver):
            measured_clock_offset_ns(side.process.spec.name, lambda side=side: side.ask({"type": "ping"}, "pong")["now_ns"])
        _share_memory(plan, scenario, sender, receiver)
        yield sender, receiver, pids


def _share_memory(plan: TransferPlan, scenario: TransferScenario, sender: Child, receiver: Child) -> None:
    """For the KV on its way, and for the exact predictions that others are compared with."""
    size = max(plan.bytes(plan.longest, dtype).total for dtype in {*scenario.formats, plan.exact})
    files = {"kv": size, "logs": scenario.scored * plan.setup.card.config.vocab_size * 4}
    folder = shared_folder(sum(files.values()))
    try:
        for name, length in files.items():
            with (folder / name).open("wb") as file:
                file.truncate(length)
        asked = {"type": "open", "file": str(folder / "kv"), "size": size, "logs": str(folder / "logs"), "scored": scenario.scored}
        asked |= {"tokens": plan.longest + max(scenario.scored, scenario.continue_tokens), "block_tokens": plan.setup.block_tokens}
        for side, caches in ((sender, 1), (receiver, len(scenario.formats))):
            side.ask({**asked, "caches": caches}, "opened")
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # both have it mapped by now: without a name it cannot outlive them


def _heard(side: Child, wanted: str, on_other: Callable[[dict], None] = lambda record: None) -> dict:
    """What a process was asked before, once it has told it: it answers one question after the other."""
    kept = []

    def see(record: dict) -> None:
        kept.append(record) if record["type"] == wanted else on_other(record)

    side.ask({"type": "ping"}, "pong", see)
    return kept[-1]


@dataclass
class _Run:
    """Asks both processes; rows grow as it goes."""

    plan: TransferPlan
    scenario: TransferScenario
    sender: Child
    receiver: Child
    progress: Progress
    on_record: OnRecord
    rows: list[dict] = field(default_factory=list)
    exact: dict[str, dict] = field(default_factory=dict)
    fastest: float = 0.0
    largest: tuple[int, float] = (0, 0.0)
    worked: int = 0

    def everything(self) -> dict:
        overlap = None
        for tokens in sorted(self.scenario.lengths):
            prefilled = self._prefill(tokens)
            whole = self._whole(tokens, prefilled) if self.scenario.layerwise and tokens == self.plan.longest else None
            rows = self._transfers(tokens)
            self._quality(tokens, prefilled, rows)
            if whole:
                overlap = self._layerwise(tokens, whole)
        texts = {"continuation": self.exact[str(self.plan.longest)]["continuation"], "by_tokens": self.exact}
        return {"rows": self.rows, "exact": texts, "link": self._link(), "overlap": overlap}

    def _prefill(self, tokens: int) -> dict:
        self._tell(tokens, "prefill")
        asked = {"type": "prefill", "ids": self.plan.prompt(tokens), "dtype": None, "layers_each": 1}
        prefilled = self.sender.ask(asked, "prefilled")
        self.worked += tokens
        return prefilled

    def _transfers(self, tokens: int) -> list[dict]:
        """In every format, one after another, each into a cache of its own."""
        self.receiver.ask({"type": "over", "bytes_per_s": self.scenario.link_bytes_per_s}, "linked")
        rows = []
        for cache, dtype in enumerate(self.scenario.formats):
            self._tell(tokens, dtype)
            part = self.sender.ask({"type": "publish", "tokens": tokens, "dtype": dtype}, "part")
            moved = self._moved(part, cache)
            self.fastest = max(self.fastest, part["size"] / (part["stage_s"] + moved["copy_s"]))
            self.largest = max(self.largest, (part["size"], part["stage_s"] + moved["move_s"]))
            of = self.plan.bytes(tokens, dtype)
            row = {
                "tokens": tokens,
                "format": dtype,
                "bytes": {"payload": of.payload, "scales": part["size"] - of.payload, "total": part["size"]},
                "quantise_s": _seconds(part["quantise_s"]),
                "move_s": _seconds(part["stage_s"] + moved["move_s"]),
                "dequantise_s": _seconds(moved["dequantise_s"]),
                "checksum_s": _seconds(part["checksum_s"] + moved["checksum_s"]),
            }
            rows.append({**row, **dict.fromkeys(("kl", "perplexity", "exact_perplexity", "continuation", "same_tokens"))})
            self._show(rows[-1])
        return rows

    def _quality(self, tokens: int, prefilled: dict, rows: list[dict]) -> None:
        """What was lost on the way. Both processes work at once: here nothing is timed."""
        count, formats, decode = self.scenario.continue_tokens, len(rows), self.plan.tokenizer.decode
        self._tell(tokens, "quality")
        more = {"type": "extend", "start": tokens, "token": prefilled["token"], "count": count}
        behind = list(self.plan.ids[self.plan.longest : self.plan.longest + self.scenario.scored + 1])
        scored = {"type": "score", "start": tokens, "ids": behind}
        self.sender.process.send({**more, "caches": 1})
        made = self.receiver.ask({**more, "caches": formats}, "extended")["tokens"]
        (wanted,) = _heard(self.sender, "extended")["tokens"]
        exact = perplexity([self.sender.ask({**scored, "cache": 0, "reference": True}, "scored")["loss"]])
        self.exact[str(tokens)] = {
            "prefill_s": _seconds((prefilled["end_ns"] - prefilled["begin_ns"]) / 1e9),
            "perplexity": exact,
            "continuation": decode([prefilled["token"], *wanted]),
        }
        for cache, row in enumerate(rows):
            found = self.receiver.ask({**scored, "cache": cache, "reference": False}, "scored")
            row |= {
                "kl": max(0.0, round(found["kl"], 9)),
                "perplexity": perplexity([found["loss"]]),
                "exact_perplexity": exact,
                "continuation": decode([prefilled["token"], *made[cache]]),
                "same_tokens": same_first(wanted, made[cache]),
            }
            self._show(row)
            self.worked += self.scenario.scored + count
            self._tell(tokens, "quality")
        self.rows += rows

    def _whole(self, tokens: int, prefilled: dict) -> dict:
        """All of it once the prefill has ended: directly behind it."""
        size, prefill_s = self.plan.bytes(tokens, self.plan.exact).total, (prefilled["end_ns"] - prefilled["begin_ns"]) / 1e9
        asked = self.scenario.link_bytes_per_s or size / prefill_s
        part = self.sender.ask({"type": "publish", "tokens": tokens, "dtype": self.plan.exact}, "part")
        self.receiver.ask({"type": "over", "bytes_per_s": asked}, "linked")
        moved = self._moved(part, 0)
        rate = size * 1e9 / (moved["moved_ns"][1] - part["published_ns"][1])
        return {
            "link": {"name": "emulated", "asked_bytes_per_s": round(asked), "measured_bytes_per_s": round(rate)},
            "prefill_s": _seconds(prefill_s),
            "transfer_s": _seconds((moved["moved_ns"][1] - prefilled["end_ns"]) / 1e9),
            "whole_s": _seconds((moved["moved_ns"][1] - prefilled["begin_ns"]) / 1e9),
        }

    def _layerwise(self, tokens: int, whole: dict) -> dict:
        """Another prefill, during which layers go as soon as they are there."""
        self._tell(tokens, "overlap")
        self.receiver.ask({"type": "over", "bytes_per_s": whole["link"]["asked_bytes_per_s"]}, "linked")
        each = -(-self.plan.setup.card.config.n_layers // LAYER_PARTS)
        asked = {"type": "prefill", "ids": self.plan.prompt(tokens), "dtype": self.plan.exact, "layers_each": each}
        sent, arrived = [], []

        def pass_on(part: dict) -> None:
            sent.append(part)
            self.receiver.process.send(_taking(part, 0))

        prefilled = self.sender.ask(asked, "prefilled", pass_on)
        self.receiver.ask({"type": "ping"}, "pong", arrived.append)
        zero = prefilled["begin_ns"]
        end_ns = max(prefilled["end_ns"], arrived[-1]["moved_ns"][1])
        layerwise_s = (end_ns - zero) / 1e9
        parts = [
            {"layers": part["layers"], "published": _since(zero, part["published_ns"]), "moved": _since(zero, moved["moved_ns"])}
            for part, moved in zip(sent, arrived, strict=True)
        ]
        return {
            "tokens": tokens,
            "format": self.plan.exact,
            **whole,
            "layerwise_s": _seconds(layerwise_s),
            "layerwise_prefill_s": _seconds((prefilled["end_ns"] - zero) / 1e9),
            "hidden_share": round((whole["whole_s"] - layerwise_s) / whole["transfer_s"], 4),
            "parts": parts,
        }

    def _moved(self, part: dict, cache: int) -> dict:
        return self.receiver.ask(_taking(part, cache), "moved")

    def _link(self) -> dict:
        asked = self.scenario.link_bytes_per_s
        size, seconds = self.largest
        return {
            "name": "emulated" if asked else "memory",
            "bytes_per_s": round(self.fastest),
            "asked_bytes_per_s": round(asked) if asked else None,
            "measured_bytes_per_s": round(size / seconds),
        }

    def _show(self, row: dict) -> None:
        self.on_record(f"{row['tokens']} {row['format']}", 0, {"type": "cell", **row})

    def _tell(self, tokens: int, what: str) -> None:
        scenario = self.scenario
        each = len(scenario.formats) * (scenario.scored + scenario.continue_tokens)
        work = sum(scenario.lengths) + len(scenario.lengths) * each + scenario.layerwise * self.plan.longest
        self.progress("measuring", min(1.0, self.worked / work), policy=what, tokens=tokens)


def same_first(wanted: list[int], made: list[int]) -> int:
    """How many tokens are the same before the first that is not."""
    pairs = zip(wanted, made, strict=True)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), len(wanted))


def _taking(part: dict, cache: int) -> dict:
    """What the process that decodes is asked about a part."""
    return {name: part[name] for name in ("type", "tokens", "dtype", "layers", "published_ns", "size", "crc32")} | {"cache": cache}


def _since(zero: int, span: list[int]) -> list[float]:
    return [_seconds((at - zero) / 1e9) for at in span]


def _seconds(value: float) -> float:
    return round(value, 6)
