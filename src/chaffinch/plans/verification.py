"""What verifying a plan of any kind refuses: a promise too weak for a party, and a false one."""

from __future__ import annotations

from chaffinch.errors import GuaranteeNotProven, InvalidInput, Unquoted
from chaffinch.privacy.guarantee import PROVEN, Target
from chaffinch.privacy.mechanism import Mechanism


def require_proof(mechanism: Mechanism) -> None:
    """Refuse a mechanism that proves nothing, or nothing of a person who answers otherwise."""
    if mechanism.method not in PROVEN:
        rule = f"a proof ({' or '.join(PROVEN)})"
        raise InvalidInput("method of a plan", rule, mechanism.method)
    if mechanism.neighbours != Mechanism.neighbours:
        rule = f"{Mechanism.neighbours!r}: all answers of one person, replaced by any others"
        raise InvalidInput("neighbours of a plan", rule, mechanism.neighbours)


def require_within(epsilon: float, delta: float, within: Target | None) -> None:
    """Refuse a promise that is weaker than a party accepts, whether it holds or not."""
    if within and not (epsilon <= within.epsilon and delta <= within.delta):
        raise InvalidInput(
            "promise of a plan",
            f"within epsilon {within.epsilon:.12g} and delta {within.delta:.12g}",
            Unquoted(f"epsilon {epsilon:.12g} and delta {delta:.12g}"),
        )


def require_reached(reached: float, epsilon: float, delta: float, *, among: str = "") -> None:
    """Refuse a plan whose parameters reach another delta than it promises at ``epsilon``."""
    # Not the other way round: NaN must be refused.
    if not reached <= delta:
        raise GuaranteeNotProven(
            f"delta of this plan at epsilon {epsilon:g}{among}",
            upper=reached,
            most=delta,
            hint="the plan promises more than its parameters give: do not use it",
        )
