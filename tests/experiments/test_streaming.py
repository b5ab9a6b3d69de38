"""The streaming experiment: what is made of the losses (a process that answers at once), and real runs of everything."""

import json
import math
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments import streaming
from engine.experiments.child import load_record, started
from engine.experiments.streaming import COST_TOKENS, decode_spans, plan_streaming, run_streaming, tokens_from
from engine.experiments.streaming_scenario import StreamingScenario, streaming_for
from engine.kv.eviction import Sinks
from engine.lock import device_lock
from engine.model.load_tokenizer import load_tokenizer
from engine.serving.cluster import Cancelled
from tests.experiments.stand_in import StandIn

TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32", "text": "pydoc"}
SMALL = StreamingScenario(300, 48, points=7, decode_tokens=40, **TINY)
NAMES = ["dense", "window", "sinks-1", "sinks-2", "sinks-4", "sinks-8", "h2o", "recompute"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


class Desk(StandIn):
    """Stands in for the reading process: item i of a curve has the loss `loss(policy, i)`, told `chunk` at a time."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.chunk = 100
        self.loss = lambda policy, item: 1.0 + item / 1000

    def answer(self, record, on_other):
        if record["type"] == "open":
            self.ids = record["ids"]
        elif record["type"] == "decode":
            self._decode(record, on_other)
        else:
            policy = record.get("policy", {"kind": record["type"]})
            items = record.get("points") or range(len(self.ids) - 1)
            losses = [self.loss(policy, item) for item in items]
            for begin in range(0, len(losses), self.chunk):
                on_other({"type": "part", "losses": losses[begin : begin + self.chunk]})
        return {"seconds": 2.0}

    def _decode(self, record, on_other):
        for begin, end in record["spans"]:
            for at in range(begin, end, record["group"]):
                for name in record["policies"]:
                    upto = min(at + record["group"], end)
                    losses = [self.loss(record["policies"][name], item) + 0.25 for item in range(at, upto)]
                    on_other({"type": "point", "name": name, "tokens": upto, "ms": 5.0, "kv_bytes": 64 * upto, "rss_bytes": 1000, "from": at, "losses": losses})


@pytest.fixture
def desk(monkeypatch):
    return Desk(monkeypatch)


def test_the_result_is_small_json_and_names_what_was_run(desk):
    """A NaN breaks browsers, a missing setting makes it unrepeatable."""
    text = json.dumps(run_streaming(SMALL, run_id="promised"), allow_nan=False)
    result = json.loads(text)
    assert len(text) < 300_000 and (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "streaming", "promised", "measured")
    assert StreamingScenario.from_dict(result["manifest"]["scenario"]) == SMALL and result["manifest"]["scenario_key"] == SMALL.key()
    assert result["manifest"]["text"]["name"] == "pydoc" and result["manifest"]["threads"] >= 1
    assert list(result["curves"]) == NAMES and (result["tokens"], result["first_eviction"], result["window"]) == (300, 48, 48)
    assert [row["sinks"] for row in result["table"]] == [0, 1, 2, 4, 8] and desk.ended and result["disturbance"]["schedules"]["streaming"]
    assert result["curves"]["sinks-2"]["policy"] == {"kind": "sinks", "sinks": 2, "window": 48}
    assert [result["curves"][name]["policy"]["kind"] for name in ("dense", "window", "h2o", "recompute")] == ["full", "window", "h2o", "recompute"]


def test_all_policies_have_the_same_room(desk):
    """The window, and no more: a policy with a larger cache would look like a better one."""
    run_streaming(SMALL)
    asked = [record for record in desk.asked if record["type"] in ("read", "heavy", "recompute")]
    room = [record.get("budget", record.get("window", record.get("policy", {}).get("window"))) for record in asked]
    assert len(asked) == 8 and room == [None] + [48] * 7, "all but dense"


def test_perplexity_is_of_what_comes_behind_the_first_eviction(desk):
    """With the tokens before it, at which all caches are alike, the damage would look smaller."""
    desk.loss = lambda policy, item: 100.0 if item < 48 else {"full": 1.0, "window": 3.0, "sinks": 2.0}.get(policy["kind"], 4.0)
    result = run_streaming(SMALL)
    found = {name: curve["perplexity_after"] for name, curve in result["curves"].items()}
    assert found["dense"] == result["dense"] == pytest.approx(math.e, rel=1e-5) and found["window"] == pytest.approx(math.e**3, rel=1e-5)
    assert found["sinks-4"] == pytest.approx(math.e**2, rel=1e-5) and found["h2o"] == found["recompute"] == pytest.approx(math.e**4, rel=1e-5)
    assert {row["sinks"]: row["perplexity_after"] for row in result["table"]}[0] == found["window"]
    bins = result["curves"]["window"]["bins"]
    assert [mean for begin, end, mean in bins if end <= 48] == [100.0] * 3 and {mean for begin, _, mean in bins if begin >= 48} == {3.0}


def test_samples_are_compared_with_the_same_places(desk):
    """Seven places are not the whole text: beside the whole curve's mean a re-computation could look better than dense."""
    desk.loss = lambda policy, item: 0.01 * item
    result = run_streaming(SMALL)
    places, curves = result["sampled_at"], result["curves"]
    assert len(places) == 7 and min(places) >= 48 and max(places) < 299
    mean = sum(0.01 * place for place in places) / 7
    assert {round(math.log(curve["perplexity_at_sampled"]), 4) for curve in curves.values()} == {round(mean, 4)}
    again = curves["recompute"]
    assert again["sampled"] == {"every": 36, "points": 7} and len(again["bins"]) == 7 and curves["dense"]["sampled"] is None
    assert all(begin <= place < end for place, (begin, end, _) in zip(places, again["bins"], strict=True))
    assert again["bins"][0][0] == 48 and all(a[1] == b[0] for a, b in zip(again["bins"], again["bins"][1:], strict=False))
    without = run_streaming(SMALL.changed({"policies": ["window"]}))
    assert without["curves"]["dense"]["perplexity_at_sampled"] is None and without["sampled_at"] == [] and list(without["curves"]) == ["dense", "window"]


def test_what_real_caches_cost_and_whether_they_agree(desk):
    """Of the policy with four sinks, against its own curve: against dense it would differ, and nobody could tell why."""
    desk.loss = lambda policy, item: 1.0 if policy["kind"] == "full" else 2.0
    result = run_streaming(SMALL)
    assert set(result["cost"]) == {"dense", "sinks-4", "recompute"}
    assert result["agreement"] == {"name": "sinks-4", "tokens": 40, "largest_difference": 0.25, "mean_difference": 0.25}
    for name in ("dense", "sinks-4"):
        cost = result["cost"][name]
        assert [tokens for tokens, _ in cost["ms_per_token"]] == [tokens for tokens, _ in cost["kv_bytes"]] == [tokens for tokens, _ in cost["rss_bytes"]]
        assert cost["ms_per_token"][0] == [48, 5.0] and cost["kv_bytes"][-1] == [299, 64 * 299]
    again = result["cost"]["recompute"]
    assert again["ms_per_token"][0][1] == pytest.approx(2000 / 7, abs=0.01) and again["kv_bytes"][0][1] == 48 * 256
    assert run_streaming(SMALL.changed({"decode_tokens": 0}))["agreement"] is None
    only = run_streaming(SMALL.changed({"policies": []}))
    assert set(only["cost"]) == {"dense"} and only["agreement"] is None and only["table"] == []


@given(st.integers(32, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(16, n - 1))), st.integers(0, 400))
def test_the_real_caches_read_around_the_first_eviction(place, decode_tokens):
    """Most of the tokens that are timed are evictions, none is behind the end, and spans do not overlap."""
    losses, window = place
    spans = decode_spans(losses, window, decode_tokens)
    assert all(0 <= begin < end <= losses for begin, end in spans) and sum(end - begin for begin, end in spans) <= decode_tokens
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False)) and bool(spans) == bool(decode_tokens)
    if 4 < decode_tokens and 4 * decode_tokens < losses - window and decode_tokens < window:
        (begin, end), (late, last) = spans
        assert begin < window < end < late and last == losses and end - begin + last - late == decode_tokens
        assert end - window > window - begin - 1


