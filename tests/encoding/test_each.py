"""One report for each row: the answer of that row, and of no other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from chaffinch.encoding.bulk import encode_each, encode_many
from chaffinch.encoding.device import encode
from chaffinch.errors import InvalidCells, InvalidInput
from chaffinch.protocols import Decoys, Encoded, Flips
from chaffinch.questions import Bit, Choice, Flags, Number, PublicGroup
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


def test_rows_of_bits_and_single_messages_stand_in_one_order() -> None:
    """Whichever question is sent as a row: behind the others it would tell itself apart."""
    values = [f"v{place}" for place in range(64)]
    wide = (Choice(values, missing="refuse"), Flips(Fraction(3, 8), 1, 64))
    one = (Choice(["a", "b"], missing="refuse"), Decoys(1, LEAST))
    plan = plans.plan_of(("first", *wide), ("middle", *one), ("last", *wide), users=3)
    table = {"first": ["v3"] * 1280, "middle": ["b"] * 1280, "last": ["v5"] * 1280}
    counts = Counter[int]()
    for report in encode_each(open_table(table), plan):
        assert list(report.codes) == sorted(report.codes)
        assert len(report.codes) == plan.slots
        counts.update(report.codes)
    assert (counts[64], counts[65]) == (0, 1280)
    for code in [*range(64), *range(66, 130)]:
        expected = 1280 * (5 if code in {3, 66 + 5} else 3) / 8
        assert abs(counts[code] - expected) < 120, "six deviations and more"
    assert set(counts) - {EMPTY} == {*range(64), 65, *range(66, 130)}


@pytest.mark.parametrize(
    "columns", [None, {"region": "region"}, {"tea": "tea", "region": "region"}]
)
def test_a_public_group_sends_its_own_rows(columns: dict[str, str] | None) -> None:
    plan = plans.plan_of(("tea", Bit(), Flips(LEAST, 1)), users=3)
    group = PublicGroup("region", Choice(["north", "south"], missing="refuse"))
    table = {"region": ["south", "north", "south"], "tea": ["yes", "no", "no"]}
    given = columns
    if columns == {"tea": "tea", "region": "region"}:
        table = {"where": table["region"], "x": table["tea"]}
        given = {"tea": "x", "region": "where"}
    for place, found in {"north": [()], "south": [(0,), ()]}.items():
        own = replace(plan, group=group).of_group(place)
        sent = [report.codes for report in encode_each(open_table(table), own, columns=given)]
        assert [tuple(code for code in codes if code != EMPTY) for codes in sent] == found
        assert len(encode_many(table, own, columns=given)) == len(found)


def test_people_of_a_public_group_are_told_apart_by_rows() -> None:
    plan = plans.plan_of(("tea", Bit(), Flips(LEAST, 1)), users=3)
    group = PublicGroup("region", Choice(["north", "south"], missing="refuse"))
    table = {"who": ["a", "b"], "region": ["north", "north"], "tea": ["yes", "no"]}
    own = replace(plan, group=group).of_group("north")
    with pytest.raises(InvalidInput, match="left out where groups are public"):
        encode_many(table, own, person="who")
    assert len(encode_many(table, plan, person="who")) == 2


def test_people_who_send_several_reports_must_be_told_apart() -> None:
    plan = plans.plan_of(("tea", Bit(missing="count"), Flips(LEAST, 1, 2)), users=3)
    table = {"who": ["a", "b"], "tea": ["yes", "no"]}
    twice = replace(plan, contributions=2, reports=6)
    with pytest.raises(InvalidInput, match="a plan of 2 reports of each person"):
        encode_many(table, twice)
    assert len(encode_many(table, twice, person="who")) == 4


def test_faulty_cells_are_told_together() -> None:
    plan = plans.plan_of(("tea", Bit(), Flips(LEAST, 1)), users=1)
    with pytest.raises(InvalidCells, match="2 cells"):
        list(encode_each(open_table({"tea": ["yes", "maybe", "no", "?!"]}), plan))
