"""Run something once with each implementation of the filters' loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import pytest

from chaffinch.errors import InvalidInput
from chaffinch.sampling import backends

Result = TypeVar("Result")


@functools.cache
def available() -> tuple[str, ...]:
    """Return the implementations that can run here."""
    try:
        backends.choose_filters("native")
    except InvalidInput:
        return ("numpy",)
    return ("native", "numpy")


def with_each(run: Callable[[], Result]) -> list[Result]:
    """Return what ``run`` gives with every implementation that is there."""
    results = []
    for name in available():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backends, "FILTER_LOOPS", backends.choose_filters(name)[1])
            results.append(run())
    return results


built = pytest.mark.skipif("native" not in available(), reason="the C extension is not built here")
