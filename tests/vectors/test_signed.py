"""Golden values of signed decoys: the package has them, and so have the referees."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from chaffinch import privacy
from tests.cases import each_case
from tests.vectors import make_signed

STORED: list[dict[str, Any]] = json.loads(make_signed.FILE.read_text(encoding="utf-8"))
ROWS = {row.id: row for row in make_signed.rows()}


def names(row: dict[str, Any]) -> str:
    return str(row["id"])


@each_case("row", STORED, ids=names)
def test_the_package_has_the_value(row: dict[str, Any]) -> None:
    mechanism = privacy.SignedDecoys(
        question="number",
        plus_ratio=row["ratio"],
        minus_ratio=row["ratio"],
        flood=row["flood"],
        steps=row["steps"],
        share=row["share"],
    )
    bracket, value = mechanism.delta(row["epsilon"]), Fraction(Decimal(row["value"]))
    slack = value / 10**19
    assert Fraction(bracket.lower) <= value + slack
    assert Fraction(bracket.upper) >= value - slack
    assert bracket.lower == pytest.approx(float(value), rel=2e-12)
    assert bracket.upper == pytest.approx(float(value), rel=2e-12)


@each_case("row", STORED, ids=names)
def test_the_value_is_what_was_printed_before(row: dict[str, Any]) -> None:
    printed, value = Decimal(row["printed"]), Decimal(row["value"])
    unit = Decimal(1).scaleb(value.adjusted() - row["matches"] + 1)
    assert abs(printed - value) <= unit * Decimal("0.6")


@each_case("row", STORED, ids=names)
def test_the_file_holds_these_rows(row: dict[str, Any]) -> None:
    made = ROWS[row["id"]]
    assert [getattr(made, name) for name in ("ratio", "flood", "steps", "share", "epsilon")] == [
        row[name] for name in ("ratio", "flood", "steps", "share", "epsilon")
    ]
    assert len(STORED) == len(ROWS)


@pytest.mark.long
@pytest.mark.parametrize("row", STORED, ids=names)
def test_the_referees_reproduce_the_value(row: dict[str, Any]) -> None:
    assert ROWS[row["id"]].value() == row["value"]


def test_the_flat_flood_is_the_one_of_the_notes() -> None:
    flood = [Fraction(rate) for rate in STORED[0]["flood"]]
    mean = sum(k * rate for k, rate in enumerate(flood, start=1))
    assert len(flood) == 16
    assert float(flood[-1]) == pytest.approx(1.17650116949259026, rel=1e-15)
    assert float(mean) == pytest.approx(123.296391004260558, rel=1e-15)
