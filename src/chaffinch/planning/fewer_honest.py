"""The epsilon that a plan reaches, and the one that still holds when fewer users are honest."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from chaffinch.charts.rounding import rounded_up
from chaffinch.errors import GuaranteeNotProven
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.roots import find_largest
from chaffinch.protocols.tuning import gaussian_mu, gaussian_slope

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan

Shares = tuple[tuple[Fraction, float], ...]
_SHARES = (Fraction(9, 10), Fraction(7, 10), Fraction(1, 2))
_LESS = 0.99
"""A plan that does not keep such a part of its epsilon with the same delta reaches what it says."""


class Reached(NamedTuple):
    """What the noise of a plan gives, which can be less than its file promises."""

    epsilon: float
    shares: Shares
    """For each share of honest users the epsilon that still holds."""
    less: bool
    """Whether it is less than promised: then it is a proven upper bound of its own."""


def reached(plan: Plan) -> Reached:
    """Return the epsilons that the noise of a plan gives with its delta.

    A wish for the single report, or noise that comes in whole decoys, can ask for more noise than
    the promise needs. Nothing here is larger than promised, nor than what a report alone leaves.
    """
    whole = plan.mechanism()
    local = rounded_up(whole.local_epsilon)
    most = min(plan.epsilon, local)
    if whole.takes_minutes or _misses(whole, _LESS * most, plan.delta):
        return Reached(most, _at_most(plan.shares, local), most < plan.epsilon)

    def among(crowd: int) -> Mechanism:
        return plan.mechanism(Fraction(crowd, plan.crowd))

    epsilon = min(most, smallest_epsilon(whole, plan.delta, _LESS * most))
    shares = epsilons_of_shares(among, plan.crowd, epsilon, plan.delta) if plan.shares else ()
    return Reached(epsilon, _at_most(shares, local), epsilon < plan.epsilon)


def _misses(mechanism: Mechanism, epsilon: float, delta: float) -> bool:
    """Return whether an epsilon is not proven to hold."""
    try:
        return not mechanism.delta_bound(epsilon) <= delta
    except GuaranteeNotProven:
        return True


def _at_most(shares: Shares, local: float) -> Shares:
    return tuple((share, min(epsilon, local)) for share, epsilon in shares)


def epsilons_of_shares(
    among: Callable[[int], Mechanism], crowd: int, epsilon: float, delta: float
) -> Shares:
    """Return the epsilon that still holds with each honest share, rising as the share falls.

    ``among`` is what one person is exposed to among so many honest users. Each epsilon is proven
    by itself, to a width, so that one search can end below another: below that of a larger
    share, or of the whole crowd. The larger of the two holds for both. A crowd of 1 trusts
    nobody, and has no shares.
    """
    found: list[tuple[Fraction, float]] = []
    least = epsilon
    for share in _SHARES if crowd > 1 else ():
        total = among(max(1, math.floor(crowd * share)))
        if total.takes_minutes:
            # Not worth the wait: nothing is claimed for this share.
            found.append((share, math.inf))
            continue
        guess = epsilon / math.sqrt(float(share))
        own = smallest_epsilon(total, delta, guess)
        least = max(least, own)
        found.append((share, least))
    return tuple(found)


def smallest_epsilon(mechanism: Mechanism, delta: float, guess: float) -> float:
    """Return an epsilon of four digits that holds with ``delta``; infinite if none is found."""
    if guess >= mechanism.local_epsilon:
        return rounded_up(mechanism.local_epsilon)

    # The largest 1/epsilon that keeps delta is sought. Every epsilon is rounded up to four digits
    # before it is tried, so that the one that is returned is one that was proven.
    def excess(inverse: float) -> float:
        reached = mechanism.delta_bound(rounded_up(1.0 / inverse))
        return math.log(reached / delta) if reached > 0 else -800.0

    slope = gaussian_slope(guess, gaussian_mu(guess, delta))
    inverse = find_largest(
        excess, 1.0 / guess, least=1.0 / 700.0, most=1e9, tolerance=2e-3, slope=slope
    )
    if inverse is None:
        return rounded_up(mechanism.local_epsilon)
    return min(rounded_up(1.0 / inverse), rounded_up(mechanism.local_epsilon))
