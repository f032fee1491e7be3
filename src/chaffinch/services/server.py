"""The server: sockets, limits for whoever talks to them, and a stop that loses nothing.

uvicorn with uvloop and httptools. What uvicorn does not limit is limited here: how long the
head of a request is, how long a head and a body may take, how long a connection may say
nothing. One look a second at all connections does that, and costs no request anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from chaffinch import checks
from chaffinch.errors import InvalidFile, InvalidInput, MissingExtra
from chaffinch.services.http import Application, refusal, refuse_all
from chaffinch.storage.faults import storage_fault
from chaffinch.wire.problems import Kind, Problem

try:
    import uvicorn
    import uvloop
    from uvicorn.protocols.http.httptools_impl import (
        STATUS_LINE,
        HttpToolsProtocol,
        RequestResponseCycle,
    )
except ImportError:
    raise MissingExtra("services", "services") from None

_MOST_PIECES, _SMALLEST_PIECE = 1024, 256
"""Beyond so many pieces, those of a body must have so many bytes on average."""
_BACKLOG = 256
"""Connections that the system accepts at once, before anybody has looked at them."""
_OWN_FILES = 128
"""Files, pipes and sockets of a service itself."""
_UNCOUNTED = 64_000
"""Files for connections that are not known here before they have agreed on TLS."""
_MOST_WAITING = 8
"""Requests of one connection that may wait for the answer to the one before."""
_MOST_DROPPED = 8 << 20
"""A body that is refused is read to its end, so that its sender sees that, or to here."""

_NOT_BOUND = {
    errno.EADDRINUSE: "another process listens there, which may be this service itself: stop it, "
    "or name another port in the settings",
    errno.EADDRNOTAVAIL: "name an address of this machine in the settings, such as 127.0.0.1",
    errno.EACCES: "name a port of 1024 or more in the settings, or give the service the right",
}
"""What helps if an address cannot be listened on."""


@dataclass(frozen=True)
class Limits:
    """What one sender may use."""

    head_bytes: int = 8 << 10
    connections: int = 512
    patience_seconds: float = 10.0
    """How long a head may take, and a body."""
    slowest_rate: int = 64 << 10
    """A long body has a second more for so many bytes that have come."""
    idle_seconds: float = 30.0
    stop_seconds: float = 10.0
    """How long requests are waited for that are under way when the service is to stop."""


_USUAL_LIMITS = Limits()


@dataclass(frozen=True)
class Listener:
    """Where an application listens; port 0 is any free one."""

    application: Application
    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    """A certificate chain in PEM: then it speaks TLS."""
    private_key: Path | None = None

    def __post_init__(self) -> None:
        # The system would take the port of the lower 16 bits.
        checks.whole("port to listen on", self.port, most=65535)


def run(
    listeners: Sequence[Listener],
    *,
    limits: Limits = _USUAL_LIMITS,
    background: Sequence[AbstractAsyncContextManager[object]] = (),
    announce: Callable[[list[str]], object] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT; what was begun before is answered.

    ``background`` is entered before the first request and left after the last one.
    ``announce`` is told the addresses, in the order of the listeners.
    """
    speaks_tls = any(listener.certificate for listener in listeners)
    limits = _affordable(limits, len(listeners), speaks_tls=speaks_tls)
    servers = [_Server(_settings(listener, limits)) for listener in listeners]
    with ExitStack() as held:
        sockets = [held.enter_context(_bind(listener)) for listener in listeners]
        with asyncio.Runner(loop_factory=lambda: _Loop(limits)) as runner:
            pairs = list(zip(listeners, sockets, strict=True))
            addresses = [_address(listener, bound) for listener, bound in pairs]
            runner.run(_serve(servers, sockets, background, lambda: announce(addresses)))


