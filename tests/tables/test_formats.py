"""Numbers as people write them are read in the one way they can be read, or not at all."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chaffinch as cf
from chaffinch.encoding.bulk import find_columns
from chaffinch.errors import InvalidAnswer, InvalidCells, InvalidInput, InvalidTable
from chaffinch.questions import Bit, Choice, Cross, Number
from chaffinch.tables.answers import numbers_of
from chaffinch.tables.checking import answer_batches, check_answers, read_answers, settle_numbers
from chaffinch.tables.dialect import GROUP_SIGNS, Settings
from chaffinch.tables.formats import NumberFormat, guess_format
from chaffinch.tables.read import Table, open_table
from tests.cases import each_case
from tests.tables.test_answers import CANARY, WORDS
from tests.tables.test_checking import faults_of
from tests.tiers import slower

FORMATS = [
    NumberFormat(point, sign, percent, currency)
    for point in ".,"
    for sign in ("", *GROUP_SIGNS)
    for percent, currency in (("", ""), ("number", ""), ("share", ""), ("", "€"))
    if sign != point
]
VALUES = st.decimals(-(10**9), 10**9, places=2)


def write(value: Decimal, form: NumberFormat, *, grouped: bool = True, tail: str = "") -> str:
    """Return a number as somebody would write it."""
    text = f"{value:,.2f}" if grouped and form.thousands else f"{value:.2f}"
    table = str.maketrans({",": form.thousands, ".": form.decimal})
    return text.translate(table) + tail


@slower
@given(value=VALUES, form=st.sampled_from(FORMATS), grouped=st.booleans())
def test_what_was_written_is_read(value: Decimal, form: NumberFormat, *, grouped: bool) -> None:
    assert form.read(write(value, form, grouped=grouped)) == float(value)
    if form.currency:
        assert form.read(write(value, form, tail=" €")) == float(value)
        assert form.read("€" + write(abs(value), form)) == float(abs(value))
    if form.percent:
        shown = value / 100 if form.percent == "share" else value
        assert form.read(write(value, form, tail="%")) == float(shown)


@slower
@given(data=st.data(), form=st.sampled_from(FORMATS))
def test_columns_agree_with_single_cells(data: st.DataObject, form: NumberFormat) -> None:
    written = VALUES.map(lambda value: write(value, form))
    cells = data.draw(st.lists(written | WORDS | st.none(), max_size=6))
    question: Number | Choice
    for question in (Number(-10, 10**7, missing="refuse"), Choice(range(-5, 2000))):
        for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
            expected = [read_cell(question, form, cell) for cell in cells]
            column = pa.array(cells, kind)
            told = faults_of(question, column, formats=[form])
            assert sum(one.count for one in told) == expected.count(None)
            assert all(expected[row - 1] is None for one in told for row in one.rows)
            assert all(CANARY not in str(one) for one in told)
            if None not in expected:
                assert numbers_of(question, column, name="q", formats=[form]).tolist() == expected


def read_cell(question: Number | Choice, form: NumberFormat, cell: str | None) -> float | None:
    """Return what a question makes of one cell; None if it refuses it."""
    try:
        answer = form.read(cell)
        if isinstance(question, Number):
            return question.share(answer)
        return question.number(answer)
    except InvalidAnswer:
        return None


def guess(*texts: str, separator: str | None = ",", unit: str = "", **said: Any) -> NumberFormat:
    settings = Settings(separator=separator, **said)
    return guess_format(texts, settings, column="price", unit=unit)


@each_case(
    ("texts", "form"),
    [
        (["12", "1.5", "-3", "1e5", ""], NumberFormat()),
        (["1.234", "5.678"], NumberFormat()),
        (["1,234.50"], NumberFormat(".", ",")),
        (["1.234,50", "3"], NumberFormat(",", ".")),
        (["1,234", "12,5"], NumberFormat(",")),
        (["1,234", "12.5"], NumberFormat(".", ",")),
        (["1,234,567"], NumberFormat(".", ",")),
        (["1 234,5"], NumberFormat(",", " ")),
        (["1\N{NO-BREAK SPACE}234"], NumberFormat(".", " ")),
        (["1'234.5"], NumberFormat(".", "'")),
        (["0,123"], NumberFormat(",")),
        (["$5", "$1,234.00", "7"], NumberFormat(".", ",", currency="$")),
        (["-5.00 €"], NumberFormat(currency="€")),
        (["1,5", "abc"], NumberFormat(",")),
        ([], NumberFormat()),
    ],
)
def test_one_reading_is_taken(texts: list[str], form: NumberFormat) -> None:
    assert guess(*texts) == form
    assert guess("12%", "1.5", unit="%") == NumberFormat(percent="number")


@each_case(
    ("texts", "said"),
    [
        (["1,234"], {}),
        (["1,234", "5,678"], {}),
        (["$1.234"], {"separator": ";"}),
        (["1.234"], {"separator": ";"}),
        (["1,5", "1.5"], {}),
        (["1.234,5", "1,234.5"], {}),
        (["$5", "5 €"], {}),
        (["12%"], {}),
    ],
)
def test_two_readings_are_refused(texts: list[str], said: dict[str, Any]) -> None:
    with pytest.raises(InvalidTable) as caught:
        guess(*texts, **said)
    assert caught.value.column == "price"
    assert caught.value.hint


def test_what_was_said_decides() -> None:
    assert guess("1,234", decimal=",") == NumberFormat(",")
    assert guess("1,234", thousands=",") == NumberFormat(".", ",")
    assert guess("1,234", decimal=".") == NumberFormat(".", ",")
    assert guess("1,234", thousands="none") == NumberFormat(",")
    assert guess("12%", percent="share").read("12%") == 0.12
    assert guess("1.234", separator=";", decimal=".", thousands="none") == NumberFormat()


def table_of(kind: str, cells: list[str], **said: Any) -> Table:
    settings = Settings(**said)
    if kind == "csv":
        text = "price;other\n" + "".join(f'"{cell}";1\n' for cell in cells)
        return open_table(io.BytesIO(text.encode()), format="csv", settings=settings)
    if kind == "jsonl":
        text = "".join(f'{{"price": "{cell}"}}\n' for cell in cells)
        return open_table(io.BytesIO(text.encode()), settings=settings)
    source = {"price": cells}
    return open_table(pa.table(source) if kind == "arrow" else source, settings=settings)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "mapping"])
def test_every_container_is_read_alike(kind: str) -> None:
    cells = ["1.234,50 €", "3,5", ""] * 5000
    cells[12_000] = CANARY
    questions = {"price": Number(0, 2000, missing="refuse")}
    table = table_of(kind, cells)
    table = settle_numbers(table, find_columns(questions, table, {"price": "price"}))
    assert table.notes[-1] == "numbers of column 'price' are read as in 1.234,50 €"
    places = find_columns(questions, table, {"price": "price"})
    with pytest.raises(InvalidCells) as caught:
        check_answers(table, places)
    shift = {"csv": 1, "jsonl": 0}.get(kind, -1)  # as a spreadsheet counts, from 1, or from 0
    told = {one.must_be: (one.count, one.rows[0]) for one in caught.value.faults}
    # The word that is no number stands where a gap would be in the other rows.
    assert told == {
        "given, not missing": (4999 + (12_000 % 3 != 2), 3 + shift),
        "a number such as 1.234,50 €": (1, 12_001 + shift),
    }
    batch = next(iter(table.batches(["price"]))).slice(0, 2)
    ((first, second),) = read_answers(places, 1, batch)
    assert (first, second) == (1234.5 / 2000, 3.5 / 2000)


def test_crossed_numbers_are_read_alike() -> None:
    cross = Cross({"tea": Bit(), "price": Number(0, 2000)}, levels=2)
    table = open_table({"tea": ["yes", "no"], "price": ["1.000,00", "500,00"]})
    apart = find_columns(dict(cross.questions), table, None)
    settled = settle_numbers(table, apart)
    ((first, second),) = read_answers(
        find_columns({"q": cross}, settled, None), 1, next(iter(table.batches(["tea", "price"])))
    )
    assert (first, second) == (2.5, 0.25)


class _Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def settled_shares(
    text: str, *, piped: bool, question: Number | Choice, **said: Any
) -> list[float]:
    """Return what the column ``price`` of a table says, settled as a command settles it."""
    file = (_Pipe if piped else io.BytesIO)(text.encode())
    table = open_table(file, format="csv", settings=Settings(**said))
    questions = {"price": question}
    table = settle_numbers(table, find_columns(questions, table, None))
    places = find_columns(questions, table, None)
    return [
        float(one)
        for first, batch in answer_batches(table, places)
        for one in read_answers(places, first, batch)[0]
    ]


LATE = "name;price\n" + "a;999\n" * 10_001 + "b;1.234\n"
EARLY = "name;price\na;1.234\n"
DECIDED = "name;price\na;3.5\nb;1.234\n"


@each_case("question", [Number(0, 2000), Choice(range(2000), unknown=5)])
@each_case("text", [LATE, EARLY, LATE.replace("1.234", "\N{NO-BREAK SPACE}+1,234 ")])
@each_case("piped", [False, True])
def test_a_number_of_two_readings_is_refused_in_every_row(
    text: str, question: Number | Choice, *, piped: bool
) -> None:
    with pytest.raises(InvalidTable) as caught:
        settled_shares(text, piped=piped, question=question)
    assert "1,234 or 1.234" in str(caught.value)
    assert "decimal" in caught.value.hint
    if len(text) > 100:
        assert isinstance(caught.value, InvalidCells)
        assert caught.value.faults[0].rows == (10_003,)


@pytest.mark.parametrize("piped", [False, True])
def test_what_was_said_ends_the_doubt(*, piped: bool) -> None:
    question = Number(0, 2000)
    read = settled_shares(LATE, piped=piped, question=question, decimal=".")
    assert read[-1] == 1.234 / 2000
    read = settled_shares(LATE, piped=piped, question=question, thousands=".")
    assert read[-1] == 1234 / 2000
    whole = settled_shares(LATE, piped=piped, question=Choice(range(2000)), thousands=".")
    assert whole[-1] == 1234
    commas = LATE.replace(";", ",")
    assert settled_shares(commas, piped=piped, question=question)[-1] == 1.234 / 2000


@pytest.mark.parametrize("piped", [False, True])
def test_words_still_count_as_unknown(*, piped: bool) -> None:
    text = "name;price\na;12\nb;more\nc;0.125\n"
    question = Choice(range(20), unknown=5)
    assert settled_shares(text, piped=piped, question=question) == [12, 5, 5]


def test_a_column_can_decide_for_itself() -> None:
    assert settled_shares(DECIDED, piped=False, question=Number(0, 2000))[-1] == 1.234 / 2000
    with pytest.raises(InvalidCells, match="one meaning"):
        settled_shares(DECIDED, piped=True, question=Number(0, 2000))
    plain = "name;price\na;12\nb;0.125\nc;12.5\nd;1000\n"
    assert settled_shares(plain, piped=True, question=Number(0, 1000)) == [
        0.012,
        0.000125,
        0.0125,
        1.0,
    ]


def test_in_python_nothing_is_guessed() -> None:
    plan = cf.plan(Number(0, 2000), users=3, target=cf.Target(8, 1e-3), anyway=True)
    cells = ["1.234,50", "3,5", "7"]
    with pytest.raises(InvalidCells):
        cf.encode_many(cells, plan)
    assert cf.encode_many(cells, plan, table={"decimal": ",", "thousands": "."}).count == 3
    with pytest.raises(InvalidInput, match="decimal"):
        cf.encode_many(cells, plan, table={"comma": ","})


@pytest.mark.parametrize(
    "said",
    [{"decimal": ";"}, {"thousands": "x"}, {"percent": "12"}, {"decimal": ",", "thousands": ","}],
)
def test_other_settings_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Settings(**said)
