"""Run something once with each implementation of the filters' loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from chaffinch.sampling import backends
from tests.sampling import sources

Result = TypeVar("Result")


def available() -> tuple[str, ...]:
    """Return the implementations that can run here."""
    return sources.available(backends.choose_filters)


def with_each(run: Callable[[], Result]) -> list[Result]:
    """Return what ``run`` gives with every implementation that is there."""
    return sources.with_each(run, loops="FILTER_LOOPS", choose=backends.choose_filters)


built = pytest.mark.skipif("native" not in available(), reason="the C extension is not built here")
