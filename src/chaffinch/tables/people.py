"""Draw the same number of rows of each person, at random.

Rows of one person may stand anywhere in a table, and tables may be larger than memory. So rows
are first dealt into buckets by a keyed hash of the person, and each bucket is then read by
itself: of every person the rows with the smallest random words are kept, and whoever has too few
gets rows without answers.
"""

from __future__ import annotations

import re
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput, InvalidTable, checks
from chaffinch.questions import is_missing
from chaffinch.sampling import secure_words
from chaffinch.tables.arrays import UNREADABLE, plain_array, values_of
from chaffinch.tables.cell_faults import Faults, all_faults
from chaffinch.tables.checking import AnswerColumns, read_answers
from chaffinch.tables.fingerprint import Fingerprint
from chaffinch.tables.parallel import Progress
from chaffinch.tables.read import Table

if TYPE_CHECKING:
    import pyarrow as pa

_PERSON, _DRAWN = "\0person", "\0drawn"
"""Names of columns that no table can have."""
_BUCKETS = 64
_ROWS = 1 << 18
"""So many rows of a bucket are looked at together, with the ones that were kept before.

A table of no more rows is one bucket.
"""
_WHOLE = re.compile(r"^(-?[0-9]+)\.0+$", re.ASCII)
_RULE = "the name of a person"
_HINT = "rows without one belong to nobody: leave them out of the table, or name another column"


@dataclass(frozen=True)
class People:
    """A table with the same number of rows of everybody, and what it was made from."""

    table: Table
    people: int
    rows: int
    """How many rows the people had."""
    contributions: int

    @property
    def words(self) -> str:
        """Return how rows became people, for whoever holds the table."""
        each = "1 row" if self.contributions == 1 else f"{self.contributions} rows"
        fewer = "" if self.contributions == 1 else ", empty ones where there are fewer"
        return (
            f"{self.people:,} people have {self.rows:,} rows; {each} of each, drawn at random"
            f"{fewer}"
        )


def sample_people(
    table: Table,
    person: str,
    contributions: int = 1,
    *,
    places: Sequence[AnswerColumns],
    progress: Progress | None = None,
) -> People:
    """Return ``contributions`` rows of each person, with the columns of the answers.

    ``person`` is the column that tells people apart: by its text, without spaces around it, and
    17.0 is 17. Two other spellings are two people. All rows without a person are refused at
    once, and with them all cells that are no answers.

    >>> from chaffinch.questions import Bit
    >>> from chaffinch.tables.read import open_table
    >>> visits = open_table({"who": ["a", "b", "a", "a"], "tea": ["yes", "no", "yes", "yes"]})
    >>> found = sample_people(visits, "who", places=[AnswerColumns(Bit(), ("tea",), "tea")])
    >>> found.people, [sorted(part["tea"].to_pylist()) for part in found.table.batches(["tea"])]
    (2, [['no', 'yes']])
    """
    each = checks.whole("contributions", contributions, least=1)
    wanted = list(dict.fromkeys(name for place in places for name in place.columns))
    if person in wanted:
        raise InvalidInput("column of people", "another one than that of the answers", person)
    # Sizes say nothing of how many rows a packed file holds.
    small = table.rows is not None and table.rows <= _ROWS
    buckets = [_Rows() for _ in range(1 if small else _BUCKETS)]
    rows = _deal(table, (person, wanted), places, buckets, progress)
    kept = _Rows()
    people = sum(_keep(bucket, each, kept) for bucket in buckets)
    sampled = replace(
        table,
        columns=tuple(wanted),
        rows=people * each,
        _stream=kept.stream,
        named_by_first_line=False,
        names_may_be_cells=False,
        readable_again=True,
    )
    return People(sampled, people, rows, each)


class _Rows:
    """Batches of rows in a file without a name, which only its owner can read."""

    def __init__(self) -> None:
        with _temporary("make"):
            self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this
        weakref.finalize(self, _close, self._file)

    def add(self, batch: pa.RecordBatch) -> None:
        """Write some rows. Each batch is a stream of its own: cells of JSON have many types."""
        import pyarrow as pa

        with _temporary("write"), pa.ipc.new_stream(self._file, batch.schema) as writer:
            writer.write_batch(batch)
        with _temporary("write"):
            self._file.flush()

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        size, place = self._file.seek(0, 2), 0
        while place < size:
            # Read whole before it is handed out: another reader may move on in the same file.
            with _temporary("read"):
                self._file.seek(place)
                with pa.ipc.open_stream(self._file) as reader:
                    (batch,) = list(reader)
                place = self._file.tell()
            yield batch

    def stream(self, columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
        for batch in self.batches():
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows).select(list(columns))


@contextmanager
def _temporary(verb: str) -> Iterator[None]:
    """Say of a fault of a file without a name that it is one, and where it was to be."""
    try:
        yield
    except OSError as error:
        fault = storage_fault("temporary file", error, verb=verb)
        fault.hint = f"temporary files are in {tempfile.gettempdir()}: set TMPDIR to another folder"
        raise fault from None


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what was left to be written is of no use any more
        file.close()


