"""A plugin for pytest: every test starts fresh, quick ones go first, time and memory are bounded.

Which tests judge a function is found by watching which of them call it; a cached result would
hide all callers but the first. The first test that notices a fault ends the judging of it, so
the order decides how long that takes.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Generator

import pytest
from mutmut.mutation import trampoline
from mutmut.state import state

MEMORY = 4 << 30
_TIMES, _SECONDS = 10.0, 5.0
"""A test may take so many times its usual time, and so many seconds more."""


class _Callers:
    """Stands for mutmut's note of who called whom, which nothing here asks for.

    Whatever is closed while memory is cleared, in the middle of another call, would confuse it.
    """

    @staticmethod
    def get() -> tuple[None, int]:
        return None, 0

    @staticmethod
    def set(_caller: object) -> None:
        pass

    @staticmethod
    def reset(_before: object) -> None:
        pass


def pytest_configure() -> None:
    """Let a fault that asks for endless memory fail, instead of taking that of the machine."""
    trampoline.MutmutCallStack = _Callers
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that took the least time in front; mutmut hands them over in any order."""
    took = state().duration_by_test
    items.sort(key=lambda item: took.get(item.nodeid, 0.0))


def pytest_runtest_setup() -> None:
    """Empty every cache of chaffinch's modules."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "chaffinch":
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """End a test that takes far more processor time than usual: its fault loops, and is noticed."""
    usual = state().duration_by_test.get(item.nodeid)
    signal.signal(signal.SIGVTALRM, lambda *_: pytest.fail("it takes too long"))
    if usual is not None:
        signal.setitimer(signal.ITIMER_VIRTUAL, _TIMES * usual + _SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the name under which mutmut looks for a test's id, which pytest 9.2 took away."""
    vars(item)["_nodeid"] = item.nodeid
