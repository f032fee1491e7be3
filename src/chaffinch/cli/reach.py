"""Reach across publishers: the verbs, in the order data flows."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App

from chaffinch.cli import reach_demo, reach_figures, reach_plan, reach_steps

VERBS: dict[str, Callable[..., int | None]] = {
    "demo": reach_demo.demo,
    "plan": reach_plan.plan,
    "key": reach_plan.key,
    "encode": reach_steps.encode,
    "analyze": reach_steps.analyze,
    "compare": reach_figures.compare,
    "figures": reach_figures.figures,
}

app = App(
    name="reach",
    help="Count ids across publishers: reach, overlaps, frequency.\n\n"
    "Each publisher makes a filter of its ids; an analyzer who never sees an id counts them all.",
    sort_key=99,
)
for _place, (_name, _verb) in enumerate(VERBS.items()):
    app.command(_verb, name=_name, sort_key=_place)
