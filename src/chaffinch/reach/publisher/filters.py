"""What a publisher does: its ids go into rows of bits, every bit is flipped by chance.

Nothing but the flipped rows leaves: not the ids, not their digests, not how many there are.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import FilterFull, InvalidInput, InvalidTable
from chaffinch.privacy import Target
from chaffinch.reach.planning.plan import FULL_BELOW, ReachPlan, require_plan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.ids import Digests, IdColumns, IdReader, Spelled
from chaffinch.reach.publisher.repeats import HELD, Repeats
from chaffinch.sampling import digest_again, flip, secure_words, set_columns
from chaffinch.tables.parallel import Progress, cores, mapped
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.filter_files import Filter

WITHIN = Target(epsilon=10.0, delta=1e-3)
"""Without another word a publisher accepts no plan that promises less than this."""
Row = NDArray[np.uint64]


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

    @property
    def surprising(self) -> bool:
        """Return whether the list is less than half or more than twice what was planned for."""
        return not 0.5 <= self.ids / self.expected <= 2.0


class _FilterMaker(Protocol):
    """An engine that makes filters."""

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
    if that is known; ``told`` what went in, which is for the publisher alone. A key makes one
    filter for each publisher, all for one plan: the filter is recorded with the key, on the disk if
    it has a file, and another is refused. The ``engine`` spark of ``chaffinch.engines`` reads
    paths, folders, addresses and frames of Spark on a cluster.
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
        told=told,
    )
    key.remember(made)
    return made


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
    noise = math.sqrt(wrong * (1.0 - wrong) / plan.bits) / (1.0 - 2.0 * wrong)
    if not empty / plan.bits > FULL_BELOW * noise:
        # The analyzer could not tell it from a filter of ones; the key is not used up here.
        raise FilterFull(f"filter of {publisher!r}")
    ids = round(-(plan.bits / plan.hashes) * math.log(empty / plan.bits))
    expected = plan.sizes[plan.audience.place(publisher)]
    return Loaded(what.rows, ids, expected, what.changed, what.missing.count, what.unfit.count)


def _true_rows(
    reader: IdReader, plan: ReachPlan, further: bytes, progress: Progress | None = None
) -> tuple[list[Row], Spelled]:
    """Return the rows before any flip, and what became of the table's, all as private as the ids.

    Threads digest batches; one thread reads, and sets the bits.
    """
    what = Spelled()

    def read() -> Generator[Digests, None, None]:
        """Give the digests of all batches, and count what became of their rows."""
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
    """Set every column of each id: one for its digest, one for that digest's digest, …."""
    set_columns(row, digests, plan.bits)
    for _ in range(plan.hashes - 1):
        digests = digest_again(digests, further)
        set_columns(row, digests, plan.bits)
