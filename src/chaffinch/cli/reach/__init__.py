"""The verbs for the reach across publishers, in the order in which data flows."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App

from chaffinch.cli.reach.bound_verbs import compare, figures, flips
from chaffinch.cli.reach.operator_verbs import analyze, shuffle
from chaffinch.cli.reach.plan_verb import plan
from chaffinch.cli.reach.publisher_verbs import encode, key, send
from chaffinch.cli.reach.reach_demo import demo

VERBS: dict[str, Callable[..., int | None]] = {
    "demo": demo,
    "plan": plan,
    "key": key,
    "encode": encode,
    "send": send,
    "shuffle": shuffle,
    "analyze": analyze,
    "compare": compare,
    "flips": flips,
    "figures": figures,
}

app = App(
    name="reach",
    help="Count ids across publishers: reach, overlaps, frequency.\n\n"
    "Each publisher makes a filter of its ids; an analyzer who never sees an id counts them all.",
    sort_key=99,
)
for _place, (_name, _verb) in enumerate(VERBS.items()):
    app.command(_verb, name=_name, sort_key=_place)
