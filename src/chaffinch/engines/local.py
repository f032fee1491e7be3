"""The engine of one machine: threads, files, and a fixed amount of memory."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from chaffinch import checks
from chaffinch.analysis.tally import checked
from chaffinch.encoding.bulk import answer_batches, encode_batch, find_columns
from chaffinch.engines.base import Progress
from chaffinch.errors import BatchTooSmall, InvalidFile, InvalidInput, PlanMismatch
from chaffinch.files import storage_fault
from chaffinch.parallel import cores, mapped
from chaffinch.planning.plan import Plan
from chaffinch.sampling import histogram, secure_words
from chaffinch.shuffling.on_disk import Buckets
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.message_files import (
    MessageFacts,
    Messages,
    MessageWriter,
    open_messages,
    place_of,
)
from chaffinch.wire.messages import Codes, Counts, Reports, Rows, Tally

if TYPE_CHECKING:
    import pyarrow as pa

_MEMORY = 256 << 20
_NO_CODES = np.empty(0, np.uint32)
_HINTS = {
    "encoded": "shuffle the files that encoding wrote",
    "shuffled": "shuffle the messages first",
}


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
        columns: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> MessageFacts:
        """Read a table and write the messages of its reports; nothing is left of a failure.

        The messages are in no special order, but not shuffled: they are for the shuffler only.
        """
        plan.verify()
        _apart([source], target)
        table = source if isinstance(source, Table) else open_table(source)
        places = find_columns(plan, table, columns)

        def work(numbered: tuple[int, pa.RecordBatch]) -> tuple[Codes, int]:
            reports = encode_batch(plan, places, *numbered, secure_words())
            return loose(reports), reports.count

        done = 0
        batches = answer_batches(table, plan, places)
        with (
            _writer(target, plan, "encoded") as writer,
            mapped(work, batches, self.workers) as results,
        ):
            for codes, reports in results:
                writer.write(codes, reports)
                done += reports
                if progress is not None:
                    progress(done, table.rows)
        return writer.facts

    def shuffle(
        self,
        sources: Sequence[Any],
        plan: Plan,
        target: Any,
        *,
        progress: Progress | None = None,
    ) -> MessageFacts:
        """Write the messages of encoded files in a uniform order; refuse too small a crowd.

        Nothing is written to the target before everything is read and the crowd is counted.
        """
        tell = progress or _silent
        messages = _opened(sources, plan, "encoded")
        _apart(sources, target)
        with Buckets(
            plan.codes,
            secure_words(),
            folder=_beside(target),
            memory=self.memory,
            workers=self.workers,
        ) as buckets:
            buckets.fill(messages.batches(), lambda done: tell(done, None))
            reports = _crowd(messages, plan, len(buckets))
            with (
                _writer(target, plan, "shuffled") as writer,
                closing(buckets.ordered()) as pieces,
            ):
                done = 0
                for codes in pieces:
                    writer.write(codes.astype(np.uint32), 0)
                    done += len(codes)
                    tell(done, len(buckets))
                writer.write(_NO_CODES, reports)
        return writer.facts

    def tally(
        self, sources: Sequence[Any], plan: Plan, *, progress: Progress | None = None
    ) -> Tally:
        """Return the tally of shuffled files; messages that were not shuffled are refused."""
        tell = progress or _silent
        messages = _opened(sources, plan, "shuffled")
        # Each thread counts for itself. Counts of very many codes are large, so few have them.
        most = max(1, min(self.workers, self.memory // (8 * plan.codes)))
        partial: SimpleQueue[Counts] = SimpleQueue()
        for _ in range(most):
            partial.put(np.zeros(plan.codes, np.int64))

        def work(codes: Codes) -> int:
            counts = partial.get()
            try:
                histogram(codes, plan.codes, out=counts)
            finally:
                partial.put(counts)
            return len(codes)

        done = 0
        with mapped(work, messages.batches(), most) as results:
            for size in results:
                done += size
                tell(done, None)
        reports = _crowd(messages, plan, done)
        total = partial.get()
        for _ in range(most - 1):
            total += partial.get()
        return checked(Tally(plan.id, reports, total, messages.facts.batch), plan)


def loose(reports: Reports) -> Codes:
    """Return all messages of a batch as codes, those in packed rows too."""
    if not reports.rows:
        return reports.messages
    return np.concatenate([reports.messages, *map(_unpacked, reports.rows)])


def _unpacked(rows: Rows) -> Codes:
    # A bit takes a byte for a moment, so only some rows are unpacked at once.
    step = max(1, (1 << 22) // rows.bits)
    parts = [_NO_CODES]
    for start in range(0, len(rows.packed), step):
        bits = np.unpackbits(
            rows.packed[start : start + step], axis=1, count=rows.bits, bitorder="little"
        )
        parts.append((np.nonzero(bits)[1] + rows.first).astype(np.uint32))
    return np.concatenate(parts)


def _writer(target: Any, plan: Plan, stage: str) -> MessageWriter:
    return MessageWriter(target, plan_id=plan.id, stage=stage, space=plan.codes)


def _opened(sources: Sequence[Any], plan: Plan, stage: str) -> Messages:
    """Open messages that are of this plan and have come this far; the files agree already."""
    messages = open_messages(sources)
    title, facts = "message files", messages.start
    if facts.plan_id != plan.id:
        raise PlanMismatch(title, expected=plan.id, found=facts.plan_id)
    if facts.stage != stage:
        raise InvalidFile(title, f"of {stage} messages", [facts.stage], hint=_HINTS[stage])
    if facts.space != plan.codes:
        raise InvalidFile(title, f"of {plan.codes} possible messages", [str(facts.space)])
    return messages


def _crowd(messages: Messages, plan: Plan, count: int) -> int:
    """Return how many reports were read, if they are enough and can have sent so many messages."""
    reports = messages.facts.reports
    if reports < plan.reports:
        raise BatchTooSmall(have=reports, need=plan.reports)
    if count > reports * plan.slots:
        must_be = f"of at most {plan.slots} messages for each report"
        raise InvalidFile("message files", must_be, [f"{count} messages in {reports} reports"])
    return reports


def _apart(sources: Sequence[Any], target: Any) -> None:
    """Refuse to overwrite what is read."""
    if target != "-" and place_of(target) in map(place_of, sources):
        raise InvalidInput("target", "another file than the source", target)


def _beside(target: Any) -> Path:
    """Return the folder of a target that is a file, otherwise the one for temporary files.

    A target that cannot be is refused now, and not after everything was read.
    """
    if isinstance(target, (str, os.PathLike)) and target != "-":
        path = Path(os.path.realpath(target))
        fault = errno.EISDIR if path.is_dir() else 0 if path.parent.is_dir() else errno.ENOENT
        if fault:
            raise storage_fault(path.name, OSError(fault, ""), verb="write")
        if path.is_file() or not path.exists():
            return path.parent
    return Path(tempfile.gettempdir())


def _silent(_done: int, _total: int | None) -> None:
    pass
