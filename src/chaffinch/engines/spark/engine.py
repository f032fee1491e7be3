"""The five steps of an engine on a cluster, with the same results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chaffinch.analysis.tally import check_tally
from chaffinch.disk.files import AnyPath
from chaffinch.disk.locations import Place
from chaffinch.engines import PATIENCE
from chaffinch.engines.spark.code_counts import count_crowd, open_batches
from chaffinch.engines.spark.encoding import encode_table, prepare_encoding
from chaffinch.engines.spark.frames import FrameRows, RowSource, is_frame
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.reach import check_filters, check_ids, count_logos, make_filter
from chaffinch.engines.spark.session import Tell, running, take_part
from chaffinch.engines.spark.shuffling import shuffle_batches
from chaffinch.engines.spark.targets import standing_batch
from chaffinch.plans.plan import Plan, require_devices
from chaffinch.privacy import Target
from chaffinch.reach.analyzer.logos import Logos
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.filter_making import WITHIN, Loaded
from chaffinch.reach.publisher.ids import IdColumns
from chaffinch.shuffling.record import Record, usual_record
from chaffinch.tables.parallel import Progress
from chaffinch.tables.pieces import Piece, pieces_of
from chaffinch.wire.batches import BatchFacts
from chaffinch.wire.filter_files import Filter
from chaffinch.wire.messages import Tally

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class Spark:
    """Encode, shuffle and tally on a Spark cluster.

    Batches are read from Parquet files and folders, and written to folders (``batch_folders``),
    on disks that all machines share or in stores that addresses name. Where a session of Spark is
    active, it is used; otherwise every step starts an application on ``master``, by default on the
    cores of this machine, and ends it. Rows of a frame lie sealed in a folder while they are read:
    for messages in that of the batch, for ids in ``scratch``, which all machines must see.
    """

    master: str | None = None
    patience: float = PATIENCE
    """Seconds to wait for a first worker."""
    tell: Tell | None = None
    """Is told, in a few words, what is waited for before the work begins."""
    scratch: AnyPath | None = None
    """A folder that all machines see, for the rows of a frame of ids."""

    name: ClassVar[str] = "spark"

    def _running(self) -> AbstractContextManager[SparkContext]:
        return running(self.master, patience=self.patience, tell=self.tell or (lambda _: None))

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
        """Read tables and write the messages of their reports into a folder.

        ``source`` is a path, an address, a folder, or a list of them: files of one kind, with the
        same columns. The first one tells how all of them are written. It may also be a frame of
        the session that runs, of which only the columns that are needed are read.
        """
        require_devices(plan).verify()
        place = Place.of(target)
        files = prepare_encoding(source, plan, place, round=round, columns=columns)
        with self._running() as context, Job(context) as job:
            return encode_table(
                job, files, plan, place, round=round, columns=columns, progress=progress
            )

    def shuffle(
        self,
        sources: Sequence[Any],
        plan: Plan,
        target: Any,
        *,
        record: AnyPath | None = None,
        progress: Progress | None = None,
    ) -> BatchFacts:
        """Write the messages of encoded batches in a uniform order; refuse too small a crowd.

        Nothing is written before everything is read and proven whole, the crowd is counted, and
        the inputs are in the ``record``, which is kept by whoever starts this.
        """
        known, opened = open_batches(sources, plan, "encoded")
        kept, place = Record(usual_record(plan.id) if record is None else record), Place.of(target)
        kept.refuse_repeated(list(known.digests), instead_of=standing_batch(place))
        with self._running() as context:
            take_part(context, "shuffler")
            with Job(context) as job:
                return shuffle_batches(job, known, opened, place, kept, progress=progress)

    def tally(
        self, sources: Sequence[Any], plan: Plan, *, progress: Progress | None = None
    ) -> Tally:
        """Return the tally of shuffled batches; messages that were not shuffled are refused."""
        known, opened = open_batches(sources, plan, "shuffled")
        with self._running() as context:
            take_part(context, "analyzer")
            with Job(context) as job:
                counts = count_crowd(job, known, opened, progress)
        found = Tally(plan.id, known.reports, counts.dense(), known.name, known.round)
        return check_tally(found, plan)

    def make_filter(
        self,
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
        """Return the filter of a publisher's ids; it must be recorded before anybody gets it.

        ``source`` is a path, an address, a folder, a list of them, the pieces of tables, or a
        frame of the session that runs.
        """
        rows = _rows_of(source)
        reader = check_ids(rows, plan, publisher, key, columns, within)
        asked: Any = {"publisher": publisher, "key": key, "columns": columns}
        asked |= {"progress": progress, "told": told}
        scratch = None if self.scratch is None else Place.of(self.scratch)
        with self._running() as context:
            return make_filter(context, rows, plan, reader, scratch=scratch, **asked)

    def count_logos(
        self, filters: Sequence[Any], plan: ReachPlan, *, progress: Progress | None = None
    ) -> Logos:
        """Return the logos of one filter file from each publisher."""
        check_filters(filters, plan)
        with self._running() as context:
            return count_logos(context, filters, plan, progress=progress)


def _rows_of(source: Any) -> RowSource:
    if is_frame(source):
        return FrameRows.of(source)
    if isinstance(source, list) and all(isinstance(one, Piece) for one in source):
        return source
    return pieces_of([source] if isinstance(source, (str, os.PathLike)) else list(source))
