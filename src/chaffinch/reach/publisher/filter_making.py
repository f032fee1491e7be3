"""What a publisher does: its ids go into rows of bits, every bit is flipped by chance.

Nothing but the flipped rows leaves: not the ids, not their digests, not how many there are. A
filter is made at once, or on a cluster by ranges of its columns.
"""

from __future__ import annotations

import math
import secrets
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import FilterFull, InvalidInput, InvalidTable, StorageFault, checks
from chaffinch.privacy import Target
from chaffinch.reach.planning.alignment import word_range
from chaffinch.reach.planning.id_rule import NO_LIKENESS, Likeness
from chaffinch.reach.planning.reach_plan import FULL_BELOW, ReachPlan, require_plan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.ids import Digests, IdColumns, IdReader, Spelled
from chaffinch.sampling import digest_again, flip, secure_words, set_columns
from chaffinch.tables.parallel import Progress, cores, mapped
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.filter_files import Filter

WITHIN = Target(epsilon=10.0, delta=1e-3)
"""Without another word a publisher accepts no plan that promises less than this."""
Row = NDArray[np.uint64]
HELD = 1 << 24
"""Digests in memory (128 MiB)."""
LEAST_HELD = 16


@dataclass(frozen=True, slots=True)
class Loaded:
    """What went into a filter: for the publisher's own eyes, as private as the ids."""

    rows: int
    """Rows of the table, those without an id included."""
    ids: int
    """About how many different ids there are."""
    expected: int
    """How many the plan expects."""
    changed: int = 0
    """Rows whose id the plan's rule spells in another way."""
    missing: int = 0
    """Rows without an id, which were skipped."""
    unfit: int = 0
    """Rows with an id that does not fit the plan's rule, which were skipped."""
    likeness: Likeness = NO_LIKENESS
    """What the ids look like, where the plan takes them as they are."""

    @property
    def surprising(self) -> bool:
        """Return whether the list is less than half or more than twice what was planned for."""
        return not 0.5 <= self.ids / self.expected <= 2.0


class _FilterMaker(Protocol):
    def make_filter(
        self,
        source: Any,
        plan: ReachPlan,
        *,
        publisher: str,
        key: CampaignKey,
        columns: IdColumns,
        within: Target,
        progress: Progress | None,
        told: Callable[[Loaded], None] | None,
    ) -> Filter:
        """Return a filter that is not recorded yet."""
        ...


def encode(  # noqa: PLR0913
    source: Any,
    plan: ReachPlan,
    *,
    publisher: str,
    key: CampaignKey,
    column: str | None = None,
    counts: str | None = None,
    missing: str = "refuse",
    unfit: str = "refuse",
    within: Target = WITHIN,
    progress: Progress | None = None,
    told: Callable[[Loaded], None] | None = None,
    engine: _FilterMaker | None = None,
) -> Filter:
    """Return the filter of one publisher's ids, under a plan that is verified first.

    ``source`` is a path or anything else that holds a table; ``column`` names the ids where
    there are several columns, and ``counts`` a column with how often each id was seen. Without
    it every row is one view. Ids are spelled by the plan's rule. A ``missing`` or blank id is
    refused, or left out with ``"skip"``, and so is one that is ``unfit`` for that rule: one error
    tells of all of them. A plan that promises less than ``within`` is refused. ``hand_out``
    charges a filter to a ledger. ``progress`` is told the rows that are done, and of how many,
    if that is known; ``told`` what went in, which is for the publisher alone: without it a warning
    is given of addresses that are not all spelled alike. A key makes one filter for each publisher,
    all for one plan: the filter is recorded with the key, on the disk if it has a file, and another
    is refused. The ``engine`` spark of ``chaffinch.engines`` reads paths, folders, addresses and
    frames of Spark on a cluster.
    """
    if isinstance(key, CampaignKey):
        key.refuse_second(publisher, require_plan(plan).id)
    make = make_filter if engine is None else engine.make_filter
    made = make(
        source,
        plan,
        publisher=publisher,
        key=key,
        columns=IdColumns(column, counts, missing, unfit),
        within=within,
        progress=progress,
        told=told or _warn,
    )
    key.remember(made)
    return made


def _warn(loaded: Loaded) -> None:
    found = loaded.likeness
    if found.doubtful:
        # Not how many: a warning may go to a log.
        warnings.warn(
            f"Some of these {found.kind} have capital letters, blanks or signs, and the plan takes "
            f"ids as they are, so another spelling is another id. Was {found.rule!r} meant, with "
            "a new plan and a new key? With told= nothing is said.",
            stacklevel=4,
        )


