"""Nothing about a sender is kept: an address, a header and a cookie are found nowhere."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from chaffinch.wire import media_types
from tests.services.commands import Service, serving, waited
from tests.services.servers import Site, collecting, make_site, read_all
from tests.services.test_hop import SETTINGS, counts

ADDRESS = "127.83.61.47"
HEADER, COOKIE, QUERY = "canary-in-a-header", "canary-in-a-cookie", "canary-in-a-query"
FORWARDED = "203.0.113.77"
AGENT = "canary-agent/1.0"
ANALYZER = """
plans = ["../plan.json"]
keys = "keys"
data = "data"
[analyzer]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
[analyzer.limits]
free_bytes = 1
openers = 1
look_seconds = 0.1
"""


def _ask(port: int, method: str, path: str, body: bytes = b"") -> bytes:
    """Ask from an address that nobody else has, with words that nobody else uses."""
    lines = [
        f"{method} {path}?{QUERY} HTTP/1.1",
        "host: localhost",
        f"content-type: {media_types.REPORTS}",
        f"content-length: {len(body)}",
        f"x-canary: {HEADER}",
        f"cookie: name={COOKIE}",
        f"user-agent: {AGENT}",
        f"x-forwarded-for: {FORWARDED}",
        f"x-real-ip: {FORWARDED}",
        f"forwarded: for={FORWARDED}",
        "connection: close",
    ]
    where = ("127.0.0.1", port)
    with socket.create_connection(where, source_address=(ADDRESS, 0)) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return read_all(connection)


def _traces(content: bytes) -> list[str]:
    """Return which canaries are in some bytes, in any spelling that a program would use."""
    lower = content.lower()
    words = [ADDRESS, HEADER, COOKIE, QUERY, AGENT, FORWARDED]
    found = [word for word in words if word.lower().encode() in lower]
    found += [word for word in (ADDRESS, FORWARDED) if socket.inet_aton(word) in content]
    return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def test_nothing_about_a_sender_is_kept_or_told(site: Site) -> None:
    with collecting(site) as service:
        answers = [
            _ask(service.port, "POST", site.path(), site.reports(2)),
            _ask(service.port, "POST", site.path(), b"canary-in-a-body"),
            _ask(service.port, "POST", site.path(number=9), site.reports(1)),
            _ask(service.port, "GET", f"/v1/plans/{site.plan.id}/keys"),
            _ask(service.port, "PATCH", "/canary-in-a-path"),
            _ask(service.port, "BREW", site.path()),
        ]
        code, out, err = service.stop()
    assert [int(answer.split(b" ")[1]) for answer in answers] == [201, 400, 404, 200, 404, 400]
    assert code == 0
    for answer in answers:
        assert not _traces(answer)
        assert b"canary-in-a" not in answer
    assert not _traces((out + err).encode())
    assert len(site.numbers()) == 2
    assert _files_without_traces(site.folder) > 5


def _files_without_traces(folder: Path) -> int:
    """Return how many files there are; fail if one of them has a canary in it."""
    looked_at = 0
    for path in folder.rglob("*"):
        assert not _traces(str(path).encode())
        if path.is_file():
            looked_at += 1
            assert not _traces(path.read_bytes()), path
            assert b"canary-in-a" not in path.read_bytes()
    return looked_at


def test_nor_does_a_hop_tell_its_operator(site: Site) -> None:
    config = site.folder / "hop1" / "hop.toml"
    config.write_text(SETTINGS)
    with serving("collector", config) as collector, serving("shuffler", config) as shuffler:
        port = int(collector.addresses[0].rpartition(":")[2])
        assert b" 201 " in _ask(port, "POST", site.path(), site.reports(2))
        assert b" 422 " in _ask(port, "POST", site.path(), bytes(site.plan.layout.report_length))
        waited(lambda: counts(shuffler)["durable"] == 2)
        _look_at_what_is_told(collector, shuffler)
    assert _files_without_traces(site.folder) > 5


def test_nor_does_an_analyzer(site: Site) -> None:
    config = site.folder / "analyzer" / "analyzer.toml"
    config.write_text(ANALYZER)
    with serving("analyzer", config) as analyzer:
        port = int(analyzer.addresses[0].rpartition(":")[2])
        for path in ("releases", "keys", f"batches/{'0' * 64}", "canary-in-a-path"):
            asked = _ask(port, "GET", f"/v1/plans/{site.plan.id}/{path}")
            assert not _traces(asked)
        path = f"/v1/plans/{site.plan.id}/batches/{'0' * 64}"
        assert b" 415 " in _ask(port, "PUT", path, b"canary-in-a-body")
        waited(lambda: analyzer.get("/readyz") == "ready\n")
        _look_at_what_is_told(analyzer)
    assert _files_without_traces(site.folder) > 5


def _look_at_what_is_told(*services: Service) -> None:
    """Search everything that services tell their operators, and who may have sent reports too."""
    told = []
    for service in services:
        port = int(service.addresses[-1].rpartition(":")[2])
        for path in ("/metrics", "/status", "/readyz", "/healthz", "/canary-in-a-path"):
            told += [service.get(path).encode(), _ask(port, "GET", path)]
        code, logged = service.stop()
        assert code == 0
        told.append(logged.encode())
    assert sum(b"chaffinch_counts" in said for said in told) >= 2 * len(services)
    for said in told:
        assert not _traces(said)
        assert b"canary-in-a" not in said


def test_the_search_finds_what_is_there() -> None:
    assert _traces(f"GET / from {ADDRESS}".encode()) == [ADDRESS]
    assert _traces(b"\0" + socket.inet_aton(FORWARDED)) == [FORWARDED]
    assert _traces(HEADER.upper().encode()) == [HEADER]
