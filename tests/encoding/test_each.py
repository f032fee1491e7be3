"""One report for each row: the answer of that row, and of no other."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from chaffinch.encoding.bulk import encode_each
from chaffinch.encoding.device import encode
from chaffinch.errors import InvalidCells
from chaffinch.protocols import Decoys, Encoded, Flips
from chaffinch.questions import Bit, Choice, Flags, Number
from chaffinch.tables.read import open_table
from chaffinch.wire.messages import EMPTY
from tests.engines import plans

LEAST = Fraction(1, 2**64)


def test_every_row_has_the_report_of_its_answers() -> None:
    """Without noise a report is known: the same as on a device of its own."""
    plan = plans.plan_of(
        ("tea", Bit(), Flips(LEAST, 1)),
        ("value", Choice(["a", "b"], missing="count"), Decoys(1, LEAST)),
        ("minutes", Number(0, 8, missing="refuse"), Encoded(LEAST, 8, together=False)),
        ("seen", Flags(["x", "y"], missing="none"), Flips(LEAST, 1)),
        users=3,
    )
    rows = [
        {"tea": tea, "value": value, "minutes": minutes, "seen": seen}
        for tea, value, minutes, seen in product(
            ["yes", "no"], ["a", "b", None], [0, 3, 8], ["x", "x;y", None]
        )
    ]
    table = {name: [row[name] for row in rows] for name in rows[0]}
    found = [report.codes for report in encode_each(open_table(table), plan)]
    assert found == [encode(row, plan).codes for row in rows]
    assert len(set(found)) > 40


def test_packed_rows_are_codes_again() -> None:
    values = [f"v{place}" for place in range(64)]
    plan = plans.plan_of(("value", Choice(values), Flips(Fraction(3, 8), 1, 64)), users=3)
    table = open_table({"value": values * 20})
    counts = [0] * 64
    for report in encode_each(table, plan):
        assert list(report.codes) == sorted(report.codes)
        for code in report.codes:
            if code != EMPTY:
                counts[code] += 1
    expected = 1260 * 3 / 8 + 20 * 5 / 8
    assert all(abs(count - expected) < 120 for count in counts), "six deviations and more"


def test_faulty_cells_are_told_together() -> None:
    plan = plans.plan_of(("tea", Bit(), Flips(LEAST, 1)), users=1)
    with pytest.raises(InvalidCells, match="2 cells"):
        list(encode_each(open_table({"tea": ["yes", "maybe", "no", "?!"]}), plan))
