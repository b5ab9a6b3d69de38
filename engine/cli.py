"""The command line: everything the engine does, without the web app.

Exit codes: 0 done; 1 it could not be done (one line on stderr says why and what to do); 2 the command itself is wrong;
75 the device is busy and --no-wait was given; 130 interrupted. Results go to files or stdout, words to stderr.
"""

import argparse
import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from engine.errors import LabError
from engine.formulas.kv import KV_DTYPES

DEVICE_BUSY = 75
INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    code = _carried_out(arguments)
    if getattr(arguments, "ends_at_once", False):  # gloo's threads wait for what no longer comes, and cannot be woken
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _carried_out(arguments: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        arguments.command(arguments)
        sys.stdout.flush()
    except LabError as error:
        print(f"engine: {error}", file=sys.stderr)
        return DEVICE_BUSY if error.code == "device-busy" else 1
    except KeyboardInterrupt:
        print("engine: interrupted; what had not ended is not stored", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has enough
        _drop_stdout()
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise  # a bug, not a full disk
        _drop_stdout()
        print(f"engine: {LabError('output-unwritable', path='stdout', why=error.strerror)}", file=sys.stderr)
        return 1
    return 0


def _drop_stdout() -> None:
    """What is still to be written there goes nowhere, else the flush at exit fails again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine", description="Long-context serving, measured.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run an experiment").add_subparsers(required=True, metavar="EXPERIMENT")
    schedules = run.add_parser("schedules", help="the same requests under unified, chunked and disaggregated serving")
    schedules.add_argument("--workload", default=None, help="a preset (see: workloads)")
    schedules.set_defaults(command=_run_schedules)
    chunks = run.add_parser("chunk-sweep", help="chunk size against the long prompt's TTFT and the chats' worst ITL")
    backlog = run.add_parser("backlog", help="prompt length until prompts arrive faster than they can be prefilled")
    for sweep, kind in ((chunks, "chunk-sweep"), (backlog, "backlog")):
        sweep.set_defaults(command=_run_sweep, kind=kind)
    roofline = run.add_parser("roofline", help="this engine's prefills and decode steps under this device's measured roof")
    roofline.set_defaults(command=_run_roofline)
    wall = run.add_parser("wall", help="the same requests into a pool that cannot hold them all: paged, and reserving the maximum")
    wall.set_defaults(command=_run_wall)
    attention = run.add_parser("attention", help="where every head of a model looks on a text, and what makes a sink")
    attention.set_defaults(command=_run_attention)
    streaming = run.add_parser("streaming", help="a text through caches that evict: how well the next token is foreseen, and the cost")
    streaming.set_defaults(command=_run_streaming)
    needle = run.add_parser("needle", help="a sentence early in a text, asked for after the window has passed it")
    needle.set_defaults(command=_run_needle)
    lengths = run.add_parser("lengths", help="the same tokens behind more text than the model was trained on, RoPE stretched and not")
    lengths.add_argument("--preset", default=None, help="lengths or lengths-smollm2 (default: the one for the model)")
    lengths.set_defaults(command=_run_lengths)
    retrieval = run.add_parser("retrieval", help="needles by depth and length, RoPE stretched and not, and with sinks and a window")
    retrieval.set_defaults(command=_run_retrieval)
    ring = run.add_parser("ring", help="a prefill split over processes that pass keys and values round, beside one process")
    ring.set_defaults(command=_run_ring)
    transfer = run.add_parser("transfer", help="KV from one process to another in every number format: bytes, seconds, and what is lost")
    transfer.set_defaults(command=_run_transfer)
    recurrent = run.add_parser("recurrent", help="decode steps with a state instead of a cache, and how many written pairs it still answers")
    recurrent.set_defaults(command=_run_recurrent)
    pools = run.add_parser("pools", help="the same requests in one engine and in prefill and decode pools of several sizes")
    pools.add_argument("--preset", default=None, help="balanced, short-prompts, slow-link, idle-pool or full-decode (default: balanced)")
    pools.add_argument(
        "--listen", metavar="HOST:PORT", help="wait there for a worker on another host for each of the pools (see: pool --help)"
    )
    pools.set_defaults(command=_run_pools)
    for experiment in (schedules, chunks, backlog, roofline, wall, attention, streaming, needle, lengths, retrieval, ring, transfer, recurrent, pools):
        experiment.add_argument("--model", help="a name (see: models), a .gguf file or a model directory")
        experiment.add_argument("--device", choices=("auto", "cpu", "cuda"))
        experiment.add_argument("--dtype", choices=("auto", "float32", "bfloat16"))
        experiment.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. long.prompt_tokens=2048")
        experiment.add_argument("--json", required=True, metavar="OUT", help="where the result goes; - is stdout")
        experiment.add_argument("--no-wait", action="store_true", help="fail at once if the device is busy")

    pool = commands.add_parser(
        "pool",
        help="be a worker of pools that another host measures",
        description="Be a prefill or decode worker of pools that another host measures (there: run pools --listen HOST:PORT, which "
        "prints the line to be typed here). This host needs the same version of the lab and the same model. KV goes from host to host "
        "directly, over torch.distributed. Nothing is encrypted: use it in a network whose users you trust. Ends with the run.",
    )
    pool.add_argument("--role", required=True, choices=("prefill", "decode"))
    pool.add_argument("--join", required=True, metavar="HOST:PORT", help="where the coordinator listens")
    pool.add_argument("--code", required=True, help="as the coordinator prints it, new for every run")
    pool.add_argument("--cores", metavar="LIST", help="of this host, e.g. 0,1; one thread each (default: all useful ones)")
    pool.add_argument("--device", metavar="NAME", help="e.g. cuda:1 (default: the kind that the run is for)")
    pool.add_argument("--model", metavar="PATH", help="where this host has the model, if it is none that the lab knows by name")
    pool.set_defaults(command=_pool, ends_at_once=True)

    training = commands.add_parser("train", help="train a model").add_subparsers(required=True, metavar="MODEL")
    lab = training.add_parser("lab", help="the lab model, from scratch: 11 minutes on two quiet cores")
    lab.add_argument("--out", required=True, metavar="FOLDER", help="where the model goes, and checkpoints until then")
    lab.add_argument("--seed", type=_whole(0, 2**31 - 1), default=0, metavar="N", help="default: 0, as the one in profiles/lab-1m")
    lab.add_argument("--steps", type=_whole(1, 1_000_000), metavar="N", help="of the second stage, instead of the recipe's")
    lab.add_argument("--threads", type=_whole(0, 256), default=0, metavar="N", help="of the processor (default: all useful cores)")
    lab.add_argument("--resume", action="store_true", help="go on from the checkpoint in FOLDER")
    lab.add_argument("--force", action="store_true", help="begin anew, whatever is in FOLDER")
    lab.set_defaults(command=_train_lab)

    runs = commands.add_parser("runs", help="list the stored runs, the newest first")
    runs.add_argument("--json", action="store_true", help="as JSON on stdout")
    runs.add_argument("--limit", type=int, default=50, metavar="N", help="no more than these (default: 50)")
    runs.set_defaults(command=_runs)

    pin = commands.add_parser("pin", help="keep a run when old ones make room for new ones")
    pin.add_argument("run", help="a run id")
    pin.add_argument("--off", action="store_true", help="do not keep it any longer")
    pin.set_defaults(command=_pin)

    commands.add_parser("workloads", help="list the presets").set_defaults(command=_workloads)
    for name, command, words in (("models", _models, "list the models"), ("devices", _devices, "what this machine is")):
        listing = commands.add_parser(name, help=words)
        listing.add_argument("--json", action="store_true", help="as JSON on stdout")
        listing.set_defaults(command=command)

    fetch = commands.add_parser("fetch", help="download a model or a text")
    fetch.add_argument("name")
    fetch.set_defaults(command=_fetch)

    trace = commands.add_parser("trace", help="export the trace of a run")
    trace.add_argument("run", help="a run id, or a file written with --json")
    trace.add_argument("--chrome", metavar="OUT", help="Chrome trace format, opens in Perfetto")
    trace.add_argument("--csv", metavar="OUT", help="one row per token")
    trace.set_defaults(command=_trace)

    kv = commands.add_parser("kv", help="bytes of a model's KV cache, computed from its shape")
    kv.add_argument("model", metavar="CONFIG.json|PROFILE", help="a Hugging Face config.json, or a name of profiles/models")
    kv.add_argument("--length", required=True, metavar="L", help="tokens of each sequence")
    kv.add_argument("--batch", default="1", metavar="B", help="sequences (default: 1)")
    kv.add_argument("--dtype", choices=KV_DTYPES, default="bf16", help="of the cache (default: bf16)")
    kv.add_argument("--json", metavar="OUT", help="as JSON; - is stdout")
    kv.set_defaults(command=_kv)

    logits = commands.add_parser("logits", help="logits of every position, to compare with another implementation")
    logits.add_argument("model")
    logits.add_argument("--tokens", required=True, metavar="FILE.json", help="a JSON list of token ids")
    logits.add_argument("--npy", required=True, metavar="OUT", help="float32 [tokens, vocabulary]")
    logits.add_argument("--dtype", default="float32")
    logits.add_argument("--device", default="cpu")
    logits.set_defaults(command=_logits)

    calibrate = commands.add_parser("calibrate", help="what this device can do at most: products, reading, calls, copying")
    calibrate.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    calibrate.add_argument("--json", nargs="?", const="-", metavar="OUT", help="as JSON; - or nothing is stdout")
    calibrate.add_argument("--no-wait", action="store_true", help="fail at once if the device is busy")
    calibrate.set_defaults(command=_calibrate)

    bench = commands.add_parser("bench", help="the engine's speed against a reference and this machine's limits")
    bench.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    bench.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    bench.add_argument("--pairs", type=int, default=7, help="alternated pairs per figure")
    bench.add_argument("--json", metavar="OUT", help="also write the figures; - is stdout")
    bench.add_argument("--no-wait", action="store_true", help="fail at once if the device is busy")
    bench.set_defaults(command=_bench)
    return parser


def _run_schedules(arguments: argparse.Namespace) -> None:
    from engine.experiments.scenarios import DEFAULT_WORKLOAD, scenario_for

    changes, device_class = _changes(arguments)
    _run(scenario_for(arguments.workload or DEFAULT_WORKLOAD, device_class, **changes), arguments)


def _run_sweep(arguments: argparse.Namespace) -> None:
    from engine.experiments.sweep_scenarios import sweep_for

    changes, device_class = _changes(arguments)
    _run(sweep_for(arguments.kind, device_class, **changes), arguments)


def _run_roofline(arguments: argparse.Namespace) -> None:
    from engine.experiments.roofline_scenario import roofline_for

    changes, device_class = _changes(arguments)
    _run(roofline_for(device_class, **changes), arguments)


def _run_wall(arguments: argparse.Namespace) -> None:
    from engine.experiments.wall_scenario import wall_for

    changes, device_class = _changes(arguments)
    _run(wall_for(device_class, **changes), arguments)


def _run_attention(arguments: argparse.Namespace) -> None:
    from engine.experiments.attention_scenario import attention_for

    changes, device_class = _changes(arguments)
    _run(attention_for(device_class, **changes), arguments)


def _run_streaming(arguments: argparse.Namespace) -> None:
    from engine.experiments.streaming_scenario import streaming_for

    changes, device_class = _changes(arguments)
    _run(streaming_for(device_class, **changes), arguments)


def _run_needle(arguments: argparse.Namespace) -> None:
    from engine.experiments.needle_scenario import needle_for

    changes, device_class = _changes(arguments)
    _run(needle_for(device_class, **changes), arguments)


def _run_lengths(arguments: argparse.Namespace) -> None:
    from engine.experiments.lengths_scenario import lengths_for

    changes, device_class = _changes(arguments)
    _run(lengths_for(device_class, arguments.preset, **changes), arguments)


def _run_retrieval(arguments: argparse.Namespace) -> None:
    from engine.experiments.retrieval_scenario import retrieval_for

    changes, device_class = _changes(arguments)
    _run(retrieval_for(device_class, **changes), arguments)


def _run_ring(arguments: argparse.Namespace) -> None:
    from engine.experiments.ring_scenario import ring_for

    changes, device_class = _changes(arguments)
    _run(ring_for(device_class, **changes), arguments)


def _run_recurrent(arguments: argparse.Namespace) -> None:
    from engine.experiments.recurrent_scenario import recurrent_for

    changes, device_class = _changes(arguments)
    _run(recurrent_for(device_class, **changes), arguments)


def _run_transfer(arguments: argparse.Namespace) -> None:
    from engine.experiments.transfer_scenario import transfer_for

    changes, device_class = _changes(arguments)
    _run(transfer_for(device_class, **changes), arguments)


def _run_pools(arguments: argparse.Namespace) -> None:
    from engine.experiments.pools_scenario import DEFAULT_CASE, pools_for

    changes, device_class = _changes(arguments)
    scenario = pools_for(device_class, arguments.preset or DEFAULT_CASE, **changes)
    if arguments.listen is None:
        return _run(scenario, arguments)
    from engine.pool_command import run_listening

    _check_writable(arguments.json)
    result = run_listening(scenario, arguments.listen, progress=_ProgressLine(), say=_say, wait=not arguments.no_wait)
    _say(f"run {result['run_id']}")
    _write(arguments.json, json.dumps(result, ensure_ascii=False))


def _pool(arguments: argparse.Namespace) -> None:
    from engine.pool_command import join_as

    a = arguments
    join_as(a.role, a.join, a.code, a.cores, a.device, a.model, _say)
    _say("the run has ended")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _changes(arguments: argparse.Namespace) -> tuple[dict, str]:
    """The settings of a run command by name, and the class of the device that it is for."""
    from engine.experiments.scenarios import parse_changes
    from engine.measure.device import choose

    changes = parse_changes(arguments.set)
    for name in ("model", "device", "dtype"):
        if getattr(arguments, name):
            changes[name] = getattr(arguments, name)
    return changes, choose(str(changes.get("device", "auto"))).device_class


def _run(scenario: object, arguments: argparse.Namespace) -> None:
    """Measure with a service process of this command's own; it ends with it, however that ends."""
    from engine.service.client import Client

    _check_writable(arguments.json)
    line = _ProgressLine()
    client = Client(own_files=True)
    try:
        run_id = client.submit(scenario, again=True, wait=not arguments.no_wait)
        for status in client.follow(run_id):
            if status.state == "running" and status.phase != "starting":
                line(status.phase, status.done, **status.facts)
        if status.state != "done":
            error = status.error or {"code": "service-gone", "facts": {"why": status.state}}
            raise LabError(error["code"], **error["facts"])
        result = client.result(run_id)
    finally:
        client.stop()
    print(f"run {run_id}", file=sys.stderr)
    _write(arguments.json, json.dumps(result, ensure_ascii=False))


def _runs(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from engine.service.store import Store

    store = Store()
    store.adopt()  # those of an earlier version, too
    runs = [asdict(run) for run in store.runs(limit=max(1, arguments.limit))]
    if arguments.json:
        print(json.dumps([{name: run[name] for name in run if name != "browser"} for run in runs], indent=2))
        return
    for run in runs:
        pinned = "  pinned" if run["pinned"] else ""
        print(f"{run['id']}  {run['started_at']:20}  {run['kind']:12}  {run['title']}{pinned}")


def _pin(arguments: argparse.Namespace) -> None:
    from engine.service.store import Store

    Store().pin(arguments.run, not arguments.off)


def _workloads(_: argparse.Namespace) -> None:
    from engine.experiments.scenarios import workloads

    for workload in workloads().values():
        print(f"{workload.name:24} {workload.title['en']}: {workload.summary['en']}")


def _models(arguments: argparse.Namespace) -> None:
    from engine.model.card import list_models

    cards = list_models()
    if arguments.json:
        print(json.dumps([{**card.as_dict(), "ready": card.ready} for card in cards], indent=2))
        return
    for card in cards:
        state = "ready" if card.ready else f"not here; python -m engine fetch {card.name}"
        millions = card.config.parameter_count() / 1e6
        print(f"{card.name:24} {millions:8.1f} M parameters, {card.quantization} ({state})")


def _devices(arguments: argparse.Namespace) -> None:
    from engine.measure.device import choose_dtype, cpu, gpu

    devices = [device for device in (gpu(), cpu()) if device]
    if arguments.json:
        print(json.dumps([device.as_dict() for device in devices], indent=2))
        return
    for device in devices:
        kind = "cuda" if device.device_class == "gpu" else "cpu"
        count = f"{device.num_gpus} x " if device.num_gpus > 1 else ""
        cores = f", {device.cores} cores" if kind == "cpu" else ""
        memory = f"{device.memory_bytes / 2**30:.0f} GiB"
        print(f"{kind:6} {count}{device.name}{cores}, {memory}, computes in {choose_dtype('auto', device)}")


def _fetch(arguments: argparse.Namespace) -> None:
    from engine.model.fetch import fetch

    line = _ProgressLine()

    def progress(done: int, total: int | None) -> None:
        line(f"fetching {arguments.name}", done / total if total else 0.0)

    print(fetch(arguments.name, progress))


def _trace(arguments: argparse.Namespace) -> None:
    from engine.measure.export import to_chrome, to_csv
    from engine.service.files import read_result
    from engine.service.store import Store

    if not arguments.chrome and not arguments.csv:
        raise LabError("nothing-asked", options="--chrome OUT, --csv OUT")
    result = read_result(Path(arguments.run)) if _is_file(arguments.run) else Store().load(arguments.run)
    if result is None:
        raise LabError("run-unknown", run_id=arguments.run[:80])
    if "schedules" not in result:
        raise LabError("run-unreadable", path=arguments.run[:200], why="it keeps no traces")
    try:
        chrome, rows = json.dumps(to_chrome(result)), to_csv(result)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise LabError("run-unreadable", path=arguments.run, why=f"its trace is damaged: {error!r}"[:200]) from error
    if arguments.chrome:
        _write(arguments.chrome, chrome)
    if arguments.csv:
        _write(arguments.csv, rows)


def _kv(arguments: argparse.Namespace) -> None:
    from engine.profiles.kv_report import as_text, kv_report, profile_at

    found = kv_report(profile_at(arguments.model), arguments.length, arguments.batch, arguments.dtype)
    if arguments.json:
        _write(arguments.json, json.dumps(found, indent=2))
    else:
        print(as_text(found))


def _logits(arguments: argparse.Namespace) -> None:
    from engine.model.logits import write_logits

    shape = write_logits(
        arguments.model, arguments.tokens, arguments.npy, dtype=arguments.dtype, device=arguments.device
    )
    print(f"{arguments.npy}: float32 {list(shape)}", file=sys.stderr)


def _calibrate(arguments: argparse.Namespace) -> None:
    from engine.measure.calibration import report, run_calibration, store

    out = arguments.json
    if out:
        _check_writable(out)
    figures = run_calibration(arguments.device, progress=_ProgressLine(), wait=not arguments.no_wait)
    try:
        store(figures)
    except LabError as error:  # what was measured is told even so
        print(f"engine: {error}", file=sys.stderr)
    if out:
        _write(out, json.dumps(figures, indent=2))
    else:
        print(report(figures))


def _bench(arguments: argparse.Namespace) -> None:
    from engine.experiments.bench import report, run_bench

    if arguments.json:
        _check_writable(arguments.json)
    figures = run_bench(
        device=arguments.device,
        dtype=arguments.dtype,
        pairs=arguments.pairs,
        progress=_ProgressLine(),
        wait=not arguments.no_wait,
    )
    print(report(figures), file=sys.stderr if arguments.json == "-" else sys.stdout)
    if arguments.json:
        _write(arguments.json, json.dumps(figures, indent=2))


def _whole(low: int, high: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number from low to high."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"it must be a whole number from {low} to {high}")
        return int(text)

    return number


def _train_lab(arguments: argparse.Namespace) -> None:
    from engine.training.command import train_lab

    facts = train_lab(Path(arguments.out), arguments.seed, arguments.steps, arguments.threads, arguments.resume, arguments.force)
    print(f"{arguments.out}: held-out loss {facts['held_out_loss']} nats a token, {facts['pairs_recalled']:.0%} of pairs recalled")


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a file name
        return False


class _ProgressLine:
    """Progress on stderr: one line that is rewritten on a terminal, a line per phase elsewhere."""

    def __init__(self) -> None:
        self.last = ""
        self.phase = ""

    def __call__(self, phase: str, done: float, **facts: object) -> None:
        words = " ".join([phase, *(f"{name}={value}" for name, value in facts.items())])
        line = f"{words} {done:4.0%}"
        if line == self.last:
            return
        self.last = line
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="\n" if done >= 1 else "", file=sys.stderr, flush=True)
        elif words != self.phase:
            print(words, file=sys.stderr, flush=True)
        self.phase = words


def _check_writable(out: str) -> None:
    """Before minutes of measuring: can it be written there? Raises LabError("output-folder" or "output-unwritable")."""
    if out == "-":
        return
    path = Path(out)
    try:
        if not path.absolute().parent.is_dir():
            raise LabError("output-folder", path=out)
        if path.is_dir():
            raise LabError("output-unwritable", path=out, why="it is a folder")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise LabError("output-unwritable", path=out, why="permission denied")
    except OSError as error:
        raise LabError("output-unwritable", path=out, why=error.strerror or str(error)) from error


def _write(out: str, text: str) -> None:
    if out == "-":
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # JSON is UTF-8, whatever the terminal
        print(text.removesuffix("\n"), flush=True)
        return
    from engine.service.files import write_atomically

    path = Path(out)
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            # A pipe, /dev/null, /dev/stdout (a link, maybe to a file): written to, never replaced.
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            write_atomically(path, text)
    except OSError as error:
        raise LabError("output-unwritable", path=out, why=error.strerror or str(error)) from error
