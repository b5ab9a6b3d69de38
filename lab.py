#!/usr/bin/env python3
"""Sets up the lab and starts it. One file, nothing but the standard library.

    python3 lab.py app  [--port N] [--address A] [--no-browser] [Streamlit options]
    python3 lab.py test [pytest options]
    python3 lab.py setup

app    sets up what the app needs and opens it in the browser.
test   sets up what the tests need, a Chromium included, and runs them all.
setup  sets up for both and starts nothing (before a lesson without a network).

Every command may be repeated: what is already there is left alone, and what a
broken set-up left behind is finished. Environment variables:

    LAB_VENV         where the virtual environment goes    (default: .venv beside this file)
    LAB_HOME         where models, texts and runs go       (default: the user's data folder)
    LAB_TORCH_INDEX  a wheel index to take PyTorch from, or "default" for pip's own
    LAB_CHROMIUM     the Chromium or Chrome the browser tests use

The story of a call, top to bottom: a fitting Python, a virtual environment, the
pinned packages, the model and the text, a Chromium if tests are to run, and then
this process becomes Streamlit or pytest.
"""
# An old Python must still get as far as the message that it is too old, so this
# file keeps to the syntax of Python 3.7.

import argparse
import contextlib
import glob
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request

ROOT = os.path.dirname(os.path.abspath(__file__))
REQUIREMENTS = {
    "app": os.path.join(ROOT, "requirements.txt"),
    "test": os.path.join(ROOT, "tests", "requirements.txt"),
}

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 14)  # the newest the pinned PyTorch has builds for
DEFAULT_DATA = ("smollm2-135m-instruct", "kjv")

# PyTorch's default build for Linux brings CUDA along; this index holds the one without.
CPU_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
PROBE_TIMEOUT_S = 5

# Two processes, each with whole files in the order of the files: much of a test's time is one core's, or waiting. The
# order keeps the browser's files last (tests/conftest.py says why). A later -n of the user's counts instead.
TEST_WORKERS = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]

DEFAULT_PORT = 8501
PORTS_TRIED = 100

CHROMIUM_COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_MAC_APPS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "~/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "~/Applications/Chromium.app/Contents/MacOS/Chromium",
)


class SetupError(Exception):
    """Something the person at the keyboard has to do; the text says what."""


def say(text):
    """One line about what happens next, shown before a slow step prints anything itself."""
    print("lab: " + text, flush=True)


def run(command, **options):
    """Runs a command with its output shown; True if it succeeded."""
    try:
        return subprocess.run(command, **options).returncode == 0
    except OSError:
        return False


