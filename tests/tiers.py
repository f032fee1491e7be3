"""What the gate leaves to the nightly tier: some settings of a test, and most of its examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

slower = settings(max_examples=max(6, settings().max_examples // 4), deadline=None)
"""For properties that take their time; scales with the profile in use."""
thorough = settings(
    max_examples=max(40, settings().max_examples // 10), deadline=None, derandomize=True
)
"""For statements of the sources, which are looked at in the same examples every time."""


def nightly(*setting: object) -> Any:
    """Return a setting for `make test-long`: a slow one, or one between others."""
    return pytest.param(*setting, marks=pytest.mark.long)


def chequered(rows: Iterable[tuple[Any, ...]], columns: Sequence[object]) -> list[Any]:
    """Return every row with every column: half for the gate, in turn, so that each has a share."""
    return [
        (*row, column) if (across + down) % 2 == 0 else nightly(*row, column)
        for down, row in enumerate(rows)
        for across, column in enumerate(columns)
    ]


def some(settings: Iterable[Any], *gate: object) -> list[Any]:
    """Return all settings of one parameter: those that are named for the gate, others at night."""
    listed = list(settings)
    unknown = [one for one in gate if one not in listed]
    if unknown:
        raise LookupError(f"no such settings: {unknown}")
    return [one if one in gate else nightly(one) for one in listed]


def all_but(settings: Iterable[Any], *night: object) -> list[Any]:
    """Return all settings of one parameter: those that are named at night, others for the gate."""
    listed = list(settings)
    some(listed, *night)  # which refuses names that are none
    return [nightly(one) if one in night else one for one in listed]
