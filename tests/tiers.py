"""What the gate leaves to the nightly tier: some settings of a test, and most of its examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

slower = settings(max_examples=max(10, settings().max_examples // 4), deadline=None)
"""For properties that take their time; scales with the profile in use."""


def nightly(*setting: object) -> Any:
    """Return a setting for `make test-long`: a slow one, or one between others."""
    return pytest.param(*setting, marks=pytest.mark.long)


def one_factor_each(cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return each case with 0.9 and with 1.1, one of the two for the gate, in turn."""
    found = []
    for place, case in enumerate(cases):
        for factor, turn in ((0.9, 0), (1.1, 1)):
            found.append((*case, factor) if place % 2 == turn else nightly(*case, factor))
    return found
