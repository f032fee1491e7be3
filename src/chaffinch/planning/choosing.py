"""Take the protocol that somebody chose by its name, or refuse it with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chaffinch.errors import InvalidInput, NoPlanFound, Unquoted, UselessPlan
from chaffinch.planning.candidates import Candidate, Weighed
from chaffinch.planning.fewer_honest import epsilons_of_shares
from chaffinch.plans.parts import shortfall_of, total_of
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.protocols import row_name
from chaffinch.protocols.base import MESSAGES

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan


def choose(plan: Plan, name: str, *, anyway: bool) -> Plan:
    """Return the plan of another protocol that was weighed; see ``Plan.choose``."""
    if plan.own is None:
        rule, hint = "one that chaffinch.plan has just found", "plan again, with protocol="
        raise InvalidInput("plan", rule, Unquoted("one without alternatives"), hint=hint)
    rows = (plan.own, *plan.alternatives)
    chosen = row_named(rows, name)
    if chosen is plan.own:
        return plan
    refuse_broken_wishes(chosen, anyway=anyway)
    # Of the crowd that the chosen one counts on, which need not be that of this plan.
    short = shortfall_of(plan.honest, chosen.crowd, plan.reports, plan.contributions)

    def among(crowd: int) -> Mechanism:
        return total_of(chosen.parts, crowd, plan.rounds, plan.contributions, short)

    made = replace(
        plan,
        parts=chosen.parts,
        crowd=chosen.crowd,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        shares=epsilons_of_shares(among, chosen.crowd, chosen.epsilon, chosen.delta)
        if plan.view == MESSAGES
        else (),
        own=chosen,
        alternatives=Weighed(one for one in rows if one is not chosen),
        choice=asked_for(chosen),
    )
    refuse_useless(made.warnings, anyway=anyway)
    return made if plan.parties is None else made.run_by(plan.parties)


def row_named(rows: Sequence[Candidate], name: object) -> Candidate:
    """Return the row of this name, as it was weighed or as a table prints it."""
    for one in rows:
        if isinstance(name, str) and name in {one.name, row_name(one.name)}:
            return one
    raise InvalidInput(
        "protocol",
        one_of([one.name for one in rows]),
        name,
        hint="a protocol that is not in the table was not weighed: plan again, with protocol=",
    )


def one_of(names: Sequence[str]) -> str:
    """Return a rule that lists names."""
    return "one of " + ", ".join(repr(name) for name in names)


def refuse_broken_wishes(one: Candidate, *, anyway: bool) -> None:
    """Refuse a protocol that was asked for and does not meet all wishes, unless it is wanted."""
    if one.ruled_out and not anyway:
        raise NoPlanFound(
            f"The protocol {one.name!r} must meet every wish. Got one that is ruled out: "
            f"{'; '.join(one.ruled_out)}.",
            hint="change that wish, or choose another protocol; `--anyway` (anyway=True) takes "
            "it anyway",
            details={"protocol": one.name, "ruled_out": list(one.ruled_out)},
        )


def refuse_useless(
    warnings: Sequence[str], *, anyway: bool, wish: str = "more people, or for another epsilon"
) -> None:
    """Refuse a plan that is of no use, unless it is wanted; ``wish`` is what may be relaxed."""
    if warnings and not anyway:
        raise UselessPlan(warnings, wish=wish)


def asked_for(one: Candidate) -> str:
    """Return why a protocol was taken that somebody asked for, and what it does not meet."""
    broken = f", although it does not meet a wish ({'; '.join(one.ruled_out)})"
    return f"Chosen because it was asked for{broken if one.ruled_out else ''}."