def _deal(
    table: Table,
    read: tuple[str, Sequence[str]],
    places: Sequence[AnswerColumns],
    buckets: Sequence[_Rows],
    progress: Progress | None,
) -> int:
    """Put every row into the bucket of its person, and return how many there are.

    What is ``read`` of the table: the column of people, and those of the answers.
    """
    import pyarrow as pa

    person, columns = read
    words = secure_words()
    hashes = Fingerprint(words.take(4).tobytes())
    done = 0
    with all_faults() as faults:
        for batch in table.batches([person, *columns]):
            empty = Faults()
            names = _names(batch.column(person), person, table.gaps, done + 1, empty)
            with faults.collecting(table.row_numbers):
                empty.refuse()
            with faults.collecting():
                read_answers(places, done + 1, batch)
            drawn = pa.array(words.take(batch.num_rows))
            cells = [plain_array(batch.column(name)) for name in columns]
            whole = pa.record_batch([names, drawn, *cells], names=[_PERSON, _DRAWN, *columns])
            place = hashes.words(person, names) % np.uint64(len(buckets))
            order = np.argsort(place, kind="stable")
            ends = np.searchsorted(place[order], np.arange(len(buckets) + 1))
            dealt = whole.take(pa.array(order)) if len(buckets) > 1 else whole
            for bucket, start, end in zip(buckets, ends[:-1], ends[1:], strict=True):
                if end > start:
                    bucket.add(dealt.slice(int(start), int(end - start)))
            done += batch.num_rows
            if progress is not None:
                progress(done, table.rows)
    return done


def _names(
    column: pa.Array, person: str, gaps: frozenset[str], first: int, faults: Faults
) -> pa.Array:
    """Return the people of some rows as texts; count the rows without one."""
    import pyarrow as pa
    from pyarrow import compute

    plain = plain_array(column)
    if pa.types.is_nested(plain.type):
        raise InvalidTable("of texts or numbers that tell people apart", "lists", column=person)
    coded = plain.dictionary_encode()
    held = [_name(value, gaps) for value in values_of(coded.dictionary)]
    names = pa.array(held, pa.large_string()).take(coded.indices)
    empty = compute.is_null(names).to_numpy(zero_copy_only=False)
    if empty.any():
        faults.add(person, _RULE, _HINT, first + np.flatnonzero(empty))
    return names


def _name(value: object, gaps: frozenset[str]) -> str | None:
    if value is UNREADABLE or is_missing(value, gaps):
        return None
    # Frames keep whole numbers with gaps as floats, and write them with a point.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _WHOLE.sub(r"\1", str(value).strip())


def _keep(bucket: _Rows, each: int, target: _Rows) -> int:
    """Write ``each`` rows of every person in a bucket, and return how many people there are."""
    kept: pa.Table | None = None
    waiting: list[pa.RecordBatch] = []
    for batch in bucket.batches():
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= _ROWS:
            kept, waiting = _smallest(_joined(kept, waiting), each), []
    if waiting:
        kept = _smallest(_joined(kept, waiting), each)
    if kept is None:
        return 0
    counts = np.bincount(_codes(kept))
    answers = kept.drop_columns([_PERSON, _DRAWN])
    for batch in _joined(answers, _empty_rows(answers, int((each - counts).sum()))).to_batches():
        target.add(batch)
    return len(counts)


def _smallest(rows: pa.Table, each: int) -> pa.Table:
    """Return of each person the rows that were drawn first."""
    import pyarrow as pa

    people = _codes(rows)
    order = np.lexsort((rows.column(_DRAWN).to_numpy(), people))
    ordered = people[order]
    starts = np.searchsorted(ordered, ordered)
    first = order[np.arange(len(order)) - starts < each]
    # Rows in their old order: that of people would tell who is who.
    return rows.take(pa.array(np.sort(first)))


def _codes(rows: pa.Table) -> NDArray[np.int64]:
    """Return a number for each row that is the same for rows of one person."""
    coded = rows.column(_PERSON).combine_chunks().dictionary_encode()
    found: NDArray[np.int64] = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _joined(table: pa.Table | None, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    import pyarrow as pa

    parts = [pa.Table.from_batches([batch]) for batch in batches]
    if table is not None:
        parts.insert(0, table)
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowTypeError:
        types = {n: {p.schema.field(n).type for p in parts} for n in parts[0].column_names}
        mixed = {name for name, found in types.items() if len(found - {pa.null()}) > 1}
        return pa.concat_tables(
            [_as_text(part, mixed) for part in parts], promote_options="default"
        )


def _as_text(part: pa.Table, mixed: set[str]) -> pa.Table:
    import pyarrow as pa

    columns: list[Any] = [
        part.column(name).cast(pa.large_string()) if name in mixed else part.column(name)
        for name in part.column_names
    ]
    return pa.table(columns, names=part.column_names)


def _empty_rows(like: pa.Table, count: int) -> list[pa.RecordBatch]:
    import pyarrow as pa

    if not count:
        return []
    nothing = [pa.nulls(count, field.type) for field in like.schema]
    return [pa.record_batch(nothing, schema=like.schema)]
