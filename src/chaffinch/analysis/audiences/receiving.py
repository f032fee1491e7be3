"""The columns of a reach from a batch to their release: paid for and kept together, once.

The shuffler hands columns over as the one item of a batch that it has signed. Of every plan one
batch is released, and no other one ever: the same rows with fresh flips would show more than was
promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chaffinch.analysis.audiences.analyze import analyze, check_key
from chaffinch.analysis.opening import check_due
from chaffinch.analysis.received import KnownBatch, OpenedItem, Received
from chaffinch.analysis.releasing import Made, settle
from chaffinch.errors import FilterFull, InvalidFile, InvalidInput, PlanMismatch
from chaffinch.keys import StoredKey
from chaffinch.ledger import Charge, Entry, Ledger
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.release.files import json_bytes
from chaffinch.storage.faults import storage_fault
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.column_files import columns_from
from chaffinch.wire.envelopes import replay_tag
from chaffinch.wire.sealed_batches import check_batch
from chaffinch.wire.sealed_filters import unpad


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
    stored = keys[head.route[0]]
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
        _check_first(received, batch)
        columns = columns_from(received.content(batch.id))
        release = analyze(columns, plan, level=level)
        content = json_bytes(release.document())

        def pay(ledger: Ledger) -> Entry:
            check_key(ledger, release)
            charge = Charge.of(plan)
            return ledger.charge(charge, release.key, subject=release.batch, content=content)

        return content, pay

    refusals = (InvalidFile, InvalidInput, PlanMismatch, FilterFull)
    return settle(received, batch, make, ledger=ledger, refusals=refusals)


def _check_first(received: Received, batch: KnownBatch) -> None:
    """Refuse a batch whose item counts for nothing, or that comes after another of its plan."""
    if not batch.counted:
        raise InvalidFile("batch", "one that holds columns of this plan", ["a copy, or junk"])
    others = [one for one in received.all() if one.plan_id == batch.plan_id and one.counted]
    # Of two that were opened at the same time, the one with the smaller id comes first.
    before = [one for one in others if one.state in ("released", "unpaid") or one.id < batch.id]
    if any(one.id != batch.id and one.state != "refused" for one in before):
        raise InvalidFile("batch", "the first one of its plan", ["another one"])
