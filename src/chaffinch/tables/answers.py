"""Turn columns of answers into columns of numbers, by the rules of the questions.

Text and choices take few different values, so each distinct value is put to the question
itself and the rest is looking up: both paths cannot disagree. Numbers are computed as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import DIFFERS, InvalidAnswer, InvalidInput, InvalidTable
from chaffinch.questions import (
    COUNT,
    GAPS,
    PARTLY_MISSING,
    REFUSE,
    Bit,
    Choice,
    Cross,
    Flags,
    Number,
    Question,
    is_missing,
)
from chaffinch.questions.date_bins import MERGES_YEARS, year_of
from chaffinch.tables.arrays import is_text, plain_array, values_of
from chaffinch.tables.cell_faults import Faults
from chaffinch.tables.formats import PlainNumbers
from chaffinch.tables.spellings import near_value
from chaffinch.tables.substitutions import Counted, stand_in

if TYPE_CHECKING:
    import pyarrow as pa

_Law = Callable[[object], Any]
_Note = Callable[[str, Counted], None]


class CellFormat(Protocol):
    """A way to write cells: numbers with commas, dates with dots."""

    def read(self, cell: object, /) -> object:
        """Return what a text says; what is no text stays as it is."""
        ...


_Places = NDArray[np.int64]
_ONE_READING = r"^-?[0-9]+(\.([0-9]{1,2}|[0-9]{4,}))?$"


@dataclass
class _Refused(Exception):
    """All places in an array that the question refuses, with its own errors."""

    faults: list[tuple[_Places, InvalidAnswer]]


def numbers_of(
    question: Question,
    column: pa.Array | pa.ChunkedArray | Mapping[str, pa.Array],
    *,
    name: str,
    first_row: int = 1,
    formats: Sequence[CellFormat | None] = (),
    gaps: frozenset[str] = GAPS,
    note: _Note | None = None,
) -> NDArray[Any]:
    """Return the numbers of a column's answers.

    ``formats`` tell how texts write numbers, and texts among ``gaps`` are missing answers. ``note``
    is told of each column how many cells count as something else than what they hold.

    A Bit gives 0 and 1 (uint8; uint32 with a third value for missing ones), a Choice the
    places of values (uint32), a Number shares from 0 to 1 (float64, NaN for counted gaps), and
    Flags one row of 0 and 1 per answer (uint8); Flags may also come as a mapping of yes/no
    columns. Answers that are none are refused all together (InvalidCells).

    >>> import pyarrow as pa
    >>> drink = Choice(["tea", "coffee"], missing="count")
    >>> numbers_of(drink, pa.array(["coffee", "NA"]), name="drink")
    array([1, 2], dtype=uint32)
    """
    if isinstance(column, Mapping) and isinstance(question, Cross):
        return _cells_of(
            question, column, first_row=first_row, formats=formats, gaps=gaps, note=note
        )
    if isinstance(column, Mapping):
        return _flags_of(question, column, first_row=first_row, gaps=gaps, note=note)
    form = formats[0] if formats else None
    kernel = _KERNELS[type(question)] if form is None else _format_kernel(form)
    parts = []
    faults = Faults()
    counted = None if note is None else Counted()
    row = first_row
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        try:
            array = chunk if form is None and _is_numbered(question, chunk) else plain_array(chunk)
            parts.append(kernel(question, array, gaps, counted))
        except _Refused as refused:
            for places, error in refused.faults:
                faults.add(name, error.must_be, error.hint, places + row)
        row += len(chunk)
    faults.refuse()
    if note is not None and counted is not None:
        counted.cells = row - first_row
        note(name, counted)
    if not parts:
        return kernel(question, _nothing(), gaps, None)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _is_numbered(question: Question, array: pa.Array) -> bool:
    """Return whether an array has its different texts apart, each of which is looked up once."""
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(question, Choice):
        looked_up = question.dates is None and not isinstance(question.values, range)
    else:
        looked_up = isinstance(question, Bit)
    if not looked_up:
        return False
    if not (pa.types.is_dictionary(array.type) and is_text(array.type.value_type)):
        return False
    ends = compute.min_max(array.indices).as_py()
    # Whoever made the array may have numbered its texts wrongly: decoding it says so.
    return ends["min"] is None or 0 <= ends["min"] <= ends["max"] < len(array.dictionary)


def _cells_of(
    cross: Cross,
    columns: Mapping[str, pa.Array],
    *,
    first_row: int,
    formats: Sequence[CellFormat | None],
    gaps: frozenset[str],
    note: _Note | None,
) -> NDArray[Any]:
    found: NDArray[Any] = np.zeros(1, np.int64)
    faults = Faults()
    for place, ((name, question), size) in enumerate(
        zip(cross.questions.items(), cross.sizes, strict=True)
    ):
        with faults.collecting():
            own = numbers_of(
                question,
                columns[name],
                name=name,
                first_row=first_row,
                formats=formats[place : place + 1],
                gaps=gaps,
                note=note,
            )
            if isinstance(question, Number):
                levels = len(cross.scores)
                own = np.where(np.isnan(own), levels, own * (levels - 1))
            found = found * size + own
    faults.refuse()
    return found if cross.levels else found.astype(np.uint32)


def _flags_of(
    question: Question,
    columns: Mapping[str, pa.Array],
    *,
    first_row: int,
    gaps: frozenset[str],
    note: _Note | None,
) -> NDArray[np.uint8]:
    if not isinstance(question, Flags):
        raise InvalidInput("question on several columns", "about flags", question.kind)
    rows, *others = {len(column) for column in columns.values()} or {0}
    if others:
        raise InvalidTable("one with columns of the same length", "different lengths")
    matrix = np.zeros((rows, len(question.labels)), np.uint8)
    bit = Bit("no" if question.missing == "none" else COUNT)
    silent = np.zeros(rows, np.int64)
    faults = Faults()
    for name, column in columns.items():
        with faults.collecting():
            found = numbers_of(bit, column, name=name, first_row=first_row, gaps=gaps, note=note)
            held = found == 1
            gap = found == 2
            silent += gap
            if gap.any() and question.missing == REFUSE:
                error = _refusal(question.numbers, None)
                faults.add(name, error.must_be, error.hint, np.flatnonzero(gap) + first_row)
            if name in question.names:
                matrix[:, question.names.index(name)] = held
            elif held.any():
                error = _refusal(question.numbers, [name])
                faults.add(name, error.must_be, error.hint, np.flatnonzero(held) + first_row)
    if question.missing == COUNT:
        half = np.flatnonzero((silent > 0) & (silent < len(columns)))
        if len(half):
            faults.add(next(iter(columns)), PARTLY_MISSING, "", half + first_row)
        matrix[:, -1] = silent > 0
    faults.refuse()
    return matrix


def _format_kernel(
    form: CellFormat,
) -> Callable[[Any, Any, frozenset[str], Counted | None], NDArray[Any]]:
    def kernel(
        question: Question, array: pa.Array, gaps: frozenset[str], counted: Counted | None
    ) -> NDArray[Any]:
        def read(cell: object) -> object:
            return cell if is_missing(cell, gaps) else form.read(cell)

        text = is_text(array.type) and not (
            isinstance(form, PlainNumbers) and _has_one_reading(array)
        )
        tell = _SubstitutionCounter(question, gaps, counted, read)
        if text and isinstance(question, Number):
            law = lambda cell: question.share(read(cell), gaps)  # noqa: E731 - one of two
            return _looked_up(law, array, np.float64, tell)
        if text and isinstance(question, Choice):
            law = lambda cell: question.number(read(cell), gaps)  # noqa: E731
            return _looked_up(law, array, np.uint32, tell)
        return _KERNELS[type(question)](question, array, gaps, counted)

    return kernel


def _has_one_reading(array: pa.Array) -> bool:
    """Return whether it is seen at a glance that no number among some texts has two readings."""
    from pyarrow import compute

    return bool(compute.all(compute.match_substring_regex(array, _ONE_READING)).as_py())


def _bits(
    question: Bit, array: pa.Array, gaps: frozenset[str], counted: Counted | None
) -> NDArray[Any]:
    law = partial(question.number, gaps=gaps)
    kind = np.uint8 if question.shape == "bit" else np.uint32
    return _looked_up(law, array, kind, _SubstitutionCounter(question, gaps, counted))


def _choices(
    question: Choice, array: pa.Array, gaps: frozenset[str], counted: Counted | None
) -> NDArray[np.uint32]:
    values, tell = question.values, _SubstitutionCounter(question, gaps, counted)
    if question.dates is not None:
        array = _whole_hours(array)
    whole = _whole(array) if isinstance(values, range) else None
    if whole is None or (whole.null_count and question.missing == REFUSE):
        return _looked_up(_listed(question, gaps), array, np.uint32, tell)
    places: NDArray[np.int64] = whole.fill_null(values[0]).to_numpy() - np.int64(values[0])
    if len(places) and not (places.min() >= 0 and places.max() < len(values)):
        return _looked_up(_listed(question, gaps), array, np.uint32, tell)
    if whole.null_count:
        tell.add("missing", whole.null_count)
        places[whole.is_null().to_numpy(zero_copy_only=False)] = question.missing_number
    return places.astype(np.uint32)


def _whole_hours(array: pa.Array) -> pa.Array:
    """Return times by their hours, of which there are fewer; Python has no nanoseconds."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_timestamp(array.type):
        return array
    try:
        hours = compute.floor_temporal(array, unit="hour")
        return hours.cast(pa.timestamp("us", array.type.tz))
    except pa.ArrowInvalid:  # of an unknown zone, or a time that Python cannot hold
        return array