@pytest.mark.parametrize("seed", range(5))
def test_a_text_is_read_once(seed):
    """A text that begins again is foreseen by heart; a seed begins elsewhere, but never behind what is left of it."""
    tokenizer = load_tokenizer("random-tiny")
    text = " ".join(str(number) for number in range(20_000))
    ids = tokens_from(tokenizer, text, seed, 100)
    assert len(ids) == 100 and tokenizer.decode(ids).strip() in text
    assert len(tokens_from(tokenizer, "short", seed, 100)) < 6
    assert (tokens_from(tokenizer, text, 0, 100) == ids) == (seed == 0)


def test_what_cannot_run_is_told_before_a_process_starts(desk, tmp_path):
    """After seconds of loading it would be the same news."""
    short = tmp_path / "short.txt"
    short.write_text("Hello. " * 5)
    cases = [
        ({"model": "nonsense"}, "model-unknown"), ({"threads": 200}, "scenario-value"), ({"model": "smollm2-135m-instruct"}, "model-missing"),
        ({"text": "nonsense"}, "text-unknown"), ({"text": str(short)}, "text-too-short"), ({"text": "own:" + "0" * 64}, "text-unknown"),
    ]  # fmt: skip
    for changes, code in cases:
        with pytest.raises(LabError) as caught:
            run_streaming(SMALL.changed(changes))
        assert caught.value.code == code and not desk.asked and "{" not in str(caught.value)


def test_progress_goes_from_nothing_to_all_and_never_back(desk):
    """A bar that jumps back is not believed again; the facts are what the page says beside it."""
    seen = []
    run_streaming(SMALL, progress=lambda phase, done, **facts: seen.append((phase, done, facts)))
    phases = [phase for phase, *_ in seen]
    assert phases == sorted(phases, key=["starting-workers", "loading", "measuring"].index) and len(set(phases)) == 3
    measuring = [(done, facts) for phase, done, facts in seen if phase == "measuring"]
    shares = [done for done, _ in measuring]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == pytest.approx(1.0)
    assert all(set(facts) == {"policy", "tokens", "of"} and facts["tokens"] <= facts["of"] for _, facts in measuring)
    assert list(dict.fromkeys(facts["policy"] for _, facts in measuring)) == [*NAMES, "cache"]


def test_curves_grow_while_they_are_read(desk):
    """What a page draws live is what the result will say, as far as it goes."""
    plans, told = [], []
    result = run_streaming(SMALL, on_plan=plans.append, on_record=lambda name, repeat, record: told.append((name, record)))
    assert plans == [{"tokens": 300, "window": 48, "first_eviction": 48}]
    dense = [record for name, record in told if name == "dense"]
    assert [record["bins"][-1][1] for record in dense] == [100, 200, 299] and {record["type"] for record in dense} == {"curve"}
    for name, record in dict(told).items():
        assert {key: value for key, value in record.items() if key != "type"} == {key: result["curves"][name][key] for key in ("policy", "bins", "perplexity_after")}


def test_a_curve_before_the_eviction_has_no_perplexity_behind_it(desk):
    """Nothing is not zero."""
    desk.chunk, told = 30, []
    run_streaming(SMALL, on_record=lambda name, repeat, record: told.append(record["perplexity_after"]))
    assert told[0] is None and told[1] is not None


