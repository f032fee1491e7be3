"""A table's column of ids, as keyed digests, a batch at a time.

An id is its bytes: a text in UTF-8, the decimal digits of a whole number, or binary as it is.
So 123 in a column of numbers and "123" in a CSV are one id at all publishers. Texts are spelled
by the plan's rule first, which may leave them as they are. Kinds that have more than one
spelling, such as 1.0 and 1, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, InvalidTable, Unquoted, checks
from chaffinch.reach.planning.id_rule import (
    AS_IS,
    NO_LIKENESS,
    IdRule,
    Likeness,
    likeness,
    spell_ids,
)
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.sampling import digest_ids
from chaffinch.tables.arrays import plain_array
from chaffinch.tables.cell_faults import RowNumbers
from chaffinch.tables.objects import ONLY
from chaffinch.tables.read import Table

if TYPE_CHECKING:
    import pyarrow as pa

Digests = NDArray[np.uint64]
_WAYS = ("refuse", "skip")
_SHOWN_ROWS = 5
_NEARLY_ALL = 0.9
_IDS = "one of ids: texts, whole numbers or binary"
_TEXTS = "one of texts or whole numbers, for a rule that spells them"
_VIEWS = "one of whole numbers of at least 1"
_UNFIT_HINT = "mend them, or have them skipped (--unfit skip, unfit='skip')"
_WRONG_COLUMN_HINT = "is this the column with the ids? Name another one (--column, column=); or "
_PLUS_HINT = "; a plan may name a country code for phone numbers without a plus"
_MISSING_HINT = "fill the gaps, or have rows without an id skipped (--missing skip)"
_ID_ITSELF = re.compile(r"[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*|.*@.*")
"""Digits, with or without hexadecimal letters, or an address: no name of a column."""
_USUAL_NAME = re.compile(r"(?i:(user|customer|member|account)?[ _-]?ids?|e?[ _-]?mails?|phone)")
"""Names of columns that are nobody's id, so that they may be shown."""


@dataclass(frozen=True)
class _Rows:
    """How many rows of a table have a fault, and the numbers of the first of them."""

    count: int = 0
    first: tuple[int | str, ...] = ()
    """With the name of the file where there are several."""

    @classmethod
    def where(cls, wrong: NDArray[np.bool_], first: int) -> _Rows:
        places = np.flatnonzero(wrong)
        return cls(len(places), tuple(int(one) + first for one in places[:_SHOWN_ROWS]))

    def followed_by(self, more: _Rows) -> _Rows:
        return _Rows(self.count + more.count, (*self.first, *more.first)[:_SHOWN_ROWS])

    def of_file(self, name: str) -> _Rows:
        return _Rows(self.count, tuple(f"{one} of {name}" for one in self.first))

    @property
    def words(self) -> str:
        listed = ", ".join(map(str, self.first))
        if self.count == 1:
            return f"row {listed}"
        more = ", …" if self.count > len(self.first) else ""
        return f"{self.count:,} rows: {listed}{more}"


_NONE = _Rows()


@dataclass(frozen=True)
class Spelled:
    """What became of the rows of a table: for the publisher's own eyes, as private as the ids."""

    rows: int = 0
    changed: int = 0
    """Ids that the plan's rule spells in another way than the table."""
    missing: _Rows = _NONE
    """Rows without an id."""
    unfit: _Rows = _NONE
    """Rows with an id that does not fit the plan's rule."""
    likeness: Likeness = NO_LIKENESS
    """What the ids look like that are taken as they are."""

    @property
    def ids(self) -> int:
        """Return how many rows have an id that counts."""
        return self.rows - self.missing.count - self.unfit.count

    def followed_by(self, more: Spelled) -> Spelled:
        """Return what became of these rows and of a later batch."""
        return Spelled(
            self.rows + more.rows,
            self.changed + more.changed,
            self.missing.followed_by(more.missing),
            self.unfit.followed_by(more.unfit),
            self.likeness + more.likeness,
        )

    def of_file(self, name: str) -> Spelled:
        """Return the same with the name of the file in which the rows stand."""
        return replace(self, missing=self.missing.of_file(name), unfit=self.unfit.of_file(name))


