"""Who may ask, and with what rules every answer goes: one machine, one secret address.

The page shows what is in the folder that it was started in, and it can make files there. So it
listens on loopback only, under a path that only whoever started it knows. Another site that is open
in the same browser neither knows the path nor has the right ``Origin``; a name that is made to
point here later has the wrong ``Host``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from chaffinch.cards import DARK, LIGHT, PAPER
from chaffinch.charts.html_page import BOX_STYLE
from chaffinch.charts.price import PriceFigure
from chaffinch.charts.svg import RULES
from chaffinch.errors import ChaffinchError
from chaffinch.services.http import Application, Handler, Request, Response, Room, refusal
from chaffinch.web.controls import named_as_here
from chaffinch.wire.problems import Kind, Problem

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_RULES = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)
"""What the browser must keep to, on every answer."""
_HEADERS = tuple((name.encode(), value.encode()) for name, value in _RULES)
_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "toml": "application/toml",
    "py": "text/x-python; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_LARGEST_FORM = 1 << 20
_ROOM = 16 << 20
"""Bytes of forms in memory at once."""
_FILES = ("page.js", "page.css")

Form = Mapping[str, str]


class Site(Application):
    """Answers one browser on this machine."""

    def __init__(self, routes: Mapping[str, Mapping[str, Handler]]) -> None:
        self._token = secrets.token_urlsafe(24)
        self._hosts: frozenset[bytes] = frozenset()
        self._origins: frozenset[bytes] = frozenset()
        self._room = Room(_ROOM)
        static = {f"/{name}": {"GET": _static(name)} for name in _FILES}
        every = {**routes, **static}
        super().__init__({f"/{self._token}{path}": each for path, each in every.items()})

    def listens_on(self, address: str) -> str:
        """Note where it listens, which is known when it does; return where people go."""
        port = address.rpartition(":")[2]
        hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(f"http://{host}".encode() for host in hosts)
        return f"http://127.0.0.1:{port}/{self._token}/"

    async def __call__(self, request: Request) -> Response:
        """Return the answer to whoever may ask."""
        found = await super().__call__(request) if self._may_ask(request) else _STRANGER
        if found.status == _NOWHERE and b"text/html" in (request.header(b"accept") or b""):
            found = _NOTHING_HERE
        return found._replace(headers=(*found.headers, *_HEADERS))

    def _may_ask(self, request: Request) -> bool:
        if request.header(b"host") not in self._hosts:
            return False
        if request.method in ("GET", "HEAD"):
            return True
        return request.header(b"origin") in self._origins

    async def form(self, request: Request) -> Form:
        """Return the fields of a form; the last value of each."""
        request.require_type(b"application/x-www-form-urlencoded")
        body = await request.body(self._room, most=_LARGEST_FORM)
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000)
        except ValueError:
            raise Problem(Kind.INVALID_MESSAGE) from None
        finally:
            self._room.give(len(body))
        return {name: values[-1] for name, values in fields.items()}


_STYLE = f""":root {{ {LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}
@media print {{ :root {{ {LIGHT}; {PAPER} }} }}
{RULES}
{PriceFigure.rules}
{BOX_STYLE}
"""
"""The look of all pages and pictures, before what only these pages have."""
_NOWHERE = 404
_STRANGER = refusal(Problem(Kind.UNKNOWN_PATH))
_NOTHING_HERE = Response.of(
    _NOWHERE,
    b'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Nothing here</title>'
    b"<h1>Nothing here</h1><p>The address may be that of a page that was started before: it is new "
    b"at each start. Or what it showed is gone, or was renamed: go back, and load that page again.",
    _TYPES["html"],
)
"""Strangers learn nothing: for them there is nothing here."""


def _static(name: str) -> Handler:
    async def handler(_request: Request) -> Response:
        content = resources.files("chaffinch.web").joinpath(name).read_bytes()
        if name == "page.css":
            content = _STYLE.encode() + content
        return Response.of(200, content, _TYPES[name.rpartition(".")[2]])

    return handler


def html_response(html: str) -> Response:
    """Return a page."""
    return Response.of(200, html.encode(), _TYPES["html"])


def json_response(document: Any) -> Response:
    """Return data for the script of the page."""
    content = json.dumps(document, ensure_ascii=False, allow_nan=False)
    return Response.of(200, content.encode(), _TYPES["json"])


def file_response(name: str, content: bytes) -> Response:
    """Return a file to be kept under a name, which is one of ours."""
    kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response.of(
        200, content, kind, ("content-disposition", f'attachment; filename="{name}"')
    )


def fault_document(fault: ChaffinchError) -> dict[str, str]:
    """Return an error for people who have this page before them."""
    message, hint = map(named_as_here, (fault.message, fault.hint))
    return {"code": fault.code, "message": message, "hint": hint}
