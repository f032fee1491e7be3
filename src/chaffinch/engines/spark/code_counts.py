"""Count the codes of several batches: tasks count them, add up the counts and verify them.

The counts of a single batch can be those of a single person. So they are added up, and held
against the digest of their batch, on executors; the driver gets the sum of all batches, and only
when they are a whole crowd.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.tables.parallel import Progress, mapped
from chaffinch.wire.batches import BatchFacts, CodeCounts, digest_of
from chaffinch.wire.message_pages import damaged_messages
from chaffinch.wire.message_pieces import BatchPieces, MessagePiece, cut_batch
from chaffinch.wire.message_reader import BatchSet, source_list
from chaffinch.wire.messages import Origin

_AT_ONCE = 16
"""Batches that are looked into at once: in a store that is waiting, not work."""

_Final = TypeVar("_Final")


@dataclass
class Counted:
    """What some pieces hold: of whole batches together, and of those that are not whole yet."""

    total: CodeCounts
    open: dict[int, tuple[int, CodeCounts]] = field(default_factory=dict)
    """By the number of a batch: how many of its pieces are counted, and what they hold."""


@dataclass(frozen=True)
class _Batch:
    label: str
    facts: BatchFacts
    digest: str | None
    pieces: int


def open_batches(
    sources: Sequence[Any], plan: Plan, stage: str
) -> tuple[BatchSet, list[BatchPieces]]:
    """Return what several batches say they are; refuse those that do not belong together."""
    named = source_list(sources)
    for source in named:
        if not isinstance(source, (str, os.PathLike)) or source == "-":
            raise InvalidInput(
                "message files", "named where a cluster reads them", source, hint="write them first"
            )
    known, opened = BatchSet(plan, stage), []
    with mapped(lambda one: cut_batch(*one), enumerate(named), _AT_ONCE) as batches:
        for batch in batches:
            known.check_start(batch.label, batch.facts, batch.rows)
            known.take(batch.label, batch.facts, str(batch.digest))
            opened.append(batch)
    # What they say of themselves is not proven yet; what is too small by that needs no proof.
    known.origin.check_crowd(known.reports, sum(batch.rows for batch in opened))
    return known, opened


def count_crowd(
    job: Job, known: BatchSet, opened: Sequence[BatchPieces], progress: Progress | None
) -> CodeCounts:
    """Return the counts of all batches together, each of them proven whole, if they are a crowd."""
    finish = partial(_check_crowd, known.origin, known.reports)
    return sum_counts(job, opened, finish, progress)


def sum_counts(
    job: Job,
    opened: Sequence[BatchPieces],
    finish: Callable[[Counted], _Final],
    progress: Progress | None = None,
) -> _Final:
    """Return what ``finish`` makes, on an executor, of the counts of all batches together.

    A batch without a digest is one that is being made: there is nothing to prove yet.
    """
    pieces = [piece for batch in opened for piece in batch.pieces]
    batches = [_Batch(one.label, one.facts, one.digest, len(one.pieces)) for one in opened]
    for batch in batches:
        if not batch.pieces:
            _check_whole(batch, CodeCounts(batch.facts.space))
    space = batches[0].facts.space
    if not pieces:
        return finish(Counted(CodeCounts(space)))
    return job.reduce(
        partial(_count, batches),
        pieces,
        partial(_merge, batches),
        finish,
        sizes=[piece.rows for piece in pieces],
        progress=progress,
    )


# ----------------------------------------------------------------------------
# On executors.


def _count(batches: list[_Batch], _ring: Keyring, piece: MessagePiece) -> Counted:
    counted = Counted(CodeCounts(piece.facts.space), {piece.batch: (1, piece.counts())})
    return _closed(batches, counted)


def _merge(batches: list[_Batch], merged: Counted, other: Counted) -> Counted:
    merged.total = _sum(merged.total, other.total)
    for number, (pieces, counts) in other.open.items():
        before, sums = merged.open.get(number, (0, None))
        merged.open[number] = before + pieces, counts if sums is None else _sum(sums, counts)
    return _closed(batches, merged)


def _closed(batches: list[_Batch], counted: Counted) -> Counted:
    for number, (pieces, counts) in list(counted.open.items()):
        if pieces == batches[number].pieces:
            _check_whole(batches[number], counts)
            counted.total = _sum(counted.total, counts)
            del counted.open[number]
    return counted


def _sum(one: CodeCounts, other: CodeCounts) -> CodeCounts:
    """Return the counts of both in the larger of them: where one is empty nothing is copied."""
    one, other = (one, other) if one.total >= other.total else (other, one)
    if other.total:
        one.merge(other)
    return one


def _check_whole(batch: _Batch, counts: CodeCounts) -> None:
    if batch.digest is not None and digest_of(batch.facts, counts) != batch.digest:
        raise damaged_messages(batch.label)


def _check_crowd(origin: Origin, reports: int, counted: Counted) -> CodeCounts:
    origin.check_crowd(reports, counted.total.total)
    return counted.total
