"""Senders who are slow, lie, or send too much: refused within limits, and others are served."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from chaffinch.shuffling.state import State
from chaffinch.wire import media_types
from chaffinch.wire.problems import problem_word
from tests.forks import Forked
from tests.services.commands import waited
from tests.services.servers import Running, Site, collecting, make_site, read_all

SHORT = {"server": {"patience_seconds": 0.7, "idle_seconds": 1.4, "connections": 8}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def service(site: Site) -> Iterator[Running]:
    with collecting(site, SHORT) as running:
        yield running
        code, _, err = running.stop()
        assert (code, err) == (0, "")


@pytest.fixture(autouse=True)
def _others_are_served(site: Site, service: Running) -> Iterator[None]:
    yield
    assert service.post(site.path(), site.reports(1)) == 201


def _head(site: Site, *lines: str) -> bytes:
    first = f"POST {site.path()} HTTP/1.1"
    given = ("host: x", f"content-type: {media_types.REPORTS}", *lines)
    return "\r\n".join([first, *given, "", ""]).encode()


def _reply(content: bytes) -> tuple[int, str | None]:
    head, _, body = content.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), problem_word(body)


def test_every_prefix_of_a_body_is_refused(site: Site, service: Running) -> None:
    body = site.reports(2)
    connection = service.connect()
    whole = {len(body) // 2, len(body)}
    for end in range(len(body) + 1):
        headers = {"content-type": media_types.REPORTS}
        connection.request("POST", site.path(), body[:end], headers)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == (201 if end in whole else 400)
    connection.close()


def test_a_body_that_ends_before_its_length_is_never_stored(site: Site, service: Running) -> None:
    body = site.reports(1, first=7777)
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(_head(site, f"content-length: {len(body) * 2}") + body)
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(_head(site, f"content-length: {len(body) * 2}") + body)
        started = time.monotonic()
        assert _reply(read_all(connection)) == (408, "slowBody")
        assert time.monotonic() - started < 6
    assert service.post(site.path(), site.reports(1, first=7778)) == 201
    waited(lambda: 7778 in site.numbers(runs=True))
    assert 7777 not in site.numbers(runs=True)


def test_what_follows_a_body_is_another_request(site: Site, service: Running) -> None:
    body = site.reports(1)
    content = _head(site, f"content-length: {len(body)}") + body + b"more than was said"
    found = service.raw(content)
    assert found.startswith(b"HTTP/1.1 201")
    assert b"connection: close" in found


@pytest.mark.parametrize(
    "lines",
    [
        ("content-length: x",),
        ("content-length: -1",),
        ("content-length: 1", "content-length: 2"),
        ("content-length: 5", "transfer-encoding: chunked"),
        ("transfer-encoding: gzip",),
        ("transfer-encoding: gzip, chunked",),
    ],
)
def test_lengths_that_mean_two_things_are_refused(
    site: Site, service: Running, lines: tuple[str, ...]
) -> None:
    assert _reply(service.raw(_head(site, *lines) + site.reports(1)))[0] in (400, 408, 422)


def test_a_length_beyond_the_limit_is_refused_before_the_body(site: Site, service: Running) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(_head(site, f"content-length: {10**18}"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413")
        # What comes behind is dropped, and that ends, too.
        assert len(read_all(connection)) < 1000


def test_a_body_without_a_length_ends_at_the_limit(site: Site, service: Running) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(_head(site, "transfer-encoding: chunked"))
        block = b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20))
        with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012 - somewhere in between
            for _ in range(200):
                connection.sendall(block)


def test_a_trickle_is_cut(site: Site, service: Running) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(_head(site, "transfer-encoding: chunked"))
        found = b""
        connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
        for _ in range(100):
            try:
                connection.sendall(b"1\r\nx\r\n")
                found = connection.recv(1 << 16)
                break
            except BlockingIOError:
                time.sleep(0.05)
        assert _reply(found) == (408, "slowBody")


def test_many_tiny_chunks_are_cut_however_fast_they_come(site: Site, service: Running) -> None:
    """There is more around them than in them."""
    found = service.raw(_head(site, "transfer-encoding: chunked") + b"1\r\nx\r\n" * 5000)
    assert _reply(found) == (431, "longHead")


def test_small_chunks_are_taken_and_take_little_memory(site: Site, service: Running) -> None:
    body = site.reports(2000)
    before = service.memory()
    content = b"".join(b"9\r\n%s\r\n" % body[at : at + 9] for at in range(0, len(body), 9))
    last = len(body) % 9 or 9
    content = content[: -last - 5] + b"%x\r\n%s\r\n" % (last, body[-last:]) + b"0\r\n\r\n"
    lines = ("transfer-encoding: chunked", "connection: close")
    assert service.raw(_head(site, *lines) + content).startswith(b"HTTP/1.1 201")
    assert service.memory() - before < 16 << 20


def test_a_body_in_chunks_is_taken(site: Site, service: Running) -> None:
    body = site.reports(2, first=8000)
    chunks = [body[start : start + 100] for start in range(0, len(body), 100)]
    content = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    head = _head(site, "transfer-encoding: chunked", "connection: close")
    assert service.raw(head + content).startswith(b"HTTP/1.1 201")
    waited(lambda: {8000, 8001} <= set(site.numbers(runs=True)))


def test_bodies_may_come_in_parts_one_after_the_other(site: Site, service: Running) -> None:
    body = site.reports(150)
    content = _head(site, f"content-length: {len(body)}") + body
    with socket.create_connection(("127.0.0.1", service.port), 20) as connection:
        for _ in range(3):
            for start in range(0, len(content), 20_000):
                connection.sendall(content[start : start + 20_000])
                time.sleep(0.01)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize("pieces", [1, 40])
def test_a_long_head_is_refused(service: Running, pieces: int) -> None:
    content = b"GET / HTTP/1.1\r\n" + b"".join(
        b"x%d: %s\r\n" % (place, b"y" * (12_000 // pieces)) for place in range(pieces)
    )
    assert _reply(service.raw(content + b"\r\n")) == (431, "longHead")
    assert _reply(service.raw(b"GET /" + b"a" * 12_000)) == (431, "longHead")


def test_a_slow_head_and_a_silent_connection_are_closed(service: Running) -> None:
    assert _reply(service.raw(b"GET / HT")) == (408, "slowBody")
    assert service.raw(b"") == b""


@pytest.mark.parametrize("content", [b"\x16\x03\x01\x02\x00\x01", b"\0" * 100, b"GET\r\n\r\n"])
def test_what_is_no_http_is_refused(service: Running, content: bytes) -> None:
    assert _reply(service.raw(content)) == (400, "invalidMessage")


def test_an_upgrade_is_not_made(site: Site, service: Running) -> None:
    lines = ("connection: upgrade, close", "upgrade: websocket", "content-length: 0")
    assert b" 101 " not in service.raw(_head(site, *lines))


def test_what_is_sent_ahead_of_an_answer_is_not_taken(site: Site, service: Running) -> None:
    """Each that waits for its turn takes memory, and a megabyte holds fifty thousand."""
    body = site.reports(1, first=9000)
    request = _head(site, f"content-length: {len(body)}") + body
    found = service.raw(request + request.replace(body, site.reports(1, first=9001)) * 3)
    assert found.count(b"HTTP/1.1") == 1
    assert found.startswith(b"HTTP/1.1 201")
    assert b"connection: close" in found, "its sender knows what to send again"
    before = service.memory()
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        reader = threading.Thread(target=read_all, args=[connection])
        reader.start()
        with suppress(OSError):  # it hangs up in the middle
            for _ in range(16):
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 50_000)
        reader.join(20)
        assert not reader.is_alive(), "it was not hung up"
    assert service.memory() - before < 16 << 20
    assert service.post(site.path(), site.reports(1, first=9002)) == 201
    waited(lambda: 9002 in site.numbers(runs=True))
    assert 9000 in site.numbers(runs=True)
    assert 9001 not in site.numbers(runs=True)


def test_who_sends_nothing_more_is_still_answered(site: Site, service: Running) -> None:
    body = site.reports(1)
    with socket.create_connection(("127.0.0.1", service.port), 20) as connection:
        connection.sendall(_head(site, f"content-length: {len(body)}") + body)
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).startswith(b"HTTP/1.1 201")


def test_who_asks_before_it_sends_a_body_is_told_to_go_on(site: Site, service: Running) -> None:
    body = site.reports(1)
    with socket.create_connection(("127.0.0.1", service.port), 20) as connection:
        lines = ("expect: 100-continue", "connection: close")
        connection.sendall(_head(site, f"content-length: {len(body)}", *lines))
        assert connection.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_all(connection).startswith(b"HTTP/1.1 201")
    # Nobody is asked for what is refused anyway.
    content = _head(site, f"content-length: {1 << 30}", "expect: 100-continue")
    assert service.raw(content).startswith(b"HTTP/1.1 413")


def test_a_refusal_reaches_who_has_still_much_to_send(site: Site, service: Running) -> None:
    connection = service.connect()
    headers = {"content-type": media_types.REPORTS}
    connection.request("POST", site.path(), bytes(7 << 20), headers)
    reply = connection.getresponse()
    assert (reply.status, reply.getheader("connection")) == (413, "close")
    assert problem_word(reply.read()) == "tooLarge"
    connection.close()


def test_a_length_of_many_digits_is_a_length(site: Site, service: Running) -> None:
    """Python makes no number of them; it must not become a fault that is told every time."""
    body = site.reports(1)
    long = "0" * 5000 + str(len(body))
    lines = (f"content-length: {long}", "connection: close")
    assert service.raw(_head(site, *lines) + body).startswith(b"HTTP/1.1 201")
    assert _reply(service.raw(_head(site, "content-length: " + "9" * 19)))[0] in (400, 413)


@pytest.mark.parametrize("version", ["2.0", "3.1", "0.9"])
def test_another_version_is_refused(service: Running, version: str) -> None:
    assert _reply(service.raw(f"GET / HTTP/{version}\r\nhost: x\r\n\r\n".encode()))[0] == 400


def test_nobody_of_the_old_is_told_to_go_on(site: Site, service: Running) -> None:
    body = site.reports(1)
    head = _head(site, f"content-length: {len(body)}", "expect: 100-continue")
    with socket.create_connection(("127.0.0.1", service.port), 20) as connection:
        connection.sendall(head.replace(b"HTTP/1.1", b"HTTP/1.0"))
        time.sleep(0.2)
        connection.sendall(body)
        assert read_all(connection).startswith(b"HTTP/1.1 201")


def test_what_is_known_has_no_length(site: Site, service: Running) -> None:
    path = f"/v1/plans/{site.plan.id}"
    reply = service.ask("GET", path, headers={"if-none-match": f'"{site.plan.id}"'})
    assert (reply.status, reply.content) == (304, b"")
    assert "content-length" not in {name.lower() for name in reply.headers}


def test_a_burst_of_connections_below_the_limit_is_answered(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    request = f"GET /v1/plans/{site.plan.id} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with collecting(site) as service:
        os.kill(service.process.pid, signal.SIGSTOP)
        held = [socket.socket() for _ in range(500)]
        for one in held:
            one.setblocking(False)  # noqa: FBT003 - the name of the method says it
            one.connect_ex(("127.0.0.1", service.port))
        os.kill(service.process.pid, signal.SIGCONT)
        for one in held:
            one.settimeout(20)
            one.sendall(request.encode())
        assert {one.recv(12) for one in held} == {b"HTTP/1.1 200"}
        for one in held:
            one.close()


def test_who_asks_and_goes_away_leaves_nothing(tmp_path: Path) -> None:
    """While the state is held, each answer takes seconds, and what was asked stays until then."""
    site = make_site(tmp_path)
    state = site.folder / "hop1" / "data" / "state.sqlite"
    State.open(state).close()
    head = f"GET /v1/plans/{site.plan.id}/key-lists HTTP/1.1\r\nhost: x\r\n"
    request = f"{head}content-length: 60000\r\n\r\n".encode() + bytes(60_000)
    with collecting(site) as service, closing(sqlite3.connect(state)) as owner:
        owner.execute("BEGIN EXCLUSIVE")
        before = service.memory()
        for _ in range(1500):
            with socket.create_connection(("127.0.0.1", service.port), 20) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.sendall(request)
                time.sleep(0.0005)
        assert service.memory() - before < 48 << 20, "ninety megabytes were sent"
        path = f"/v1/plans/{site.plan.id}/key-lists"
        start = time.monotonic()
        assert service.ask("GET", path).status == 503
        assert time.monotonic() - start < 8
        assert service.post(site.path(), site.reports(1)) == 201
        owner.rollback()


def test_a_head_is_answered_without_a_body(site: Site, service: Running) -> None:
    path = f"/v1/plans/{site.plan.id}"
    whole = service.ask("GET", path)
    found = service.raw(f"HEAD {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    assert found.endswith(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % len(whole.content) in found
    # A whole address means the same as its path, and what follows a question mark nothing.
    for other in (f"http://somewhere{path}", f"{path}?x=1"):
        found = service.raw(f"GET {other} HTTP/1.0\r\n\r\n".encode())
        assert found.endswith(whole.content)
    assert _reply(service.raw(b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n"))[0] in (400, 404)


LONG_ANSWERS = """
from chaffinch.services.connections import Limits
from chaffinch.services.server import Listener, run

