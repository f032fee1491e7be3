"""What the analyzer does with the batches of one plan: an interface with a class for each kind.

A plan that the analyzer of another plan would have to open is refused before anything is promised
for it. What a batch holds, when it is short, what its release says and what that is read back as
stand with the kind of plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from chaffinch.analysis.received import KnownBatch, Received
from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.keys import KeyFolder, StoredKey
from chaffinch.ledger import Ledger
from chaffinch.plans.kinds import RunPlan
from chaffinch.release.publication import Publication
from chaffinch.tables.parallel import Pool


class PlanAnalysis(ABC):
    """One plan as its analyzer runs it."""

    plan: RunPlan

    @abstractmethod
    def take_over(
        self, path: Path, received: Received, keys: Mapping[int, StoredKey], pool: Pool | None
    ) -> bool:
        """Open a batch and keep what is in it; return False if its name is not its id."""

    def join_short(self, received: Received) -> bool:  # noqa: ARG002 - of use where some wait
        """Put batches together that have too few messages each; return whether any were joined."""
        return False

    @abstractmethod
    def release(
        self, received: Received, batch: KnownBatch, *, ledger: Ledger | None, level: float
    ) -> KnownBatch:
        """Release a batch that was opened, or note why not; return what is known of it then."""

    def reports_in(self, batch: KnownBatch) -> int:
        """Return the number of reports that the release of a batch says."""
        return batch.reports

    @staticmethod
    @abstractmethod
    def read_release(content: bytes) -> Publication:
        """Return the release that was kept as these bytes."""


def require_analyzer(plan: RunPlan, keys: KeyFolder) -> None:
    """Refuse a plan whose analyzer is somebody else, before anything is promised for it."""
    parties = plan.parties
    if parties is None or parties.analyzer.identity != keys.identity_hex:
        raise InvalidInput(
            "plan",
            "one that names the owner of these keys as its analyzer",
            Unquoted("a plan with another analyzer"),
            hint="`chaffinch keys show` prints the identity; name it in the plan's parties",
        )
