"""A plan as notebooks show it: what it promises, and how exact its release will be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaffinch.cards import card, paragraph, table
from chaffinch.planning.explanation import promise_in_odds
from chaffinch.planning.wishes import margins
from chaffinch.protocols.intervals import miss_chance

if TYPE_CHECKING:
    from chaffinch.plans.parts import Part
    from chaffinch.plans.plan import Plan

_LEVEL = 0.95


def plan_html(plan: Plan) -> str:
    """Return a plan as notebooks show it."""
    promise = promise_in_odds(plan)
    found = margins(plan.parts, plan.reports, miss_chance(_LEVEL), together=False)
    heads = ["question", "asked as", "protocol", f"{_LEVEL:.0%} interval to expect"]
    rows = [
        [part.name, part.question.kind, part.protocol.name, _expected(plan, part, found[part.name])]
        for part in plan.parts
    ]
    return card(
        plan.title or "Plan",
        *(paragraph(f"Warning: {words}") for words in plan.warnings),
        paragraph(promise[0].upper() + promise[1:]),
        table(heads, rows, words=3),
        notes=[
            f"Intervals are those of {plan.reports:,} reports; with fewer nothing is released.",
            f"{plan.guarantee}.",
            f"plan {plan.id[:16]}",
        ],
    )


def _expected(plan: Plan, part: Part, margin: float) -> str:
    """Return how far an interval will reach, as a share and where it is one in people."""
    share = f"± {100 * margin:.2g}%"
    if part.question.shape == "number":
        return f"{share} of the range"
    counted = "people" if plan.contributions == 1 else "reports"
    return f"{share} ({margin * plan.reports:,.3g} {counted})"
