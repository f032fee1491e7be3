"""The law of what covers signed decoys: bursts of pairs, and pairs of opposite noise.

W = F + G, where F is a sum of bursts (bursts of k pairs come at rate λ_k, k = 1 … K) and G is
geometric with ratio b. The logarithmic derivative of its generating function gives

    u·w(u) = Σ_k (k·λ_k + b^k)·w(u − k),

all terms positive: nothing cancels, and every mass is known to a small share of itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from chaffinch.privacy.numerics.laws import Law
from chaffinch.privacy.numerics.precision import Floats, Wide, WideArray, gamma, wide, wide_exp

_TILTS = 400


@dataclass(frozen=True)
class Flood:
    """Rates of bursts of 1, 2, … pairs, and the ratio b of the geometric pairs."""

    rates: tuple[Fraction, ...]
    ratio: Fraction

    def growth(self) -> Fraction:
        """Return a c with w(u) ≤ c·w(u − 1) for every u ≥ 1, exactly.

        With θ_k = (k·λ_k + b^k)/c^k the masses v(u) = w(u)/c^u obey u·v(u) = Σ θ_k·v(u − k).
        If θ₁ ≤ 1 and no θ_k is larger than the one before, the line for u minus the line for
        u − 1 gives u·v(u) − (u − 1)·v(u − 1) ≤ v(u − 1): v never rises. The smallest such c
        is the largest of these quotients.
        """
        weights = [k * rate + self.ratio**k for k, rate in enumerate(self.rates, start=1)]
        weights = [Fraction(1), *weights, self.ratio ** (len(weights) + 1)]
        pairs = zip(weights[1:], weights[:-1], strict=True)
        return max(self.ratio, *(after / before for after, before in pairs))

    def window(self, tail: Any) -> int:
        """Return a T with P[W ≥ T] ≤ tail, by Chernoff's bound."""
        rates, sizes = self._floats()
        least = math.log(1 / float(self.ratio))
        # Any tilt gives a bound; e^(tilt·K) must stay a float.
        most = min(least, 300.0 / len(sizes)) if len(sizes) else least
        tilts = np.geomspace(1e-7, 1.0, _TILTS)[:-1] * most
        bursts = np.expm1(np.outer(tilts, sizes)) @ rates
        ratio = float(self.ratio)
        pairs = math.log1p(-ratio) - np.log(-np.expm1(tilts - least))
        places = (bursts + pairs - float(np.log(Wide(tail)))) / tilts
        # A millionth more than asked covers the rounding of these logarithms.
        return math.ceil(float(places.min()) * (1 + 1e-6)) + 2

    def law(self, tail: Any, *, beyond: int = 0) -> Law:
        """Return the law of W up to a window of ``tail``, and ``beyond`` masses after it.

        Masses after the window are at the end of the stretch; ``missing`` is P[W ≥ window].
        """
        mass, relative = _masses(self, self.window(tail) + beyond)
        return Law(0, mass, relative, Wide(tail))

    def _floats(self) -> tuple[Floats, Floats]:
        rates = np.array([float(rate) for rate in self.rates])
        return rates, np.arange(1.0, len(rates) + 1)

    def bursts(self, size: int) -> tuple[WideArray, Any]:
        """Return the law of F alone and its relative error."""
        steps = np.array([wide(k * rate) for k, rate in enumerate(self.rates, start=1)], dtype=Wide)
        mass = np.zeros(size, dtype=Wide)
        mass[0] = wide_exp(-sum(self.rates, Fraction(0)))
        for place in range(1, size):
            known = mass[max(place - len(steps), 0) : place][::-1]
            mass[place] = (steps[: len(known)] * known).sum() / place
        return mass, gamma((len(steps) + 6.0) * (size + 1))


@lru_cache(maxsize=16)
def _masses(flood: Flood, size: int) -> tuple[WideArray, Any]:
    """Return w(0 … size − 1) and the relative error that each of them has at most."""
    mass, relative = flood.bursts(size)
    ratio, rest = wide(flood.ratio), wide(1 - flood.ratio)
    for place in range(size):
        before = mass[place - 1] if place else Wide(0)
        mass[place] = ratio * before + rest * mass[place]
    mass.setflags(write=False)
    return mass, relative + gamma(8.0 * (size + 1))
