"""A plan as notebooks show it: what it promises, and how exact its release will be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.cards import card, paragraph, table
from chaffinch.charts.rounding import error_text
from chaffinch.planning.explanation import promise_in_odds
from chaffinch.planning.levels import group_error
from chaffinch.plans.expansion import counts_gaps
from chaffinch.privacy.guarantee import promised
from chaffinch.protocols.base import unit_text
from chaffinch.questions import BETWEEN, Cross

if TYPE_CHECKING:
    from chaffinch.plans.parts import Part
    from chaffinch.plans.plan import Plan

_LEVEL = 0.95


def plan_html(plan: Plan) -> str:
    """Return a plan as notebooks show it."""
    promise = promise_in_odds(plan)
    heads = ["question", "asked as", "protocol", f"{_LEVEL:.0%} interval to expect"]
    rows = []
    for part in plan.parts:
        asked = [part.name, part.question.kind, part.protocol.name]
        for what, words in expected(plan, part):
            rows.append([*asked, f"{what}: {words}" if what else words])
            asked = ["", "", ""]
    less = f"promised in its file: epsilon {promised(plan.epsilon, 6)}"
    return card(
        plan.title or "Plan",
        *(paragraph(f"Warning: {words}") for words in plan.warnings),
        paragraph(promise[0].upper() + promise[1:]),
        table(heads, rows, words=4),
        notes=[
            f"Intervals are those of {plan.reports:,} reports; with fewer nothing is released.",
            f"{plan.guarantee}{f' ({less})' if plan.reached.less else ''}.",
            f"plan {plan.id[:16]}",
        ],
    )


def expected(plan: Plan, part: Part) -> Iterator[tuple[str, str]]:
    """Yield how far the intervals of a release will reach: of which rows, and how far, in words.

    What depends on the answers is told for answers that are named.
    """
    question, margin = part.question, plan.margin(_LEVEL, question=part.name)
    if isinstance(question, Cross):
        yield from _of_cross(plan, part, question, margin)
    elif counts_gaps(question):
        half = plan.margin(_LEVEL, question=part.name, answered=0.5)
        told = f"± {100 * margin:.2g}% of the range if everybody answers"
        yield "", f"{told}, ± {100 * half:.2g}% if half do"
    elif question.shape == "number":
        yield "", f"± {100 * margin:.2g}% of the range"
    else:
        yield "", _counted(plan, margin)


def _counted(plan: Plan, margin: float) -> str:
    counted = "people" if plan.contributions == 1 else "reports"
    return f"± {100 * margin:.2g}% ({margin * plan.reports:,.3g} {counted})"


def _of_cross(plan: Plan, part: Part, question: Cross, margin: float) -> Iterator[tuple[str, str]]:
    *groups, last = question.questions
    spread = part.standard_error(plan.reports)
    # Sums of many cells are nearer to a normal law than one of them: this is hardly too little.
    multiple = margin * plan.reports / spread
    if question.measure is None:
        yield "each cell", _counted(plan, margin)
    else:
        number, people = question.measure, plan.reports / question.groups
        width, levels = multiple * (number.high - number.low), len(question.scores)
        least, most = (
            error_text(width * group_error(spread, people, levels, mean)) for mean in (0.5, 0.0)
        )
        yield (
            f"mean of {last} per {BETWEEN.join(groups)}",
            f"about ± {least} to {unit_text(number, most)}, of {people:,.0f} people who answered",
        )
    most_messages = part.protocol.most_messages(question, plan.reports) or 0
    joint = part.protocol.joint(question, np.array([most_messages]), plan.reports)
    for place, name in enumerate(groups if question.measure else question.questions):
        cells = math.prod(question.sizes) // question.sizes[place]
        error = math.sqrt(max(float(joint.covariance(1.0, 1.0, np.array([cells]))), 0.0))
        yield f"people per {name}", f"about {_counted(plan, multiple * error / plan.reports)}"
