"""Where the answers are: one column for each question, or one for each flag."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from chaffinch.encoding.bulk import answer_places, batch_of_group, encode_many
from chaffinch.errors import InvalidTable
from chaffinch.protocols import Flips
from chaffinch.questions import Bit, Choice, Flags, PublicGroup
from chaffinch.tables.checking import answer_batches
from chaffinch.tables.read import open_table
from tests.engines import plans

LEAST = Flips(plans.LEAST)
LOOKS = ("looks", Flags(["dark mode", "large text"], missing="none"), LEAST)
TABLE = {"dark mode": ["yes", "no", None], "large text": [1, 1, 0], "other": ["x", "y", "z"]}


def sent(table: object, *parts: object) -> Counter[int]:
    plan = plans.plan_of(*parts, users=3)  # type: ignore[arg-type]
    return Counter(encode_many(table, plan).messages.tolist())


def test_flags_may_have_a_column_each() -> None:
    assert sent(TABLE, LOOKS) == {0: 1, 1: 2}


def test_other_questions_stand_beside_them() -> None:
    table = TABLE | {"tea": [True, True, True]}
    assert sent(table, ("tea", Bit(), LEAST), LOOKS) == {0: 3, 1: 1, 2: 2}


def test_the_only_flag_may_be_the_only_column() -> None:
    assert sent({"dark": ["yes", "no", "yes"]}, ("looks", Flags(["dark"]), LEAST)) == {0: 2}


def test_a_column_of_the_question_comes_first() -> None:
    table = TABLE | {"looks": ["dark mode", "dark mode", ""]}
    assert sent(table, LOOKS) == {0: 2}


def test_a_missing_flag_column_is_named_by_the_question() -> None:
    with pytest.raises(InvalidTable, match="column 'looks' must be in the table"):
        sent({"dark mode": ["yes", "no", "no"], "other": [1, 2, 3]}, LOOKS)


def test_a_gap_is_refused_where_gaps_are() -> None:
    strict = ("looks", Flags(["dark mode", "large text"], missing="refuse"), LEAST)
    with pytest.raises(InvalidTable, match="'dark mode', row 2"):
        sent(TABLE, strict)


CITIES = {"tea": ["yes", "no", "yes"], "city": ["A", "B", "A"]}


@pytest.mark.parametrize(("value", "rows"), [("A", 2), ("B", 1), (None, 3)])
def test_rows_of_other_public_groups_are_left_out(value: str | None, rows: int) -> None:
    cities = PublicGroup("city", Choice(["A", "B"], missing="refuse"), value)
    plan = replace(plans.plan_of(("tea", Bit(), LEAST), users=3), group=cities)
    table = open_table(CITIES)
    places, group = answer_places(plan, table, {"tea": "tea"})
    assert [place.columns for place in places] == [("tea",)]
    assert (group is None) == (value is None)
    (batch,) = [
        batch for _, batch in answer_batches(table, [*places, *([group] if group else [])], rows=10)
    ]
    assert batch_of_group(plan, group, 1, batch).num_rows == rows
    alone = replace(plan, group=None)
    assert batch_of_group(alone, answer_places(alone, table, None)[1], 1, batch).num_rows == 3
