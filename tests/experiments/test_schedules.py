"""The Schedules experiment around its workers: order, medians, progress, costs, agreement; the workers are simulated."""

import json
from statistics import median

import pytest

from engine.errors import LabError
from engine.experiments import measuring, plan
from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.experiments.schedules import run_schedules
from engine.lock import device_lock
from engine.measure import disturbance
from engine.measure.trace import build_trace
from engine.model.tokenizer import byte_tokenizer
from engine.serving.cluster import Cancelled
from tests.experiments.simulated import Simulated

BASE = SchedulesScenario(
    "test", (RequestGroup("chat", 3, 20, 12), RequestGroup("long", 1, 90, 4, arrival_s=0.1)), model="random-tiny", text="korean", chunk_tokens=16,
    kv_bytes=1 << 20, device="cpu", dtype="float32",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


def run(cluster=None, *, scenario=BASE, **options):
    cluster = cluster or Simulated()
    return run_schedules(scenario, cluster_for=lambda deployment: cluster, **options)


def test_the_result_is_json_and_names_what_was_run():
    """A NaN in it breaks every browser; a manifest that lacks a setting cannot be run again."""
    result = json.loads(json.dumps(run(run_id="promised-to-somebody"), allow_nan=False))
    assert result["run_id"] == "promised-to-somebody" and result["manifest"]["scenario_key"] == BASE.key()
    assert SchedulesScenario.from_dict(result["manifest"]["scenario"]) == BASE, "a run is reproducible from its manifest"
    assert result["manifest"]["text"]["repeated"] is False
    for schedule, entry in result["schedules"].items():
        assert entry["metrics"]["finished"] == 4 and entry["trace"]["schedule"] == schedule


def test_schedules_take_turns_in_being_first():
    """Whoever is always first measures on the coolest machine."""
    cluster = Simulated()
    result = run(cluster, scenario=BASE.changed({"repeats": 4, "decompose": False}))
    u, c, d = "unified", "chunked", "disaggregated"
    assert result["manifest"]["order"] == [[u, c, d], [c, d, u], [d, u, c], [u, c, d]]
    assert [schedule for schedule, _ in cluster.served] == [u, c, d, c, d, u, d, u, c, u, c, d]


def test_medians_and_the_trace_in_the_middle():
    """One lucky or unlucky run must neither be the number nor the picture."""
    entry = run(scenario=BASE.changed({"repeats": 3}))["schedules"]["unified"]
    prefills = [each["prefill_s"] for each in entry["runs"]]
    assert len(set(prefills)) == 3
    assert entry["metrics"]["prefill_s"] == median(prefills) and entry["spread"]["prefill_s"] == [min(prefills), max(prefills)]
    assert prefills[entry["trace"]["repeat"]] == median(prefills)
    (long,) = [r for r in entry["trace"]["requests"] if r["kind"] == "long"]
    assert long["prefill_end_s"] - long["prefill_begin_s"] == pytest.approx(median(prefills))


def test_progress_goes_from_nothing_to_all_and_never_back():
    """A bar that jumps back is not believed again; and every record is passed on, with whose it is."""
    seen, records = [], []
    run(progress=lambda phase, done, **facts: seen.append((phase, done, facts)), on_record=lambda *record: records.append(record))
    measuring = [(done, facts) for phase, done, facts in seen if phase == "measuring"]
    shares = [done for done, _ in measuring]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] <= 1.0 and shares[-1] > 0.9
    assert measuring[-1][1] == {"schedule": "disaggregated", "repeat": 1, "repeats": 1}
    phases = list(dict.fromkeys(phase for phase, *_ in seen))
    assert phases == ["starting-workers", "measuring", "decomposing"]
    assert {(schedule, repeat) for schedule, repeat, _ in records} == {(schedule, 0) for schedule in BASE.schedules}


def test_the_plan_is_told_before_the_first_record():
    """Lanes, requests and memory can only be drawn live if they are known before anything happens; and it must be JSON."""
    told = []
    result = run(on_plan=lambda plan: told.append(("plan", plan)), on_record=lambda *record: told.append(("record", record)))
    assert [what for what, _ in told].index("record") == 1 and sum(what == "plan" for what, _ in told) == 1
    announced = json.loads(json.dumps(told[0][1], allow_nan=False))
    assert announced["kind"] == "schedules" and announced["schedules"] == list(BASE.schedules) and announced["repeats"] == 1
    first = result["schedules"]["unified"]
    kept = ("id", "kind", "prompt_tokens", "output_tokens")
    assert announced["requests"] == [{name: request[name] for name in kept} for request in first["trace"]["requests"]]
    assert announced["kv_bytes_per_token"] == result["manifest"]["model"]["kv_bytes_per_token"]
    for schedule, entry in result["schedules"].items():
        assert announced["resources"][schedule] == [{k: v for k, v in r.items() if k != "clock_offset_ns"} for r in entry["resources"]]
    records = [record for what, (_, _, record) in told[1:] if record["type"] == "arrive"]
    assert len(records) == 3 * len(announced["requests"]), "the requests are numbered in the order of this list"
    again = build_trace("unified", announced["requests"], [r for _, (s, _, r) in told[1:] if s == "unified"], block_tokens=announced["block_tokens"])
    assert {**again, "repeat": 0} == first["trace"], "what is drawn live is what the result shows"


