"""Audiences on a cluster: ids become rows of bits where they lie, and rows of bits become logos.

A publisher's filter is made by ranges of columns (``ColumnRanges``). Executors read the ids, and
send the keyed digest of each to the ranges of its columns. Whoever has a range sets its bits and
flips them, with words that follow from the secret of the job, the range and its bits: a task that
is done again gives the same flipped bits. Only these reach the driver, and how many columns were
set before, by which a publisher judges its list: no id, no digest and no true row.

Of the analyzer's filters each is read by one task, which proves it whole and sends ranges of its
rows to those who count. So what is counted is what was proven.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.files import AnyPath
from chaffinch.disk.locations import Place
from chaffinch.engines.spark.frames import (
    AnyPiece,
    FrameRows,
    RowSource,
    open_piece,
    reading_rows,
    several_files,
)
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.session import take_part
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import InvalidTable
from chaffinch.privacy import Target
from chaffinch.reach.analyzer.logos import Logos, logos_of, not_shuffled
from chaffinch.reach.planning.alignment import aligned_filters, word_range
from chaffinch.reach.planning.reach_plan import ReachPlan, require_plan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.filter_making import (
    ColumnRanges,
    Loaded,
    Row,
    check_terms,
    count_loaded,
    new_filter,
    ones_in,
    refuse_table,
)
from chaffinch.reach.publisher.ids import Digests, IdColumns, IdReader, Spelled
from chaffinch.sampling import flip, logo_counts
from chaffinch.tables.parallel import Progress
from chaffinch.wire.filter_files import Filter, FilterFacts, filter_from, load_facts, load_filter

if TYPE_CHECKING:
    from pyspark import SparkContext

_FIRST, _FURTHER = "ids", "digests"
"""What the two keys of a campaign digest."""
_AT_ONCE = 1 << 20
"""Views that are sorted to their ranges together."""
_RANGES_FOR_EACH = 2
"""Ranges for each task that runs at once: those that end last are small."""
_RANGE_BYTES = 64 << 20
"""Bytes of a table for which there is one range at least: a task holds all views of its range."""
_MOST_COUNTS = 64 << 20
"""Bytes of counts that the driver holds before it adds them up."""


# ----------------------------------------------------------------------------
# A publisher's ids.


def check_ids(  # noqa: PLR0917
    source: RowSource,
    plan: ReachPlan,
    publisher: str,
    key: CampaignKey,
    columns: IdColumns,
    within: Target,
) -> IdReader:
    """Return who reads the first ids; refuse wrong terms and columns, which needs no cluster."""
    check_terms(plan, publisher, key, within)
    first, _ = key.hash_keys(plan.id)
    table = source.first if isinstance(source, FrameRows) else source[0].open()
    return columns.reader(table, plan, first)


def make_filter(  # noqa: PLR0913
    context: SparkContext,
    source: RowSource,
    plan: ReachPlan,
    reader: IdReader,
    *,
    publisher: str,
    key: CampaignKey,
    columns: IdColumns,
    progress: Progress | None = None,
    told: Callable[[Loaded], None] | None = None,
    scratch: Place | None = None,
) -> Filter:
    """Return the filter of one publisher's ids, not recorded yet: whoever gets it has to do so.

    ``reader`` is what ``check_ids`` gave. The filter has the law of the one that
    ``reach.publisher.filter_making.make_filter`` makes of the same rows in one table, and what that
    refuses is refused. ``progress`` counts pieces. The rows of a frame are kept in the folder
    ``scratch``, sealed.
    """
    take_part(context, "publisher")
    first, further = key.hash_keys(plan.id)
    with (
        Job(context, {_FIRST: first, _FURTHER: further}) as job,
        reading_rows(job, source, reader.wanted, scratch=scratch) as pieces,
    ):
        if not pieces:
            raise InvalidTable("one with at least one row", "no rows", hint="check the file")
        wanted = max(_RANGES_FOR_EACH * job.width, sum(one.size for one in pieces) // _RANGE_BYTES)
        count = ColumnRanges.about(wanted, plan, further).count
        several = several_files(pieces)
        send, make = _SendViews(plan, columns, count, several), _MakeRange(plan, count)
        *ranges, last = job.exchange(pieces, send, make, parts=count + 1, progress=progress)
    what = Spelled()
    for piece, one in zip(pieces, last.spelled, strict=True):
        what = what.followed_by(one.of_file(piece.name) if several else one)
    refuse_table(reader, what)
    loaded = count_loaded(what, sum(one.ones for one in ranges), plan, publisher)
    if told is not None:
        told(loaded)
    rows = [np.concatenate(row) for row in zip(*(one.rows for one in ranges), strict=True)]
    return new_filter(rows, plan, publisher, key)


class _Made(NamedTuple):
    """A range of flipped rows; of the last part, what became of the rows of each piece."""

    ones: int = 0
    """Columns of the first row that were set before its flips."""
    rows: Sequence[Row] = ()
    spelled: Sequence[Spelled] = ()


@dataclass(frozen=True)
class _SendViews:
    """Reads a piece: views go to the ranges of their columns, what was read to the last part."""

    plan: ReachPlan
    columns: IdColumns
    count: int
    several: bool
    """Whether there are several files, so that a fault is told with the name of its own."""

    def __call__(self, ring: Keyring, piece: AnyPiece) -> Iterator[tuple[int, bytes]]:
        try:
            yield from self._sent(ring, piece)
        except InvalidTable as error:
            raise error.in_file(piece.name) if self.several else error from None

    def _sent(self, ring: Keyring, piece: AnyPiece) -> Iterator[tuple[int, bytes]]:
        ranges = ColumnRanges(self.plan, ring.keys[_FURTHER], self.count)
        key, first = ring.keys[_FIRST], piece.first_row
        table = open_piece(ring, piece)
        reading = _Reading(self.columns.reader(table, self.plan, key, first_row=first))
        parts: list[list[bytes]] = [[] for _ in range(self.count)]
        for views in reading.views():
            for place, some in ranges.split(views):
                parts[place].append(some.tobytes())
        yield from ((place, b"".join(part)) for place, part in enumerate(parts))
        yield self.count, pickle.dumps(reading.what)


class _Reading:
    def __init__(self, reader: IdReader) -> None:
        self._reader = reader
        self.what = Spelled()

    def views(self) -> Iterator[Digests]:
        held: list[Digests] = []
        for batch in self._reader.batches():
            digests, part = self._reader.digests(*batch)
            self.what = self.what.followed_by(part)
            held.append(digests)
            if sum(map(len, held)) >= _AT_ONCE:
                yield np.concatenate(held)
                held.clear()
        if held:
            yield np.concatenate(held)


@dataclass(frozen=True)
class _MakeRange:
    plan: ReachPlan
    count: int

    def __call__(self, ring: Keyring, part: int, blobs: list[bytes]) -> _Made:
        if part == self.count:
            return _Made(spelled=[pickle.loads(blob) for blob in blobs])  # noqa: S301 - our own
        ranges = ColumnRanges(self.plan, ring.keys[_FURTHER], self.count)
        rows = ranges.rows(part, [np.frombuffer(blob, np.uint64) for blob in blobs])
        ones, content = ones_in(rows[0]), hashlib.sha256()
        for row in rows:
            content.update(row.data)
        words = ring.words("filter", part, content.digest())
        for row in rows:
            flip(words, row, self.plan.numerator, 64 * len(row))
        return _Made(ones, rows)


# ----------------------------------------------------------------------------
# The analyzer's filters.


def check_filters(filters: Sequence[AnyPath], plan: ReachPlan) -> None:
    """Refuse filters that do not belong together, by the heads of files that are near."""
    if require_plan(plan).shuffler is not None:
        raise not_shuffled()
    places = [Place.of(path) for path in filters]
    if all(place.local for place in places):
        texts = [place.text for place in places]
        aligned_filters([load_facts(one) for one in texts], plan, sources=texts)


def count_logos(
    context: SparkContext,
    filters: Sequence[AnyPath],
    plan: ReachPlan,
    *,
    progress: Progress | None = None,
) -> Logos:
    """Return the logos of filter files that were checked; ``progress`` counts files.

    These are the counts of ``reach.analyzer.logos.count_logos``, and the same is refused.
    """
    take_part(context, "analyzer")
    places = [Place.of(path) for path in filters]
    with Job(context) as job:
        size = 8 << plan.audience.rows
        count = max(1, min(job.width, plan.bits // 64, _MOST_COUNTS // size))
        send, add = _SendRows(plan, count), _CountRange(plan, count)
        *ranges, last = job.exchange(places, send, add, parts=count + 1, progress=progress)
    ordered = aligned_filters(last.facts, plan)
    return logos_of(ordered, np.sum([one.counts for one in ranges], axis=0), plan)


class _Counted(NamedTuple):
    """The logos of a range; of the last part, what the filters say of themselves."""

    counts: NDArray[np.int64]
    facts: Sequence[FilterFacts] = ()


@dataclass(frozen=True)
class _SendRows:
    plan: ReachPlan
    count: int

    def __call__(self, _ring: Keyring, place: Place) -> Iterator[tuple[int, bytes]]:
        found = load_filter(place.text) if place.local else filter_from(place.read())
        yield self.count, pickle.dumps(found.facts)
        if not self._fits(found):
            return  # whoever sees the facts of all of them says what is wrong
        head = np.array([self.plan.audience.place(found.publisher)], np.uint64)
        for part in range(self.count):
            words = word_range(self.plan.bits, part, self.count)
            yield part, np.concatenate([head, *(row[words] for row in found.rows)]).tobytes()

    def _fits(self, found: Filter) -> bool:
        plan = self.plan
        known = found.plan_id == plan.id and found.publisher in plan.audience.publishers
        return known and (found.bits, found.frequencies) == (plan.bits, plan.audience.frequencies)


@dataclass(frozen=True)
class _CountRange:
    plan: ReachPlan
    count: int

    def __call__(self, _ring: Keyring, part: int, blobs: list[bytes]) -> _Counted:
        audience = self.plan.audience
        counts = np.zeros(1 << audience.rows, np.int64)
        if part == self.count:
            return _Counted(counts, [pickle.loads(blob) for blob in blobs])  # noqa: S301 - our own
        sent = {int(one[0]): one[1:] for one in (np.frombuffer(blob, np.uint64) for blob in blobs)}
        if len(sent) != len(audience.publishers):
            return _Counted(counts)
        words = word_range(self.plan.bits, part, self.count)
        rows = np.concatenate([sent[place] for place in sorted(sent)]).reshape(audience.rows, -1)
        return _Counted(logo_counts(list(rows), 64 * (words.stop - words.start)))
