"""The engine of one machine: threads, files, and a fixed amount of memory."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from chaffinch.analysis.tally import check_tally
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.files import AnyPath
from chaffinch.disk.protected import kind_of, refuse_to_overwrite
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.encoding.bulk import (
    add_up_batch,
    answer_places,
    batch_of_group,
    encode_batch,
    rows_per_batch,
)
from chaffinch.errors import InvalidFile, InvalidInput, InvalidTable, checks
from chaffinch.plans.plan import Plan, require_devices, require_plan
from chaffinch.sampling import secure_words
from chaffinch.shuffling.on_disk import Buckets
from chaffinch.shuffling.record import Record, usual_record
from chaffinch.tables.cell_faults import all_faults
from chaffinch.tables.checking import AnswerColumns, answer_batches, read_answers
from chaffinch.tables.parallel import Progress, cores, mapped
from chaffinch.tables.pieces import TableFiles, names_files
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.batches import BatchFacts, Codes, Counts, digest_of, new_name
from chaffinch.wire.message_reader import MessageReader, Messages
from chaffinch.wire.message_writer import MessageWriter
from chaffinch.wire.messages import Origin, Tally

if TYPE_CHECKING:
    import pyarrow as pa

    from chaffinch.reach.analyzer.logos import Logos
    from chaffinch.reach.planning.reach_plan import ReachPlan
    from chaffinch.wire.filter_files import Filter


_Made = TypeVar("_Made")
_Places = Sequence[AnswerColumns]
_MEMORY = 256 << 20
_NO_CODES = np.empty(0, np.uint32)


@dataclass(frozen=True)
class Local:
    """Encode, shuffle and tally with the cores of this machine.

    ``memory`` is how many bytes of messages a shuffle holds before it moves them to a file
    without a name beside its target.
    """

    workers: int = field(default_factory=cores)
    memory: int = _MEMORY

    name: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        checks.whole("number of workers", self.workers, least=1, most=1024)
        checks.whole("memory", self.memory, least=1, most=1 << 50)

    def encode(
        self,
        source: Any,
        plan: Plan,
        target: Any,
        *,
        round: int | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> BatchFacts:
        """Read a table and write the messages of its reports; nothing is left of a failure.

        A folder, or a pattern such as ``part-*.csv``, is a table in several files. The messages are
        in no special order, but not shuffled: they are for the shuffler only. A batch that stands
        where they are to go stays, also if it came meanwhile.
        """
        require_devices(plan).verify()
        origin = Origin.of(plan, round)
        rows = _opened(source)
        files = rows.pieces if isinstance(rows, TableFiles) else ()
        _check_apart([source, *(file.path for file in files)], target)

        def encoded(places: _Places, row: int, batch: pa.RecordBatch) -> Codes:
            return encode_batch(plan, places, row, batch, secure_words()).codes()

        with (
            _writer(target, origin, "encoded") as writer,
            closing(self._made(encoded, rows, plan, columns, progress)) as made,
        ):
            for codes, reports in made:
                writer.write(_NO_CODES if codes is None else codes, reports)
        return writer.facts

    def add_up(
        self,
        source: Any,
        plan: Plan,
        *,
        round: int | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Tally:
        """Return the totals of a table with the noise of a plan for totals, drawn once.

        Exact sums are kept in memory only, and are gone with this call. Every call draws noise
        anew: it is another release of the same table, and no record or ledger knows of it.
        ``chaffinch.run`` keeps both.
        """
        require_plan(plan).verify()
        origin = Origin.of(plan, round)

        def added_up(places: _Places, row: int, batch: pa.RecordBatch) -> list[Counts]:
            return add_up_batch(plan, places, row, batch, secure_words())

        reports = 0
        sums: list[Counts] = []
        with closing(self._made(added_up, _opened(source), plan, columns, progress)) as made:
            for some, count in made:
                reports += count
                if some is not None:
                    sums = [a + b for a, b in zip(sums, some, strict=True)] if sums else some
        origin.check_crowd(reports, 0)
        released = [
            part.protocol.add_noise(part.question, exact, secure_words())
            for part, exact in zip(plan.parts, sums, strict=True)
        ]
        counts = np.concatenate(released)
        found = Tally(plan.id, reports, counts, new_name(), origin.round, noisy=True)
        return check_tally(found, plan)

    def _made(
        self,
        make: Callable[[_Places, int, pa.RecordBatch], _Made],
        rows: Table | TableFiles,
        plan: Plan,
        columns: Mapping[str, str] | None,
        progress: Progress | None,
    ) -> Generator[tuple[_Made | None, int], None, None]:
        """Yield what is made of each batch of answers, and of how many reports.

        Once a cell is no answer, nothing is made any more, and all such cells are raised at once.
        """
        first = rows.first if isinstance(rows, TableFiles) else rows
        places, group = answer_places(plan, first, columns)

        def work(numbered: _NumberedRows) -> tuple[_Made | None, int]:
            row, batch, count = numbered.row, numbered.batch, 0
            with faults.collecting(), _naming_file(numbered.file):
                batch = batch_of_group(plan, group, row, batch)
                count = batch.num_rows
                if faults:  # nothing is sent any more: what is left is only checked
                    read_answers(places, row, batch)
                elif count:
                    return make(places, row, batch), count
            return None, count

        done = 0
        total = rows.rows if group is None else None
        read = places if group is None else (*places, group)
        with (
            all_faults() as faults,
            mapped(work, _batches(rows, read, rows_per_batch(plan)), self.workers) as results,
        ):
            for made, reports in results:
                yield made, reports
                done += reports
                if progress is not None:
                    progress(done, total)
            if not done and not faults:
                raise InvalidTable("one with at least one row", "no rows", hint="check the file")

    def shuffle(
        self,
        sources: Sequence[Any],
        plan: Plan,
        target: Any,
        *,
        record: AnyPath | None = None,
        progress: Progress | None = None,
    ) -> BatchFacts:
        """Write the messages of encoded files in a uniform order; refuse too small a crowd.

        Nothing is written to the target before everything is read and proven whole, the crowd
        is counted, and the inputs are in the ``record`` of this shuffler (by default one for
        the user and the plan), which refuses them a second time. A batch that stands where
        this one is to go stays, unless it is the same one, made by a shuffle that was cut short.
        """
        tell = progress or _ignore_progress
        messages = Messages(sources, plan, "encoded")
        kept = usual_record(plan.id) if record is None else record
        _check_apart([*sources, kept], target)
        with Buckets(
            np.min_scalar_type(plan.codes - 1),
            secure_words(),
            folder=_spill_folder(target),
            memory=self.memory,
            workers=self.workers,
        ) as buckets:
            # The claim comes after every input was read and proven whole, so that inputs that are
            # refused are not used up.
            buckets.fill(messages.batches(), lambda done: tell(done, None))
            messages.check_crowd()
            made = Record(kept).claim(
                list(messages.digests),
                messages.origin.facts("shuffled", messages.reports, messages.name),
                messages.counts,
                instead_of=_standing_batch(target),
            )
            with (
                _writer(target, messages.origin, "shuffled", made.name) as writer,
                closing(buckets.ordered()) as pieces,
            ):
                writer.write(_NO_CODES, messages.reports)
                done = 0
                for codes in pieces:
                    writer.write(codes.astype(np.uint32), 0)
                    done += len(codes)
                    tell(done, len(buckets))
                writer.expect(digest_of(made, messages.counts))
        # After the batch has its name: a shuffle that was killed before may be run again.
        Record(kept).finish(made.name)
        return writer.facts

    def tally(
        self, sources: Sequence[Any], plan: Plan, *, progress: Progress | None = None
    ) -> Tally:
        """Return the tally of shuffled files; messages that were not shuffled are refused."""
        tell = progress or _ignore_progress
        messages = Messages(sources, plan, "shuffled")
        done = 0
        for codes in messages.batches():
            done += len(codes)
            tell(done, None)
        counts = messages.counts.dense()
        found = Tally(plan.id, messages.reports, counts, messages.name, messages.round)
        return check_tally(found, plan)

    # Audiences load when they are asked for: a survey starts without them.

    def make_filter(self, source: Any, plan: ReachPlan, **terms: Any) -> Filter:
        """Return the filter of a publisher's ids; it must be recorded before anybody gets it."""
        # Late, as below: a survey starts without the rooms of audiences.
        from chaffinch.reach.publisher.filter_making import make_filter

        return make_filter(source, plan, **terms)

    def count_logos(
        self, filters: Sequence[Any], plan: ReachPlan, *, progress: Progress | None = None
    ) -> Logos:
        """Return the logos of one filter from each publisher, or of files of them."""
        from chaffinch.reach.analyzer.logos import count_logos
        from chaffinch.wire.filter_files import Filter, load_filter

        opened = [one if isinstance(one, Filter) else load_filter(one) for one in filters]
        return count_logos(opened, plan, workers=self.workers, progress=progress)