@dataclass(frozen=True)
class IdColumns:
    """Where the ids stand in a table, and what becomes of a row without a proper one."""

    column: str | None = None
    """The column with the ids; not needed where there is only one."""
    counts: str | None = None
    """A column that says how often each id was seen; without one every row is one view."""
    missing: str = "refuse"
    """What becomes of a row without an id, or with a blank one: ``refuse`` or ``skip``."""
    unfit: str = "refuse"
    """What becomes of an id that does not fit the plan's rule."""

    def reader(self, table: Table, plan: ReachPlan, key: bytes, *, first_row: int = 1) -> IdReader:
        """Return what reads the ids of a table, as a plan has them."""
        return IdReader(
            table,
            key=key,
            column=self.column,
            counts=self.counts,
            most=plan.audience.frequencies,
            missing=self.missing,
            unfit=self.unfit,
            rule=plan.ids,
            first_row=first_row,
        )


@dataclass(frozen=True)
class IdReader:
    """Reads the ids of a table, each as often as it was viewed, up to ``most`` times.

    Without ``column`` the only column is the one with the ids. ``counts`` names a column that
    says how often each id was seen; without it every row is one view. A ``missing`` or blank
    id is refused, or skipped, and so is one that is ``unfit`` for the plan's ``rule``.

    >>> from chaffinch.tables.read import open_table
    >>> table = open_table({"id": [7, 8], "views": ["3", "1"]})
    >>> reader = IdReader(table, key=bytes(16), counts="views", most=2)
    >>> [len(reader.digests(*batch)[0]) for batch in reader.batches()]
    [3]
    """

    table: Table
    key: bytes = field(repr=False)
    column: str | None = None
    counts: str | None = None
    most: int = 1
    missing: str = "refuse"
    unfit: str = "refuse"
    rule: IdRule = AS_IS
    first_row: int = 1
    """The number of the table's first row, in a file of which it is a piece."""

    def __post_init__(self) -> None:
        checks.choice("missing", self.missing, _WAYS)
        checks.choice("unfit", self.unfit, _WAYS)
        for parameter in ("column", "counts"):
            name: object = getattr(self, parameter)
            if not (name is None or isinstance(name, str)):
                raise InvalidInput(parameter, "the name of a column", type(name).__name__)
        for name in filter(None, (self.counts, self.column)):
            self.table.batches([name])  # raises if there is no such column
        if self.column is not None:
            if self.column == self.counts:
                raise InvalidInput("counts", "in another column than the ids", self.counts)
            return
        others = [name for name in self.table.columns if name != self.counts]
        if len(others) != 1:
            raise InvalidInput(
                "column",
                "named where a table has several",
                Unquoted(f"{len(others)} columns that may hold the ids"),
                hint=_naming(others, self.table),
            )
        if self.table.named_by_first_line and _ID_ITSELF.fullmatch(others[0]):
            raise InvalidTable(
                "one with a name in its first line",
                "a first line that looks like an id",
                hint="add a line with the name of the column, or name it (--column, column=)",
            )

    @property
    def wanted(self) -> list[str]:
        """Return the names of the columns that are read."""
        return [self._ids] if self.counts is None else [self._ids, self.counts]

    def batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the columns that are read, in batches, each with its first row's number."""
        first = self.first_row
        for batch in self.table.batches(self.wanted):
            yield first, batch
            first += batch.num_rows

    def digests(self, first: int, batch: pa.RecordBatch) -> tuple[Digests, Spelled]:
        """Return the digests of a batch's ids, each repeated as often as it counts.

        With them comes what became of the rows. What must be refused is left out like what is
        skipped: ``refuse_faults`` knows them all when the table was read.
        """
        texts = _bytes_of(batch.column(self._ids), self._shown)
        if first == 1 and _were_numbers(texts):
            raise InvalidTable(
                _IDS,
                "texts such as 12.0, nearly all of them",
                column=self._shown,
                hint="ids that a program took for numbers with a fraction: read them as text",
            )
        spelled, what = self._spelled(texts, first)
        data, offsets = _bytes_and_offsets(spelled)
        there = (np.diff(offsets) > 0) & _present(spelled)
        found = digest_ids(data, offsets, self.key)
        if not there.all():
            found = found[there]
        if self.counts is None:
            return found, what
        views = _views(batch.column(self.counts), self.counts, first, there, self._numbers)
        # What is seen more often than that makes no difference.
        return np.repeat(found, np.minimum(views, self.most).astype(np.int64)), what

    def refuse_faults(self, what: Spelled) -> None:
        """Refuse a table for all rows without an id, or with an unfit one, that are not skipped."""
        missing = what.missing if self.missing == "refuse" else _NONE
        unfit = what.unfit if self.unfit == "refuse" else _NONE
        if not (missing.count or unfit.count):
            return
        faults, hints = [], []
        if unfit.count:
            faults.append(f"ids that do not fit the rule {self.rule.name!r} in {unfit.words}")
            hardly_any = unfit.count > _NEARLY_ALL * (what.rows - what.missing.count)
            asked = _WRONG_COLUMN_HINT if hardly_any and len(self.table.columns) > 1 else ""
            hints.append(asked + _UNFIT_HINT + (_PLUS_HINT if self._plus_needed else ""))
        if missing.count:
            faults.append(f"none in {missing.words}")
            hints.append(_MISSING_HINT)
        rule = "" if self.rule == AS_IS else f", by the rule {self.rule.name!r}"
        raise InvalidTable(
            f"one with an id in every row{rule if unfit.count else ''}",
            f"{', and '.join(faults)}, {self._numbers.counted}",
            column=self._shown,
            hint="; ".join(hints),
        )

    @property
    def _plus_needed(self) -> bool:
        return self.rule.name == "phone" and self.rule.country_code is None

    def _spelled(self, texts: pa.Array, first: int) -> tuple[pa.Array, Spelled]:
        """Return ids as the plan's rule spells them, and what became of them."""
        import pyarrow as pa
        from pyarrow import compute

        if self.rule == AS_IS:
            gaps = ~((np.diff(_bytes_and_offsets(texts)[1]) > 0) & _present(texts))
            missing = _Rows.where(gaps, self._numbers.of(first))
            return texts, Spelled(len(texts), missing=missing, likeness=likeness(texts))
        if pa.types.is_binary(texts.type) or pa.types.is_large_binary(texts.type):
            raise _refused(_TEXTS, texts.type, self._shown)
        try:
            spelled = spell_ids(texts, self.rule)
        except pa.ArrowException:
            # Its own words may repeat a cell.
            raise InvalidTable(_TEXTS, "bytes that are none", column=self._shown) from None
        given, fit = _present(texts), _present(spelled)
        blank = ~given | (fit & (np.diff(_bytes_and_offsets(spelled)[1]) == 0))
        differs = compute.not_equal(texts, spelled).fill_null(False)  # noqa: FBT003 - pyarrow's
        changed = differs.to_numpy(zero_copy_only=False) & ~blank
        shown = self._numbers.of(first)
        missing, unfit = (_Rows.where(some, shown) for some in (blank, given & ~fit))
        return spelled, Spelled(len(texts), int(changed.sum()), missing, unfit)

    @property
    def _numbers(self) -> RowNumbers:
        return self.table.row_numbers

    @property
    def _ids(self) -> str:
        if self.column is not None:
            return self.column
        return next(name for name in self.table.columns if name != self.counts)

    @property
    def _shown(self) -> str | None:
        """Return the name for messages: a first line that nobody asked for may be an id."""
        unasked = self.column is None
        hidden = unasked and (self.table.named_by_first_line or self._ids == ONLY)
        return None if hidden else self._ids


