"""The server: sockets that listen, who is let in, and a stop that loses nothing.

What one connection is, and what its sender may use, is in ``connections``. Here is how many there
may be: strangers must not use up the files that a process may open, agreed on TLS or not.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile, InvalidInput, MissingExtra, Unquoted, checks
from chaffinch.services.connections import MOST, Connection, Limits, OpenWork
from chaffinch.services.http import Application

try:
    import uvloop
except ImportError:
    raise MissingExtra("services", "services") from None

_BACKLOG = 256
"""Connections that the system accepts at once, before anybody has looked at them."""
_OWN_FILES = 128
"""Files, pipes and sockets of a service itself."""
_AGREEING = 2
"""So many may agree on TLS for each connection that is served: who does not go on with it takes the
place of somebody who would."""
_SEND_BYTES = 128 << 10
"""What the system holds of answers: it says that some of them were read when a third was, and a
slow reader of megabytes would seem to stand still."""
_CHECK_SECONDS = 1.0
"""Seconds between two checks of all deadlines; and before connections are accepted again when the
process has no file left."""
_NOT_BOUND = {
    errno.EADDRINUSE: "another process listens there, which may be this service itself: stop it, "
    "or name another port in the settings",
    errno.EADDRNOTAVAIL: "name an address of this machine in the settings, such as 127.0.0.1",
    errno.EACCES: "name a port of 1024 or more in the settings, or give the service the right",
}
"""What helps if an address cannot be listened on."""
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

    @property
    def places(self) -> int:
        """Return how many connections may be open for each that is served."""
        return MOST + (_AGREEING if self.certificate else 0)


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
    limits = _affordable(limits, listeners)
    contexts = [_tls_context(listener) for listener in listeners]
    with ExitStack() as held:
        sockets = [held.enter_context(_listening_socket(listener)) for listener in listeners]
        pairs = list(zip(listeners, sockets, strict=True))
        addresses = [_address(listener, bound) for listener, bound in pairs]
        acceptors = [
            _Acceptor(bound, listener, context, limits)
            for (listener, bound), context in zip(pairs, contexts, strict=True)
        ]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(acceptors, background, lambda: announce(addresses)))


def _affordable(limits: Limits, listeners: Sequence[Listener]) -> Limits:
    """Return limits under which strangers cannot use up the files that this process may open.

    Otherwise whoever holds enough connections keeps the service from its own disk, which ends it.
    As many files are allowed as are wanted, up to the system's hard limit; then connections are
    fewer.
    """
    own = _OWN_FILES + len(listeners) * _BACKLOG
    places = sum(listener.places for listener in listeners)
    wanted = own + places * limits.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        most = max(1, (soft - own) // places)
        return replace(limits, connections=min(limits.connections, most))
    return limits


async def _serve(
    acceptors: Sequence[_Acceptor],
    background: Sequence[AbstractAsyncContextManager[object]],
    started: Callable[[], object],
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(_report_fault)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        # Before the first connection: what answers requests needs what runs beside it. They are
        # left after the last answer, in the opposite order.
        for one in background:
            await stack.enter_async_context(one)
        for acceptor in acceptors:
            acceptor.open()
        started()
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _CHECK_SECONDS)
            for acceptor in acceptors:
                acceptor.enforce_deadlines()
        await asyncio.gather(*(acceptor.close() for acceptor in acceptors))


def _report_fault(_loop: object, context: dict[str, Any]) -> None:
    # Its kind alone: the words of an unforeseen error may hold what was sent.
    fault = context.get("exception")
    kind = "unknown" if fault is None else type(fault).__name__
    sys.stderr.write(f"A connection failed: {kind}.\n")


class _Acceptor:
    def __init__(
        self,
        bound: socket.socket,
        listener: Listener,
        context: ssl.SSLContext | None,
        limits: Limits,
    ) -> None:
        self._socket, self._application, self._tls_context = bound, listener.application, context
        self._limits, self._most = limits, listener.places * limits.connections
        self._open_work, self._inside = OpenWork(), 0
        self._entering: set[asyncio.Task[None]] = set()
        """Those who are not let in yet: they have to agree on TLS, if nothing else."""

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._socket.fileno() >= 0:  # Nobody has closed it meanwhile.
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        try:
            for _ in range(_BACKLOG):
                self._let_in(self._socket.accept()[0])
        except (BlockingIOError, ConnectionError):
            pass  # Nobody else is there, or somebody who has gone again.
        except OSError:
            # There is no file left. They wait until there is one, and this does not spin.
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_CHECK_SECONDS, self.open)

    def _let_in(self, found: socket.socket) -> None:
        if self._inside >= self._most:
            found.close()
            return
        self._inside += 1
        task = self._loop.create_task(self._enter(found))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    async def _enter(self, found: socket.socket) -> None:
        # TLS may take as long as the head of a request.
        patience = None if self._tls_context is None else self._limits.patience_seconds
        made = Connection(self._application, self._limits, self._open_work)
        try:
            found.setblocking(False)  # noqa: FBT003 - the name of the method says it
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            await self._loop.connect_accepted_socket(
                lambda: made,
                found,
                ssl=self._tls_context,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience,
            )
        except (OSError, asyncio.CancelledError):
            # They speak no TLS, are too slow, or have gone; or this service ends.
            found.close()
            self._leave()
        else:
            made.ended.add_done_callback(self._leave)

    def _leave(self, *_: object) -> None:
        self._inside -= 1

    def enforce_deadlines(self) -> None:
        now = self._loop.time()
        for connection in self._open_work.connections:
            # Each by itself: a fault of one is told, and the others are looked at.
            self._loop.call_soon(connection.enforce_deadlines, now)

    async def close(self) -> None:
        """Let in nobody any more, and wait for what is under way; not for long."""
        # The order matters: first nobody new comes in, then idle connections end and busy ones are
        # told that this answer is the last, then answers have their time, then the rest is cut.
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._entering:
            task.cancel()
        for connection in list(self._open_work.connections):
            connection.stop()
        ends = [*self._open_work.answers, *(one.ended for one in self._open_work.connections)]
        if ends:
            await asyncio.wait(ends, timeout=self._limits.stop_seconds)
        for connection in list(self._open_work.connections):
            connection.abort()


def _listening_socket(listener: Listener) -> socket.socket:
    address = f"{listener.host}:{listener.port}"
    try:
        found = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setblocking(False)  # noqa: FBT003 - the name of the method says it
            bound.bind(place)
            bound.listen(_BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        rule, got = "free, and one of this machine", error.strerror or "none"
        hint = _NOT_BOUND.get(error.errno or 0, "")
        raise InvalidInput(
            "address to listen on", rule, Unquoted(f"{address}: {got}"), hint=hint
        ) from None
    return bound


def _address(listener: Listener, bound: socket.socket) -> str:
    scheme = "https" if listener.certificate else "http"
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"


def _tls_context(listener: Listener) -> ssl.SSLContext | None:
    if listener.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(listener.certificate, listener.private_key, password=lambda: b"")
    except ssl.SSLError:
        rule = "one in PEM with the private key that belongs to it, which has no password"
        raise InvalidFile("certificate", rule, ["another"]) from None
    except OSError as error:
        raise storage_fault(listener.certificate.name, error, verb="read") from None
    return context
