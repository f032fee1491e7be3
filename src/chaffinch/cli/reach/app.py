"""Reach across publishers: the verbs, in the order data flows."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App

from chaffinch.cli.reach import (
    analyze,
    compare,
    demo,
    encode,
    figures,
    flips,
    key,
    plan,
    send,
    shuffle,
)

VERBS: dict[str, Callable[..., int | None]] = {
    "demo": demo.demo,
    "plan": plan.plan,
    "key": key.key,
    "encode": encode.encode,
    "send": send.send,
    "shuffle": shuffle.shuffle,
    "analyze": analyze.analyze,
    "compare": compare.compare,
    "flips": flips.flips,
    "figures": figures.figures,
}

app = App(
    name="reach",
    help="Count ids across publishers: reach, overlaps, frequency.\n\n"
    "Each publisher makes a filter of its ids; an analyzer who never sees an id counts them all.",
    sort_key=99,
)
for _place, (_name, _verb) in enumerate(VERBS.items()):
    app.command(_verb, name=_name, sort_key=_place)
