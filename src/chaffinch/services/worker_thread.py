"""The worker thread behind a listener, and how a process ends after a fatal fault."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

from chaffinch.errors import ChaffinchError
from chaffinch.services.logs import Log

_FAILED = 5
"""The exit code of a process whose disk has failed."""


def end_process(what: str, fault: BaseException) -> NoReturn:
    """End the process at once: what is not acknowledged by now never is.

    Of a fault that is none of ours only the kind is told: its words may hold what was sent.
    """
    said = str(fault) if isinstance(fault, ChaffinchError) else type(fault).__name__
    sys.stderr.write(f"{what} has failed, and this process ends. {said}\n")
    sys.stderr.flush()
    os._exit(_FAILED)


@asynccontextmanager
async def worker_thread(
    job: Callable[[threading.Event, Callable[[], None]], None], log: Log
) -> AsyncIterator[None]:
    """Run a job in a thread of its own until it is told to stop.

    It gets what tells it to, and what it calls when it has all that it needs: nobody is told before
    that a service has started.

    A job that ends by a fault ends the process at once: what it has not done is done again by
    the next one, and nobody is told that all is well meanwhile.
    """
    stop, ready = threading.Event(), threading.Event()

    def work() -> None:
        try:
            job(stop, ready.set)
        except BaseException as fault:  # noqa: BLE001 - a service that does nothing must not look alive
            # The words of an unforeseen error may hold anything.
            known = isinstance(fault, ChaffinchError)
            log("failed", kind=type(fault).__name__, said=str(fault) if known else "")
            sys.stderr.flush()
            # Not ``sys.exit``: that would end this thread alone, and the listener would go on to
            # acknowledge what nobody works on.
            os._exit(_FAILED)

    thread = threading.Thread(target=work, name="work", daemon=True)
    thread.start()
    try:
        await asyncio.to_thread(ready.wait)
        yield
    finally:
        # Joined in another thread: the event loop goes on answering meanwhile.
        stop.set()
        await asyncio.to_thread(thread.join)
