"""The command line as a Unix user meets it: exit codes, one line for an error, JSON that keeps its promises."""

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine import cli
from engine.lock import device_lock
from engine.measure import device
from engine.service.files import read_result
from tests.measure.test_export import check_trace_event_format
from tests.measure.traces import small_result

ROOT = Path(__file__).resolve().parents[1]
TINY = ["--model", "random-tiny", "--device", "cpu", "--dtype", "float32", "--set", "text=korean"]
ALONE = [*TINY, "--set", "schedules=unified"]
ENDLESS = [*ALONE, "--set", "chat.count=1", "--set", "chat.output_tokens=8000", "--set", "long.count=0"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A data folder of its own: locks, runs and fetched files of the user are not touched."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def start(home, tmp_path):
    """Begin a command in a folder of its own, in a process group of its own; it is ended after the test."""
    begun = []

    def make(*arguments, **options):
        environment = {**os.environ, "LAB_HOME": str(home), "PYTHONPATH": str(ROOT), **options.pop("env", {})}
        # A shell that runs the tests in the background has SIGINT ignored, and a child would inherit that.
        options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        defaults = dict(cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        begun.append(subprocess.Popen([sys.executable, "-m", "engine", *arguments], env=environment, **(defaults | options)))
        return begun[-1]

    yield make
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def lab(start):
    """Run a command to its end: (exit code, stdout, lines of stderr)."""

    def run(*arguments, **options):
        process = start(*arguments, **options)
        out, err = process.communicate(timeout=90)
        return process.returncode, (out or b"").decode(), (err or b"").decode().splitlines()

    return run


@pytest.fixture
def inside(home, tmp_path, monkeypatch, capsys):
    """The same within this process, for what ends before any work: quick enough for many cases."""

    def run(*arguments, env=()):
        for name, value in {"LAB_HOME": str(home), **dict(env)}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
        monkeypatch.setattr(device, "gpu", lambda: None)
        try:
            code = cli.main(list(arguments))
        except SystemExit as ended:
            code = ended.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err.splitlines()

    return run


def assert_one_line(code, out, err, *words, wanted=1):
    """The failure of a good command: its code, nothing on stdout, one line on stderr, no traceback."""
    assert code == wanted, err
    assert out == "" and len(err) == 1 and err[0].startswith("engine: "), err
    assert all(word in err[0] for word in words), err


class TestListings:
    def test_workloads(self, lab):
        """A preset that is not listed is not found."""
        code, out, err = lab("workloads")
        assert code == 0 and err == []
        assert [line.split()[0] for line in out.splitlines()] == ["one-long-among-chats", "quick", "two-long", "all-short", "bursty"]

    def test_models(self, lab):
        """What is not here yet must say how to get it."""
        code, out, _ = lab("models", "--json")
        models = {model["name"]: model for model in json.loads(out)}
        assert code == 0 and set(models) >= {"smollm2-135m-instruct", "random-1b", "random-tiny"}
        assert models["random-tiny"]["ready"] and not models["smollm2-135m-instruct"]["ready"]
        assert models["smollm2-135m-instruct"]["parameters"] == 134_515_008
        code, out, _ = lab("models")
        assert code == 0 and "python -m engine fetch smollm2-135m-instruct" in out

    def test_devices(self, lab):
        """JSON for scripts, one line for people."""
        code, out, _ = lab("devices", "--json")
        devices = json.loads(out)
        assert code == 0 and devices[-1]["class"] == "cpu" and devices[-1]["cores"] >= 1 and devices[-1]["memory_bytes"] > 2**28
        assert lab("devices")[1].splitlines()[-1].startswith("cpu ")

    def test_a_reader_that_has_enough_is_no_error(self, start):
        """`| head` closes the pipe: no traceback, and not the interpreter's own complaint at exit."""
        reading, writing = os.pipe()
        os.close(reading)
        process = start("models", "--json", stdout=writing, env={"PYTHONUNBUFFERED": ""})
        os.close(writing)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0 and err == b""

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
    @pytest.mark.parametrize("how", [[], ["--json", "-"]])
    def test_a_full_stdout_is_one_line(self, start, how):
        """`> result.json` on a full disk: a traceback says nothing to who only has to make room."""
        with open("/dev/full", "wb") as full:
            process = start("kv", "llama-3-8b", "--length", "5", *how, stdout=full)
            _, err = process.communicate(timeout=30)
        assert process.returncode == 1 and err.decode().count("\n") == 1 and "stdout" in err.decode()


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [[], ["nonsense"], ["run"], ["run", "nonsense"], ["run", "schedules"], ["run", "schedules", "--json"], ["run", "schedules", "--json", "-", "--device", "tpu"],
         ["trace"], ["logits", "x"], ["run", "schedules", "--json", "-", "--nonsense"], ["fetch"]],
        ids=" ".join,
    )  # fmt: skip
    def test_a_wrong_command_is_2_with_its_usage(self, inside, arguments):
        """A script tells a wrong command from a failed one by the code."""
        code, out, err = inside(*arguments)
        assert code == 2 and out == "" and err[0].startswith("usage: python -m engine")

    def test_help_is_no_error(self, inside):
        """Help on stderr with code 2 cannot be paged."""
        code, out, _ = inside("run", "schedules", "--help")
        assert code == 0 and "--workload" in out and "--json" in out


def test_an_error_is_one_line_from_outside_too(lab):
    """As the cases below see it from within: the interpreter adds nothing."""
    assert_one_line(*lab("run", "schedules", "--workload", "nonsense", "--json", "-"), "workload 'nonsense'")
    assert lab("nonsense")[0] == 2


class TestBadInput:
    @pytest.mark.parametrize(
        "arguments, words",
        [
            (["--workload", "nonsense"], ["workload 'nonsense'", "quick"]),
            (["--model", "nonsense"], ["'nonsense'", "random-tiny"]),
            (["--model", "smollm2-135m-instruct"], ["fetch smollm2-135m-instruct"]),
            (["--set", "nonsense=5"], ["'nonsense'", "long.prompt_tokens"]),
            (["--set", "workload=quick"], ["'workload'"]),
            (["--set", "device_class=gpu"], ["'device_class'"]),
            (["--set", "long.prompt_tokens"], ["key=value"]),
            (["--set", "long.prompt_tokens=0"], ["long.prompt_tokens = 0", "from 1"]),
            (["--set", "long.prompt_tokens=" + "9" * 5000], ["long.prompt_tokens"]),
            (["--set", "schedules=5"], ["schedules"]),
            (["--set", "schedules=unified,nonsense"], ["schedules"]),
            (["--set", "seed=" + "[" * 50_000], ["seed"]),
            (["--set", "text=/no/such/file"], ["text", "/no/such/file"]),
            (["--set", "long.prompt_tokens=9000"], ["9000", "8192"]),
            (["--set", "threads=200"], ["threads"]),
            (["--set", "chat.count=0", "--set", "long.count=0"], ["no requests"]),
            (["--device", "cuda"], ["device 'cuda'"]),
            (["--json", "/no/such/folder/out.json"], ["/no/such/folder/out.json", "folder does not exist"]),
            (["--json", "/"], ["folder"]),
            (["--json", ""], ["folder"]),
            (["--json", "x" * 300], ["could not be written", "too long"]),
        ],
        ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
    )  # fmt: skip
    def test_what_cannot_be_is_one_line_before_anything_starts(self, inside, arguments, words):
        """Never a traceback, and never only after minutes of measuring."""
        code, out, err = inside("run", "schedules", "--json", "-", *TINY, *arguments)
        assert_one_line(code, out, err, *words)
        assert len(err[0]) < 1000

    @pytest.mark.parametrize(
        "name", ["AbCdEfGhIjKlMnOpQrStUv", "../../etc/passwd", "/etc/passwd", "", "x" * 5000, "가", ".", "no\nsuch"], ids=lambda name: repr(name)[:24]
    )
    def test_a_run_that_is_not_there(self, inside, name):
        """A hostile, endless or empty name is one line, too."""
        code, out, err = inside("trace", name, "--csv", "-")
        assert_one_line(code, out, err)

    @pytest.mark.parametrize(
        "content",
        ["", "{", "[]", "[" * 100_000, json.dumps({"run_id": "x", "kind": "x", "manifest": {}, "schedules": {"unified": 5}}),
         json.dumps({"run_id": "x", "kind": "x", "manifest": {}, "schedules": {"unified": {"trace": {"requests": [{}]}, "resources": []}}})],
        ids=lambda content: content[:20],
    )  # fmt: skip
    def test_a_file_that_is_no_result(self, inside, tmp_path, content):
        """Cut, or made by something else: named, with the reason."""
        (tmp_path / "result.json").write_text(content)
        code, out, err = inside("trace", "result.json", "--chrome", "-")
        assert_one_line(code, out, err, "result.json")

    def test_an_export_of_nothing(self, inside, tmp_path):
        """Code 0 without a file would look like success."""
        (tmp_path / "result.json").write_text(json.dumps(small_result()))
        assert_one_line(*inside("trace", "result.json"), "--chrome", "--csv")

    @pytest.mark.parametrize("arguments, word", [(["--json", "no/such/folder/x.json"], "folder"), (["--pairs", "0"], "pairs")])
    def test_a_benchmark_that_cannot_be(self, inside, arguments, word):
        """Told before the minutes it takes, not when the figures are to be written."""
        assert_one_line(*inside("bench", "--device", "cpu", *arguments), word)

    def test_an_unknown_fetch(self, inside):
        """The names that can be fetched are in the line."""
        assert_one_line(*inside("fetch", "nonsense"), "nonsense", "kjv")

    def test_a_data_folder_that_cannot_be(self, inside, tmp_path):
        """The line names the variable that sets it."""
        (tmp_path / "file").write_text("")
        assert_one_line(*inside("run", "schedules", "--json", "-", *TINY, env={"LAB_HOME": str(tmp_path / "file")}), "LAB_HOME")


@pytest.fixture(scope="module")
def quick(home, tmp_path_factory):
    """The quick workload on the tiny model, with all schedules: run once, read by many."""
    folder = tmp_path_factory.mktemp("quick")
    command = [sys.executable, "-m", "engine", "run", "schedules", "--workload", "quick", *TINY, "--set", "decompose=true", "--json", "-"]
    environment = {**os.environ, "LAB_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=110)
    assert done.returncode == 0, done.stderr.decode()
    return done


def ids_of(result) -> set[str]:
    return {f"{group['kind']}-{n}" for group in result["manifest"]["scenario"]["groups"] for n in range(group["count"])}


def outputs_of(result) -> int:
    return sum(group["count"] * group["output_tokens"] for group in result["manifest"]["scenario"]["groups"])


class TestRun:
    def test_stdout_is_the_result_and_nothing_else(self, quick, home):
        """In UTF-8 whatever the terminal's encoding, as JSON is; words go to stderr, with the run's id at the end."""
        result = json.loads(quick.stdout.decode("utf-8"))
        assert quick.stderr.decode().splitlines()[-1] == f"run {result['run_id']}"
        assert read_result(home / "runs" / f"{result['run_id']}.json.gz") == result
        assert "measuring schedule=chunked repeat=1 repeats=1" in quick.stderr.decode()

    def test_metrics_as_promised(self, quick):
        """Units in the names, the chats' worst gap and the long prompt's TTFT where others look for them."""
        result = json.loads(quick.stdout)
        assert list(result["schedules"]) == ["unified", "chunked", "disaggregated"]
        for schedule, entry in result["schedules"].items():
            metrics = entry["metrics"]
            assert 0 < metrics["itl_p50_s"] <= metrics["itl_p99_s"] <= metrics["itl_max_s"] < 60
            assert 0 < metrics["prefill_s"] <= metrics["ttft_s"] < metrics["makespan_s"]
            assert metrics["finished"] == metrics["requests"] == len(ids_of(result)) and metrics["refused"] == 0
            assert metrics["output_tokens"] == outputs_of(result)
            assert 0 < metrics["kv_peak_bytes"] <= metrics["kv_capacity_bytes"] <= result["manifest"]["scenario"]["kv_bytes"]
            moved = sum(r["prompt_tokens"] for r in entry["trace"]["requests"]) * 256 if schedule == "disaggregated" else 0
            assert metrics["transfer_bytes"] == moved, "256 bytes of KV for every token of every prompt, once"
            assert set(metrics) == set(entry["spread"]) and entry["spread"]["itl_max_s"] == [metrics["itl_max_s"]] * 2
        units = ("_s", "_bytes", "_tokens", "_tokens_per_s")
        counts = {"preemptions", "refused", "finished", "requests"}
        assert all(name.endswith(units) or name in counts for name in metrics)

    def test_manifest_and_resources(self, quick):
        """What a run needs to be made again, and what each schedule was given."""
        result = json.loads(quick.stdout)
        manifest = result["manifest"]
        assert result["format"] == 1 and result["kind"] == "schedules" and result["provenance"] == "measured" and len(result["run_id"]) == 22
        assert manifest["scenario"]["workload"] == "quick" and manifest["scenario"]["model"] == "random-tiny" and manifest["seed"] == 0
        assert manifest["dtype"] == "float32" and manifest["device"]["class"] == "cpu" and manifest["order"] == [list(result["schedules"])]
        assert len(manifest["text"]["sha256"]) == 64 and manifest["text"]["language"] == "ko" and manifest["model"]["kv_bytes_per_token"] == 256
        assert {"python", "torch", "numpy", "platform", "engine"} <= set(manifest["versions"])
        given = {s: [(r["worker"], r["role"], r["threads"]) for r in e["resources"]] for s, e in result["schedules"].items()}
        cores = manifest["threads"]
        assert given["unified"] == [("engine-0", "unified", cores)] and given["chunked"] == [("engine-0", "chunked", cores)]
        assert [(w, r) for w, r, _ in given["disaggregated"]] == [("prefill-0", "prefill"), ("decode-0", "decode")]
        assert sum(threads for *_, threads in given["disaggregated"]) == max(2, cores)
        for entry in result["schedules"].values():
            assert sum(r["kv_capacity_bytes"] for r in entry["resources"]) == entry["metrics"]["kv_capacity_bytes"]

    def test_trace_texts_and_agreement(self, quick):
        """The trace speaks of the requests by index, the texts by id; in float32 the schedules write the same."""
        result = json.loads(quick.stdout)
        ids = ids_of(result)
        assert "long-0" in ids and "chat-3" in ids
        assert set(result["texts"]) == set(result["agreement"]) == ids
        for schedule, entry in result["schedules"].items():
            trace = entry["trace"]
            assert trace["schedule"] == schedule and trace["repeat"] == 0 and {r["id"] for r in trace["requests"]} == ids
            assert {r["status"] for r in trace["requests"]} == {"finished"}
            computed = sum(length for step in trace["steps"] for _, _, length in step["slices"])
            assert computed == sum(r["prompt_tokens"] + r["output_tokens"] - 1 for r in trace["requests"])
            if schedule == "chunked":
                chunk_tokens = result["manifest"]["scenario"]["chunk_tokens"]
                assert max(step["prefill_tokens"] for step in trace["steps"]) == chunk_tokens
        for request_id in ids:
            texts = result["texts"][request_id]
            assert texts["prompt"] and isinstance(texts["unified"], str)
            for schedule in ("chunked", "disaggregated"):
                difference = result["agreement"][request_id][schedule]
                assert difference is None or difference["near_tie"], "other tokens, and no near-tie to explain it"
                assert difference is not None or texts[schedule] == texts["unified"]
        costs = result["chunking"]
        assert costs["chunk_tokens"] == chunk_tokens and costs["whole_prefill_s"] > 0
        assert costs["kernel_cost_s"] == pytest.approx(costs["chunked_alone_s"] - costs["whole_prefill_s"])
        assert costs["scheduling_cost_s"] == pytest.approx(costs["chunked_served_s"] - costs["chunked_alone_s"])

    def test_trace_exports_of_a_stored_run(self, quick, lab, tmp_path):
        """By its id alone, in both formats at once, with nothing said on success."""
        run_id = json.loads(quick.stdout)["run_id"]
        code, out, err = lab("trace", run_id, "--chrome", "trace.json", "--csv", "tokens.csv")
        assert (code, out, err) == (0, "", [])
        check_trace_event_format(json.loads((tmp_path / "trace.json").read_text()))
        rows = list(csv.DictReader((tmp_path / "tokens.csv").open()))
        assert len(rows) == 3 * outputs_of(json.loads(quick.stdout)) and {row["run_id"] for row in rows} == {run_id}

    def test_stored_runs_are_listed_and_pinned(self, quick, inside, home):
        """A pin that is not shown, or a list without the newest run, and the clean-up takes what somebody counted on."""
        run_id = json.loads(quick.stdout)["run_id"]
        assert inside("pin", run_id)[0] == 0 and (home / "runs" / f"{run_id}.pin").exists()
        code, out, err = inside("runs")
        (line,) = [line for line in out.splitlines() if line.startswith(run_id)]
        assert code == 0 and err == [] and "quick" in line and line.endswith("pinned")
        assert inside("pin", run_id, "--off")[0] == 0
        (run,) = [run for run in json.loads(inside("runs", "--json")[1]) if run["id"] == run_id]
        assert run["pinned"] is False and run["title"] == "quick" and set(run["summary"]) == {"unified", "chunked", "disaggregated"}
        assert "browser" not in run
        old = home / "runs" / "a-run-of-the-version-before.json"
        old.write_text(json.dumps({"run_id": old.stem, "kind": "schedules", "manifest": {}, "schedules": {}}))
        assert old.stem in inside("runs")[1], "its row is made when it is first asked for"
        old.unlink()
        assert_one_line(*inside("pin", "AbCdEfGhIjKlMnOpQrStUv"), "AbCdEfGhIjKlMnOpQrStUv")

    def test_a_long_prompt_that_is_refused_and_a_model_in_this_folder(self, lab, tmp_path):
        """Chunking's cost cannot be told then: that used to end the run with a traceback, after all the measuring. And
        workers must find a path that is relative to where the user is."""
        from tests.model.checkpoints import write_directory

        write_directory(tmp_path / "my-model", settings={"max_position_embeddings": 8192, "num_key_value_heads": 4})
        code, out, err = lab(
            "run", "schedules", "--workload", "quick", *TINY, "--model", "./my-model", "--set", "schedules=unified,chunked", "--set", "kv_bytes=1048576",
            "--set", "long.prompt_tokens=3000", "--set", "decompose=true", "--set", "chat.output_tokens=5", "--json", "out.json",
        )  # fmt: skip
        assert code == 0, err
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert result["chunking"] is None
        metrics = result["schedules"]["chunked"]["metrics"]
        assert (metrics["refused"], metrics["finished"], metrics["ttft_s"]) == (1, len(ids_of(result)) - 1, None)
        (reason,) = [r["reason"] for r in result["schedules"]["unified"]["trace"]["requests"] if r["status"] == "refused"]
        assert reason["code"] == "request-never-fits" and reason["facts"]["tokens"] >= 3000


@pytest.mark.parametrize("arguments", [["chunk-sweep", "--set", "values=64,0", "--set", "long.prompt_tokens=300"], ["backlog", "--set", "values=40,60", "--set", "prompt.count=3"]])
def test_sweeps(lab, tmp_path, arguments):
    """Each from its name to its points, and no trace to export, which is said."""
    kind, *rest = arguments
    code, out, err = lab("run", kind, *TINY, *rest, "--set", "chat.output_tokens=20" if kind == "chunk-sweep" else "prompt.spacing_s=0.1", "--json", "out.json")
    assert code == 0 and out == "", err
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert result["kind"] == kind and sorted(point["value"] for point in result["points"]) == sorted(json.loads(f"[{rest[1][7:]}]"))
    assert_one_line(*lab("trace", result["run_id"], "--csv", "-"), "no traces")


def test_a_wall(lab, tmp_path):
    """From its name to three servings, whose traces can be exported; what never fits is one line, before anything starts."""
    small = [*TINY, "--set", "count=6", "--set", "prompt_tokens_max=60", "--set", "output_tokens_max=24", "--set", "pool_tokens=160"]
    code, out, err = lab("run", "wall", *small, "--set", "reserve_tokens=90", "--json", "out.json")
    assert code == 0 and out == "", err
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert result["kind"] == "wall" and list(result["schedules"]) == ["ample", "paged", "reserved"]
    assert all(found["measured"] == [found["first_wave"]] for found in result["prediction"].values())
    code, rows, _ = lab("trace", result["run_id"], "--csv", "-")
    assert code == 0 and {row.split(",")[1] for row in rows.splitlines()[1:]} == {"ample", "paged", "reserved"}
    assert_one_line(*lab("run", "wall", *small, "--set", "reserve_tokens=900", "--json", "out.json"), "reserve_tokens = 900")


class TestOutput:
    """`trace` writes as `run` does, without the wait."""

    @pytest.fixture
    def export(self, lab, tmp_path):
        (tmp_path / "result.json").write_text(json.dumps(small_result()))
        return lambda out, **options: lab("trace", "result.json", "--csv", out, **options)

    def test_devices_and_links_are_written_to_and_never_replaced(self, export, tmp_path):
        """Written beside and renamed over, /dev/null would become a file: on a server, for everybody."""
        link, target = tmp_path / "null", tmp_path / "target.csv"
        link.symlink_to("/dev/null")
        assert export(str(link)) == (0, "", []) and link.is_symlink() and os.stat("/dev/null").st_rdev
        link.unlink()
        target.write_text("old")
        link.symlink_to(target)
        assert export(str(link))[0] == 0 and link.is_symlink() and target.read_text().startswith("run_id,")

    def test_dev_stdout_is_stdout_even_into_a_file(self, export, tmp_path):
        """/dev/stdout is a link to the file then; it used to be replaced by a file of its own."""
        link = tmp_path / "stdout"  # in place of /dev/stdout: a mistake here must not cost the machine its own
        link.symlink_to("/dev/fd/1")
        code, out, _ = export(str(link))
        assert code == 0 and out.startswith("run_id,")
        with (tmp_path / "redirected.csv").open("wb") as file:
            assert export(str(link), stdout=file)[0] == 0
        assert (tmp_path / "redirected.csv").read_text() == out
        assert link.is_symlink()

    def test_a_pipe_is_written_to(self, start, tmp_path):
        """Renamed over, a named pipe would be gone and its reader wait for ever."""
        (tmp_path / "result.json").write_text(json.dumps(small_result()))
        os.mkfifo(tmp_path / "pipe")
        reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            assert start("trace", "result.json", "--csv", "pipe").wait(timeout=20) == 0
            assert os.read(reading, 7) == b"run_id," and (tmp_path / "pipe").is_fifo()
        finally:
            os.close(reading)

    def test_a_full_disk_is_one_line_and_leaves_the_old_file(self, inside, tmp_path, monkeypatch):
        """An old export must not be lost to a new one that does not fit."""
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        (tmp_path / "result.json").write_text(json.dumps(small_result()))
        (tmp_path / "tokens.csv").write_text("old")
        monkeypatch.setattr("engine.service.files.os.fsync", full)
        assert_one_line(*inside("trace", "result.json", "--csv", "tokens.csv"), "tokens.csv", "No space left")
        assert (tmp_path / "tokens.csv").read_text() == "old" and len(list(tmp_path.iterdir())) == 2

    def test_a_folder_that_is_not_there_is_one_line_and_leaves_nothing(self, export, tmp_path):
        """No temporary file may be left where the user was."""
        assert_one_line(*export("no/such/folder/x.csv"), "no/such/folder/x.csv")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json"]

    def test_the_dash_is_stdout(self, export):
        """With no line more than the file would have."""
        code, out, err = export("-")
        assert code == 0 and err == [] and len(list(csv.reader(io.StringIO(out)))) == 9


class TestKv:
    LLAMA = {
        "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192, "tie_word_embeddings": False,
    }  # fmt: skip

    @pytest.fixture
    def kv(self, inside):
        """The JSON of a question that has an answer."""

        def ask(*arguments):
            code, out, err = inside("kv", *arguments, "--json", "-")
            assert (code, err) == (0, []), err
            return json.loads(out)

        return ask

    def test_claim_a2_of_a_profile(self, kv):
        """128,000 tokens of Llama-3-8B are 16.8 GB, not 67: KV heads. The batch counts for all sizes but the weights."""
        one, four = kv("llama-3-8b", "--length", "128000"), kv("llama-3-8b", "--length", "128000", "--batch", "4")
        assert one["kv_bytes"] == one["kv_payload_bytes"] == 131_072 * 128_000 and one["kv_scale_bytes"] == one["state_bytes"] == 0
        assert (one["batch"], one["dtype"], one["attention_kind"]) == (1, "bf16", "gqa")
        assert four["kv_bytes"] == 4 * one["kv_bytes"] and four["weight_bytes"] == one["weight_bytes"] == 16_060_522_496
        assert one["kv_bytes_per_token"] == {"bf16": 131_072, "mean": 131_072}

    @pytest.mark.parametrize("dtype, payload, scales", [
        ("fp32", 46_080, 0), ("bf16", 23_040, 0), ("fp8", 11_520, 0), ("int8", 11_520, 360), ("int4", 5_760, 1_080)])  # fmt: skip
    def test_every_dtype_is_payload_and_scales(self, kv, dtype, payload, scales):
        """The figures of SmolLM2 in the design, per token at a multiple of 32."""
        found = kv("smollm2-135m-instruct", "--length", "320", "--batch", "3", "--dtype", dtype)
        assert (found["kv_payload_bytes"], found["kv_scale_bytes"]) == (3 * 320 * payload, 3 * 320 * scales)
        assert found["kv_bytes"] == found["kv_payload_bytes"] + found["kv_scale_bytes"]

    def test_a_state_is_apart(self, kv):
        """It belongs to a sequence, not to its tokens: within kv_bytes it would be multiplied by whoever divides by tokens."""
        short, long = (kv("jamba-v0.1", "--length", length, "--batch", "2") for length in ("1", "100000"))
        assert short["state_bytes"] == long["state_bytes"] == 2 * 28 * 163_840 * 2
        assert long["kv_bytes"] == 2 * 100_000 * 16_384 and long["attention_kind"] == "hybrid"

    def test_a_config_json_says_what_its_profile_says(self, kv, tmp_path):
        (tmp_path / "config.json").write_text(json.dumps(self.LLAMA))
        pasted, named = kv("config.json", "--length", "4097", "--dtype", "int4"), kv("llama-3-8b", "--length", "4097", "--dtype", "int4")
        assert pasted.pop("name") == pasted.pop("title") == "config.json" and named.pop("name") and named.pop("title")
        assert pasted == named

    def test_a_file_wins_over_a_profile_of_its_name_and_a_folder_does_not(self, kv, tmp_path):
        """What lies here was meant; a folder of models is often called like the model."""
        (tmp_path / "llama-3-8b").write_text(json.dumps(self.LLAMA | {"num_hidden_layers": 1}))
        (tmp_path / "llama-3-70b").mkdir()
        assert kv("llama-3-8b", "--length", "1")["kv_bytes"] == 4096
        assert kv("llama-3-70b", "--length", "1")["kv_bytes"] == 327_680

    def test_for_a_reader_it_is_a_few_lines(self, inside):
        code, out, err = inside("kv", "qwen3-next-80b-a3b", "--length", "1000000", "--batch", "8", "--dtype", "int8")
        assert (code, err) == (0, []) and 4 <= len(out.splitlines()) <= 6
        assert "GiB" in out and "scales" in out and "state" in out and "262,144 tokens at most" in out

    def test_weights_that_are_not_counted_are_null(self, inside, kv, tmp_path):
        """0 would be taken for a model without weights."""
        config = {
            "model_type": "lfm2", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 64, "max_position_embeddings": 100, "layer_types": ["conv", "full_attention"],
        }  # fmt: skip
        (tmp_path / "c.json").write_text(json.dumps(config))
        assert kv("c.json", "--length", "3")["weight_bytes"] is None
        assert "not counted" in inside("kv", "c.json", "--length", "3")[1]

    @pytest.mark.parametrize("length", ["0", "-5", "1.5", "1e3", "", "many", "٣", "1_000", "1" + "0" * 30, "1" * 5000])
    @pytest.mark.parametrize("option", ["length", "batch"])
    def test_a_number_that_cannot_be_is_one_line(self, inside, option, length):
        numbers = {"length": "10", "batch": "1", option: length}
        assert_one_line(*inside("kv", "llama-3-8b", *[f"--{name}={value}" for name, value in numbers.items()]), option)

    @pytest.mark.parametrize(
        "text, words",
        [
            (b"", "JSON"), (b"{", "JSON"), (b"\xff", "JSON"), (b"[]", "object"), (b"{}", "model_type"), (b"[" * 50_000, "deep"),
            (b'{"model_type": "gpt5"}', "gpt5"), (b'{"model_type": "llama"}', "hidden_size"), (b" " * 2_000_000, "1000000"),
        ],
        ids=range(9),
    )  # fmt: skip
    def test_a_broken_file_is_one_line(self, inside, tmp_path, text, words):
        (tmp_path / "config.json").write_bytes(text)
        assert_one_line(*inside("kv", "config.json", "--length", "8", "--json", "-"), words)

    @pytest.mark.parametrize("name", ["", ".", "no/such.json", "llama", "x" * 5000, "a\nb"])
    def test_neither_a_file_nor_a_profile_is_one_line(self, inside, name):
        code, out, err = inside("kv", name, "--length", "8")
        assert_one_line(code, out, err, "neither a file here nor a profile", "llama-3-8b")

    def test_a_file_that_may_not_be_read_is_one_line(self, inside, tmp_path, monkeypatch):
        """Root reads everything, so the refusal is played."""
        (tmp_path / "config.json").write_text("{}")

        def refuse(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
        assert_one_line(*inside("kv", "config.json", "--length", "8"), "config.json", "Permission denied")

    @pytest.mark.parametrize("wrong", [["--dtype", "int2"], ["--length"], []])
    def test_a_wrong_command_is_2(self, inside, wrong):
        assert inside("kv", "llama-3-8b", *(["--length", "8"] if "--dtype" in wrong else []), *wrong)[0] == 2

    def test_it_needs_no_torch(self):
        """An answer from a formula must not cost the seconds that loading torch does."""
        code = "import sys; from engine import cli; cli.main(['kv', 'llama-3-8b', '--length', '8']); sys.exit('torch' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr


def family_of(process, seconds=60) -> list[psutil.Process]:
    """Wait until it measures; all its processes then."""
    for line in process.stderr:
        if line.startswith(b"measuring"):
            parent = psutil.Process(process.pid)
            return [parent, *parent.children(recursive=True)]
    raise AssertionError("it ended before it measured")


def test_a_busy_device_is_75_with_its_holder(lab, home, monkeypatch):
    """A script must be able to tell "later" from "never"."""
    monkeypatch.setenv("LAB_HOME", str(home))
    with device_lock("cpu", "a test of ours"):
        code, out, err = lab("run", "schedules", *ALONE, "--no-wait", "--json", "-")
    assert_one_line(code, out, err, "a test of ours", str(os.getpid()), wanted=75)


@pytest.mark.parametrize("number, to_group", [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_interrupted_is_130_and_leaves_nothing(start, home, tmp_path, number, to_group):
    """Ctrl-C reaches the workers too, a stopping system only the command: no traceback, no worker, no half result."""
    runs = set((home / "runs").glob("*.json*"))
    process = start("run", "schedules", *ENDLESS, "--json", "out.json")
    family = family_of(process)
    assert len(family) == 3, "the command, its service and a worker"
    (os.killpg if to_group else os.kill)(process.pid, number)
    assert process.wait(timeout=15) == 130
    assert process.stderr.read() == b"engine: interrupted; what had not ended is not stored\n"
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == [] and not (tmp_path / "out.json").exists()
    assert runs == set((home / "runs").glob("*.json*"))
    assert not (home / "locks" / "cpu.holder.json").exists()


class TestRoofline:
    MODEL = TINY[:6]  # it reads no text
    FEW = ["--set", "prefill_tokens=16", "--set", "decode_batches=1,2", "--set", "decode_contexts=30"]

    def test_from_its_name_to_its_points(self, lab, tmp_path):
        """And no trace to export, which is said."""
        code, out, err = lab("run", "roofline", *self.MODEL, *self.FEW, "--set", "repeats=1", "--json", "out.json")
        assert code == 0 and out == "", err
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert [point["id"] for point in result["points"][::3]] == ["prefill-16-all", "decode-1x30-all", "decode-2x30-all"]
        assert err[-1] == f"run {result['run_id']}" and any(line.startswith("measuring step=decode tokens=2 batch=2 context=30") for line in err)
        assert_one_line(*lab("trace", result["run_id"], "--csv", "-"), "no traces")
        (run,) = [run for run in json.loads(lab("runs", "--json")[1]) if run["id"] == result["run_id"]]
        assert (run["kind"], run["title"], run["summary"]) == ("roofline", "roofline", {})

    @pytest.mark.parametrize(
        "arguments, words",
        [
            (["--set", "text=korean"], ["'text'", "prefill_tokens"]), (["--set", "prefill_tokens=x"], ["prefill_tokens"]),
            (["--set", "decode_batches=0,1"], ["decode_batches", "from 1"]), (["--set", "prefill_tokens=", "--set", "decode_batches="], ["decode_batches"]),
            (["--set", "prefill_tokens=9000", "--set", "decode_batches="], ["9000", "8192"]),
            (["--set", "prefill_tokens=5000", "--set", "decode_batches=", "--set", "kv_bytes=1048576"], ["5000", "313", "256"]),
            (["--model", "random-1b", "--set", "prefill_tokens=100000", "--set", "kv_bytes=1099511627776"], ["limit is 600 s"]),
            (["--json", "/no/such/folder/out.json"], ["folder does not exist"]),
        ],
        ids=lambda value: " ".join(value)[:40],
    )  # fmt: skip
    def test_what_cannot_be_is_one_line_before_anything_starts(self, inside, arguments, words):
        """Never a traceback, and never only after minutes of measuring."""
        assert_one_line(*inside("run", "roofline", "--json", "-", *self.MODEL, *arguments), *words)

    def test_calibrate(self, lab, home):
        """Stdout is the JSON and nothing else; kept for the device; a busy device has its own code."""
        code, out, err = lab("calibrate", "--device", "cpu", "--json")
        figures = json.loads(out)
        assert code == 0 and set(err) == {"calibrating"} and figures["version"] == 1
        assert json.loads(next((home / "calibrations").glob("*.json")).read_text()) == figures
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LAB_HOME", str(home))
            with device_lock("cpu", "somebody"):
                assert_one_line(*lab("calibrate", "--device", "cpu", "--no-wait"), "somebody", wanted=75)

    @pytest.mark.parametrize("arguments, word", [(["--json", "no/such/folder/x.json"], "folder"), (["--device", "cuda"], "'cuda'")])
    def test_a_calibration_that_cannot_be(self, inside, arguments, word):
        """Told before the seconds it takes."""
        assert_one_line(*inside("calibrate", *arguments), word)


class TestAttention:
    def test_from_its_name_to_its_maps(self, lab, tmp_path):
        """A text of one's own by its path; and no trace to export, which is said."""
        (tmp_path / "own.txt").write_text("한 ÿ " * 20, encoding="utf-8")
        code, out, err = lab("run", "attention", *TINY[:6], "--set", "text=own.txt", "--set", "tokens=20", "--json", "out.json")
        assert code == 0 and out == "", err
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert result["tokens"][:5] == ["한 (1/3)", "한 (2/3)", "한 (3/3)", "␣", "ÿ (1/2)"] and len(result["tokens"]) == 20
        assert err == ["starting-workers", "loading", "computing", f"run {result['run_id']}"]
        assert_one_line(*lab("trace", result["run_id"], "--csv", "-"), "no traces")

    @pytest.mark.parametrize(
        "arguments, words",
        [
            (["--set", "tokens=1"], ["tokens", "from 2 to 1024"]), (["--set", "first_k=0"], ["first_k"]), (["--set", "offset=9999"], ["offset", "no longer"]),
            (["--set", "exact_layer=9", "--set", "exact_head=0"], ["exact_layer", "to 1"]), (["--set", "prefill_tokens=5"], ["'prefill_tokens'", "tokens"]),
            (["--set", "text=/no/such.txt"], ["/no/such.txt"]), (["--model", "smollm2-135m-instruct"], ["fetch"]), (["--json", "/no/such/folder/out.json"], ["folder does not exist"]),
        ],
        ids=lambda value: " ".join(value)[:40],
    )  # fmt: skip
    def test_what_cannot_be_is_one_line(self, inside, arguments, words):
        """Never a traceback."""
        assert_one_line(*inside("run", "attention", "--json", "-", *TINY, *arguments), *words)


class TestStreamingAndNeedle:
    MODEL = TINY[:6]

    def test_a_stream_from_its_name_to_its_curves(self, lab, tmp_path):
        """With lists as a command line gives them, and a line of progress for each curve; no trace to export, which is said."""
        (tmp_path / "own.txt").write_text("Every word of this text is somebody's own. " * 40, encoding="utf-8")
        settings = ("text=own.txt", "tokens=200", "window=48", "sinks=0,4", "policies=window,sinks", "decode_tokens=20")
        code, out, err = lab("run", "streaming", *self.MODEL, *(word for setting in settings for word in ("--set", setting)), "--json", "out.json")
        assert code == 0 and out == "", err
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert list(result["curves"]) == ["dense", "window", "sinks-4"] and [row["sinks"] for row in result["table"]] == [0, 4]
        assert err[-1] == f"run {result['run_id']}" and any(line.startswith("measuring policy=sinks-4 tokens=") for line in err)
        code, _, err = lab("trace", result["run_id"], "--csv", "-")
        assert code == 1 and len(err) == 1

    def test_a_needle_from_its_name_to_its_cells(self, lab, tmp_path):
        """One JSON on stdout, nothing else."""
        settings = ("text=korean", "trials=2", "length=500", "window=320", "distractors=0", "policies=dense,sinks")
        code, out, err = lab("run", "needle", *self.MODEL, *(word for setting in settings for word in ("--set", setting)), "--json", "-")
        assert code == 0, err
        cells = json.loads("\n".join(out) if isinstance(out, list) else out)["cells"]
        assert [(cell["policy"], cell["trials"]) for cell in cells] == [("dense", 2), ("sinks", 2), ("sinks", 2)]

    def test_lengths_from_their_name_to_their_cells(self, lab, tmp_path):
        """With lists as a command line gives them, and a preset by name."""
        settings = ("text=korean", "lengths=32,64", "scored=16", "samples=1", "seeds=2", "methods=none,yarn", "factor=2")
        code, out, err = lab("run", "lengths", "--preset", "lengths", *self.MODEL, *(word for setting in settings for word in ("--set", setting)), "--json", "out.json")
        assert code == 0 and out == "", err
        cells = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["cells"]
        assert sorted((cell["method"], cell["length"], len(cell["by_seed"])) for cell in cells) == [("none", 32, 2), ("none", 64, 2), ("yarn", 32, 2), ("yarn", 64, 2)]

    def test_a_transfer_from_its_name_to_its_rows(self, lab, tmp_path):
        """With lists as a command line gives them."""
        settings = ("text=korean", "lengths=40,64", "formats=fp32,int4", "scored=8", "continue_tokens=2", "link_bytes_per_s=1000000")
        code, out, err = lab("run", "transfer", *self.MODEL, *(word for setting in settings for word in ("--set", setting)), "--json", "out.json")
        assert code == 0 and out == "", err
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert [(row["tokens"], row["format"]) for row in result["rows"]] == [(40, "fp32"), (40, "int4"), (64, "fp32"), (64, "int4")]
        assert result["link"]["asked_bytes_per_s"] == 1000000 and any(line.startswith("measuring policy=quality tokens=64") for line in err)

    def test_pools_from_their_name_to_their_arrangements(self, lab, tmp_path):
        """With a case by name, arrangements as a command line gives them, and a group's setting."""
        settings = ("text=korean", "arrangements=1:1,unified", "chat.output_tokens=3", "chat.spacing_s=0.01")
        code, out, err = lab("run", "pools", "--preset", "short-prompts", *self.MODEL, *(word for setting in settings for word in ("--set", setting)), "--json", "out.json")
        assert code == 0 and out == "", err
        result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert result["manifest"]["scenario"]["workload"] == "short-prompts"
        assert [(name, entry["metrics"]["finished"]) for name, entry in result["arrangements"].items()] == [("1:1", 8), ("unified", 8)]
        assert any(line.startswith("measuring schedule=unified") for line in err)

    @pytest.mark.parametrize(
        "name, arguments, words",
        [
            ("pools", ["--preset", "nonsense"], ["nonsense", "idle-pool"]), ("pools", ["--set", "arrangements=1:1,2:9"], ["arrangements", "p:d"]),
            ("streaming", ["--set", "sinks=x"], ["sinks", "0 to 64"]), ("streaming", ["--set", "policies=dense,all"], ["policies", "recompute"]),
            ("streaming", ["--set", "window=2560"], ["window", "2032"]), ("streaming", ["--set", "tokens=99999999"], ["tokens", "32768"]),
            ("streaming", ["--set", "text=nowhere.txt"], ["nowhere.txt"]), ("streaming", ["--set", "colour=red"], ["'colour'", "decode_tokens"]),
            ("streaming", ["--json", "/no/such/folder/out.json"], ["folder does not exist"]),
            ("needle", ["--set", "trials=0"], ["trials", "from 1"]), ("needle", ["--set", "depth=2"], ["depth", "0 to 1"]),
            ("needle", ["--set", "length=96"], ["length", "96"]), ("needle", ["--set", "policies=recompute"], ["policies", "snapkv"]),
            ("needle", ["--set", "length=8190"], ["8192"]),
            ("lengths", ["--preset", "nonsense"], ["nonsense", "lengths-smollm2"]), ("lengths", ["--set", "lengths=127"], ["lengths", "128"]),
            ("lengths", ["--set", "methods=none,all"], ["methods", "by-parts"]), ("lengths", ["--set", "factor=0.5"], ["factor", "from 1"]),
            ("retrieval", [], ["random-tiny", "lab model"]), ("retrieval", ["--set", "depths=0.5,2.5"], ["depths", "0 to 1"]),
            ("transfer", ["--set", "formats=fp32,int3"], ["formats", "int4"]), ("transfer", ["--set", "lengths=9000"], ["9000", "8192"]),
        ],
        ids=lambda value: str(value)[:40],
    )  # fmt: skip
    def test_what_cannot_be_is_one_line_before_anything_starts(self, inside, name, arguments, words):
        """Never a traceback, and never only after minutes of measuring."""
        assert_one_line(*inside("run", name, "--json", "-", *self.MODEL, "--set", "text=pydoc", *arguments), *words)