def test_cancelling_gives_the_device_back(desk):
    """A lock kept after a cancel stops everybody."""
    with pytest.raises(Cancelled):
        run_streaming(SMALL, cancelled=lambda: len(desk.asked) > 3)
    assert desk.ended
    with device_lock("cpu", "next", wait=False):
        pass


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """One real run of everything on a tiny model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        return run_streaming(SMALL)


def test_a_real_run(real):
    """The whole way: every curve there, alike before the first eviction and not behind it."""
    json.dumps(real, allow_nan=False)
    curves = real["curves"]
    assert list(curves) == NAMES and all(curve["bins"][-1][1] == 299 for name, curve in curves.items() if name != "recompute")
    before = {name: [mean for _, end, mean in curve["bins"] if end <= 48] for name, curve in curves.items() if name != "recompute"}
    for name, means in before.items():
        assert len(means) == 3 and means == pytest.approx(before["dense"], abs=2e-3) or name == "h2o", name
    after = {name: curve["perplexity_after"] for name, curve in curves.items()}
    assert len({round(value, 2) for value in after.values()}) == len(after), "each policy does something of its own"


def test_the_real_cache_agrees_with_the_mask(real):
    """The curve is computed under a mask; if the cache that serves did something else, the curve would say nothing of it."""
    assert real["agreement"]["name"] == "sinks-4" and real["agreement"]["tokens"] == 40
    assert real["agreement"]["largest_difference"] < 1e-3


def test_the_real_cache_stops_growing_at_the_first_eviction(real):
    """Three blocks of 16 tokens, 256 bytes each, hold a window of 48, however long the text."""
    sinks, dense = real["cost"]["sinks-4"]["kv_bytes"], real["cost"]["dense"]["kv_bytes"]
    assert {held for _, held in sinks} == {3 * 16 * 256} and {tokens for tokens, _ in dense} < {tokens for tokens, _ in sinks}
    assert dense[-1] == [299, math.ceil(299 / 16) * 16 * 256]
    assert len(sinks) == len(real["cost"]["sinks-4"]["ms_per_token"]) >= 40 / COST_TOKENS
    assert all(ms > 0 for _, ms in real["cost"]["sinks-4"]["ms_per_token"])


@contextmanager
def reading():
    """The tokens of a plan, and the real process as a function: the losses of some tokens."""
    plan = plan_streaming(SMALL)
    worker = plan.setup.deployment.entry("unified")[0]
    with started(streaming.MODULE, worker, lambda: False) as child:
        child.ask(load_record(plan.setup, worker), "loaded")

        def losses(ids, **question):
            found = []
            child.ask({"type": "open", "ids": ids}, "opened")
            child.ask(question, "all-read", lambda told: found.extend(told["losses"]))
            return found

        yield list(plan.ids), losses


def test_reading_anew_is_a_text_of_its_own():
    """Re-computation at a point is dense attention over the last `window` tokens alone, positions from 0; as long as all fits
    it is dense."""
    window, points, dense = 48, [10, 47, 48, 200], {"type": "read", "policy": {"kind": "full"}}
    with reading() as (ids, losses):
        again = losses(ids, type="recompute", window=window, points=points)
        whole = losses(ids, **dense)
        assert again[:2] == pytest.approx([whole[10], whole[47]], abs=1e-4)
        assert losses(ids, type="recompute", window=300, points=[200]) == pytest.approx([whole[200]], abs=1e-4)
        alone = [losses(ids[point + 1 - window : point + 2], **dense)[-1] for point in points[2:]]
    assert again[2:] == pytest.approx(alone, abs=1e-4) and abs(again[3] - whole[200]) > 1e-3


def test_every_token_is_seen_as_long_as_the_policy_keeps_it():
    """A changed token changes the losses while somebody sees it: a sink for ever, another until the window has passed it, once
    more for each layer above the first."""
    window, sinks, layers, changed_at = 48, 4, 2, 100
    recent = Sinks(sinks, window).recent
    question = {"type": "read", "policy": {"kind": "sinks", "sinks": sinks, "window": window}}
    with reading() as (ids, losses):
        base, late, early = (
            losses([*ids[:place], (ids[place] + other) % 200, *ids[place + 1 :]], **question)
            for place, other in ((0, 0), (changed_at, 1), (0, 1))
        )
    differs = [abs(a - b) > 1e-4 for a, b in zip(base, late, strict=True)]
    assert not any(differs[: changed_at - 1]) and all(differs[changed_at : changed_at + recent])
    assert not any(differs[changed_at + layers * (recent - 1) + 1 :]), "behind the reach of both layers nothing is left of it"
    assert all(abs(a - b) > 1e-5 for a, b in zip(base[-20:], early[-20:], strict=True)), "a sink is never forgotten"





ODD = {
    "the same all over": "a" * 100_000,
    "emoji": "😀👩‍👩‍👧‍👦 " * 400,
    "right to left": "שלום עולם " * 400,
    "control characters": "\x01\x02\x1b[31m\x7f" * 400,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_texts(name, tmp_path):
    """Pasted by somebody: read like any other, and the result is JSON."""
    text = tmp_path / "odd.txt"
    text.write_text(ODD[name], encoding="utf-8")
    result = run_streaming(streaming_for(**TINY).changed({"text": str(text), "tokens": 120, "window": 32, "points": 2, "decode_tokens": 20, "sinks": [4]}))
    json.dumps(result, allow_nan=False)
    assert result["tokens"] == 120 and result["dense"] > 0
