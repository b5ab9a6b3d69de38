"""A lesson's page as Streamlit runs it without a browser, and runs it can be asked for."""

import json
import re
from collections.abc import Iterable

from streamlit.testing.v1 import AppTest

from engine.paths import runs_dir
from engine.service import files
from pages._ui.words import PAGES, Words

# A fact that is missing, or a key without words: both show as they are.
LEFT_OPEN = re.compile(
    r"\{\w+\}|\bNone\b|\b(?:balance|calc|field|formats|gpu|link|meaning|measured|mechanism|overlap|phase|policy"
    r"|recall|recurrent|run|schedule|stage|state|ten|texts|track)\.[a-z_]+"
)


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


def left_open(found: str) -> list[str]:
    """What of a text, or of HTML outside its tags, was left open."""
    return LEFT_OPEN.findall(re.sub(r"<[^>]+>", " ", found))


def said(found: Iterable[tuple[str, dict]], words: Words) -> str:
    """All sentences of a story, none left open."""
    text = " ".join(words(key, **facts) for key, facts in found)
    assert text and not left_open(text), text
    return text


def stored(result: dict, name: str) -> str:
    """`result` as a run of this machine; gives its id, in which everything but small letters in `name` becomes a hyphen."""
    run = f"a-stored-run-{re.sub('[^a-z]', '-', name)}"
    files.write_atomically(runs_dir() / f"{run}.json", json.dumps(result | {"run_id": run, "provenance": "measured"}))
    return run
