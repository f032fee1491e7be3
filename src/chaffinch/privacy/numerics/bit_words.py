"""Whole words of bits, each bit flipped with q: the laws that the record and column views need.

A crowd of N words of L bits is flipped and shuffled; the target holds x₀ or x₁. Write
ρ = p/q, E = e^ε, and let D(v) = R₀(v) − E·R₁(v) be what output v says about the target.
Every law here is that of one variable X such that δ is, or is at most, E[(X₁+…+X_N)₊]/N:

* *assumed pair* (S4 III = S1 6.10): all others hold x₀ and x₁ is its complement. Then
  X = D(v)/R₀(v) with v ~ R₀: the value depends on the number y ~ Bin(L, q) of flipped bits.
* *complements*: all others hold the complement of x₀: the same, with R of their word.
* *blanket*: whatever the others hold, each sends any v with chance at least q^L. So
  X = D(v)/q^L with chance q^L for each v, else 0. Only how v differs from x₀ counts: in y of
  the h bits in which x₀ and x₁ differ, and in c of the L − h others.

Why these sums bound δ is told in docs/concepts/privacy-blanket.md. ``SmallCrowds`` counts
out, by brute force, a few crowds that the assumed pair misses: a better lower end where the
crowd is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb

import numpy as np

from chaffinch.privacy.numerics.precision import Floats, down, log_of
from chaffinch.privacy.numerics.sums import FiniteLaw

_MOST_CELLS = 5000
_LEAST = 1e-280
"""Smaller chances may have lost digits to underflow; leaving a cell out only lowers the end."""


@dataclass(frozen=True)
class BitWords:
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
        # q^y·p^(L−y) = q^L·(p/q)^(L−y), exactly.
        return [comb(size, y) * least * self.odds[size - y] for y in range(size + 1)]

    @cached_property
    def ratios(self) -> list[Fraction]:
        """Return complement over word, (p/q)^(2y − L), by the number y of flipped bits."""
        # (p/q)^j from j = −L to L, every second one: a flip leaves one word and joins the other.
        powers = [*(1 / power for power in reversed(self.odds[1:])), *self.odds]
        return powers[::2]

    def alone(self, growth: Fraction) -> Fraction:
        """Return δ of one word against its complement with no crowd at all.

        It bounds δ with any crowd and any pair: more records, and fewer differing bits, are
        views of this one.
        """
        # y flips away from the word are L − y away from its complement: mirrored laws.
        pairs = zip(self.flipped_bits, reversed(self.flipped_bits), strict=True)
        return sum((max(Fraction(0), one - growth * two) for one, two in pairs), Fraction(0))

    def assumed(self, growth: Fraction) -> tuple[FiniteLaw, FiniteLaw]:
        """Return the laws of R − E and 1 − E·R: complement over word, and the other order."""
        chances = self.flipped_bits
        upward = [ratio - growth for ratio in self.ratios]
        downward = [1 - growth * ratio for ratio in self.ratios]
        return (upward, chances), (downward, chances)

    def complements(self, distance: int, growth: Fraction) -> FiniteLaw:
        """Return the law where all others hold the complement of the target's first word.

        It is exact for this crowd. The target's words differ in ``distance`` bits, and in the
        others the crowd is unlike both: X = D(v)/R(v) with v drawn from the law R of its word.
        """
        values, chances, shared = [], [], self.length - distance
        for y in range(distance + 1):
            # Of the first word y bits are flipped, and of the second the others.
            one, two = self._chance(y, distance), self._chance(distance - y, distance)
            for c in range(shared + 1):
                told, hidden = self._chance(c, shared), self._chance(shared - c, shared)
                values.append((one - growth * two) * told / (two * hidden))
                chances.append(comb(distance, y) * comb(shared, c) * two * hidden)
        return values, chances

    def _chance(self, flipped: int, size: int) -> Fraction:
        return self.flip**flipped * (1 - self.flip) ** (size - flipped)

    def blanket(self, distance: int, growth: Fraction) -> FiniteLaw:
        """Return the law of the blanket's variable for words that differ in ``distance`` bits."""
        common, least = self.length - distance, self.flip**self.length
        # Each of the 2^L outputs is covered with chance q^L; what is left reveals its record.
        values, chances = [Fraction(0)], [1 - (2 * self.flip) ** self.length]
        for y in range(distance + 1):
            told = self.odds[distance - y] - growth * self.odds[y]
            # D(v)/q^L: bits that both words share multiply what either of them would tell.
            for c in range(common + 1):
                values.append(self.odds[common - c] * told)
                chances.append(comb(distance, y) * comb(common, c) * least)
        return values, chances


