"""The plan of a survey as its analyzer runs it: tallies of messages, joined where too short."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chaffinch.analysis.open_batches import absent_reports, open_batch
from chaffinch.analysis.paid_releases import join_short, release_batch
from chaffinch.analysis.plan_analysis import PlanAnalysis
from chaffinch.analysis.received import KnownBatch, Received
from chaffinch.keys import StoredKey
from chaffinch.ledger import Ledger
from chaffinch.plans.plan import require_plan
from chaffinch.release.surveys import Release, read_release
from chaffinch.tables.parallel import Pool


class SurveyAnalysis(PlanAnalysis):
    """The plan of a survey, or of one of its public groups."""

    def __init__(self, plan: object) -> None:
        self.plan = self._plan = require_plan(plan)

    def take_over(
        self, path: Path, received: Received, keys: Mapping[int, StoredKey], pool: Pool | None
    ) -> bool:
        """Open every message of a batch."""
        batch = open_batch(path, self._plan, keys, pool)
        if batch.id == path.stem:
            received.add(batch)
        return batch.id == path.stem

    def join_short(self, received: Received) -> bool:
        """Join those of a round that have enough messages together."""
        return join_short(received, self._plan)

    def release(
        self, received: Received, batch: KnownBatch, *, ledger: Ledger | None, level: float
    ) -> KnownBatch:
        """Release the tally of a batch."""
        return release_batch(received, batch, self._plan, ledger=ledger, level=level)

    def reports_in(self, batch: KnownBatch) -> int:
        """Return how many reports there are whose messages are somebody's."""
        return batch.reports - absent_reports(self._plan, batch.reports, batch.fresh)

    @staticmethod
    def read_release(content: bytes) -> Release:
        """Return the release of a survey."""
        return read_release(content)
