"""ASGI middleware around Streamlit: own origin only, a name for each browser, the page shell, security headers,
static files compressed and kept.

Small classes, each with one job.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import re
import resource
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from pages._ui.language import negotiate

TITLE = "Long-Context Serving Lab"
STATIC = Path(__file__).resolve().parents[1] / "static"

STYLES = ("lab.css", "timeline.css", "plot.css", "memory.css", "heat.css", "sinks.css", "grids.css", "rope.css", "transfer.css", "pools.css", "ring.css", "quiz.css", "course.css", "lesson.css")

# The subset of the web font with the Latin letters: every page needs it at once.
LATIN_FONT = "pretendard/91.woff2"

COMPRESSIBLE = (".js", ".css", ".json", ".svg", ".map", ".txt")
COMPRESS_FROM_BYTES = 1_000
CACHE_LIMIT_BYTES = 48 * 2**20
OPEN_FILES = 4096


class OwnOrigin:
    """Refuses the websocket of a page that another site serves.

    Streamlit would refuse it too, but asks an outside service for this machine's public address first.
    """

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket" and not own_origin(_header(scope, b"origin"), _header(scope, b"host"), server_address()):
            await receive()
            return await send({"type": "websocket.close", "code": 1008})
        await self.app(scope, receive, send)


def own_origin(origin: str, host: str, address: str | None = None) -> bool:
    """Whether a page from ``origin`` is ours: it names the host that was asked, or the address the server is known by.

    No origin at all is no browser, and free to come in.
    """
    asked = urlsplit(origin)
    return not origin or asked.netloc == host or (bool(address) and asked.hostname == address)


def server_address() -> str | None:
    """``browser.serverAddress``: what the server is called from outside, behind a proxy for example."""
    from streamlit import config

    return config.get_option("browser.serverAddress") if config.is_manually_set("browser.serverAddress") else None


def room_for_a_class() -> None:
    """Raises this process's limit of open files to 4096 where that is allowed.

    A browser takes three, and Streamlit keeps them for a while after it has left; macOS gives 256 to who does not ask.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class BrowserName:
    """Gives each browser a random name in a cookie: the queue lets browsers take turns, and only who started a run may
    cancel it. It says nothing about the person and is readable by this server only."""

    COOKIE = "lab-browser"
    KEPT_S = 180 * 24 * 3600

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        wanted = scope["type"] == "http" and "text/html" in _header(scope, b"accept")
        if not wanted or f"{self.COOKIE}=" in _header(scope, b"cookie"):
            return await self.app(scope, receive, send)

        async def named(message):
            if message["type"] == "http.response.start":
                secure = "; Secure" if scope.get("scheme") == "https" else ""
                cookie = f"{self.COOKIE}={secrets.token_urlsafe(16)}; Path=/; Max-Age={self.KEPT_S}; HttpOnly; SameSite=Lax"
                message["headers"] = [*message["headers"], (b"set-cookie", (cookie + secure).encode())]
            await send(message)

        await self.app(scope, receive, named)


class PageShell:
    """Puts language, title and our style sheets into the one HTML document Streamlit serves.

    Style sheets linked here are there before the first paint and are cached by
    the browser; sent through the page's websocket they would be neither.
    """

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        wanted = scope["type"] == "http" and scope["method"] == "GET" and "text/html" in _header(scope, b"accept")
        if not wanted:
            return await self.app(scope, receive, send)
        lang = negotiate(_query_lang(scope), _header(scope, b"accept-language"))
        held, body = None, b""

        async def rewrite(message):
            nonlocal held, body
            if message["type"] == "http.response.start":
                if _response_header(message, b"content-type").startswith("text/html"):
                    held = message
                    return
            elif message["type"] == "http.response.body" and held is not None:
                body += message.get("body", b"")
                if message.get("more_body"):
                    return
                start, held = held, None
                body = shell(body.decode("utf-8", "replace"), lang).encode()
                drop = (b"content-length", b"etag", b"last-modified", b"cache-control")
                start["headers"] = [(k, v) for k, v in start["headers"] if k.lower() not in drop] + [
                    (b"content-length", str(len(body)).encode()),
                    (b"cache-control", b"no-cache"),
                    (b"vary", b"accept-language"),
                ]
                await send(start)
                return await send({"type": "http.response.body", "body": body})
            await send(message)

        # The document must come whole and uncompressed to be rewritten.
        await self.app(_without(scope, b"if-none-match", b"if-modified-since", b"accept-encoding"), receive, rewrite)


def shell(html: str, lang: str) -> str:
    """Streamlit's index.html with our language, title, style sheets and font preload."""
    html = re.sub(r'<html lang="[a-z-]*"', f'<html lang="{lang}"', html, count=1)
    html = html.replace("<title>Streamlit</title>", f"<title>{TITLE}</title>", 1)
    # Streamlit preloads its own text font, which no page of ours uses.
    html = re.sub(r'<link\s+rel="preload"[^>]*SourceSans[^>]*>', "", html, count=1)
    links = (
        f'<link rel="preload" href="./app/static/{LATIN_FONT}" as="font" type="font/woff2" crossorigin>'
        f'<link rel="stylesheet" href="./app/static/pretendard/pretendard.css">'
        + "".join(f'<link rel="stylesheet" href="./app/static/{name}?v={_digest(name)}">' for name in STYLES)
    )
    return html.replace("</head>", links + "</head>", 1)


