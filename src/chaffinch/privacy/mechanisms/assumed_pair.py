"""The sources' worst pair: all others hold one word, the target holds it or its complement.

The loss depends only on how many of the released words have y flipped bits (S1 6.10 = S4 III):
R = (1/N) Σ_y (p/q)^(2y−L) g_y with g ~ Multinomial(N, Bin(L, q)), a mean of N independent
variables with L + 1 values. So δ = E[(R − e^ε)₊] one way and E[(1 − e^ε R)₊] the other, both
certified. That this pair is the worst is an assumption, and false in places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.numerics.bit_words import BitWords
from chaffinch.privacy.numerics.precision import Floats, down, exp_ends
from chaffinch.privacy.numerics.roots import find_crossing, find_crossing_below
from chaffinch.privacy.numerics.sums import mean_positive_part

_WIDTHS = ((1000, 1e-9), (10**7, 1e-5), (checks.LARGEST_CROWD, 1e-4))
_ENOUGH, _ROUGH = 1e-5, 1e-3
_BLOCK = 2**16
_MOST_SAMPLES = 10**8


@dataclass(frozen=True)
class AssumedPair:
    """The pair the sources call the worst, among ``records`` words. Never a guarantee."""

    records: int
    words: BitWords

    method: ClassVar[Method] = "worst-pair-assumed"

    def delta(self, epsilon: float, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of this pair's delta, the larger of both directions.

        The relative width asked for by default is 1e-9 up to 1000 words, 1e-5 up to ten
        million and 1e-4 beyond; where it is not reached the bracket is wider and still holds.
        """
        wanted = checks.epsilon(epsilon)
        width = self._width
        if relative_width is not None:
            width = checks.real("relative width", relative_width, least=1e-9, most=0.5)
        if wanted >= self.words.local_epsilon:
            return Bracket(0.0, 0.0)
        below, above = exp_ends(wanted)
        ends = self._ends(below, width)
        lower, upper = max(end.lower for end in ends), min(1.0, max(end.upper for end in ends))
        # Both means move by at most the change of e^ε, since E[R] = 1: next to nothing, as a rule.
        moved = float(above - below)
        if moved <= 1e-13 * lower:
            lower = down(lower - moved)
        else:
            lower = max(end.lower for end in self._ends(above, width))
        return Bracket(min(lower, upper), upper)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon of this pair.

        A first search is content with rough deltas; the last steps are asked precisely. The
        relative width is about 1e-6, and 1e-5 above ten million words.
        """
        wanted = checks.delta(delta)
        local = self.words.local_epsilon
        near = find_crossing(self._rough, wanted, top=local, tolerance=1e-5)[1]
        if near == 0:
            return Bracket(0.0, 0.0)
        cache: dict[float, Bracket] = {}

        def at(epsilon: float) -> Bracket:
            if epsilon not in cache:
                width = _ROUGH if epsilon < 0.5 * near else max(self._width, _ENOUGH)
                cache[epsilon] = self.delta(epsilon, relative_width=width)
            return cache[epsilon]

        def last(curve: Callable[[Bracket], float], top: float) -> tuple[float, float]:
            return find_crossing_below(
                lambda e: curve(at(e)), wanted, top=top, tolerance=1e-7, near=2e-4
            )

        upper = last(lambda bracket: bracket.upper, near)[1]
        return Bracket(last(lambda bracket: bracket.lower, upper)[0], upper)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons, to a relative width of 1e-3."""
        ends = [self.delta(float(e), relative_width=_ROUGH) for e in np.atleast_1d(epsilons)]
        return np.array([b.lower for b in ends]), np.array([b.upper for b in ends])

    @property
    def _width(self) -> float:
        return next(width for most, width in _WIDTHS if self.records <= most)

    def _ends(self, ratio: Fraction, width: float) -> list[Bracket]:
        """Return the larger direction to the width asked, or both when they are close."""
        laws, count = self.words.assumed(ratio), self.records
        # A coarse look at both directions first: as a rule one of them is plainly smaller.
        ends = [mean_positive_part(law, count, relative_width=max(width, 0.05)) for law in laws]
        least = max(end.lower for end in ends)
        return [
            mean_positive_part(law, count, relative_width=width) if end.upper >= least else end
            for law, end in zip(laws, ends, strict=True)
        ]

    def _rough(self, epsilon: float) -> float:
        return self.delta(epsilon, relative_width=_ROUGH).upper


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure from random samples, with all that is needed to draw them again."""

    epsilon: float
    delta: float
    samples: int
    seed: int
    method: Method = "monte-carlo"


def estimate_epsilon(
    records: int, words: BitWords, *, delta: float, samples: int, seed: int
) -> Estimate:
    """Return S4's estimate of the epsilon whose point-wise failure is delta, sign corrected.

    The larger of minus the δ-quantile of ln R(g) and the (1 − δ)-quantile of ln R(g′), where g
    counts N words of the crowd and g′ has the complement in place of one. It estimates the
    point-wise quantity of the assumed pair: neither a bound nor the hockey-stick delta.
    """
    wanted = checks.delta(delta)
    size = checks.whole("number of samples", samples, least=1, most=_MOST_SAMPLES)
    start = checks.whole("seed", seed, most=2**63)
    if size * min(wanted, 1 - wanted) < 1:
        rule = f"at least 1/delta and 1/(1 − delta) to see a quantile at delta = {wanted:g}"
        hint = "assumed_pair().epsilon(delta) is certified and needs no samples"
        raise InvalidInput("number of samples", rule, samples, hint=hint)
    random = np.random.default_rng(start)
    chances = np.array([float(chance) for chance in words.flipped_bits])
    chances /= chances.sum()
    values = np.array([float(ratio) for ratio in words.ratios]) / records
    plain, moved = np.empty(size), np.empty(size)
    for first in range(0, size, _BLOCK):
        block = slice(first, min(first + _BLOCK, size))
        number = block.stop - block.start
        plain[block] = random.multinomial(records, chances, size=number) @ values
        # g′ has the complement in one place: its number of flips, seen from the word, is mirrored.
        target = values[random.choice(len(values), p=chances[::-1], size=number)]
        moved[block] = random.multinomial(records - 1, chances, size=number) @ values + target
    # S4 omits the minus sign of the first quantile.
    low = float(np.quantile(plain, wanted, method="inverted_cdf"))
    high = float(np.quantile(moved, 1.0 - wanted, method="inverted_cdf"))
    return Estimate(max(-float(np.log(low)), float(np.log(high)), 0.0), wanted, size, start)