def writing(text):
    """Every request writes this text over and over, a byte a token; under chunked, request 1 begins with another byte."""

    def change(schedule, records):
        written = {}
        for record in records:
            for made in record.get("tokens", []) if record["type"] == "step" else []:
                place = written[made[0]] = written.get(made[0], -1) + 1
                made[1] = ids[place % len(ids)] if (schedule, *made[:1], place) != ("chunked", 1, 0) else other
        return records

    tokenizer = byte_tokenizer("x")
    ids, (other,) = tokenizer.encode(text), tokenizer.encode("z")
    return change


def test_pieces_are_the_text_the_model_wrote():
    """Live and afterwards, token by token: what the reader saw grow is the text that the result shows."""
    seen = {}

    def see(schedule, repeat, record):
        for index, piece in record.get("pieces", ()):
            seen.setdefault((schedule, index), []).append(piece)

    result = run(Simulated(writing("a한b")), on_record=see)
    for index, request in enumerate(result["schedules"]["unified"]["trace"]["requests"]):
        pieces, texts = result["pieces"][request["id"]], result["texts"][request["id"]]
        expected = (["a", "", "", "한", "b"] * 3)[: request["output_tokens"]]
        if len(expected) == 12:
            expected[-1] = "\ufffd"  # the last token leaves half a character
        assert pieces["unified"] == expected
        assert "".join(pieces["unified"]) == texts["unified"]
        assert pieces["disaggregated"] is None, "the same, so not sent twice"
        if index == 1:
            assert pieces["chunked"] == ["z", *pieces["unified"][1:]] and "".join(pieces["chunked"]) == texts["chunked"]
        else:
            assert pieces["chunked"] is None
        for schedule in BASE.schedules:
            assert seen[schedule, index] == (pieces[schedule] or pieces["unified"])


def test_nothing_is_shown_after_the_end_of_text(monkeypatch):
    """The model goes on, as lengths are fixed, but what it babbles then is no answer; half a character is not lost."""
    tokenizer = byte_tokenizer("x")
    tokenizer.eos_ids = tuple(tokenizer.encode("!"))
    monkeypatch.setattr(plan, "load_tokenizer", lambda name: tokenizer)

    def cut(schedule, records):
        """After "ab" the first of three bytes of a character, then the end."""
        bytes_ = [*tokenizer.encode("ab"), tokenizer.encode("한")[0], *tokenizer.encode("!cdefghij")]
        written = {}
        for made in [made for record in records if record["type"] == "step" for made in record["tokens"]]:
            place = written[made[0]] = written.get(made[0], -1) + 1
            made[1] = bytes_[place]
        return records

    result = run(Simulated(cut))
    pieces, texts = result["pieces"]["chat-0"]["unified"], result["texts"]["chat-0"]
    assert pieces == ["a", "b", "", "\ufffd", *[""] * 8]
    assert texts["unified"] == "ab\ufffd" and texts["tokens_after_end"]["unified"] == 8


def test_every_serving_is_judged(monkeypatch):
    """One disturbed run makes the result disturbed, and the page can say which; the long prompt alone is judged as well."""
    shares = iter([0.0, 0.0, 0.3, *[0.0] * 7])
    monkeypatch.setattr(disturbance, "judge", lambda begin, end: disturbance.verdict(0.01, next(shares)))
    found = run(scenario=BASE.changed({"repeats": 2}))["disturbance"]
    assert found["disturbed"] is True and found["waited_share"] == 0.01 and found["others_cpu_share"] == 0.3
    assert found["limit"] == disturbance.LIMITS
    assert {schedule: [each["disturbed"] for each in runs] for schedule, runs in found["schedules"].items()} == {
        "unified": [False, False], "chunked": [False, False], "disaggregated": [True, False], "alone": [False] * 4
    }  # fmt: skip


def test_the_costs_of_chunking_are_told_apart():
    """Alone and whole, alone in chunks, in chunks among the chats: each difference has a name of its own."""
    cluster = Simulated()
    result = run(cluster)
    assert cluster.served[3:] == [("unified", 1), ("chunked", 1)], "the long prompt, alone"
    costs = result["chunking"]
    assert costs["chunk_tokens"] == 16 and 0 < costs["whole_prefill_s"] and 0 < costs["chunked_alone_s"] < costs["chunked_served_s"]
    assert costs["kernel_cost_s"] == pytest.approx(costs["chunked_alone_s"] - costs["whole_prefill_s"])
    assert costs["scheduling_cost_s"] == pytest.approx(costs["chunked_served_s"] - costs["chunked_alone_s"])


