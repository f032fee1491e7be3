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
from chaffinch.analysis.open_batches import absent_reports, is_short
from chaffinch.analysis.received import KnownBatch, Received
from chaffinch.disk.kill_points import kill_point
from chaffinch.errors import (
    BatchTooSmall,
    BudgetExhausted,
    ChaffinchError,
    InvalidFile,
    InvalidInput,
)
from chaffinch.ledger import Charge, Entry, Ledger
from chaffinch.plans.plan import Plan
from chaffinch.release.export import json_bytes
from chaffinch.release.surveys import Release

Made = tuple[bytes, Callable[[Ledger], Entry]]
"""The bytes of a release, and what charges them to a ledger and keeps them there."""


def release_once(
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
    # After a kill here the ledger has both the charge and the bytes. The next try finds the same
    # charge, pays nothing, and takes these bytes.
    kill_point("analyzer.paid")
    received.decide(batch.id, "released", release=content)
    kill_point("analyzer.released")
    return received.known(batch.id)


def release_batch(
    received: Received,
    batch: KnownBatch,
    plan: Plan,
    *,
    ledger: Ledger | None = None,
    level: float = 0.95,
) -> KnownBatch:
    """Release the messages of a batch that was opened, or note why not.

    One with too few messages waits for others, if it is certain that enough messages are enough
    people: where every report has the same number of them. Where the number follows the noise, two
    batches that were robbed of their noise would pass for one.
    """
    if is_short(plan, batch.fresh):
        said = (
            f"It has {batch.fresh:,} messages that are new here and of the plan, and "
            f"{plan.crowd:,} honest users send at least {plan.least_items:,}: copies or junk stand "
            f"for reports."
        )
        state, rest = ("refused", "") if plan.varying else ("short", " It waits for others.")
        received.decide(batch.id, state, why=said + rest)
        return received.known(batch.id)
    absent = absent_reports(plan, batch.reports, batch.fresh)
    tally = replace(received.tally(batch.id), absent=absent)

    def make() -> Made:
        content = json_bytes(_noted(analyze(tally, plan, level=level), batch).document())
        charge, name = Charge.of(plan), tally.digest
        return content, lambda ledger: ledger.charge(
            charge, name, subject=name, by_subject=True, content=content
        )

    return release_once(received, batch, make, ledger=ledger, refusals=(InvalidFile, BatchTooSmall))


def join_short(received: Received, plan: Plan) -> bool:
    """Join batches of a plan that are short, where they are not short together.

    Each of them has left its hop by itself, so the analyzer has seen it by itself. Whoever reads
    the release sees them together, and is promised a crowd: there is one. Returns whether any were
    joined.
    """
    waiting: dict[int, list[KnownBatch]] = {}
    for one in received.all():
        if (one.plan_id, one.state) == (plan.id, "short"):
            waiting.setdefault(one.round, []).append(one)
    due = [
        batches
        for batches in waiting.values()
        if not is_short(plan, sum(one.fresh for one in batches))
    ]
    for batches in due:
        # Whoever made one of them may have said any number of reports.
        fresh = sum(one.fresh for one in batches)
        received.join(batches, reports=max(plan.reports, -(-fresh // plan.slots)))
    return bool(due)


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
