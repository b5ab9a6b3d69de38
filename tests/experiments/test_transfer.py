"""Real transfers between two processes with a tiny random model: bytes, quality, overlap, and what becomes of damage."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments import transfer
from engine.experiments.transfer import MODULE, run_transfer, same_first
from engine.experiments.transfer_scenario import TransferScenario
from engine.formulas.kv import KV_DTYPES, Attention, kv_bytes
from engine.lock import device_lock
from engine.model.catalog import CATALOG
from engine.serving.cluster import Cancelled

TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32", "text": "pydoc"}
SMALL = TransferScenario(lengths=(100, 45), scored=40, continue_tokens=6, **TINY)
CONFIG = CATALOG["random-tiny"].config
GROUPS = [Attention(CONFIG.n_layers, CONFIG.n_kv_heads, CONFIG.head_dim, CONFIG.head_dim)]
LINK = 200_000.0  # bytes per second: much slower than any memory


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def result(told):
    return run_transfer(SMALL, run_id="promised", on_record=lambda name, repeat, record: told.append((name, dict(record))))


def children() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if MODULE in " ".join(p.cmdline())]


def folders() -> set[Path]:
    return set(Path("/dev/shm").glob("long-context-lab-*")) if Path("/dev/shm").is_dir() else set()


def nothing_is_left():
    assert children() == []
    with device_lock("cpu", "next", wait=False):
        pass


def at(policy, then):
    """A progress that calls `then` once, when that is measured."""
    done = []

    def see(phase, share, **facts):
        if facts.get("policy") == policy and not done:
            done.append(policy)
            then()

    return see


def test_the_result_is_small_json_and_names_what_was_run(result):
    """A NaN breaks browsers, a missing setting makes it unrepeatable."""
    text = json.dumps(result, allow_nan=False)
    assert len(text) < 50_000 and (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "transfer", "promised", "measured")
    assert TransferScenario.from_dict(result["manifest"]["scenario"]) == SMALL and result["manifest"]["text"]["name"] == "pydoc"
    assert [(row["tokens"], row["format"]) for row in result["rows"]] == [(tokens, dtype) for tokens in (45, 100) for dtype in KV_DTYPES]
    assert set(result["exact"]["by_tokens"]) == {"45", "100"} and result["disturbance"]["schedules"]["transfer"]


def test_the_bytes_sent_are_those_of_the_formula(result):
    """Scales included: they are what makes small formats larger than one thinks."""
    for row in result["rows"]:
        wanted = kv_bytes(GROUPS, row["tokens"], row["format"])
        assert row["bytes"] == {"payload": wanted.payload, "scales": wanted.scales, "total": wanted.total}
        assert all(row[name] > 0 for name in ("quantise_s", "move_s", "dequantise_s", "checksum_s"))


def test_what_arrives_exactly_foresees_exactly(result):
    """A layer in the wrong place, keys for values, one token off: any of it shows in the predictions."""
    for row in result["rows"]:
        if row["format"] == "fp32":
            assert row["kl"] < 1e-9 and row["perplexity"] == pytest.approx(row["exact_perplexity"], rel=1e-5) and row["same_tokens"] == 6
        assert row["exact_perplexity"] == result["exact"]["by_tokens"][str(row["tokens"])]["perplexity"]


def test_fewer_bits_lose_more(result):
    """A dequantisation that read from the exact cache would lose nothing; a scale of another head, everything."""
    for tokens in (45, 100):
        kl = {row["format"]: row["kl"] for row in result["rows"] if row["tokens"] == tokens}
        assert 0 < kl["bf16"] < kl["int8"] < kl["int4"] < 0.1 and kl["bf16"] < kl["fp8"] < 0.1


def test_rows_are_told_as_they_come_and_again_when_judged(result, told):
    """Who looks on sees the bars at once, and nothing old beside something new."""
    names = [name for name, _ in told]
    assert len(told) == 20 and set(names) == {f"{row['tokens']} {row['format']}" for row in result["rows"]}
    first = {name: record for name, record in reversed(told)}
    assert all(record["type"] == "cell" and record["kl"] is None for record in first.values())
    assert [record["kl"] for _, record in told[5:10]] == [row["kl"] for row in result["rows"][:5]]


def test_layers_go_while_others_are_prefilled(result):
    """Sent only at the end there would be nothing to hide; all layers must go, each once and in order."""
    overlap = result["overlap"]
    assert overlap["tokens"] == 100 and overlap["format"] == "fp32"
    layers = [part["layers"] for part in overlap["parts"]]
    assert layers[0][0] == 0 and layers[-1][1] == CONFIG.n_layers and all(a[1] == b[0] for a, b in zip(layers, layers[1:], strict=False))
    assert overlap["parts"][0]["published"][1] < overlap["layerwise_prefill_s"], "the first layers are out before the prefill's end"
    ends = [part["moved"][1] for part in overlap["parts"]]
    assert ends == sorted(ends) and all(part["moved"][0] >= part["published"][1] for part in overlap["parts"])
    assert overlap["whole_s"] == pytest.approx(overlap["prefill_s"] + overlap["transfer_s"], abs=1e-5)
    assert overlap["layerwise_s"] == pytest.approx(max(ends[-1], overlap["layerwise_prefill_s"]), abs=1e-5)
    assert overlap["hidden_share"] == pytest.approx((overlap["whole_s"] - overlap["layerwise_s"]) / overlap["transfer_s"], abs=1e-3)


def test_an_emulated_link_is_never_faster_than_it_says():
    """Parts that each had the link to themselves, or bytes counted before quantisation, would be."""
    changes = {"lengths": 45, "formats": "fp32,int4", "scored": 4, "continue_tokens": 1, "link_bytes_per_s": LINK}
    result = run_transfer(SMALL.changed(changes))
    for row in result["rows"]:
        assert row["move_s"] >= row["bytes"]["total"] / LINK - 1e-6
    small, large = sorted(row["move_s"] for row in result["rows"])
    assert large > 2 * small
    for link in (result["link"], result["overlap"]["link"]):
        assert link["name"] == "emulated" and link["asked_bytes_per_s"] == LINK and link["measured_bytes_per_s"] <= LINK + 1
    parts, each = result["overlap"]["parts"], kv_bytes(GROUPS, 45, "fp32").total / CONFIG.n_layers
    whole = parts[-1]["moved"][1] - parts[0]["published"][1]
    assert whole >= each * CONFIG.n_layers / LINK - 1e-5
    assert result["link"]["bytes_per_s"] > LINK, "memory's own rate is told beside it"


def test_without_the_second_prefill():
    """The setting that halves the time must leave nothing half."""
    result = run_transfer(SMALL.changed({"lengths": 45, "formats": "int8", "layerwise": False, "scored": 4, "continue_tokens": 1}))
    assert result["overlap"] is None and result["link"]["name"] == "memory" and result["link"]["asked_bytes_per_s"] is None and len(result["rows"]) == 1


def test_damage_is_noticed(monkeypatch):
    """A byte that is another one: used, it would be called the loss of a format."""
    real = transfer._taking
    monkeypatch.setattr(transfer, "_taking", lambda part, cache: {**real(part, cache), "crc32": part["crc32"] ^ 1})
    before = folders()
    with pytest.raises(LabError) as caught:
        run_transfer(SMALL.changed({"lengths": 45, "layerwise": False}))
    assert caught.value.code == "transfer-corrupted" and "1-2" in str(caught.value)
    nothing_is_left()
    assert folders() == before


@pytest.mark.parametrize(("which", "policy"), [(0, "fp8"), (1, "fp8"), (1, "quality"), (0, "overlap")])
def test_a_killed_process_fails_the_run_with_its_reason(which, policy):
    """In the middle of a transfer, of work of both, of a prefill: one sentence, the other one gone too, no memory left."""
    before = folders()
    with pytest.raises(LabError) as caught:
        run_transfer(SMALL, progress=at(policy, lambda: sorted(children(), key=lambda p: p.pid)[which].kill()))
    assert caught.value.code == "worker-died" and "signal 9" in str(caught.value) and ("prefill-0", "decode-0")[which] in str(caught.value)
    nothing_is_left()
    assert folders() == before


def test_cancelling_ends_both_at_once():
    """What it started must be gone with it."""
    stop, family = threading.Event(), []

    def cancel():
        family.extend(children())
        stop.set()

    with pytest.raises(Cancelled):
        run_transfer(SMALL, progress=at("quality", cancel), cancelled=stop.is_set)
    assert len(family) == 2 and not any(process.is_running() for process in family)
    nothing_is_left()


def test_how_many_tokens_are_the_same():
    """Those before the first that is not: later ones follow another text."""
    assert [same_first([1, 2, 3], made) for made in ([1, 2, 3], [1, 9, 3], [9, 2, 3])] == [3, 1, 0]


def test_this_process_stays_without_torch():
    """The service imports it; with torch in it every app would carry a gigabyte."""
    code = "import sys, engine.experiments.transfer, engine.experiments.transfer_worker; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr
