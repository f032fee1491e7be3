"""A protocol that somebody chose: found by its name, and refused only for a reason that is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chaffinch.errors import InvalidInput, NoPlanFound, UselessPlan
from chaffinch.protocols import row_name

if TYPE_CHECKING:
    from chaffinch.planning.candidates import Candidate

LOCAL = "local"
"""The row that trusts no shuffler."""


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
            "it still",
            details={"protocol": one.name, "ruled_out": list(one.ruled_out)},
        )


def refuse_useless(warnings: Sequence[str], *, anyway: bool) -> None:
    """Refuse a plan that is of no use, unless it is wanted."""
    if warnings and not anyway:
        raise UselessPlan(warnings)


def asked_for(one: Candidate) -> str:
    """Return why a protocol was taken that somebody asked for, and what it does not meet."""
    broken = f", although it does not meet a wish ({'; '.join(one.ruled_out)})"
    return f"Chosen because it was asked for{broken if one.ruled_out else ''}."
