"""The middleware: language and style sheets in the document, headers on everything, compression once."""

import asyncio
import gzip
import re
import resource

import pytest

from pages._ui import web

INDEX = '<!DOCTYPE html><html lang="en"><head><title>Streamlit</title></head><body></body></html>'


def get(app, path="/", headers=None, query=b""):
    """One GET through an ASGI app: (status, headers, body)."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query,
        "headers": [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
    }
    asyncio.run(app(scope, receive, send))
    body = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    return sent[0]["status"], {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}, body


def serving(body: bytes, kind: str, asked: list | None = None):
    async def app(scope, _receive, send):
        if asked is not None:
            asked.append({k: v for k, v in scope["headers"]})
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), (b"etag", b"x")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        half = len(body) // 2
        await send({"type": "http.response.body", "body": body[:half], "more_body": True})
        await send({"type": "http.response.body", "body": body[half:]})

    return app


def test_the_document_has_the_readers_language_and_our_style_sheets():
    asked: list = []
    app = web.PageShell(serving(INDEX.encode(), "text/html; charset=utf-8", asked))
    browser = {
        "accept": "text/html",
        "accept-language": "ko-KR,ko;q=0.9",
        "accept-encoding": "gzip",
        "if-none-match": "x",
    }
    _, headers, body = get(app, headers=browser)
    html = body.decode()
    assert '<html lang="ko"' in html and web.TITLE in html
    assert "./app/static/lab.css" in html and html.index("lab.css") < html.index("</head>")
    assert int(headers["content-length"]) == len(body) and "etag" not in headers
    assert b"accept-encoding" not in asked[0] and b"if-none-match" not in asked[0]
    assert '<html lang="en"' in get(app, headers=browser, query=b"run=abc&lang=en")[2].decode()


def test_other_answers_pass_untouched():
    body = b"window.x = '<html lang=\"en\">'"
    app = web.PageShell(serving(body, "text/javascript"))
    assert get(app, headers={"accept": "*/*"})[2] == body
    assert get(app, headers={"accept": "text/html"})[2] == body


def test_security_headers_allow_our_own_origin_only():
    _, headers, _ = get(web.SecurityHeaders(serving(b"x", "text/plain")))
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy and "object-src 'none'" in policy
    assert not re.search(r"https?:|\*|unsafe-eval", policy)
    assert "unsafe-inline" not in re.search(r"script-src[^;]*", policy).group()
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"


def test_a_browser_gets_a_name_once_and_scripts_cannot_read_it():
    app = web.BrowserName(serving(INDEX.encode(), "text/html"))
    cookie = get(app, headers={"accept": "text/html"})[1]["set-cookie"]
    assert re.match(r"lab-browser=[\w-]{22}; ", cookie) and "HttpOnly" in cookie and "SameSite=Lax" in cookie
    assert "set-cookie" not in get(app, headers={"accept": "text/html", "cookie": cookie.split(";")[0]})[1]
    assert "set-cookie" not in get(app, headers={"accept": "application/json"})[1]
    assert cookie != get(app, headers={"accept": "text/html"})[1]["set-cookie"]


def test_static_files_are_compressed_once_and_only_for_who_can_read_it():
    body, asked = b"let x = 1;\n" * 5000, []
    app = web.StaticGzip(serving(body, "text/javascript", asked))
    for _ in range(3):
        status, headers, packed = get(app, "/static/js/index.js", {"accept-encoding": "gzip, br"})
        assert status == 200 and headers["content-encoding"] == "gzip" and gzip.decompress(packed) == body
        assert int(headers["content-length"]) == len(packed) < len(body) / 10
    assert len(asked) == 1
    assert get(app, "/static/js/index.js")[2] == body
    assert get(app, "/static/js/index.js", {"accept-encoding": "gzip", "range": "bytes=0-9"})[2] == body
    assert get(app, "/app/static/pretendard/1.woff2", {"accept-encoding": "gzip"})[2] == body


def test_versioned_files_are_kept_for_ever_and_others_are_not():
    asked = []

    async def app(scope, receive, send):
        asked.append(scope["path"])
        await serving(b"x" * 2000, "text/javascript")(scope, receive, send)

    versioned = web.VersionedStatic(app)
    assert "immutable" in get(versioned, "/app/static/js@0123abcd/timeline/main.js")[1]["cache-control"]
    assert "cache-control" not in get(versioned, "/app/static/js/timeline/main.js")[1]
    assert "cache-control" not in get(versioned, "/app/static/js@../../x/main.js")[1]
    assert asked == ["/app/static/js/timeline/main.js", "/app/static/js/timeline/main.js", "/app/static/js@../../x/main.js"]


def test_what_is_small_or_missing_is_not_kept():
    app = web.StaticGzip(serving(b"tiny", "text/css"))
    assert get(app, "/static/x.css", {"accept-encoding": "gzip"})[2] == b"tiny"
    assert not app.files


@pytest.mark.parametrize(
    ("origin", "host", "address", "ours"),
    [
        ("http://localhost:8501", "localhost:8501", None, True),
        ("", "localhost:8501", None, True),
        ("http://evil.example", "localhost:8501", None, False),
        ("http://localhost:8502", "localhost:8501", None, False),
        ("https://lab.school.example", "127.0.0.1:8501", "lab.school.example", True),
        ("null", "localhost:8501", None, False),
    ],
)
def test_only_our_own_pages_get_a_websocket(origin, host, address, ours):
    """A page of another site must not drive this server, and must not make it ask outside for its address."""
    assert web.own_origin(origin, host, address) is ours


def test_a_foreign_websocket_is_closed_before_the_app_sees_it():
    seen, sent = [], []

    async def app(scope, receive, send):
        seen.append(scope)

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    def connect(origin):
        scope = {"type": "websocket", "headers": [(b"host", b"localhost:8501"), (b"origin", origin)]}
        asyncio.run(web.OwnOrigin(app)(scope, receive, send))

    connect(b"http://evil.example")
    assert not seen and sent == [{"type": "websocket.close", "code": 1008}]
    connect(b"http://localhost:8501")
    assert len(seen) == 1


def test_a_class_has_more_than_256_open_files():
    """After some eighty visits the server took nobody in any more, where a user's limit is that of macOS."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        web.room_for_a_class()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