def output_of(command, timeout_s=30):
    """What a command prints, or None if it cannot run, fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


# --- the operating system ---------------------------------------------------


def os_release(path="/etc/os-release"):
    """The fields of os-release as a dict; empty where there is no such file."""
    fields = {}
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                name, separator, value = line.strip().partition("=")
                if separator:
                    fields[name] = value.strip("\"'")
    except OSError:
        pass
    return fields


def is_root():
    return hasattr(os, "geteuid") and os.geteuid() == 0


def apt_install(*packages):
    """Installs Debian packages; True if that worked. Only for root."""
    say("installing " + " ".join(packages) + " with apt-get")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    # A package list that is old or partly unreachable may still do, so only the install decides.
    run(["apt-get", "update", "-q"], env=env, stdin=subprocess.DEVNULL)
    return run(
        ["apt-get", "install", "-y", "-q", "--no-install-recommends"] + list(packages),
        env=env,
        stdin=subprocess.DEVNULL,
    )


def check_platform(system, machine):
    """Raises SetupError on systems PyTorch or the engine cannot run on.

    system and machine are what platform.system() and platform.machine() say.
    """
    if system == "Windows":
        raise SetupError(
            "Windows is supported through WSL2. In PowerShell: wsl --install, then open Ubuntu\n"
            "and run the same command there, in a clone inside the Linux file system."
        )
    if system == "Darwin" and machine == "x86_64":
        raise SetupError(
            "The pinned PyTorch has no build for Macs with an Intel processor (or for an Intel\n"
            "Python on Apple silicon). Use an arm64 Python, or a Linux machine."
        )


# --- Python and the virtual environment --------------------------------------


def is_supported(version):
    """Whether (major, minor) is a Python the pinned packages have builds for."""
    return OLDEST_PYTHON <= tuple(version[:2]) <= NEWEST_PYTHON


def find_python(path=None):
    """The path of a supported python3.x on PATH, or None. Newest last but one first: the
    newest Python is the one packages of other people fit least."""
    minors = list(range(NEWEST_PYTHON[1] - 1, OLDEST_PYTHON[1] - 1, -1)) + [NEWEST_PYTHON[1]]
    for minor in minors:
        found = shutil.which("python3.%d" % minor, path=path)
        # Version managers put names on PATH that only print an error, so ask it.
        if found and output_of([found, "-c", "import venv"]) is not None:
            return found
    return None


def ensure_python(argv):
    """Goes on under a supported Python: this one, or another one on PATH."""
    if is_supported(sys.version_info):
        return
    span = "%d.%d to %d.%d" % (OLDEST_PYTHON + NEWEST_PYTHON)
    here = "%d.%d" % sys.version_info[:2]
    other = None if os.environ.get("LAB_REENTERED") else find_python()
    if other is None:
        raise SetupError(
            "Python %s is needed, and this is %s (%s).\n"
            "Install one of them and start this file with it, for example: python3.13 lab.py app"
            % (span, here, sys.executable)
        )
    say("this is Python %s and %s is needed; going on with %s" % (here, span, other))
    sys.stdout.flush()
    os.execve(other, [other, os.path.join(ROOT, "lab.py")] + argv, dict(os.environ, LAB_REENTERED="1"))


def venv_dir(env):
    """Where the virtual environment is or will be."""
    return os.path.abspath(os.path.expanduser(env.get("LAB_VENV") or os.path.join(ROOT, ".venv")))


def venv_python(venv):
    return os.path.join(venv, "bin", "python")


def venv_version(venv):
    """The (major, minor) a virtual environment was made for, or None if it is not whole."""
    try:
        with open(os.path.join(venv, "pyvenv.cfg"), encoding="utf-8") as lines:
            text = lines.read()
    except OSError:
        return None
    match = re.search(r"^version(?:_info)?\s*=\s*(\d+)\.(\d+)", text, re.MULTILINE)
    # os.path.exists follows the link: an interpreter that was uninstalled counts as gone.
    if not match or not os.path.exists(venv_python(venv)):
        return None
    return int(match.group(1)), int(match.group(2))


def ensure_venv_module(version, os_fields):
    """Makes `python -m venv` able to put pip in. Debian and Ubuntu ship that part apart.

    version is this Python's (major, minor), os_fields what os_release() returned.
    Raises SetupError with the command to type where it cannot be installed from here.
    """
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return
    package = "python%d.%d-venv" % version
    family = (os_fields.get("ID", "") + " " + os_fields.get("ID_LIKE", "")).split()
    if "debian" not in family or not shutil.which("apt-get"):
        raise SetupError(
            "This Python (%s) comes without venv or ensurepip.\n"
            "Install the package of your system that adds them, or another Python." % sys.executable
        )
    if is_root() and apt_install(package):
        importlib.invalidate_caches()
        if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
            return
    raise SetupError(
        "This Python comes without venv: Debian and Ubuntu keep it in a package of its own. Type\n\n"
        "    %sapt-get install -y %s\n\n"
        "and then the same command again." % ("" if is_root() else "sudo ", package)
    )


def ensure_venv(venv):
    """Makes the virtual environment, or makes it anew if it is broken; True if it is new."""
    version = venv_version(venv)
    if version and is_supported(version) and output_of([venv_python(venv), "-m", "pip", "--version"]):
        return False
    if os.path.isdir(venv) and os.listdir(venv) and not os.path.exists(os.path.join(venv, "pyvenv.cfg")):
        # LAB_VENV may name any folder, and making an environment anew empties it.
        raise SetupError("%s is not a virtual environment and not empty: choose another LAB_VENV." % venv)
    ensure_venv_module(tuple(sys.version_info[:2]), os_release())
    say("making a virtual environment in " + venv)
    # Inside an environment sys.executable would vanish with the environment being replaced.
    base = getattr(sys, "_base_executable", None) or sys.executable
    if not run([base, "-m", "venv", "--clear", venv]):
        raise SetupError("The virtual environment could not be made in %s; the lines above say why." % venv)
    return True


@contextlib.contextmanager
def only_one(venv):
    """Lets one set-up at a time work on an environment; a second one waits its turn."""
    import fcntl

    os.makedirs(os.path.dirname(venv), exist_ok=True)
    with open(venv + ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another set-up is at work on this environment; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- the pinned packages -----------------------------------------------------


def requirement_lines(path):
    """The lines of a requirements file that ask for something, those of `-r` files in their place."""
    lines = []
    with open(path, encoding="utf-8") as text:
        for line in text:
            line = line.split(" #")[0].strip()
            if not line or line.startswith("#"):
                continue
            included = re.match(r"(?:-r|--requirement)[ =]\s*(.+)", line)
            if included:
                lines += requirement_lines(os.path.join(os.path.dirname(path), included.group(1)))
            else:
                lines.append(line)
    return lines


def pinned_version(lines, package):
    """The version a list of requirement lines pins a package to; None if it does not."""
    for line in lines:
        match = re.match(r"([A-Za-z0-9._-]+)\s*==\s*([^\s;]+)", line)
        if match and match.group(1).lower() == package:
            return match.group(2)
    return None


def stamp_of(lines, torch_source):
    """A short hash that changes when other packages would have to be installed."""
    text = "\n".join(sorted(lines) + [torch_source])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


NOTHING_DONE = {"stamps": {}, "torch": None}


def read_state(venv):
    """What earlier set-ups finished in this environment: {"stamps": {name: stamp}, "torch": source}."""
    try:
        with open(os.path.join(venv, "lab-state.json"), encoding="utf-8") as text:
            state = json.load(text)
    except (OSError, ValueError):
        state = {}
    if not isinstance(state, dict) or not isinstance(state.get("stamps"), dict):
        state = NOTHING_DONE
    return dict(NOTHING_DONE, **state)


def write_state(venv, state):
    path = os.path.join(venv, "lab-state.json")
    with open(path + ".new", "w", encoding="utf-8") as text:
        json.dump(state, text)
    os.replace(path + ".new", path)  # never half a file, whatever happens


def has_nvidia_gpu():
    """Whether an NVIDIA driver is loaded, also inside WSL2 and containers."""
    if os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/usr/lib/wsl/lib/nvidia-smi"):
        return True
    return bool(shutil.which("nvidia-smi")) and bool(output_of(["nvidia-smi", "-L"]))


def torch_source(env, system, has_gpu):
    """Where PyTorch should come from: "default" (pip's own index), "cpu" or an index address.

    Only Linux needs a choice, and only without a GPU: its default build is CUDA's.
    has_gpu is a function, asked only where the answer matters.
    """
    chosen = env.get("LAB_TORCH_INDEX", "").strip()
    if chosen:
        return chosen
    return "cpu" if system == "Linux" and not has_gpu() else "default"


def is_reachable(address, timeout_s=PROBE_TIMEOUT_S):
    """Whether an index answers at all, so that pip is not left to wait for one that does not."""
    named = [os.environ.get(name, "") for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE")]
    bundle = next(filter(os.path.isfile, named), None)  # a proxy's own certificate, as pip would take it
    try:
        context = ssl.create_default_context(cafile=bundle)
        request = urllib.request.Request(address, method="HEAD")
        with urllib.request.urlopen(request, timeout=timeout_s, context=context):
            return True
    except (OSError, ValueError):
        return False


def pip_environment():
    """The environment pip runs in: the user's, less what would make it install elsewhere."""
    env = dict(os.environ, PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
    for name in ("PIP_TARGET", "PIP_PREFIX", "PYTHONHOME"):
        env.pop(name, None)
    return env


def pip_install(python, *arguments):
    """pip install inside the environment, its output shown; True if it succeeded."""
    command = [python, "-m", "pip", "install"] + list(arguments)
    if not sys.stdout.isatty():
        command += ["--progress-bar", "off"]
    return run(command, env=pip_environment(), stdin=subprocess.DEVNULL)


def install_torch(python, version, source):
    """Installs the PyTorch of the wanted source, without what it depends on.

    Does nothing for "default": the requirements name it, and pip brings that build.
    Raises SetupError if an index that was asked for by name does not deliver.
    """
    pinned = "torch==" + version
    if source == "default":
        return
    if source != "cpu":
        if not pip_install(python, "--no-deps", "--index-url", source, pinned):
            raise SetupError("%s could not be installed from LAB_TORCH_INDEX=%s." % (pinned, source))
        return
    # pip may have been told of wheels on this machine: those need no network at all.
    offline = [python, "-m", "pip", "install", "--no-deps", "--no-index", pinned]
    if output_of(offline, timeout_s=600) is not None:
        say("took PyTorch %s from the wheels pip knows on this machine" % version)
        return
    if is_reachable(CPU_TORCH_INDEX + "/torch/"):
        say("no NVIDIA GPU found: taking the CPU build of PyTorch %s" % version)
        if pip_install(python, "--no-deps", "--index-url", CPU_TORCH_INDEX, pinned):
            return
    say(
        "%s did not deliver the CPU build: taking PyTorch's default build\n"
        "     (with CUDA libraries, about 3 GB to download; it runs on the CPU all the same)" % CPU_TORCH_INDEX
    )


def ensure_packages(venv, name, source):
    """Installs what a requirements file pins unless that was finished before.

    name is a key of REQUIREMENTS; source is what torch_source() said.
    """
    requirements = REQUIREMENTS[name]
    lines = requirement_lines(requirements)
    stamp = stamp_of(lines, source)
    state = read_state(venv)
    if state["stamps"].get(name) == stamp:
        return
    python = venv_python(venv)
    version = pinned_version(lines, "torch")
    say("installing the pinned packages of " + os.path.relpath(requirements, ROOT))
    wanted_torch = "%s from %s" % (version, source)
    if version and state["torch"] != wanted_torch:
        if state["torch"]:
            # pip takes any build of the same version for the right one, so the old one goes first;
            # and what was remembered goes before it, in case this is cut short.
            write_state(venv, NOTHING_DONE)
            run([python, "-m", "pip", "uninstall", "-y", "-q", "torch"], env=pip_environment())
        install_torch(python, version, source)
    if not pip_install(python, "-r", requirements):
        free_gb = shutil.disk_usage(venv).free / 1e9
        raise SetupError(
            "The packages could not all be installed; pip's last lines above say why.\n"
            "They come from pip's package index, so this step needs a network once, and about 2 GB of\n"
            "disk (8 GB with CUDA; %.1f GB are free here). Then type the same command again." % free_gb
        )
    stamps = dict(state["stamps"]) if state["torch"] == wanted_torch else {}
    for other, path in REQUIREMENTS.items():
        # The tests' file holds the app's, so one install may finish both.
        theirs = requirement_lines(path)
        if set(theirs) <= set(lines):
            stamps[other] = stamp_of(theirs, source)
    write_state(venv, {"stamps": stamps, "torch": wanted_torch})


# --- the model and the text ----------------------------------------------------


def fetch_data(python):
    """Fetches the default model and text unless they are there; the names that failed."""
    return [name for name in DEFAULT_DATA if not run([python, "-m", "engine", "fetch", name], cwd=ROOT)]


# --- a Chromium for the browser tests --------------------------------------------


def is_snap(path):
    """Whether a browser is a snap (or Ubuntu's stub for one): its sandbox hides the tests' folders."""
    if os.path.realpath(path).startswith("/snap/") or os.path.realpath(path).endswith("/snap"):
        return True
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.startswith(b"#!") and b"/snap/" in head


def runs(path):
    """Whether a browser starts well enough to say its version (all its libraries are there)."""
    return output_of([path, "--version"]) is not None


def playwright_cache(env, system):
    """The folder Playwright keeps its browsers in."""
    chosen = env.get("PLAYWRIGHT_BROWSERS_PATH")
    if chosen and chosen != "0":
        return chosen
    home = env.get("HOME") or os.path.expanduser("~")
    if system == "Darwin":
        return os.path.join(home, "Library", "Caches", "ms-playwright")
    return os.path.join(env.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "ms-playwright")


def chromium_candidates(env, system, mac_apps=CHROMIUM_MAC_APPS):
    """Paths a Chromium may be at, best first; those that do not exist are left out."""
    found = [shutil.which(name, path=env.get("PATH")) for name in CHROMIUM_COMMANDS]
    if system == "Darwin":
        found += [os.path.expanduser(path) for path in mac_apps]
    cache = playwright_cache(env, system)
    for pattern in ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/*.app/Contents/MacOS/*"):
        # The number in the folder's name counts Playwright's builds: the newest first.
        found += sorted(
            glob.glob(os.path.join(cache, pattern)),
            key=lambda path: [int(digits) for digits in re.findall(r"chromium-(\d+)", path)],
            reverse=True,
        )
    return [path for path in found if path and os.access(path, os.X_OK) and os.path.isfile(path)]


def find_chromium(env, system, works=runs):
    """The path of a Chromium that starts, or None.

    Raises SetupError if LAB_CHROMIUM names one that does not: a wish is not passed over.
    """
    chosen = env.get("LAB_CHROMIUM")
    if chosen:
        path = shutil.which(os.path.expanduser(chosen), path=env.get("PATH"))
        if path and works(path):
            return path
        raise SetupError("LAB_CHROMIUM=%s does not start: correct or unset it." % chosen)
    for path in chromium_candidates(env, system):
        if not is_snap(path) and works(path):
            return path
    return None


def install_chromium(python, env, system, os_fields):
    """Installs a Chromium the way this system has; its path.

    Raises SetupError with the command to type where nothing worked.
    """
    is_debian = os_fields.get("ID") == "debian"
    is_debian_like = is_debian or "debian" in os_fields.get("ID_LIKE", "").split()
    # Ubuntu's package of this name is a stub for a snap, so only Debian's own is taken.
    if is_debian and is_root() and shutil.which("apt-get") and apt_install("chromium"):
        path = find_chromium(env, system)
        if path:
            return path
    say("fetching a Chromium for the browser tests with Playwright")
    command = [python, "-m", "playwright", "install", "chromium"]
    with_libraries = is_root() and is_debian_like
    run(command + (["--with-deps"] if with_libraries else []), stdin=subprocess.DEVNULL)
    path = find_chromium(env, system)
    if path:
        return path
    if is_debian:
        advice = "%sapt-get install -y chromium" % ("" if is_root() else "sudo ")
    elif is_debian_like:
        advice = "%s%s -m playwright install --with-deps chromium" % ("" if is_root() else "sudo ", python)
    elif system == "Darwin":
        advice = "brew install --cask google-chrome"
    else:
        advice = "(your system's package manager) install chromium"
    raise SetupError(
        "The browser tests need a Chromium or Chrome, and none could be installed from here. Type\n\n"
        "    %s\n\n"
        "or set LAB_CHROMIUM to the one you have, and then the same command again." % advice
    )


def ensure_playwright_starts(python, os_fields):
    """Makes Playwright's own driver able to start; a bare Debian lacks a library it needs.

    Raises SetupError with the command to type where that cannot be mended from here.
    """
    library = os.path.join(os.path.dirname(os.path.dirname(python)), "lib")
    drivers = glob.glob(os.path.join(library, "python3.*", "site-packages", "playwright", "driver", "node"))
    if not drivers or output_of([drivers[0], "--version"]):
        return
    package = "libatomic1"
    is_debian_like = "debian" in (os_fields.get("ID", "") + " " + os_fields.get("ID_LIKE", "")).split()
    if is_debian_like and is_root() and shutil.which("apt-get") and apt_install(package):
        if output_of([drivers[0], "--version"]):
            return
    advice = "%sapt-get install -y %s" % ("" if is_root() else "sudo ", package)
    raise SetupError(
        "Playwright, which drives the browser in the tests, does not start: %s\n"
        "does not run here. Mostly a library is missing%s, and then the same command again."
        % (drivers[0], "; type\n\n    %s\n" % advice if is_debian_like else " (libatomic); install it")
    )


# --- the commands ------------------------------------------------------------------


def set_up(name):
    """Everything up to the packages of one of REQUIREMENTS; the environment's Python."""
    check_platform(platform.system(), platform.machine())
    venv = venv_dir(os.environ)
    with only_one(venv):
        ensure_venv(venv)
        source = torch_source(os.environ, platform.system(), has_nvidia_gpu)
        ensure_packages(venv, name, source)
    return venv_python(venv)


def is_taken(port, address):
    """Whether a server listens on a TCP port, or the port cannot be had."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        # Whoever answers at localhost would get the browser's visit, so ask both of its addresses.
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.settimeout(0.5)
                if probe.connect_ex((host, port)) == 0:
                    return True
        except OSError:
            pass  # no IPv6 here
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError:
        return True
    return False


def free_port(wanted, address, taken=is_taken):
    """The first port from `wanted` on that is free; raises SetupError if there is none near."""
    for port in range(wanted, min(wanted + PORTS_TRIED, 65536)):
        if not taken(port, address):
            return port
    raise SetupError(
        "No free port from %d on for %s: choose another with --port, or check --address." % (wanted, address)
    )


def lan_address():
    """The address other machines reach this one at, as far as its routes tell."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only looks up the route.
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return socket.gethostname()


def has_screen(env, system):
    """Whether a browser window could open where this runs."""
    if system == "Darwin":
        return not env.get("SSH_CONNECTION")
    return bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


def app_options(argv):
    """Splits the arguments of `app` into ours and those handed on to Streamlit."""
    parser = argparse.ArgumentParser(
        prog="lab.py app",
        description="Sets up what the app needs and opens it.",
        epilog="Other options go to Streamlit, for example --server.maxUploadSize 50.",
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="first port to try (default: %(default)s)")
    parser.add_argument(
        "--address",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 lets a classroom in (default: this machine only)",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, open no browser")
    ours, theirs = parser.parse_known_args(argv)
    if not 1 <= ours.port <= 65535:
        parser.error("--port must be from 1 to 65535")
    return ours, theirs


def streamlit_command(python, ours, theirs, port, host, screen):
    """The command line that becomes the app's server.

    host is the name browsers use; naming it keeps Streamlit from asking an outside
    service for this machine's public address.
    """
    return [
        python, "-m", "streamlit", "run", "app.py",
        "--server.address", ours.address,
        "--server.port", str(port),
        "--browser.serverAddress", host,
        "--server.headless", "false" if screen and not ours.no_browser else "true",
        "--server.showEmailPrompt", "false",
        "--browser.gatherUsageStats", "false",
        "--logger.hideWelcomeMessage", "true",
    ] + theirs  # fmt: skip


def become(command, env):
    """Replaces this process, so that signals and the exit status are the program's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(ROOT)
    os.execve(command[0], command, env)


def app(argv):
    ours, theirs = app_options(argv)
    python = set_up("app")
    missing = fetch_data(python)
    if missing:
        say("not fetched: %s. The app starts all the same and offers a button for it." % ", ".join(missing))
    port = free_port(ours.port, ours.address)
    if port != ours.port:
        say("port %d is taken (by this app in another window?); using %d" % (ours.port, port))
    is_open_to_others = ours.address in ("0.0.0.0", "::")
    host = "localhost" if ours.address == "127.0.0.1" else lan_address() if is_open_to_others else ours.address
    say("the app is at http://%s:%d (Ctrl-C ends it)" % ("[%s]" % host if ":" in host else host, port))
    command = streamlit_command(python, ours, theirs, port, host, has_screen(os.environ, platform.system()))
    become(command, dict(os.environ))


def prepare_tests():
    """Everything the tests need; the environment's Python and the environment they run in."""
    python = set_up("test")
    missing = fetch_data(python)
    if missing:
        raise SetupError(
            "The tests run the real model, and this was not fetched: %s.\n"
            "The lines above say why; it needs a network once." % ", ".join(missing)
        )
    ensure_playwright_starts(python, os_release())
    system = platform.system()
    chromium = find_chromium(os.environ, system)
    if not chromium:
        chromium = install_chromium(python, os.environ, system, os_release())
    return python, dict(os.environ, LAB_CHROMIUM=chromium)


def test(argv):
    python, env = prepare_tests()
    become([python, "-m", "pytest"] + TEST_WORKERS + argv, env)


def setup(argv):
    if argv:
        raise SetupError("setup takes no arguments.")
    python, _ = prepare_tests()
    say("all is set up in " + os.path.dirname(os.path.dirname(python)))


COMMANDS = {"app": app, "test": test, "setup": setup}


def main(argv):
    """Runs one command; the exit status."""
    if argv[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    if not argv or argv[0] not in COMMANDS:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        ensure_python(argv)
        COMMANDS[argv[0]](argv[1:])
    except SetupError as error:
        print("lab: " + str(error), file=sys.stderr)
        return 1
    except OSError as error:
        print("lab: %s. Free some space or correct the folder's rights, then repeat." % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlab: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
