"""The streaming experiment: one text read through caches of a fixed size, how well each foresees the next token, what it costs.

StreamingLLM: Xiao et al. 2023, arXiv 2309.17453, sections 3 and 4. A child process of its own reads (`streaming_worker`);
what is read, and what the result says of it, is decided here, without torch. The result, beside format, kind, run_id,
provenance and manifest:

    tokens           how many were read; window: tokens of each cache, the sinks included
    first_eviction   the text position of the token that evicts for the first time: `window`
    curves           {name: {"policy", "bins": [[from, to, mean loss in nats], ...], "perplexity_after": of all losses behind
                     the first eviction, "sampled": null, or {"every", "points"} where only some losses are known,
                     "perplexity_at_sampled": at the places where "recompute" is sampled, or null, "seconds"}}; names are
                     dense, window, sinks-4 and so on, recompute, h2o. Item i of the losses is that of token i + 1
    sampled_at       the items of the losses at which "recompute" is sampled
    table            [{"sinks", "perplexity_after"}], 0 for the window alone
    dense            the perplexity of "dense" behind the place of the first eviction
    cost             {name: {"ms_per_token": [[tokens so far, median ms], ...], "kv_bytes": [[tokens, bytes of owned blocks],
                     ...], "rss_bytes": [[tokens, of the process], ...]}} of caches that really are as large as they say
    agreement        {"name", "tokens", "largest_difference", "mean_difference"}: losses of the cache that really evicts
                     against those of the curve of the same policy, in nats; null without such a cache

"dense", "window" and "sinks-n" are computed under a mask that equals the cache token by token (`engine.kv.masked`), h2o by
its own rule, recompute by reading the last `window` tokens anew at each sampled point.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import LabError
from engine.experiments.child import Bench, alone
from engine.experiments.curves import bin_edges, binned, perplexity, sampled_points
from engine.experiments.manifest import about_text
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.plan import Ground, ground
from engine.experiments.streaming_scenario import DENSE, H2O, LEAST_AFTER, RECOMPUTE, SINKS, WINDOW, StreamingScenario
from engine.kv.eviction import Eviction, Full, Sinks, Window, as_dict
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import Tokenizer
from engine.texts import Text, load_text

MODULE = "engine.experiments.streaming_worker"
# Of a text, so many characters at most are looked at for each token wanted.
_CHARACTERS_PER_TOKEN = 64
# One point of the cost curves is the median of so many tokens.
COST_TOKENS = 10
# What the facts of the progress call the caches that really evict; and how many tokens of a chunk one alone takes as long as.
CACHE = "cache"
_ALONE = 16


@dataclass(frozen=True)
class StreamingPlan:
    """What will be read. ids: the text's tokens; policies: by the names of the curves that are computed under a mask."""

    setup: Ground
    text: Text
    ids: tuple[int, ...]
    policies: dict[str, Eviction]
    every: int
    points: tuple[int, ...]
    decodes: tuple[tuple[int, int], ...]

    @property
    def losses(self) -> int:
        return len(self.ids) - 1


