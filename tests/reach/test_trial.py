"""Three publishers with a million addresses each, spelled as people spell them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from chaffinch import Audience, Target, reach
from chaffinch.reach.publisher.filter_making import Loaded

SIZE = 10**6
SHARED = {"daily": 0, "radio": 600_000, "shop": 900_000}
"""Where each publisher's million begins in one row of people."""
MESSY = ("{}@Example.org", " {}@example.ORG", "{}@EXAMPLE.org\t", "{}@example.org")
GAPS = 1_000


def messy_list(first: int) -> pa.Table:
    """Return a million addresses in four spellings, with some rows that hold none."""
    people = np.arange(first, first + SIZE)
    texts = [MESSY[number % 4].format(f"Person.{number}") for number in people.tolist()]
    return pa.table({"mail": pa.array([*texts, *["unknown"] * GAPS, *[" "] * GAPS])})


@pytest.mark.long
@pytest.mark.timeout(600)
def test_three_publishers_find_what_they_share_whatever_their_spelling() -> None:
    audience = Audience(list(SHARED))
    plan = reach.plan(audience, sizes=[SIZE] * 3, target=Target(1, 1e-9), ids="e-mail")
    key, told = reach.new_key(), list[Loaded]()
    filters = [
        reach.encode(
            messy_list(first),
            plan,
            publisher=name,
            key=key,
            missing="skip",
            unfit="skip",
            told=told.append,
        )
        for name, first in SHARED.items()
    ]
    for loaded in told:
        assert (loaded.rows, loaded.changed) == (SIZE + 2 * GAPS, SIZE)
        assert (loaded.missing, loaded.unfit) == (GAPS, GAPS)
        assert not loaded.surprising
    release = reach.analyze(filters, plan)
    assert not any(note.startswith("Warning") for note in release.notes)
    truths = {
        "all publishers": 1_900_000,
        "daily and radio": 400_000,
        "daily and shop": 100_000,
        "radio and shop": 700_000,
        "daily and radio and shop": 100_000,
    }
    for name, truth in truths.items():
        row = release.row(name)
        # 6 standard errors each: a fair run is further off with chance below 1e-8.
        assert abs(row.estimate - truth) < 6 * row.standard_error
    assert release.reach.standard_error < SIZE / 100
