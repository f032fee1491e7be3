"""A plan in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chaffinch.charts.rounding import rounded_up
from chaffinch.planning.baselines import central_noises, people_with_centre
from chaffinch.planning.levels import group_error
from chaffinch.plans.expansion import counts_gaps
from chaffinch.plans.meaning import odds, promise_words
from chaffinch.plans.parts import influences
from chaffinch.plans.protected_units import protected_answers
from chaffinch.privacy.guarantee import left_words, promised
from chaffinch.protocols import row_name
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.questions import Cross
from chaffinch.wire.document_forms import exact_text

if TYPE_CHECKING:
    from chaffinch.planning.candidates import Candidate
    from chaffinch.plans.parts import Part
    from chaffinch.plans.plan import Plan


def explain(plan: Plan) -> str:
    """Return what is promised, to whom, what is sent, how exact the answer is, and why."""
    paragraphs = [
        *(f"Warning: {words}" for words in plan.warnings),
        _promise(plan),
        f"In odds: {promise_in_odds(plan)}",
        *(_of_totals(plan) if plan.view == TOTALS else _of_devices(plan)),
        _choice(plan),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


MOST_LOCAL = 4.0
"""A report that leaves a larger epsilon protects nobody: 98 of 100 guessers could be right."""


def _of_devices(plan: Plan) -> list[str]:
    return [_trust(plan), *(_sending(plan, part) for part in plan.parts)]


def _of_totals(plan: Plan) -> list[str]:
    """Return who is trusted, and what is added to which totals."""
    trust = (
        "This counts on one party that holds the answers, adds them up, adds noise to the totals, "
        "once, and releases nothing else: nothing is hidden from it, and the promise holds against "
        "everybody else, whoever they work with. How many people there are is public. Nothing is "
        f"released before {plan.reports:,} reports are there."
    )
    return [trust, *(_adding_up(plan, part) for part in plan.parts)]


def _adding_up(plan: Plan, part: Part) -> str:
    before, done = _crossing(plan, part), part.protocol.sentence()
    done = done[:1].upper() + done[1:] if before else done
    return f"{part.name}: {before}{done}. {_exactness(plan, part)}."


_DONE = {MESSAGES: "sent", TOTALS: "counted"}
_ON_DEVICE = "On the device "


def _promise(plan: Plan) -> str:
    covered = protected_answers(len(plan.asked), plan.rounds, contributions=plan.contributions)
    said = promise_words(
        plan.guarantee, covered, change="any change of it", seen="that can be seen"
    )
    return f"{said}.{_asked_for(plan)}{_public_of_everybody(plan)}"


def _asked_for(plan: Plan) -> str:
    """Return what the plan's file promises, where its noise gives less."""
    if not plan.reached.less:
        return ""
    return (
        f" That is what the noise gives; the plan's file promises epsilon "
        f"{promised(plan.epsilon, 6)}, as was asked for."
    )


def _public_of_everybody(plan: Plan) -> str:
    if plan.group is None:
        return ""
    chosen = "" if plan.group.value is None else f" This is the plan of {plan.group.value!r}."
    return (
        f" Not protected is {plan.group.name}: who belongs to which of its {len(plan.groups):,} "
        "groups is public. Every group is a collection of its own with this promise, and nothing "
        f"is released of one with fewer than {plan.reports:,} reports.{chosen}"
    )


def promise_in_odds(plan: Plan) -> str:
    """Return what is promised as guesses, without a capital letter."""
    guess, seen = "which of two answers someone gave", "everything that is released"
    return odds(plan.guarantee, guess=guess, seen=seen)


def _trust(plan: Plan) -> str:
    if plan.crowd == 1:
        return "This counts on nobody else: it holds even if all others collude."
    left = "; ".join(
        f"{float(share):.0%} honest: {'nothing is claimed' if math.isinf(e) else left_words(e)}"
        for share, e in plan.reached.shares
    )
    stated = "" if plan.reached.less else ", as stated in the plan and checked by `plan --check`"
    named = f" {plan.trust}" if plan.trust else ""
    return (
        f"This counts on {plan.guarantee.crowd_shown}, and on a shuffler that does not collude "
        f"with the analyzer; if they work together, {left_words(plan.guarantee.local_epsilon)} is "
        f"left.{named} If fewer of these {plan.crowd:,} are honest{stated}: {left}. Nothing is "
        f"released before {plan.reports:,} reports are there.{_dishonest_users(plan)} One "
        f"dishonest report can move {_moved(plan.parts, plan.slots)}."
    )


def _dishonest_users(plan: Plan) -> str:
    if plan.honest is None:
        return ""
    chance = promised(float(plan.shortfall), 3)
    return (
        f" Of {plan.people:,} people each but the one protected is taken to lie with a chance of "
        f"{exact_text(1 - plan.honest.share)}: liars are people, not reports, and lie "
        f"independently of one another, of the answers and of who shares their batch. That fewer "
        f"than {plan.crowd:,} of a batch are honest, the one protected among them, has a chance "
        f"of at most {chance}{' in each round' * (plan.rounds > 1)}, which is part of the promise."
    )


def _sending(plan: Plan, part: Part) -> str:
    error, centre = part.standard_error(plan.reports), _trusted_centre(plan, part)
    slots = "1 slot" if part.slots == 1 else f"{part.slots} slots"
    useless = ""
    if error > plan.reports / 4:
        useless = " Beware: that is a large part of the crowd; the answer will say little."
    filled = "; how many are filled follows the noise, never the answer" if part.varies else ""
    return (
        f"{part.name}: {_crossing(plan, part)}{_ON_DEVICE * isinstance(part.question, Cross)}"
        f"{part.protocol.sentence()}; a report has {slots} for it{filled}. "
        f"{_exactness(plan, part)}{centre}. {_influence(plan, part)}{useless}"
    )


