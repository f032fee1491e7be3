"""Small crowds counted out: a lower end that the assumed pair alone would miss.

The others hold the zero word except for a few, which hold one other word of w set bits; the
target holds zero or all ones. Outputs that agree in the number of set bits inside and outside
those w places say the same, so the view is the number of outputs of each of the
(w+1)(L−w+1) kinds, a table small enough to be filled in while the crowd is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb

import numpy as np

from chaffinch.privacy.mechanism import Floats
from chaffinch.privacy.precision import down

_MOST_CELLS = 5000
_LEAST = 1e-280
"""Smaller chances may have lost digits to underflow; leaving a cell out only lowers the end."""


@dataclass(frozen=True)
class FewWords:
    """Crowds of ``records`` − 1 other words that are small enough to be counted out."""

    records: int
    length: int
    flip: Fraction

    def delta(self, growth: Fraction) -> float:
        """Return a number at or below the largest δ of these crowds at e^ε = growth."""
        ratio = float(growth) * (1 + 2.0**-52)
        best = 0.0
        for zero, full in self._laws:
            for first, second in ((zero, full), (full, zero)):
                doubt = self._doubt(len(first))
                excess = first * (1 - doubt) - ratio * second * (1 + doubt)
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
        """Return the laws of the view for target zero and target all ones, crowd by crowd."""
        found = []
        others = self.records - 1
        for weight in range(1, self.length + 1):
            kinds = (weight + 1) * (self.length - weight + 1)
            if (self.records + 1) ** (kinds - 1) > _MOST_CELLS:
                continue
            zero, word, full = (self._row(weight, held) for held in ("zero", "word", "full"))
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
