"""An HTTP request to a service and its reply, within limits: any bytes may come back.

Certificates are verified, nothing is redirected, compressed or tried again, and a reply has a
largest length and a last moment. A request says nothing about whoever sends it.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationValueError, SSLError
from urllib3.exceptions import TimeoutError as NotInTime
from urllib3.util import SKIP_HEADER

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile
from chaffinch.wire.problems import Kind, problem_parties, problem_word

_CONNECT_SECONDS = 10.0
_REPLY_SECONDS = 60.0
_LONGEST_WAIT = 3600.0
_SILENT_SECONDS = 2.0
"""After which somebody who waits is told what for."""
_WORDS = {kind.word for kind in Kind}
_SILENT = {"user-agent": SKIP_HEADER, "accept-encoding": SKIP_HEADER}


class NoReply(Exception):
    """A service that gave no reply; the text says why, in words that can be shown."""

    def __init__(self, why: str, *, arrived: bool) -> None:
        super().__init__(why)
        self.arrived = arrived
        """Whether the request may have arrived all the same."""


@dataclass(frozen=True)
class Reply:
    """What a service said; with status 0 it said nothing, and the body is why."""

    status: int
    body: bytes
    retry_after: float | None = None
    """Seconds after which it wants to be asked again, if it said so."""

    @cached_property
    def problem(self) -> str | None:
        """Return the word of the problem that a service of ours has; None for anything else."""
        return problem_word(self.body) if self.status >= 400 else None

    @property
    def got(self) -> str:
        """Return what there was instead of what was asked for, in words that can be shown."""
        said = f"the status {self.status}" if self.status else self.body.decode()
        return f"{said} ({self.problem})" if self.problem in _WORDS else said

    @property
    def parties(self) -> frozenset[str]:
        """Return the parties that are missing, as the service says; they may be anything."""
        return problem_parties(self.body) if self.problem else frozenset()

    @property
    def passes(self) -> bool:
        """Return whether to try again: nobody answered (status 0), not now, or for other keys."""
        if self.problem is None:
            return self.status in {0, 429} or self.status >= 500
        return self.problem in {"overloaded", "slowBody", "outdatedKeys", "unseenKeys"}


class Pauses:
    """Longer and longer pauses, each of random length, until patience ends. All in seconds.

    ``tell`` is told what is waited for, each thing once, when it takes more than a moment.
    """

    def __init__(
        self,
        patience: float,
        first: float,
        longest: float,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        self._start = time.monotonic()
        self._last = self._start + patience
        self._pause, self._longest = first, longest
        self._tell, self._told = tell, set[str]()

    def wait(self, least: float | None, what: str = "") -> bool:
        """Wait before the next try; return False if there is to be none."""
        # Anything up to the whole pause: devices that failed together do not come back together.
        share = secrets.randbelow(1 << 32) / (1 << 32)
        left = self._last - time.monotonic()
        if left <= (least or 0.0):
            return False
        # The last try is when patience ends, and not a pause before.
        seconds = min((least or 0.0) + self._pause * share, left)
        self._pause = min(2 * self._pause, self._longest)
        if time.monotonic() + seconds > self._start + _SILENT_SECONDS:
            self._say(what)
        time.sleep(seconds)
        return True

    def _say(self, what: str) -> None:
        if self._tell is not None and what not in self._told:
            self._told.add(what)
            self._tell(f"waiting for {what}; it is asked again")


def _check_roots(trusted: Path) -> None:
    # With a file that has no roots every connection would fail, and blame the other side.
    try:
        ssl.create_default_context(cafile=str(trusted))
    except ssl.SSLError:
        rule = "a file of certificates in PEM, such as the one of the next party"
        raise InvalidFile(f"TLS roots {trusted.name}", rule, ["another file"]) from None
    except OSError as error:
        raise storage_fault(trusted.name, error, verb="read") from None


class Exchange:
    """Connections to services, kept open between requests."""

    def __init__(
        self,
        *,
        connect_seconds: float = _CONNECT_SECONDS,
        reply_seconds: float = _REPLY_SECONDS,
        trusted: Path | None = None,
    ) -> None:
        """``trusted`` is a file of TLS roots; those of the system where there is none."""
        if trusted is not None:
            _check_roots(trusted)
        self._seconds = reply_seconds
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=connect_seconds, read=reply_seconds),
            retries=False,
            cert_reqs="CERT_REQUIRED",
            ca_certs=None if trusted is None else str(trusted),
        )
        self._pool.pool_classes_by_scheme = {"http": _Connections, "https": _SealedConnections}

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def ask(
        self,
        method: str,
        url: str,
        body: bytes | IO[bytes] | Iterable[bytes] | None = None,
        *,
        headers: dict[str, str] | None = None,
        most: int,
    ) -> Reply:
        """Send a request; return the reply, of at most ``most`` bytes, or raise NoReply."""
        try:
            response: Any = self._pool.request(
                method,
                url,
                body=body,
                headers=_SILENT | (headers or {}),
                preload_content=False,
                # Unpacked, a short reply could fill the memory.
                decode_content=False,
                # Elsewhere is an address that no plan names.
                redirect=False,
            )
            try:
                content = _read(response, most)
            except BaseException:
                response.close()  # What is left of this reply is not the start of the next one.
                raise
            finally:
                # Before the connection goes back to the pool: it would cut the next request.
                response.last_moment.cancel()
            response.release_conn()
        except LocationValueError:
            raise NoReply("an address that leads nowhere", arrived=False) from None
        except (HTTPError, OSError) as error:
            raise _no_reply(error) from None
        wait = response.headers.get("retry-after", "")
        return Reply(response.status, content, _seconds(wait))


class _LastMoment:
    """Hangs up if a reply is not whole in time.

    The limits of a socket are for each byte alone. Whoever sends one of them a minute, in a head
    or between two chunks, would keep a thread for ever, and with a few of them everybody else from
    being asked.
    """

    def __init__(self, connection: HTTPConnection) -> None:
        self.has_passed = False
        # A connection lets go of its socket where a reply is the last one on it.
        given = [connection.sock]
        self._timer = threading.Timer(connection.timeout or 0.0, self._hang_up, given)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()

    def _hang_up(self, line: socket.socket) -> None:
        self.has_passed = True
        with suppress(OSError):
            # Not the way of a TLS socket, which takes the keys from whoever reads at that moment.
            socket.socket.shutdown(line, socket.SHUT_RDWR)


class _Timed(HTTPConnection):
    """A connection on which a whole reply comes in time; the reply has its last moment with it."""

    def getresponse(self) -> Any:
        moment = _LastMoment(self)
        try:
            response: Any = super().getresponse()
        except BaseException:
            moment.cancel()
            if moment.has_passed:
                raise TimeoutError from None
            raise
        response.last_moment = moment
        return response


class _TimedSealed(_Timed, HTTPSConnection):
    """The same with TLS."""


class _Connections(urllib3.HTTPConnectionPool):
    ConnectionCls = _Timed


class _SealedConnections(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TimedSealed


def _read(response: Any, most: int) -> bytes:
    content = bytearray()
    try:
        while block := response.read1(most + 1):
            content += block
            if len(content) > most:
                raise NoReply("a reply that is too long", arrived=True)
    except (HTTPError, OSError, ArithmeticError) as error:  # The last: of a chunk of -10^20 bytes.
        if not response.last_moment.has_passed:
            raise _no_reply(error) from None
    # One that was cut off may pass for a whole one.
    if response.last_moment.has_passed:
        raise NoReply("no whole reply in time", arrived=True)
    return bytes(content)


def _no_reply(error: Exception) -> NoReply:
    if isinstance(error, ConnectTimeoutError):  # Also the one of a connection that is refused.
        return NoReply("no connection", arrived=False)
    if isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError):
        return NoReply("a certificate that is not trusted", arrived=False)
    if isinstance(error, NotInTime):
        return NoReply("no reply in time", arrived=True)
    return NoReply("a connection that broke", arrived=True)


def _seconds(text: str) -> float | None:
    """Return the seconds that a header names; dates, and what is no number, are not followed."""
    known = text.isascii() and text.isdigit() and len(text) < 10
    return min(float(text), _LONGEST_WAIT) if known else None
