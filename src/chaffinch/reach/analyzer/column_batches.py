"""From a batch of columns to the release of a reach, which is charged and stored once.

The shuffler hands columns over as the one item of a batch that it has signed. Of every plan one
batch is released, and no other one ever: the same rows with fresh flips would show more than was
promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chaffinch.analysis.open_batches import OpenedItem, check_due
from chaffinch.analysis.paid_releases import Made, release_once
from chaffinch.analysis.plan_analysis import PlanAnalysis
from chaffinch.analysis.received import KnownBatch, Received
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import FilterFull, InvalidFile, InvalidInput, PlanMismatch
from chaffinch.keys import StoredKey
from chaffinch.ledger import Charge, Entry, Ledger
from chaffinch.reach.analyzer.reach_analysis import analyze, check_key
from chaffinch.reach.planning.reach_plan import ReachPlan, require_plan
from chaffinch.reach.release import ReachRelease
from chaffinch.reach.release import read_release as read_reach_release
from chaffinch.release.export import json_bytes
from chaffinch.tables.parallel import Pool
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.envelopes import replay_tag
from chaffinch.wire.filter_files import columns_from
from chaffinch.wire.sealed_batches import check_batch
from chaffinch.wire.sealed_filters import unpad


class ReachAnalysis(PlanAnalysis):
    """The plan of a reach."""

    def __init__(self, plan: object) -> None:
        self.plan = self._plan = require_plan(plan)

    def take_over(
        self,
        path: Path,
        received: Received,
        keys: Mapping[int, StoredKey],
        pool: Pool | None,  # noqa: ARG002 - there is one item
    ) -> bool:
        """Open the columns."""
        item = open_columns(path, self._plan, keys)
        if item.id == path.stem:
            received.add_item(item)
        return item.id == path.stem

    def release(
        self, received: Received, batch: KnownBatch, *, ledger: Ledger | None, level: float
    ) -> KnownBatch:
        """Release the columns of a batch, the first one of its plan."""
        return release_columns(received, batch, self._plan, ledger=ledger, level=level)

    @staticmethod
    def read_release(content: bytes) -> ReachRelease:
        """Return the release of a reach."""
        return read_reach_release(content)


def open_columns(path: Path, plan: ReachPlan, keys: Mapping[int, StoredKey]) -> OpenedItem:
    """Open the one item of a batch file; refuse a file that is not as its maker signed it."""
    expected, layout = Expected.of(plan, 1), plan.layout
    try:
        with path.open("rb") as file:
            head, found = check_batch(file, expected.maker)
            check_due(expected, head, keys)
            item = file.read(head.items * head.item_length)
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None
    stored = keys[head.key_id]
    padded = stored.key.open(item, layout.binding(2, head.round))
    content = None if padded is None else unpad(padded, layout.columns_length)
    tag = replay_tag(stored.tag_secret, item, stored.key.kem)
    return OpenedItem(found, head, 1 << plan.audience.rows, content, tag)


def release_columns(
    received: Received,
    batch: KnownBatch,
    plan: ReachPlan,
    *,
    ledger: Ledger | None = None,
    level: float = 0.95,
) -> KnownBatch:
    """Release columns that were opened, or note why not; return what is known of them then."""

    def make() -> Made:
        if not batch.counted:
            raise InvalidFile("batch", "one that holds columns of this plan", ["a copy, or junk"])
        columns = columns_from(received.content(batch.id))
        release = analyze(columns, plan, level=level)
        content = json_bytes(release.document())
        paid = {(one.key, one.subject) for one in ledger.entries()} if ledger is not None else set()
        if (release.key, release.batch) not in paid:
            # What was paid for before an end is released, whatever has come since.
            _check_first(received, batch)

        def pay(ledger: Ledger) -> Entry:
            check_key(ledger, release)
            charge = Charge.of(plan)
            # The ledger keeps the bytes in the transaction that charges: after a crash there are
            # both the charge and the release, or neither.
            return ledger.charge(charge, release.key, subject=release.batch, content=content)

        return content, pay

    refusals = (InvalidFile, InvalidInput, PlanMismatch, FilterFull)
    return release_once(received, batch, make, ledger=ledger, refusals=refusals)


def _check_first(received: Received, batch: KnownBatch) -> None:
    others = [one for one in received.all() if one.plan_id == batch.plan_id and one.counted]
    # Of two that were opened at the same time, the one with the smaller id comes first.
    before = [one for one in others if one.state in ("released", "unpaid") or one.id < batch.id]
    if any(one.id != batch.id and one.state != "refused" for one in before):
        raise InvalidFile("batch", "the first one of its plan", ["another one"])