def _naming(names: list[str], table: Table) -> str:
    """Return how to name the column of ids; a name that may be a cell is not shown."""
    for name in names:
        if _USUAL_NAME.fullmatch(name):
            return f"add --column {name} (column={name!r})"
    return f"name the column with the ids (--column, column=). {table.known_columns}"


def _bytes_of(array: pa.Array, column: str | None) -> pa.Array:
    """Return ids as an array of texts or binary, which lie in memory as bytes and offsets."""
    import pyarrow as pa

    array = _plain_array(array, _IDS, column)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return array.cast(pa.string())
    if pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    if kind in {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}:
        return array
    raise _refused(_IDS, kind, column)


def _were_numbers(texts: pa.Array) -> bool:
    """Return whether nearly all ids look like whole numbers that came through floats: 12.0."""
    import pyarrow as pa
    from pyarrow import compute

    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return False
    alike = compute.match_substring_regex(texts, r"^-?[0-9]+(\.0*|(\.[0-9]+)?[eE]\+[0-9]+)$")
    gap = compute.match_substring_regex(texts, r"^([nN][aA][nN])?$")
    found = int(compute.sum(alike).as_py() or 0)
    others = len(texts) - texts.null_count - int(compute.sum(gap).as_py() or 0)
    return bool(0 < found >= _NEARLY_ALL * others)


