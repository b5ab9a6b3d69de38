"""What a reader chose, as a session or an address holds it: that may be anything. No streamlit here."""

from __future__ import annotations

from collections.abc import Container, Mapping


def chosen(found: Mapping, name: str, allowed: Container, first: Mapping) -> object:
    """The value of that name if it is one of those allowed, else the lesson's own (`first`).

    True and False are refused first: they equal 1 and 0. So is what cannot be hashed, which some containers choke on.
    """
    value = found.get(name)
    fits = not isinstance(value, bool) and isinstance(value, int | float | str) and value in allowed
    return value if fits else first[name]
