"""The verbs, in the order data flows. Each is imported when it is called."""

from __future__ import annotations

from cyclopts import App

import chaffinch

VERBS = {
    "demo": ("demo:demo", "Show the whole pipeline on made-up people."),
    "run": ("run:run", "Plan, encode, shuffle and analyze a table of answers."),
    "plan": ("plan:plan", "Find the protocol that keeps a promise, or check a plan."),
    "encode": ("stages:encode", "Turn answers into messages, as their senders would."),
    "shuffle": ("stages:shuffle", "Put the messages of a whole crowd in a uniform order."),
    "analyze": ("stages:analyze", "Turn shuffled messages into estimates with intervals."),
    "privacy": ("privacy:privacy", "Show how private a mechanism is, exactly."),
    "compare": ("compare:compare", "Set exact parameters beside published formulas."),
    "simulate": ("simulate:simulate", "Run a plan many times on made-up people."),
    "audit": ("simulate:audit", "Attack the pipeline and bound its epsilon from below."),
    "ledger": ("ledger:app", "Make, show and charge a privacy budget."),
}

app = App(
    name="chaffinch",
    help="Count a crowd without seeing anyone in it.\n\n"
    "Try `chaffinch demo` first; then `chaffinch plan --example > survey.toml`.",
    help_epilogue="Every verb takes --json (one JSON document on standard output) and --quiet.",
    help_format="markdown",
    version=chaffinch.__version__,
    version_flags=["--version"],
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _place, (_name, (_path, _help)) in enumerate(VERBS.items()):
    app.command(f"chaffinch.cli.{_path}", name=_name, help=_help, sort_key=_place)
app["--help"].group = "Options"
app["--version"].group = "Options"