def _affordable(limits: Limits, listeners: int, *, speaks_tls: bool) -> Limits:
    """Return limits under which strangers cannot use up the files that this process may open.

    Otherwise whoever holds enough connections keeps the service from its own disk, which ends it.
    As many files are allowed as are wanted, up to the system's hard limit; then connections are
    fewer.
    """
    own = _OWN_FILES + listeners * _BACKLOG
    # So many are refused with an answer, and so many more before they are closed unheard. Those who
    # begin with TLS and do not go on are counted by nobody, until their time is over.
    wanted = own + 2 * listeners * limits.connections + (_UNCOUNTED if speaks_tls else 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        most = max(1, (soft - own) // (2 * listeners))
        return replace(limits, connections=min(limits.connections, most))
    return limits


async def _serve(
    servers: Sequence[uvicorn.Server],
    sockets: Sequence[socket.socket],
    background: Sequence[AbstractAsyncContextManager[object]],
    started: Callable[[], object],
) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, servers)
    async with AsyncExitStack() as stack:
        for one in background:
            await stack.enter_async_context(one)
        started()
        pairs = zip(servers, sockets, strict=True)
        await asyncio.gather(*(server.serve([bound]) for server, bound in pairs))


def _stop(servers: Sequence[uvicorn.Server]) -> None:
    for server in servers:
        server.should_exit = True


def _bind(listener: Listener) -> socket.socket:
    """Return a socket that listens."""
    address = f"{listener.host}:{listener.port}"
    try:
        found = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(place)
            bound.listen(_BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        rule, got = "free, and one of this machine", error.strerror or "none"
        hint = _NOT_BOUND.get(error.errno or 0, "")
        raise InvalidInput("address to listen on", rule, f"{address}: {got}", hint=hint) from None
    return bound


def _address(listener: Listener, bound: socket.socket) -> str:
    scheme = "https" if listener.certificate else "http"
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"


def _settings(listener: Listener, limits: Limits) -> _Settings:
    if listener.certificate:
        _check_certificate(listener.certificate, listener.private_key)
    settings = _Settings(
        listener.application,
        http=_Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        backlog=_BACKLOG,
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=3600,  # an idle connection is closed by the look a second
        timeout_graceful_shutdown=int(limits.stop_seconds),
        ssl_certfile=listener.certificate,
        ssl_keyfile=listener.private_key,
    )
    settings.limits = limits
    return settings


def _check_certificate(certificate: Path, private_key: Path | None) -> None:
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            certificate, private_key, password=lambda: b""
        )
    except ssl.SSLError:
        rule = "one in PEM with the private key that belongs to it, which has no password"
        raise InvalidFile("certificate", rule, ["another"]) from None
    except OSError as error:
        raise storage_fault(certificate.name, error, verb="read") from None


class _Loop(uvloop.Loop):
    """A loop that gives nobody more time to agree on TLS than for the head of a request."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._patience_seconds = limits.patience_seconds

    async def create_server(self, *given: Any, **more: Any) -> Any:
        if more.get("ssl") is not None:
            more["ssl_handshake_timeout"] = self._patience_seconds
        return await super().create_server(*given, **more)


class _Settings(uvicorn.Config):
    """The settings of uvicorn, and our limits."""

    limits = _USUAL_LIMITS


class _Server(uvicorn.Server):
    """A server that leaves signals to ``run``, and looks at its connections once a second."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                assert isinstance(connection, _Connection)  # noqa: S101 - for the type checker
                connection.look(now)
        return await super().on_tick(counter)


class _Phase(Enum):
    """How far a request has come."""

    IDLE = "nothing of it is there"
    HEAD = "its head is not complete"
    BODY = "its body is not complete"
    ANSWER = "it is complete, and not answered"


class _Connection(HttpToolsProtocol):
    """A connection whose sender has limits."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.client = None  # Nobody asks who it is, so nobody can tell it by mistake.
        assert isinstance(self.config, _Settings)  # noqa: S101 - for the type checker
        self._limits = self.config.limits
        self._refused = False
        self._requests = self._taken = self._left = 0
        self._unread: float | None = None
        """Since when nobody reads what is answered: so much is left of it."""
        self._enter(_Phase.IDLE)
        if len(self.connections) > 2 * self._limits.connections:
            transport.abort()

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self._looked = self.loop.time()
        self._bytes = self._pieces = self._around = self._counted = 0
        self._credit = self._limits.patience_seconds

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._requests += 1
        self._enter(_Phase.HEAD)

    def data_received(self, data: bytes) -> None:
        request, taken = self._requests, self._taken
        super().data_received(data)
        if self._phase is _Phase.HEAD:
            self._bytes += len(data)
            if self._bytes > self._limits.head_bytes:
                self._refuse(Kind.LONG_HEAD)
        elif self._phase is _Phase.BODY and request == self._requests:
            # What stands between the chunks of a body, and lines behind it that look like a head.
            self._around += len(data) - (self._taken - taken)
            if self._around > self._limits.head_bytes + self._bytes:
                self._refuse(Kind.LONG_HEAD)

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        if len(self.pipeline) >= _MOST_WAITING:
            self._refuse(Kind.OVERLOADED)
            return
        length = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self._enter(_Phase.BODY)
        if length > self._limits.head_bytes:
            self._refuse(Kind.LONG_HEAD)
            return
        busy = len(self.connections) > self._limits.connections
        self.app = refuse_all if busy else self.config.loaded_app
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes += len(body)
        self._taken += len(body)
        self._pieces += 1
        if self._pieces > _MOST_PIECES and self._pieces * _SMALLEST_PIECE > self._bytes:
            self._refuse(Kind.SLOW_BODY)
        if self._bytes > _MOST_DROPPED and self.cycle.response_complete:
            self.transport.close()
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()
            self._enter(_Phase.IDLE if self.cycle.response_complete else _Phase.ANSWER)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._refused or self.pipeline:
            # uvicorn reads on now, and every answer would let in thousands of requests more.
            self.flow.pause_reading()
        if self._phase is _Phase.ANSWER:
            self._enter(_Phase.IDLE)

    def look(self, now: float) -> None:
        """Refuse a request that takes too long; close a connection that says or reads nothing."""
        waited, limits = now - self._since, self._limits
        if self._is_unread(now):
            self.transport.abort()  # To close it waits until all is read.
        elif self._phase is _Phase.IDLE and waited > limits.idle_seconds:
            self.transport.close()
        elif self._phase is _Phase.HEAD and waited > limits.patience_seconds:
            self._refuse(Kind.SLOW_BODY)
        elif self._phase is _Phase.BODY:
            self._spend(now)
            if self._credit < 0:
                self._refuse(Kind.SLOW_BODY)

    def _spend(self, now: float) -> None:
        """Take the time since the last look from what a body has, and add what has come of it.

        It never has more than ``patience_seconds``: what came in one burst would be held for a
        minute. While nothing is read here, no time passes; what comes behind a refusal earns none.
        """
        earned = 0 if self.cycle.response_complete else self._bytes - self._counted
        if not self.flow.read_paused:
            most = self._limits.patience_seconds
            self._credit = min(most, self._credit + earned / self._limits.slowest_rate)
            self._credit -= now - self._looked
        self._counted, self._looked = self._bytes, now

    def _is_unread(self, now: float) -> bool:
        """Return whether next to nothing of an answer was read in ``patience_seconds``."""
        left = self.transport.get_write_buffer_size()
        if not left:
            self._unread = None
        elif self._unread is None or left <= self._left - self._limits.slowest_rate:
            self._unread, self._left = now, left
        self._left = max(self._left, left)
        return self._unread is not None and now - self._unread > self._limits.patience_seconds

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - what is wrong with the HTTP
        self._refuse(Kind.INVALID_MESSAGE)

    def _refuse(self, kind: Kind) -> None:
        """Answer, unless another answer is under way, and hang up."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        cycle: RequestResponseCycle | None = self.cycle
        pending = cycle is not None and not cycle.response_complete
        if cycle is not None and pending and not cycle.more_body:
            # The request before is complete: it is answered first, and that is the last answer.
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if cycle is None or not pending or not (cycle.response_started or self.pipeline):
            response = refusal(Problem(kind))
            parts = [STATUS_LINE[response.status]]
            for name, value in (*response.headers, _length(response.body), _CLOSE):
                parts += [name, b": ", value, b"\r\n"]
            self.transport.write(b"".join([*parts, b"\r\n", response.body]))
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()


_CLOSE = (b"connection", b"close")


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(body)
