"""Discrete Gaussian noise, and sums of it: masses with proven errors.

The noise of one count has masses like e^(−z²/2σ²) on the whole numbers [Canonne, Kamath and
Steinke 2020]. A sum of m independent ones is not quite of this form; where σ is not small it
nearly is. Let S be the sum of k of them, with masses like e^(−s²/2kσ²) up to a factor, and Z one
more. Then

    −(s − z)²/2kσ² − z²/2σ² = −s²/2(k + 1)σ² − (z − s/(k + 1))²/2v,   v = kσ²/(k + 1) ≥ σ²/2,

and by Poisson's formula the sum over z of the last term is √(2πv) up to a factor between 1 ± θ,
with θ = 2·Σ e^(−2π²vj²) over j ≥ 1. So the law of the sum is e^(−s²/2mσ²), normalised, up to a
factor of ((1 + θ)/(1 − θ))^(m − 1): for σ ≥ 2.5 that is a relative error below m·1e-25.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from chaffinch.privacy.numerics import laws
from chaffinch.privacy.numerics.laws import Law
from chaffinch.privacy.numerics.precision import Wide, WideArray, gamma, wide

_SMOOTH = Fraction(5, 2)
"""From this scale on sums are taken for Gaussian, and the difference for an error."""
_WIDE = 4
"""From this variance on masses are normalised by √(2πV), off by less than 1e-33 of itself."""
_TWO_PI = wide(Fraction("6.28318530717958647692528676655900576839433879875021164194989"))
_SHORT_TAIL = 1e-300
"""What windows of convolved laws leave out, each."""


@dataclass(frozen=True)
class GaussianSum:
    """The sum of ``count`` independent numbers with masses like e^(−z²/2·scale²).

    >>> law = GaussianSum(2, Fraction(3))
    >>> mass, relative = law.masses(0, 1)
    >>> f"{float(mass[0]):.4f}", bool(relative < 1e-15)
    ('0.0940', True)
    """

    count: int
    scale: Fraction

    @property
    def variance(self) -> Fraction:
        """Return count·scale²: above the variance, by next to nothing where the scale is 1."""
        return self.count * self.scale**2

    @property
    def normaliser(self) -> Any:
        """Return the sum of e^(−z²/2V) over all whole numbers."""
        return _normaliser(self.variance)[0]

    @property
    def relative(self) -> Any:
        """Return how far masses like e^(−z²/2V), normalised, are off, relatively."""
        relative = _normaliser(self.variance)[1]
        if self.count == 1:
            return relative
        # (1 + θ)/(1 − θ) for every sum, and θ ≤ 2.1·e^(−π²σ²) for v ≥ σ²/2.
        return relative + self.count * Wide(9) * np.exp(-Wide(9.8) * wide(self.scale**2))

    def masses(self, first: int, size: int) -> tuple[WideArray, Any]:
        """Return the masses from ``first`` on, and how far each may be off, relatively."""
        if self.count > 1 and self.scale < _SMOOTH:
            return self._summed_masses(first, size)
        places = first + np.arange(size, dtype=Wide)
        exponents = places * places / (2 * wide(self.variance))
        most = float(exponents.max(initial=0.0))
        # An exponent is off by a few roundoffs of itself, which are a part of the mass.
        relative = self.relative + gamma(10.0 + 8.0 * most)
        return np.exp(-exponents) / self.normaliser, relative

    def _summed_masses(self, first: int, size: int) -> tuple[WideArray, Any]:
        law = self._short
        found = np.zeros(size, dtype=Wide)
        left, right = max(first, law.start), min(first + size, law.stop)
        if left < right:
            found[left - first : right - first] = law.mass[left - law.start : right - law.start]
        return found, law.relative

    @cached_property
    def _short(self) -> Law:
        """Return the law of a sum, convolved: of a small scale it is short."""
        return _power(self.count, self.scale)

    def reach(self, start: int, tail: float) -> int:
        """Return a place from ``start`` ≥ 0 on behind which next to nothing is left of the rest."""
        if self.count > 1 and self.scale < _SMOOTH:
            return max(self._short.stop, start + 1)
        # From the exponent at the start, so much more: the rest is below ``tail`` times as likely.
        return math.ceil(math.hypot(start, self.window(tail)))

    def window(self, tail: float) -> int:
        """Return a t with e^(−t²/2V) ≤ ``tail``."""
        return math.ceil(math.sqrt(-2.0 * math.log(tail) * float(self.variance))) + 1

    def beyond(self, last: int) -> Any:
        """Return an upper end of P[S > ``last``], for ``last`` ≥ 0."""
        if self.count > 1 and self.scale < _SMOOTH:
            law = self._short
            inside = law.mass[max(last + 1 - law.start, 0) :]
            return inside.sum() * (1 + law.relative + gamma(len(inside) + 2.0)) + law.missing
        (mass,), relative = self.masses(last + 1, 1)
        # Every mass is below the one before by e^(−(2z + 1)/2V) at least.
        fall = -np.expm1(-Wide(2 * last + 3) / (2 * wide(self.variance)))
        return mass * (1 + relative) / fall * (1 + gamma(12.0))

    def law(self, tail: float) -> Law:
        """Return the law on a window that misses at most ``tail`` in all."""
        last = self.reach(0, tail / 8)
        while (missing := 2 * self.beyond(last)) > tail:
            last = math.ceil(1.1 * last) + 1
        mass, relative = self.masses(-last, 2 * last + 1)
        return Law(-last, mass, relative, missing)


@lru_cache(maxsize=256)
def _normaliser(variance: Fraction) -> tuple[Any, Any]:
    """Return Σ e^(−z²/2V) over all whole numbers, and how far it is off, relatively."""
    spread = wide(variance)
    if variance >= _WIDE:
        return np.sqrt(_TWO_PI * spread), gamma(8.0) + Wide(1e-33)
    places = np.arange(1, 64, dtype=Wide)
    exponents = places * places / (2 * spread)
    # What is left out is below e^(−512) for V ≤ 4.
    return 1 + 2 * np.exp(-exponents).sum(), gamma(80.0) + Wide(1e-200)


@lru_cache(maxsize=64)
def _power(count: int, scale: Fraction) -> Law:
    """Return the law of a sum of ``count``, by squaring: all products are summed directly."""
    if count == 1:
        return GaussianSum(1, scale).law(_SHORT_TAIL)
    half = _power(count // 2, scale)
    found = laws.convolve(half, half, most_products=1 << 62)
    if count % 2:
        found = laws.convolve(found, _power(1, scale), most_products=1 << 62)
    # P[S ≥ t] ≤ e^(−t²/2V), as for a Gaussian [Canonne, Kamath and Steinke 2020, proposition 25].
    last = GaussianSum(count, scale).window(_SHORT_TAIL)
    if -found.start <= last:
        return found
    kept = found.mass[-last - found.start : last + 1 - found.start]
    return Law(-last, kept, found.relative, found.missing + 4 * Wide(_SHORT_TAIL))
