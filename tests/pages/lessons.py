"""A lesson's page as Streamlit runs it without a browser, and runs it can be asked for."""

import json
import re

from streamlit.testing.v1 import AppTest

from engine.paths import runs_dir
from engine.service import files
from pages._ui.words import PAGES


def lesson(folder: str, /, **address: str) -> AppTest:
    """The lesson in pages/`folder`, opened with `address`."""
    app = AppTest.from_file(PAGES / "router.py", default_timeout=30)
    for name, value in address.items():
        app.query_params[name] = value
    app.run()
    return app.switch_page(str(PAGES / folder / "page.py")).run()


def html(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def complete(app: AppTest) -> str:
    """The page is there, without an exception; gives its HTML."""
    assert not app.exception
    found = html(app)
    assert "lab-title" in found and "<script>alert" not in found
    return found


def stored(result: dict, name: str) -> str:
    """`result` as a run of this machine; gives its id, in which everything but small letters in `name` becomes a hyphen."""
    run = f"a-stored-run-{re.sub('[^a-z]', '-', name)}"
    files.write_atomically(runs_dir() / f"{run}.json", json.dumps(result | {"run_id": run, "provenance": "measured"}))
    return run
