"""Proven bounds on the right tail of a tally. The left tail is that of the mirrored noise.

Two tools. ``critical_tally`` sums the exact law for one true count, with every error of
arithmetic and truncation added to the tail. ``rejected`` needs no law at all: it inverts
closed bounds (Chernoff with the exact cumulant, and Berry–Esseen with its proven
constant) for a million tallies at once, and is what remains where laws are too long.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import special

from chaffinch.planning.noise import Floats, Noise
from chaffinch.privacy import laws
from chaffinch.privacy.laws import Law
from chaffinch.privacy.precision import Wide, gamma

STEPS = 150
"""A long law is summed on a lattice with this many points per standard deviation."""

PRODUCTS = 1_000_000
"""Up to this many multiplications the lattice is that of the integers."""

LYAPUNOV = 0.5600
"""Berry–Esseen for independent, unequal terms [Shevtsova 2010, Doklady Math. 82(3), 862–864]."""


def critical_tally(noise: Noise, held: int, reports: int, tail: float) -> int:
    """Return a tally c with P[S ≥ c] ≤ ``tail`` when ``held`` of ``reports`` hold the value.

    It is the least such c where the parts of the law are short. Longer parts are first
    rounded up to a lattice, which moves c up by less than a step per part: the answer
    stays proven and costs at most 3/``STEPS`` of a standard deviation.
    """
    cut = Wide(tail) * Wide(1e-4)
    trials = (
        (noise.copies * held, noise.hit),
        (noise.copies * (reports - held), noise.miss),
        (noise.cover_slots * reports, noise.cover),
    )
    parts = [_binomial(count, chance, cut) for count, chance in trials]
    step = 1
    if math.prod(sorted(len(part.mass) for part in parts)[1:]) > PRODUCTS:
        step = math.ceil(math.sqrt(float(noise.tally_variance(held, reports))) / STEPS)
    total, offset = laws.point(0), 0
    for part in parts:
        total = laws.convolve(total, _rounded_up(part, step), most_products=1 << 62)
        offset += part.start + (step - 1) * (len(part.mass) > 1)
    above = np.cumsum(total.mass[::-1])[::-1]
    above = above * (1 + 2 * (total.relative + gamma(len(above) + 4.0))) + total.missing
    # Lattice point i stands for the tally offset + step·i; `first` points are too likely.
    first = int(np.count_nonzero(above > Wide(tail)))
    return offset + step * (first - 1) + 1


def _binomial(count: int, chance: Fraction, cut: object) -> Law:
    """Return a window that is not kept: hardly any is asked for twice, and they are large."""
    return laws.binomial.__wrapped__(count, chance, cut)


def _rounded_up(law: Law, step: int) -> Law:
    """Return the masses of blocks of ``step`` integers, each meant to sit at its block's top."""
    mass = law.mass
    if step > 1 and len(mass) > 1:
        padding = np.zeros(-len(mass) % step, dtype=Wide)
        mass = np.concatenate([mass, padding]).reshape(-1, step).sum(axis=1)
    return Law(0, mass, law.relative + 2 * gamma(float(step)), law.missing)


def rejected(noise: Noise, tallies: NDArray[np.int64], reports: int, tail: float) -> Floats:
    """Return, per tally s, a count h (or −1) with P[S ≥ s] ≤ ``tail`` proven for h and below.

    S grows with h in the stochastic order, so the bound need only be shown at h itself.
    """
    seen = tallies.astype(np.float64)
    best = np.maximum(
        _by_chernoff(noise, seen, reports, tail), _by_normal(noise, seen, reports, tail)
    )
    # Room for the rounding of the formulas: far more than they lose, far less than matters.
    best = np.floor(best - 1e-6 - 1e-13 * noise.largest(reports) / float(noise.slope))
    return np.clip(best, -1.0, float(reports))


def _by_chernoff(noise: Noise, seen: Floats, reports: int, tail: float) -> Floats:
    """Return the largest h with E[exp(t·S)]·exp(−t·s) ≤ tail, searching t > 0 for the best.

    With A, B, C the logarithms of 1 + θ(e^t − 1) for hit, miss and cover, the cumulant is
    copies·(h·A + (n − h)·B) + slots·n·C: linear in h, so each t gives h at once. Every t
    gives a valid h; a golden-section search finds nearly the best.
    """
    wanted = math.log(tail)
    spread = math.sqrt(float(noise.tally_variance([0, reports], reports).max()))
    middle = math.log(math.sqrt(-2.0 * wanted) / (spread + 1.0))
    chances = [float(chance) for chance in (noise.hit, noise.miss, noise.cover)]

    def reached(log_tilt: Floats) -> Floats:
        tilt = np.exp(np.minimum(log_tilt, 4.0))
        yes, no, decoy = (np.log1p(chance * np.expm1(tilt)) for chance in chances)
        rest = reports * (noise.copies * no + noise.cover_slots * decoy)
        return np.asarray((tilt * seen + wanted - rest) / (noise.copies * (yes - no)))

    left, right = np.full_like(seen, middle - 3.0), np.full_like(seen, max(middle + 3.0, 4.0))
    best = np.maximum(reached(left), reached(right))
    for _ in range(24):
        third = 0.3819660112501051 * (right - left)
        low, high = reached(left + third), reached(right - third)
        best = np.maximum(best, np.maximum(low, high))
        left, right = (
            np.where(low < high, left + third, left),
            np.where(low < high, right, right - third),
        )
    return best


def _by_normal(noise: Noise, seen: Floats, reports: int, tail: float) -> Floats:
    """Return an h with Φ(−(s − mean)/sd) + error ≤ tail, or −1 where the error is too large.

    A bit of chance θ has third absolute moment θ(1 − θ)(θ² + (1 − θ)²), at most its
    variance, so the Lyapunov fraction is below 1/sd.
    """
    least, most = np.sort(noise.tally_variance([0, reports], reports))
    error = LYAPUNOV / math.sqrt(least) if least > 0 else math.inf
    if not error < 0.9 * tail:
        return np.full_like(seen, -1.0)
    quantile = -float(special.ndtri((tail - error) * (1 - 1e-9)))
    base, slope = float(noise.base(reports)), float(noise.slope)
    held = (seen - base - quantile * math.sqrt(most)) / slope
    for _ in range(6):
        # From the largest sd down: each step keeps (s − mean)/sd at or above the quantile
        # or is undone by the check below.
        spread = np.sqrt(noise.tally_variance(np.clip(held, 0.0, float(reports)), reports))
        held = (seen - base - quantile * spread) / slope
    held = np.clip(np.floor(held), -1.0, float(reports))
    spread = np.sqrt(noise.tally_variance(np.maximum(held, 0.0), reports))
    sound = seen - base - slope * held >= quantile * spread
    return np.where(sound & (held >= 0.0), held, -1.0)