@pytest.mark.parametrize(
    "changes",
    [{"decompose": False}, {"schedules": ["unified", "disaggregated"]}, {"long.count": 0}, {"long.prompt_tokens": 5000}, {"long.prompt_tokens": 4095}],
    ids=str,
)  # fmt: skip
def test_without_a_served_long_prompt_and_chunks_there_are_no_costs(changes):
    """Refused, or alone just fitting: nothing to compare, and no reason to lose the run."""
    result = run(scenario=BASE.changed(changes))
    assert result["chunking"] is None
    if changes.get("long.prompt_tokens"):
        assert result["schedules"]["chunked"]["metrics"]["refused"] == 1


def test_only_the_workers_that_are_needed_are_started():
    """Three models in memory for one schedule would not fit small machines."""
    for schedules, groups in ((["unified"], {"engine"}), (["disaggregated"], {"prefill", "decode"}), (["chunked", "disaggregated"], {"engine", "prefill", "decode"})):
        cluster = Simulated()
        run(cluster, scenario=BASE.changed({"schedules": schedules}))
        assert cluster.groups == groups


def differing(gap):
    """The chunked schedule makes another fifth token for request 1 than unified, which had it by `gap`."""

    def change(schedule, records):
        place = 0
        for record in records:
            for made in record.get("tokens", []) if record["type"] == "step" else []:
                if made[0] == 1:
                    place += 1
                    if place == 5:
                        made[1:] = (made[1] + 1 if schedule == "chunked" else made[1]), gap
        return records

    return change


@pytest.mark.parametrize("gap, near_tie", [(0.009, True), (0.5, False)])
def test_a_difference_between_schedules_is_told_with_its_reason(gap, near_tie):
    """A near-tie is arithmetic in another order; anything else is a bug that the page must not hide."""
    result = run(Simulated(differing(gap)))
    changed = [r["id"] for r in result["schedules"]["unified"]["trace"]["requests"]][1]
    for request_id, found in result["agreement"].items():
        expected = {"first_difference": 4, "gap": gap, "near_tie": near_tie} if request_id == changed else None
        assert found == {"chunked": expected, "disaggregated": None}


def test_cancelling_ends_the_run_and_gives_the_device_back():
    """A lock kept after a cancel stops everybody."""
    records = []
    with pytest.raises(Cancelled):
        run(on_record=lambda *record: records.append(record), cancelled=lambda: len(records) > 3)
    with device_lock("cpu", "next", wait=False):
        pass


def test_a_busy_device_is_waited_for_or_told(monkeypatch):
    """Two measurements at once are two wrong ones."""
    cluster = Simulated()
    with device_lock("cpu", "somebody"), pytest.raises(LabError) as caught:
        run(cluster, wait=False)
    assert caught.value.code == "device-busy" and cluster.served == []


def test_workers_of_its_own_are_ended_and_those_of_others_kept(monkeypatch):
    """Left running they hold memory; ended, the service would start new ones for every job."""
    own, kept = Simulated(), Simulated()
    monkeypatch.setattr(measuring, "Cluster", lambda deployment: own)
    run_schedules(BASE)
    run(kept)
    assert own.stopped and not kept.stopped
    failing = Simulated(lambda schedule, records: 1 / 0)
    monkeypatch.setattr(measuring, "Cluster", lambda deployment: failing)
    with pytest.raises(ZeroDivisionError):
        run_schedules(BASE)
    assert failing.stopped


@pytest.mark.parametrize(
    "changes, code",
    [({"model": "nonsense"}, "model-unknown"), ({"model": "smollm2-135m-instruct"}, "model-missing"), ({"text": "nonsense"}, "text-unknown"),
     ({"text": "kjv"}, "text-missing"), ({"long.prompt_tokens": 8190}, "prompt-exceeds-model"), ({"threads": 256}, "scenario-value"),
     ({"device": "cuda"}, "device-unknown")],
    ids=str,
)  # fmt: skip
def test_what_cannot_run_is_told_before_a_worker_starts(changes, code, monkeypatch):
    """A misspelt name must not cost the seconds that a model takes to load."""
    monkeypatch.setattr("engine.measure.device.gpu", lambda: None)
    cluster = Simulated()
    with pytest.raises(LabError) as caught:
        run(cluster, scenario=BASE.changed(changes))
    assert caught.value.code == code and cluster.groups is None


def test_a_kind_that_is_left_out_is_not_checked():
    """The default workload without its long prompt must run on a model too short for it."""
    assert run(scenario=BASE.changed({"long.prompt_tokens": 9000, "long.count": 0}))["schedules"]["unified"]["metrics"]["finished"] == 3


def test_every_schedule_gets_the_same_memory():
    """Half and half for two pools: more for one schedule would be measured as its merit."""
    result = run()
    given = {s: [r["kv_capacity_bytes"] for r in e["resources"]] for s, e in result["schedules"].items()}
    assert given["unified"] == given["chunked"] == [1 << 20] and given["disaggregated"] == [1 << 19, 1 << 19]