from chaffinch.services.http import Response

async def answer(request):
    return Response(200, bytes(16 << 20))

limits = Limits(patience_seconds=0.7, idle_seconds=30.0, connections=4)
run([Listener(answer)], limits=limits, announce=lambda found: print(*found, flush=True))
"""


def test_who_reads_no_answer_is_hung_up_on() -> None:
    """Otherwise as many as there are places for keep all others out, for ever."""
    process = Forked(LONG_ANSWERS)
    port = int(process.stdout.readline().rpartition(":")[2])

    def sockets() -> int:
        files = Path(f"/proc/{process.pid}/fd").iterdir()
        return sum(
            str(file.readlink()).startswith("socket:") for file in files if file.is_symlink()
        )

    before = sockets()
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    try:
        waited(lambda: sockets() >= before + len(held), seconds=15)
        for one in held:
            one.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        waited(lambda: sockets() < before + len(held) - 2, seconds=15)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
    finally:
        process.kill()
        process.communicate()
        for one in held:
            one.close()


@pytest.mark.parametrize("ends", [b"", b"connection: close\r\n"])
def test_who_reads_a_long_answer_slowly_gets_all_of_it(ends: bytes) -> None:
    """However long it takes: what the system holds moves in steps, which must not be too long."""
    slow = LONG_ANSWERS.replace("16 << 20", "3 << 20").replace(
        "0.7, idle_seconds=30.0", "1.5, idle_seconds=1.5"
    )
    process = Forked(slow)
    port = int(process.stdout.readline().rpartition(":")[2])
    try:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            connection.connect(("127.0.0.1", port))
            connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n" + ends + b"\r\n")
            found = 0
            while found <= 3 << 20 and (block := connection.recv(1 << 15)):
                found += len(block)
                time.sleep(len(block) / (400 << 10))
        assert found > 3 << 20
    finally:
        process.kill()
        process.communicate()


def test_lines_behind_a_body_are_bounded(site: Site, service: Running) -> None:
    """They look like a head, and come when the head is long complete."""
    body = site.reports(1)
    start = _head(site, "transfer-encoding: chunked") + b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    before = service.memory()
    for line in (b"x" * 8 + b": " + b"y" * 6000 + b"\r\n", b"z" * 6000):
        with socket.create_connection(("127.0.0.1", service.port), 20) as connection:
            connection.sendall(start)
            with suppress(OSError):  # it hangs up in the middle
                connection.sendall(b"x: " if line.startswith(b"z") else b"")
                for _ in range(5000):
                    connection.sendall(line)
                pytest.fail("thirty megabytes were taken")
    assert service.memory() - before < 16 << 20


@pytest.mark.parametrize("kept_back", [1, 9])
def test_a_body_that_stands_still_is_cut_however_much_has_come(
    site: Site, service: Running, kept_back: int
) -> None:
    """Otherwise a few that are nearly complete hold all the room for bodies, for a minute."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(_head(site, f"content-length: {3 << 20}") + bytes((3 << 20) - kept_back))
        for _ in range(kept_back - 1):  # A byte now and then is next to nothing.
            time.sleep(0.5)
            with suppress(OSError):
                connection.sendall(b"\0")
        assert _reply(read_all(connection)) == (408, "slowBody")
    assert time.monotonic() - start < 10  # by its length it would have 48 seconds


def test_too_many_connections_are_told_so(site: Site, service: Running) -> None:
    held = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(12)]
    waited(lambda: service.ask("GET", f"/v1/plans/{site.plan.id}").status == 503)
    reply = service.ask("GET", f"/v1/plans/{site.plan.id}")
    assert (reply.status, problem_word(reply.content)) == (503, "overloaded")
    assert reply.headers["retry-after"] == "5"
    for one in held:
        one.close()
    waited(lambda: service.ask("GET", f"/v1/plans/{site.plan.id}").status == 200)
