"""Count what arrived."""

from __future__ import annotations

import numpy as np

from chaffinch import checks
from chaffinch.errors import InvalidInput, PlanMismatch
from chaffinch.planning.plan import Plan
from chaffinch.wire.batches import Counts
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
    return found


def cap_counts(counts: Counts, most: int) -> tuple[Counts, bool]:
    """Return counts that honest reports can add up to, and whether any had to be lowered.

    A sender who breaks the rules can fill every slot with one code; an answer is still due.
    """
    return np.minimum(counts, most), bool((counts > most).any())
