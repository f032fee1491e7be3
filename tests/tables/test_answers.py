"""Columns are numbered by the very law that single answers are, and refused alike."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.encoding.bulk import find_columns
from chaffinch.errors import (
    ChaffinchError,
    InvalidAnswer,
    InvalidCells,
    InvalidInput,
    InvalidTable,
)
from chaffinch.questions import GAPS, Bit, Choice, Flags, Number, Question, gap_words, is_missing
from chaffinch.questions.date_bins import DATE_BINS
from chaffinch.tables.answers import numbers_of
from chaffinch.tables.checking import answer_batches, read_answers, settle_numbers
from chaffinch.tables.objects import column_of
from chaffinch.tables.read import Table, open_table
from tests.cases import each_case
from tests.tiers import slower, some

CANARY = "xyzzy-private"
CHOICES = [
    Choice(["a", "b", "1", "2", "é"], missing="count"),
    Choice(["a", "b", "1"], missing="a", unknown="b"),
    Choice(["0", "1", "-1"], missing="refuse"),
    Choice(["NA", "1", "?"], missing="count", unknown="1"),
    Choice(range(-3, 4), missing="count"),
    Choice(range(1, 4), missing="refuse"),
    Choice(range(5), missing="2", unknown="4"),
    Choice(range(10**15 - 2, 10**15 + 1), unknown=str(10**15), missing="count"),
]
DATED = [Choice(bins, missing="refuse") for bins in DATE_BINS.values()]
BITS = [Bit(missing="no"), Bit(missing="yes"), Bit(missing="count"), Bit(missing="refuse")]
NUMBERS = [
    Number(0, 1, missing=0),
    Number(-3, 7, clip=True, missing=2),
    Number(0, 10, missing="refuse"),
    Number(-1e300, 1e300),
    Number(0, 2, missing="count"),
]
FLAGS = [
    Flags(["a", "b", "c c"], missing="none"),
    Flags(["a", "b"], missing="refuse"),
    Flags(["a", "n/a"], missing="count"),
]
QUESTIONS: list[Question] = [*BITS, *CHOICES, *DATED, *NUMBERS, *FLAGS]

WORDS = st.one_of(
    st.sampled_from(["a", "b", "1", "2", "0", "-1", "yes", "NO", "true", "é", "0.5", "1e0", "a;b"]),
    st.sampled_from(
        ["", " ", "\u2003\x85", " 1", "a ", "+1", "1_0", "--1", "-0", "01", "٣", "1.0"]
    ),
    st.sampled_from(["NA", " na", "n/a", "?", "-", "<NA>", "Null", "N/A;a", "NaN ", "#N/A"]),
    st.sampled_from(["nan", "inf", "1e400", "0x1", ";", "c c; a", "None", "9" * 5000, CANARY]),
    st.text(max_size=3),
)
WHOLE = st.integers(-4, 6)
FLOATS = st.one_of(
    WHOLE.map(float),
    st.floats(0, 1),
    st.floats(),
    st.sampled_from([-0.0, math.nan, math.inf, -math.inf, 1e300, 0.5]),
)
LISTS = st.lists(st.sampled_from(["a", "b", "c c", "a", "d", " a", "", None]), max_size=3)
GOOD_LISTS = st.lists(st.sampled_from(["a", "b"]), max_size=3)
DECIMALS = st.decimals(-5, 11, places=3)
TIMES = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001
STRUCTS = st.fixed_dictionaries(
    {"a": st.none() | st.booleans(), "d": st.none() | st.sampled_from([False, False, True])}
)

# What may fill a column of each type. Good answers are common enough that columns pass.
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), WORDS),
    "digits": (pa.string(), WHOLE.map(str)),
    "large text": (pa.large_string(), WORDS),
    "text views": (pa.string_view(), WORDS),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), WORDS),
    "int8": (pa.int8(), WHOLE),
    "int64": (pa.int64(), WHOLE | st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 4) | st.integers(0, 2**64 - 1)),
    "float16": (pa.float16(), WHOLE.map(np.float16)),
    "float32": (pa.float32(), st.floats(width=32) | WHOLE.map(float)),
    "float64": (pa.float64(), FLOATS),
    "boolean": (pa.bool_(), st.booleans()),
    "null": (pa.null(), st.none()),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "dates": (pa.date32(), st.dates()),
    "dates as texts": (pa.string(), TIMES.map(str) | st.dates().map(str)),
    "times": (pa.timestamp("us"), TIMES),
    "times of a zone": (pa.timestamp("s", "Asia/Kolkata"), TIMES),
    "nanoseconds": (pa.timestamp("ns"), TIMES.map(lambda one: one.replace(microsecond=0))),
    "decimal": (pa.decimal128(10, 3), DECIMALS),
    "lists": (pa.list_(pa.string()), LISTS),
    "good lists": (pa.list_(pa.string()), GOOD_LISTS),
    "large lists": (pa.large_list(pa.large_string()), GOOD_LISTS | LISTS),
    "lists of numbers": (pa.list_(pa.int64()), st.lists(WHOLE, max_size=1)),
    "views of lists": (pa.list_(pa.string(), 2), st.tuples(*[st.sampled_from("ab")] * 2)),
    "structs": (pa.struct({"a": pa.bool_(), "d": pa.bool_()}), STRUCTS),
}


def flags_of(question: Question, columns: Any, first_row: int = 1) -> Any:
    return numbers_of(question, columns, name="q", first_row=first_row)


def single(question: Any, answer: object) -> Any:
    """Return what the question itself makes of one answer."""
    if isinstance(question, Number):
        return question.share(answer)
    if isinstance(question, Flags):
        held = question.numbers(answer)
        return [int(place in held) for place in range(len(question.labels))]
    return question.number(answer)


def one_by_one(question: Question, column: Any) -> tuple[list[Any], int | None]:
    """Return the numbers of the answers before the first refused one, and its row."""
    done: list[Any] = []
    for row, answer in enumerate(column.to_pylist()):
        try:
            done.append(single(question, answer))
        except InvalidAnswer:
            return done, row
    return done, None


def agree(question: Question, column: Any) -> bool:
    """Check the column against single answers; return whether it was accepted."""
    expected, bad = one_by_one(question, column)
    if bad is not None:
        with pytest.raises(InvalidTable) as caught:
            numbers_of(question, column, name="q", first_row=101)
        assert caught.value.row == 101 + bad
        assert caught.value.column == "q"
        assert CANARY not in str(caught.value)
        return False
    found = numbers_of(question, column, name="q", first_row=101)
    assert np.array_equal(found, np.array(expected).reshape(found.shape), equal_nan=True)
    return True


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1073741824], pa.int32()).view(pa.date32()),
        pa.array([2**60], pa.date64()),
        pa.array([2**61], pa.timestamp("s")),
        pa.array([-(2**61)], pa.timestamp("us", "UTC")),
        pa.array([1], pa.timestamp("s", "no/where")),
        pa.array([2**62], pa.duration("s")),
        pa.array([[2**61]], pa.list_(pa.timestamp("s"))),
    ],
    ids=lambda column: str(column.type),
)
def test_a_cell_that_python_cannot_hold_is_refused_and_not_shown(column: pa.Array) -> None:
    for question in QUESTIONS:
        unknown = getattr(question, "unknown", None)
        if isinstance(question, Choice) and unknown is not None:
            answers = numbers_of(question, column, name="a")
            assert question.labels[answers[0]] == unknown
            continue
        with pytest.raises(InvalidCells, match="row 1") as refused:
            numbers_of(question, column, name="a")
        shown = f"{refused.value}{refused.value.__context__}"
        assert "days=" not in shown
        assert "Python" not in shown


@each_case(
    "answer",
    [
        Fraction(1, 3),
        Fraction(1),
        Fraction(2),
        decimal.Decimal("NaN"),
        decimal.Decimal("sNaN"),
        decimal.Decimal("0.5"),
        decimal.Decimal(1),
        np.float16(1),
        np.float32(0.5),
        np.longdouble(1),
        np.int8(1),
        True,
        np.True_,
        1j,
        10**30,
    ],
    ids=repr,
)
def test_objects_of_python_agree_with_single_answers(answer: object) -> None:
    for question in QUESTIONS:
        try:
            expected = single(question, answer)
        except InvalidAnswer:
            expected = None
        try:
            column = column_of([answer], name="q", first_row=1)
            found = numbers_of(question, column, name="q").tolist()[0]
        except InvalidTable:
            found = None
        assert repr(found) == repr(expected), question


def test_a_number_without_end_is_refused_unseen() -> None:
    for question in (
        Choice(["1", "2"], missing="count"),
        Choice(range(3), missing="count"),
        Number(0, 1),
        Bit(),
    ):
        with pytest.raises(InvalidAnswer):
            single(question, 10**5000)


@pytest.mark.parametrize(
    "values",
    [
        range(10**15, 10**15 + 2),
        range(-(10**15) - 1, 0),
        range(10**4000, 10**4000 + 5),
        range(10**5000),
        range(10**30),
    ],
    ids=["above", "below", "far", "without end", "long"],
)
def test_ranges_beyond_any_count_are_refused(values: range) -> None:
    with pytest.raises(InvalidInput, match="1000000000000000"):
        Choice(values, missing="count")


@pytest.mark.parametrize("kind", some(TYPES, *list(TYPES)[::2]))
@slower
@given(data=st.data())
def test_columns_agree_with_single_answers(kind: str, data: st.DataObject) -> None:
    arrow, values = TYPES[kind]
    listed = data.draw(st.lists(values | st.none(), max_size=6))
    column = pa.array(listed, arrow)
    start = data.draw(st.integers(0, len(listed)))
    parts = [column.slice(0, start), column.slice(start)]
    for question in QUESTIONS:
        agree(question, column.slice(start))
        agree(question, pa.chunked_array(parts))


def test_the_samples_reach_both_outcomes() -> None:
    # The property above would be empty if its columns were always refused.
    for question in QUESTIONS:
        column = {Flags: ["a", "b;a"], Choice: ["1", "2"]}.get(type(question), ["1", "0"])
        texts = [question.labels[0]] if isinstance(question, (Choice, Flags)) else column
        assert agree(question, pa.array(texts))
        if getattr(question, "unknown", None) is None:
            assert not agree(question, pa.array([*texts, CANARY]))


@each_case(
    ("question", "kind"),
    [
        (Bit(missing="no"), np.uint8),
        (Bit(missing="count"), np.uint32),
        (Choice(["a", "b"], missing="count"), np.uint32),
        (Choice(range(5), missing="count"), np.uint32),
        (Number(0, 1, missing=0), np.float64),
        (Number(0, 1, missing="count"), np.float64),
        (Flags(["a", "b"], missing="none"), np.uint8),
        (Flags(["a"], missing="count"), np.uint8),
    ],
)
def test_the_type_does_not_depend_on_the_data(question: Question, kind: type) -> None:
    shape = (2,) if isinstance(question, Flags) else ()
    for column in (
        pa.array([], pa.string()),
        pa.array([], pa.int64()),
        pa.chunked_array([], pa.string()),
        pa.nulls(3),
        pa.array([None, None, None], pa.string()),
    ):
        found = numbers_of(question, column, name="q")
        assert found.dtype == kind
        assert found.shape == (len(column), *shape)


def test_dictionaries_may_hold_what_nobody_said() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array([CANARY, "a", None]))
    assert numbers_of(Choice(["a", "b"], missing="count"), column, name="q").tolist() == [0, 2, 0]


def test_the_hint_is_the_question_s_own() -> None:
    with pytest.raises(InvalidTable) as caught:
        numbers_of(Number(0, 1), pa.array([0.5, 2.0]), name="share", first_row=1)
    assert caught.value.hint == "widen the bounds, or set `clip`"
    assert "column 'share', row 2," in str(caught.value)
    assert "2.0" not in str(caught.value)


def test_a_range_of_many_values_is_read_as_numbers() -> None:
    question = Choice(range(10**6 - 1), missing="count")
    values = np.random.default_rng(0).integers(0, 10**6 - 1, 5000)
    for column in (
        pa.array(values),
        pa.array(values.astype(str)),
        pa.array([*values.tolist(), None]),
    ):
        assert agree(question, column)


def test_flags_in_columns_of_their_own() -> None:
    question = Flags(["a", "b", "c"], missing="none")
    columns = {"b": pa.array(["yes", None]), "a": pa.array([0, 1]), "other": pa.array([False] * 2)}
    expected = [question.numbers({k: v[i].as_py() for k, v in columns.items()}) for i in range(2)]
    assert [tuple(np.flatnonzero(row)) for row in flags_of(question, columns)] == expected
    with pytest.raises(InvalidTable, match="'other', row 12"):
        flags_of(question, columns | {"other": pa.array([False, True])}, first_row=11)
    assert numbers_of(question, columns, name="q").tolist() == [[0, 1, 0], [1, 0, 0]]
    with pytest.raises(InvalidInput, match="flags"):
        numbers_of(Bit(), columns, name="q")
    with pytest.raises(InvalidTable, match="'a', row 1"):
        flags_of(question, {"a": pa.array(["perhaps"])})


def test_flags_in_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidTable, match="same length"):
        flags_of(Flags(["a", "b"]), {"a": pa.array([1]), "b": pa.array([1, 0])})


def test_flags_in_columns_of_their_own_may_all_be_missing() -> None:
    columns = {"a": pa.array(["yes", "NA", "no"]), "b": pa.array(["no", "", "no"])}
    counted = Flags(["a", "b"], missing="count")
    assert flags_of(counted, columns).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    with pytest.raises(InvalidTable, match=r"'a', row 2, must be given for all flags, or missing"):
        flags_of(counted, columns | {"a": pa.array(["yes", "no", "no"])})
    with pytest.raises(InvalidCells) as caught:
        flags_of(Flags(["a", "b"]), columns)
    assert [(one.column, one.must_be) for one in caught.value.faults] == [
        ("a", "given, not missing"),
        ("b", "given, not missing"),
    ]
    assert all('missing = "none"' in one.hint for one in caught.value.faults)


# ------------------------------------------------------------------ single answers, as they come


@each_case(
    ("question", "answer", "number"),
    [
        (Bit(), np.bool_(True), 1),  # noqa: FBT003
        (Bit(), np.float32(0), 0),
        (Bit(), 1.0, 1),
        (Bit(), np.int8(1), 1),
        (Bit(missing="yes"), np.float32("nan"), 1),
        (Choice(["a", "b"], missing="count"), " b ", 1),
        (Choice(["7", "8"], missing="count"), 8.0, 1),
        (Choice(["7", "8"], missing="count"), np.float32(8), 1),
        (Choice(["7", "8"], missing="count"), np.uint8(7), 0),
        (Choice(range(7, 9), missing="count"), np.float32(8), 1),
        (Number(0, 4, missing=3), decimal.Decimal("sNaN"), 0.75),
        (Choice(range(7, 9), missing="count"), np.str_(" 8"), 1),
        (Choice(range(7, 9), missing="count"), np.float64("nan"), 2),
        (Number(0, 4), decimal.Decimal("1.0"), 0.25),
        (Number(0, 4), np.float32(2), 0.5),
        (Number(0, 4), np.int16(2), 0.5),
    ],
)
def test_answers_of_every_make(question: Question, answer: object, number: float) -> None:
    assert single(question, answer) == number


@each_case(
    ("question", "answer"),
    [
        (Bit(), np.array([0, 1])),
        (Bit(), 0.5),
        (Choice(["1"], missing="count"), True),
        (Choice(["True", "1"], missing="count"), np.bool_(True)),  # noqa: FBT003
        (Choice(["1", "2"], missing="count"), 1.5),
        (Choice(["1", "2"], missing="count"), math.inf),
        (Choice(range(3), missing="count"), "9" * 5000),
        (Choice(range(3), unknown="0", missing="count"), Fraction(2)),
        (Number(0, 1), 10**400),
        (Number(0, 1, clip=True), math.inf),
        (Number(0, 1, clip=True, missing=0), "-inf"),
        (Number(0, 1), np.bool_(True)),  # noqa: FBT003
        (Number(0, 1), Fraction(1, 3)),
        (Flags(["a"]), [["a"]]),
        (Flags(["a"]), 3),
    ],
)
def test_what_is_no_answer_is_refused(question: Question, answer: object) -> None:
    with pytest.raises(InvalidAnswer):
        single(question, answer)


@each_case("word", ["NA", "n/a", " null ", "None", "nan", "?", "-", "#N/A", "<na>"])
def test_words_for_a_gap_are_gaps_in_every_path(word: str) -> None:
    assert is_missing(word)
    assert not is_missing(word, gaps=())
    for question in (Bit("yes"), Choice(["a", "b"], missing="b"), Number(0, 4, missing=4)):
        assert single(question, word) == 1
        assert numbers_of(question, pa.array([word, None, word]), name="q").tolist() == [1] * 3
        with pytest.raises(InvalidAnswer):
            single(question, f"{word}x")


def test_a_listed_value_is_an_answer_however_it_is_spelled() -> None:
    countries = Choice(["NA", "NO"], missing="count")
    column = pa.array(["NA", "na", " NA ", "N/A"])
    assert numbers_of(countries, column, name="country").tolist() == [0, 2, 0, 2]
    assert Flags(["?"], missing="count").numbers("?") == (0,)


def test_other_words_may_stand_for_a_gap() -> None:
    gaps, age = gap_words(["-9", "Unknown"]), Number(0, 100, missing="count")
    column = pa.array(["-9", "unknown ", "7", ""])
    found = numbers_of(age, column, name="age", gaps=gaps)
    assert np.isnan(found).tolist() == [True, True, False, True]
    with pytest.raises(InvalidTable, match="row 1, must be a number"):
        numbers_of(age, pa.array(["NA"]), name="age", gaps=gaps)
    for bad in ("NA", 3, [None]):
        with pytest.raises(InvalidInput, match="missing values"):
            gap_words(bad)  # type: ignore[arg-type]
    assert "" not in GAPS


def test_every_kind_refuses_gaps_unless_it_says_otherwise() -> None:
    questions: dict[Question, str] = {
        Bit(): '"no" or "yes"',
        Choice(["a", "b"]): "one of the values",
        Number(0, 1): "a number",
        Flags(["a"]): '"none"',
    }
    for question, values in questions.items():
        with pytest.raises(InvalidTable, match="given, not missing") as caught:
            numbers_of(question, pa.array([None], pa.string()), name="q")
        assert caught.value.hint == (
            f'missing = "count" lets a gap be an answer like any other, missing = {values} '
            "counts it as that"
        )


def test_gaps_of_pandas_are_gaps() -> None:
    pandas = pytest.importorskip("pandas")
    assert is_missing(pandas.NA)
    assert is_missing(pandas.NaT)
    assert not is_missing(0)


def test_dictionaries_of_any_kind_are_read() -> None:
    """Frames keep categories as dictionaries of views, which Arrow itself does not decode."""
    views = pa.array(["a", "b"], pa.string_view())
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), views)
    assert numbers_of(Choice(["a", "b"], missing="count"), column, name="q").tolist() == [1, 2, 0]


NUMBERED = [Choice([1, 2, 3], unknown=3), Choice(range(1, 4), unknown=3)]


def on_every_path(question: Choice, cell: str) -> list[int | None]:
    """Return what a cell is on a device, in a column of text, and in a file of each kind."""

    def read(law: Callable[[], Any]) -> int | None:
        try:
            return int(law())
        except ChaffinchError:
            return None

    def through(table: Table) -> Any:
        places = find_columns({"v": question}, table, None)
        places = find_columns({"v": question}, settle_numbers(table, places), None)
        return next(read_answers(places, *one) for one in answer_batches(table, places))[0][0]

    text = f'k,v\nz,"{cell}"\n'.encode()
    return [
        read(lambda: question.number(cell)),
        read(lambda: numbers_of(question, pa.array([cell]), name="v")[0]),
        read(lambda: through(open_table({"k": ["z"], "v": [cell]}))),
        read(lambda: through(open_table(io.BytesIO(text), format="csv"))),
    ]


@each_case("question", NUMBERED)
@each_case(
    ("cell", "place"),
    [
        *[("1", 0), ("1.0", 0), (" 2.00 ", 1), ("2.0000", 1)],
        *[("7", 2), ("-1", 2), ("-1.0", 2), ("1.5", 2), ("0.125", 2), ("more", 2), ("12:30", 2)],
        *[("1,234", None), ("12%", None), ("1.000", None), ("1.234", None), ("-0", None)],
        *[("+1", None), ("1_0", None), ("1e0", None)],
    ],
)
def test_no_number_counts_as_unknown_for_its_spelling(
    question: Choice, cell: str, place: int | None
) -> None:
    assert set(on_every_path(question, cell)) == {place}


@pytest.mark.parametrize("cell", ["1 234", "1'234", "$1234", "1234 €"])
def test_a_number_is_read_as_written_or_refused(cell: str) -> None:
    """A table tells how its numbers are written; a single answer does not."""
    question = Choice(range(2000), unknown=5)
    device, column, *tables = on_every_path(question, cell)
    assert device is column is None
    assert set(tables) == {1234}


def test_underscores_are_in_no_number() -> None:
    for question in (Number(0, 2000), Number(0, 2000, clip=True)):
        with pytest.raises(InvalidAnswer):
            question.share("1_000")
        for source in ({"v": ["1_000"]}, io.BytesIO(b"k,v\nz,1_000\n")):
            table = open_table(source, format=None if isinstance(source, dict) else "csv")
            places = find_columns({"v": question}, table, {"v": "v"})
            with pytest.raises(InvalidCells):
                [read_answers(places, *one) for one in answer_batches(table, places)]


@given(st.lists(st.sampled_from(["a", "b", "1", "é", "yes", "NA", "zz", ""]), max_size=12))
def test_texts_that_came_numbered_are_read_like_plain_ones(texts: list[str]) -> None:
    numbered = column_of(list(texts), name="q", first_row=1)
    # A dictionary of somebody else: in another order, with a text that no row says.
    listed = ["zz", "unsaid", *sorted(set(texts) - {"zz"})]
    places = pa.array([listed.index(text) for text in texts], pa.int8())
    foreign = pa.DictionaryArray.from_arrays(places, listed)
    for question in QUESTIONS:
        told = [told_of(question, column) for column in (pa.array(texts, pa.string()), numbered)]
        assert told[0] == told[1] == told_of(question, foreign), question


def told_of(question: Question, column: pa.Array) -> object:
    try:
        return repr(numbers_of(question, column, name="q").tolist())
    except InvalidCells as error:
        return str(error), repr(error.details)


def test_a_list_of_texts_is_numbered_and_another_is_not() -> None:
    def kind(values: Any) -> pa.DataType:
        return column_of(values, name="q", first_row=1).type

    assert pa.types.is_dictionary(kind(["a", "b", "a"]))
    for values in (["a", None], ["a", 1], ["a", np.str_("b")], ["a", "\ud800"], ("a", "b"), []):
        try:
            found = kind(values)
        except InvalidTable:
            continue
        assert not pa.types.is_dictionary(found) or not values
    many = [f"{number}" for number in range(20_000)]
    assert kind(many) == pa.string()


def test_a_dictionary_with_a_place_that_is_not_there_is_not_looked_up() -> None:
    wrong = pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int8()), ["yes"], safe=False)
    with pytest.raises((pa.ArrowException, InvalidTable, IndexError)):
        numbers_of(Bit(), wrong, name="q")


@each_case("clip", [False, True])
def test_infinity_is_no_number_in_any_column(clip: bool) -> None:  # noqa: FBT001 - a case
    """Clipped it would count as an answer at a bound; a division by zero makes it."""
    for column in (pa.array([1.0, math.inf, 2.0, -math.inf]), pa.array(["1", "inf", "2", "-inf"])):
        with pytest.raises(InvalidTable) as caught:
            numbers_of(Number(0, 10, clip=clip, missing=0), column, name="q")
        assert "a finite number" in str(caught.value)
        assert "2 cells of column" in str(caught.value)