def make_filter(
    source: Any,
    plan: ReachPlan,
    *,
    publisher: str,
    key: CampaignKey,
    columns: IdColumns = IdColumns(),  # noqa: B008 - frozen
    within: Target = WITHIN,
    progress: Progress | None = None,
    told: Callable[[Loaded], None] | None = None,
) -> Filter:
    """Return a filter as ``encode`` does, but not recorded yet: whoever gets it has to do so."""
    check_terms(plan, publisher, key, within)
    first, further = key.hash_keys(plan.id)
    table = source if isinstance(source, Table) else open_table(source)
    reader = columns.reader(table, plan, first)
    rows, what = _true_rows(reader, plan, further, progress)
    loaded = count_loaded(what, ones_in(rows[0]), plan, publisher)
    if told is not None:
        told(loaded)
    for row in rows:
        flip(secure_words(), row, plan.numerator, plan.bits)
    return new_filter(rows, plan, publisher, key)


def check_terms(plan: ReachPlan, publisher: str, key: CampaignKey, within: Target) -> None:
    """Refuse a plan that promises too little, a publisher that it does not name, or no key."""
    require_plan(plan).verify(within=within)
    plan.audience.place(publisher)
    given: object = key
    if not isinstance(given, CampaignKey):
        # Whatever it is, it may be secret.
        raise InvalidInput("campaign key", "a CampaignKey", type(given).__name__)


def new_filter(rows: list[Row], plan: ReachPlan, publisher: str, key: CampaignKey) -> Filter:
    """Return rows whose flips are done as a filter with a name of its own."""
    for row in rows:
        row.flags.writeable = False
    return Filter(
        plan_id=plan.id,
        publisher=publisher,
        key=key.fingerprint(plan.id),
        batch=secrets.token_hex(16),
        bits=plan.bits,
        rows=tuple(rows),
    )


def ones_in(row: Row) -> int:
    """Return how many columns of a row are set."""
    return int(np.bitwise_count(row).sum(dtype=np.int64))


def count_loaded(what: Spelled, ones: int, plan: ReachPlan, publisher: str) -> Loaded:
    """Return what went into a filter of so many set columns; refuse one that is too full.

    The columns are those of the first row, before its flips.
    """
    empty = plan.bits - ones
    wrong = float(plan.all_flips)
    # The standard error of the estimated share of empty columns, if none of them is empty.
    noise = math.sqrt(wrong * (1.0 - wrong) / plan.bits) / (1.0 - 2.0 * wrong)
    if not empty / plan.bits > FULL_BELOW * noise:
        # The analyzer could not tell it from a filter of ones; the key is not used up here.
        raise FilterFull(f"filter of {publisher!r}")
    ids = round(-(plan.bits / plan.hashes) * math.log(empty / plan.bits))
    expected = plan.sizes[plan.audience.place(publisher)]
    return Loaded(
        what.rows,
        ids,
        expected,
        what.changed,
        what.missing.count,
        what.unfit.count,
        what.likeness,
    )


def _true_rows(
    reader: IdReader, plan: ReachPlan, further: bytes, progress: Progress | None = None
) -> tuple[list[Row], Spelled]:
    # Both results are as private as the ids. Threads digest batches; this one reads, and sets bits.
    what = Spelled()

    def read() -> Generator[Digests, None, None]:
        nonlocal what
        with mapped(lambda batch: reader.digests(*batch), reader.batches(), cores()) as found:
            for digests, part in found:
                yield digests
                what = what.followed_by(part)
                if progress is not None:
                    progress(what.rows, reader.table.rows)
        refuse_table(reader, what)

    with closing(read()) as views:
        return true_rows(views, plan, further), what


def refuse_table(reader: IdReader, what: Spelled) -> None:
    """Refuse a table for its faults, or if it has no id at all."""
    reader.refuse_faults(what)
    if not what.ids:
        raise InvalidTable("one with at least one id", "none", hint="check the column")


