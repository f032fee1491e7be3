"""Count what arrived."""

from __future__ import annotations

import numpy as np

from chaffinch.errors import InvalidFile, InvalidInput, PlanMismatch, Unquoted, checks
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols.base import MESSAGES, TOTALS
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
    if found.noisy != (plan.view == TOTALS):
        views = Unquoted(f"one of {TOTALS if found.noisy else MESSAGES}")
        raise InvalidInput("tally", f"one of {plan.view}, as its plan", views)
    if plan.view == TOTALS:
        Origin.of(plan, found.round).check_crowd(found.reports, 0)
        return found
    Origin.of(plan, found.round).check_crowd(found.reports, int(np.sum(found.counts)))
    for part, first in zip(plan.parts, plan.offsets, strict=True):
        _check_noise(part, int(np.sum(found.counts[first : first + part.codes])), found, plan)
    return found


def _check_noise(part: Part, messages: int, found: Tally, plan: Plan) -> None:
    """Refuse a batch with improbably little or much noise: somebody took some away, or added it.

    An honest batch is refused with a chance of 1e-9 at most, each way.
    """
    protocol, question = part.protocol, part.question
    least, most = (
        protocol.least_messages(question, plan.honest_reports),
        protocol.most_messages(question, plan.honest_reports),
    )
    if messages < least:
        said, done = f"at least {least:,}", "dropped"
    elif most is not None and messages > most + plan.slots * (found.reports - plan.honest_reports):
        # Nobody promised that reports beyond the honest users are not full.
        said, done = f"at most {most:,} and what other reports have room for", "added"
    else:
        return
    raise InvalidFile(
        "batch",
        f"one with the noise that {plan.crowd:,} honest users send "
        f"({said} messages for {part.name!r})",
        [f"{messages:,} messages in {found.reports:,} reports"],
        hint=f"messages were {done} before they were shuffled: release nothing of this batch",
    )
