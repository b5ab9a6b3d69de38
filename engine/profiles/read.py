"""Reading a folder of TOML files into profiles: what every kind of profile has in common.

Every number has a source, and no source is of something that is not there. A broken file is one sentence.
"""

import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from engine.errors import LabError

HIGHEST = 1e24


def read_all(folder: Path, make: Callable[[dict], object], key: Callable) -> dict:
    """Profiles by name, sorted by key. make turns a file's table into a profile, or raises ValueError with a clause that
    says why not. Raises LabError("profile-broken")."""
    found = [_read(path, make) for path in sorted(folder.glob("*.toml"))]
    return {profile.name: profile for profile in sorted(found, key=key)}


def _read(path: Path, make: Callable[[dict], object]):
    try:
        profile = make(tomllib.loads(path.read_text(encoding="utf-8")))
        if profile.name != path.stem:
            raise ValueError(f"its name must be that of the file, {path.stem}")
    except (OSError, ValueError) as error:
        raise LabError("profile-broken", path=f"{path.parent.name}/{path.name}", why=str(error)[:200]) from error
    return profile


def check_names(table: Mapping, required: Collection[str], optional: Collection[str], where: str = "") -> None:
    """Raises ValueError if the table lacks a required name or has one that is neither."""
    missing = [name for name in required if name not in table]
    if missing:
        raise ValueError(f"{missing[0]} is missing{where}")
    unknown = [name for name in table if name not in required and name not in optional]
    if unknown:
        raise ValueError(f"there is no {unknown[0]} in such a file{where}")


def check_words(table: Mapping, names: Collection[str]) -> None:
    for name in names:
        if not isinstance(table[name], str) or not table[name].strip():
            raise ValueError(f"{name} must be a word")


def check_numbers(table: Mapping, whole: Collection[str], other: Collection[str] = (), where: str = "") -> None:
    """Those of the names that are in the table must be numbers above 0, whole ones if they count something."""
    for name in (*whole, *other):
        if name not in table:
            continue
        value, kind = table[name], int if name in whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < HIGHEST:
            raise ValueError(f"{name} must be a {'whole ' if name in whole else ''}number above 0{where}")


def check_sources(table: Mapping, needed: Collection[str]) -> None:
    """Each of the needed names that is in the table has a source; others that are there may have one."""
    sources, needed = table["sources"], [name for name in needed if name in table]
    if not isinstance(sources, dict) or not set(needed) <= set(sources) <= set(table):
        raise ValueError(f"sources must name each of: {', '.join(needed)}")
    if not all(isinstance(source, str) and source.strip() for source in sources.values()):
        raise ValueError("a source must be a sentence")
