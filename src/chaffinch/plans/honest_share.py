"""How many honest people a batch has, where some of its people may lie.

The person who is protected is honest. Of the others in a batch each is honest with the chance
``share``, independently of one another, of the answers, and of who is in a batch together. A
batch of R people then has K = 1 + Bin(R - 1, share) honest ones, and its delta is at most

    E[δ_K(ε)]  <=  δ_users(ε) + P[K < users].

The second term, the *shortfall*, is charged for every round. That it also covers parts of a pool
that a hop splits, and liars whom somebody has picked, is shown in docs/concepts/honest-people.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.precision import up
from chaffinch.privacy.numerics.roots import bisect_whole

Reading = Literal["independent"]
"""How a share is meant: each of the others is honest with that chance, independently."""

_PART_OF_DELTA = Fraction(1, 1000)
"""How much of delta all rounds may take: few reports more, and too little for noise to grow."""
_LATER_STEPS = 1000
"""The chance counts up to e^epsilon times for a person's later reports: less often than that."""
_LEAST_CHANCE = 1e-300
"""A smaller chance is called that: it would lose the digits of a float."""
_ROUNDOFF = 2.0**-50
"""More than a logarithm of a rational, and its product with a whole number, are off by."""


@dataclass(frozen=True, slots=True)
class HonestShare:
    """The chance of everybody but the person protected to be honest, below 1."""

    share: Fraction
    reading: Reading = "independent"

    def __post_init__(self) -> None:
        share: object = self.share
        if not isinstance(share, Fraction) or not Fraction(1, 1000) <= share < 1:
            raise InvalidInput("honest share", "at least 0.001 and below 1", share)
        checks.choice("reading of the honest share", self.reading, ("independent",))

    def shortfall(self, *, users: int, reports: int, contributions: int = 1) -> Fraction:
        r"""Return an upper end of the chance that a batch has too few honest people.

        Formula
        -------
        .. math:: \tau = (h m / s)^s ((1 - h) m / (m - s))^{m - s}, \quad
            P[K < n] \le \tau, \quad \tau + \tau^2 + \tau^4 + \ldots \le \tau / (1 - \tau)

        Symbols    n = ``users``, h = ``share``, c = ``contributions``, m = (``reports`` - 1)/c,
                   s = n - 2/c: P[Bin(m, h) <= s] where c is 1.
        Source     Chernoff's bound of a binomial [Hoeffding 1963, theorem 1]; it holds for draws
                   without replacement [Hoeffding 1963, theorem 4]. The sum is over the splits
                   that a hop tries, each into at most half as many parts as the one before.
        Promises   Never below the true chance.
        Needs      Nothing: where the mean is too small it is 1.
        Cost       O(1).

        >>> share = HonestShare(Fraction(9, 10))
        >>> (
        ...     float(share.shortfall(users=1000, reports=1112)),
        ...     1e-9 > share.shortfall(users=1000, reports=1190),
        ... )
        (1.0, True)
        """
        if users == 1:
            return Fraction(0)  # The person protected is one.
        others, few = Fraction(reports - 1, contributions), users - Fraction(2, contributions)
        if not others * self.share > few:
            return Fraction(1)
        # Where it could be 1/2 or more nothing is said. Below, τ/(1 − τ) is at most 2·τ.
        chance = max(_chernoff(others, few, self.share), _LEAST_CHANCE)
        if chance >= 0.5:
            return Fraction(1)
        # Three digits, so that a file and a ledger can hold it.
        digits = Context(prec=3, rounding=ROUND_CEILING)
        return Fraction(digits.create_decimal(Decimal(up(chance / (1 - chance)))))


def honest_share(honest: float) -> HonestShare | None:
    """Return the share that a person has written, as the decimal that it is; none where all are.

    >>> honest_share(0.9), honest_share(1.0)
    (HonestShare(share=Fraction(9, 10), reading='independent'), None)
    """
    share = Fraction(repr(checks.share("honest share", honest, least=1e-3, most=1.0)))
    return None if share == 1 else HonestShare(share)


def needed_reports(
    users: int, honest: HonestShare | None, *, contributions: int, rounds: int, delta: float
) -> int:
    """Return for how many reports a release waits, so that shortfalls take little of ``delta``.

    >>> needed_reports(1000, honest_share(0.9), contributions=1, rounds=1, delta=1e-6)
    1190
    """
    if honest is None:
        return users * contributions
    steps = 1 if contributions == 1 else contributions * _LATER_STEPS
    allowed = max(Fraction(delta) * _PART_OF_DELTA / (rounds * steps), Fraction(_LEAST_CHANCE) * 2)

    def enough(reports: int) -> bool:
        chance = honest.shortfall(users=users, reports=reports, contributions=contributions)
        return chance <= allowed

    # On average enough are honest from here on; with one less, never.
    few = math.ceil(users * contributions / honest.share)
    many = few
    while not enough(many):
        many *= 2
    return many if many == few else bisect_whole(enough, good=many, bad=few)


def _chernoff(trials: Fraction, few: Fraction, share: Fraction) -> float:
    """Return (h·m/s)^s·((1−h)·m/(m−s))^(m−s), rounded up, where s < h·m."""
    rest = trials - few
    gain = float(few) * _logarithm(share * trials / few) if few else 0.0
    loss = float(rest) * _logarithm((1 - share) * trials / rest)
    exponent = gain + loss + _ROUNDOFF * (gain - loss)
    return min(up(math.exp(min(exponent, 0.0)) * (1 + 1e-14)), 1.0)


def _logarithm(ratio: Fraction) -> float:
    """Return ln(ratio), off by at most a few roundings of itself, however near to 1 it is."""
    beyond = ratio - 1
    near = abs(beyond) < Fraction(1, 2)
    return math.log1p(float(beyond)) if near else math.log(float(ratio))
