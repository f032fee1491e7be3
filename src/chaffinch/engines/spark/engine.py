"""Encode, shuffle and tally on a cluster: the three steps of an engine, with the same results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from chaffinch.analysis.tally import check_tally
from chaffinch.engines.spark.counting import count_crowd, open_batches
from chaffinch.engines.spark.encoding import encode_table
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.session import running, take_part
from chaffinch.engines.spark.shuffling import shuffle_batches
from chaffinch.parallel import Progress
from chaffinch.planning.plan import Plan, require_plan
from chaffinch.shuffling.record import Record, usual_record
from chaffinch.storage.files import AnyPath
from chaffinch.storage.places import Place
from chaffinch.wire.batches import BatchFacts
from chaffinch.wire.messages import Tally


@dataclass(frozen=True)
class Spark:
    """Encode, shuffle and tally on a Spark cluster.

    Batches are read from Parquet files and folders, and written to folders (``batch_folders``),
    on disks that all machines share or in stores that addresses name. Where a session of Spark is
    active, it is used; otherwise every step starts an application on ``master``, by default on the
    cores of this machine, and ends it.
    """

    master: str | None = None

    name: ClassVar[str] = "spark"

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
        same columns. The first one tells how all of them are written.
        """
        require_plan(plan).verify()
        with running(self.master) as context, Job(context) as job:
            return encode_table(
                job, source, plan, Place.of(target), round=round, columns=columns, progress=progress
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
        kept = Record(usual_record(plan.id) if record is None else record)
        with running(self.master) as context:
            take_part(context, "shuffler")
            with Job(context) as job:
                return shuffle_batches(
                    job, known, opened, Place.of(target), kept, progress=progress
                )

    def tally(
        self, sources: Sequence[Any], plan: Plan, *, progress: Progress | None = None
    ) -> Tally:
        """Return the tally of shuffled batches; messages that were not shuffled are refused."""
        known, opened = open_batches(sources, plan, "shuffled")
        with running(self.master) as context:
            take_part(context, "analyzer")
            with Job(context) as job:
                counts = count_crowd(job, known, opened, progress)
        found = Tally(plan.id, known.reports, counts.dense(), known.name, known.round)
        return check_tally(found, plan)
