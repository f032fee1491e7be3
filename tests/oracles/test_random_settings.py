"""No under-report in random settings: a hundred in the gate, many more at night."""

from __future__ import annotations

import random

import pytest

from tests.oracles.settings import SHARES, Judged
from tests.tiers import nightly

NIGHTS = 8


def name(judged: Judged) -> str:
    return judged.__name__


def complaints(judged: Judged, count: int, tier: str) -> list[str]:
    sources = (random.Random(f"{name(judged)} {tier} {number}") for number in range(count))
    return [found for source in sources if (found := judged(source))]


def test_the_shares_add_up() -> None:
    assert sum(SHARES.values()) >= 300
    assert NIGHTS * sum(SHARES.values()) >= 2000


@pytest.mark.parametrize("share", [3, nightly(1)])
@pytest.mark.parametrize("judged", SHARES, ids=name)
def test_no_under_report(judged: Judged, share: int) -> None:
    assert complaints(judged, SHARES[judged] // share, "gate") == []


@pytest.mark.long
@pytest.mark.parametrize("judged", SHARES, ids=name)
def test_no_under_report_at_night(judged: Judged) -> None:
    assert complaints(judged, NIGHTS * SHARES[judged], "night") == []
