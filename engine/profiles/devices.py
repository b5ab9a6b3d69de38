"""GPUs by their datasheets."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.profiles.read import check_names, check_numbers, check_sources, check_words

_RATES = ("bf16_flops_per_s", "fp8_flops_per_s", "memory_bytes_per_s")
_SIZES = ("nominal_bytes", "usable_bytes")
_OPTIONAL = ("fp8_flops_per_s", "usable_bytes")


@dataclass(frozen=True)
class DeviceProfile:
    """Rates are dense, without sparsity. nominal_bytes: what it is sold as; usable_bytes: what its driver reports, None
    where nobody wrote it down. sources: where each number is from, by its name."""

    name: str
    title: str
    bf16_flops_per_s: float
    nominal_bytes: int
    memory_bytes_per_s: float
    sources: Mapping[str, str]
    usable_bytes: int | None = None
    fp8_flops_per_s: float | None = None

    @property
    def capacity_bytes(self) -> int:
        """What can be planned with: usable bytes where they are known, else the nominal ones."""
        return self.usable_bytes or self.nominal_bytes


def device_of(table: Mapping) -> DeviceProfile:
    """From a TOML table. Raises ValueError with what is wrong."""
    needed = [name for name in (*_RATES, *_SIZES) if name not in _OPTIONAL]
    check_names(table, ("name", "title", *needed, "sources"), _OPTIONAL)
    check_words(table, ("name", "title"))
    check_numbers(table, whole=_SIZES, other=_RATES)
    check_sources(table, (*_RATES, *_SIZES))
    return DeviceProfile(**table)
