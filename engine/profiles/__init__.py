"""Models, devices, links and tables of papers as published, one TOML file each in `profiles/`, all with sources. No torch.

They are for computing with what is not here; what is here is measured instead.
"""

from functools import cache
from pathlib import Path

from engine.errors import LabError
from engine.profiles.devices import DeviceProfile, device_of
from engine.profiles.links import LinkProfile, link_of
from engine.profiles.models import ModelProfile, model_of
from engine.profiles.published import PublishedTable, table_of
from engine.profiles.read import read_all

__all__ = [
    "DeviceProfile",
    "LinkProfile",
    "ModelProfile",
    "PublishedTable",
    "device",
    "devices",
    "link",
    "links",
    "model",
    "models",
    "table",
    "tables",
]

PROFILES_DIR = Path(__file__).resolve().parents[2] / "profiles"


@cache
def models() -> dict[str, ModelProfile]:
    """All models by name, smallest first. Raises LabError("profile-broken")."""
    return read_all(PROFILES_DIR / "models", model_of, lambda model: model.parameters)


@cache
def devices() -> dict[str, DeviceProfile]:
    """All devices by name, quickest first. Raises LabError("profile-broken")."""
    return read_all(PROFILES_DIR / "devices", device_of, lambda device: -device.bf16_flops_per_s)


@cache
def links() -> dict[str, LinkProfile]:
    """All links by name, quickest first. Raises LabError("profile-broken")."""
    return read_all(PROFILES_DIR / "links", link_of, lambda link: -link.bytes_per_s)


@cache
def tables() -> dict[str, PublishedTable]:
    """All tables of papers by name, in the order of their names. Raises LabError("profile-broken")."""
    return read_all(PROFILES_DIR / "published", table_of, lambda table: table.name)


def model(name: str) -> ModelProfile:
    """Raises LabError("profile-unknown" or "profile-broken")."""
    return _named(models(), name)


def device(name: str) -> DeviceProfile:
    """Raises LabError("profile-unknown" or "profile-broken")."""
    return _named(devices(), name)


def link(name: str) -> LinkProfile:
    """Raises LabError("profile-unknown" or "profile-broken")."""
    return _named(links(), name)


def table(name: str) -> PublishedTable:
    """Raises LabError("profile-unknown" or "profile-broken")."""
    return _named(tables(), name)


def _named(known: dict, name: str):
    if name not in known:
        raise LabError("profile-unknown", name=str(name)[:80], known=", ".join(known))
    return known[name]
