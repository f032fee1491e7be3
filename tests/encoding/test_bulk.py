"""Many answers at once: which tables are refused, what batches are, and how they are joined."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chaffinch.encoding import bulk
from chaffinch.encoding.bulk import encode_many, encode_numbers, find_columns, rows_per_batch
from chaffinch.errors import GuaranteeNotProven, InvalidInput, InvalidTable
from chaffinch.protocols import Decoys, Encoded, Flips
from chaffinch.questions import Bit, Choice, Cross, Flags, Number, Question
from chaffinch.sampling import secure_words
from chaffinch.tables.dialect import Settings
from chaffinch.tables.read import open_table
from tests.cases import each_case
from tests.engines import plans

LEAST = Flips(plans.LEAST)
TEA = ("tea", Bit(), LEAST)
DRINK = ("drink", Choice(["milk", "water"], missing="count"), Flips(plans.LEAST, 1, 3))
AGE = ("age", Number(0, 100), Encoded(plans.LEAST, 2, together=False))
LOOKS = ("looks", Flags(["dark", "large"]), LEAST)


def write(folder: Path, text: str) -> Path:
    path = folder / "people.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plan_that_promises_too_much_makes_no_reports() -> None:
    with pytest.raises(GuaranteeNotProven):
        encode_many([True], plans.plan_of(TEA, users=3, epsilon=0.1, delta=1e-9))


def test_a_table_that_is_open_already_is_taken_as_it_is() -> None:
    table = open_table({"tea": [True, False]})
    assert encode_many(table, plans.plan_of(TEA, users=3)).messages.tolist() == [0]


def test_reports_know_their_plan() -> None:
    plan = plans.plan_of(TEA, DRINK, users=3)
    reports = encode_many({"tea": [True, False], "drink": ["water", "milk"]}, plan)
    origin = reports.origin
    assert len(reports) == 2
    assert (origin.plan_id, origin.codes) == (plan.id, plan.codes)
    assert (origin.least_reports, origin.slots) == (plan.reports, plan.slots)
    assert Counter(reports.messages.tolist()) == {0: 1, 1: 1, 2: 1}


def test_gaps_of_numbers_are_sent_as_one_device_sends_them() -> None:
    parts = (
        ("age", Number(0, 100, missing="count"), Encoded(plans.LEAST, 2, together=False)),
        ("age (answered)", Bit(), LEAST, "age"),
    )
    plan = plans.plan_of(*parts, users=3)
    reports = encode_many(["100", "NA", None, "0"], plan)
    assert Counter(reports.messages.tolist()) == {0: 3, 1: 1, 2: 2}
    words = encode_many(
        ["100", "unknown", "-9", "0"], plan, table={"missing_values": ["-9", "Unknown"]}
    )
    assert Counter(words.messages.tolist()) == {0: 3, 1: 1, 2: 2}
    with pytest.raises(InvalidTable, match="row 1, counted from 0, must be a number"):
        encode_many(["100", "NA"], plan, table={"missing_values": ["-9"]})


# -------------------------------------------------------------------- which column


def test_columns_may_have_other_names() -> None:
    plan = plans.plan_of(TEA, DRINK, users=3)
    table = {"x": [True, True], "drink": ["water", "water"], "tea": [False, False]}
    assert Counter(encode_many(table, plan, columns={"tea": "x"}).messages.tolist()) == {0: 2, 2: 2}
    both = encode_many(
        {"x": [True], "y": ["milk"]}, plan, columns={"tea": "x", "drink": "y"}
    ).messages
    assert both.tolist() == [0, 1]


def test_the_only_column_of_another_name_answers_nothing_unless_it_is_said_to(
    tmp_path: Path,
) -> None:
    plan = plans.plan_of(TEA, users=3)
    table = {"has_hiv": [True]}
    assert encode_many(table, plan, columns={"tea": "has_hiv"}).messages.tolist() == [0]
    assert encode_many({"tea": [True]}, plan).messages.tolist() == [0]
    cells = "has_hiv\n" + "yes\n" * 50
    for other in (table, pa.table(table | {"has_hiv": ["no"] * 50}), write(tmp_path, cells)):
        with pytest.raises(InvalidTable, match="'tea' must be in the table") as caught:
            encode_many(other, plan)
        assert "Got only the column 'has_hiv'" in caught.value.message
        assert "--column has_hiv (columns={'tea': 'has_hiv'})" in caught.value.hint
    with pytest.raises(InvalidTable, match="'y' must be in the table"):
        encode_many(table, plan, columns={"tea": "y"})
    with pytest.raises(InvalidTable, match="'tea' must be in the table"):
        encode_many({"x": [True], "y": [True]}, plan)
    with pytest.raises(InvalidTable, match="must be in the table"):
        encode_many({"x": [True]}, plans.plan_of(TEA, DRINK, users=3))


@pytest.mark.parametrize(
    "lines",
    [["secret", *["mate"] * 50], ["secret", "milk", "water"], ["secret", "mate", *["milk"] * 50]],
    ids=["no answers", "few rows", "not all"],
)
def test_a_name_that_may_be_a_cell_is_not_shown(tmp_path: Path, lines: list[str]) -> None:
    """Only where the cells below are answers, every one, it was no cell among them."""
    with pytest.raises(InvalidTable, match="another name") as caught:
        encode_many(write(tmp_path, "\n".join(lines)), plans.plan_of(DRINK, users=3))
    assert "secret" not in str(caught.value)
    assert "--column NAME" in caught.value.hint


@pytest.mark.parametrize("answers", [[True, False], np.array([True, False]), pa.array([1, 0])])
def test_bare_answers_need_no_name(answers: object) -> None:
    assert encode_many(answers, plans.plan_of(TEA, users=3)).messages.tolist() == [0]


@pytest.mark.parametrize("columns", [["tea"], "tea", {"coffee": "x"}, {"tea": "x", "coffee": "x"}])
def test_columns_for_other_questions_are_refused(columns: object) -> None:
    with pytest.raises(InvalidInput, match="columns"):
        encode_many({"x": [True]}, plans.plan_of(TEA, users=3), columns=columns)  # type: ignore[arg-type]


def test_messages_are_no_answers() -> None:
    with pytest.raises(InvalidTable, match="encoded already"):
        encode_many({"message": [0, 1]}, plans.plan_of(TEA, users=3))
    asked = plans.plan_of(("message", Bit(), LEAST), users=3)
    assert encode_many({"message": [1, 0]}, asked).messages.tolist() == [0]


@pytest.mark.parametrize(
    ("part", "text"),
    [(TEA, "yes\nno\n"), (DRINK, "milk\nwater\n"), (AGE, "30\n40\n")],
    ids=["bit", "choice", "number"],
)
def test_a_first_line_that_is_an_answer_is_no_name(
    tmp_path: Path, part: tuple[str, Bit | Choice | Number, Flips], text: str
) -> None:
    plan = plans.plan_of(part, users=3)
    with pytest.raises(InvalidTable, match="first line that is itself an answer"):
        encode_many(write(tmp_path, text), plan)
    (name,) = plan.questions
    table = write(tmp_path, f"what they said\n{text}")
    assert len(encode_many(table, plan, columns={name: "what they said"})) == 2
    assert len(encode_many(write(tmp_path, f"{name}\n{text}"), plan)) == 2


def test_a_column_of_flags_is_not_taken_for_one_of_its_flags() -> None:
    plan = plans.plan_of(LOOKS, users=3)
    columns = {"looks": "dark"}
    told = encode_many({"dark": ["large", "dark"]}, plan, columns=columns).messages
    assert told.tolist() == [1, 0]


def test_all_flag_columns_and_no_others_are_enough() -> None:
    plan = plans.plan_of(LOOKS, users=3)
    table = {"dark": ["yes", "no"], "large": ["yes", "yes"]}
    assert Counter(encode_many(table, plan).messages.tolist()) == {0: 1, 1: 2}


def test_errors_name_column_and_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS", 2)
    strict = ("tea", Bit(missing="refuse"), LEAST)
    plan = plans.plan_of(strict, users=3)
    for place in range(5):
        answers: list[object] = [True] * 5
        answers[place] = "perhaps"
        with pytest.raises(InvalidTable, match=f"column 'x', row {place}"):
            encode_many({"x": answers, "y": answers}, plan, columns={"tea": "x"})
        with pytest.raises(InvalidTable, match=f"column 'tea', row {place}"):
            encode_many(answers, plan)


def test_errors_name_the_flag_that_is_the_only_column() -> None:
    plan = plans.plan_of(("looks", Flags(["dark"]), LEAST), users=3)
    with pytest.raises(InvalidTable, match="column 'dark', row 1"):
        encode_many({"dark": ["yes", "perhaps"]}, plan)


# -------------------------------------------------------------------- batches


def test_batches_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans.plan_of(TEA, users=3)
    told: list[int] = []
    monkeypatch.setattr(bulk, "ROWS", 2)
    reports = encode_many([True, False, True, True, True], plan, progress=told.append)
    assert told == [2, 4, 5]
    assert len(reports) == 5
    assert reports.origin.plan_id == plan.id
    assert reports.messages.tolist() == [0] * 4
    assert reports.messages.dtype == np.uint32


def test_nobody_is_no_batch() -> None:
    with pytest.raises(InvalidTable, match="at least one row"):
        encode_many({"tea": []}, plans.plan_of(TEA, users=3))


def test_packed_rows_are_joined_and_know_their_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS", 2)
    wide = ("value", Choice(range(64), missing="refuse"), Flips(Fraction(1, 4), 1, 64))
    plan = plans.plan_of(TEA, wide, users=3)
    reports = encode_many({"tea": [True] * 3, "value": [1, 2, 3]}, plan)
    assert reports.messages.tolist() == [0] * 3
    assert [(rows.first, rows.bits, len(rows.packed)) for rows in reports.rows] == [
        (1, 64, 2),
        (1, 64, 1),
    ]


def test_batches_are_as_large_as_their_messages_allow() -> None:
    few = plans.plan_of(TEA, users=3)
    assert rows_per_batch(few) == bulk.ROWS
    choice = Choice(["a", "b"], missing="count")
    many = plans.plan_of(("v", choice, Decoys(1023, Fraction(1))), users=3)
    assert rows_per_batch(many) == bulk.MESSAGES_PER_BATCH // 1024
    two = plans.plan_of(TEA, ("v", choice, Decoys(1022, Fraction(1))), users=3)
    assert rows_per_batch(two) == bulk.MESSAGES_PER_BATCH // 1024
    most = plans.plan_of(("v", choice, Decoys(10**6 - 1, Fraction(1))), users=3)
    assert rows_per_batch(most) == 2


def test_a_batch_has_one_answer_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MESSAGES_PER_BATCH", 1)
    assert rows_per_batch(plans.plan_of(DRINK, ("b", *DRINK[1:]), users=3)) == 1


def test_reports_know_their_round() -> None:
    plan = replace(plans.plan_of(TEA, users=3), rounds=3)
    assert encode_many([True], plan, round=3).origin.round == 3
    with pytest.raises(InvalidInput, match="round"):
        encode_many([True], plan)


def test_simulated_answers_are_of_the_first_round() -> None:
    plan = replace(plans.plan_of(TEA, users=3), rounds=3)
    assert encode_numbers(plan, [np.array([1])], 1, secure_words()).origin.round == 1


@each_case(
    ("questions", "text"),
    [
        ({"age": Number(0, 100)}, "age\n1,5\n"),
        ({"age": Number(0, 100), "tea": Bit()}, "age;tea\n1,5;yes\n"),
        ({"looks": Flags(["dark"])}, "dark\nyes\n"),
        ({"looks": Flags(["dark", "large"])}, "dark;large\nyes;no\n"),
        ({"both": Cross({"tea": Bit(), "age": Number(0, 100)}, levels=3)}, "age;tea\n1,5;yes\n"),
    ],
)
def test_what_is_said_of_a_table_reaches_every_column(
    questions: dict[str, Question], text: str, tmp_path: Path
) -> None:
    """Texts for missing answers, and how numbers are written."""
    said = Settings(separator=";", decimal=",", missing_values=("nil",))
    table = open_table(write(tmp_path, text), settings=said)
    found = find_columns(questions, table, None)
    assert all(columns.gaps == table.gaps == said.gaps for columns in found)
    for columns in found:
        if "age" in columns.columns:
            place = columns.columns.index("age")
            assert columns.formats[place] == table.cell_format("age", Number(0, 100))
            assert columns.formats[place] is not None
