"""A date counts as its month, weekday, quarter or hour, in whatever it is kept."""

from __future__ import annotations

import calendar
import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pytest

import chaffinch as cf
from chaffinch.encoding.bulk import find_columns
from chaffinch.errors import InvalidAnswer, InvalidCells, InvalidFile, InvalidInput
from chaffinch.planning.survey_file import survey_from
from chaffinch.questions import Choice
from chaffinch.questions.date_bins import DATE_BINS
from chaffinch.tables.checking import check_answers, read_answers
from chaffinch.tables.dialect import Settings
from chaffinch.tables.read import open_table
from tests.cases import each_case

HEAD = "users = 100\nepsilon = 1\n"


def dated(kind: str) -> Choice:
    return Choice(DATE_BINS[kind], missing="refuse")


def test_bins_are_those_of_the_calendar() -> None:
    assert list(DATE_BINS["month"]) == list(calendar.month_name)[1:]
    assert list(DATE_BINS["weekday"]) == list(calendar.day_name)
    day = dt.date(2023, 1, 1)
    while day.year == 2023:
        assert dated("month").number(day) == day.month - 1
        assert dated("weekday").number(str(day)) == calendar.weekday(day.year, day.month, day.day)
        assert dated("quarter").number(day) == (day.month - 1) // 3
        day += dt.timedelta(days=1)
    for hour in range(24):
        assert dated("hour").number(f"2023-01-01 {hour:02}:59:59") == hour


@pytest.mark.parametrize(
    ("kind", "answer", "label"),
    [
        ("month", "March", "March"),
        ("month", " 2024-03-05 ", "March"),
        ("month", "2024-03-05T23:30:00Z", "March"),
        ("hour", "2024-03-05T23:30:00+05:00", "23:00"),
        ("weekday", dt.datetime(2024, 3, 5, 1), "Tuesday"),  # noqa: DTZ001
    ],
)
def test_dates_answer_a_choice(kind: str, answer: object, label: str) -> None:
    question = dated(kind)
    assert question.labels[question.number(answer)] == label


@each_case(
    ("kind", "answer"),
    [
        ("hour", "2024-03-05"),
        ("hour", dt.date(2024, 3, 5)),
        ("month", "05.03.2024"),
        ("month", "03/05/2024"),
        ("month", "2024-13-01"),
        ("month", "march"),
        ("month", 3),
    ],
)
def test_what_is_no_date_is_refused(kind: str, answer: object) -> None:
    with pytest.raises(InvalidAnswer, match="a date such as") as caught:
        dated(kind).number(answer)
    assert "date_format" in caught.value.hint
    assert Choice(["a", "b"]).dates is None
    with pytest.raises(InvalidAnswer, match="one of the values"):
        Choice(["a", "b"]).number("2024-03-05")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "mapping", "typed"])
def test_a_format_that_was_said_is_read_everywhere(kind: str) -> None:
    cells = ["05.03.2024", "31.12.2024"]
    source: Any = {"day": cells}
    if kind == "csv":
        source = io.BytesIO(("day,x\n" + "".join(f"{cell},1\n" for cell in cells)).encode())
    elif kind == "jsonl":
        source = io.BytesIO("".join(f'{{"day": "{cell}"}}\n' for cell in cells).encode())
    elif kind == "arrow":
        source = pa.table(source)
    elif kind == "typed":
        source = {"day": [dt.date(2024, 3, 5), dt.date(2024, 12, 31)]}
    questions = {"day": dated("month")}
    said = Settings(date_format="%d.%m.%Y")
    form = "csv" if kind == "csv" else None
    table = open_table(source, format=form, settings=said)
    places = find_columns(questions, table, {"day": "day"})
    (numbers,) = read_answers(places, 1, next(iter(table.batches(["day"]))))
    assert numbers.tolist() == [2, 11]