def true_rows(
    views: Iterable[Digests], plan: ReachPlan, further: bytes, *, held: int = HELD
) -> list[Row]:
    """Return the rows of some views before any flip: an id is in row f if it has f views.

    To count views, digests go to the disk where there are more than are ``held`` in memory.
    """
    frequencies = plan.audience.frequencies
    rows = [np.zeros(-(-plan.bits // 64), np.uint64) for _ in range(frequencies)]
    with Repeats(frequencies, held=held) as repeats:
        for digests in views:
            _set_ids(rows[0], digests, plan, further)
            if frequencies > 1:
                repeats.add(digests)
        for times, seen in repeats.seen():
            _set_ids(rows[times - 1], seen, plan, further)
    return rows


def _set_ids(row: Row, digests: Digests, plan: ReachPlan, further: bytes) -> None:
    # One column for the digest of an id, one for the digest of that digest, and so on.
    set_columns(row, digests, plan.bits)
    for _ in range(plan.hashes - 1):
        digests = digest_again(digests, further)
        set_columns(row, digests, plan.bits)


# ----------------------------------------------------------------------------
# Which ids were seen at least twice, three times, …: exactly, and in bounded memory.
#
# Digests are gathered, sorted, and thinned to at most as many copies of each as count. What does
# not fit is written as a sorted run to a temporary file without a name. At the end the runs are
# read back side by side, a narrow range of digests at a time: in a sorted range an id was seen f
# times where a digest equals the one f − 1 places on.
#
# Digests are even over the ids, so ranges are alike; one id that comes a hundred million times is
# thinned away in every run. Two of n ids share a digest with chance about n²/2⁶⁵ (3·10⁻⁴ for 10⁸),
# and would be taken for one.

_CELLS = 1 << 12
"""Ranges that a run can be cut into: by the highest twelve bits."""
_EDGES = np.arange(1, _CELLS, dtype=np.uint64) << np.uint64(52)
_PLACE = "temporary file"


class Repeats:
    """Counts digests up to ``most`` times each, holding at most ``held`` of them in memory.

    >>> with Repeats(3) as repeats:
    ...     repeats.add(np.array([5, 7, 5, 5, 7, 9], dtype=np.uint64))
    ...     [(times, set(found.tolist())) for times, found in repeats.seen()]
    [(2, {5, 7}), (3, {5})]
    """

    def __init__(self, most: int, *, held: int = HELD) -> None:
        self._most = checks.whole("number of frequencies", most, least=1)
        self._buffer = np.empty(
            checks.whole("digests in memory", held, least=LEAST_HELD), np.uint64
        )
        self._count = 0
        self._file: IO[bytes] | None = None
        self._runs: list[tuple[int, NDArray[np.int64]]] = []
        """Where each run starts, and where its ranges do within it."""

    def add(self, digests: Digests) -> None:
        """Count each digest once more."""
        while len(digests):
            part = digests[: len(self._buffer) - self._count]
            self._buffer[self._count : self._count + len(part)] = part
            self._count += len(part)
            digests = digests[len(part) :]
            if self._count == len(self._buffer):
                self._thin()
                if self._count > len(self._buffer) // 2:
                    self._spill()

    def seen(self) -> Iterator[tuple[int, Digests]]:
        """Yield times (2 and more) with digests seen at least as often, range by range.

        A digest may come more than once for the same times.
        """
        self._thin()
        for digests in self._ranges():
            for times in range(2, self._most + 1):
                ahead = digests[times - 1 :]
                found = digests[: len(ahead)]
                yield times, found[found == ahead]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _thin(self) -> None:
        kept = _thinned(self._buffer[: self._count], self._most)
        self._count = len(kept)
        self._buffer[: self._count] = kept

    def _spill(self) -> None:
        run = self._buffer[: self._count]
        try:
            if self._file is None:
                # Readable by nobody else, and gone with the process.
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
            start = self._file.seek(0, 2)
            self._file.write(run.data.cast("B"))
            self._file.flush()
        except OSError as error:
            raise storage_fault(_PLACE, error, verb="write") from None
        self._runs.append((start, _cuts(run)))
        self._count = 0

    def _ranges(self) -> Iterator[Digests]:
        """Yield all that was kept, sorted, in ranges of about a quarter of the memory."""
        rest = self._buffer[: self._count]
        last = _cuts(rest)
        sizes = np.diff(sum((cuts for _, cuts in self._runs), last))
        room = len(self._buffer) // 4
        low = 0
        while low < _CELLS:
            within = np.searchsorted(np.cumsum(sizes[low:]), room, side="right")
            high = low + max(int(within), 1)
            parts = [self._read(start, cuts[low], cuts[high]) for start, cuts in self._runs]
            parts.append(rest[last[low] : last[high]])
            yield _thinned(np.concatenate(parts), self._most)
            low = high

    def _read(self, start: int, low: np.int64, high: np.int64) -> Digests:
        out = np.empty(int(high - low), np.uint64)
        if not len(out) or self._file is None:
            return out
        try:
            self._file.seek(start + 8 * int(low))
            whole = self._file.readinto(out.data.cast("B")) == out.nbytes  # type: ignore[attr-defined]
        except OSError as error:
            raise storage_fault(_PLACE, error, verb="read") from None
        if not whole:
            raise StorageFault(f"The {_PLACE} must be as it was written. Got a shorter one.")
        return out


def _thinned(digests: Digests, most: int) -> Digests:
    """Sort digests in place and return them without copies beyond ``most`` of each."""
    digests.sort(kind="stable")  # five times as fast where sorted runs follow one another
    kept = np.ones(len(digests), np.bool_)
    kept[most:] = digests[most:] != digests[:-most]
    return digests if kept.all() else digests[kept]


def _cuts(run: Digests) -> NDArray[np.int64]:
    """Return where each range starts in a sorted run, and where the last one ends."""
    return np.concatenate([[0], np.searchsorted(run, _EDGES), [len(run)]]).astype(np.int64)


# ----------------------------------------------------------------------------
# A filter by ranges of its columns, for several who make one each.
#
# A digest is a fraction of 2⁶⁴ and its column the same fraction of the width, so a range of columns
# is a range of digests. A view of an id goes to every range in which the id has a column, once. So
# whoever makes a range sees all views of its ids, and counts them as if there were no others.

_MOST_RANGES = 1 << 12


@dataclass(frozen=True)
class ColumnRanges:
    """The columns of a plan's filters in ``count`` ranges of whole words, nearly alike."""

    plan: ReachPlan
    further: bytes = field(repr=False)
    """The key that leads from a digest to further columns."""
    count: int

    def __post_init__(self) -> None:
        checks.whole("number of ranges", self.count, least=1, most=_most(self.plan))

    @classmethod
    def about(cls, wanted: int, plan: ReachPlan, further: bytes) -> ColumnRanges:
        """Return as many ranges as are wanted, or as can be."""
        return cls(plan, further, max(1, min(wanted, _most(plan))))

    def words(self, place: int) -> slice:
        """Return which words of a row a range has."""
        return word_range(self.plan.bits, place, self.count)

    def split(self, views: Digests) -> Iterator[tuple[int, Digests]]:
        """Yield views for each range that has a column of theirs.

        Copies beyond those that count are left out: one id that comes a hundred million times is
        no burden to its range.
        """
        views = _thinned(views.copy(), self.plan.audience.frequencies)
        digests, seen = views, np.empty((0, len(views)), np.intp)
        for stage in range(self.plan.hashes):
            if stage:
                digests = digest_again(digests, self.further)
            places = np.searchsorted(self._edges, digests, side="right")
            # A range that has an earlier column of an id has this view of it already.
            new = ~(seen == places).any(axis=0)
            yield from _by_place(places[new], views[new])
            seen = np.vstack([seen, places])

    def rows(self, place: int, views: Sequence[Digests]) -> list[Row]:
        """Return the rows of a range before any flip, from all views that ``split`` gave for it.

        Memory that is never written to is never taken: of the whole width only the columns of
        these ids are. No digest goes to the disk of a machine that is somebody else's.
        """
        words, count = self.words(place), sum(map(len, views))
        rows = true_rows(views, self.plan, self.further, held=count + LEAST_HELD)
        return [row[words].copy() for row in rows]

    @cached_property
    def _edges(self) -> NDArray[np.uint64]:
        """Return the first digest of every range but the first."""
        # A digest d has the column ⌊d·bits/2⁶⁴⌋, which is at least c from d = c·2⁶⁴/bits on: a
        # whole number, as the number of bits is a power of two.
        firsts = [64 * self.words(place).start for place in range(1, self.count)]
        return np.array([(one << 64) // self.plan.bits for one in firsts], np.uint64)


def _most(plan: ReachPlan) -> int:
    return min(_MOST_RANGES, plan.bits // 64)


def _by_place(places: NDArray[np.intp], views: Digests) -> Iterator[tuple[int, Digests]]:
    order = np.argsort(places.astype(np.uint16), kind="stable")
    views = views[order]
    found, starts, sizes = np.unique(places[order], return_index=True, return_counts=True)
    for place, start, size in zip(found.tolist(), starts, sizes, strict=True):
        yield place, views[start : start + size]
