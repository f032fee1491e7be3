"""A plugin for pytest: no test profits from what another one has computed.

Which tests judge a function is found by watching which of them call it; a cached result would
hide all callers but the first.
"""

from __future__ import annotations

import sys

import pytest


def pytest_runtest_setup() -> None:
    """Empty every cache of chaffinch's modules."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "chaffinch":
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the name under which mutmut looks for a test's id, which pytest 9.2 took away."""
    vars(item)["_nodeid"] = item.nodeid