class SecurityHeaders:
    """Only our own origin may be asked for anything; nobody may frame the page."""

    def __init__(self, app):
        self.app = app
        self.headers = [
            (b"content-security-policy", content_security_policy().encode()),
            (b"x-content-type-options", b"nosniff"),
            # A run is found by its link: the link must not travel to other sites.
            (b"referrer-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
        ]

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message):
            if message["type"] == "http.response.start":
                ours = {name for name, _ in self.headers}
                message["headers"] = [(k, v) for k, v in message["headers"] if k.lower() not in ours] + self.headers
            await send(message)

        await self.app(scope, receive, with_headers)


@cache
def content_security_policy() -> str:
    """The policy; inline scripts of Streamlit's own index.html are allowed by their hash, no others."""
    import streamlit

    index = Path(streamlit.__file__).parent / "static" / "index.html"
    scripts = re.findall(r"<script>(.*?)</script>", index.read_text(encoding="utf-8"), re.S)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return "; ".join(
        (
            "default-src 'self'",
            # Streamlit loads the few lines that start our timeline component as a module from a blob of its own making.
            f"script-src 'self' blob: {hashes}".strip(),
            # Streamlit and Plotly write their styles into the page.
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "frame-src 'self'",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        )
    )


class VersionedStatic:
    """Serves ``/app/static/NAME@VERSION/...`` as ``/app/static/NAME/...``, to be kept for ever: modules that import each
    other are then all of one version, and a browser that has them asks no more."""

    VERSIONED = re.compile(r"(/app/static/[a-z]+)@[0-9a-f]{8}(/.+)")

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        found = self.VERSIONED.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if not found:
            return await self.app(scope, receive, send)

        async def kept(message):
            if message["type"] == "http.response.start" and message["status"] == 200:
                headers = [(k, v) for k, v in message["headers"] if k.lower() != b"cache-control"]
                message = {**message, "headers": [*headers, (b"cache-control", b"public, max-age=31536000, immutable")]}
            await send(message)

        path = "".join(found.groups())
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, kept)


class StaticGzip:
    """Compresses a static file the first time it is asked for and keeps the result in memory.

    Streamlit sends its bundles uncompressed (the largest has almost 5 MB).
    Compressed per request they would cost a classroom's server seconds of CPU;
    compressed once, nothing.
    """

    def __init__(self, app):
        self.app = app
        self.files: dict[str, tuple[list, bytes]] = {}
        self.locks: dict[str, asyncio.Lock] = {}
        self.kept_bytes = 0

    async def __call__(self, scope, receive, send):
        if not self._wanted(scope):
            return await self.app(scope, receive, send)
        path = scope["path"]
        if path not in self.files:
            async with self.locks.setdefault(path, asyncio.Lock()):
                if path not in self.files:
                    passed_on = await self._fill(path, scope, receive, send)
                    if passed_on:
                        return None
        headers, body = self.files[path]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _wanted(self, scope) -> bool:
        return (
            scope["type"] == "http"
            and scope["method"] == "GET"
            and "/static/" in scope["path"]
            and scope["path"].endswith(COMPRESSIBLE)
            and "gzip" in _header(scope, b"accept-encoding")
            and not _header(scope, b"range")
        )

    async def _fill(self, path, scope, receive, send) -> bool:
        """Fetch the file from the app and keep it compressed; True if it was passed on to the browser as it was."""
        start, body = None, []

        async def collect(message):
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                body.append(message.get("body", b""))

        # Ask for it as it lies on disk: Streamlit compresses some of these itself.
        plain = _without(scope, b"if-none-match", b"if-modified-since", b"accept-encoding")
        await self.app(plain, receive, collect)
        raw = b"".join(body)
        if start["status"] != 200 or len(raw) < COMPRESS_FROM_BYTES or self.kept_bytes > CACHE_LIMIT_BYTES:
            await send(start)
            await send({"type": "http.response.body", "body": raw})
            self.locks.pop(path, None)  # names that do not exist must not pile up
            return True
        packed = await asyncio.to_thread(gzip.compress, raw, 6, mtime=0)
        drop = (b"content-length", b"content-encoding", b"vary", b"accept-ranges")
        headers = [(k, v) for k, v in start["headers"] if k.lower() not in drop] + [
            (b"content-length", str(len(packed)).encode()),
            (b"content-encoding", b"gzip"),
            (b"vary", b"accept-encoding"),
        ]
        self.files[path] = (headers, packed)
        self.kept_bytes += len(packed)
        return False


def _header(scope, name: bytes) -> str:
    return next((v.decode("latin-1") for k, v in scope["headers"] if k.lower() == name), "")


def _response_header(message, name: bytes) -> str:
    return next((v.decode("latin-1") for k, v in message["headers"] if k.lower() == name), "")


def _without(scope, *names: bytes):
    """The request without these headers: what we rewrite or keep must be asked for whole."""
    return {**scope, "headers": [(k, v) for k, v in scope["headers"] if k.lower() not in names]}


def _query_lang(scope) -> str | None:
    found = re.search(r"(?:^|&)lang=([A-Za-z-]+)", scope.get("query_string", b"").decode("latin-1"))
    return found.group(1) if found else None


@cache
def _digest(name: str) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:8]
