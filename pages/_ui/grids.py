"""Small tables of shares side by side, each cell a number with a shade, told in full when it is pointed at or reached by keyboard.

A spec is plain data:

    {"across", "down": what columns and rows are, "columns": [[name, small print], ...], "rows": [name, ...],
     "grids": [{"title", "rows": [[cell or null, ...], ...]}]}

A cell: "text", the number; "shade", 0 to 1; "low": true draws it as one that says nothing; "mark": "sinks", "window", "gone" or
null, a sign in its corner; "told": all of it in words, lines parted by newlines.
"""

from __future__ import annotations

from pages._ui import script


def show(spec: dict, *, alt: str, key: str) -> None:
    """alt: all grids in words, for who cannot see them."""
    script.component("grids")(key=key, data={"spec": spec, "alt": alt})
