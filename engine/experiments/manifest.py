"""What a result says of its origin: from this a run can be repeated and compared."""

import platform
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import engine
from engine.experiments.plan import Ground, Plan
from engine.measure.clock import utc_now
from engine.texts import Text

# Of a result, whatever the experiment.
FORMAT = 1


@dataclass(frozen=True)
class Begun:
    """When a measurement began: for the reader, and for its duration."""

    started_at: str
    at_s: float


def begin() -> Begun:
    """Now."""
    return Begun(utc_now(), time.monotonic())


def manifest(plan: Plan, scenario, begun: Begun, *, order: list) -> dict:
    """scenario: what was asked for (a sweep's is not that of its plan); order: in which order it was measured."""
    setup = plan.setup
    return {
        **origin(setup, scenario, begun, seed=plan.scenario.seed),
        "text": {**about_text(setup.text), "repeated": plan.text_repeated},
        "order": order,
    }


def about_text(text: Text) -> dict:
    """Which text was read: results of different ones are not to be compared."""
    return {name: getattr(text, name) for name in ("name", "title", "sha256", "version", "language")}


def origin(setup: Ground, scenario, begun: Begun, *, seed: int) -> dict:
    """What every experiment's manifest has; to be called when it has ended."""
    return {
        "scenario": scenario.as_dict(),
        "scenario_key": scenario.key(),
        "seed": seed,
        "model": setup.card.as_dict(setup.bytes_per_value),
        "device": setup.device.as_dict(),
        "dtype": setup.dtype,
        "threads": sum(worker.threads for worker in setup.deployment.entry("unified")),
        "shared_device": setup.deployment.shared_device,
        "versions": _versions(),
        "commit": _commit(),
        "started_at": begun.started_at,
        "duration_s": round(time.monotonic() - begun.at_s, 3),
    }


def _versions() -> dict[str, str | None]:
    found = {"engine": engine.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in ("torch", "numpy", "tokenizers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _commit() -> str | None:
    """The commit this engine was run from, if it is a git checkout."""
    root = Path(__file__).resolve().parents[2]
    try:
        command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
