"""Run something once with each implementation of the filters' loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import pytest

from chaffinch.errors import InvalidInput
from chaffinch.sampling import filter_backends

Result = TypeVar("Result")


@functools.cache
def available() -> tuple[str, ...]:
    """Return the implementations that can run here."""
    try:
        filter_backends.choose("native")
    except InvalidInput:
        return ("numpy",)
    return ("native", "numpy")


def with_each(run: Callable[[], Result]) -> list[Result]:
    """Return what ``run`` gives with every implementation that is there."""
    results = []
    for name in available():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(filter_backends, "LOOPS", filter_backends.choose(name)[1])
            results.append(run())
    return results


built = pytest.mark.skipif("native" not in available(), reason="the C extension is not built here")
