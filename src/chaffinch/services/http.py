"""What all services share of HTTP: routes, bodies within limits, and one form of refusal.

Raw ASGI without a framework. Nothing here keeps, logs or repeats who asks: no address, no
header, no time. ``X-Forwarded-For`` and its like are not read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from chaffinch.wire.problems import TYPE, Kind, Problem

_Scope = dict[str, Any]
_Receive = Callable[[], Awaitable[dict[str, Any]]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]
_Headers = tuple[tuple[bytes, bytes], ...]

_PARAMETERS = {
    "plan": "[0-9a-f]{64}",
    "batch": "[0-9a-f]{64}",
    "publisher": "[0-9a-f]{64}",
    "round": "[1-9][0-9]{0,6}",
}
"""What may stand at a place of an address; anything else is an address that is not there."""
_MOST_REMEMBERED = 1024


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
    """What is asked; its body can be read once."""

    __slots__ = ("_receive", "_scope", "parameters")

    def __init__(self, scope: _Scope, receive: _Receive, parameters: Mapping[str, str]) -> None:
        self._scope = scope
        self._receive = receive
        self.parameters = parameters
        """What stands at the places of the address that a route names."""

    def header(self, name: bytes) -> bytes:
        """Return the value of a header; empty if there is none."""
        for key, value in self._scope["headers"]:
            if key == name:
                return bytes(value)
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
        parts: list[bytes] = []
        length = 0
        try:
            async for block in self.blocks(most=most):
                room.take(len(block))
                length += len(block)
                parts.append(block)
        except BaseException:
            room.give(length)
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def blocks(self, *, most: int) -> AsyncIterator[bytes]:
        """Yield the body as it comes; refuse a longer one as soon as that is known."""
        self._refuse_long(most)
        length, more = 0, True
        while more:
            message = await self._next()
            more = message["more_body"]
            length += len(message["body"])
            if length > most:
                raise Problem(Kind.TOO_LARGE)
            yield message["body"]

    def _refuse_long(self, most: int) -> None:
        said = self.header(b"content-length")
        # The server has refused what is no number, and reads no more than was said.
        if said and int(said) > most:
            raise Problem(Kind.TOO_LARGE)

    async def _next(self) -> dict[str, Any]:
        message = await self._receive()
        if message["type"] != "http.request":
            raise SenderGone
        return message


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


async def refuse_all(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer that there are too many connections."""
    await _answer(refusal(Problem(Kind.OVERLOADED, retry_after=5)), send)


class Application:
    """Answers what is asked by a table of routes: address → method → handler.

    An address has places in braces, as in ``/v1/plans/{plan}/keys``.
    """

    def __init__(self, routes: Mapping[str, Mapping[str, Handler]]) -> None:
        self.routes = {path: tuple(handlers) for path, handlers in routes.items()}
        """The methods that each address takes."""
        self._routes = [(_pattern(path), handlers) for path, handlers in routes.items()]
        self._known: dict[bytes, _Found] = {}

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        try:
            handler, parameters = self._find(scope)
            response = await handler(Request(scope, receive, parameters))
        except Problem as problem:
            response = refusal(problem)
        except SenderGone:
            return
        except Exception as fault:  # noqa: BLE001 - whatever it is, the next request is answered
            # Nothing but the kind of the fault: its words may hold what was sent.
            sys.stderr.write(f"A request failed: {type(fault).__name__}.\n")
            response = refusal(Problem(Kind.FAILED))
        await _answer(response, send)

    def _find(self, scope: _Scope) -> tuple[Handler, Mapping[str, str]]:
        path = scope["raw_path"]
        found = self._known.get(path)
        if found is None:
            found = self._match(path)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[path] = found
        method = scope["method"]
        handler = found.handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            raise Problem(Kind.UNKNOWN_METHOD, "It takes " + ", ".join(found.handlers) + ".")
        return handler, found.parameters

    def _match(self, path: bytes) -> _Found:
        text = path.decode("latin-1")
        for pattern, handlers in self._routes:
            if match := pattern.fullmatch(text):
                return _Found(handlers, match.groupdict())
        raise Problem(Kind.UNKNOWN_PATH)


async def _answer(response: Response, send: _Send) -> None:
    headers = ((b"content-length", b"%d" % len(response.body)), *response.headers)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def _pattern(path: str) -> re.Pattern[str]:
    """Return what matches an address with its places in braces."""
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
