"""A local randomizer, shuffled, as laws of its outputs: the covered sums behind every bound.

Let the records of a crowd be covered by a law: every other user's message is, with chance m(v), an
untraceable v (the chances may sum to less than one; the rest is revealed). Then for a target
that holds x₀ or x₁, and n users,

    δ(ε) ≤ (1/n)·E[(Y₁ + … + Y_n)₊] + Σ_{v: m(v)=0} (R₀(v) − e^ε R₁(v))₊,

with Yᵢ independent, Y = (R₀(v) − e^ε R₁(v))/m(v) with chance m(v) and 0 otherwise. It is
exact when nothing is revealed, that is when all others hold the same value. The proof is in
docs/concepts/privacy-blanket.md. The sum is certified by `sums.positive_part_of_sum`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.precision import Floats, down, exp_ends, up
from chaffinch.privacy.numerics.roots import Curve, find_crossing, find_crossing_below
from chaffinch.privacy.numerics.sums import positive_part_of_sum

LARGEST_EPSILON = 2.0**9
_TOLERANCE = 1e-9
_LARGEST_LOCAL = 30.0
"""The largest local epsilon that a randomizer is made for."""
_LARGEST_GROWTH = 2.0**12
"""Beyond this epsilon a table with zeros has its delta from here as upper end, and 0 as lower."""


@dataclass(frozen=True, slots=True)
class CoveredLaw:
    """Outputs as (chance from x₀, chance from x₁, chance of cover), all exact."""

    outputs: tuple[tuple[Fraction, Fraction, Fraction], ...]

    def at(self, growth: Fraction, users: int, width: float) -> Bracket:
        """Return the bracket at e^ε = growth, exactly."""
        values, masses = [Fraction(0)], [1 - sum(cover for _, _, cover in self.outputs)]
        bare = Fraction(0)
        for first, second, cover in self.outputs:
            excess = first - growth * second
            if cover == 0:
                bare += max(excess, Fraction(0))
            else:
                values.append(excess / cover)
                masses.append(cover)
        # δ ≤ (1/n)·E[(ΣY)₊] + bare: the equation at the top of this file.
        part = positive_part_of_sum(values, masses, users, relative_width=width)
        if part.upper == 0 and bare == 0:
            return Bracket(0.0, 0.0)
        # A quotient or a rational too small for a float still is above 0: `up` says so.
        upper = up(up(part.upper / users) + up(bare))
        return Bracket(down(down(part.lower / users) + down(bare)), upper)


def merge_outputs(outputs: Iterable[tuple[Fraction, Fraction, Fraction]]) -> CoveredLaw:
    """Return a law whose outputs differ in their ratios: equal ones say the same of the target.

    Sorting makes laws that differ only in the names of their outputs equal.
    """
    sums: dict[tuple[Fraction, Fraction, bool], list[Fraction]] = {}
    for first, second, cover in outputs:
        scale = cover if cover > 0 else first + second
        if scale == 0:
            continue
        total = sums.setdefault((first / scale, second / scale, cover > 0), [Fraction(0)] * 3)
        for place, value in enumerate((first, second, cover)):
            total[place] += value
    return CoveredLaw(tuple(sorted((a, b, c) for a, b, c in sums.values())))


class ShuffledRandomizer(Mechanism):
    """One message of each user, shuffled: an upper end from blankets, a lower one from crowds.

    ``blankets`` are covered by what every input sends anyway, one law for each pair of inputs
    (or each kind of pairs); ``crowds`` by what all others send who hold one value.
    """

    view = "records"
    method: Method = "upper-bound"

    def __init__(
        self,
        *,
        users: int,
        relative_width: float,
        local_epsilon: float,
        blankets: Sequence[CoveredLaw],
        crowds: Sequence[CoveredLaw],
    ) -> None:
        self.users = checks.people("users", users)
        self.relative_width = checks.real("relative width", relative_width, least=1e-6, most=0.5)
        self._local = local_epsilon
        self._blankets = blankets
        self._crowds = crowds

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        return f"at least {self.users} honest users, the target included, with any values"

    @property
    def local_epsilon(self) -> float:
        """Return the largest ln of a ratio of two inputs' chances of one output, rounded up."""
        return self._local

    @property
    def blanket(self) -> float:
        """Return γ: the chance that a message carries no information about its sender."""
        return float(sum(cover for _, _, cover in self._blankets[0].outputs))

    @property
    def variation(self) -> float:
        """Return the largest total variation distance of two inputs."""
        return max(
            float(sum((max(a - b, Fraction(0)) for a, b, _ in law.outputs), Fraction(0)))
            for law in self._blankets
        )

    def delta(self, epsilon: float) -> Bracket:
        """Return (worst crowd found, privacy blanket) at ``epsilon``."""
        wanted = checks.epsilon(epsilon)
        upper = self._upper(wanted)
        return Bracket(min(self._lower(wanted), upper), upper)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([b.lower for b in ends]), np.array([b.upper for b in ends])

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        wanted = checks.delta(delta)
        return solve_between(self._lower, self._upper, wanted, self._local)

    def _upper(self, epsilon: float) -> float:
        """Return the blanket at e^epsilon rounded down, where delta is larger."""
        if epsilon >= self._local:
            return 0.0
        growth = exp_ends(min(epsilon, _LARGEST_GROWTH))[0]
        ends = [law.at(growth, self.users, self.relative_width) for law in self._blankets]
        return min(1.0, max(end.upper for end in ends))

    def _lower(self, epsilon: float) -> float:
        """Return the worst crowd found, at e^epsilon rounded up: a true lower end."""
        if epsilon >= self._local or epsilon > _LARGEST_GROWTH:
            return 0.0
        growth = exp_ends(epsilon)[1]
        ends = [law.at(growth, self.users, self.relative_width) for law in self._crowds]
        return max(end.lower for end in ends)


def solve_between(lower: Curve, upper: Curve, delta: float, most: float) -> Bracket:
    """Return the bracket of the epsilon where a falling curve, known from both sides, is delta.

    The upper end is an epsilon at which ``upper`` was seen to be at most delta, or ``most``,
    the local epsilon, which may be infinite. The lower end is 0 or an epsilon at which
    ``lower`` was seen to be above delta.
    """
    top = most
    if most <= LARGEST_EPSILON or upper(LARGEST_EPSILON) <= delta:
        last = min(most, LARGEST_EPSILON)
        top = find_crossing(upper, delta, top=last, tolerance=_TOLERANCE)[1]
    if top == 0:
        return Bracket(0.0, 0.0)
    high = min(top, LARGEST_EPSILON)
    low = find_crossing_below(lower, delta, top=high, tolerance=_TOLERANCE, near=1e-3)[0]
    return Bracket(low, top)


def check_local_epsilon(value: object) -> float:
    """Return a local epsilon above 0 and up to 30."""
    asked = checks.real("local epsilon", value, least=0.0, most=_LARGEST_LOCAL)
    if not asked > 0:
        raise InvalidInput("local epsilon", "above 0", value)
    return asked
