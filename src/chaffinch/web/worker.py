"""A process that plans and draws, so that the server answers meanwhile.

It does one thing at a time. Whoever asks anew makes it stop what it was doing for them, and what
followed from that; others wait for their turn. What it finds is told piece by piece.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import secrets
import signal
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from chaffinch.errors import ChaffinchError
from chaffinch.privacy.progress import show_progress
from chaffinch.web.site import fault_document

News = dict[str, Any]
Tell = Callable[[News], None]
Task = Callable[..., None]
"""Told how to tell, and what was asked."""

_PAUSE = 0.05
"""Seconds between two looks whether somebody wants something else."""
_WAIT = 20.0
"""Seconds that an answer waits for news: less than connections may say nothing."""
_MOST_JOBS = 64
"""So many are remembered, and may wait."""


class Job:
    """What was asked once, and what came of it so far."""

    def __init__(self, tab: str, name: str, given: Mapping[str, Any]) -> None:
        self.id = secrets.token_hex(8)
        self.tab, self.name, self.given = tab, name, given
        self.news: list[News] = []
        self.files: dict[str, bytes] = {}
        """What can be taken home, by name."""
        self.is_over = False
        self._changed = asyncio.Event()

    @property
    def key(self) -> tuple[str, str]:
        """Return what another wish takes the place of."""
        return self.tab, self.name

    def add(self, news: News | None) -> None:
        """Take a piece of news; None is the end."""
        if news is None:
            self.is_over = True
        elif "keep" in news:
            self.files.update({name: text.encode() for name, text in news["keep"].items()})
        else:
            self.news.append(news)
        self._changed.set()
        self._changed = asyncio.Event()

    async def since(self, known: int) -> News:
        """Return what is new for whoever knows so many pieces, as soon as there is something."""
        if len(self.news) <= known and not self.is_over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _WAIT)
        return {"news": self.news[known:], "over": self.is_over}


class Worker:
    """A process of its own, and those who wait for it."""

    def __init__(self, tasks: str, *, at_once: bool = True, first: str = "") -> None:
        """``tasks`` is the module whose ``TASKS`` the process does.

        It is started ``at_once``, or when somebody asks for the first of them. Of those who wait,
        whoever asks for ``first`` has the next turn: what others ask for follows from it.
        """
        self._tasks, self._at_once, self._first = tasks, at_once, first
        self._process: BaseProcess | None = None
        self._is_lost = True
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], Job] = OrderedDict()
        self._current: Job | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the process while this lasts."""
        self._loop = asyncio.get_running_loop()
        if self._at_once:
            self._start()
        try:
            yield
        finally:
            self._waiting.clear()
            if self._process is not None:
                self._process.kill()
                self._process.join()

    def _start(self) -> None:
        # A fresh interpreter: a fork would have the sockets of the server.
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._tasks), daemon=True)
        self._process.start()
        self._is_lost = False
        theirs.close()
        threading.Thread(target=self._listen, args=(self._ours,), daemon=True).start()

    def _listen(self, ours: Connection) -> None:
        """Hand over what the process tells; runs in a thread of its own."""
        with suppress(RuntimeError):  # The loop may be closed before the thread has ended.
            try:
                while True:
                    self._loop.call_soon_threadsafe(self._take, ours.recv())
            except (EOFError, OSError):
                self._loop.call_soon_threadsafe(self._lost)

    def submit(
        self, tab: str, name: str, given: Mapping[str, Any], *, ends: Iterable[str] = ()
    ) -> Job:
        """Ask for something; what the same tab has asked for before by this name is dropped.

        So is what it ``ends``: drawings of a plan, say, are for nobody when there is another plan.
        """
        job = Job(tab, name, given)
        self.end(tab, {name, *ends})
        self._jobs[job.id] = self._waiting[job.key] = job
        if len(self._jobs) > _MOST_JOBS:
            others = (one for one in self._jobs.values() if one is not self._current)
            oldest = min(others, key=lambda one: not one.is_over)
            oldest.add({"fault": {"message": "Too much is asked at once.", "hint": ""}})
            self._drop(oldest)
            del self._jobs[oldest.id]
        if self._current is None:
            self._next()
        return job

    def end(self, tab: str, names: Iterable[str]) -> None:
        """Drop what a tab has asked for by these names, and stop it at its next step."""
        keys = {(tab, name) for name in names}
        for key in keys:
            self._drop(self._waiting.get(key))
        if self._current is not None and self._current.key in keys:
            self._send(None)

    def _drop(self, job: Job | None) -> None:
        """Let nobody wait for what will not be done."""
        if job is not None and self._waiting.get(job.key) is job:
            del self._waiting[job.key]
            job.add(None)

    def find(self, job_id: str) -> Job | None:
        """Return what was asked under this id, unless that is long ago."""
        return self._jobs.get(job_id)

    def _next(self) -> None:
        self._current = None
        if self._waiting:
            if self._is_lost:
                self._start()
            urgent = (key for key in self._waiting if key[1] == self._first)
            self._current = self._waiting.pop(next(urgent, next(iter(self._waiting))))
            self._send((self._current.name, dict(self._current.given)))

    def _send(self, order: object) -> None:
        # One that was lost a moment ago hears nothing: whoever waits for it is told soon.
        with suppress(OSError):
            self._ours.send(order)

    def _take(self, news: News | None) -> None:
        if self._current is not None:
            self._current.add(news)
        if news is None:
            self._next()

    def _lost(self) -> None:
        """Go on with another process: the last one was killed, or found no memory."""
        self._is_lost = True
        if self._current is not None:
            words = "The process that worked on this has ended."
            self._current.add({"fault": {"message": words, "hint": "try it again"}})
            self._current.add(None)
        self._next()


class _Stopped(BaseException):
    """Somebody wants something else; no search may take this for a fault of its own."""


def _work(connection: Connection, module: str) -> None:
    """Do what is asked until nobody asks any more; runs in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import importlib

    tasks: Mapping[str, Task] = importlib.import_module(module).TASKS
    with suppress(EOFError, OSError):
        while True:
            order = connection.recv()
            # A stop that came too late is for nobody.
            if order is not None:
                _do(connection, tasks[order[0]], order[1])


def _do(connection: Connection, task: Task, given: dict[str, Any]) -> None:
    def check() -> None:
        if connection.poll():
            _stop()

    doing = ""

    def tell(news: News) -> None:
        nonlocal doing
        check()
        doing = news.get("step", doing)
        connection.send(news)

    def count(words: str) -> None:
        check()
        what, _, number = words.rpartition(": ")
        connection.send({"step": " · ".join(filter(None, [doing, f"{number} {what}"]))})

    try:
        with show_progress(count, pause_seconds=_PAUSE):
            task(tell, **given)
    except _Stopped:
        pass
    except ChaffinchError as fault:
        connection.send({"fault": fault_document(fault)})
    except Exception as fault:  # noqa: BLE001 - whatever it is, the next wish is another
        kind = type(fault).__name__
        connection.send({"fault": {"message": f"This has failed ({kind}).", "hint": ""}})
    connection.send(None)


def _stop() -> NoReturn:
    raise _Stopped
