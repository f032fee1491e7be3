"""The verbs, in the order data flows. What is heavy, each imports when it is called."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App

import chaffinch
from chaffinch.cli import (
    analyze,
    audit,
    check,
    compare,
    cost,
    demo,
    encode,
    figures,
    keys,
    ledger,
    plan,
    privacy,
    rehearse,
    run,
    send,
    serve,
    shuffle,
    simulate,
    status,
    survey,
    trend,
    web,
)
from chaffinch.cli.numbers import AS_PEOPLE_WRITE
from chaffinch.cli.reach import app as reach_app

VERBS: dict[str, Callable[..., int | None]] = {
    "demo": demo.demo,
    "survey": survey.survey,
    "check": check.check,
    "run": run.run,
    "plan": plan.plan,
    "cost": cost.cost,
    "encode": encode.encode,
    "send": send.send,
    "shuffle": shuffle.shuffle,
    "analyze": analyze.analyze,
    "trend": trend.trend,
    "privacy": privacy.privacy,
    "compare": compare.compare,
    "figures": figures.figures,
    "simulate": simulate.simulate,
    "audit": audit.audit,
    "rehearse": rehearse.rehearse,
    "status": status.status,
    "web": web.web,
}

app = App(
    name="chaffinch",
    help="Count a crowd without seeing anyone in it.\n\n"
    "Try `chaffinch demo` first; then `chaffinch plan --example > survey.toml`.",
    help_epilogue="Every verb takes --json (one JSON document on standard output) and --quiet.",
    help_format="markdown",
    default_parameter=AS_PEOPLE_WRITE,
    version=chaffinch.__version__,
    version_flags=["--version"],
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _place, (_name, _verb) in enumerate(VERBS.items()):
    app.command(_verb, name=_name, sort_key=_place)
# Several verbs under one name; they come last.
app.command(reach_app)
app.command(ledger.app)
app.command(keys.app)
app.command(serve.app)
app["--help"].group = "Options"
app["--version"].group = "Options"
