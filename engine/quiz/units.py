"""The units that answers are given in, and their names in both languages. Pure.

GB is 10⁹ bytes and GiB 2³⁰; Gbit/s is an eighth of GB/s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """dimension: units of the same one can be turned into each other. factor: in the dimension's first unit.

    bare: whether a number without a unit is understood. counted: whether there are only whole ones. ko, en: as it is written behind a number.
    others: what else people write, in either language.
    """

    name: str
    dimension: str
    factor: float
    ko: str
    en: str
    bare: bool = False
    counted: bool = False
    others: tuple[str, ...] = ()


_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_BYTES = {f"{prefix}B": factor for prefix, factor in (_DECIMAL | _BINARY).items()}
# All in small letters bytes are meant; in a rate that is not so sure, so "gb/s" is not there and gets asked about.
_WORD_BYTES = {
    "B": ("byte", "bytes", "b", "바이트"),
    "kB": ("KB", "kb", "kilobytes", "킬로바이트"),
    "MB": ("mb", "megabytes", "메가바이트"),
    "GB": ("gb", "gigabyte", "gigabytes", "기가바이트"),
    "TB": ("tb", "terabyte", "terabytes", "테라바이트"),
}
# Counted things: name, Korean, whatever else they are called.
_COUNTS = (
    ("tokens", "토큰", ("token", "tok", "토큰", "개")),
    ("requests", "개", ("request", "req", "요청", "개")),
    ("sequences", "개", ("sequence", "seq", "시퀀스", "개")),
    ("blocks", "블록", ("block", "블록", "개")),
    ("chunks", "청크", ("chunk", "청크", "개")),
    ("steps", "스텝", ("step", "스텝", "번", "회")),
    ("rounds", "라운드", ("round", "라운드", "번", "회")),
    ("layers", "레이어", ("layer", "레이어", "층", "개")),
    ("heads", "헤드", ("head", "헤드", "개")),
    ("GPUs", "개", ("GPU", "개", "장", "대")),
    ("pairs", "쌍", ("pair", "쌍", "개")),
)


def _all() -> Iterator[Unit]:
    yield Unit("", "number", 1, "", "", bare=True)
    yield Unit("x", "ratio", 1, "배", "×", bare=True, others=("×", "times", "배", "fold"))
    yield Unit("share", "share", 1, "", "", bare=True)
    yield Unit("%", "share", 0.01, "%", "%", others=("percent", "퍼센트", "프로"))
    yield Unit("perplexity", "perplexity", 1, "", "", bare=True, others=("ppl",))
    for name, factor in _BYTES.items():
        yield Unit(name, "bytes", factor, name, name, others=_WORD_BYTES.get(name, ()))
        yield Unit(f"{name}/s", "bytes per second", factor, f"{name}/s", f"{name}/s", others=(f"{name}ps",))
        yield Unit(f"{name}/token", "bytes per token", factor, f"{name}/토큰", f"{name}/token", others=(f"{name}/tok", f"{name}/토큰"))
    for prefix, factor in _DECIMAL.items():
        name = f"{prefix}bit"
        yield Unit(name, "bytes", factor / 8, name, name, others=(f"{name}s", *([f"{prefix}b"] if prefix not in ("", "k") else [])))
        name = f"{prefix}bit/s"
        yield Unit(name, "bytes per second", factor / 8, name, name, others=(f"{prefix}bps", f"{prefix}b/s", f"{prefix}bits/s"))
    for prefix, factor in (_DECIMAL | {"E": 10**18}).items():
        name = f"{prefix}FLOP"
        yield Unit(name, "operations", factor, name, name, others=(f"{name}s",))
        yield Unit(f"{name}/s", "operations per second", factor, f"{name}/s", f"{name}/s", others=(f"{name}S", f"{name}s/s"))
    yield Unit("FLOP/B", "operations per byte", 1, "FLOP/B", "FLOP/B", others=("FLOPs/B", "FLOP/byte", "FLOPs/byte"))
    yield Unit("s", "time", 1, "초", "s", others=("sec", "second", "seconds", "초"))
    yield Unit("ms", "time", 1e-3, "ms", "ms", others=("msec", "밀리초"))
    yield Unit("µs", "time", 1e-6, "µs", "µs", others=("us", "μs", "마이크로초"))
    yield Unit("ns", "time", 1e-9, "ns", "ns", others=("나노초",))
    yield Unit("min", "time", 60, "분", "min", others=("minute", "minutes", "분"))
    yield Unit("h", "time", 3600, "시간", "h", others=("hour", "hours", "시간"))
    yield Unit("tokens/s", "tokens per second", 1, "토큰/s", "tok/s", others=("tok/s", "token/s", "토큰/s", "토큰/초"))
    yield Unit("requests/s", "requests per second", 1, "요청/s", "requests/s", others=("req/s", "요청/s", "요청/초"))
    for name, ko, others in _COUNTS:
        yield Unit(name, name, 1, ko, name, bare=True, counted=True, others=others)


UNITS: dict[str, Unit] = {unit.name: unit for unit in _all()}


def find(written: str, wanted: Unit) -> tuple[Unit, ...]:
    """The units that what somebody wrote may mean: those of the wanted dimension if there are any, else all others.

    Capitals count ("MB" is not "mb"), unless nothing is spelt so and there is one that is, but for them.
    """
    exact = [unit for unit in UNITS.values() if written in (unit.name, *unit.others) and written]
    near = [unit for unit in UNITS.values() if written.lower() in (name.lower() for name in (unit.name, *unit.others)) and written]
    found = exact or near
    return tuple([unit for unit in found if unit.dimension == wanted.dimension] or found)