def _exactness(plan: Plan, part: Part) -> str:
    error = part.standard_error(plan.reports)
    if counts_gaps(part.question):
        # Half of the people are half of what a mean is divided by; and far from the middle, where
        # gaps are sent to, the error of their count is felt, too.
        answered = plan.parts[plan.parts.index(part) + 1].standard_error(plan.reports)
        worst = math.hypot(error, 0.5 * answered) / (0.5 * plan.reports)
        exact = (
            f"the mean of those who answered has a standard error of {error / plan.reports:.3g} of "
            f"the range if everybody answers and it is in the middle, of {worst:.3g} if half do "
            "and it is at an end, and of more if fewer do"
        )
    elif part.question.shape == "number":
        exact = f"the mean has a standard error of {error / plan.reports:.3g} of the range"
    else:
        exact = (
            f"each count has a standard error of {error:.3g} people "
            f"({error / plan.reports:.2%} of the reports)"
        )
    return f"With {plan.reports:,} reports {exact}"


def _crossing(plan: Plan, part: Part) -> str:
    question = part.question
    if not isinstance(question, Cross):
        return ""
    cells = math.prod(question.sizes)
    names = " and ".join(question.questions)
    told = (
        f"{names} are {_DONE[plan.view]} together, as one of {cells:,} cells, so that all of it is "
        "protected at once: whoever is replaced may change every answer and move from one group to "
        "another. "
    )
    if question.measure is not None:
        people, levels = plan.reports / question.groups, len(question.scores)
        spread = part.standard_error(plan.reports)
        least, worst = (group_error(spread, people, levels, mean) for mean in (0.5, 0.0))
        told += (
            f"The number is rounded by chance to one of {levels} levels, which moves no mean; the "
            f"mean of a group of {people:,.0f} people who answered has a standard error of about "
            f"{least:.3g} of the range if it is in the middle, and of {worst:.3g} at an end. "
        )
    return told


def _trusted_centre(plan: Plan, part: Part) -> str:
    if len(plan.parts) * plan.rounds * plan.contributions > 1 or plan.crowd == 1:
        return ""
    error = part.standard_error(plan.reports)
    noises = central_noises(part.question, plan.guarantee.epsilon, plan.delta)
    best = min(noises, key=lambda one: one.standard_error)
    unit = "ranges" if part.question.shape == "number" else "people"
    people = people_with_centre(error, plan.reports, best.standard_error)
    return (
        f", {error / best.standard_error:.2f} times what a trusted centre would need for the same "
        f"promise ({best.name} noise of {best.standard_error:.3g} {unit}): a centre would be as "
        f"exact, in shares, with {people:,} people"
    )


def _influence(plan: Plan, part: Part) -> str:
    return f"One dishonest report can move {_moved([part], plan.slots)}."


def _moved(parts: Sequence[Part], slots: int) -> str:
    """Return what one dishonest report moves, in words."""
    found = influences(parts, slots).items()
    return " and ".join(f"{what} by at most {most}" for what, most in found)


def _choice(plan: Plan) -> str:
    if not plan.alternatives:
        return plan.choice
    own = max(part.standard_error(plan.reports) for part in plan.parts)
    ordered = sorted(plan.alternatives, key=lambda one: (one.epsilon, one.error))
    lines = [_compared(one, own, plan.epsilon) for one in ordered]
    return "\n".join(
        [f"{plan.choice}{_rejected_protocols(plan, own)} Why not another protocol:".strip(), *lines]
    )


def _rejected_protocols(plan: Plan, own: float) -> str:
    free = [one for one in plan.alternatives if not one.ruled_out and one.crowd > 1]
    words = []
    safest = min(free, key=lambda one: (one.local_epsilon, one.error), default=None)
    if safest is not None and safest.local_epsilon <= min(
        MOST_LOCAL, plan.guarantee.local_epsilon / 1.01
    ):
        words.append(
            f"an epsilon of {rounded_up(safest.local_epsilon):g} even if they collude "
            f"({safest.name}, {_price(safest, plan, own)})"
        )
    finest = min(free, key=lambda one: one.error, default=None)
    if finest is not None and finest.error < own / 1.01 and finest.epsilon <= plan.epsilon:
        words.append(
            f"a standard error {finest.error / own:.2f} times as large ({finest.name}, "
            f"{finest.messages:,.3g} messages)"
        )
    return f" Given up: {'; '.join(words)}." if words else ""


def _price(one: Candidate, plan: Plan, own: float) -> str:
    error = f"standard error {one.error / own:.2f} times as large"
    return error if one.epsilon == plan.epsilon else f"epsilon {one.epsilon:g}, {error}"


def _compared(one: Candidate, own: float, epsilon: float) -> str:
    reasons = [] if one.epsilon == epsilon else [f"epsilon {one.epsilon:g}"]
    reasons += [f"ruled out ({words})" for words in one.ruled_out]
    ratio = one.error / own
    reasons.append(f"standard error {ratio:.2f} times as large")
    if one.slots:
        if one.crowd > 1:
            reasons.append(f"{left_words(one.local_epsilon)} if they collude")
        reasons.append(f"one report moves {_moved(one.parts, one.slots)}")
    if one.beside:
        reasons.append(one.beside)
    return f"- {row_name(one.name)}: " + ", ".join(reasons)
