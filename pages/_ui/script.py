"""Code of our own in the browser: Streamlit components that hand over to the static modules in pages/static/js.

The code is a cached, compressed static file; through the page's websocket goes only what a component is given.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import streamlit as st

FOLDER = Path(__file__).resolve().parents[1] / "static" / "js"


@cache
def component(name: str):
    """The component whose ``mount`` is in pages/static/js/NAME/main.js: called with key, data, and what it answers."""
    return st.components.v2.component(f"lab-{name}-{version()}", js=_script(name, version()), isolate_styles=False)


@cache
def version() -> str:
    """Changes with every change of the code, so that a browser never mixes two versions."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*.js")):
        digest.update(path.relative_to(FOLDER).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def _script(name: str, version: str) -> str:
    # A component's code runs as a blob, which has no address of its own: the page's address leads to the file.
    return f"""
const code = import(new URL("./app/static/js@{version}/{name}/main.js", document.baseURI));
export default async function (component) {{
  const {{ mount }} = await code;
  return mount(component);
}}
"""