@dataclass(frozen=True)
class SmallCrowds:
    """Crowds of ``records`` − 1 other words that are small enough to be counted out.

    The others hold the zero word except for a few, which hold one other word of w set bits;
    the target holds zero or all ones. Outputs that agree in the number of set bits inside and
    outside those w places say the same, so the view is the number of outputs of each of the
    (w+1)(L−w+1) kinds, a table small enough to be filled in.
    """

    records: int
    length: int
    flip: Fraction

    def delta(self, growth: Fraction) -> float:
        """Return a number at or below the largest δ of these crowds at e^ε = growth."""
        # Rounded up, as the second law is: everything here may only lower the result.
        ratio = float(growth) * (1 + 2.0**-52)
        best = 0.0
        for zero, full in self._laws:
            for first, second in ((zero, full), (full, zero)):
                doubt = self._doubt(len(first))
                excess = first * (1 - doubt) - ratio * second * (1 + doubt)
                # An underflow in the second law would make an outcome look better than it is.
                excess[second < _LEAST] = 0.0
                best = max(best, float(np.sum(np.maximum(excess, 0.0))) * (1 - doubt))
        return down(best)

    def _doubt(self, cells: int) -> float:
        """Bound the relative error of a cell, and of the sum of all of them.

        Every cell is made of positive terms: per record one product and at most one sum for
        each kind, of chances that are nearest floats.
        """
        kinds = (self.length + 1) ** 2
        return (self.records * (kinds + 4) + cells + 8) * 2.0**-53

    @cached_property
    def _laws(self) -> list[tuple[Floats, Floats]]:
        found = []
        others = self.records - 1
        for weight in range(1, self.length + 1):
            kinds = (weight + 1) * (self.length - weight + 1)
            if (self.records + 1) ** (kinds - 1) > _MOST_CELLS:
                continue
            zero, word, full = (self._row(weight, held) for held in ("zero", "word", "full"))
            # Any crowd gives a valid lower end; these are few, and differ much from one another.
            for moved in sorted({1, 2, others // 2}):
                if not 1 <= moved <= others:
                    continue
                crowd = self._law([zero] * (others - moved) + [word] * moved)
                found.append((_plus(crowd, zero).ravel(), _plus(crowd, full).ravel()))
        return found

    def _row(self, weight: int, held: str) -> Floats:
        """Return the chances of the kinds (set inside, set outside) for one held word."""
        inside = self.flip if held == "zero" else 1 - self.flip
        outside = 1 - self.flip if held == "full" else self.flip
        rest = self.length - weight
        chances = [
            _binomial(weight, i, inside) * _binomial(rest, j, outside)
            for i in range(weight + 1)
            for j in range(rest + 1)
        ]
        return np.array([float(chance) for chance in chances])

    def _law(self, rows: list[Floats]) -> Floats:
        """Return the chance of every table of counts; the last kind's count is what is left."""
        kinds = (len(rows[0]) if rows else 1) - 1
        # One axis for each kind but the last, from 0 to all records.
        law = np.zeros((self.records + 1,) * kinds)
        law[(0,) * kinds] = 1.0
        for row in rows:
            law = _plus(law, row)
        return law


def _plus(law: Floats, row: Floats) -> Floats:
    """Return the law with one more word. No count can pass the edge of the table."""
    out: Floats = law * row[-1]
    for kind, chance in enumerate(row[:-1]):
        into = (slice(None),) * kind + (slice(1, None),)
        before = (slice(None),) * kind + (slice(None, -1),)
        out[into] += chance * law[before]
    return out


def _binomial(trials: int, hits: int, chance: Fraction) -> Fraction:
    return comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits)
