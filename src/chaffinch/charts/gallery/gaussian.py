"""Gaussian curves and tensor powers of a shifted binomial: what figures of f-DP compare with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.laws import binomial
from chaffinch.privacy.numerics.precision import Floats

_LOSS_STEP = 2e-4


def gaussian_deltas(mu: float, epsilons: Floats) -> Floats:
    """Return δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) [Balle and Wang 2018] at each epsilon."""
    # As logarithms: both terms are far below the smallest double where the curve still has a place.
    first = special.log_ndtr(-epsilons / mu + mu / 2)
    second = epsilons + special.log_ndtr(-epsilons / mu - mu / 2)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))


def gaussian_tradeoff(mu: float, alphas: Floats) -> Floats:
    """Return G_μ(α) = Φ(Φ⁻¹(1 − α) − μ)."""
    return np.asarray(special.ndtr(-special.ndtri(alphas) - mu))


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedTensor:
    """S3 Theorem 3 before its curve is drawn: the losses of several rounds, and their masses.

    One round is C against C + 1, C ~ Bin(n, q); independent rounds add their losses. These are
    rounded to a grid and added by a Fourier transform, whose error of about 1e-16 is in every
    mass: good for a picture of a claim, and not for a guarantee.
    """

    losses: Floats
    first: Floats
    """Masses under C, in which a loss is infinite with chance ``infinite``."""
    second: Floats
    """Masses under C + 1."""
    infinite: float

    @classmethod
    def of(cls, *, users: int, flip_probability: Fraction, times: int) -> ShiftedTensor:
        """Return that of ``times`` rounds."""
        law = binomial(users, flip_probability, 1e-40)
        q = float(flip_probability)
        sums = np.arange(max(law.start, 1), law.stop, dtype=np.float64)
        # ln P[C = s]/P[C = s − 1]; the sum 0 has an infinite loss and is counted apart.
        losses = np.log((users - sums + 1) / sums * q / (1 - q))
        mass = law.mass.astype(np.float64)[-len(sums) :]
        places = np.round(losses / _LOSS_STEP).astype(np.int64)
        lowest = int(places.min())
        grid = np.bincount(places - lowest, weights=mass).astype(np.float64)
        length = times * (len(grid) - 1) + 1
        size = 1 << (length - 1).bit_length()
        power = np.fft.irfft(np.fft.rfft(grid, size) ** times, size)[:length]
        # What the transform leaves where nothing is must not be blown up by e^−loss.
        seen = np.flatnonzero(power > 1e-15 * power.max())
        total = np.asarray((seen + times * lowest) * _LOSS_STEP, dtype=np.float64)
        never = (1.0 - q) ** users
        infinite = -math.expm1(times * math.log1p(-never))
        first = np.asarray(power[seen], dtype=np.float64)
        return cls(total, first, np.asarray(first * np.exp(-total)), infinite)

    def tradeoff(self, alphas: Floats) -> Floats:
        """Return the type II error at each level: large losses are called for the first law."""
        level = np.concatenate([[0.0], np.cumsum(self.second[::-1])])
        power = np.concatenate([[0.0], np.cumsum(self.first[::-1])]) + self.infinite
        return np.asarray(np.clip(1.0 - np.interp(alphas, level, power), 0.0, 1.0))

    def deltas(self, epsilons: Floats) -> Floats:
        """Return E[(1 − e^(ε − loss))₊] at each epsilon, infinite losses included."""
        found = []
        for epsilon in epsilons:
            above = self.losses > epsilon
            parts = self.first[above] * -np.expm1(epsilon - self.losses[above])
            found.append(float(parts.sum()) + self.infinite)
        return np.array(found)
