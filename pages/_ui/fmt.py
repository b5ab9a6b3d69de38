"""Numbers as people read them, always with their unit. The same in both languages."""

from __future__ import annotations

DASH = "–"
# Python rounds a half to the even digit, JavaScript up; 15.625 GiB must not read differently in a picture and its table.
HALVES_UP = 1 + 1e-12


def seconds(value: float | None) -> str:
    """``0.0423`` -> ``42 ms``; ``2.2134`` -> ``2.21 s``; None -> a dash."""
    if value is None:
        return DASH
    if value < 0:
        return "−" + seconds(-value)
    if value == 0:
        return "0 s"
    if value < 0.0005:
        return f"{value * 1e6:.0f} µs"
    if value < 0.00995:
        return f"{value * 1e3:.1f} ms"
    if value < 0.9995:
        return f"{value * 1e3:.0f} ms"
    if value < 9.995:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 99.95 else f"{value:,.0f} s"


def tick(value: float) -> str:
    """Seconds on an axis, without zeros that say nothing: ``0.2`` -> ``200 ms``; ``1.0`` -> ``1 s``; ``2.5`` -> ``2.5 s``."""
    number, unit = seconds(value).split(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def duration(value: float | None) -> str:
    """How long something takes, for people who wait: ``8.4`` -> ``8 s``; ``83`` -> ``1 min 23 s``; ``400`` -> ``7 min``."""
    if value is None:
        return DASH
    whole = max(0, round(value))
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{whole} s"
    return f"{minutes} min {rest} s" if minutes < 5 else f"{round(value / 60)} min"


def count(value: float | None) -> str:
    """``4096`` -> ``4,096``."""
    return DASH if value is None else f"{value:,.0f}"


def bytes_(value: float | None) -> str:
    """``121e6`` -> ``121 MB``; decimal units, as networks and data sheets use them."""
    if value is None:
        return DASH
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            number = value / limit * HALVES_UP
            return f"{number:.3g} {unit}" if number < 999.5 else f"{number:,.0f} {unit}"  # never "1e+03 kB"
    return f"{value:.0f} B"


def binary_bytes(value: float | None) -> str:
    """``2**28`` -> ``256 MiB``; for sizes a user sets in powers of two."""
    if value is None:
        return DASH
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= limit:
            return f"{value / limit * HALVES_UP:,.4g} {unit}"
    return f"{value:.0f} B"


def power(value: float | None) -> str:
    """Large counts of operations: ``4.5e16`` -> ``4.50 × 10¹⁶``."""
    if not value:
        return DASH if value is None else "0"
    exponent = len(str(int(abs(value)))) - 1
    digits = str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value / 10**exponent:.2f} × 10{digits}"


def flops(value: float | None) -> str:
    """Floating-point operations: ``2.7e9`` -> ``2.7 GFLOP``; 1e18 and more as a power of ten."""
    if value is None:
        return DASH
    if value >= 999.5e15:
        return f"{power(value)} FLOP"
    for limit, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= limit:
            number = value / limit
            return f"{number:.3g} {unit}FLOP" if number < 999.5 else f"{number:,.0f} {unit}FLOP"
    return f"{value:,.0f} FLOP"


def flops_per_s(value: float | None) -> str:
    """``3.12e14`` -> ``312 TFLOP/s``."""
    return DASH if value is None else f"{flops(value)}/s"


def bytes_per_s(value: float | None) -> str:
    """``3.35e12`` -> ``3.35 TB/s``."""
    if value is None:
        return DASH
    return f"{value / 1e12:.3g} TB/s" if value >= 999.5e9 else f"{bytes_(value)}/s"


def intensity(value: float | None) -> str:
    """Operations per byte moved: ``93.2`` -> ``93 FLOP/B``."""
    return DASH if value is None else f"{number(value)} FLOP/B"


def number(value: float | None) -> str:
    """Two digits where they matter, never an exponent: ``0.523`` -> ``0.52``; ``8.3`` -> ``8.3``; ``1234.5`` -> ``1,234``."""
    if value is None:
        return DASH
    if value >= 20:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"


def rate(value: float | None) -> str:
    """Tokens per second: ``151.9`` -> ``152 tok/s``."""
    return DASH if value is None else f"{value * HALVES_UP:,.0f} tok/s" if value >= 10 else f"{value * HALVES_UP:.1f} tok/s"


def ratio(value: float | None) -> str:
    """How many times as much, without a sign: ``8.93`` -> ``8.9``; the languages write "8.9×" and "8.9배"."""
    return DASH if value is None else f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def perplexity(value: float | None) -> str:
    """``9.648`` -> ``9.65``; ``23.61`` -> ``23.6``; ``5158.07`` -> ``5,158``."""
    if value is None:
        return DASH
    if value >= 999_999.5:
        return power(value)
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else count(value)


def times(value: float | None) -> str:
    """How many times as much, two digits where it is near to one: ``1.04`` -> ``1.04``; ``2.44`` -> ``2.4``."""
    return f"{value:.2f}" if value is not None and value < 1.995 else power(value) if value and value >= 999_999.5 else ratio(value)


def share(value: float | None) -> str:
    """A part of a whole: ``0.12`` -> ``12 %``."""
    return DASH if value is None else f"{value * 100:.0f} %"


def percent(value: float | None) -> str:
    """``0.12`` -> ``+12 %``."""
    return DASH if value is None else f"{value * 100:+.0f} %".replace("-", "−")