def _listed(question: Choice, gaps: frozenset[str]) -> _Law:
    """Return the question's law, quicker for labels spelled as they are listed."""
    if isinstance(question.values, range):
        return partial(question.number, gaps=gaps)
    places = question.places

    def law(answer: object) -> int:
        place = places.get(answer) if isinstance(answer, str) else None
        return question.number(answer, gaps) if place is None else place

    return law


def _whole(array: pa.Array) -> pa.Array | None:
    """Return an array of whole numbers, or None where that needs a closer look."""
    import pyarrow as pa
    from pyarrow import compute

    if is_text(array.type):
        plain = compute.match_substring_regex(array, "^-?[0-9]{1,15}$")
        if not compute.all(plain).as_py():
            return None
    elif not pa.types.is_integer(array.type) or array.type == pa.uint64():
        return None
    return array.cast(pa.int64())


def _shares(
    question: Number, array: pa.Array, gaps: frozenset[str], counted: Counted | None
) -> NDArray[np.float64]:
    values, law = _floats(array, gaps), partial(question.share, gaps=gaps)
    tell = _SubstitutionCounter(question, gaps, counted)
    if values is None:
        return _looked_up(law, array, np.float64, tell)
    silent, infinite = np.isnan(values), np.isinf(values)
    if counted is not None:
        tell.add("missing", int(silent.sum()))
        # What is not clipped is refused below.
        clipped = ((values < question.low) | (values > question.high)) & ~infinite
        tell.add("clipped", int(clipped.sum()))
    if silent.any() and not isinstance(question.missing, str):
        values = np.where(silent, np.float64(question.missing), values)
    if question.clip:
        values = np.clip(values, question.low, question.high)
    inside = (question.low <= values) & (values <= question.high) & ~infinite
    if question.missing == COUNT:
        inside |= silent
    if not inside.all():
        # Each group breaks one rule, so the first of it tells the error of all.
        beyond = ~inside & ~silent & ~infinite
        groups = [np.flatnonzero(group) for group in (silent & ~inside, infinite, beyond)]
        raise _Refused(
            [
                (places, _refusal(law, array[int(places[0])].as_py()))
                for places in groups
                if len(places)
            ]
        )
    shares: NDArray[np.float64] = (values - question.low) / (question.high - question.low)
    return np.minimum(shares, 1.0)


