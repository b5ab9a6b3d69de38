"""One of our components by itself, on a small page that a test serves."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pages._ui.web import STYLES

STATIC = Path(__file__).resolve().parents[2] / "pages" / "static"
TYPES = {"js": "text/javascript", "css": "text/css", "woff2": "font/woff2"}
PAGE = """<!doctype html><html lang="{lang}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>t</title><link rel="icon" href="data:,">{styles}
<style>html {{ color-scheme: light dark }} body {{ font: 16px sans-serif; background: var(--paper); color: var(--ink) }}</style>
<div id="place"></div><script type="module">
import {{ mount }} from "/static/js/{component}/main.js";
const answer = await fetch("/mount");
window.told = [];
const setStateValue = (name, value) => window.told.push([name, value]);
window.give = (data) => (window.clean = mount({{ data, parentElement: document.getElementById("place"), setStateValue }}));
give(await answer.json());
</script>"""


class Harness:
    """Serves pages/static and what a test puts into ``answers`` (path -> list of payloads, the last one stays)."""

    def __init__(self, component: str) -> None:
        self.component, self.lang = component, "en"
        self.answers: dict[str, list] = {}
        self.asked: list[str] = []
        harness = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.partition("?")[0]
                harness.asked.append(self.path)
                if path == "/":
                    return self.reply(harness.page().encode(), "text/html")
                if path in harness.answers:
                    waiting = harness.answers[path]
                    answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                    if answer is None:
                        return self.send_error(503)
                    return self.reply(json.dumps(answer).encode(), "application/json")
                file = STATIC / path.removeprefix("/static/")
                if path.startswith("/static/") and file.is_file():
                    return self.reply(file.read_bytes(), TYPES.get(file.suffix[1:], "text/plain"))
                self.send_error(404)

            def reply(self, body: bytes, kind: str):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def page(self) -> str:
        styles = "".join(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES)
        return PAGE.format(lang=self.lang, component=self.component, styles=styles)

    def mount(self, data: dict, *, lang: str = "en") -> None:
        """What the component is given when the page is opened."""
        self.lang, self.asked = lang, []
        self.answers = {"/mount": [data]}

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