def test_other_dates_are_told_by_their_rows() -> None:
    table = open_table(
        {"day": ["05.03.2024", "2024-03-05", "", "xyzzy"]},
        settings=Settings(date_format="%d.%m.%Y"),
    )
    with pytest.raises(InvalidCells) as caught:
        check_answers(table, find_columns({"day": dated("month")}, table, None))
    told = {one.must_be: one.rows for one in caught.value.faults}
    assert told == {"a date written as %d.%m.%Y": (1, 3), "given, not missing": (2,)}
    assert "xyzzy" not in str(caught.value)
    with pytest.raises(InvalidInput, match="format of dates"):
        Settings(date_format="day first")


def test_a_survey_names_the_part_of_a_date() -> None:
    text = HEAD + '[questions.day]\nkind = "choice"\ndates = "weekday"\n'
    (question,) = survey_from(text).survey.questions.values()
    assert question == Choice(DATE_BINS["weekday"])
    for wrong in ('values = ["a", "b"]\n', 'values_file = "a"\n'):
        with pytest.raises(InvalidFile, match="one of them"):
            survey_from(text + wrong)
    with pytest.raises(InvalidFile, match="dates"):
        survey_from(text.replace("weekday", "day"))


def test_devices_read_dates_too() -> None:
    question = cf.Choice.of_dates("quarter")
    assert question == Choice(DATE_BINS["quarter"])
    plan = cf.plan(question, users=1000, target=cf.Target(1, 1e-6))
    assert cf.encode("2024-03-05", plan).origin.plan_id == plan.id
    with pytest.raises(InvalidInput, match="part of a date"):
        cf.Choice.of_dates("year")


def test_months_of_several_years_stay_apart() -> None:
    text = HEAD + '[questions.day]\nkind = "choice"\ndates = "year-month"\n'
    said = text + 'first = "2023-11"\nlast = "2025-01"\n'
    (question,) = survey_from(said).survey.questions.values()
    asked = cf.Choice.of_dates("year-month", first="2023-11", last="2025-01")
    # The months that a device sees in the plan are all it needs, however they were written.
    assert question == asked == Choice(asked.labels)
    assert (asked.size, asked.dates) == (15, "year-month")
    assert asked.labels[asked.number("2024-01-31T08:00")] == "2024-01"
    assert asked.labels[asked.number(dt.date(2025, 1, 31))] == "2025-01"
    assert asked.number("2024-12") == 13
    for beyond in ("2023-10-31", "2025-02-01"):
        with pytest.raises(InvalidAnswer, match="a date from 2023-11 to 2025-01"):
            asked.number(beyond)
    assert Choice(["2024-01", "2024-03"]).dates is None
    for first, last in ((None, None), ("2024-01", None), ("2024-1", "2024-02"), ("2025", "2024")):
        with pytest.raises(InvalidInput, match="month must be a year and a month"):
            cf.Choice.of_dates("year-month", first=first, last=last)
    with pytest.raises(InvalidInput, match="after the first"):
        cf.Choice.of_dates("year-month", first="2024-02", last="2024-02")
    with pytest.raises(InvalidInput, match="first and last"):
        cf.Choice.of_dates("month", first="2024-01", last="2024-02")
    for wrong in (text.replace("year-month", "month") + 'first = "2024-01"\n', text):
        with pytest.raises(InvalidFile, match="first"):
            survey_from(wrong)


def test_a_check_tells_that_years_fall_together() -> None:
    held = {"day": [f"{2023 + place % 3}-0{1 + place % 9}-05" for place in range(200)]}
    rules = cf.Target(2, 1e-6)
    for kind, told in (("month", True), ("quarter", True), ("weekday", False)):
        plan = cf.plan(cf.Survey({"day": cf.Choice.of_dates(kind)}), users=200, target=rules)
        said: list[str] = []
        warned = cf.check(held, plan, tell=said.append).warnings
        assert any("has dates from 2023 to 2025" in one for one in warned) == told
        assert any('dates = "year-month"' in one for one in said) == told
    held = {"day": [day.replace("2023", "2024").replace("2025", "2024") for day in held["day"]]}
    plan = cf.plan(cf.Survey({"day": dated("month")}), users=200, target=rules)
    assert cf.check(held, plan).warnings == ()
