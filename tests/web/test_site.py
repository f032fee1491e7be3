"""Who may ask: whoever knows the address, from this machine, from a page of this origin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from chaffinch.errors import InvalidInput
from chaffinch.services.http import Request, Response
from chaffinch.web.site import Form, Site, fault_document, html_response

HOST = b"127.0.0.1:8123"
ORIGIN = b"http://127.0.0.1:8123"
FORM = (b"content-type", b"application/x-www-form-urlencoded")


class Answering(Site):
    """A site with one page that shows what was filled in."""

    def __init__(self) -> None:
        super().__init__({"/": {"GET": self._show, "POST": self._take}})
        self.address = self.listens_on("http://127.0.0.1:8123")
        self.path = self.address.removeprefix(ORIGIN.decode())
        self.forms: list[Form] = []

    async def _show(self, _request: Request) -> Response:
        return html_response("here")

    async def _take(self, request: Request) -> Response:
        self.forms.append(await self.form(request))
        return html_response("taken")


def asked(
    site: Answering, method: str, path: str, *headers: tuple[bytes, bytes], body: bytes = b""
) -> Response:
    async def blocks() -> AsyncIterator[bytes]:
        if body:
            yield body

    length = (b"content-length", str(len(body)).encode())
    return asyncio.run(site(Request(method, path.encode(), (*headers, length), blocks())))


@pytest.fixture
def site() -> Answering:
    return Answering()


def test_whoever_knows_the_address_is_answered_under_rules(site: Answering) -> None:
    found = asked(site, "GET", site.path, (b"host", HOST))
    assert (found.status, found.body) == (200, b"here")
    headers = dict(found.headers)
    policy = headers[b"content-security-policy"].decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers[b"cache-control"] == b"no-store"
    for name in ("page.js", "page.css"):
        assert asked(site, "GET", site.path + name, (b"host", HOST)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"evil.example:8123")],
        [(b"host", b"127.0.0.1:8124")],
        [(b"host", b"127.0.0.1")],
        [(b"host", HOST), (b"origin", b"http://evil.example")],
        [(b"host", HOST), (b"origin", b"null")],
        [(b"host", HOST)],
    ],
)
def test_another_host_or_origin_finds_nothing(
    site: Answering, headers: list[tuple[bytes, bytes]]
) -> None:
    found = asked(site, "POST", site.path, *headers, FORM, body=b"a=1")
    assert found.status == 404
    assert site.forms == []
    if len(headers) < 2 and headers != [(b"host", HOST)]:
        assert asked(site, "GET", site.path, *headers).status == 404


def test_another_path_finds_nothing_and_no_two_sites_share_one(site: Answering) -> None:
    for path in ("/", "/page.js", site.path[:-2] + "/", site.path + "../", site.path + "x"):
        assert asked(site, "GET", path, (b"host", HOST)).status == 404
        shown = asked(site, "GET", path, (b"host", HOST), (b"accept", b"text/html,*/*"))
        assert (shown.status, b"<h1>Nothing here</h1>" in shown.body) == (404, True)
    assert Answering().path != site.path
    assert len(site.path) > 30


def test_faults_name_the_controls_of_the_page() -> None:
    hint = "say --person (person=...) or --rows-are-people (rows_are_people=True)"
    told = fault_document(InvalidInput("unit", "the same", "another", hint=hint))
    assert told["hint"] == "say ‘column of people’ or ‘each row is a person’"


def test_forms_are_read_within_limits(site: Answering) -> None:
    own = ((b"host", HOST), (b"origin", ORIGIN))
    assert asked(site, "POST", site.path, *own, FORM, body=b"a=1&a=2&b=%C3%A4&c=").status == 200
    assert site.forms == [{"a": "2", "b": "ä", "c": ""}]
    json = (b"content-type", b"application/json")
    assert asked(site, "POST", site.path, *own, json, body=b"{}").status == 415
    assert asked(site, "POST", site.path, *own, FORM, body=b"a" * (1 << 20) + b"=1").status == 413
    assert asked(site, "POST", site.path, *own, FORM, body=b"\xff=1").status == 400
    assert asked(site, "POST", site.path, *own, FORM, body=b"a&" * 2000).status == 400
    assert len(site.forms) == 1