@dataclass(frozen=True)
class _NumberedRows:
    row: int
    batch: pa.RecordBatch
    file: str = ""


def _opened(source: Any) -> Table | TableFiles:
    if isinstance(source, (Table, TableFiles)):
        return source
    return TableFiles.of(source) if names_files(source) else open_table(source)


def _batches(
    source: Table | TableFiles, places: Sequence[AnswerColumns], rows: int
) -> Iterator[_NumberedRows]:
    if isinstance(source, Table):
        for row, batch in answer_batches(source, places, rows=rows):
            yield _NumberedRows(row, batch)
        return
    for piece in source.pieces:
        name = piece.name if source.several else ""
        with _naming_file(name):
            for row, batch in answer_batches(piece.open(), places, rows=rows):
                yield _NumberedRows(row + piece.first_row - 1, batch, name)


@contextmanager
def _naming_file(file: str) -> Iterator[None]:
    try:
        yield
    except InvalidTable as error:
        raise error.in_file(file) if file else error from None


def _writer(target: Any, origin: Origin, stage: str, name: str | None = None) -> MessageWriter:
    """Return what writes a batch; a batch that stands there is replaced by the same one only."""

    def check(place: Path) -> None:
        if name is None or _standing_batch(place) != name:
            refuse_to_overwrite(place)

    return MessageWriter(
        target,
        plan_id=origin.plan_id,
        stage=stage,
        space=origin.codes,
        round=origin.round,
        name=name,
        check=check,
    )