def _plain_array(array: pa.Array, must_be: str, column: str | None) -> pa.Array:
    import pyarrow as pa

    if isinstance(array.type, pa.BaseExtensionType):
        # What it stands for has spellings of its own, of which its storage is only one.
        raise _refused(must_be, array.type, column)
    try:
        return plain_array(array)
    except pa.ArrowException:
        # Its own words may repeat a cell.
        raise _refused(must_be, array.type, column) from None


def _refused(must_be: str, kind: pa.DataType, column: str | None) -> InvalidTable:
    # Only the first word of a type: the rest may hold names of fields, which may be anything.
    name = re.split(r"[<\[(]", str(kind))[0]
    hint = "convert it to text, in the same way at all publishers" if must_be == _IDS else ""
    return InvalidTable(must_be, f"the type {name}", column=column, hint=hint)


def _bytes_and_offsets(
    array: pa.Array,
) -> tuple[NDArray[np.uint8], NDArray[np.int32] | NDArray[np.int64]]:
    import pyarrow as pa

    _, places, content = array.buffers()
    data = np.frombuffer(content or b"", np.uint8)
    if not len(array):
        return data, np.zeros(1, np.int64)
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets: NDArray[Any] = np.frombuffer(places, np.int64 if large else np.int32)
    return data, offsets[array.offset : array.offset + len(array) + 1]


def _present(array: pa.Array) -> NDArray[np.bool_]:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    found: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _views(
    array: pa.Array, column: str, first: int, there: NDArray[np.bool_], numbers: RowNumbers
) -> NDArray[np.int64] | NDArray[np.uint64]:
    import pyarrow as pa
    from pyarrow import compute

    array = _plain_array(array, _VIEWS, column)
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        digits = compute.match_substring_regex(array, "^[0-9]{1,18}$")
        array = compute.if_else(digits, array, pa.scalar(None, kind)).cast(pa.int64())
    elif pa.types.is_null(kind):
        array = array.cast(pa.int64())
    elif not pa.types.is_integer(kind):
        raise _refused(_VIEWS, kind, column)
    views: NDArray[np.int64] = array.fill_null(0).to_numpy(zero_copy_only=False)
    wrong = (views < 1) & there
    if wrong.any():
        row = numbers.of(first + int(wrong.argmax()))
        got = f"something else in row {row}, {numbers.counted}"
        raise InvalidTable(_VIEWS, got, column=column)
    return views[there]
