"""One request and its reply: what a stranger may answer, and what a request tells of its sender."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from chaffinch.wire.exchange import Exchange, NoReply, Pauses, Reply
from tests.cases import each_case

Answer = Callable[[socket.socket], None]


@contextmanager
def answering(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of somebody who reads a request and answers as a test wants."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        asked.append(connection.recv(1 << 16))
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x", asked
        server.shutdown(socket.SHUT_RDWR)


def saying(*blocks: bytes, pause: float = 0.0) -> Answer:
    def answer(connection: socket.socket) -> None:
        for block in blocks:
            connection.sendall(block)
            time.sleep(pause)

    return answer


def ask(answer: Answer, *, seconds: float = 5.0, most: int = 1000) -> Reply:
    with answering(answer) as (address, _):
        return Exchange(reply_seconds=seconds).ask("GET", address, most=most)


CHUNKED = b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n"


def head(length: int, *more: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 x", *more, b"content-length: %d" % length, b"", b""])


def test_a_reply_is_read_to_its_end() -> None:
    assert ask(saying(head(4), b"ab", b"cd")) == Reply(200, b"abcd")
    assert ask(saying(head(1000), bytes(1000))).body == bytes(1000)


@each_case(
    ("answer", "why"),
    [
        (saying(head(1001), bytes(1001)), "too long"),
        (saying(b"HTTP/1.1 200 x\r\n\r\n", *[bytes(100)] * 50), "too long"),
        (saying(head(100), *[b"a"] * 100, pause=0.1), "in time"),
        (saying(CHUNKED, *[b"0"] * 100, pause=0.1), "in time"),
        (saying(CHUNKED, b"1\r\na\r\n0\r\n", *[b"a"] * 100, pause=0.1), "in time"),
        (saying(b"HTTP/1.1 200 x\r\na: ", *[b"a"] * 100, pause=0.1), "in time"),
        (saying(*[b"H"] * 100, pause=0.1), "in time"),
        (saying(head(100, b"connection: close"), *[b"a"] * 100, pause=0.1), "in time"),
        (saying(b"HTTP/1.0 200 x\r\n\r\n", *[b"a"] * 100, pause=0.1), "in time"),
        (saying(b"", pause=1), "no reply in time"),
        (saying(b""), "broke"),
        (saying(head(10), b"abc"), "broke"),
        (saying(CHUNKED, b"-%d\r\na" % 10**20), "broke"),
        (saying(CHUNKED, b"-5\r\na"), "broke"),
        (saying(b"nothing of HTTP\r\n\r\n"), "broke"),
        (saying(b"HTTP/1.1 200 x\r\n" + b"a: b\r\n" * 1000), "broke"),
    ],
)
def test_what_is_no_reply_may_have_arrived(answer: Answer, why: str) -> None:
    start = time.monotonic()
    with pytest.raises(NoReply, match=why) as fault:
        ask(answer, seconds=0.3 if "in time" in why else 5.0)
    assert fault.value.arrived
    assert time.monotonic() - start < 6


def test_what_comes_in_time_is_not_cut_off_later() -> None:
    """The last moment of a reply is none of the next one on the same connection."""

    def answer(connection: socket.socket) -> None:
        for _ in range(3):
            connection.sendall(head(2) + b"ok")
            time.sleep(0.6)
            connection.recv(1 << 16)

    with answering(answer) as (address, asked):
        exchange = Exchange(reply_seconds=1.0)
        for _ in range(3):
            assert exchange.ask("GET", address, most=10).body == b"ok"
            time.sleep(0.3)
        assert len(asked) == 1, "one connection"


def test_where_nobody_listens_nothing_has_arrived() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    for bad in (address, "http://name.invalid", "http://[::1"):
        with pytest.raises(NoReply) as fault:
            Exchange().ask("GET", bad, most=10)
        assert not fault.value.arrived


def test_nobody_is_sent_elsewhere() -> None:
    with answering(saying(head(0))) as (other, asked):
        moved = b"HTTP/1.1 307 x\r\nlocation: " + other.encode() + b"\r\ncontent-length: 0\r\n\r\n"
        assert ask(saying(moved)).status == 307
        assert asked == []


@each_case(
    ("said", "seconds"),
    [
        (b"7", 7.0),
        (b"999999", 3600.0),
        (b"-1", None),
        (b"9" * 50, None),
        (b"Wed, 21 Oct 2015 07:28:00 GMT", None),
        (b"1.5", None),
        (b"\xb2", None),
    ],
)
def test_only_seconds_are_waited_for(said: bytes, seconds: float | None) -> None:
    assert ask(saying(head(0, b"retry-after: " + said))).retry_after == seconds


def test_a_request_tells_nothing_of_its_sender() -> None:
    with answering(saying(head(0))) as (address, asked):
        Exchange().ask("POST", address, b"body", headers={"content-type": "a/b"}, most=10)
    names = {line.split(b":")[0].lower() for line in asked[0].split(b"\r\n\r\n")[0].split(b"\r\n")}
    assert names == {b"post /x http/1.1", b"host", b"content-type", b"content-length"}


def test_patience_lasts_to_its_end_whatever_the_next_pause_would_be() -> None:
    start = time.monotonic()
    pauses = Pauses(0.3, first=60.0, longest=60.0)
    tries = 0
    while pauses.wait(None):
        tries += 1
    assert tries >= 1
    assert 0.3 <= time.monotonic() - start < 5


def test_nobody_is_asked_before_it_has_said_so() -> None:
    start = time.monotonic()
    assert not Pauses(0.3, first=0.01, longest=0.01).wait(5.0)
    assert time.monotonic() - start < 0.3
