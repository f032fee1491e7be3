"""What a web page of any origin may ask of a first hop: its plan, its key lists, to take reports.

A browser shows a page no answer of another origin, and sends it nothing but forms, unless that
allows it. Who asks is told nothing here that others are not told, and is known by no cookie: so
every origin may ask, and none with credentials. Whatever else a party answers is closed to pages.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaffinch.services.front import Front
from chaffinch.services.http import Handler, Request, Response, refusal
from chaffinch.wire.problems import Kind, Problem

_ANYBODY = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"retry-after"),
)
_A_DAY = (b"access-control-max-age", b"86400")
"""For which a browser need not ask again whether it may."""


def open_to_pages(front: Front, handlers: Mapping[str, Handler]) -> Mapping[str, Handler]:
    """Return what an address takes, open to pages where this party is the first hop of the plan."""
    methods = ", ".join(handlers).encode()
    allowed = (b"access-control-allow-methods", methods)
    with_type = (b"access-control-allow-headers", b"content-type")

    async def preflight(request: Request) -> Response:
        """Answer what a browser asks before it sends what is no form."""
        if front.find(request).place != 1:
            raise Problem(Kind.UNKNOWN_METHOD, "It takes " + ", ".join(handlers) + ".")
        return Response(204, b"", (*_ANYBODY, allowed, with_type, _A_DAY))

    def opened(handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            """Answer so that a page can read it, also that it is refused, and why."""
            is_open = front.find(request).place == 1
            try:
                found = await handler(request)
            except Problem as problem:
                found = refusal(problem)
            return found._replace(headers=(*found.headers, *_ANYBODY)) if is_open else found

        return answer

    return {**{name: opened(one) for name, one in handlers.items()}, "OPTIONS": preflight}
