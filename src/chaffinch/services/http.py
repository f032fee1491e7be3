"""What all services share of HTTP: routes, bodies within limits, and one form of refusal.

A request has an address, headers and a body, and gets one answer; what a connection is, only
``connections`` knows. Nothing here keeps, logs or repeats who asks: no address, no header, no time.
``X-Forwarded-For`` and its like are not read.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from chaffinch.wire.problems import TYPE, Kind, Problem

_Headers = Sequence[tuple[bytes, bytes]]

_PARAMETERS = {
    "plan": "[0-9a-f]{64}",
    "batch": "[0-9a-f]{64}",
    "publisher": "[0-9a-f]{64}",
    "round": "[1-9][0-9]{0,6}",
    # Of the page of this machine.
    "task": "[a-z]{1,20}",
    "job": "[0-9a-f]{16}",
    "release": "[0-9a-f]{16}",
    "known": "[0-9]{1,9}",
    "file": r"[a-z][a-z.-]{0,40}",
}
"""What may stand at a place of an address; anything else is an address that is not there."""
_MOST_REMEMBERED = 1024
_MOST_DIGITS = 18
_QUIET = 1.0
"""Seconds between two lines about requests that failed: strangers must not fill a log."""


class Response(NamedTuple):
    """What is answered."""

    status: int
    body: bytes = b""
    headers: _Headers = ()

    @classmethod
    def of(cls, status: int, body: bytes, media_type: str, *headers: tuple[str, str]) -> Response:
        """Return an answer with a body of a type."""
        given = (("content-type", media_type), *headers)
        return cls(status, body, tuple((key.encode(), value.encode()) for key, value in given))


Handler = Callable[["Request"], Awaitable[Response]]


class Request:
    """What is asked; its body can be read once.

    ``path`` is the address without what follows a question mark; names of headers are in lower
    case. ``body`` yields what comes, and raises ``SenderGone`` where the rest never will.
    """

    __slots__ = ("_body", "_headers", "method", "parameters", "path")

    def __init__(
        self, method: str, path: bytes, headers: _Headers, body: AsyncIterator[bytes]
    ) -> None:
        self.method, self.path = method, path
        self._headers, self._body = headers, body
        self.parameters: Mapping[str, str] = {}
        """What stands at the places of the address that a route names."""

    def header(self, name: bytes) -> bytes:
        """Return the value of a header; empty if there is none."""
        for key, value in self._headers:
            if key == name:
                return value
        return b""

    def require_type(self, media_type: bytes) -> None:
        """Refuse a body of another type."""
        found = self.header(b"content-type")
        if found != media_type and found.partition(b";")[0].strip().lower() != media_type:
            raise Problem(Kind.WRONG_TYPE, f"It must be {media_type.decode()}.")

    async def body(self, room: Room, *, most: int) -> bytes:
        """Return the whole body; refuse a longer one as soon as that is known.

        It has its bytes in the room as they come. Whoever gets the body gives them back.
        """
        found = bytearray()
        first = b""
        try:
            async for block in self.blocks(most=most):
                room.take(len(block))
                # Most bodies come at once, and are not copied.
                if not first:
                    first = block
                else:
                    found += block
        except BaseException:
            room.give(len(first) + len(found))
            raise
        return first + found if found else first

    async def blocks(self, *, most: int) -> AsyncIterator[bytes]:
        """Yield the body as it comes; refuse a longer one as soon as that is known."""
        said = self.header(b"content-length").lstrip(b"0")
        # The parser has refused what is no number, and takes no more than was said. Python makes no
        # number of thousands of digits.
        if len(said) > _MOST_DIGITS or int(said or b"0") > most:
            raise Problem(Kind.TOO_LARGE)
        length = 0
        async for block in self._body:
            length += len(block)
            if length > most:
                raise Problem(Kind.TOO_LARGE)
            yield block


class Room:
    """How many bytes of bodies may be in memory at once, whoever sends them."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, size: int) -> None:
        """Take some of it; Problem if so much is not left."""
        if size > self._left:
            raise Problem(Kind.OVERLOADED, retry_after=1)
        self._left -= size

    def give(self, size: int) -> None:
        """Give it back."""
        self._left += size


class SenderGone(Exception):
    """Whoever asked has gone before the body was complete: there is nobody to answer."""


class _Found(NamedTuple):
    handlers: Mapping[str, Handler]
    parameters: Mapping[str, str]


async def refuse_all(_request: Request) -> Response:
    """Answer that there are too many connections."""
    return refusal(Problem(Kind.OVERLOADED, retry_after=5))


class Application:
    """Answers what is asked by a table of routes: address → method → handler.

    An address has places in braces, as in ``/v1/plans/{plan}/keys``.
    """

    def __init__(self, routes: Mapping[str, Mapping[str, Handler]]) -> None:
        self.routes = {path: tuple(handlers) for path, handlers in routes.items()}
        """The methods that each address takes."""
        self._routes = [(_path_pattern(path), handlers) for path, handlers in routes.items()]
        self._known: dict[bytes, _Found] = {}
        self._quiet_until = 0.0

    async def __call__(self, request: Request) -> Response:
        """Return the answer to a request; SenderGone if there is nobody to answer."""
        try:
            handler = self._handler_for(request)
            return await handler(request)
        except Problem as problem:
            return refusal(problem)
        except SenderGone:
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, the next request is answered
            # Nothing but the kind of the fault: its words may hold what was sent.
            if time.monotonic() >= self._quiet_until:
                self._quiet_until = time.monotonic() + _QUIET
                sys.stderr.write(f"A request failed: {type(fault).__name__}.\n")
            return refusal(Problem(Kind.FAILED))

    def _handler_for(self, request: Request) -> Handler:
        """Return who answers a request, which gets the parameters of its address."""
        path = request.path
        found = self._known.get(path)
        if found is None:
            found = self._match(path)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[path] = found
        handler = found.handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            raise Problem(Kind.UNKNOWN_METHOD, "It takes " + ", ".join(found.handlers) + ".")
        request.parameters = found.parameters
        return handler

    def _match(self, path: bytes) -> _Found:
        text = path.decode("latin-1")
        for pattern, handlers in self._routes:
            if match := pattern.fullmatch(text):
                return _Found(handlers, match.groupdict())
        raise Problem(Kind.UNKNOWN_PATH)


def _path_pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{([a-z]+)\}", path)
    text = [
        f"(?P<{part}>{_PARAMETERS[part]})" if place % 2 else re.escape(part)
        for place, part in enumerate(parts)
    ]
    return re.compile("".join(text))


def refusal(problem: Problem) -> Response:
    """Return the answer to a request that is refused."""
    headers = []
    if problem.retry_after is not None:
        headers.append(("retry-after", str(problem.retry_after)))
    if problem.kind is Kind.UNKNOWN_METHOD:
        headers.append(("allow", problem.detail.removeprefix("It takes ").removesuffix(".")))
    return Response.of(problem.kind.status, problem.body(), TYPE, *headers)