def _floats(array: pa.Array, gaps: frozenset[str]) -> NDArray[np.float64] | None:
    """Return numbers with NaN for gaps, or None where values must be looked at one by one."""
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())  # straight to floats would round twice
    elif pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    text = is_text(array.type)
    number = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if not (text or number or pa.types.is_null(array.type)):
        return None
    found = _cast(array, text=text)
    return _cast(_without_gaps(array, gaps), text=True) if text and found is None else found


def _cast(array: pa.Array, *, text: bool) -> NDArray[np.float64] | None:
    """Return numbers with NaN for nulls, or None where a text is none."""
    import pyarrow as pa

    try:
        # Arrow reads fewer spellings than Python, and reads those alike.
        floats = array.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        return None
    values: NDArray[np.float64] = floats.to_numpy(zero_copy_only=False)
    if text and np.isnan(values).sum() > array.null_count:
        return None  # the word "nan", which may be a gap
    return values


def _without_gaps(array: pa.Array, gaps: frozenset[str]) -> pa.Array:
    import pyarrow as pa
    from pyarrow import compute

    words = compute.utf8_lower(compute.utf8_trim_whitespace(array))
    silent = compute.is_in(words, value_set=pa.array(["", *gaps], words.type))
    return compute.if_else(silent, pa.scalar(None, array.type), array)


