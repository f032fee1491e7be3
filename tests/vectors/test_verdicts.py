"""The plans that a client must prove, and must not, are what their script makes."""

from __future__ import annotations

import json

import pytest

from tests.tiers import nightly
from tests.vectors import make_verdicts

CASES = json.loads(make_verdicts.FILE.read_text("utf-8"))["cases"]


@pytest.mark.parametrize("kind", ["signed bit", *map(nightly, ["flips", "decoys", "rounds"])])
def test_the_first_case_of_a_kind_is_made_again(kind: str) -> None:
    (made,) = make_verdicts.cases(kind, 1)
    found = next(case for case in CASES if case["kind"] == kind)
    for delta in ("proven", "unproven"):
        # Searches may end elsewhere in their brackets; a bracket is narrower than this.
        assert float(found.pop(delta)) == pytest.approx(float(made.pop(delta)), rel=1e-5)
    assert made == found


def test_every_kind_is_there() -> None:
    assert {case["kind"] for case in CASES} == set(make_verdicts.SINGLE | make_verdicts.COMPOSED)
