"""Count what arrived."""

from __future__ import annotations

import numpy as np

from chaffinch.errors import BatchTooSmall, InvalidInput, PlanMismatch
from chaffinch.planning.plan import Plan
from chaffinch.sampling import histogram
from chaffinch.wire.messages import Counts, Shuffled, Tally


def tally(batch: Shuffled) -> Tally:
    """Return the tally of a shuffled batch."""
    counts = histogram(batch.messages, batch.origin.codes)
    if batch.counts is not None:
        counts = counts + batch.counts
    return Tally(batch.origin.plan_id, batch.reports, counts, batch.batch)


def checked(found: Tally, plan: Plan) -> Tally:
    """Refuse a tally of another plan, of another size, or of too small a crowd."""
    if found.plan_id != plan.id:
        raise PlanMismatch("batch", expected=plan.id, found=found.plan_id)
    if len(found.counts) != plan.codes:
        raise InvalidInput("tally", f"one of {plan.codes} codes", len(found.counts))
    if found.reports < plan.reports:
        raise BatchTooSmall(have=found.reports, need=plan.reports)
    return found


def possible(counts: Counts, most: int) -> tuple[Counts, bool]:
    """Return counts that honest reports can add up to, and whether any had to be lowered.

    A sender who breaks the rules can fill every slot with one code; an answer is still due.
    """
    return np.minimum(counts, most), bool((counts > most).any())
