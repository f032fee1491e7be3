"""Tables to messages on a cluster: every task encodes some rows, and writes parts of the batch.

The words of a task follow from the answers that it encodes, so a task that runs again sends the
same messages, and one that finds other answers draws others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.locations import Place
from chaffinch.encoding.bulk import (
    answer_places,
    batch_of_group,
    encode_numbers,
    rows_per_batch,
)
from chaffinch.engines.spark.frames import (
    AnyPiece,
    FrameRows,
    is_frame,
    open_piece,
    reading_rows,
    several_files,
)
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.targets import Target, filling, finish_batch, standing_batch
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import InvalidInput, InvalidTable, checks
from chaffinch.plans.expansion import answers_of_parts
from chaffinch.plans.plan import Plan
from chaffinch.tables.cell_faults import Faults, all_faults
from chaffinch.tables.checking import AnswerColumns, answer_batches, read_answers
from chaffinch.tables.parallel import Progress
from chaffinch.tables.pieces import TableFiles
from chaffinch.wire.batch_folders import (
    MOST_PARTS,
    PART_MESSAGES,
    BatchPart,
    cut_parts,
    part_name,
    write_part,
)
from chaffinch.wire.batches import BatchFacts, Codes, new_name
from chaffinch.wire.messages import Origin


@dataclass(frozen=True)
class _Done:
    parts: tuple[BatchPart, ...] = ()
    reports: int = 0
    faults: InvalidTable | None = None


def prepare_encoding(
    source: Any,
    plan: Plan,
    target: Place,
    *,
    round: int | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
) -> TableFiles | FrameRows:
    """Return the files of a source, or a frame; refuse what needs no cluster to be known."""
    Origin.of(plan, round)
    if standing_batch(target) is not None:
        raise InvalidInput(
            "target",
            "another folder than that of a batch",
            target.name,
            hint="name another folder: what is there cannot be made again",
        )
    rows: TableFiles | FrameRows
    if is_frame(source):
        rows = FrameRows.of(source)
    else:
        rows = source if isinstance(source, TableFiles) else TableFiles.of(source)
        checks.whole("number of files and pieces of them", len(rows.pieces), most=MOST_PARTS)
    places, group = answer_places(plan, rows.first, columns)
    read = [name for place in (*places, *filter(None, [group])) for name in place.columns]
    rows.first.batches(list(dict.fromkeys(read)))  # raises if there is no such column
    return rows


def encode_table(
    job: Job,
    rows: TableFiles | FrameRows,
    plan: Plan,
    target: Place,
    *,
    round: int | None = None,  # noqa: A002
    columns: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> BatchFacts:
    """Write the messages of all rows into a folder, and return the facts of the batch."""
    facts = Origin.of(plan, round).facts("encoded", 0, new_name())
    work = _Encoding(plan, facts, *answer_places(plan, rows.first, columns))
    source = rows.pieces if isinstance(rows, TableFiles) else rows
    with filling(target, "encoded") as folder:
        with reading_rows(
            job, source, work.columns, folder=folder.folder, progress=progress
        ) as pieces:
            done = _encode_pieces(job, replace(work, target=folder), pieces, progress)
        facts = replace(facts, reports=sum(one.reports for one in done))
        if not facts.reports:
            raise InvalidTable("one with at least one row", "no rows", hint="check the file")
        finish_batch(job, folder, facts, [part for one in done for part in one.parts])
    return facts


def _encode_pieces(
    job: Job, work: _Encoding, pieces: Sequence[AnyPiece], progress: Progress | None
) -> list[_Done]:
    checks.whole("number of files and pieces of them", len(pieces), most=MOST_PARTS)
    sizes = [piece.rows for piece in pieces if piece.rows is not None]
    known = sizes if len(sizes) == len(pieces) else None
    done = job.map(work, list(enumerate(pieces)), sizes=known, progress=progress)
    _refuse_faults(pieces, done)
    return done


def _refuse_faults(pieces: Sequence[AnyPiece], done: Sequence[_Done]) -> None:
    several = several_files(pieces)
    with all_faults() as faults:
        for piece, one in zip(pieces, done, strict=True):
            with faults.collecting():
                if one.faults is not None:
                    raise one.faults.in_file(piece.name) if several else one.faults


# ----------------------------------------------------------------------------
# On executors.


@dataclass(frozen=True)
class _Encoding:
    plan: Plan
    facts: BatchFacts
    places: tuple[AnswerColumns, ...]
    group: AnswerColumns | None
    target: Target | None = None

    @property
    def columns(self) -> list[str]:
        places = self.places if self.group is None else (*self.places, self.group)
        return [name for place in places for name in place.columns]

    def __call__(self, ring: Keyring, numbered: tuple[int, AnyPiece]) -> _Done:
        assert self.target is not None  # noqa: S101 - it is there before tasks are
        number, piece = numbered
        rows: list[int] = []
        try:
            with all_faults() as faults:
                codes = self._codes(ring, number, piece, rows, faults)
                parts = [
                    write_part(
                        self.target.folder,
                        part_name(number, serial, self.target.token),
                        self.facts,
                        part,
                    )
                    for serial, part in enumerate(cut_parts(codes, PART_MESSAGES))
                ]
        except InvalidTable as error:
            return _Done(faults=error)
        return _Done(tuple(parts), sum(rows))

    def _codes(
        self, ring: Keyring, number: int, piece: AnyPiece, rows: list[int], faults: Faults
    ) -> Iterator[Codes]:
        table, places = open_piece(ring, piece), self.places
        if self.group is not None:
            places = (*places, self.group)
        for first, whole in answer_batches(table, places, rows=rows_per_batch(self.plan)):
            batch, numbers = whole, list[NDArray[Any]]()
            with faults.collecting():
                row = first + piece.first_row - 1
                batch = batch_of_group(self.plan, self.group, row, whole)
                numbers = read_answers(self.places, row, batch)
            if faults or not batch.num_rows:  # after a fault nothing is sent: the rest is checked
                continue
            words = ring.words("encode", number, _digest(first, numbers))
            spread = answers_of_parts(self.plan.parts, numbers)
            rows.append(batch.num_rows)
            yield encode_numbers(self.plan, spread, batch.num_rows, words).codes()


def _digest(first: int, numbers: Sequence[NDArray[Any]]) -> bytes:
    # Type and shape come before the bytes, so that different answers never hash the same bytes.
    found = hashlib.sha256(first.to_bytes(8, "little"))
    for one in numbers:
        found.update(f"{one.dtype.str}{one.shape}|".encode())
        found.update(np.ascontiguousarray(one).tobytes())
    return found.digest()
