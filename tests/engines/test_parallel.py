"""Threads change neither the order of results nor which error is raised."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from chaffinch.tables.parallel import MOST_WORKERS, Errands, cores, mapped
from tests.cases import each_case


@each_case("workers", [1, 2, 5])
@each_case("count", [0, 1, 3, 50])
def test_results_come_in_order(workers: int, count: int) -> None:
    def slow_first(item: int) -> int:
        time.sleep(0.002 if item % 5 == 0 else 0)
        return item * item

    with mapped(slow_first, range(count), workers) as results:
        assert list(results) == [item * item for item in range(count)]


def test_several_threads_work_at_once() -> None:
    both = threading.Barrier(2, timeout=60)
    with mapped(lambda _: both.wait() >= 0, range(4), 2) as results:
        assert all(results)


def test_one_worker_needs_no_thread() -> None:
    with mapped(lambda _: threading.current_thread(), range(3), 1) as results:
        assert set(results) == {threading.current_thread()}


@pytest.mark.parametrize("workers", [1, 3])
def test_little_is_taken_ahead(workers: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    with mapped(str, items(), workers) as results:
        for done, _ in enumerate(results):
            assert len(taken) <= done + workers + 2
    assert len(taken) == 100


def test_the_first_error_is_raised_and_no_thread_stays() -> None:
    before = threading.active_count()

    def fail(item: int) -> int:
        time.sleep(0.02 if item == 3 else 0)
        if item in {3, 4}:
            raise ValueError(item)
        return item

    with pytest.raises(ValueError, match="3"), mapped(fail, range(10), 3) as results:
        list(results)
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [1, 4])
def test_an_error_of_an_item_comes_before_a_later_one_of_the_source(workers: int) -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield from range(3)
            raise LookupError
        finally:
            closed.append(True)

    def fail(item: int) -> int:
        if item == 2:
            raise ValueError(item)
        return item

    with pytest.raises(ValueError, match="2"), mapped(fail, items(), workers) as results:
        list(results)
    with pytest.raises(LookupError), mapped(str, items(), workers) as texts:
        list(texts)
    assert closed == [True, True]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_consumer_that_stops_closes_the_source(workers: int) -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    with mapped(str, items(), workers) as results:
        next(results)
    assert closed == [True]


def test_cores_are_counted() -> None:
    assert 1 <= cores() <= MOST_WORKERS


def test_errands_to_one_party_leave_others_their_places() -> None:
    errands, answer = Errands(2), threading.Event()
    slow = [errands.submit("slow", answer.wait, 20.0) for _ in range(5)]
    assert errands.submit("quick", str, 7).result(10.0) == "7"
    assert not any(one.done() for one in slow)
    answer.set()
    assert all(one.result(10.0) for one in slow)


def test_errands_that_wait_for_their_place_need_no_thread() -> None:
    """A hop may have thousands of batches for a party that is away."""
    errands, answer, before = Errands(2), threading.Event(), threading.active_count()
    order: list[int] = []

    def errand(number: int) -> None:
        answer.wait(20.0)
        order.append(number)

    waiting = [errands.submit("away", errand, number) for number in range(500)]
    assert threading.active_count() <= before + 2
    answer.set()
    for one in waiting:
        one.result(10.0)
    assert sorted(order) == list(range(500))
    assert errands.submit("away", str, 7).result(10.0) == "7"


def test_a_fault_of_an_errand_is_for_whoever_asks_and_none_begins_after_the_end() -> None:
    errands, begun, answer = Errands(1), threading.Event(), threading.Event()

    def errand() -> bool:
        begun.set()
        return answer.wait(20.0)

    with pytest.raises(ZeroDivisionError):
        errands.submit("one", divmod, 1, 0).result(10.0)
    under_way, waiting = (errands.submit("one", errand) for _ in range(2))
    assert begun.wait(10.0)
    errands.close()
    answer.set()
    assert under_way.result(10.0)
    with pytest.raises(CancelledError):
        waiting.result(10.0)


KILLED = """
import operator, os, signal
from chaffinch.tables.parallel import Processes

print(list(Processes(2).mapped(operator.mul, 2, [1, 2, 3])), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_the_one_that_started_it() -> None:
    """They hold the pipe, and in a service the keys: whoever waits for its end waits for theirs."""
    killed = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    try:
        out, _ = killed.communicate(timeout=20)
    finally:
        killed.kill()
    assert (out, killed.returncode) == ("[2, 4, 6]\n", -signal.SIGKILL)
