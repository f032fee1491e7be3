"""One connection: a request is read, answered, and only then the next one; all within limits.

httptools finds the requests among the bytes. Whatever is under way has a moment by which it must
be over. One look a second at all connections cuts what is late, and costs no request anything.

Requests are not answered ahead of their turn: what a sender puts behind a request before it has
the answer is dropped, and the answer says that the connection ends with it. Any sender of HTTP/1.1
must be ready for that and ask again; those who do not send ahead never notice.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Self, cast

from chaffinch.errors import MissingExtra
from chaffinch.services.http import Application, Request, Response, SenderGone, refusal, refuse_all
from chaffinch.wire.problems import Kind, Problem

try:
    import httptools
except ImportError:
    raise MissingExtra("services", "services") from None

_MOST_LINES = 100
"""Lines of a head: each takes more memory than it has bytes."""
_MOST_WAITING, _MOST_PARTS = 64 << 10, 256
"""Bytes of a body that wait for whoever takes them, with more of which no more is read; and parts
that they are in."""
_SLICE = 64 << 10
"""Bytes of an answer that are written at a time: so much is held of it for a slow reader, beside
what the system holds."""
_MOST_DROPPED = 8 << 20
"""What comes after the last answer is read to its end, so that its sender sees that, or to here."""
MOST = 2
"""For each connection that is served there may be another one, which is refused with an answer."""
_LAST_WORD = 1.0
"""Seconds for an idle connection to end when the service does."""
_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True)
class Limits:
    """What one sender may use."""

    head_bytes: Annotated[int, "of the head of a request"] = 8 << 10
    connections: Annotated[int, "at the same time"] = 512
    patience_seconds: Annotated[float, "that a head may take, and a body"] = 10.0
    """Also a piece of an answer, until it is read."""
    slowest_rate: Annotated[int, "a long body has a second more for so many bytes"] = 64 << 10
    idle_seconds: Annotated[float, "that a connection may say nothing"] = 30.0
    stop_seconds: Annotated[float, "that requests under way have when the service stops"] = 10.0


@dataclass(frozen=True)
class OpenWork:
    """All that is under way at one listener."""

    connections: set[Connection] = field(default_factory=set)
    answers: set[asyncio.Task[None]] = field(default_factory=set)
    """Requests whose answers are being made; their senders may have gone."""


class _Phase(Enum):
    IDLE = "nothing of it is there"
    HEAD = "its head is not complete"
    BODY = "its body is not complete"
    ANSWER = "it is complete, and not answered"
    SENDING = "its answer is made, and not all of it is on its way"
    LEAVING = "the last answer is given"


class Connection(asyncio.Protocol):
    """A connection whose sender has limits."""

    def __init__(self, application: Application, limits: Limits, open_work: OpenWork) -> None:
        self._application, self._limits, self._open_work = application, limits, open_work
        self._loop = asyncio.get_running_loop()
        self.ended = self._loop.create_future()
        """Done when there is no connection any more."""
        self._parser = httptools.HttpRequestParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = _Body(self)
        self._is_last = self._is_ahead = self._is_over = self._expects = False
        self._reading = self._writing = True
        self._rest = memoryview(b"")
        """What is left of an answer."""
        self._dropped = self._taken = self._around = 0
        """Bytes behind the last answer; and of a request those of its body, and all others: its
        head, what stands between the chunks of a body, and lines behind it that look like one."""
        self._enter_phase(_Phase.IDLE, limits.idle_seconds)

    def _enter_phase(self, phase: _Phase, seconds: float) -> None:
        self._since = self._loop.time()
        self._phase, self._late = phase, self._since + seconds

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_SLICE)
        self._open_work.connections.add(self)
        if len(self._open_work.connections) > MOST * self._limits.connections:
            self._transport.abort()  # Many may have agreed on TLS at the same time.

    def connection_lost(self, _error: Exception | None) -> None:
        """End; whoever waits for more of a body is told, and nothing of it is kept."""
        self._open_work.connections.discard(self)
        self.ended.set_result(None)
        self._phase = _Phase.LEAVING
        self._body.end(gone=True)
        del self._parser  # It has a reference to this.

    def data_received(self, data: bytes) -> None:
        """Take what has come, as far as it is wanted."""
        if self._phase is _Phase.LEAVING:
            self._dropped += len(data)
            if self._dropped > _MOST_DROPPED:
                self._transport.abort()
            return
        if self._phase in (_Phase.ANSWER, _Phase.SENDING):
            self._note_pipelined()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as fault:
            if not isinstance(fault.__context__, Problem):
                raise
            self._refuse(fault.__context__.kind)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            # No HTTP, or a request whose sender goes on in a protocol that is not spoken here.
            self._refuse(Kind.INVALID_MESSAGE)
        self._around += len(data)
        longest = self._limits.head_bytes + self._taken
        if self._phase in (_Phase.HEAD, _Phase.BODY) and self._around > longest:
            self._refuse(Kind.LONG_HEAD)

    def eof_received(self) -> bool:
        """Note that nothing more comes; return whether the connection stays for an answer.

        With TLS it cannot: who ends its side gets no answer.
        """
        self._is_last = self._is_over = True
        answers = self._phase in (_Phase.ANSWER, _Phase.SENDING)
        stays = answers and self._transport.can_write_eof()
        if not stays:  # It is closed now, as soon as what was written is read.
            self._enter_phase(_Phase.LEAVING, self._limits.patience_seconds)
        return stays

    def pause_writing(self) -> None:
        """Note that what is written is not read just now."""
        self._writing = False

    def resume_writing(self) -> None:
        """Note that it is read: there is as much time again for what is left."""
        self._writing = True
        if self._phase is _Phase.SENDING:
            self._enter_phase(_Phase.SENDING, self._limits.patience_seconds)
            self._send()

    # What the parser finds.

    def on_message_begin(self) -> None:
        """Begin with a request."""
        if self._phase is not _Phase.IDLE:
            raise Problem(Kind.INVALID_MESSAGE)  # The one before is not answered.
        self._url = b""
        self._headers, self._expects = [], False
        self._taken = self._around = 0
        self._enter_phase(_Phase.HEAD, self._limits.patience_seconds)

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head; what stands behind a body is nothing that anybody asks for."""
        if self._phase is _Phase.HEAD:
            self._headers.append((name.lower(), value))
            if len(self._headers) > _MOST_LINES:
                raise Problem(Kind.LONG_HEAD)

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        length = len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)
        if length > self._limits.head_bytes:
            raise Problem(Kind.LONG_HEAD)
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise Problem(Kind.INVALID_MESSAGE)
        try:
            path = httptools.parse_url(self._url).path or b""
        except httptools.HttpParserInvalidURLError:
            raise Problem(Kind.INVALID_MESSAGE) from None
        method = self._parser.get_method().decode("ascii")
        self._body = _Body(self)
        request = Request(method, path, self._headers, self._body)
        # The parser undoes chunks and nothing else.
        if request.header(b"transfer-encoding").lower() not in (b"", b"chunked"):
            raise Problem(Kind.INVALID_MESSAGE)
        expected = request.header(b"expect").lower()
        self._expects = version == "1.1" and expected == b"100-continue"
        self._enter_phase(_Phase.BODY, self._limits.patience_seconds)
        task = self._loop.create_task(self._answer(request))
        self._open_work.answers.add(task)
        task.add_done_callback(self._open_work.answers.discard)

    def on_body(self, part: bytes) -> None:
        """Take a part of the body.

        The time that it has never grows beyond ``patience_seconds`` from now: what came in one
        burst would be held for a minute.
        """
        limits, self._expects = self._limits, False
        self._taken += len(part)
        self._around -= len(part)
        earned = self._late + len(part) / limits.slowest_rate
        self._late = min(earned, self._loop.time() + limits.patience_seconds)
        self._body.add(part)
        if self._body.waiting > _MOST_WAITING:
            self._pause_reading()

    def on_message_complete(self) -> None:
        """Note that all of a request is there."""
        self._is_last |= not self._parser.should_keep_alive()
        self._is_last |= self._parser.get_http_version() != "1.1"
        self._enter_phase(_Phase.ANSWER, math.inf)
        self._body.end()

    # What is answered.

    async def _answer(self, request: Request) -> None:
        busy = len(self._open_work.connections) > self._limits.connections
        self._is_last |= busy
        try:
            response = await (refuse_all if busy else self._application)(request)
        except SenderGone:
            return
        self._respond(response, with_body=request.method != "HEAD")

    def _respond(self, response: Response, *, with_body: bool = True) -> None:
        if self._phase in (_Phase.SENDING, _Phase.LEAVING) or self._transport.is_closing():
            return
        self._is_last |= self._phase is not _Phase.ANSWER
        # Who still sends would not see the answer if nobody took what it sends.
        self._is_ahead |= self._phase is not _Phase.ANSWER
        head = [_STATUS_LINES[response.status]]
        for name, value in response.headers:
            head += [name, b": ", value, b"\r\n"]
        if response.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            head.append(b"content-length: %d\r\n" % len(response.body))
        head.append(b"connection: close\r\n\r\n" if self._is_last else b"\r\n")
        self._transport.write(b"".join(head))
        self._rest = memoryview(response.body if with_body else b"")
        self._enter_phase(_Phase.SENDING, self._limits.patience_seconds)
        self._send()

    def _send(self) -> None:
        """Write what is left of an answer, as far as it is read; then it is over."""
        while self._writing and not self._transport.is_closing():
            if not self._rest:
                self._finish()
                return
            self._transport.write(self._rest[:_SLICE])
            self._rest = self._rest[_SLICE:]

    def _finish(self) -> None:
        """Wait for the next request; or hang up, and keep nothing of what still comes."""
        if not self._is_last:
            self._enter_phase(_Phase.IDLE, self._limits.idle_seconds)
            self._resume_reading()
            return
        self._enter_phase(_Phase.LEAVING, self._limits.patience_seconds)
        self._parser, self._headers = httptools.HttpRequestParser(self), []
        self._body.end(gone=True)
        if self._is_over or not self._is_ahead:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._resume_reading()

    def _refuse(self, kind: Kind) -> None:
        """Answer, unless a request before is not answered, and hang up."""
        if self._phase in (_Phase.ANSWER, _Phase.SENDING):
            self._note_pipelined()
        else:
            self._respond(refusal(Problem(kind)))

    def _note_pipelined(self) -> None:
        # The sender did not wait for its answer. What it sent ahead is dropped, so this answer must
        # be the last one: the sender learns from "connection: close" that it has to ask again.
        self._is_last = self._is_ahead = True
        self._pause_reading()

    # What is read, and when that ends.

    def ask_for_more(self) -> None:
        """Get more of a body, for whoever waits for it."""
        if self._phase is not _Phase.BODY or self._transport.is_closing():
            return  # It is refused, and nothing may stand between the pieces of that answer.
        if self._expects:
            self._expects = False
            self._transport.write(_CONTINUE)
            self._enter_phase(_Phase.BODY, self._limits.patience_seconds)
        self._resume_reading()

    def _pause_reading(self) -> None:
        # The deadline of a body stands still while nothing of it is read: it is this service that
        # is slow then. ``_resume_reading`` adds the time in between.
        if self._reading and not self._transport.is_closing():
            self._reading, self._since = False, self._loop.time()
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._late += self._loop.time() - self._since
            self._transport.resume_reading()

    def enforce_deadlines(self, now: float) -> None:
        """Cut what takes too long; close a connection that says or reads nothing."""
        if now <= self._late:
            return
        if self._phase is _Phase.IDLE:
            self._enter_phase(_Phase.LEAVING, self._limits.patience_seconds)
            self._transport.close()
        elif self._phase in (_Phase.SENDING, _Phase.LEAVING):
            self._transport.abort()  # To close it waits until all is read.
        elif self._reading and not self._expects:  # Nobody has asked for it yet.
            self._refuse(Kind.SLOW_BODY)

    def stop(self) -> None:
        """Begin nothing more; what is under way is answered."""
        self._is_last = True
        if self._phase in (_Phase.IDLE, _Phase.HEAD):
            self._transport.close()
            # With TLS it waits for the other side, which may not look before its next request.
            self._loop.call_later(_LAST_WORD, self._transport.abort)

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()


class _Body:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._parts: list[bytes] = []
        self._is_over = self._is_gone = False
        self._news: asyncio.Future[None] | None = None
        self.waiting = 0
        """Bytes of it."""

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self.waiting += len(part)
        if len(self._parts) > _MOST_PARTS:
            self._parts = [b"".join(self._parts)]
        self._tell()

    def end(self, *, gone: bool = False) -> None:
        """Note that nothing more comes, because that was all or because its sender has gone.

        What nobody has taken by then is not kept: there is nobody to answer.
        """
        self._is_over = True
        if gone:
            self._is_gone, self._parts = True, []
        self._tell()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._parts and not self._is_over:
            self._connection.ask_for_more()
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        if self._is_gone:
            raise SenderGone
        if not self._parts:
            raise StopAsyncIteration
        found = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self.waiting = [], 0
        return found
