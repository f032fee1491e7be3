"""Count what arrived."""

from __future__ import annotations

import numpy as np

from chaffinch import checks
from chaffinch.errors import InvalidFile, InvalidInput, PlanMismatch
from chaffinch.planning.plan import Part, Plan
from chaffinch.wire.messages import Origin, Shuffled, Tally


def tally(batch: Shuffled) -> Tally:
    """Return the tally of a shuffled batch."""
    origin = batch.origin
    counts = batch.code_counts().dense()
    return Tally(origin.plan_id, batch.reports, counts, batch.name, origin.round)


def check_tally(found: Tally, plan: Plan) -> Tally:
    """Refuse a tally of another plan or round, of another size, or of too small a crowd."""
    if found.plan_id != plan.id:
        raise PlanMismatch("batch", expected=plan.id, found=found.plan_id)
    if len(found.counts) != plan.codes:
        raise InvalidInput("tally", f"one of {plan.codes} codes", len(found.counts))
    checks.whole("round of a tally", found.round, least=1, most=plan.rounds)
    Origin.of(plan, found.round).check_crowd(found.reports, int(np.sum(found.counts)))
    for part, first in zip(plan.parts, plan.offsets, strict=True):
        _check_noise(part, int(np.sum(found.counts[first : first + part.codes])), found, plan)
    return found


def _check_noise(part: Part, messages: int, found: Tally, plan: Plan) -> None:
    """Refuse a batch with improbably little noise: somebody has taken some of it away."""
    least = part.protocol.least_messages(part.question, plan.crowd)
    if messages < least:
        raise InvalidFile(
            "batch",
            f"one with the noise that {plan.crowd} honest users send "
            f"(at least {least} messages for {part.name!r})",
            [f"{messages} messages in {found.reports} reports"],
            hint="messages were dropped before they were shuffled: release nothing of this batch",
        )