def run_streaming(
    scenario: StreamingScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Read a text through every cache; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading and measuring; while measuring the facts
    are policy (the curve's name, or "cache" for what really evicts), tokens done, and of how many.
    on_plan, on_record: told what there is while the curves grow (`engine.service.live`): {"tokens", "window",
    "first_eviction"}, then of each curve, named by it, {"type": "curve", "policy", "bins", "perplexity_after"} so far.
    cluster_for: as other experiments have it, unused.
    Raises LabError (what `ground` and `load_text` raise; "text-too-short"), or `engine.serving.cluster.Cancelled`.
    """
    plan = plan_streaming(scenario)
    with alone(MODULE, plan.setup, scenario, progress=progress, cancelled=cancelled, wait=wait) as bench:
        on_plan({"tokens": len(plan.ids), "window": scenario.window, "first_eviction": scenario.window})
        found = _Reading(plan, scenario, bench, progress, on_record)
        with bench.watched():
            found.read_all()
    return {
        **bench.head(run_id, text=about_text(plan.text)),
        **result_of(plan, scenario, found.losses, found.seconds, found.cost, found.cached),
        "disturbance": bench.disturbance,
    }


def plan_streaming(scenario: StreamingScenario) -> StreamingPlan:
    """Check everything that can be checked before a process starts. Raises LabError."""
    setup, text = ground(scenario), load_text(scenario.text)
    ids = tokens_from(load_tokenizer(scenario.model), text.text, scenario.seed, scenario.tokens)
    needed = scenario.window + LEAST_AFTER
    if len(ids) < needed:
        raise LabError("text-too-short", name=text.name, tokens=len(ids), needed=needed)
    every, points = sampled_points(len(ids) - 1, scenario.window, scenario.points)
    policies: dict[str, Eviction] = {DENSE: Full()}
    for count in scenario.counts:
        policies[name_of(count)] = Sinks(count, scenario.window) if count else Window(scenario.window)
    decodes = decode_spans(len(ids) - 1, scenario.window, scenario.decode_tokens)
    return StreamingPlan(setup, text, ids, policies, every, tuple(points), decodes)


def name_of(sinks: int) -> str:
    """A curve's name: "window" without sinks, "sinks-4" with four."""
    return f"{SINKS}-{sinks}" if sinks else WINDOW


def tokens_from(tokenizer: Tokenizer, text: str, seed: int, tokens: int) -> tuple[int, ...]:
    """The first tokens of a text from where the seed says on, at most so many; a text is never read twice.

    Seed 0 is the beginning; others begin somewhere in the first half of what is more than enough.
    """
    spare = max(0, len(text) - _CHARACTERS_PER_TOKEN * tokens)
    begin = seed * 1009 % (spare + 1)
    return tuple(tokenizer.encode(text[begin : begin + _CHARACTERS_PER_TOKEN * tokens], add_special=False)[:tokens])


def decode_spans(losses: int, window: int, decode_tokens: int) -> tuple[tuple[int, int], ...]:
    """Which tokens the real caches read one by one, as [from, to) of the losses: three quarters of them around the first
    eviction (a quarter before it, a half behind), the rest at the end of the text.

    What lies between is read in chunks. A short text has fewer of them.
    """
    if not decode_tokens:
        return ()
    quarter = decode_tokens // 4
    first = (max(0, window - quarter), min(losses, window + decode_tokens - 2 * quarter))
    last = (max(first[1], losses - quarter), losses)
    return (first, last) if last[0] < last[1] else (first,)


class _Reading:
    """Asks the process for one curve after another, and keeps what it tells."""

    def __init__(
        self, plan: StreamingPlan, scenario: StreamingScenario, bench: Bench, progress: Progress, on_record: OnRecord
    ) -> None:
        self.plan, self.scenario, self.bench = plan, scenario, bench
        self.progress, self.on_record = progress, on_record
        self.losses: dict[str, list[float]] = {}
        self.seconds: dict[str, float] = {}
        self.cost: dict[str, list[dict]] = {}
        self.cached: dict[int, float] = {}
        self.edges = bin_edges(plan.losses, scenario.window)
        self.work, self.worked = self._work(), 0

    def read_all(self) -> None:
        """Everything, the dense curve first: the others are compared with it."""
        self.bench.ask({"type": "open", "ids": self.plan.ids}, "opened")
        for name, policy in self.plan.policies.items():
            self._read(name, {"type": "read", "policy": as_dict(policy)})
        if H2O in self.scenario.policies:
            self._read(H2O, {"type": "heavy", "budget": self.scenario.window})
        if RECOMPUTE in self.scenario.policies:
            again = {"type": "recompute", "window": self.scenario.window, "points": self.plan.points}
            self._read(RECOMPUTE, again, of=len(self.plan.points), tokens_each=self.scenario.window)
        if self.plan.decodes:
            self._decode()

    def _work(self) -> int:
        """Tokens that the process reads; one that is read alone takes as long as several."""
        heavy, again = H2O in self.scenario.policies, RECOMPUTE in self.scenario.policies
        curves = (len(self.plan.policies) + 2 * heavy) * self.plan.losses + again * len(self.plan.points) * self.scenario.window
        return curves + 2 * self._decode_work()

    def _decode_work(self) -> int:
        return self.plan.losses + _ALONE * sum(end - begin for begin, end in self.plan.decodes)

    def _read(self, name: str, question: dict, *, of: int | None = None, tokens_each: int = 1) -> None:
        found = self.losses[name] = []
        of = of or self.plan.losses
        weight = tokens_each * (2 if name == H2O else 1)
        self._tell(name, 0, of, 0)

        def see(told: dict) -> None:
            found.extend(told["losses"])
            self._tell(name, len(found), of, weight * len(found))
            if name != RECOMPUTE:
                self.on_record(name, 0, {"type": "curve", **self._so_far(name, found)})

        self.seconds[name] = self.bench.ask(question, "all-read", see)["seconds"]
        self.worked += weight * of

    def _so_far(self, name: str, found: list[float]) -> dict:
        after = found[self.scenario.window :]
        return {
            "policy": policy_of(name, self.plan, self.scenario),
            "bins": binned(found, self.edges),
            "perplexity_after": perplexity(after) if after else None,
        }

    def _decode(self) -> None:
        plan, sinks = self.plan, self.scenario.cached_sinks
        names = [DENSE] if sinks is None else [DENSE, name_of(sinks)]
        question = {
            "type": "decode",
            "policies": {name: as_dict(plan.policies[name]) for name in names},
            "spans": plan.decodes,
            "block_tokens": plan.setup.block_tokens,
            "group": COST_TOKENS,
        }
        self.cost = {name: [] for name in names}
        work, of, done = 2 * self._decode_work(), sum(end - begin for begin, end in plan.decodes), 0
        self._tell(CACHE, 0, of, 0)

        def see(told: dict) -> None:
            nonlocal done
            losses = told["losses"]
            self.cost[told["name"]].append({name: told[name] for name in ("tokens", "ms", "kv_bytes", "rss_bytes")})
            if told["name"] == names[-1]:
                done += len(losses)
                if sinks is not None:
                    self.cached.update(zip(range(told["from"], told["from"] + len(losses)), losses, strict=True))
            self._tell(CACHE, done, of, work * done // of)

        self.bench.ask(question, "decoded", see)

    def _tell(self, name: str, done: int, of: int, worked: int) -> None:
        self.progress("measuring", min(1.0, (self.worked + worked) / self.work), policy=name, tokens=done, of=of)


def result_of(
    plan: StreamingPlan,
    scenario: StreamingScenario,
    losses: dict[str, list[float]],
    seconds: dict[str, float],
    cost: dict[str, list[dict]],
    cached: dict[int, float],
) -> dict:
    """What the result says, from what the process found. losses: by curve, in order; cached: by item, of the real cache."""
    window, points = scenario.window, plan.points
    curves = {name: _curve(plan, scenario, name, found, seconds[name]) for name, found in losses.items()}
    counts = {name_of(count): count for count in scenario.counts}
    return {
        "tokens": len(plan.ids),
        "window": window,
        "first_eviction": window,
        "curves": curves,
        "table": [{"sinks": counts[name], "perplexity_after": curves[name]["perplexity_after"]} for name in counts],
        "dense": curves[DENSE]["perplexity_after"],
        "sampled_at": list(points) if RECOMPUTE in losses else [],
        "cost": {name: _cost(found) for name, found in cost.items()} | _cost_again(losses, seconds, plan, scenario),
        "agreement": _agreement(scenario, losses, cached),
    }


def policy_of(name: str, plan: StreamingPlan, scenario: StreamingScenario) -> dict:
    """What a curve's name stands for, as a result has it."""
    return as_dict(plan.policies[name]) if name in plan.policies else {"kind": name, "window": scenario.window}


def _curve(plan: StreamingPlan, scenario: StreamingScenario, name: str, losses: list[float], seconds: float) -> dict:
    window, sampled = scenario.window, name == RECOMPUTE
    at_points = losses if sampled else [losses[point] for point in plan.points]
    return {
        "policy": policy_of(name, plan, scenario),
        "bins": _sampled_bins(plan, losses) if sampled else binned(losses, bin_edges(plan.losses, window)),
        "perplexity_after": perplexity(losses if sampled else losses[window:]),
        "sampled": {"every": plan.every, "points": len(plan.points)} if sampled else None,
        "perplexity_at_sampled": perplexity(at_points) if RECOMPUTE in scenario.policies else None,
        "seconds": seconds,
    }


def _sampled_bins(plan: StreamingPlan, losses: list[float]) -> list[list[float]]:
    """One bin for each point, as wide as what the point stands for."""
    begins = [point - plan.every // 2 for point in plan.points]
    ends = [min(begin + plan.every, plan.losses) for begin in begins]
    return [[begin, end, round(loss, 5)] for begin, end, loss in zip(begins, ends, losses, strict=True)]


def _cost(points: list[dict]) -> dict:
    names = {"ms": "ms_per_token", "kv_bytes": "kv_bytes", "rss_bytes": "rss_bytes"}
    return {out: [[point["tokens"], point[name]] for point in points] for name, out in names.items()}


def _cost_again(losses: dict, seconds: dict, plan: StreamingPlan, scenario: StreamingScenario) -> dict:
    """Reading the window anew costs what one point took; it keeps the KV of one window for that time."""
    if RECOMPUTE not in losses:
        return {}
    ms = round(seconds[RECOMPUTE] / len(plan.points) * 1e3, 3)
    held = scenario.window * plan.setup.kv_bytes_per_token
    ends = (plan.points[0] + 1, plan.points[-1] + 1)
    return {RECOMPUTE: {"ms_per_token": [[end, ms] for end in ends], "kv_bytes": [[end, held] for end in ends], "rss_bytes": []}}


def _agreement(scenario: StreamingScenario, losses: dict[str, list[float]], cached: dict[int, float]) -> dict | None:
    if not cached:
        return None
    name = name_of(scenario.cached_sinks)
    apart = [abs(loss - losses[name][item]) for item, loss in cached.items()]
    mean = sum(apart) / len(apart)
    return {
        "name": name,
        "tokens": len(apart),
        "largest_difference": round(max(apart), 6),
        "mean_difference": round(mean, 6),
    }
