"""The protocols that a planner weighed, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chaffinch.cli.output import Output

if TYPE_CHECKING:
    from chaffinch.planning.candidates import Candidate
    from chaffinch.planning.plan import Plan

_NAMES: dict[str, Callable[[Any], str]] = {
    "flips": lambda one: "flips" if one.copies == 1 else f"flips, {one.copies} copies",
    "decoys": lambda _: "clear with decoys",
    "flipped-decoys": lambda _: "flips with decoys",
    "encoded": lambda one: (
        f"number in {one.resolution} bits, {'total' if one.together else 'steps'} seen"
    ),
}


def chosen(plan: Plan) -> Candidate:
    """Return the plan's own protocols as the planner weighed them."""
    from chaffinch.planning.candidates import Task, candidate

    name = "; ".join(_NAMES[part.protocol.kind](part.protocol) for part in plan.parts)
    task = Task(
        questions=tuple((part.name, part.question) for part in plan.parts),
        users=plan.users,
        reports=plan.reports,
        rounds=plan.rounds,
        max_messages=max(plan.slots, 1),
    )
    promise = (plan.epsilon, plan.delta)
    return candidate("local" if plan.crowd == 1 else name, plan.parts, plan.crowd, promise, task)


def _promise(value: float) -> str:
    from chaffinch.rounding import at_most

    return "none" if math.isinf(value) else at_most(value, 4)


_COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("epsilon", lambda row: _promise(row["epsilon"])),
    ("error", lambda row: f"{row['standard_error']:,.4g}"),
    ("slots", lambda row: f"{row['slots']:,}{'' if row['within_limits'] else ' !'}"),
    ("messages", lambda row: f"{row['messages']:,.3g}"),
    ("bytes", lambda row: f"{row['report_bytes']:,}"),
    ("ops", lambda row: f"{row['shuffler_operations']}+{row['analyzer_operations']:,}"),
    ("local ε", lambda row: _promise(row["local_epsilon"])),
)
_COSTS = {
    "slots": "message slots",
    "messages": "messages sent",
    "bytes": "bytes before sealing",
    "ops": "public-key operations at shuffler + analyzer",
}
"""What is told of one report, for the columns that have no longer name."""
_LEFT_OUT_WHEN_NARROW = ("messages", "bytes", "ops")


def document(plan: Plan) -> list[dict[str, Any]]:
    """Return every protocol with what it costs, the chosen one first."""
    own = chosen(plan)
    return [
        {
            "protocol": one.name,
            "chosen": one is own,
            "within_limits": not one.too_many_messages,
            "epsilon": one.epsilon,
            "delta": one.delta,
            "standard_error": one.error,
            "slots": one.slots,
            "messages": one.messages,
            "report_bytes": one.report_bytes,
            "shuffler_operations": one.shuffler_operations,
            "analyzer_operations": one.analyzer_operations,
            "local_epsilon": one.local_epsilon,
        }
        for one in (own, *sorted(plan.alternatives, key=lambda one: one.error))
    ]


def show(plan: Plan, output: Output) -> None:
    """Print the protocols as a table."""
    rows = document(plan)
    mixed = len({row["epsilon"] for row in rows}) > 1
    kept = [place for place, one in enumerate(_COLUMNS) if mixed or one[0] != "epsilon"]
    if output.width < 80:
        kept = [place for place in kept if _COLUMNS[place][0] not in _LEFT_OUT_WHEN_NARROW]
    shown = [
        [
            "→" if row["chosen"] else "",
            row["protocol"].replace("number in ", "").replace(" seen", ""),
            *(_COLUMNS[place][1](row) for place in kept),
        ]
        for row in rows
    ]
    output.table(["", "protocol", *(_COLUMNS[place][0] for place in kept)], shown, texts=2)
    output.words("")
    costs = [_COSTS[name] for place in kept if (name := _COLUMNS[place][0]) in _COSTS]
    output.words(
        "→ chosen. error: standard error of a count, in people (of a sum, in ranges). Per report: "
        f"{', '.join(costs)}. local ε: what is left if shuffler and analyzer collude."
        + (" ! more slots than allowed." if any(not row["within_limits"] for row in rows) else "")
    )
