"""Whole words of bits, each bit flipped with q: the laws that the record and column views need.

A crowd of N words of L bits is flipped and shuffled; the target holds x₀ or x₁. Write
ρ = p/q, E = e^ε, and let D(v) = R₀(v) − E·R₁(v) be what output v says about the target.
Every law here is that of one variable X such that δ is, or is at most, E[(X₁+…+X_N)₊]/N:

* *assumed pair* (S4 III = S1 6.10): all others hold x₀ and x₁ is its complement. Then
  X = D(v)/R₀(v) with v ~ R₀: the value depends on the number y ~ Bin(L, q) of flipped bits.
* *blanket*: whatever the others hold, each sends any v with chance at least q^L. So
  X = D(v)/q^L with chance q^L for each v, else 0. Only how v differs from x₀ counts: in y of
  the h bits in which x₀ and x₁ differ, and in c of the L − h others.

Why these sums bound δ is told in docs/concepts/privacy-blanket.md.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb

from chaffinch.privacy.precision import log_of

Law = tuple[list[Fraction], list[Fraction]]
"""Values and their probabilities, exact."""

_DIGITS = decimal.Context(prec=60)


def growth(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return rationals just below and just above e^epsilon (the decimal is correctly rounded)."""
    if epsilon == 0:
        return Fraction(1), Fraction(1)
    nearest = _DIGITS.exp(decimal.Decimal(epsilon))
    return Fraction(_DIGITS.next_minus(nearest)), Fraction(_DIGITS.next_plus(nearest))


@dataclass(frozen=True)
class Words:
    """Words of ``length`` bits, each flipped with ``flip``."""

    length: int
    flip: Fraction

    @cached_property
    def odds(self) -> list[Fraction]:
        """Return (p/q)^j for j = 0 … length."""
        ratio = (1 - self.flip) / self.flip
        powers = [Fraction(1)]
        for _ in range(self.length):
            powers.append(powers[-1] * ratio)
        return powers

    @cached_property
    def local_epsilon(self) -> float:
        """Return length · ln(p/q), rounded up."""
        return log_of(self.odds[-1])[1]

    @cached_property
    def flipped_bits(self) -> list[Fraction]:
        """Return the law of the number of flipped bits, Bin(length, q)."""
        least = self.flip**self.length
        size = self.length
        return [comb(size, y) * least * self.odds[size - y] for y in range(size + 1)]

    @cached_property
    def ratios(self) -> list[Fraction]:
        """Return complement over word, (p/q)^(2y − L), by the number y of flipped bits."""
        powers = [*(1 / power for power in reversed(self.odds[1:])), *self.odds]
        return powers[::2]

    def alone(self, growth: Fraction) -> Fraction:
        """Return δ of one word against its complement with no crowd at all.

        It bounds δ with any crowd and any pair: more records, and fewer differing bits, are
        views of this one.
        """
        pairs = zip(self.flipped_bits, reversed(self.flipped_bits), strict=True)
        return sum((max(Fraction(0), one - growth * two) for one, two in pairs), Fraction(0))

    def assumed(self, growth: Fraction) -> tuple[Law, Law]:
        """Return the laws of R − E and 1 − E·R: complement over word, and the other order."""
        chances = self.flipped_bits
        upward = [ratio - growth for ratio in self.ratios]
        downward = [1 - growth * ratio for ratio in self.ratios]
        return (upward, chances), (downward, chances)

    def blanket(self, distance: int, growth: Fraction) -> Law:
        """Return the law of the blanket's variable for words that differ in ``distance`` bits."""
        common, least = self.length - distance, self.flip**self.length
        values, chances = [Fraction(0)], [1 - (2 * self.flip) ** self.length]
        for y in range(distance + 1):
            told = self.odds[distance - y] - growth * self.odds[y]
            for c in range(common + 1):
                values.append(self.odds[common - c] * told)
                chances.append(comb(distance, y) * comb(common, c) * least)
        return values, chances