def _standing_batch(target: Any) -> str | None:
    """Return the name of the batch that a target would replace; empty if it is damaged."""
    if not isinstance(target, (str, os.PathLike)) or kind_of(target) is not Kind.BATCH:
        return None
    try:
        reader = MessageReader(target)
    except InvalidFile:
        return ""
    reader.close()
    return reader.start.name


def _check_apart(sources: Sequence[Any], target: Any) -> None:
    if target != "-" and _identity_of(target) in map(_identity_of, sources):
        raise InvalidInput("target", "another file than the source", target)


def _identity_of(source: Any) -> object:
    if not isinstance(source, (str, os.PathLike)):
        return id(source)
    return source if source == "-" else os.path.realpath(source)


def _spill_folder(target: Any) -> Path:
    """Return the folder of a target that is a file, otherwise the one for temporary files."""
    # A target that cannot be written is refused now, and not after everything was read.
    if isinstance(target, (str, os.PathLike)) and target != "-":
        path = Path(os.path.realpath(target))
        fault = errno.EISDIR if path.is_dir() else 0 if path.parent.is_dir() else errno.ENOENT
        if fault:
            raise storage_fault(path.name, OSError(fault, ""), verb="write")
        if path.is_file() or not path.exists():
            return path.parent
    return Path(tempfile.gettempdir())


def _ignore_progress(_done: int, _total: int | None) -> None:
    pass
