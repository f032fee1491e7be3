"""From an opened batch to its release: paid for and kept in one transaction, once and for ever.

A release follows from what was opened, and from nothing else. With a ledger, the charge and the
bytes of the release are one transaction of the ledger: whoever is killed before it has neither,
and whoever is killed after it takes the bytes from there, also if a newer version or another level
would make other ones. The state of the analyzer has a copy, from which it is served.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chaffinch.analysis.analyze import analyze
from chaffinch.analysis.opening import check_fresh
from chaffinch.analysis.received import KnownBatch, Received
from chaffinch.errors import (
    BatchTooSmall,
    BudgetExhausted,
    ChaffinchError,
    InvalidFile,
    InvalidInput,
)
from chaffinch.ledger import Charge, Entry, Ledger
from chaffinch.planning.plan import Plan
from chaffinch.release.files import json_bytes
from chaffinch.release.surveys import Release
from chaffinch.storage.failpoints import reach

Made = tuple[bytes, Callable[[Ledger], Entry]]
"""The bytes of a release, and what charges them to a ledger and keeps them there."""


def settle(
    received: Received,
    batch: KnownBatch,
    make: Callable[[], Made],
    *,
    ledger: Ledger | None,
    refusals: tuple[type[ChaffinchError], ...],
) -> KnownBatch:
    """Release a batch that was opened, or note why not; return what is known of it then.

    ``refusals`` say that nothing can ever be released of it. Any other error ends the work: after
    it the batch is as it was.
    """
    try:
        content, pay = make()
    except refusals as refusal:
        received.decide(batch.id, "refused", why=refusal.message)
        return received.known(batch.id)
    try:
        if ledger is not None:
            # A charge without content was made by a command, of the same messages.
            content = ledger.content_of(pay(ledger)) or content
    except (BudgetExhausted, InvalidInput) as refusal:
        # No room, or a ledger for losses of another kind: another ledger may pay.
        received.decide(batch.id, "unpaid", why=refusal.message)
        return received.known(batch.id)
    reach("analyzer.paid")
    received.decide(batch.id, "released", release=content)
    reach("analyzer.released")
    return received.known(batch.id)


def release_batch(
    received: Received,
    batch: KnownBatch,
    plan: Plan,
    *,
    ledger: Ledger | None = None,
    level: float = 0.95,
) -> KnownBatch:
    """Release the messages of a batch that was opened, or note why not."""
    tally = received.tally(batch.id)

    def make() -> Made:
        check_fresh(plan, batch.fresh)
        content = json_bytes(_noted(analyze(tally, plan, level=level), batch).document())
        charge, name = Charge.of(plan), tally.digest
        return content, lambda ledger: ledger.charge(
            charge, name, subject=name, by_subject=True, content=content
        )

    return settle(received, batch, make, ledger=ledger, refusals=(InvalidFile, BatchTooSmall))


def _noted(release: Release, batch: KnownBatch) -> Release:
    """Return the release with a note of the messages that were left out.

    No answer has a part in their number: honest devices send no copies and no junk.
    """
    left_out = [
        f"{count:,} {what}"
        for count, what in (
            (batch.replayed, "that were copies of others, sent again by somebody on the way"),
            (batch.rejected, "that did not open, or hold nothing of this plan"),
        )
        if count
    ]
    if not left_out:
        return release
    note = f"Of {batch.items:,} messages some were left out: {'; '.join(left_out)}."
    answers = tuple(replace(one, notes=(*one.notes, note)) for one in release.answers)
    return replace(release, answers=answers)
