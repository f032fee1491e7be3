"""The worker: the latest wish of a tab counts, others wait, and no fault ends it."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chaffinch.web.worker import Job, Worker


def run(scene: Callable[[Worker], Awaitable[None]]) -> None:
    """Play a scene with a worker of its own."""

    async def play() -> None:
        worker = Worker("tests.web.tasks_for_tests")
        async with worker.running():
            await asyncio.wait_for(scene(worker), 60)

    asyncio.run(play())


async def told(job: Job) -> list[dict[str, Any]]:
    """Return all news of a job once it is over, without its steps."""
    known = 0
    while True:
        found = await job.since(known)
        known += len(found["news"])
        if found["over"]:
            return [one for one in job.news if "step" not in one]


def search(worker: Worker, tab: str, name: str, steps: int = 1) -> Job:
    return worker.submit(tab, "search", {"name": name, "steps": steps})


def test_the_latest_wish_of_a_tab_counts_and_other_tabs_have_theirs(tmp_path: Path) -> None:
    async def scene(worker: Worker) -> None:
        jobs = [search(worker, "mine", f"{number}", steps=1000) for number in range(9)]
        other = search(worker, "other", "other")
        last = search(worker, "mine", "last")
        for job in jobs:
            assert await told(job) == []
        assert await told(last) == [{"found": "last"}]
        assert await told(other) == [{"found": "other"}]
        # Not even a search that catches everything goes on.
        caught = tmp_path / "caught"
        stubborn = worker.submit("mine", "stubborn", {"path": str(caught)})
        await stubborn.since(0)
        after = worker.submit("mine", "search", {"name": "after", "steps": 1}, ends=["stubborn"])
        assert await told(after) == [{"found": "after"}]
        assert await told(stubborn) == []
        assert not caught.exists()

    run(scene)


def test_a_wish_ends_what_followed_from_the_one_before_and_nothing_else(tmp_path: Path) -> None:
    async def scene(worker: Worker) -> None:
        under_way = search(worker, "mine", "under way", steps=1000)
        drawing = worker.submit("mine", "stubborn", {"path": str(tmp_path / "caught")})
        other = worker.submit("other", "refuse", {})
        mine = worker.submit("mine", "refuse", {})
        # Another name of the same tab waits for its turn, until somebody ends both.
        await under_way.since(0)
        assert not under_way.is_over
        last = worker.submit("mine", "refuse", {}, ends=["search", "stubborn"])
        assert await told(under_way) == await told(drawing) == await told(mine) == []
        assert [len(await told(one)) for one in (other, last)] == [1, 1]

    run(scene)


def test_what_others_follow_from_has_the_next_turn() -> None:
    order: list[str] = []

    async def note(name: str, job: Job) -> None:
        await told(job)
        order.append(name)

    async def play() -> None:
        worker = Worker("tests.web.tasks_for_tests", first="search")
        async with worker.running():
            jobs = {"under way": worker.submit("a", "fail", {})}
            for name in ("first refused", "second refused"):
                jobs[name] = worker.submit(name, "refuse", {})
            for name in ("first search", "second search"):
                jobs[name] = search(worker, name, name)
            await asyncio.gather(*(note(name, job) for name, job in jobs.items()))

    asyncio.run(asyncio.wait_for(play(), 60))
    assert order == [
        "under way",
        "first search",
        "second search",
        "first refused",
        "second refused",
    ]


def test_steps_are_told_while_it_searches() -> None:
    async def scene(worker: Worker) -> None:
        job = search(worker, "mine", "one", steps=40)
        await told(job)
        steps = [one["step"] for one in job.news if "step" in one]
        assert len(steps) >= 3
        # What is done, and how far it is.
        assert steps[0] == "looking for one"
        assert all(re.fullmatch("looking for one · [0-9]+ steps", one) for one in steps[1:])

    run(scene)


def test_no_fault_ends_it() -> None:
    async def scene(worker: Worker) -> None:
        (fault,) = await told(worker.submit("a", "refuse", {}))
        assert fault["fault"]["code"] == "invalid-input"
        assert fault["fault"]["hint"] == "ask somebody"
        (fault,) = await told(worker.submit("a", "fail", {}))
        assert "RuntimeError" in fault["fault"]["message"]
        assert "secret" not in str(fault)
        ended = worker.submit("a", "die", {})
        waiting = search(worker, "b", "waiting")
        (fault,) = await told(ended)
        assert "has ended" in fault["fault"]["message"]
        assert await told(waiting) == [{"found": "waiting"}]

    run(scene)


def test_a_process_that_is_lost_while_nobody_asks_is_replaced() -> None:
    async def scene(worker: Worker) -> None:
        assert await told(search(worker, "a", "before")) == [{"found": "before"}]
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        await asyncio.sleep(0.2)
        assert await told(search(worker, "a", "after")) == [{"found": "after"}]

    run(scene)


def test_a_process_may_start_with_the_first_wish() -> None:
    async def play() -> None:
        worker = Worker("tests.web.tasks_for_tests", at_once=False)
        async with worker.running():
            assert multiprocessing.active_children() == []
            assert await told(search(worker, "a", "first")) == [{"found": "first"}]
        async with Worker("tests.web.tasks_for_tests", at_once=False).running():
            pass  # Nothing to end.

    asyncio.run(play())


def test_many_who_wait_are_bounded_and_never_end_what_is_under_way() -> None:
    async def scene(worker: Worker) -> None:
        mine = search(worker, "mine", "mine", steps=200)
        others = [search(worker, f"{number}", f"{number}") for number in range(200)]
        assert worker.find(mine.id) is mine
        assert sum(worker.find(one.id) is not None for one in (mine, *others)) == 64
        (fault,) = await told(others[0])
        assert "Too much" in fault["fault"]["message"]
        assert await told(mine) == [{"found": "mine"}]
        assert await told(others[-1]) == [{"found": "199"}]

    run(scene)


def test_nothing_is_started_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Worker] = []

    async def scene(worker: Worker) -> None:
        search(worker, "mine", "mine", steps=1000)
        search(worker, "other", "other")

        def note(again: Worker) -> None:
            started.append(again)

        monkeypatch.setattr(Worker, "_start", note)

    async def play() -> None:
        worker = Worker("tests.web.tasks_for_tests")
        async with worker.running():
            await scene(worker)
        await asyncio.sleep(0.2)

    asyncio.run(play())
    assert started == []


def test_jobs_are_forgotten_in_the_end() -> None:
    async def scene(worker: Worker) -> None:
        first = search(worker, "a", "first")
        assert worker.find(first.id) is first
        await told(first)
        for number in range(70):
            search(worker, "b", f"{number}")
        assert worker.find(first.id) is None

    run(scene)
