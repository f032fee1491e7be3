"""One connection under anything that its two ends can do, on a clock and a transport of a test.

Whatever happens, in whatever order: a request gets one answer, and its own; what a handler takes
for a whole body is one; little is held in memory; and when its sender does nothing more, the
connection ends in the time that its limits add up to.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from chaffinch.services import connections
from chaffinch.services.connections import Connection, Limits, OpenWork
from chaffinch.services.http import Request, Response, SenderGone

LIMITS = Limits(head_bytes=500, connections=4, patience_seconds=10.0, idle_seconds=30.0)
MOST = 256 << 10
"""Bytes that the system hands over at a time."""


class Clock:
    """The loop that runs the test, with a time that passes when it is told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self.now = loop, 1000.0
        self._due: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        self._due.append((self.now + seconds, function))

    def pass_to(self, now: float) -> None:
        self.now = now
        due = [function for moment, function in self._due if moment <= now]
        self._due = [one for one in self._due if one[0] > now]
        for function in due:
            function()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class Line:
    """A transport; its other end reads when it is told to."""

    def __init__(self, connection: Connection, *, half_closes: bool) -> None:
        self._connection, self._half_closes = connection, half_closes
        self.is_read = True
        self.is_lost = self.is_closed = self._paused = False
        self.held = bytearray()
        self.seen = bytearray()
        self._high = 64 << 10

    def set_write_buffer_limits(self, *, high: int) -> None:
        self._high = high

    def write(self, data: bytes | memoryview) -> None:
        assert not self.is_closed, "nothing is written to what is closed"
        self.held += data
        if len(self.held) > self._high and not self._paused:
            self._paused = True
            self._connection.pause_writing()

    def take(self, count: int) -> None:
        """Let the other end read some of it."""
        self.seen += self.held[:count]
        del self.held[:count]
        if len(self.held) <= self._high // 4 and self._paused and not self.is_lost:
            self._paused = False
            self._connection.resume_writing()
        self._end()

    def pause_reading(self) -> None:
        assert self.is_read, "twice"
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read, "twice"
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return self._half_closes

    def write_eof(self) -> None:
        assert self._half_closes

    def close(self) -> None:
        self.is_closed = True
        self._end()

    def abort(self) -> None:
        self.is_closed = True
        self.held.clear()
        self._end()

    def _end(self) -> None:
        if self.is_closed and not self.held and not self.is_lost:
            self.is_lost = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class Scene:
    """A connection, and a draw of what happens to it."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.bodies: list[bytes] = []
        """Of whole requests, in the order in which they were sent."""
        self.waiting: list[asyncio.Future[None]] = []
        self.pending = b""

    async def play(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock, self.open_work = Clock(loop), OpenWork()
        connection = Connection(self.answer, LIMITS, self.open_work)  # type: ignore[arg-type]
        connection._loop = self.clock  # type: ignore[assignment] # noqa: SLF001
        connection._enter_phase(connections._Phase.IDLE, LIMITS.idle_seconds)  # noqa: SLF001
        self.connection = connection
        self.line = Line(connection, half_closes=self.draw.random() < 0.7)
        connection.connection_made(self.line)  # type: ignore[arg-type]
        steps = [self.send, self.send, self.send, self.read, self.read, self.pause, self.let_go]
        steps += [self.half_close, self.hang_up, self.stop] if self.draw.random() < 0.5 else []
        for _ in range(self.draw.randrange(5, 60)):
            if self.line.is_lost:
                break
            self.draw.choice(steps)()
            await self.settle()
        await self.leave_alone()
        self.check()

    async def answer(self, request: Request) -> Response:
        """Answer with the digest of a body, early or late, long or short."""
        kind = request.path[1:2]
        if kind == b"l":  # late
            await self.something()
        if kind == b"e":  # early: it looks at no body
            return Response(413, b"early")
        found = b"".join([block async for block in request.blocks(most=1 << 30)])
        if kind == b"w":  # works on what it has
            await self.something()
        answer = hashlib.sha256(found).hexdigest().encode()
        return Response(200, answer + bytes(400_000 if kind == b"b" else 0))  # big

    async def something(self) -> None:
        """Wait for something else than the sender."""
        done = asyncio.get_running_loop().create_future()
        self.waiting.append(done)
        await done

    async def settle(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)
        assert len(self.line.held) <= 3 * (64 << 10), "an answer waits for its reader elsewhere"
        body = self.connection._body  # noqa: SLF001
        assert body.waiting <= connections._MOST_WAITING + MOST  # noqa: SLF001
        assert len(self.connection._headers) <= 101  # noqa: SLF001

    # What happens.

    def request(self) -> bytes:
        body = self.draw.randbytes(self.draw.choice([0, 10, 3000, 300_000]))
        path = self.draw.choice(["/late", "/early", "/work", "/big", "/plain"])
        lines = [f"POST {path} HTTP/1.1", "host: x"]
        if self.draw.random() < 0.2:
            lines.append("expect: 100-continue")
        if self.draw.random() < 0.4:
            lines.append("transfer-encoding: chunked")
            cut = self.draw.randrange(len(body) + 1)
            chunks = [part for part in (body[:cut], body[cut:]) if part]
            content = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in chunks) + b"0\r\n\r\n"
        else:
            lines.append(f"content-length: {len(body)}")
            content = body
        self.bodies.append(body)
        return "\r\n".join([*lines, "", ""]).encode() + content

    def send(self) -> None:
        if not self.pending or self.draw.random() < 0.1:
            junk = self.draw.choice([b"\0\1\2", b"GET\r\n\r\n", b"x" * 2000, b"\r\n" * 50])
            self.pending += self.request() if self.draw.random() < 0.9 else junk
        if not self.line.is_read:
            return
        count = self.draw.choice([1, 40, 500, 70_000, MOST])
        part, self.pending = self.pending[:count], self.pending[count:]
        self.connection.data_received(part)

    def read(self) -> None:
        self.line.take(self.draw.choice([1, 1000, 100_000, 10**9]))

    def pause(self) -> None:
        self.clock.pass_to(self.clock.now + self.draw.choice([0.01, 1.0, 9.0, 12.0]))
        if not self.line.is_lost:
            self.connection.enforce_deadlines(self.clock.now)

    def let_go(self) -> None:
        while self.waiting:
            done = self.waiting.pop()
            if not done.done():
                done.set_result(None)

    def half_close(self) -> None:
        if self.line.is_read and not self.connection.eof_received():
            self.line.close()

    def hang_up(self) -> None:
        self.line.abort()

    def stop(self) -> None:
        self.connection.stop()

    async def leave_alone(self) -> None:
        """Let only time pass; all that the handlers wait for comes."""
        end = self.clock.now + 2 * (LIMITS.idle_seconds + 4 * LIMITS.patience_seconds)
        while not self.line.is_lost:
            assert self.clock.now < end, f"it never ends: {self.connection._phase}"  # noqa: SLF001
            self.let_go()
            await self.settle()
            self.pause()
        await self.settle()
        self.let_go()
        await self.settle()
        assert not self.open_work.connections
        assert not self.open_work.answers

    def check(self) -> None:
        """Look at all that was answered, as far as it was read."""
        digests = [hashlib.sha256(body).hexdigest().encode() for body in self.bodies]
        rest, place = bytes(self.line.seen), 0
        while rest:
            head, found, rest = rest.partition(b"\r\n\r\n")
            if not found:
                break
            status = int(head[9:12])
            if status == 100:
                continue
            lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            length = int(lines[b"content-length"])
            body, rest = rest[:length], rest[length:]
            if status == 200 and len(body) >= 64:
                assert body[:64] == digests[place], "the answer of another request"
            place += 1
            if b"connection" in lines:
                assert not rest, "an answer behind the last one"


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_whatever_its_ends_do_a_connection_keeps_to_its_rules(first: int) -> None:
    for seed in range(first, first + 50):
        asyncio.run(Scene(seed).play())


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 40_000, 3_000))
def test_a_connection_keeps_to_its_rules_in_many_scenes(first: int) -> None:
    for seed in range(first, first + 3_000):
        asyncio.run(Scene(seed).play())


def test_nothing_stands_between_the_pieces_of_a_refusal() -> None:
    """Its reader is slow, and the handler asks for a body that was refused."""

    async def play() -> None:
        async def answer(request: Request) -> Response:
            if request.path == b"/long":
                return Response(200, bytes(65_400))
            return Response(200, b"".join([one async for one in request.blocks(most=1 << 20)]))

        connection = Connection(answer, LIMITS, OpenWork())  # type: ignore[arg-type]
        line = Line(connection, half_closes=True)
        connection.connection_made(line)  # type: ignore[arg-type]
        connection.data_received(b"GET /long HTTP/1.1\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0)
        lines = b"expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
        connection.data_received(b"POST / HTTP/1.1\r\n" + lines)
        for _ in range(8):
            await asyncio.sleep(0)
        assert len(line.held) > 1 << 16, "the refusal is not all on its way"
        for _ in range(9):
            line.take(20_000)
            await asyncio.sleep(0)
        assert line.seen.count(b"HTTP/1.1") == 2
        assert b"100 Continue" not in line.seen
        assert line.seen.endswith(b"}")

    asyncio.run(play())


def test_a_sender_who_has_gone_is_told_to_whoever_waits_for_its_body() -> None:
    async def play() -> None:
        scene = Scene(0)
        told: list[type[BaseException]] = []

        async def answer(request: Request) -> Response:
            try:
                return Response(200, b"".join([one async for one in request.blocks(most=99)]))
            except SenderGone as gone:
                told.append(type(gone))
                raise

        connection = Connection(answer, LIMITS, OpenWork())  # type: ignore[arg-type]
        line = Line(connection, half_closes=True)
        scene.connection, scene.line = connection, line
        connection.connection_made(line)  # type: ignore[arg-type]
        connection.data_received(b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\n1234")
        await asyncio.sleep(0)
        line.abort()
        await scene.settle()
        assert told == [SenderGone]
        assert not line.seen

    asyncio.run(play())