def _flags(
    question: Flags, array: pa.Array, gaps: frozenset[str], counted: Counted | None
) -> NDArray[np.uint8]:
    import pyarrow as pa

    tell = _SubstitutionCounter(question, gaps, counted)

    def law(answer: object) -> NDArray[np.uint8]:
        row = np.zeros(len(question.labels), np.uint8)
        row[list(question.numbers(answer, gaps))] = 1
        return row

    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = _flag_lists(question, array)
        if found is not None:
            tell.add("missing", array.null_count)
            return found
    matrix = _looked_up(law, array, np.uint8, tell)
    return matrix.reshape(len(array), len(question.labels))


def _flag_lists(question: Flags, array: pa.Array) -> NDArray[np.uint8] | None:
    """Return the flags of lists of names, or None where a name is not the question's."""
    import pyarrow as pa
    from pyarrow import compute

    if question.missing == REFUSE and array.null_count:
        return None
    names = array.flatten()
    if not is_text(names.type):
        return None
    wanted = pa.array(question.names, names.type)
    places = compute.index_in(names, value_set=wanted)
    if places.null_count:
        return None
    matrix = np.zeros((len(array), len(question.labels)), np.uint8)
    matrix[compute.list_parent_indices(array).to_numpy(), places.to_numpy()] = 1
    if question.missing == COUNT:
        matrix[:, -1] = array.is_null().to_numpy(zero_copy_only=False)
    return matrix


@dataclass(frozen=True)
class _SubstitutionCounter:
    question: Question
    gaps: frozenset[str]
    counted: Counted | None
    read: Callable[[object], object] = lambda cell: cell

    def add(self, how: str, count: int) -> None:
        if self.counted is not None and count:
            self.counted.add(how, count)

    def add_all(self, answers: Sequence[object], places: NDArray[Any]) -> None:
        if self.counted is None:
            return
        times = np.bincount(places, minlength=len(answers))
        for answer, count in zip(answers, times.tolist(), strict=True):
            how = stand_in(self.question, self.read(answer), self.gaps) if count else None
            if how is not None:
                self.counted.add(how, count)
            if how == "unknown":
                self.counted.add_near(near_value(self.question, answer), count)
        if isinstance(self.question, Choice) and self.question.dates in MERGES_YEARS:
            years = {year_of(self.read(answer)) for answer in compress(answers, times)}
            self.counted.years |= {year for year in years if year is not None}


def _looked_up(law: _Law, array: pa.Array, kind: Any, tell: _SubstitutionCounter) -> NDArray[Any]:
    """Return the law of each answer, asking it once for every different one."""
    import pyarrow as pa

    try:
        coded = array.dictionary_encode()
        answers = values_of(coded.dictionary)
        places = coded.indices.fill_null(len(answers)).to_numpy()
        silent = array.null_count > 0
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        places, answers, silent = np.arange(len(array)), values_of(array), False
    table: list[Any] = []
    refused: dict[tuple[str, str], tuple[InvalidAnswer, list[int]]] = {}
    answers = [*answers, None] if silent else answers
    said = np.bincount(places, minlength=len(answers)) > 0
    if not said.all():
        # A dictionary that came with the array may hold what no row says.
        answers, places = list(compress(answers, said)), (np.cumsum(said) - 1)[places]
    for place, answer in enumerate(answers):
        try:
            table.append(law(answer))
        except InvalidAnswer as refusal:
            error, near = refusal, near_value(tell.question, answer)
            if near:
                error = InvalidAnswer(error.must_be, hint=f"{DIFFERS}{near}")
            table.append(None)
            refused.setdefault((error.must_be, error.hint), (error, []))[1].append(place)
    if refused:
        raise _Refused(
            [(np.flatnonzero(np.isin(places, listed)), error) for error, listed in refused.values()]
        )
    tell.add_all(answers, places)
    return np.array(table, kind)[places] if len(array) else np.zeros(0, kind)


def _refusal(law: _Law, answer: object) -> InvalidAnswer:
    try:
        law(answer)
    except InvalidAnswer as error:
        return error
    return InvalidAnswer("an answer to the question")


def _nothing() -> pa.Array:
    import pyarrow as pa

    return pa.array([], pa.string())


_KERNELS: dict[type, Callable[[Any, Any, frozenset[str], Counted | None], NDArray[Any]]] = {
    Bit: _bits,
    Choice: _choices,
    Number: _shares,
    Flags: _flags,
}
