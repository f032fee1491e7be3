"""Six hundred exact rationals: the package encloses each of them."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from chaffinch import privacy
from tests.oracles import exact
from tests.vectors import make_rationals

STORED: list[dict[str, Any]] = json.loads(make_rationals.FILE.read_text(encoding="utf-8"))
KINDS = sorted({row["mechanism"] for row in STORED})
ROUNDED = Fraction(1, 10**48)
"""Long values are stored with 50 digits."""


def test_there_are_enough_and_they_vary() -> None:
    assert len(STORED) >= 500
    assert len({json.dumps(row) for row in STORED}) >= 450
    assert sum(row["delta"] != "0/1" for row in STORED) >= 400


def test_the_script_still_writes_the_same_rows() -> None:
    assert make_rationals.rows() == STORED


def neighbours(ratio: Fraction) -> tuple[float, float]:
    """Return floats with e^low <= ratio <= e^high, as near as floats go."""
    low = high = math.log(ratio)
    while low > 0 and exact.exp_bounds(low)[1] > ratio:
        low = math.nextafter(low, 0.0)
    while exact.exp_bounds(high)[0] < ratio:
        high = math.nextafter(high, math.inf)
    return max(low, 0.0), high


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_encloses_every_row(kind: str) -> None:
    for row in (each for each in STORED if each["mechanism"] == kind):
        parameters = {key: row[key] for key in row.keys() - {"mechanism", "ratio", "delta"}}
        mechanism: Any = getattr(privacy, kind)(**parameters)
        low, high = neighbours(Fraction(row["ratio"]))
        text = row["delta"]
        truth = Fraction(text) if "/" in text else Fraction(Decimal(text))
        assert Fraction(mechanism.delta(low).upper) >= truth * (1 - ROUNDED), row
        assert Fraction(mechanism.delta(high).lower) <= truth * (1 + ROUNDED), row
        if truth == 0:
            # at the rational itself a float cannot stand; at the rounded-up local epsilon it can
            assert mechanism.delta(mechanism.local_epsilon).upper == 0, row
